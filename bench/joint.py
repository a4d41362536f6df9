#!/usr/bin/env python3
"""All mechanisms together against each alone and against the baselines: model x budget, exact and with a tolerance, by `neap compare`.
Standard library only.

  bench/joint.py                                  everything: its section in bench/RESULTS.md
  bench/joint.py --only gpt-mini --budgets 50%    less of it; stdout only
  bench/joint.py --rows FILE                      keeps every row, so that a run in pieces makes one table

All take step by step in turn, in one process, within the same bytes; a disk is there to spill to. "no spill" recomputes (and, with a
tolerance, rounds) only, "no recompute" spills (and rounds) only. A ratio is the median over the settled steps of a step over store-all's of the
same turn; regret is that of `adaptive` over that of `oracle`. "-": the smallest plan is larger than the budget. A share below the
minimum means min+5 %, in `neap compare` too: measured once. Below the tables: the cells in which adaptive is slower than the best other by
more than --noise, or than the oracle by more than 3 %; --strict makes them a failure.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import checkpointing
import run

MARKS = ("<!-- joint.py begins -->", "<!-- joint.py ends -->")
LEAST = "min+5%"
BUDGETS = ["50%", "35%", "25%", LEAST]
BASELINES = ["every-layer", "sqrt", "greedy", "dtr"]
EXACT, ROUNDED = "exact", "tolerance"
MOST_REGRET = 1.03
ENTRANTS = {
    EXACT: (["adaptive", "oracle", *BASELINES], ["recompute", "spill"]),
    ROUNDED: (["adaptive", "oracle", "bf16", "int8", "int4"], ["recompute", "spill", "bits"]),
}


def means(numbers, spill_dir):
    return ["--spill-dir", spill_dir, *(["--tolerance", "default"] if numbers == ROUNDED else [])]


def is_below_minimum(a, model, budget, numbers, spill_dir):
    command = [a.neap, "plan", *checkpointing.MODELS[model], "--budget", budget, *means(numbers, spill_dir), "--json", "-"]
    return subprocess.run([str(each) for each in command], env=run.environment(), capture_output=True).returncode == 3


def compare(a, model, budget, numbers, spill_dir):
    policies, without = ENTRANTS[numbers]
    command = [a.neap, "compare", *checkpointing.MODELS[model], "--budgets", budget, "--policies", ",".join(policies), "--without",
               ",".join(without), "--steps", a.steps, *means(numbers, spill_dir), "--json", "-"]
    rows = [json.loads(line) for line in run.call(command, run.environment()).splitlines()]
    for row in rows:
        row.pop("all_step_ms", None)
        row.update(model=model, budget=budget, numbers=numbers)
    return rows


def cell(row):
    if not row["feasible"]:
        return "-"
    return f"{row['ratio_to_store_all']:.3f}" + (" (!)" if row["violations"] else "")


def names_of(numbers):
    policies, without = ENTRANTS[numbers]
    return [*policies, *(f"no {mechanism}" for mechanism in without)]


def cells(rows, numbers):
    """(model, budget), its rows by policy, adaptive's time over the oracle's and over the best other's (none: it is alone)."""
    mine = [r for r in rows if r["numbers"] == numbers]
    for key in dict.fromkeys((r["model"], r["budget"]) for r in mine):
        by_name = {r["policy"]: r for r in mine if (r["model"], r["budget"]) == key}
        ratio = {name: r["ratio_to_store_all"] if r["feasible"] else float("inf") for name, r in by_name.items()}
        others = min(ratio[n] for n in names_of(numbers) if n not in ("adaptive", "oracle"))
        yield key, by_name, ratio["adaptive"] / ratio["oracle"], ratio["adaptive"] / others if others < float("inf") else None


def misses(rows, noise):
    """A line for each cell that is above a bar."""
    for numbers in ENTRANTS:
        for key, _, regret, over_others in cells(rows, numbers):
            above = [f"best other {over_others:.3f}, at most {1 + noise:.2f}"] if over_others is not None and over_others > 1 + noise else []
            above += [f"regret {regret:.3f}, at most {MOST_REGRET:.2f}"] if regret > MOST_REGRET else []
            if above:
                yield f"{' '.join(key)} {numbers}: {'; '.join(above)}"


def table(rows, numbers):
    names = names_of(numbers)
    lines = [f"| model | budget | MiB | {' | '.join(names)} | regret | best other | weights |", "| --- | --- | ---: |" + " ---: |" * (len(names) + 2) + " --- |"]
    for key, by_name, regret, over_others in cells(rows, numbers):
        ran = [r for r in by_name.values() if r["feasible"]]
        same = "" if numbers == ROUNDED else "same" if all(r["same_weights"] for r in ran) else "OTHER"
        lines.append(f"| {key[0]} | {key[1]} | {by_name['adaptive']['budget_bytes'] / run.MIB:.1f} | {' | '.join(cell(by_name[n]) for n in names)} | "
                     f"{regret:.3f} | {'alone' if over_others is None else f'{over_others:.3f}'} | {same} |")
    return "\n".join(lines)


def rows_of(a, cell_of, rows, spill_dir):
    """The rows of a cell that are not there yet."""
    model, budget, numbers = cell_of
    key = lambda r: (r["model"], r["budget"], r["numbers"])
    if any(key(r) == cell_of for r in rows):
        return []
    least = [r for r in rows if key(r) == (model, LEAST, numbers)]
    if least and is_below_minimum(a, *cell_of, spill_dir):
        return [{**r, "budget": budget} for r in least]
    print(f"{' '.join(cell_of)} ...", file=sys.stderr, flush=True)
    return compare(a, *cell_of, spill_dir)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--only", action="append", choices=checkpointing.MODELS, help="these models")
    p.add_argument("--budgets", default=",".join(BUDGETS))
    p.add_argument("--numbers", default=f"{EXACT},{ROUNDED}")
    p.add_argument("--steps", type=int, default=80, help="those after the 50th count")
    p.add_argument("--rows", type=pathlib.Path, help="rows measured before are kept, new ones added")
    p.add_argument("--noise", type=float, default=0.03, help="by which adaptive may be above the best other")
    p.add_argument("--strict", action="store_true", help="a cell above the bars ends with status 1")
    a = p.parse_args()
    rows = [json.loads(line) for line in a.rows.read_text().splitlines()] if a.rows and a.rows.exists() else []
    wanted = [(model, budget, numbers) for model in a.only or checkpointing.MODELS for numbers in a.numbers.split(",")
              for budget in sorted(a.budgets.split(","), key=lambda each: each != LEAST)]
    with tempfile.TemporaryDirectory() as spill_dir:
        for cell_of in wanted:
            rows += rows_of(a, cell_of, rows, spill_dir)
            if a.rows:
                a.rows.write_text("".join(json.dumps(r) + "\n" for r in rows))
    order = {each: k for k, each in enumerate((m, b) for m in checkpointing.MODELS for b in BUDGETS)}
    rows.sort(key=lambda r: order.get((r["model"], r["budget"]), len(order)))
    text = (f"## One decision\n\n`bench/joint.py`: step time over store-all's, {a.steps} steps each in turns; `best other` is adaptive's time over that of the best "
            "single mechanism or baseline, `regret` over the oracle's.\n")
    for numbers in a.numbers.split(","):
        text += f"\n{'To the bit' if numbers == EXACT else 'With --tolerance default'}:\n\n{table(rows, numbers)}\n"
    print(text)
    missed = list(misses(rows, a.noise))
    print("".join(f"above the bar: {line}\n" for line in missed), end="")
    if not a.only and a.budgets == ",".join(BUDGETS) and a.numbers == f"{EXACT},{ROUNDED}":
        run.write_section(run.BENCH / "RESULTS.md", text.rstrip("\n"), MARKS)
    return 1 if a.strict and missed or any(r["feasible"] and (r["violations"] or r["numbers"] == EXACT and not r["same_weights"]) for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
