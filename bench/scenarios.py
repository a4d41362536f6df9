#!/usr/bin/env python3
"""What happens while training runs, and how soon `adaptive` is back: the budget halved at step 50 and restored at step 100, the
sequence length doubled, a busy neighbour. Standard library only.

  bench/scenarios.py                    table and curves: a section of bench/RESULTS.md, docs/images/scenario-*.svg
  bench/scenarios.py --only budget      one scenario; stdout only

`adaptive` and, from the change on, an `oracle` that begins in the new condition go step by step in turn in one process
(bench/race.cc), so that what else the machine does hits both alike. What counts is the median, over the steps from 20 behind the
change on, of the ratio of the two; each scenario runs several times, and the median with the range is given.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import run

MARKS = ("<!-- scenarios.py begins -->", "<!-- scenarios.py ends -->")
STEPS, SETTLE = 150, 20
MODEL = ["gpt-mini", "--batch", "2", "--length", "128"]
IMAGES = run.ROOT / "docs" / "images"
HOG = "while True: pass"


def race(program, entrants, hog_at=None):
    """Rows by entrant and round, and the first one's summary; from round `hog_at` on another process keeps a core busy."""
    words = []
    for first, last, flags in entrants:
        words += ["--vs", first, last, *flags]
    command = [str(w) for w in (program, STEPS, *words[1:])]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=run.environment(GOMP_SPINCOUNT="2000"))
    rows, summary, hog = [{} for _ in entrants], None, None
    try:
        for line in child.stdout:
            row = json.loads(line)
            if row.get("summary"):
                summary = row if row["entrant"] == 0 else summary
                continue
            rows[row["entrant"]][row["round"]] = row
            if hog is None and row["round"] + 1 == hog_at:
                hog = subprocess.Popen([sys.executable, "-c", HOG])
    finally:
        if hog:
            hog.kill()
            hog.wait()
    if child.wait():
        sys.exit(f"exit status {child.returncode}: {' '.join(command)}")
    return rows, summary


def ratio(own, other, first, last=STEPS):
    """Of the steps behind a change, `SETTLE` of them left out."""
    return statistics.median(own[i]["step_ms"] / other[i]["step_ms"] for i in range(first + SETTLE, last + 1))


def budget(program):
    schedule = ["--budget", "100%", "--budget-schedule", "50:50%,100:100%"]
    rows, summary = race(program, [(1, STEPS, [*MODEL, *schedule]), (50, 99, [*MODEL, "--policy", "oracle", "--budget", "50%"]),
                                   (100, STEPS, [*MODEL, "--policy", "oracle", "--budget", "100%"])])
    return rows, summary, {"budget halved at step 50": ratio(rows[0], rows[1], 50, 99),
                           "budget restored at step 100": ratio(rows[0], rows[2], 100)}


def length(program):
    model = [*MODEL, "--budget", "50%"]
    rows, summary = race(program, [(1, STEPS, [*model, "--length-schedule", "1:64,75:128"]), (75, STEPS, [*model, "--policy", "oracle"])])
    return rows, summary, {"length 64 → 128 at step 75": ratio(rows[0], rows[1], 75)}


def neighbour(program):
    model = [*MODEL, "--budget", "50%"]
    rows, summary = race(program, [(1, STEPS, model), (75, STEPS, [*model, "--policy", "oracle"])], hog_at=75)
    return rows, summary, {"a busy process beside it from step 75 on": ratio(rows[0], rows[1], 75)}


SCENARIOS = {"budget": budget, "length": length, "neighbour": neighbour}


COLOURS = ("#2b7bba", "#d9822b", "#8a5fbf")
LEFT, WIDTH = 44, 760


def polyline(values, scale, colour):
    """`values` by step."""
    points = " ".join(f"{LEFT + (i - 1) * WIDTH / (STEPS - 1):.1f},{scale(v):.1f}" for i, v in sorted(values.items()))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def smooth(values):
    """The median of each step and its neighbours, two on each side: single steps are the machine's noise."""
    return {i: statistics.median(values[k] for k in range(i - 2, i + 3) if k in values) for i in values}


def ticks(top, bottom, unit, most):
    """A scale at the left, and the steps below."""
    out = []
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - top)
        out.append(f'<line x1="{LEFT}" y1="{y:.0f}" x2="{LEFT + WIDTH}" y2="{y:.0f}" stroke="#e4e4e4"/>'
                   f'<text x="{LEFT - 4}" y="{y + 4:.0f}" text-anchor="end">{share * most / unit:.0f}</text>')
    for step in range(0, STEPS + 1, 25):
        x = LEFT + (max(step, 1) - 1) * WIDTH / (STEPS - 1)
        out.append(f'<text x="{x:.0f}" y="{bottom + 14}" text-anchor="middle" fill="#666">{max(step, 1)}</text>')
    return "".join(out)


def draw(name, rows):
    """Step times above, peak and budget of the adaptive run below."""
    ms = [smooth({i: r["step_ms"] for i, r in each.items()}) for each in rows]
    slowest = 1.1 * statistics.quantiles([v for each in ms for v in each.values()], n=100)[-1]
    peak = {i: r["peak_bytes"] for i, r in rows[0].items()}
    limit = {i: r["budget_bytes"] or r["peak_bytes"] for i, r in rows[0].items()}
    most = 1.1 * max(limit.values())
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="380" font-family="sans-serif" font-size="12" role="img" '
           f'aria-label="Step time and memory over {STEPS} steps, scenario {name}"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="18">step time, ms: <tspan fill="{COLOURS[0]}">adaptive</tspan>, '
           f'<tspan fill="{COLOURS[1]}">oracle that begins in the new condition</tspan></text>', ticks(30, 170, 1, slowest)]
    svg += [polyline(each, lambda v: 170 - 140 * min(v, slowest) / slowest, COLOURS[min(k, 1)]) for k, each in enumerate(ms)]
    svg += [f'<text x="{LEFT}" y="212">MiB: <tspan fill="{COLOURS[0]}">peak</tspan> within the <tspan fill="#888">budget</tspan></text>',
            ticks(222, 358, run.MIB, most), polyline(limit, lambda v: 358 - 136 * v / most, "#999999"),
            polyline(peak, lambda v: 358 - 136 * v / most, COLOURS[0]), "</svg>\n"]
    (IMAGES / f"scenario-{name}.svg").write_text("".join(svg))


def repeat(name, program, repeats):
    """Ratios of each change over the repeats, the worst of violations and steering; draws the run in the middle."""
    runs = [SCENARIOS[name](program) for _ in range(repeats)]
    runs.sort(key=lambda r: max(r[2].values()))
    draw(name, runs[len(runs) // 2][0])
    ratios = {what: sorted(r[2][what] for r in runs) for what in runs[0][2]}
    return ratios, sum(r[1]["violations"] for r in runs), max(r[1]["steering_share"] for r in runs)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--race", type=pathlib.Path, default=run.ROOT / "build" / "bench" / "race")
    p.add_argument("--only", choices=SCENARIOS)
    p.add_argument("--repeats", type=int, default=3)
    a = p.parse_args()
    lines = ["| change | adaptive / oracle from 20 steps later on | range | violations | steering |", "| --- | ---: | ---: | ---: | ---: |"]
    for name in SCENARIOS:
        if a.only and name != a.only:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        ratios, violations, steering = repeat(name, a.race, a.repeats)
        for what, r in ratios.items():
            lines.append(f"| {what} | {statistics.median(r):.3f} | {r[0]:.3f}–{r[-1]:.3f} | {violations} | {100 * steering:.3f} % |")
    text = (f"## While it runs\n\n`bench/scenarios.py`: {' '.join(MODEL).replace('--', '')}, 50 % where nothing else is said, 2 cores. "
            f"`adaptive` beside an `oracle` that begins in the new\ncondition, step by step in turn; medians of {a.repeats} runs; "
            "the aim is at most 1.05.\n\n" + "\n".join(lines))
    print(text)
    if not a.only:
        text += "".join(f"\n\n![Scenario {s}](../docs/images/scenario-{s}.svg)" for s in SCENARIOS)
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
