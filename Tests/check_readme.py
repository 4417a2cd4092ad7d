"""Runs the code in README.md and in the pages of Sources/Documentation: every block of C, Python and Swift is a whole
program, and a block of plain text directly after it is its output. For Swift this includes the articles of the
documentation catalogues, which are built with docc. The links between these pages are checked, too.

    python3 Tests/check_readme.py c|python|swift

C and Python use the library in .build/release. Swift is built, with warnings as errors, in a separate package that
depends on this one by URL and version, as other packages do: SwiftPM refuses such a dependency when a product that it
uses has unsafe flags.
"""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / ".build" / "release"
BUILD = ROOT / ".build-tests"
# The first block of each language is its introduction in the README and must be short.
MOST_LINES = 15
# A recipe is shorter than this.
RECIPE_LINES = 40

MANIFEST = """// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "scratch",
    dependencies: [.package(url: "{url}", from: "{version}")],
    targets: [
{targets}
    ],
    swiftLanguageModes: [.v6]
)
"""
STRICT = '.unsafeFlags(["-warnings-as-errors"])'
# The modules with a documentation catalogue.
MODULES = ("MsgQueue", "MsgQueueHTTP", "MsgQueueFoundation", "MsgQueueOutbox", "MsgQueueSimulation")
PRODUCTS = ", ".join(f'.product(name: "{name}", package: "libmsgqueue")' for name in MODULES)
README = ROOT / "README.md"
PAGES = ROOT / "Sources" / "Documentation"


class Example(NamedTuple):
    """A block of code and its expected output (None: not specified)."""

    name: str
    code: str
    expected: str | None
    # Whether it opens a store.
    has_store: bool


def examples(language: str) -> list[Example]:
    sources = [(language, README), *((f"{language}-{page.stem}-", page) for page in sorted(PAGES.glob("*.md")))]
    if language == "swift":
        sources += [(article.stem, article) for module in MODULES for article in sorted(catalogue(module).glob("*.md"))]
    return [example for prefix, source in sources for example in examples_in(source, language, prefix)]


def catalogue(module: str) -> Path:
    return ROOT / "Sources" / module / f"{module}.docc"


def examples_in(source: Path, language: str, prefix: str) -> list[Example]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```\n(\s*```text\n(.*?)^```)?", source.read_text(), re.MULTILINE | re.DOTALL)
    found = [(code, expected if said else None) for name, code, said, expected in blocks if name == language]
    # A simulation stores nothing.
    has_store = source.parent != catalogue("MsgQueueSimulation")
    return [Example(f"{prefix}{number}", *example, has_store) for number, example in enumerate(found, 1)]


def broken_links() -> list[str]:
    """Returns the links to files and headings of this checkout that lead nowhere."""
    problems = []
    for page in (README, *sorted(PAGES.glob("*.md")), ROOT / "bindings" / "python" / "README.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if "://" in target:
                continue
            name, _, heading = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists() or (heading and heading not in headings(file)):
                problems.append(f"{page.relative_to(ROOT)}: {target} leads nowhere")
    return problems


def headings(page: Path) -> list[str]:
    """Returns the headings of a page as links name them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found]


def run(command: list[str], directory: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def run_c(example: Example, directory: Path) -> str:
    source, program = directory / f"{example.name}.c", directory / example.name
    source.write_text(example.code)
    # A linked program loads the library by its soname.
    for name in ("libmsgqueue.so", "libmsgqueue.so.0"):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(LIBRARY / "libmsgqueue.so")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", f"-I{ROOT / 'Include'}"]
    libraries = [f"-L{directory}", "-lmsgqueue"]
    variables = {"LD_LIBRARY_PATH": str(directory)}
    if "#include <http.h>" in example.code:
        flags += [f"-I{ROOT / 'bindings' / 'c'}", str(ROOT / "bindings" / "c" / "http.c")]
        libraries += ["-lcurl", "-pthread"]
        variables["OUTBOX_URL"] = receiver()
    if "#include <outbox.h>" in example.code:
        flags += [f"-I{ROOT / 'bindings' / 'c'}", str(ROOT / "bindings" / "c" / "outbox.c")]
        libraries += ["-lsqlite3", "-pthread"]
    run(["gcc", *flags, str(source), "-o", str(program), *libraries], directory)
    return run([str(program)], directory, **variables)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Accepts every message."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        """Prints nothing."""


@functools.cache
def receiver() -> str:
    """Starts an HTTP server on loopback, which lives as long as this program, and returns its URL."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def run_python(example: Example, directory: Path) -> str:
    source = directory / f"{example.name}.py"
    source.write_text(example.code)
    variables = {
        "PYTHONPATH": str(ROOT / "bindings" / "python" / "src"),
        "MSGQUEUE_LIBRARY": str(LIBRARY / "libmsgqueue.so"),
    }
    return run([sys.executable, "-W", "error", str(source)], directory, **variables)


def header_version() -> str:
    header = (ROOT / "Include" / "msgqueue.h").read_text()
    return ".".join(re.findall(r"#define MSGQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


def released() -> Path:
    """Returns a repository of the current files with a tag: the version, and after each change a later one.

    The repository is kept for the next run, so that only changed files of the dependency are built again.
    """
    repository = BUILD / "released" / "libmsgqueue"
    repository.mkdir(parents=True, exist_ok=True)
    if not (repository / ".git").exists():
        run(["git", "init", "--quiet"], repository)
    for name in ("Package.swift", "Include", "Sources", "Tests"):
        target = repository / name
        if target.is_dir():
            shutil.rmtree(target)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, symlinks=True, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    run(["git", "add", "--all", "--force"], repository)
    if run(["git", "status", "--porcelain"], repository):
        identity = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
        run(["git", *identity, "commit", "--quiet", "--no-gpg-sign", "--message", "The files under test"], repository)
        version = header_version()
        tags = run(["git", "tag", "--list", f"{version.rpartition('.')[0]}.*"], repository).split()
        major_minor, _, patch = version.rpartition(".")
        run(["git", "tag", f"{major_minor}.{int(patch) + len(tags)}"], repository)
    return repository


def build_swift(found: list[Example]) -> Path:
    """Builds one package for all examples, so that the dependency is built once."""
    package = BUILD / "scratch"
    for example in found:
        sources = package / "Sources" / example.name
        sources.mkdir(parents=True, exist_ok=True)
        (sources / "main.swift").write_text(example.code)
    targets = "\n".join(
        f'        .executableTarget(name: "{example.name}", dependencies: [{PRODUCTS}], swiftSettings: [{STRICT}]),'
        for example in found
    )
    url = released().as_uri()
    (package / "Package.swift").write_text(MANIFEST.format(url=url, version=header_version(), targets=targets))
    # Other packages of this machine do not see these caches.
    caches = ["--cache-path", str(package / ".cache"), "--security-path", str(package / ".security")]
    run(["swift", "package", *caches, "update"], package)
    run(["swift", "build", *caches], package)
    return package / ".build" / "debug"


def build_catalogue(module: str, package: Path) -> list[str]:
    """Builds the documentation of a module that was just built in the package. Returns the problems."""
    graphs, archive = package / f"{module}.symbols", package / f"{module}.doccarchive"
    for directory in (graphs, archive):
        shutil.rmtree(directory, ignore_errors=True)
    graphs.mkdir()
    system = [ROOT / "Sources" / name for name in ("CCurl", "CPlatform", "CSQLite")]
    modules = [package / ".build" / "debug" / "Modules", *system]
    target = json.loads(run(["swiftc", "-print-target-info"], package))["target"]["unversionedTriple"]
    extract = ["swift-symbolgraph-extract", "-module-name", module, "-minimum-access-level", "public"]
    # What a module adds to types of another one.
    extract += ["-emit-extension-block-symbols"]
    run([*extract, "-target", target, *(f"-I{path}" for path in modules), "-output-dir", str(graphs)], package)
    source = str(catalogue(module))
    convert = ["docc", "convert", source, "--additional-symbol-graph-dir", str(graphs), "--warnings-as-errors"]
    names = ["--fallback-display-name", module, "--fallback-bundle-identifier", f"libmsgqueue.{module}"]
    run([*convert, *names, "--output-path", str(archive)], package)
    pages = len(list((archive / "data").rglob("*.json")))
    print(f"{pages} pages of documentation of {module}")
    # Code in a comment is not compiled by any test.
    return [
        f"{file.relative_to(ROOT)} has a block of code in a comment; move it to an article"
        for file in sorted((ROOT / "Sources" / module).rglob("*.swift"))
        if "/// ```" in file.read_text()
    ]


def main() -> int:
    language = sys.argv[1]
    found = examples(language)
    problems = broken_links()
    if not found:
        problems.append(f"no examples in {language}")
    if found and len(found[0].code.splitlines()) > MOST_LINES:
        problems.append(f"the first example in {language} has more than {MOST_LINES} lines")
    long = [
        example.name
        for example in found
        if "-Recipes-" in example.name and len(example.code.splitlines()) >= RECIPE_LINES
    ]
    problems += [f"{name} is not shorter than {RECIPE_LINES} lines" for name in long]
    programs = build_swift(found) if language == "swift" else None
    if programs is not None:
        problems += [problem for module in MODULES for problem in build_catalogue(module, BUILD / "scratch")]
    for example in found:
        with tempfile.TemporaryDirectory(prefix="msgq-readme-") as name:
            directory = Path(name)
            if programs is not None:
                # The log is not part of what an example prints.
                printed = run([str(programs / example.name)], directory, MSGQUEUE_LOG="off")
            else:
                printed = run_c(example, directory) if language == "c" else run_python(example, directory)
            if example.has_store and not list(directory.glob("*.db")):
                problems.append(f"{example.name} created no store")
        if example.expected is not None and printed != example.expected:
            problems.append(f"{example.name} printed\n{printed}instead of\n{example.expected}")
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"{len(found)} examples in {language}, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
