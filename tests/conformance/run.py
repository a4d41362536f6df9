#!/usr/bin/env python3
"""Runs the ONNX project's own tests of operators and prints passed, unsupported and failed by op. Standard library only.

  run.py                     all of them; makes build/onnx-venv for their files the first time
  run.py --only '*conv*'     those whose name matches; no minimum of passed tests then
  run.py --json FILE         also one line a test, as the runner printed it

The runner (build/onnx_node_test) reads folders from its standard input and prints one object a line: test, status (passed,
unsupported or failed), reason, ops. It compares types, shapes and values itself. A test on which it crashes or hangs is failed.
Exit status 1 if anything failed or fewer than 700 passed.
"""
import argparse
import collections
import dataclasses
import fnmatch
import json
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "onnx==1.16.2"
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
STATUSES = ("passed", "unsupported", "failed")
MIN_PASSED = 700
CHUNK = 200  # folders a process
SECONDS = 60  # for one of them; a single test takes milliseconds
SEVERAL = "(several ops)"


@dataclasses.dataclass
class Result:
    test: str
    status: str
    reason: str = ""
    ops: tuple = ()


def test_data(venv):
    """The folder of the package's test data."""
    done = subprocess.run([venv / "bin" / "python", "-c", "import onnx.backend.test as t; print(t.__path__[0])"],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{venv}: onnx cannot be imported from there; remove it and run again")
    return pathlib.Path(done.stdout.strip()) / "data"


def find_tests(data, pattern):
    """{name: folder}; a name has its kind in front where that is not node."""
    tests = {}
    for kind in KINDS:
        for folder in sorted((data / kind).iterdir()):
            name = folder.name if kind == "node" else f"{kind}/{folder.name}"
            if (folder / "model.onnx").is_file() and fnmatch.fnmatch(name, pattern):
                tests[name] = folder
    return tests


def parse(line, names):
    """The result on a line of the runner's output, or None if the line is no such thing or cut off."""
    try:
        row = json.loads(line)
        name, status = names[row["test"]], row["status"]
    except (ValueError, KeyError, TypeError):
        return None
    return Result(name, status, row.get("reason", ""), tuple(row.get("ops", ()))) if status in STATUSES else None


def call(runner, tests):
    """Runs the tests in one process: results by name, and how it ended if not well."""
    names = {folder.name: name for name, folder in tests.items()} | {str(f): n for n, f in tests.items()}
    folders = "".join(f"{folder}\n" for folder in tests.values())
    try:
        done = subprocess.run([runner], input=folders.encode(), stdout=subprocess.PIPE, timeout=SECONDS)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as e:
        output, code = e.stdout or b"", None
    end = None
    if code is None:
        end = f"no answer within {SECONDS} s"
    elif code < 0:
        end = f"crashed: {signal.Signals(-code).name}"
    elif code > 1:  # 0 and 1 may tell whether a test failed
        end = f"runner ended with status {code}"
    results = [r for line in output.decode(errors="replace").splitlines() if (r := parse(line, names))]
    return {r.test: r for r in results}, end


def run_chunk(runner, tests):
    """All results of the tests. After a crash the first test without one is tried alone, then the rest goes on."""
    results = {}
    while rest := {name: folder for name, folder in tests.items() if name not in results}:
        found, _ = call(runner, rest)
        results |= found
        missing = next((name for name in rest if name not in results), None)
        if missing:
            alone, end = call(runner, {missing: tests[missing]})
            results[missing] = alone.get(missing) or Result(missing, "failed", end or "the runner says nothing of it")
    return results


def run_all(runner, tests):
    """Results in the order of the tests. Two folders of one name, of different kinds, never share a process."""
    results = {}
    for kind in KINDS:
        names = [n for n in tests if (n.split("/")[0] if "/" in n else "node") == kind]
        for start in range(0, len(names), CHUNK):
            results |= run_chunk(runner, {n: tests[n] for n in names[start : start + CHUNK]})
    return [results[name] for name in tests]


def op_of(result, by_name):
    """The op under which a test counts. One of a function's body counts as the function."""
    whole = by_name.get(re.sub(r"_expanded.*$", "", result.test))
    ops = list(dict.fromkeys(whole.ops if whole and whole.ops else result.ops))
    if len(ops) == 1:
        return ops[0]
    return SEVERAL if ops else "(none read)"


def group(results):
    """{op: {status: [results]}}, ops in order of the alphabet."""
    by_name = {r.test: r for r in results}
    groups = collections.defaultdict(lambda: {status: [] for status in STATUSES})
    for r in results:
        groups[op_of(r, by_name)][r.status].append(r)
    return dict(sorted(groups.items()))


def findings(result):
    """(op, what) of everything that the reason lists, without the names of nodes and tensors, so that like comes to like."""
    parts = re.split(r"; (?=(?:node|tensor) ')", result.reason or "no reason given")
    for part in parts:
        found = re.match(r"(?:node|tensor) '[^']*'(?: \(([^)]*)\))?: (.*)", part, re.DOTALL)
        op, what = (found.group(1), found.group(2)) if found else (None, part)
        yield op or ", ".join(dict.fromkeys(result.ops)), re.sub(r"'[^']*'", "'…'", what)


def reasons(results, op, limit=2):
    """The most frequent reasons, in one line."""
    counts = collections.Counter()
    for r in results:
        counts.update({what if at in ("", op) or at.endswith(f".{op}") else f"{at}: {what}" for at, what in findings(r)})
    more = f"; {len(counts) - limit} more" if len(counts) > limit else ""
    return "; ".join(reason for reason, _ in counts.most_common(limit)) + more


def print_table(groups):
    width = max([len(op) for op in groups] + [2])
    print(f"{'op':{width}} {'passed':>7} {'unsupported':>12} {'failed':>7}")
    for op, by_status in groups.items():
        counts = [len(by_status[status]) for status in STATUSES]
        why = reasons(by_status["failed"] + by_status["unsupported"], op)
        print(f"{op:{width}} {counts[0]:7} {counts[1] or '.':>12} {counts[2] or '.':>7}  {why}".rstrip())


def print_unsupported(results):
    """By reason: how many tests, and which ops; a test that has several reasons counts under each."""
    tests, ops = collections.Counter(), collections.defaultdict(list)
    for r in results:
        if r.status == "unsupported":
            found = set(findings(r))
            tests.update({what for _, what in found})
            for op, what in sorted(found):
                ops[what] += [op] if op not in ops[what] else []
    if tests:
        print("\nunsupported, tests by reason:")
    for what, count in sorted(tests.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:5}  {what} ({', '.join(sorted(ops[what]))})")


def print_failed(results):
    failed = [r for r in results if r.status == "failed"]
    if failed:
        print("\nfailed:")
    for r in failed:
        print(f"  {r.test}: {r.reason}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runner", type=pathlib.Path, default=ROOT / "build" / "onnx_node_test")
    p.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "onnx-venv")
    p.add_argument("--only", metavar="PATTERN", default="*")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    a = p.parse_args()
    if not a.runner.is_file():
        p.error(f"{a.runner} is missing: ninja -C build onnx_node_test")
    if subprocess.run([ROOT / "tests" / "venv.sh", a.venv, PACKAGE, "numpy"]).returncode:
        sys.exit(f"{a.venv}: could not be made; see above")
    tests = find_tests(test_data(a.venv), a.only)
    if not tests:
        p.error(f"no test matches {a.only}")
    results = run_all(a.runner, tests)
    if a.json:
        a.json.write_text("".join(json.dumps(dataclasses.asdict(r)) + "\n" for r in results))
    print_table(group(results))
    print_unsupported(results)
    print_failed(results)
    counts = collections.Counter(r.status for r in results)
    print(f"\n{PACKAGE}: {len(results)} tests, " + ", ".join(f"{counts[s]} {s}" for s in STATUSES))
    too_few = a.only == "*" and counts["passed"] < MIN_PASSED
    if too_few:
        print(f"fewer than {MIN_PASSED} passed")
    sys.exit(1 if counts["failed"] or too_few else 0)


if __name__ == "__main__":
    main()
