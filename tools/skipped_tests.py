#!/usr/bin/env python3
"""Says which tests a run of ctest skipped, and why. Usage: tools/skipped_tests.py build/Testing/Temporary/LastTest.log"""
import collections
import pathlib
import re
import sys

PYTHON = re.compile(r"\.\.\. skipped ['\"](.*)['\"]$")
GOOGLE_TEST = re.compile(r"^\S+:\d+: Skipped$")


def skipped(log):
    """reason -> how many tests; of Google Test's the reason is on the line after "file:line: Skipped"."""
    reasons = collections.Counter()
    lines = log.split("\n")
    for number, line in enumerate(lines):
        python = PYTHON.search(line)
        if python:
            reasons[python[1]] += 1
        elif GOOGLE_TEST.match(line):
            reasons[lines[number + 1]] += 1
    return reasons


def main():
    reasons = skipped(pathlib.Path(sys.argv[1]).read_text(errors="replace"))
    print(f"Skipped: {sum(reasons.values()) or 'no'} tests")
    for reason, count in reasons.most_common():
        print(f"  {count:4}  {reason}")


if __name__ == "__main__":
    main()
