#!/usr/bin/env python3
"""The budget as a promise: every built-in model trains at its minimum inside of a memory limit that the system enforces.

The limit is the budget plus a fixed base for the program itself: code, libraries, the graph and its plans, batches. Where
memory cgroups can be made (as root, version 1 or 2) they are the limit, with their own peak; elsewhere the process's peak
in RAM is measured afterwards, and the table says so. Bits are compared with a run that stores everything without a limit.

With --spill tensors may leave for a disk, too, so that the minimum is that of all mechanisms; `spilled` is what the last step has
sent there. A cgroup counts the pages that the system caches of files. The spill file has none: it is opened with O_DIRECT (where the
file system refuses that, as tmpfs does, its pages would count, and the table says so).

usage: bench/promise.py [--base 160MiB] [--models mlp,cnn,...] [--steps 3] [--budget min] [--policy adaptive] [--spill [DIR]]
                        [--neap build/neap]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import uuid

MODELS = ["mlp", "cnn", "resnet20", "resnet18", "resnet50", "gpt-mini", "gpt2", "bert-mini", "lstm-lm", "gru-lm"]
MIB = 1 << 20
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")


class Cgroup:
    """A memory limit for one process; without one where the system lends none."""

    def __init__(self, limit):
        self.path = None
        self.kind = "measured"
        names = {V1: ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "cgroup v1"), V2: ("memory.max", "memory.peak", "cgroup v2")}
        for root, (limit_file, peak_file, kind) in names.items():
            path = root / f"neap-promise-{uuid.uuid4().hex[:8]}"
            try:
                path.mkdir()
                (path / limit_file).write_text(str(limit))
            except OSError:
                if path.is_dir():
                    path.rmdir()
                continue
            self.path, self.kind, self.peak_file = path, kind, path / peak_file
            break

    def enter(self):
        """In the child, before it becomes the program."""
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        """Bytes, files in the system's cache included; None where nobody counts."""
        try:
            return int(self.peak_file.read_text()) if self.path else None
        except OSError:
            return None

    def close(self):
        """Nobody is in it any more."""
        if self.path:
            self.path.rmdir()


def size(text):
    """Bytes of 160MiB or 2GiB."""
    for unit, factor in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)):
        if text.endswith(unit):
            return int(float(text[:-3]) * factor)
    return int(text)


def takes_direct(folder):
    """Whether files there can be opened past the system's cache."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            os.close(os.open(file.name, os.O_RDWR | os.O_DIRECT))
        return True
    except OSError:
        return False


def train(options, model, arguments, limit=None):
    """The summary with the bytes that its last step has spilled, and the group's peak; None and the error when it ended otherwise."""
    group = Cgroup(limit) if limit else None
    command = [options.neap, "train", model, "--steps", str(options.steps), "--json", "-", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=group.enter if group else None)
    peak, kind = (group.peak(), group.kind) if group else (None, "")
    if group:
        group.close()
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "killed by the system: out of memory"
        return None, peak, f"{kind}: status {done.returncode}: {why}"
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    spilled = [row["spilled_bytes"] for row in rows if "spilled_bytes" in row]
    return rows[-1] | {"spilled": spilled[-1] if spilled else 0}, peak, kind


def check(options, model):
    """One row; whether the promise held."""
    stored, _, why = train(options, model, ["--policy", "store-all"])
    if stored is None:
        print(f"{model:<10} store-all fails: {why}")
        return False
    tight = ["--policy", options.policy, "--budget", options.budget, *(["--spill-dir", options.spill] if options.spill else [])]
    told = subprocess.run([options.neap, "plan", model, *tight, "--json", "-"], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        print(f"{model:<10} plan fails: status {told.returncode}: {(told.stderr.strip().splitlines() or [''])[-1]}", flush=True)
        return False
    budget = json.loads(told.stdout.splitlines()[-1])["budget_bytes"]
    limit = budget + size(options.base)
    run, peak, how = train(options, model, tight, limit)
    if run is None:
        print(f"{model:<10} {budget / MIB:>8.1f} {limit / MIB:>8.1f}  FAILS, {how}")
        return False
    used = peak if peak is not None else run["rss_peak_bytes"]
    same = run["weights_hash"] == stored["weights_hash"]
    held = same and run["violations"] == 0 and used <= limit
    print(f"{model:<10} {stored['peak_bytes'] / MIB:>9.1f} {budget / MIB:>8.1f} {run['peak_bytes'] / MIB:>8.1f} {limit / MIB:>8.1f} "
          f"{used / MIB:>8.1f} {(run['rss_peak_bytes'] - run['peak_bytes']) / MIB:>8.1f} {run['spilled'] / MIB:>8.1f}  "
          f"{'same' if same else 'OTHER':<6} {how:<10} "
          f"{'held' if held else 'BROKEN'}", flush=True)
    return held


def main():
    """A row a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="160MiB", help="what the program may take beside its budget")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--budget", default="min")
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--spill", nargs="?", const="", metavar="DIR", help="tensors may leave for a disk: DIR, or a temporary folder")
    parser.add_argument("--neap", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/neap"))
    options = parser.parse_args()
    print(f"{'model':<10} {'store-all':>9} {'budget':>8} {'peak':>8} {'limit':>8} {'used':>8} {'beside':>8} {'spilled':>8}  {'bits':<6} "
          f"{'by':<10}  (MiB)")
    with tempfile.TemporaryDirectory(prefix="neap-promise-") as folder:
        place = ""
        if options.spill is not None:
            options.spill = options.spill or folder
            place = f", spilling {'past' if takes_direct(options.spill) else 'THROUGH'} the system's cache"
        held = [check(options, model) for model in options.models.split(",")]
    print(f"promise: {sum(held)} of {len(held)} held, base {options.base}{place}")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
