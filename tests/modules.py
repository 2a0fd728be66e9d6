"""Modules inside a crate depend on each other in one direction. Used by tests/tidy.py.

ARCHITECTURE.md lists, for each crate that is checked, its top modules from the lowest layer up, each
with the modules that it may use directly:

    ```modules engine
    keys:
    record: keys
    op: keys record
    ```

A module may name only modules that stand above it in the list, so the list cannot have a cycle. What the
source uses and the list does not allow is a problem, and so is what the list allows and nobody uses.

Tests and what is compiled for fuzzing only are left out: they may look everywhere.
"""

import re

BLOCK = re.compile(r"^```modules (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A path from the crate's root, or from a parent of the module that it stands in.
START = re.compile(r"(?<![\w:])(?:crate::|((?:super::)+))")
ITEM = re.compile(
    r"^\s*pub (?:const fn|async fn|fn|struct|enum|trait|type|const|static) (\w+)", re.MULTILINE)
EXEMPT = {"lib", "main", "bin", "fuzzing"}


def check(root, code_of):
    """Problems of all crates that ARCHITECTURE.md lists. `code_of` gives a file's text without
    comments and literals."""
    listed = dict(BLOCK.findall((root / "ARCHITECTURE.md").read_text()))
    problems = []
    for crate, block in listed.items():
        sources = read(root / "crates" / crate / "src", code_of)
        problems += [f"crates/{crate}: {text}" for text in compare(parse(block), edges(sources))]
    return problems


def parse(block):
    """The list as it stands: module → what it may use.

    >>> parse("keys:\\nop: keys record\\n")
    {'keys': [], 'op': ['keys', 'record']}
    """
    lines = (line.split(":", 1) for line in block.splitlines() if line.strip())
    return {name.strip(): rest.split() for name, rest in lines}


def compare(listed, found):
    """What differs between the list and the source.

    >>> compare({"a": [], "b": ["a"]}, {"a": set(), "b": {"a"}})
    []
    >>> compare({"b": ["a"], "a": []}, {"a": {"b"}, "b": set(), "c": set()})
    ['b may use a, which stands below it in ARCHITECTURE.md', 'b may use a in ARCHITECTURE.md, and \
does not', 'a uses b: ARCHITECTURE.md does not allow it', 'the module c is not in ARCHITECTURE.md']
    """
    problems, above = [], set()
    for module, allowed in listed.items():
        for other in allowed:
            if other not in above:
                problems.append(f"{module} may use {other}, which stands below it in ARCHITECTURE.md")
            if other not in found.get(module, set()):
                problems.append(f"{module} may use {other} in ARCHITECTURE.md, and does not")
        for other in sorted(found.get(module, set()) - set(allowed)):
            problems.append(f"{module} uses {other}: ARCHITECTURE.md does not allow it")
        if module not in found:
            problems.append(f"ARCHITECTURE.md lists the module {module}, which is not there")
        above.add(module)
    missing = sorted(set(found) - set(listed))
    return problems + [f"the module {module} is not in ARCHITECTURE.md" for module in missing]


def read(source, code_of):
    """Path within the crate, as names of modules → code, without tests."""
    files = {}
    for path in sorted(source.rglob("*.rs")):
        names = list(path.relative_to(source).with_suffix("").parts)
        if "tests" in names:
            continue
        if names[-1] in ("mod", "lib", "main") and (len(names) > 1 or names[-1] == "mod"):
            names.pop()
        files[tuple(names)] = without_tests(code_of(path.read_text()))
    return files


def without_tests(code):
    """Code without the items that are compiled for tests only.

    >>> without_tests("a\\n#[cfg(test)]\\nmod tests {\\n use b; {}\\n}\\n#[cfg(test)]\\nuse c;\\nd")
    'a\\n\\n\\nd'
    """
    while match := re.search(r"#\[cfg\((?:test|fuzzing)\)\]", code):
        at, depth = match.end(), 0
        while at < len(code):
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            if depth == 0 and code[at] in ";}":
                break
            at += 1
        code = code[: match.start()] + code[at + 1 :]
    return code


def edges(files):
    """Top module → top modules that it uses.

    >>> found = edges({("lib",): "pub use b::X;", ("a",): "use crate::{X, c::{Y, Z}};", ("c",): "",
    ...     ("b", "i"): "super::super::c::f(); super::own()", ("b",): "pub use i::X;"})
    >>> {module: sorted(used) for module, used in found.items()}
    {'a': ['b', 'c'], 'c': [], 'b': ['c']}
    """
    modules = {names[0]: set() for names in files if names[0] not in EXEMPT}
    exported = exports(files, modules)
    for names, code in files.items():
        if names[0] in EXEMPT:
            continue
        for name in roots(names, code):
            module = name if name in modules else exported.get(name)
            if module and module != names[0]:
                modules[names[0]].add(module)
    return modules


def exports(files, modules):
    """What lib.rs shows under its own name → the module that it comes from."""
    found = {}
    for module, rest in re.findall(r"\buse (?:self::|crate::)?(\w+)::([^;]+);", files.get(("lib",), "")):
        if module not in modules:
            continue
        if rest.strip() == "*":
            own = (code for names, code in files.items() if names[0] == module)
            found |= {name: module for code in own for name in ITEM.findall(code)}
        # Of `A as B` the second name counts.
        found |= {name: module for name in re.findall(r"(\w+)\s*(?=[,}]|$)", rest.strip())}
    return found


def roots(names, code):
    """The first name of each path that begins at the crate's root, or reaches it by `super`."""
    for match in START.finditer(code):
        if match.group(1) and match.group(1).count("super") != len(names):
            continue
        yield from first_names(code, match.end())


def first_names(code, at):
    """The names at a place of a path: one, or those of a list in braces.

    >>> list(first_names("{a::{b, c}, d, e::f};", 0))
    ['a', 'd', 'e']
    """
    if not code.startswith("{", at):
        name = re.compile(r"\w+").match(code, at)
        yield from [name.group()] if name else []
        return
    depth, is_first = 0, False
    for token in re.finditer(r"\w+|[{},]", code[at:]):
        if token.group() == "{":
            depth += 1
            is_first = depth == 1
        elif token.group() == "}":
            depth -= 1
            if depth == 0:
                return
        elif token.group() == ",":
            is_first = depth == 1
        elif is_first:
            yield token.group()
            is_first = False
