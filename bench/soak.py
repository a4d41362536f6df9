#!/usr/bin/env python3
"""Trains under every disturbance at once and ends with the weights of the undisturbed run, or says what did not.

Random budgets while it runs, disks that fail, corrupt, fill up or slow down, SIGSTOP and SIGCONT, cores that others want, kill -9
and --resume; lengths and sizes of the batches follow the same script in both runs. The undisturbed run stores everything.

usage: bench/soak.py [--minutes 60] [--model gpt-mini:...] [--seed 0] [--neap build/neap]
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

# Small enough that an hour holds thousands of steps, deep enough that there is something to decide.
MODEL = "gpt-mini:layers=4,width=96,heads=4"
SHAPE = ["--length", "64", "--batch", "8"]
EVERY = 50  # steps from one length to the next; every third time the batch changes, too
CHANGES = 4000  # 200,000 steps in 40 KB: one argument of a program is below 128 KiB
FAULTS = [None, None, "fail-write:3", "fail-read:5", "corrupt-read:4", "slow:20", "full:1MiB@40"]


def last_line(path):
    """The summary at the end of what --json wrote."""
    return json.loads(path.read_text().splitlines()[-1])


def changes(seed):
    """The script of what batches are like."""
    script = random.Random(seed)
    lengths = [f"{1 + EVERY * i}:{script.choice([16, 32, 48, 64])}" for i in range(CHANGES)]
    batches = [f"{1 + EVERY * i}:{script.choice([4, 8])}" for i in range(0, CHANGES, 3)]
    return ["--length-schedule", ",".join(lengths), "--batch-schedule", ",".join(batches)]


class Soak:
    """One disturbed run, in as many processes as it takes."""

    def __init__(self, options, folder, steps, script):
        self.options = options
        self.folder = folder
        self.steps = steps
        self.more = max(50, steps // 4)
        self.script = script
        self.random = random.Random(options.seed)
        self.count = dict.fromkeys(["kills", "stops", "budgets", "refused", "places", "faults", "slowdowns"], 0)
        self.log = folder / "disturbed.jsonl"
        self.summary = None
        self.starts = self.seen = self.violations = 0  # of all processes, as far as their lines tell
        self.busy = []
        disk = ["--spill-dir", str(folder)]
        self.places = [[], disk, [*disk, "--host-ram", "1MiB"]]  # where the adaptive policy may spill to

    def base(self):
        """What both runs have."""
        return [self.options.neap, "train", self.options.model, *SHAPE, "--steps", str(self.steps), *self.script]

    def tally(self):
        """Counts what the last process has told. Killed, it leaves its lines in FILE.part, the last one perhaps cut off."""
        for path in (self.log, self.log.with_name(self.log.name + ".part")):
            if not path.exists():
                continue
            with path.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    self.note(line)
            path.unlink()

    def note(self, line):
        """A line: a step, or the summary."""
        try:
            row = json.loads(line)
        except ValueError:
            return
        if "weights_hash" in row:
            self.summary = row
        elif "peak_bytes" in row:
            self.seen += 1
            self.violations += row.get("budget_bytes") is not None and row["peak_bytes"] > row["budget_bytes"]

    def start(self):
        """A process that goes on where the last one was; under a policy and with a disk of its own."""
        self.tally()
        self.starts += 1
        policy = self.random.choice(["adaptive", "adaptive", "spill", "greedy"])
        place = self.random.choice(self.places) if policy == "adaptive" else []
        fault = self.random.choice(FAULTS) if policy == "spill" or place else None
        self.count["faults"] += fault is not None
        self.count["places"] += bool(place)
        command = [*self.base(), "--policy", policy, *place, "--budget", self.random.choice(["min+10%", "min+50%", "100%"]), "--checkpoint",
                   str(self.folder / "run"), "--checkpoint-every", "5", "--resume", "--json", str(self.log)]
        if fault:
            command += ["--spill-fault", fault]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(self.folder / "err", "w", encoding="utf-8"))

    def slow_down(self):
        """Somebody else wants a core for some seconds."""
        seconds = self.random.uniform(1, 5)
        work = f"import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
        self.busy = [other for other in self.busy if other.poll() is None]
        self.busy.append(subprocess.Popen([sys.executable, "-c", work]))
        self.count["slowdowns"] += 1

    def disturb(self, process):
        """One thing that happens to a run. Returns whether it was killed."""
        what = self.random.random()
        if what < 0.45:
            size = self.random.choice(["min", "min+5%", "30%", "50%", "75%", "100%", "1KiB", "nonsense"])
            told = subprocess.run([self.options.neap, "budget", str(process.pid), size], capture_output=True, check=False)
            self.count["budgets" if told.returncode == 0 else "refused"] += 1
        elif what < 0.55:
            self.slow_down()
        elif what < 0.8:
            process.send_signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(0.01, 0.5))
            process.send_signal(signal.SIGCONT)
            self.count["stops"] += 1
        else:
            process.kill()
            process.wait()
            self.count["kills"] += 1
            return True
        return False

    def run(self, until):
        """Disturbs until the time is over, then lets it end. Returns its summary. A run that ends before that goes on for more steps."""
        process = self.start()
        while True:
            try:
                process.wait(timeout=self.random.uniform(0.2, 3))
            except subprocess.TimeoutExpired:
                if time.time() < until and self.disturb(process):
                    process = self.start()
                continue
            if process.returncode == 0 and time.time() >= until:
                self.tally()
                for other in self.busy:
                    other.wait()
                return self.summary
            if process.returncode == 0:
                self.steps += self.more
                process = self.start()
                continue
            error = (self.folder / "err").read_text().strip()
            if process.returncode != 4:  # a disk that stays broken ends a run, with its checkpoint; anything else is wrong
                sys.exit(f"soak: it ended with status {process.returncode}: {error}")
            process = self.start()


def pace(options, folder, script):
    """Milliseconds a step, everything stored."""
    path = folder / "pace.jsonl"
    subprocess.run([options.neap, "train", options.model, *SHAPE, "--steps", "60", *script, "--policy", "store-all", "--json", str(path)],
                   check=True, stdout=subprocess.DEVNULL)
    return last_line(path)["median_step_ms"]


def main():
    """Runs both and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--neap", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/neap"))
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory(prefix="neap-soak-") as name:
        folder = pathlib.Path(name)
        script = changes(options.seed + 1)
        # Disturbed steps are slower: recomputation, slow disks, steps lost with a kill, starts.
        steps = max(50, int(options.minutes * 60e3 / (4 * pace(options, folder, script) + 4)))
        begin = time.time()
        soak = Soak(options, folder, steps, script)
        disturbed = soak.run(begin + options.minutes * 60)
        minutes = (time.time() - begin) / 60
        path = folder / "undisturbed.jsonl"
        subprocess.run([*soak.base(), "--policy", "store-all", "--json", str(path)], check=True, stdout=subprocess.DEVNULL)
        undisturbed = last_line(path)
    happened = ", ".join(f"{n} {what}" for what, n in soak.count.items())
    same = disturbed["weights_hash"] == undisturbed["weights_hash"]
    print(f"soak: {soak.steps} steps of {options.model} in {minutes:.1f} minutes, seed {options.seed}: {happened}")
    print(f"soak: weights {disturbed['weights_hash']}, undisturbed {undisturbed['weights_hash']}: "
          f"{'the same' if same else 'DIFFERENT'}; {disturbed['violations']} violations since the last start, "
          f"{soak.violations} in the {soak.seen} steps that {soak.starts} starts have told of")
    sys.exit(0 if same and disturbed["violations"] == 0 and soak.violations == 0 else 1)


if __name__ == "__main__":
    main()
