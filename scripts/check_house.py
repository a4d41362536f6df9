#!/usr/bin/env python3
"""Checks the rules of the house that no general tool knows; prints `path:line: what`, exits 1 if there is any.

- A folder of src/ includes only itself and folders above it (ORDER, which src/README.md describes in the same order).
  Tests may include anything.
- include/neap/ includes only itself; models/ only include/neap/ and itself.
- No source is longer than 600 lines, has tabs or blanks at the end of a line, or a mark that something is left to do.
"""
import os
import pathlib
import re
import subprocess
import sys

ORDER = ("core graph device precision observe recurrent ops onnx autodiff subgraph optimize mixed split plan remat pool runtime policy "
         "train report cli").split()
RANK = {folder: rank for rank, folder in enumerate(ORDER)}
MAX_LINES = 600
CPP = (".cc", ".h", ".inc", ".cu", ".cuh")
CODE = (*CPP, ".py", ".sh", ".cmake")
TEXT = (*CODE, ".md", ".txt", ".yml", ".yaml")
BY_NAME = ("CMakeLists.txt", "Makefile", "run", ".clang-format", ".clang-tidy")

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
# In pieces, so that this file passes its own check.
MARK = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "GTEST_" "SKIP"]) + r")\b|\bDISABLED" "_")
FOLDER_IN_README = re.compile(r"^[\s#*|-]*`?(?:src/)?([a-z]+)/`?", re.MULTILINE)


def is_test(path):
    return re.search(r"_test\.(cc|cu)$", path) is not None


def include_error(root, path, name):
    """Why `path` may not include "name", or None."""
    parts = pathlib.PurePosixPath(path).parts
    beside = pathlib.PurePosixPath(os.path.normpath(pathlib.PurePosixPath(path).parent / name))
    if (root / beside).is_file():
        target = beside.parts
    elif name.startswith("neap/"):
        target = ("include", *name.split("/"))
    else:
        target = ("src", *name.split("/"))
    if parts[0] == "src":
        if target[:2] == ("include", "neap"):
            return None
        if target[0] != "src" or target[1] not in RANK:
            return f'includes "{name}", which is neither in src/ nor in include/neap/ (a library\'s header goes in <>)'
        if parts[1] in RANK and RANK[target[1]] > RANK[parts[1]]:
            return f'includes "{name}", but {target[1]}/ stands below {parts[1]}/'
    if parts[0] == "include" and target[0] != "include":
        return f'includes "{name}", but the public API includes only neap/'
    if parts[0] == "models" and target[0] != "models" and target[:2] != ("include", "neap"):
        return f'includes "{name}", but models use the public API only (neap/)'
    return None


def check_line(root, path, line):
    """What is wrong with one line of a source, as a list."""
    errors = []
    if line != line.rstrip():
        errors.append("blanks at the end of the line")
    if "\t" in line and not path.endswith("Makefile"):
        errors.append("tab")
    if path.endswith(CODE) and (mark := MARK.search(line)):
        errors.append(f"mark {mark.group()}")
    if path.endswith(CPP) and not is_test(path) and (include := INCLUDE.match(line)):
        errors.append(include_error(root, path, include.group(1)))
    return [e for e in errors if e]


def check_file(root, path):
    """The findings of one file as (path, line, what)."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] == "src" and len(parts) > 2 and parts[1] not in RANK:
        yield path, 1, f"{parts[1]}/ has no place in the order of scripts/check_house.py"
    text = (root / path).read_text(errors="replace")
    lines = text.split("\n")
    if lines[-1]:
        yield path, len(lines), "no newline at the end"
    if path.endswith(CODE) and len(lines) - 1 > MAX_LINES:
        yield path, len(lines) - 1, f"longer than {MAX_LINES} lines"
    for number, line in enumerate(lines, 1):
        for error in check_line(root, path, line):
            yield path, number, error


def check_readme(root):
    """src/README.md must describe every folder that exists, in the order that is checked."""
    readme = root / "src/README.md"
    if not readme.is_file():
        return
    described = list(dict.fromkeys(f for f in FOLDER_IN_README.findall(readme.read_text()) if f in RANK))
    if described != sorted(described, key=RANK.get):
        yield "src/README.md", 1, "folders in another order than that of scripts/check_house.py"
    for folder in ORDER:
        if (root / "src" / folder).is_dir() and folder not in described:
            yield "src/README.md", 1, f"no paragraph on {folder}/"


def check(root, paths):
    """All findings in `paths`, which are relative to `root`, sorted."""
    root = pathlib.Path(root)
    findings = list(check_readme(root))
    for path in paths:
        if path.endswith(TEXT) or os.path.basename(path) in BY_NAME:
            findings.extend(check_file(root, path))
    return sorted(findings)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, text=True,
                            capture_output=True).stdout.splitlines()
    paths = [p for p in listed if (root / p).is_file()]
    findings = check(root, paths)
    for path, line, what in findings:
        print(f"{path}:{line}: {what}")
    print(f"check_house: {len(paths)} files, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
