#!/usr/bin/env python3
"""Recomputation below store-all: model x budget x policy, steps timed in turns. Standard library only.

  bench/checkpointing.py                                  every model, budget and policy; the table goes to stdout
  bench/checkpointing.py --only gpt-mini --budgets 50%    less of it
  bench/checkpointing.py --policies oracle --rounds 5

Each round runs store-all and every policy once, in processes of their own, so that what disturbs one disturbs all; a ratio is the
median over rounds of a policy's median step over store-all's in the same round. A share below a policy's minimum counts as
min+5%. "hash" says whether the weights are those of store-all to the bit after all steps; "bound" is the arena over the most
bytes alive at one time.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

NEAP = pathlib.Path(__file__).resolve().parent.parent / "build" / "neap"
MODELS = {
    "resnet18": ["resnet18"],
    "resnet50": ["resnet50", "--image", "64", "--batch", "8"],
    "gpt-mini": ["gpt-mini:dropout=0.1"],
    "bert-mini": ["bert-mini:dropout=0.1"],
    "lstm-lm": ["lstm-lm:dropout=0.1"],
    "gru-lm": ["gru-lm:dropout=0.1"],
    "resnet20": ["resnet20"],
    "cnn": ["cnn"],
    "mlp": ["mlp"],
}
JUDGED = ["resnet18", "resnet50", "gpt-mini", "bert-mini", "lstm-lm"]
BUDGETS = ["75%", "50%", "35%", "25%", "min+5%"]
POLICIES = ["oracle", "every-layer", "sqrt", "greedy", "dtr"]
MIB = 2**20


def call(verb, model, *flags):
    done = subprocess.run([NEAP, verb, *MODELS[model], *flags, "--json", "-"], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if not lines or done.returncode not in (0, 3):
        sys.exit(f"neap {verb} {model} {' '.join(flags)}: {done.stderr.strip()}")
    return lines


def plan_of(model, policy, budget):
    """The plan, and the budget that it is for."""
    report = call("plan", model, "--policy", policy, "--budget", budget)[-1]
    if not report["feasible"]:
        budget = "min+5%"
        report = call("plan", model, "--policy", policy, "--budget", budget)[-1]
    return report, budget


def train(model, steps, *flags):
    lines = call("train", model, "--steps", str(steps), *flags)
    timed = [line["step_ms"] for line in lines[:-1]][3:]  # plans from guesses, the timed step and its new plan come first
    return lines[-1], statistics.median(timed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=MODELS, help="these models")
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    print("| model | budget | policy | budget MiB | peak MiB | bound | hash | violations | step ms | of store-all | planned |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    failures = 0
    for model in options.only or JUDGED:
        for share in options.budgets.split(","):
            runs = [(policy, *plan_of(model, policy, share)) for policy in options.policies.split(",")]
            ratios = {policy: [] for policy, *_ in runs}
            results = {}
            for _ in range(options.rounds):
                base, base_ms = train(model, options.steps, "--policy", "store-all")
                for policy, _, budget in runs:
                    summary, ms = train(model, options.steps, "--policy", policy, "--budget", budget)
                    ratios[policy].append(ms / base_ms)
                    results[policy] = (summary, ms, summary["weights_hash"] == base["weights_hash"])
            base_plan = call("plan", model, "--policy", "store-all")[-1]
            for policy, plan, budget in runs:
                summary, ms, same = results[policy]
                failures += (not same) + summary["violations"]
                bound = plan["arena_bytes"] / plan["lower_bound_bytes"]
                print(f"| {model} | {share}{' (min+5%)' if budget != share else ''} | {policy} | {summary['budget_bytes'] / MIB:.1f} "
                      f"| {summary['peak_bytes'] / MIB:.1f} | {bound:.4f} | {'same' if same else 'DIFFERENT'} | {summary['violations']} "
                      f"| {ms:.1f} | {statistics.median(ratios[policy]):.3f} "
                      f"| {plan['predicted_step_ms'] / base_plan['predicted_step_ms']:.3f} |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
