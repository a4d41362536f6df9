#!/usr/bin/env python3
"""Recomputation below store-all: model x budget x policy, by `neap compare`, which lets all policies take step by step in turn.
Standard library only.

  bench/checkpointing.py                                  every model, budget and policy: its section in bench/RESULTS.md
  bench/checkpointing.py --only gpt-mini --budgets 50%    less of it; stdout only
  bench/checkpointing.py --rows FILE                      keeps every row, so that a run in pieces makes one table

A ratio is the median over the steps from the 31st on of a policy's step over store-all's step of the same turn. Shares are of what
storing everything takes beside the state; one below the minimum counts as min+5%. All policies get the same bytes; "-" means
that a policy's smallest plan is larger. "weights" says whether they are those of store-all to the bit after all steps.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import run

MARKS = ("<!-- checkpointing.py begins -->", "<!-- checkpointing.py ends -->")
# Small batches, so that a step is some 100 to 600 ms.
MODELS = {
    "resnet18": ["resnet18", "--image", "64", "--batch", "8"],
    "resnet50": ["resnet50", "--image", "64", "--batch", "8"],
    "gpt-mini": ["gpt-mini:dropout=0.1", "--batch", "2"],
    "bert-mini": ["bert-mini:dropout=0.1", "--batch", "4"],
    "lstm-lm": ["lstm-lm:dropout=0.1", "--batch", "8"],
}
BUDGETS = ["75%", "50%", "35%", "25%", "min+5%"]
POLICIES = ["adaptive", "oracle", "every-layer", "sqrt", "greedy", "dtr"]


def compare(neap, model, budget, policies, steps):
    command = [neap, "compare", *MODELS[model], "--budgets", budget, "--policies", ",".join(policies), "--steps", str(steps), "--json", "-"]
    rows = [json.loads(line) for line in run.call(command, run.environment()).splitlines()]
    for row in rows:
        row.pop("all_step_ms", None)
        row.update(model=model, budget=budget)
    return rows


def is_below_minimum(neap, model, budget):
    command = [neap, "plan", *MODELS[model], "--budget", budget, "--json", "-"]
    return subprocess.run(command, env=run.environment(), capture_output=True).returncode == 3


def cell(row):
    if not row["feasible"]:
        return "-"
    flaw = "" if row["same_weights"] and not row["violations"] else " (!)"
    return f"{row['ratio_to_store_all']:.3f}{flaw}"


def table(rows, policies):
    lines = [f"| model | budget | MiB | {' | '.join(policies)} | adaptive / oracle | weights | violations | steering |",
             "| --- | --- | ---: |" + " ---: |" * len(policies) + " ---: | --- | ---: | ---: |"]
    for key in dict.fromkeys((r["model"], r["budget"]) for r in rows):
        by_policy = {r["policy"]: r for r in rows if (r["model"], r["budget"]) == key}
        ran = [r for r in by_policy.values() if r["feasible"]]
        ours, best = by_policy.get("adaptive"), by_policy.get("oracle")
        regret = ours["ratio_to_store_all"] / best["ratio_to_store_all"] if ours and best else float("nan")
        same = "same" if all(r["same_weights"] for r in ran) else "OTHER"
        steering = f"{100 * ours['steering_share']:.3f} %" if ours else ""
        lines.append(f"| {key[0]} | {key[1]} | {ran[0]['budget_bytes'] / run.MIB:.1f} | "
                     f"{' | '.join(cell(by_policy[p]) for p in policies)} | {regret:.3f} | {same} | "
                     f"{sum(r['violations'] for r in ran)} | {steering} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    parser.add_argument("--only", action="append", choices=MODELS, help="these models")
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rows", type=pathlib.Path, help="rows measured before are kept, new ones added")
    a = parser.parse_args()
    policies = a.policies.split(",")
    rows = [json.loads(line) for line in a.rows.read_text().splitlines()] if a.rows and a.rows.exists() else []
    below = {}
    for model in a.only or MODELS:
        for budget in a.budgets.split(","):
            if any((r["model"], r["budget"]) == (model, budget) for r in rows):
                continue
            if budget != "min+5%" and is_below_minimum(a.neap, model, budget):
                below.setdefault(budget, []).append(model)
                continue
            print(f"{model} {budget} ...", file=sys.stderr, flush=True)
            rows += compare(a.neap, model, budget, policies, a.steps)
            if a.rows:
                a.rows.write_text("".join(json.dumps(r) + "\n" for r in rows))
    text = ("## Computing again instead of keeping\n\n`bench/checkpointing.py`: step time over store-all's, taken in turns in one run; "
            f"{a.steps} steps, those from the 31st on count.") + "".join(
                f" {budget} is below the minimum of {' and '.join(models)}: it counts as min+5%." for budget, models in below.items()) + "\n\n" + table(rows, policies)
    print(text)
    if not a.only and (a.budgets, a.policies) == (",".join(BUDGETS), ",".join(POLICIES)):
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)
    ran = [r for r in rows if r["feasible"]]
    return 1 if any(r["violations"] or not r["same_weights"] for r in ran) else 0


if __name__ == "__main__":
    sys.exit(main())
