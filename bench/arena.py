#!/usr/bin/env python3
"""Arena against its lower bound, and planning time, for every built-in model: writes bench/ARENA.md.

usage: bench/arena.py [--neap build/neap] [--policies spill,oracle] [--budgets 100%,50%,min+5%] [--models a,b] [--write]
"""
import argparse
import json
import pathlib
import subprocess

MODELS = "mlp,cnn,resnet18,resnet20,resnet50,gpt-mini,gpt2,bert-mini,lstm-lm,gru-lm"


def plan(neap, model, policy, budget):
    """The best of three runs by planning time: the machine may be busy."""
    best = None
    for _ in range(3):
        done = subprocess.run([neap, "plan", model, "--policy", policy, "--budget", budget, "--json", "-"],
                              capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise SystemExit(f"{model} {policy} {budget}: {done.stderr}")
        report = json.loads(done.stdout)
        if best is None or report["planning_ms"] < best["planning_ms"]:
            best = report
    return best


def row(model, policy, budget, r):
    mib = lambda n: f"{n / 2**20:.1f}"
    ratio = r["arena_bytes"] / r["lower_bound_bytes"]
    fits = "" if r["feasible"] else "its minimum: below it the budget is refused"
    return (f"| {model} | {policy} | {budget} | {mib(r['arena_bytes'])} | {mib(r['lower_bound_bytes'])} | {ratio:.4f} | "
            f"{r['planning_ms']:.1f} | {fits} |", ratio)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--neap", default="build/neap")
    parser.add_argument("--policies", default="spill")
    parser.add_argument("--budgets", default="100%,50%,min+5%")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--write", action="store_true", help="into bench/ARENA.md")
    args = parser.parse_args()
    lines = ["# Arena and lower bound", "",
             "From `bench/arena.py --write`. The bound is the most bytes alive at one instruction: no packing is lower. "
             "The bar is 1.01. Planning is all of it (store-all, minimum, and the plan for the budget), the best of three.", "",
             "| model | policy | budget | arena MiB | bound MiB | ratio | planning ms | |", "|---|---|---|---|---|---|---|---|"]
    worst = 0.0
    for model in args.models.split(","):
        for policy in args.policies.split(","):
            for budget in args.budgets.split(","):
                line, ratio = row(model, policy, budget, plan(args.neap, model, policy, budget))
                lines.append(line)
                print(line, flush=True)
                worst = max(worst, ratio)
    lines += ["", f"The worst ratio is {worst:.4f}."]
    if args.write:
        (pathlib.Path(__file__).parent / "ARENA.md").write_text("\n".join(lines) + "\n")
    return 0 if worst <= 1.01 else 1


if __name__ == "__main__":
    raise SystemExit(main())
