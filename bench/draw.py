#!/usr/bin/env python3
"""Draws docs/images/results.svg from the table in bench/RESULTS.md: Neap's step time and memory as a share of PyTorch's."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, LEFT, BAR, GAP = 860, 260, 18, 8


def rows():
    """(work, who, ms, MiB) of each row of the table."""
    for line in (ROOT / "bench" / "RESULTS.md").read_text().splitlines():
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) >= 5 and re.match(r"[\d.]+", cells[2]):
            number = [float(re.match(r"[\d.]+", c).group()) if re.match(r"[\d.]+", c) else None for c in (cells[2], cells[4])]
            yield cells[0], cells[1], *number


def best_peer(items, column):
    values = [i[column] for i in items if "neap" not in i[1].lower() and i[column] is not None]
    return min(values) if values else None


def bars():
    works = {}
    for row in rows():
        works.setdefault(row[0] or list(works)[-1], []).append(row)
    for work, items in works.items():
        neap = next(i for i in items if "neap" in i[1].lower())
        for column, label in ((2, "time"), (3, "memory")):
            peer = best_peer(items, column)
            if peer and neap[column] is not None:
                yield f"{work.split(',')[0]}, {label}", neap[column] / peer


def main():
    parts, y = [], 40
    scale = (WIDTH - LEFT - 70) / 1.1
    for label, share in bars():
        colour = "#2b7bba" if "time" in label else "#3fa66b"
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{label}</text>'
                     f'<rect x="{LEFT}" y="{y}" width="{share * scale:.0f}" height="{BAR}" fill="{colour}" rx="2"/>'
                     f'<text x="{LEFT + share * scale + 6:.0f}" y="{y + 13}">{share:.2f}×</text>')
        y += BAR + GAP
    one = LEFT + scale
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" font-family="sans-serif" font-size="13" '
           f'role="img" aria-label="Neap as a share of PyTorch at its best">'
           f'<rect width="100%" height="100%" fill="white"/>'
           f'<text x="{LEFT}" y="22" font-weight="bold">Neap as a share of PyTorch at its best (1.0 = PyTorch; shorter is better)</text>'
           + "".join(parts) + f'<line x1="{one:.0f}" y1="32" x2="{one:.0f}" y2="{y}" stroke="#999" stroke-dasharray="4 3"/></svg>\n')
    target = ROOT / "docs" / "images" / "results.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(svg)
    print(target)


if __name__ == "__main__":
    main()
