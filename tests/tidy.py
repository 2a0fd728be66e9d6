#!/usr/bin/env python3
"""Checks over the source tree that no compiler makes. Part of ./test; standard library only.

What is checked, and why:

- Crates depend on each other only along the edges of the architecture, so that a shortcut is a
  failing test and not a discussion. Development dependencies are free.
- The modules inside a crate depend on each other in one direction (tests/modules.py).
- The server binary stays within a number of dependencies: each one is a colleague.
- A file has at most 800 lines and a function at most 70. Exceptions are listed in
  tests/tidy-allow.txt with their present size; that list is a ratchet and may only shrink.
- Every Rust file opens with prose (`//!`).
- No leftovers (to-do marks), no drawers without a name (see FORBIDDEN), no tabs, no CR, no trailing
  blanks, at most 100 columns except where a string literal is what is too long.
- Lock files name no registry host.

Run it alone with `python3 tests/tidy.py`.
"""

import doctest
import json
import pathlib
import re
import subprocess
import sys

import modules

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOW_LIST = ROOT / "tests" / "tidy-allow.txt"

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
DEPENDENCIES_MAX = 200

# Arrows point at what is used. A crate that is missing here is refused until someone decides.
EDGES = {
    "partita-model": set(),
    "partita-query": {"partita-model"},
    "partita-storage": {"partita-model"},
    "partita-engine": {"partita-query", "partita-storage", "partita-model"},
    "partita-script": {"partita-engine", "partita-query", "partita-model"},
    "partita-advisor": {"partita-query", "partita-model"},
    "partita-gateway": {"partita-model"},
    "partita-executor": {"partita-gateway", "partita-engine", "partita-model"},
    "partita-nosql": {
        "partita-executor", "partita-gateway", "partita-engine", "partita-query", "partita-model",
    },
    "partita-sim": {"partita-engine", "partita-query", "partita-storage", "partita-model"},
    "partita-http-client": {"partita-gateway", "partita-model"},
    "partita-load": {"partita-http-client", "partita-model"},
    "partita-alerts": {
        "partita-http-client", "partita-gateway", "partita-engine", "partita-model"},
    "partita-declaration": {
        "partita-http-client", "partita-gateway", "partita-engine", "partita-model"},
    "partita-cli": {
        "partita-load", "partita-http-client", "partita-advisor", "partita-gateway",
        "partita-engine", "partita-storage", "partita-model"},
    "partita": None,  # the binary knows everyone
    "partita-bench": None,
}

# Names that say where something lies and not what it is, and one that must never exist below a door.
FORBIDDEN = re.compile(r"\b(utils|helpers|is_mongo)\b")
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")

TEXT_SUFFIXES = {".rs", ".py", ".sh", ".js", ".mjs", ".toml", ".md", ".txt", ".json", ".yaml"}


def main():
    failed = doctest.testmod().failed + doctest.testmod(modules).failed
    problems = [f"tests/tidy.py: {failed} of its own examples fail"] if failed else []
    problems += check_edges() + check_dependency_count()
    problems += modules.check(ROOT, lambda text: without_comments(mask(text)))
    sizes = {}
    for path in source_files():
        problems += check_file(path, sizes)
    problems += check_sizes(sizes)
    for problem in problems:
        print(problem)
    count = len(problems)
    print(f"tidy: {count} problem{'' if count == 1 else 's'}" if count else "tidy: clean")
    return 1 if problems else 0


def source_files():
    """Everything that is or would be committed, in a stable order."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()
    names = sorted(set(filter(None, listing.split("\0"))))
    return [name for name in names if (ROOT / name).is_file()]


def check_edges():
    problems = []
    for package in metadata("--no-deps")["packages"]:
        name = package["name"]
        if name not in EDGES:
            problems.append(f"{name}: a new crate; say in tests/tidy.py what it may use")
            continue
        used = {d["name"] for d in package["dependencies"] if d["kind"] != "dev"}
        allowed = EDGES[name]
        for other in sorted(used & set(EDGES)) if allowed is not None else []:
            if other not in allowed:
                problems.append(f"{name}: must not depend on {other} (see ARCHITECTURE.md)")
    return problems


def check_dependency_count():
    """Counts the packages that end up in the server, on this machine's platform."""
    graph = metadata("--locked", "--filter-platform", host_platform())
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in graph["packages"]}
    pending = [package for package, name in names.items() if name == "partita"]
    reached = set()
    while pending:
        package = pending.pop()
        if package in reached:
            continue
        reached.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                pending.append(dependency["pkg"])
    foreign = [package for package in reached if names[package] not in EDGES]
    if len(foreign) > DEPENDENCIES_MAX:
        return [f"the server has {len(foreign)} dependencies, the limit is {DEPENDENCIES_MAX}"]
    print(f"tidy: the server has {len(foreign)} dependencies (limit {DEPENDENCIES_MAX})")
    return []


def metadata(*arguments):
    command = ["cargo", "metadata", "--format-version", "1", *arguments]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def host_platform():
    version = subprocess.run(["rustc", "-vV"], capture_output=True, check=True, text=True).stdout
    return re.search(r"^host: (.*)$", version, re.MULTILINE).group(1)


def check_file(name, sizes):
    path = ROOT / name
    if path.suffix not in TEXT_SUFFIXES:
        return []
    data = path.read_bytes()
    problems = []
    if b"\r\n" in data and path.suffix != ".md":
        problems.append(f"{name}: has CRLF line ends, LF is the rule")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return problems + [f"{name}: is not UTF-8 ({error})"]
    if path.name == "package-lock.json" and '"resolved"' in text:
        problems.append(f"{name}: names a registry; see tests/sdk/js/.npmrc")
    if path.suffix in {".rs", ".py", ".sh", ".js", ".mjs"}:
        problems += check_source(name, text)
    if path.suffix == ".rs":
        problems += check_rust(name, text, sizes)
    return problems


def check_source(name, text):
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        if LEFTOVER.search(line):
            problems.append(f"{name}:{number}: do it, or open an issue; no marks in the source")
        if line != line.rstrip():
            problems.append(f"{name}:{number}: blanks at the end of the line")
    return problems


def check_rust(name, text, sizes):
    problems = []
    if not text.startswith("//!"):
        problems.append(f"{name}: opens without prose (`//!`): what is it for?")
    if FORBIDDEN.search(name.replace("/", " ")):
        problems.append(f"{name}: name it by what it is")
    masked = mask(text)
    bare = masked.split("\n")
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line:
            problems.append(f"{name}:{number}: a tab")
        # What is left of a long line without its literals must fit.
        without_literals = bare[number - 1].replace("\0", "")
        is_link = "://" in line and line.lstrip().startswith("//")
        if len(line) > COLUMNS_MAX and len(without_literals) > COLUMNS_MAX and not is_link:
            problems.append(f"{name}:{number}: {len(line)} columns, the limit is {COLUMNS_MAX}")
        if FORBIDDEN.search(line) and "tidy" not in line:
            word = FORBIDDEN.search(line).group(1)
            problems.append(f"{name}:{number}: the word {word}: name it by what it is")
    sizes[("file", name, "")] = text.count("\n")
    for function, lines in functions(without_comments(masked)):
        key = ("function", name, function)
        sizes[key] = max(lines, sizes.get(key, 0))
    return problems


RUST_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<raw> \b(?:br|cr|r)(?P<fence>\#*)".*?"(?P=fence) )
  | (?P<string> "(?:[^"\\]|\\.)*" )
  | (?P<char> '(?:[^'\\\n]|\\(?:[^ux]|x..|u\{[^}]*\}))' )
    """,
    re.VERBOSE | re.DOTALL,
)


def mask(text):
    """Replaces the inside of every literal by NUL characters, line for line; comments stay.

    >>> mask('let a = "}"; // open {').replace(chr(0), "·")
    'let a = ···; // open {'
    >>> mask("fn f<'a>(c: char) { c == '}' }").replace(chr(0), "·")
    "fn f<'a>(c: char) { c == ··· }"
    >>> mask('r#"a"b"# + x').replace(chr(0), "·")
    '········ + x'
    """

    def blank(match):
        if match.group("comment"):
            return match.group(0)
        return re.sub(r"[^\n]", "\0", match.group(0))

    return RUST_TOKEN.sub(blank, text)


def without_comments(masked):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", masked, flags=re.DOTALL)


def functions(code):
    """Names and lengths in lines of all functions with a body, in code without literals.

    >>> list(functions("fn a() {\\n  b({})\\n}\\nfn c();\\nfn d(x: [u8; 2]) {}"))
    [('a', 3), ('d', 1)]
    """
    for match in re.finditer(r"\bfn\s+(\w+)", code):
        body = body_start(code, match.end())
        if body is not None:
            yield match.group(1), code.count("\n", match.start(), body_end(code, body)) + 1


def body_start(code, at):
    """Where the `{` of the function is whose name ends at `at`, or None if it has no body."""
    depth = 0
    for position in range(at, len(code)):
        character = code[position]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "{" and depth == 0:
            return position
        elif character == ";" and depth == 0:
            return None
    return None


def body_end(code, at):
    depth = 0
    for position in range(at, len(code)):
        if code[position] == "{":
            depth += 1
        elif code[position] == "}":
            depth -= 1
            if depth == 0:
                return position
    return len(code)


def check_sizes(sizes):
    allowed = allow_list()
    problems = []
    for key, lines in sorted(sizes.items()):
        kind, name, function = key
        limit = FILE_LINES_MAX if kind == "file" else FUNCTION_LINES_MAX
        what = f"{name}: {function or 'the file'} has {lines} lines"
        granted = allowed.pop(key, None)
        if granted is None:
            if lines > limit:
                problems.append(f"{what}, the limit is {limit}")
        elif lines > granted:
            problems.append(f"{what}, more than the {granted} it was granted; it may only shrink")
        elif lines <= limit:
            problems.append(f"{what}: good; remove it from tests/tidy-allow.txt")
        elif lines < granted:
            problems.append(f"{what}: good; lower its {granted} in tests/tidy-allow.txt")
    for kind, name, function in allowed:
        problems.append(f"{name}: {function} is gone; remove it from tests/tidy-allow.txt")
    return problems


def allow_list():
    """Lines `path lines` and `path function lines`."""
    allowed = {}
    for line in ALLOW_LIST.read_text().splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) == 2:
            allowed[("file", words[0], "")] = int(words[1])
        elif len(words) == 3:
            allowed[("function", words[0], words[1])] = int(words[2])
    return allowed


if __name__ == "__main__":
    sys.exit(main())
