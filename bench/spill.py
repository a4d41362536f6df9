#!/usr/bin/env python3
"""Does spilling hide behind the calls? Writes bench/SPILL.md.

usage: bench/spill.py [--neap build/neap] [--models resnet18,gpt-mini,lstm-lm] [--budgets 50%,min+5%] [--steps 7]
                      [--prefix "flock /tmp/lock"] [--write]

Compute is a step's time without waiting for transfers, transfer the time that the channel was busy; both are of the
same steps. The first steps are left out: they pay for cold memory and for the plan made from guesses.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess

SKIPPED = 3


def train(args, model, flags):
    command = shlex.split(args.prefix) + [args.neap, "train", model, "--steps", str(args.steps), "--json", "-"] + flags
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model} {flags}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[SKIPPED:-1], lines[-1]


def median(steps, value):
    return statistics.median(value(s) for s in steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--neap", default="build/neap")
    parser.add_argument("--models", default="resnet18,gpt-mini,lstm-lm")
    parser.add_argument("--budgets", default="50%,min+5%")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--prefix", default="", help="put before each run, to have the machine to oneself")
    parser.add_argument("--write", action="store_true", help="into bench/SPILL.md")
    args = parser.parse_args()
    lines = ["# Spilling beside the calls", "",
             "From `bench/spill.py --write`; medians over steps, milliseconds. `ratio` is the step over the larger of "
             "compute and transfer (bar: 1.15). `store all` is another run, on a machine that others use too.", "",
             "| model | budget | peak / store-all MiB | spilled MiB | compute | transfer | stalled | step | ratio | store all | same bits |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    ok = True
    for model in args.models.split(","):
        kept, whole = train(args, model, ["--policy", "store-all"])
        for budget in args.budgets.split(","):
            steps, s = train(args, model, ["--policy", "spill", "--budget", budget])
            compute = median(steps, lambda x: x["step_ms"] - x["stalled_ms"])
            transfer = median(steps, lambda x: x["transfer_ms"])
            ratio = median(steps, lambda x: x["step_ms"] / max(x["step_ms"] - x["stalled_ms"], x["transfer_ms"]))
            same = s["weights_hash"] == whole["weights_hash"]
            ok &= same and ratio <= 1.15 and s["violations"] == 0
            lines.append(
                f"| {model} | {budget} | {s['peak_bytes'] / 2**20:.0f} / {whole['peak_bytes'] / 2**20:.0f} | "
                f"{median(steps, lambda x: x['spilled_bytes']) / 2**20:.0f} | {compute:.0f} | {transfer:.0f} | "
                f"{median(steps, lambda x: x['stalled_ms']):.1f} | {median(steps, lambda x: x['step_ms']):.0f} | "
                f"{ratio:.3f} | {median(kept, lambda x: x['step_ms']):.0f} | {'yes' if same else 'NO'} |")
            print(lines[-1], flush=True)
    if args.write:
        (pathlib.Path(__file__).parent / "SPILL.md").write_text("\n".join(lines) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
