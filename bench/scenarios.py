#!/usr/bin/env python3
"""What happens while training runs, and how soon `adaptive` is back: the budget halved at step 50 and restored at step 100, the
sequence length doubled, a busy neighbour. Standard library only.

  bench/scenarios.py                    table and curves: a section of bench/RESULTS.md, docs/images/scenario-*.svg
  bench/scenarios.py --only budget      one scenario; stdout only

Behind each change the median step from 20 steps later on is compared with that of `oracle`, which gets the new condition from its
first step; the runs are interleaved, and `oracle` runs once before and once after.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import run

MARKS = ("<!-- scenarios.py begins -->", "<!-- scenarios.py ends -->")
STEPS, SETTLE = 150, 20
BASE = ["gpt-mini", "--batch", "4", "--length", "128"]
IMAGES = run.ROOT / "docs" / "images"
HOG = "while True: pass"


def train(neap, model, *flags, steps=STEPS, hog_at=None):
    """Rows of the run's steps; from step `hog_at` on another process keeps one core busy."""
    command = [str(neap), "train", *model, "--steps", str(steps), "--json", "-", *map(str, flags)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=run.environment())
    rows, hog = [], None
    try:
        for line in child.stdout:
            rows.append(json.loads(line))
            if hog_at is not None and len(rows) == hog_at:
                hog = subprocess.Popen([sys.executable, "-c", HOG])
    finally:
        if hog:
            hog.kill()
            hog.wait()
    if child.wait():
        sys.exit(f"exit status {child.returncode}: {' '.join(command)}")
    return rows[:-1], rows[-1]


def median_ms(rows):
    return statistics.median(r["step_ms"] for r in rows)


def oracle_ms(neap, model, *flags, hog=False):
    """Median of a short run in the new condition, behind its first steps."""
    rows, _ = train(neap, model, "--policy", "oracle", *flags, steps=30, hog_at=1 if hog else None)
    return median_ms(rows[8:])


def around(neap, changed, *oracle, **how):
    """The scenario's run between two of the oracle's, whose mean counts."""
    before = oracle_ms(neap, *oracle, **how)
    rows, summary = changed()
    return rows, summary, (before + oracle_ms(neap, *oracle, **how)) / 2


def budget(neap):
    flags = ["--policy", "adaptive", "--budget", "100%", "--budget-schedule", "50:50%,100:100%"]
    rows, summary, half = around(neap, lambda: train(neap, BASE, *flags), BASE, "--budget", "50%")
    whole = oracle_ms(neap, BASE, "--budget", "100%")
    return "budget", rows, summary, [
        ("budget halved at step 50", median_ms(rows[50 + SETTLE:100]) / half),
        ("budget restored at step 100", median_ms(rows[100 + SETTLE:]) / whole),
    ]


def length(neap):
    flags = ["--policy", "adaptive", "--budget", "50%", "--length-schedule", "75:256"]
    model = [*BASE[:3], "--length", "256"]
    plan = json.loads(run.call([neap, "plan", *model, "--budget", "50%", "--json", "-"], os.environ))
    flags[3] = str(plan["budget_bytes"])
    rows, summary, new = around(neap, lambda: train(neap, BASE, *flags), model, "--budget", flags[3])
    return "length", rows, summary, [("length 128 → 256 at step 75", median_ms(rows[75 + SETTLE:]) / new)]


def neighbour(neap):
    flags = ["--policy", "adaptive", "--budget", "50%"]
    rows, summary, new = around(neap, lambda: train(neap, BASE, *flags, hog_at=75), BASE, "--budget", "50%", hog=True)
    return "neighbour", rows, summary, [("a busy process beside it from step 75 on", median_ms(rows[75 + SETTLE:]) / new)]


SCENARIOS = {"budget": budget, "length": length, "neighbour": neighbour}


def polyline(values, scale, colour):
    points = " ".join(f"{40 + i * 760 / len(values):.1f},{y:.1f}" for i, y in enumerate(scale(v) for v in values))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def draw(name, rows):
    """Step time above, peak and budget below."""
    ms = [r["step_ms"] for r in rows]
    top = statistics.quantiles(ms, n=50)[-1] * 1.15
    bytes_ = [r["peak_bytes"] for r in rows]
    limit = [r["budget_bytes"] or r["peak_bytes"] for r in rows]
    most = max(bytes_ + limit) * 1.1
    svg = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="820" height="330" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="Step time and memory over {len(rows)} steps, scenario {name}"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="40" y="16">step time, ms (top {top:.0f})</text>', polyline(ms, lambda v: 150 - 125 * min(v, top) / top, "#2b7bba"),
        f'<text x="40" y="186">peak (blue) within the budget (grey), top {most / run.MIB:.0f} MiB</text>',
        polyline(limit, lambda v: 320 - 125 * v / most, "#999999"), polyline(bytes_, lambda v: 320 - 125 * v / most, "#2b7bba"), "</svg>\n",
    ]
    (IMAGES / f"scenario-{name}.svg").write_text("".join(svg))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--only", choices=SCENARIOS)
    a = p.parse_args()
    lines = ["| change | adaptive / oracle, 20 steps later | violations | steering |", "| --- | ---: | ---: | ---: |"]
    for name, scenario in SCENARIOS.items():
        if a.only and name != a.only:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        title, rows, summary, ratios = scenario(a.neap)
        draw(title, rows)
        for what, ratio in ratios:
            lines.append(f"| {what} | {ratio:.3f} | {summary['violations']} | {100 * summary['steering_share']:.3f} % |")
    text = f"## While it runs\n\n`bench/scenarios.py`, {' '.join(BASE)}; the aim is at most 1.05.\n\n" + "\n".join(lines)
    print(text)
    if not a.only:
        text += "".join(f"\n\n![{s}](../docs/images/scenario-{s}.svg)" for s in SCENARIOS)
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
