#!/usr/bin/env python3
"""Runs clang-tidy on the sources that changed, several at once, within a time limit.

Changed means: against the merge base with origin/main; on origin/main itself, against the commit before; and what is not
committed yet. A changed header counts as its own source, or else as the first one that includes it. Where git knows no
earlier commit, or .clang-tidy itself changed, every source is checked.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

TIDY = "clang-tidy-16"
HEADERS = (".h", ".cuh")


def git(*args):
    """The lines that git prints, or None where it fails."""
    done = subprocess.run(["git", *args], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def base_commit():
    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main")
    if not base or base == head:
        base = git("rev-parse", "--verify", "--quiet", "HEAD~1")
    return base[0] if base else None


def changed_paths():
    """Paths that differ from the base, or None for "everything"."""
    base = base_commit()
    if base is None:
        return None
    paths = set(git("diff", "--name-only", "--diff-filter=d", base) or [])
    paths.update(git("ls-files", "--others", "--exclude-standard") or [])
    return None if ".clang-tidy" in paths else paths


def includer(header, sources):
    """The source that shows `header` to clang-tidy: its own if there is one, else the first that includes it."""
    own = str(pathlib.PurePosixPath(header).with_suffix(".cc"))
    if own in sources:
        return own
    name = header
    for prefix in ("include/", "src/"):
        name = name.removeprefix(prefix)
    wanted = f'#include "{name}"'
    return next((s for s in sources if wanted in pathlib.Path(s).read_text(errors="replace")), None)


def choose(sources, paths):
    """The members of `sources` that the changed `paths` concern, in order."""
    if paths is None:
        return sources
    chosen = {p for p in paths if p in sources}
    chosen.update(includer(p, sources) for p in sorted(paths) if p.endswith(HEADERS))
    return [s for s in sources if s in chosen]


def one_command_a_source(database, root):
    """What clang can read: a *_simd.cc is written in gcc's vector extensions, of which clang 16 knows only a part."""
    commands = {}
    for entry in database:
        if not entry["file"].endswith(".cc") or entry["file"].endswith("_simd.cc"):  # nvcc's flags are not for clang
            continue
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        commands[path] = entry
    return commands


def tidy(source, build, fix):
    gcc_headers = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True).stdout.strip()
    # omp.h is gcc's: clang finds it after its own headers, and does not know the attribute malloc with an argument.
    extra = ["-idirafter", gcc_headers, "-D__malloc__(f)=", "-Wno-unknown-warning-option"]
    command = [TIDY, "--quiet", "-p", build, *[f"--extra-arg={arg}" for arg in extra], source]
    if fix:
        command.insert(1, "--fix")
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    report = done.stdout
    if done.returncode != 0 and not report.strip():
        report = done.stderr
    return source, done.returncode, report, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description="clang-tidy on the sources that changed")
    parser.add_argument("--all", action="store_true", help="every source")
    parser.add_argument("--fix", action="store_true", help="let clang-tidy repair what it can; one at a time")
    parser.add_argument("--times", action="store_true", help="print the seconds of each source")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--limit", type=float, default=540, help="seconds after which no further source is started")
    args = parser.parse_args()

    root = pathlib.Path(__file__).resolve().parent.parent
    os.chdir(root)
    try:
        database = json.loads(pathlib.Path("build/compile_commands.json").read_text())
    except OSError:
        sys.exit("tidy: build/compile_commands.json is missing; run `make lint`, which makes it")
    commands = one_command_a_source(database, root)
    sources = choose(sorted(commands), None if args.all else changed_paths())
    folder = pathlib.Path("build/tidy")
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps([commands[s] for s in sources]))

    start = time.monotonic()

    def check(source):
        return None if time.monotonic() - start > args.limit else tidy(source, str(folder), args.fix)

    with concurrent.futures.ThreadPoolExecutor(1 if args.fix else args.jobs) as pool:
        results = [r for r in pool.map(check, sources) if r is not None]
    bad = [r for r in results if r[1] != 0]
    for _, _, report, _ in bad:
        print(report)
    for source, _, _, seconds in results if args.times else []:
        print(f"{seconds:6.1f} s  {source}")
    late = f", {len(sources) - len(results)} left out at the time limit" if len(results) < len(sources) else ""
    print(f"tidy: {len(results)} of {len(commands)} sources checked{late}, {len(bad)} with findings, "
          f"{time.monotonic() - start:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
