"""Writes the manual pages of section 3, made from the comments of the header, to a directory.

    python3 bindings/c/manual.py Include/msgqueue.h DIRECTORY

msgqueue(3) has the whole header: each of its sections is a section of the page, with the declarations as they are, each
followed by the comment that stands before it in the header. Each function has a page of its own, with its comment and
the types that it uses; functions that share a comment share a page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# A comment whose line of dashes ends with a number and a title begins a section.
SECTION = re.compile(r"-{10,} \d+\. (.*?)(?: \*/)?$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"\b(msgq_\w+)\(")
TYPE = re.compile(r"\bmsgq_\w+\b")
# What groff would print as another character, or read as a command.
ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})


def main() -> None:
    header = Path(sys.argv[1]).read_text(encoding="utf-8")
    # The "*/" of the first comment ends its last line.
    introduction, _, rest = header.partition("\n */\n#ifndef")
    declarations = rest.partition('extern "C" {\n#endif\n')[2].partition("#ifdef __cplusplus")[0]
    number = ".".join(re.findall(r"^#define MSGQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))
    pages = {"msgqueue": [*heading("msgqueue", number), *page(introduction, declarations)]}
    for topic in topics(declarations):
        first, *others = topic.functions
        pages[first] = [*heading(first, number), *topic_page(topic)]
        pages.update({name: [f".so man3/{first}.3"] for name in others})
    for name, lines in pages.items():
        Path(sys.argv[2], f"{name}.3").write_text("\n".join(lines) + "\n", encoding="utf-8")


def heading(name: str, number: str) -> Iterator[str]:
    yield "'\\\" -*- coding: UTF-8 -*-"
    yield '.\\" Made from msgqueue.h by bindings/c/manual.py.'
    yield f'.TH {name} 3 "" "libmsgqueue {number}" "Library Functions Manual"'
    # No hyphens in names, and no spaces between words to fill a line.
    yield ".nr HY 0"
    yield ".ad l"


def page(introduction: str, declarations: str) -> Iterator[str]:
    """Yields the lines of msgqueue(3)."""
    title = re.search(r"libmsgqueue: an? (.*)\.$", introduction, re.MULTILINE)
    description = re.search(r"^ \*\n(.*?)^ \*\n \* Contents$", introduction, re.MULTILINE | re.DOTALL)
    program = re.search(r"^#include <msgqueue\.h>\n.*^}$", introduction, re.MULTILINE | re.DOTALL)
    rules = re.search(r"-{10,} 1\. Rules for every function\n \*\n(.*)", introduction, re.DOTALL)
    if not (title and description and program and rules):
        raise SystemExit("manual.py: the first comment of the header has another form than expected")
    yield ".SH NAME"
    yield f"msgqueue \\- {escaped(title[1])}"
    yield ".SH SYNOPSIS"
    yield from verbatim("#include <msgqueue.h>\n\ncc program.c $(pkg-config --cflags --libs msgqueue)")
    yield ".SH DESCRIPTION"
    yield from prose(text_lines(description[1]))
    yield from prose(["Each function also has a page of its own, with the types that it uses: msgq_open(3)."])
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


@dataclass
class Topic:
    """Functions with one comment, which have one page."""

    comment: list[str]
    functions: list[str] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    """The types that the functions use, each with its comment, in the order of the header."""


def topics(declarations: str) -> list[Topic]:
    """Returns the topics of the functions, each with at least one."""
    found: list[Topic] = []
    types: dict[str, str] = {}
    comment, is_new = "", False
    for block in blocks(declarations):
        if block.startswith("/*"):
            # What follows a title or a note for clang-format has no comment.
            is_new = not SECTION.search(block) and "clang-format" not in block
            comment = block if is_new else ""
            continue
        function = FUNCTION.search(COMMENT.sub("", block))
        if block.startswith("typedef"):
            defined = re.search(r"\(\*(\w+)\)|(\w+);$", block)
            assert defined is not None, block
            types[defined[1] or defined[2]] = f"{comment}\n{block}" if is_new else block
        elif function is not None and not block.startswith("#"):
            topic = topic_of(function[1], text_lines(comment), is_new, found)
            topic.functions.append(function[1])
            topic.declarations.append(block)
        is_new = False
    for topic in found:
        used = closure("\n".join(topic.declarations), types)
        topic.types = [text for name, text in types.items() if name in used]
    return found


def topic_of(function: str, comment: list[str], has_comment: bool, found: list[Topic]) -> Topic:
    """Returns the topic of the next function of the header. One without a comment has that of what is before it."""
    if not has_comment and function.endswith("_init"):
        # The comment of the first one is about all of them.
        return next(topic for topic in found if topic.functions[0].endswith("_init"))
    if has_comment or found[-1].comment != comment:
        found.append(Topic(comment))
    return found[-1]


def closure(text: str, types: dict[str, str]) -> set[str]:
    """Returns the types that a declaration names, and those that these name, without handles and results."""
    found: set[str] = set()
    waiting = [text]
    while waiting:
        for name in TYPE.findall(COMMENT.sub("", waiting.pop())):
            is_opaque = types.get(name, "").endswith(f"typedef struct {name} {name};")
            if name in types and name not in found and name != "msgq_result" and not is_opaque:
                found.add(name)
                waiting.append(types[name])
    return found


def topic_page(topic: Topic) -> Iterator[str]:
    """Yields the lines of the page of some functions, after its heading."""
    yield ".SH NAME"
    yield f"{', '.join(map(escaped, topic.functions))} \\- {escaped(summary(topic.comment))}"
    yield ".SH SYNOPSIS"
    yield from verbatim("\n".join(["#include <msgqueue.h>", "", *topic.declarations]))
    yield ".SH DESCRIPTION"
    yield from prose(topic.comment)
    if topic.types:
        yield ".SH TYPES"
        yield from verbatim("\n\n".join(topic.types))
    yield ".SH SEE ALSO"
    yield ".BR msgqueue (3)"
    yield "has the rules for every function: results, ownership, threads."


def summary(comment: list[str]) -> str:
    """Returns the beginning of a comment, for the line that apropos shows."""
    text = " ".join(" ".join(filter(None, comment)).split())
    sentence = re.split(r"[.;](?: |$)", re.sub(r" \([^)]*\)", "", text))[0].replace("`", "")
    head, _, _ = sentence.partition(": ")
    start = head if head.count(" ") > 1 else sentence
    return start[0].lower() + start[1:] if start[1:2].islower() or start[1:2] == " " else start


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
