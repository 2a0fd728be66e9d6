#!/usr/bin/env python3
"""tests/again.py KIND LOG: which single tests failed in a stage, as arguments that run them alone.

One line per test, arguments separated by tabs; KIND is cargo, python or js. Ends with status 1 where
running tests again would hide something: the log names no test, or too many, or one about crashes or
consistency, or the server itself misbehaved.
"""

import re
import sys

# More than this is no chance.
FAILED_MAX = 3
# What such tests see once is never to be seen.
NEVER = re.compile(r"crash|consisten|isolation|durab|lost|torn|power|_check|check_", re.IGNORECASE)
SERVER = re.compile(r"the server (panicked|did not stop|ended with)|SIGKILL|signal: \d+")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def cargo(log):
    tests = [[name] for name in re.findall(r"^test (\S.*?) \.\.\. FAILED$", log, re.MULTILINE)]
    failed = re.findall(r"^test result: FAILED\..* (\d+) failed;", log, re.MULTILINE)
    # A target that died has no result, and tests that nobody knows of.
    targets = re.search(r"^error: (\d+) targets? failed", log, re.MULTILINE)
    whole = targets and int(targets[1]) == len(failed)
    return tests if whole and sum(map(int, failed)) == len(tests) else []


def python(log):
    nodes = re.findall(r"^(?:FAILED|ERROR) (\S+::\S+)", log, re.MULTILINE)
    ends = re.findall(r"^=+ (.*(?:passed|failed|error).*) in .* =+$", log, re.MULTILINE)
    counted = sum(int(n) for end in ends for n in re.findall(r"(\d+) (?:failed|errors?)", end))
    # The suite is run in five parts, and each says how it ended.
    if len(ends) != 5 or counted != len(nodes):
        return []
    return [[re.sub(r"^(.*/)?tests/", "", node)] for node in nodes]


def js(log):
    counted = re.search(r"^. fail (\d+)$", log, re.MULTILINE)
    _, _, failing = log.partition("failing tests:")
    one = r"^test at (\S+?):\d+:\d+\n\s*✖ (.*?)(?: \([\d.]+ms\))?$"
    found = re.findall(one, failing, re.MULTILINE)
    if not counted or int(counted[1]) != len(found):
        return []
    return [[f"--test-name-pattern={re.escape(name)}", file] for file, name in found]


def main():
    kind, path = sys.argv[1:]
    with open(path, encoding="utf-8", errors="replace") as file:
        log = COLOURS.sub("", file.read())
    tests = {"\t".join(test) for test in {"cargo": cargo, "python": python, "js": js}[kind](log)}
    if not 0 < len(tests) <= FAILED_MAX or SERVER.search(log) or any(map(NEVER.search, tests)):
        return 1
    print("\n".join(sorted(tests)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
