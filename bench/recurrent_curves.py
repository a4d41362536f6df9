#!/usr/bin/env python3
"""Draws docs/images/recurrent-*.svg from what `recurrent_agent scenarios FILE` wrote: sequence by sequence, the agent and the gears.

  recurrent_curves.py FILE
"""
import json
import pathlib
import sys

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"
NAMES = {"a hog": "hog", "workspace": "workspace", "batches": "batches"}
LEFT, TOP, WIDTH, HEIGHT = 60, 40, 700, 220


def points(values, most):
    """Of a polyline."""
    step = WIDTH / max(len(values) - 1, 1)
    return " ".join(f"{LEFT + i * step:.1f},{TOP + HEIGHT - HEIGHT * min(v, most) / most:.1f}" for i, v in enumerate(values))


def draw(row):
    """One scenario; the agent in front, the best static gear dashed, the others behind in grey."""
    what = row.pop("what")
    agent = row.pop("agent")
    best = min(row, key=lambda g: sum(row[g]))
    most = 1.15 * max(max(agent), max(row[best]))
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="310" font-family="sans-serif" font-size="12" role="img" '
           f'aria-label="Milliseconds a sequence: {what}"><rect width="100%" height="100%" fill="white"/>'
           f'<text x="{LEFT}" y="18">{what}; ms a sequence: <tspan fill="#2b7bba">agent</tspan>, '
           f'<tspan fill="#c0392b">{best}, the best static gear</tspan>, <tspan fill="#888">the other gears</tspan></text>']
    for share in (0, 0.5, 1):
        y = TOP + HEIGHT * (1 - share)
        svg.append(f'<line x1="{LEFT}" y1="{y:.0f}" x2="{LEFT + WIDTH}" y2="{y:.0f}" stroke="#e4e4e4"/>'
                   f'<text x="{LEFT - 4}" y="{y + 4:.0f}" text-anchor="end">{share * most:.0f}</text>')
    lines = [(row[g], "#cccccc", "") for g in row if g != best] + [(row[best], "#c0392b", ' stroke-dasharray="5 3"'), (agent, "#2b7bba", "")]
    svg += [f'<polyline points="{points(v, most)}" fill="none" stroke="{c}" stroke-width="1.5"{dash}/>' for v, c, dash in lines]
    svg.append(f'<text x="{LEFT + WIDTH}" y="{TOP + HEIGHT + 18}" text-anchor="end">sequence {len(agent)}</text></svg>\n')
    name = next(n for begin, n in NAMES.items() if what.startswith(begin))
    (IMAGES / f"recurrent-{name}.svg").write_text("".join(svg))


def main():
    """One file a line."""
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        draw(json.loads(line))


if __name__ == "__main__":
    main()
