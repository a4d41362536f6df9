#!/usr/bin/env python3
"""Checks docs/demands.md: every row names a test or a benchmark that is there. Prints `row: what`, exits 1 if there is any.

In the last column, `Suite`, `Suite.Name` and `Suite.*` are tests, `folder/file` is a file; what begins with a small letter may be anything.
"""
import pathlib
import re
import subprocess
import sys

ROW = re.compile(r"\| ([A-Z]\d+) \|")
TEST = re.compile(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)")
NAME = re.compile(r"[A-Z]\w+(/\w+)?(\.[\w*]+)?$")
FOLDERS = ("bench/", "tests/", "src/", "scripts/")


def tests_in(texts):
    """{suite: {names}}"""
    out = {}
    for text in texts:
        for suite, name in TEST.findall(text):
            out.setdefault(suite, set()).add(name)
    return out


def is_test(word, tests):
    """Of a suite, or of suites that begin so; of a test, or of tests that begin so."""
    suite, _, name = word.partition(".")
    suite = suite.split("/")[-1]
    return any(each == suite or (not name and each.startswith(suite))
               for each, names in tests.items() if not name or any(n.startswith(name) for n in names))


def check(text, tests, exists):
    """(row, what is wrong) of each row; `exists` says whether a path is there."""
    for line in text.splitlines():
        row = ROW.match(line)
        if not row:
            continue
        shown = [w for w in re.findall(r"`([^`]+)`", line.strip().strip("|").split("|")[-1]) if not w.startswith(".")]
        good = 0
        for word in (w.rstrip("*").rstrip(".") for w in shown):
            path = word.split()[0]
            is_path = path.startswith(FOLDERS)
            if is_path and exists(path) or not is_path and NAME.match(word) and is_test(word, tests):
                good += 1
            elif is_path or NAME.match(word):
                yield row[1], f"'{word}' is not there"
        if not good:
            yield row[1], "names no test and no benchmark"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*_test.cc", "*_test.cu", "tests/*.cc"], cwd=root,
                           capture_output=True, text=True, check=True).stdout.split()
    tests = tests_in((root / f).read_text() for f in files if (root / f).is_file())
    findings = list(check((root / "docs/demands.md").read_text(), tests, lambda path: any(root.glob(path))))
    for row, what in findings:
        print(f"docs/demands.md {row}: {what}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
