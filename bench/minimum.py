#!/usr/bin/env python3
"""The least memory that a step needs beyond its state (weights, optimizer, running statistics), with one means after the
other: recomputation alone, and spilling, and fewer bits, and the batch split into parts that take turns; and how long a
step takes at that minimum. Prints a table in Markdown.

    bench/minimum.py [--neap build/neap] [--models resnet18,gpt-mini] [--steps 3] [--spill-dir DIR]
"""

import argparse
import json
import subprocess
import sys
import tempfile

MODELS = {
    "resnet18": "resnet18 --image 64 --batch 32",
    "resnet50": "resnet50 --image 64 --batch 16",
    "gpt-mini": "gpt-mini --batch 8",
    "bert-mini": "bert-mini --batch 16",
    "lstm-lm": "lstm-lm --batch 32",
}
MIB = 1024 * 1024


def call(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def beyond(neap, flags):
    plan = call(f"{neap} plan {flags} --optimizer adamw --json -")
    return plan["min_budget_bytes"] - plan["state_bytes"]


def step_ms(neap, flags, steps):
    if steps == 0:
        return float("nan")
    return call(f"{neap} train {flags} --optimizer adamw --data synthetic --budget min --steps {steps} --json -")[
        "median_step_ms"
    ]


def rows(neap, model, parts, spill, steps):
    """(what, beyond state, step at that minimum) for each means."""
    base = MODELS[model]
    ways = [("recompute", base), ("and spill", f"{base} {spill}"), ("and bits", f"{base} {spill} --tolerance default")]
    for what, flags in ways:
        yield what, beyond(neap, flags), step_ms(neap, flags, steps)
    least = min((beyond(neap, f"{base} {spill} --split {k}"), k) for k in parts)
    yield f"and split {least[1]}", least[0], step_ms(neap, f"{base} {spill} --split {least[1]}", steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", default="build/neap")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--parts", default="2,4,8")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--spill-dir", default=tempfile.gettempdir())
    args = parser.parse_args()
    parts = [int(k) for k in args.parts.split(",")]
    print("| model | means | least beyond state, MiB | of recompute alone | step there, ms |")
    print("|---|---|---:|---:|---:|")
    for model in args.models.split(","):
        alone = None
        for what, least, ms in rows(args.neap, model, parts, f"--spill-dir {args.spill_dir}", args.steps):
            alone = alone or least
            print(f"| {model} | {what} | {least / MIB:.1f} | {least / alone:.2f} | {ms:.0f} |", flush=True)


if __name__ == "__main__":
    main()
