#!/usr/bin/env python3
"""What the simulator says before a step against what the step took, and what steering costs. Standard library only.

  bench/simulation.py                   table: a section of bench/RESULTS.md
  bench/simulation.py --only gpt-mini   one model; stdout only

`neap train` at 50 % (`min+5%` where that is below the minimum). The simulator has the calls' times from the second to the sixth
step, most of which run on the first plan; its word ("simulated") is taken before each step. "predicted" is the same at the pace of the
last nine steps over what it said of them, which corrects itself and so proves little. What counts are the steps from the twelfth on. A run whose steps differ among themselves by more than the bound that is to be judged
says little (something else had the cores): it is repeated, and the quietest run counts.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import run

MARKS = ("<!-- simulation.py begins -->", "<!-- simulation.py ends -->")
MODELS = {
    "resnet18": ["--batch", "8", "--image", "64"],
    "resnet50": ["--batch", "8", "--image", "64"],
    "gpt-mini": ["--batch", "2", "--length", "128"],
    "bert-mini": ["--batch", "2", "--length", "128"],
    "lstm-lm": ["--batch", "32", "--length", "64"],
}
SETTLED = 12
SPREAD = 0.05  # of the middle half of a run's steps


def train(neap, model, budget, steps):
    command = [str(neap), "train", model, *MODELS[model], "--budget", budget, "--steps", str(steps), "--json", "-"]
    done = subprocess.run(command, env=run.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 3 and budget != "min+5%":
        return train(neap, model, "min+5%", steps)
    if done.returncode:
        sys.exit(f"exit status {done.returncode}: {' '.join(command)}\n{done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return budget, rows[:-1], rows[-1]


def middle(rows, what):
    return statistics.median(r[what] for r in rows[SETTLED:])


def judge(rows):
    """Measured over simulated time, and the spread of the steps."""
    late = rows[SETTLED:]
    ms = [r["step_ms"] for r in late]
    low, middle, high = statistics.quantiles(ms, n=4)
    return statistics.median(r["step_ms"] / r["simulated_ms"] for r in late), (high - low) / middle


def measure(neap, model, steps, tries):
    """The row of a quiet run, or of the quietest."""
    best = None
    for _ in range(tries):
        budget, rows, summary = train(neap, model, "50%", steps)
        ratio, spread = judge(rows)
        if best is None or spread < best[1]:
            best = ratio, spread, budget, rows, summary
        if spread <= SPREAD:
            break
    ratio, spread, budget, rows, summary = best
    above = sum(r["peak_bytes"] > r["budget_bytes"] for r in rows)
    same = "equal" if all(r["peak_bytes"] == r["simulated_peak_bytes"] for r in rows if r["simulated_peak_bytes"]) else "OTHER"
    return (f"| {model} {' '.join(MODELS[model]).replace('--', '')} | {budget} | {middle(rows, 'simulated_ms'):.1f} | {middle(rows, 'predicted_ms'):.1f} | "
            f"{middle(rows, 'step_ms'):.1f} | {ratio:.3f} | {100 * spread:.0f} % | {same} | {above} | "
            f"{100 * summary['steering_share']:.4f} % |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--only", choices=MODELS)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--tries", type=int, default=3)
    a = p.parse_args()
    lines = ["| work | budget | simulated ms | predicted ms | measured ms | measured / simulated | spread | simulated peak | steps above the budget | steering |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for model in [a.only] if a.only else MODELS:
        print(f"{model} ...", file=sys.stderr, flush=True)
        lines.append(measure(a.neap, model, a.steps, a.tries))
        print(lines[-1], flush=True)
    text = (f"## Simulated and measured\n\n`bench/simulation.py --steps {a.steps}` on 2 cores: `adaptive`, {a.steps} steps. The simulator's time stands "
            "before the step runs; spread is that of the middle half\nof the steps: where it is large, something else had the cores. "
            "Aims: within 5 %, steering at most 0.1 %.\n\n" + "\n".join(lines))
    if not a.only:
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
