"""Writes the manual page msgqueue(3), made from the comments of the header, to standard output.

    python3 bindings/c/manual.py Include/msgqueue.h

Each section of the header is a section of the page: the declarations as they are, each followed by the comment that
stands before it in the header.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# A comment whose line of dashes ends with a number and a title begins a section.
SECTION = re.compile(r"-{10,} \d+\. (.*?)(?: \*/)?$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# What groff would print as another character, or read as a command.
ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})


def main() -> None:
    header = Path(sys.argv[1]).read_text(encoding="utf-8")
    # The "*/" of the first comment ends its last line.
    introduction, _, rest = header.partition("\n */\n#ifndef")
    declarations = rest.partition('extern "C" {\n#endif\n')[2].partition("#ifdef __cplusplus")[0]
    number = ".".join(re.findall(r"^#define MSGQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print("\n".join(page(introduction, declarations, number)))


def page(introduction: str, declarations: str, number: str) -> Iterator[str]:
    """Yields the lines of the page."""
    title = re.search(r"libmsgqueue: an? (.*)\.$", introduction, re.MULTILINE)
    description = re.search(r"^ \*\n(.*?)^ \*\n \* Contents$", introduction, re.MULTILINE | re.DOTALL)
    program = re.search(r"^#include <msgqueue\.h>\n.*^}$", introduction, re.MULTILINE | re.DOTALL)
    rules = re.search(r"-{10,} 1\. Rules for every function\n \*\n(.*)", introduction, re.DOTALL)
    if not (title and description and program and rules):
        raise SystemExit("manual.py: the first comment of the header has another form than expected")
    yield "'\\\" -*- coding: UTF-8 -*-"
    yield '.\\" Made from msgqueue.h by bindings/c/manual.py.'
    yield f'.TH msgqueue 3 "" "libmsgqueue {number}" "Library Functions Manual"'
    # No hyphens in names, and no spaces between words to fill a line.
    yield ".nr HY 0"
    yield ".ad l"
    yield ".SH NAME"
    yield f"msgqueue \\- {escaped(title[1])}"
    yield ".SH SYNOPSIS"
    yield from verbatim("#include <msgqueue.h>\n\ncc program.c $(pkg-config --cflags --libs msgqueue)")
    yield ".SH DESCRIPTION"
    yield from prose(text_lines(description[1]))
    yield ".SH EXAMPLE"
    yield from verbatim(program[0])
    yield ".SH RULES FOR EVERY FUNCTION"
    yield from tagged(text_lines(rules[1]))
    yield from sections(declarations)


def sections(declarations: str) -> Iterator[str]:
    """Yields the sections after the first: each declaration, and then the comment before it."""
    comment: list[str] = []
    for block in blocks(declarations):
        heading = SECTION.search(block) if block.startswith("/*") else None
        if heading:
            yield from prose(comment)
            comment = []
            yield f".SH {escaped(heading[1].upper())}"
        elif "clang-format" in block:
            continue
        elif block.startswith("/*"):
            # A comment that no declaration follows stands for itself.
            yield from prose(comment)
            comment = text_lines(block)
        else:
            # The values of an initializer are of no use to a reader.
            yield from verbatim(block.partition(" \\\n")[0])
            yield from prose(comment)
            comment = []


def blocks(declarations: str) -> Iterator[str]:
    """Yields the comments between the declarations, and the declarations with the comments inside them."""
    lines: list[str] = []
    for line in declarations.splitlines():
        if lines or line.strip():
            lines.append(line.rstrip())
        if lines and is_whole("\n".join(lines)):
            yield "\n".join(lines)
            lines = []
    if lines:
        raise SystemExit(f"manual.py: this does not end: {lines[0]}")


def is_whole(text: str) -> bool:
    if text.startswith("#"):
        return not text.endswith("\\")
    code = COMMENT.sub("", text)
    if "/*" in code:
        return False
    return not code.strip() or (code.rstrip().endswith(";") and code.count("{") == code.count("}"))


def text_lines(comment: str) -> list[str]:
    """Returns the lines of a comment without its marks."""
    return [re.sub(r"^(?:/\*| \*(?!/)|  )? ?|\s*\*/$", "", line).rstrip() for line in comment.splitlines()]


def prose(lines: list[str]) -> Iterator[str]:
    """Yields paragraphs. Indented lines are a table, and stay as they are."""
    paragraph: list[str] = []
    in_table = False
    for line in [*lines, ""]:
        if paragraph and (not line or line.startswith("  ") != in_table):
            yield from verbatim("\n".join(paragraph)) if in_table else [".PP", *map(escaped, paragraph)]
            paragraph = []
        in_table = line.startswith("  ")
        if line:
            paragraph.append(line)


def tagged(lines: list[str]) -> Iterator[str]:
    """Yields paragraphs that begin with a word in the margin."""
    margin, in_list = 0, False
    for line in filter(None, lines):
        first = re.match(r"  (\w+ +)(.*)", line)
        if first:
            margin = first.start(2)
            yield from (".TP", f".B {first[1].strip()}", escaped(first[2]))
        elif line.lstrip().startswith("- "):
            in_list = True
            yield from (".br", escaped(line.strip()))
        else:
            if in_list and not line.startswith(" " * (margin + 1)):
                yield ".br"
                in_list = False
            yield escaped(line.strip())


def escaped(line: str) -> str:
    text = line.translate(ESCAPES)
    return f"\\&{text}" if text.startswith(".") else text


def verbatim(text: str) -> Iterator[str]:
    yield ".PP"
    yield ".EX"
    yield from (escaped(line) for line in text.splitlines())
    yield ".EE"


if __name__ == "__main__":
    main()
