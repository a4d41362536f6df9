#!/usr/bin/env python3
"""The budget as a promise: every built-in model trains at its minimum inside of a memory limit that the system enforces.

The limit is the budget plus a fixed base for the program itself: code, libraries, the graph and its plans, batches. Where
memory cgroups can be made (as root, version 1 or 2) they are the limit, with their own peak; elsewhere the process's peak
in RAM is measured afterwards, and the table says so. Bits are compared with a run that stores everything without a limit.

With --spill tensors may leave for a disk, too, so that the minimum is that of all mechanisms; `spilled` is what the last step
(with --changing the one that did most) has sent there. A cgroup counts the pages that the system caches of files. The spill file
has none: it is opened with O_DIRECT (where the file system refuses that, as tmpfs does, its pages would count, and the table says
so).

With --changing budgets, lengths and batches change while it runs, with a disk and a little RAM to spill to. The limit is the base plus
that RAM plus the largest of the budgets. Each model has two rows: exact, with the bits of storing everything by the same script, and
with --tolerance default, whose bits are compared with nothing.

usage: bench/promise.py [--base 160MiB] [--models mlp,cnn,...] [--steps 3] [--budget min] [--policy adaptive] [--spill [DIR]]
                        [--changing] [--neap build/neap]
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
HOST_RAM = 16 * MIB  # with --changing
CHANGING_STEPS = 14  # the last change is at step 12
BUDGETS = ["min+50%", "2:min,4:min+25%,7:min,9:min+50%,10:min+10%,12:min"]  # the first is the largest
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")


class Cgroup:
    """A memory limit for one process; without one where the system lends none."""

    def __init__(self, limit):
        self.path = None
        self.kind = "measured"
        # The file behind the limit's forbids to swap: v1 counts memory and swap together, v2 apart. Some kernels have none.
        names = {V1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limit, "memory.max_usage_in_bytes", "cgroup v1"),
                 V2: ("memory.max", "memory.swap.max", 0, "memory.peak", "cgroup v2")}
        for root, (limit_file, swap_file, swap, peak_file, kind) in names.items():
            path = root / f"neap-promise-{uuid.uuid4().hex[:8]}"
            try:
                path.mkdir()
                (path / limit_file).write_text(str(limit))
                if (path / swap_file).exists():
                    (path / swap_file).write_text(str(swap))
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
    """The summary with the bytes that its last step (--changing: any) has spilled, and the group's peak; None and the error if it failed."""
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
    spilled = max(spilled, default=0) if options.changing else (spilled or [0])[-1]
    return rows[-1] | {"spilled": spilled}, peak, kind


def check_within(options, model, tight, stored, is_exact=True, beside=0):
    """One row; whether the promise held. `tight` are the arguments, the first budget is the largest; `beside` it RAM is lent."""
    told = subprocess.run([options.neap, "plan", model, *tight, "--json", "-"], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        print(f"{model:<10} plan fails: status {told.returncode}: {(told.stderr.strip().splitlines() or [''])[-1]}", flush=True)
        return False
    budget = json.loads(told.stdout.splitlines()[-1])["budget_bytes"]
    limit = budget + size(options.base) + beside
    run, peak, how = train(options, model, tight, limit)
    if run is None:
        print(f"{model:<10} {budget / MIB:>8.1f} {limit / MIB:>8.1f}  FAILS, {how}")
        return False
    used = peak if peak is not None else run["rss_peak_bytes"]
    same = run["weights_hash"] == stored["weights_hash"]
    bits = ("same" if same else "OTHER") if is_exact else "-"
    held = bits != "OTHER" and run["violations"] == 0 and used <= limit
    print(f"{model:<10} {stored['peak_bytes'] / MIB:>9.1f} {budget / MIB:>8.1f} {run['peak_bytes'] / MIB:>8.1f} {limit / MIB:>8.1f} "
          f"{used / MIB:>8.1f} {(run['rss_peak_bytes'] - run['peak_bytes']) / MIB:>8.1f} {run['spilled'] / MIB:>8.1f}  "
          f"{bits:<6} {how:<10} "
          f"{'held' if held else 'BROKEN'}", flush=True)
    return held


def check(options, model):
    """One budget from begin to end: a row."""
    stored, _, why = train(options, model, ["--policy", "store-all"])
    if stored is None:
        print(f"{model:<10} store-all fails: {why}")
        return [False]
    tight = ["--policy", options.policy, "--budget", options.budget, *(["--spill-dir", options.spill] if options.spill else [])]
    return [check_within(options, model, tight, stored)]


def script_of(first):
    """What batches are like, from which step on, of a model whose first step has told its own batch and length (0: no sequences)."""
    batch, length = first["batch"], first["length"]
    batches = ["--batch-schedule", f"3:{max(1, batch // 2)},8:{batch},12:{max(1, batch // 4)}"]
    return [*batches, *(["--length-schedule", f"5:{length // 2},9:{length},11:{3 * length // 4}"] if length else [])]


def check_changing(options, model):
    """Budgets, lengths and batches that change: a row for exact storage, a row with a tolerance."""
    told = subprocess.run([options.neap, "train", model, "--steps", "1", "--policy", "store-all", "--json", "-"], capture_output=True,
                          text=True, check=False)
    if told.returncode != 0:
        print(f"{model:<10} store-all fails: status {told.returncode}: {told.stderr.strip()}")
        return [False, False]
    script = script_of(json.loads(next(line for line in told.stdout.splitlines() if line.startswith("{"))))
    stored, _, why = train(options, model, ["--policy", "store-all", *script])
    if stored is None:
        print(f"{model:<10} store-all fails: {why}")
        return [False, False]
    tight = [*script, "--policy", options.policy, "--budget", BUDGETS[0], "--budget-schedule", BUDGETS[1], "--spill-dir", options.spill,
             "--host-ram", str(HOST_RAM)]
    return [check_within(options, model, tight, stored, True, HOST_RAM),
            check_within(options, model, [*tight, "--tolerance", "default"], stored, False, HOST_RAM)]


def main():
    """A row a model, or two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="160MiB", help="what the program may take beside its budget")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, help=f"3; with --changing {CHANGING_STEPS}")
    parser.add_argument("--budget", default="min")
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--spill", nargs="?", const="", metavar="DIR", help="tensors may leave for a disk: DIR, or a temporary folder")
    parser.add_argument("--changing", action="store_true", help="budgets, lengths and batches change while it runs; spills")
    parser.add_argument("--neap", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/neap"))
    options = parser.parse_args()
    options.steps = options.steps or (CHANGING_STEPS if options.changing else 3)
    if options.changing and options.budget != "min":
        parser.error("--changing has budgets of its own; leave --budget out")
    if options.changing and options.spill is None:
        options.spill = ""
    print(f"{'model':<10} {'store-all':>9} {'budget':>8} {'peak':>8} {'limit':>8} {'used':>8} {'beside':>8} {'spilled':>8}  {'bits':<6} "
          f"{'by':<10}  (MiB)")
    with tempfile.TemporaryDirectory(prefix="neap-promise-") as folder:
        place = ""
        if options.spill is not None:
            options.spill = options.spill or folder
            place = f", spilling {'past' if takes_direct(options.spill) else 'THROUGH'} the system's cache"
        row = check_changing if options.changing else check
        held = [each for model in options.models.split(",") for each in row(options, model)]
    print(f"promise: {sum(held)} of {len(held)} held, base {options.base}{place}")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
