#!/usr/bin/env python3
"""Gives every model of corpus/ to Neap: the valid ones must import, the others end with one line and status 2. Standard library only.

  check_corpus.py build/neap [PATTERN]

Also bounds what a file may cost: 2 GiB of address space (not where the program was built with AddressSanitizer, which reserves
terabytes: --no-limit) and 20 seconds.
"""
import argparse
import fnmatch
import json
import pathlib
import resource
import signal
import subprocess
import sys

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
MEMORY, SECONDS, LINE = 2 << 30, 20, 2000  # a line that quotes the file at length is no clear one
NOTE = "was exported for inference"  # said of every model of that kind before it is built, so of bad ones too


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def call(neap, path, limited):
    """Exit status, None for a hang, and standard error."""
    command = [neap, "plan", path, "--loss", "cross-entropy", "--batch", "2", "--threads", "1"]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS,
                              preexec_fn=limit_memory if limited else None)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stderr.decode(errors="replace")


def judge(status, text, fragment):
    """What is wrong with how Neap took a file, or None."""
    if status is None:
        return f"still running after {SECONDS} s"
    if status < 0:
        return f"crashed: {signal.Signals(-status).name}"
    if status == 0:
        return f"was taken, but must be refused, naming {fragment}" if fragment else None
    lines = [line for line in text.splitlines() if NOTE not in line]
    if fragment is None:
        return f"was refused, but is valid: {text.strip()[:200]}"
    if status != 2:
        return f"exit status {status}: {text.strip()[:200]}"
    if len(lines) != 1 or len(lines[0]) > LINE or not lines[0].isprintable():
        return f"{len(lines)} lines, {len(text)} characters, where one clear line should be: {text.strip()[:200]!r}"
    return None if fragment in lines[0] else f"does not name {fragment}: {lines[0]}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("neap")
    p.add_argument("pattern", nargs="?", default="*")
    p.add_argument("--no-limit", action="store_true")
    a = p.parse_args()
    expected = json.loads((CORPUS / "expected.json").read_text())
    names = [name for name in expected if fnmatch.fnmatch(name, a.pattern)]
    bad = 0
    for name in names:
        if error := judge(*call(a.neap, CORPUS / name, not a.no_limit), expected[name]):
            print(f"{name}: {error}")
            bad += 1
    print(f"{len(names)} models, {bad} not as expected")
    sys.exit(1 if bad or not names else 0)


if __name__ == "__main__":
    main()
