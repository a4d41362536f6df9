#!/usr/bin/env python3
"""The reward's parameters swept: what they make of peak, step time and the layers that are computed again. Standard library only.

  bench/reward_sweep.py                 table and curves: a section of bench/RESULTS.md, docs/images/reward-*.svg
  bench/reward_sweep.py --plan-only     without measured steps; stdout only

The reward is -(time * added time + memory * bytes kept + bandwidth * bandwidth used in recomputation). Time has weight 1, and one of the
others is swept; `document` is the named one (-memory - 0.1 * time). Layers and simulated time are those of `neap plan`; peak and
measured steps those of training in turn in one process (bench/race.cc), steps as a ratio to the constrained reward's.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

import run

MARKS = ("<!-- reward_sweep.py begins -->", "<!-- reward_sweep.py ends -->")
MODEL = ["gpt-mini", "--batch", "4", "--length", "128", "--budget", "75%"]
SWEEPS = {
    "memory": [["--reward-weights", f"1,{w},0"] for w in ("0", "0.3", "0.6", "0.8", "1", "2")],
    "bandwidth": [["--reward-weights", f"1,0,{w}"] for w in ("0", "1", "10")],
    "named": [["--reward", "constrained"], ["--reward", "document"]],
}
IMAGES = run.ROOT / "docs" / "images"
STEPS, SETTLED = 14, 8


def name_of(flags):
    return flags[1]


def plan(neap, flags):
    """Peak in MiB, simulated ms, share of the layers that are computed again for the most part."""
    p = json.loads(run.call([neap, "plan", *MODEL, *flags, "--json", "-"], os.environ))
    again = sum(layer["action"].startswith(("recompute", "every")) for layer in p["layers"])
    return p["peak_bytes"] / run.MIB, p["predicted_step_ms"], again / len(p["layers"])


def measured(program, sweep):
    """Step times as ratios to the first one's, step by step; and the peaks of the last steps in MiB."""
    words = [w for flags in sweep for w in ("--vs", "1", str(STEPS), *MODEL, "--synchronous-planning", *flags)]
    out = subprocess.run([str(program), str(STEPS), *words[1:]], stdout=subprocess.PIPE, text=True, check=True,
                         env=run.environment(GOMP_SPINCOUNT="2000")).stdout
    rows, peaks = {}, {}
    for row in map(json.loads, out.splitlines()):
        if not row.get("summary") and row["round"] > SETTLED:
            rows[row["entrant"], row["round"]] = row["step_ms"]
            peaks[row["entrant"]] = row["peak_bytes"] / run.MIB
    times = [statistics.median(rows[i, k] / rows[0, k] for k in range(SETTLED + 1, STEPS + 1)) for i in range(len(sweep))]
    return times, [peaks[i] for i in range(len(sweep))]


def draw(what, names, columns):
    """A panel a column: (title, values)."""
    width, left, top, height = 270, 40, 40, 150
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(columns) + 20}" height="240" font-family="sans-serif" '
           f'font-size="12" role="img" aria-label="Effect of the weight of {what} in the reward">'
           '<rect width="100%" height="100%" fill="white"/>']
    for c, (title, values) in enumerate(columns):
        x0, most = left + c * width, 1.15 * max(max(values), 1e-9)
        at = [(x0 + i * (width - 70) / max(len(values) - 1, 1), top + height - height * v / most) for i, v in enumerate(values)]
        svg.append(f'<text x="{x0}" y="24">{title}</text><line x1="{x0}" y1="{top + height}" x2="{x0 + width - 70}" y2="{top + height}" '
                   'stroke="#999"/>')
        svg.append('<polyline fill="none" stroke="#2b7bba" stroke-width="1.5" points="' + " ".join(f"{x:.0f},{y:.0f}" for x, y in at) + '"/>')
        for (x, y), v, n in zip(at, values, names):
            svg.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="#2b7bba"/><text x="{x:.0f}" y="{y - 7:.0f}" text-anchor="middle" '
                       f'font-size="9">{v:.3g}</text><text x="{x:.0f}" y="{top + height + 16}" text-anchor="middle" font-size="10">{n}</text>')
        svg.append(f'<text x="{x0}" y="{top + height + 36}" fill="#666">weight of {what}</text>')
    (IMAGES / f"reward-{what}.svg").write_text("".join(svg) + "</svg>\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--race", type=pathlib.Path, default=run.ROOT / "build" / "bench" / "race")
    p.add_argument("--plan-only", action="store_true")
    a = p.parse_args()
    lines = ["| reward | peak MiB | layers made again | simulated step / constrained | measured step / constrained |",
             "| --- | ---: | ---: | ---: | ---: |"]
    for what, sweep in SWEEPS.items():
        plans = [plan(a.neap, flags) for flags in sweep]
        nothing = [float("nan")] * len(sweep)
        times, peaks = (nothing, [p[0] for p in plans]) if a.plan_only else measured(a.race, sweep)
        for flags, (_, ms, again), time, peak in zip(sweep, plans, times, peaks):
            lines.append(f"| `{' '.join(flags)}` | {peak:.1f} | {100 * again:.0f} % | {ms / plans[0][1]:.3f} | {time:.3f} |")
        if what != "named" and not a.plan_only:
            draw(what, [name_of(f).split(",")[1 if what == "memory" else 2] for f in sweep],
                 [("peak, MiB", peaks), ("measured step / constrained", times),
                  ("layers made again, %", [100 * x[2] for x in plans])])
    text = (f"## The reward's parameters\n\n`bench/reward_sweep.py`: {' '.join(MODEL).replace('--', '')}, 2 cores; weights are time, memory, bandwidth. "
            "The budget is a limit under every reward;\nwhere memory has a weight, the agent stays below it of its own accord, and pays in time.\n\n" + "\n".join(lines))
    print(text)
    if not a.plan_only:
        text += "".join(f"\n\n![Weight of {s} in the reward](../docs/images/reward-{s}.svg)" for s in SWEEPS if s != "named")
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
