#!/usr/bin/env python3
"""Each technique of the optimization library, before and after. Standard library only.

  bench/library.py                    table on stdout
  bench/library.py --only int8        rows of one technique
  bench/library.py --factors          what each loop factor takes: into its section of bench/LIBRARY.md with --write
  bench/library.py --write            table into bench/LIBRARY.md: rows that ran replace those of the same name

A row is one call of build/neap with two values of a flag, run in turns (before, after, before, after, ...), each in a process of its own; the
median of a batch or step over all runs of each side. Loss and bytes are those of the last run.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "bench" / "LIBRARY.md"
TIME = "ms"

# technique, bits, what is compared, call, flags before, flags after, reading
ROWS = [
    ("int8", "others", "resnet18, batch 32", "infer resnet18 --samples 96", "--optimize off", "--optimize int8", TIME),
    ("int8", "others", "gpt-mini, batch 8 × 256", "infer gpt-mini --samples 48", "--optimize off", "--optimize int8", TIME),
    ("int8", "others", "bert-mini, batch 16 × 128", "infer bert-mini --samples 256", "--optimize off", "--optimize int8", TIME),
    ("int8", "others", "gpt-mini: state", "infer gpt-mini --samples 8", "--optimize off", "--optimize int8", "state_bytes"),
    ("sparse", "within 1e-6", "mlp, hidden 4096, batch 1, 2:4", "infer mlp:hidden=4096 --batch 1 --samples 300 --prune 2:4",
     "--optimize off", "--optimize sparse", TIME),
    ("sparse", "within 1e-6", "the same, against packed dense weights", "infer mlp:hidden=4096 --batch 1 --samples 300 --prune 2:4",
     "--optimize layout", "--optimize sparse", TIME),
    ("sparse", "within 1e-6", "mlp, hidden 4096, batch 512, 2:4", "infer mlp:hidden=4096 --batch 512 --samples 2560 --prune 2:4",
     "--optimize layout", "--optimize sparse", TIME),
    ("sparse", "within 1e-6", "gpt-mini, batch 8 × 256, 2:4", "infer gpt-mini --samples 16 --prune 2:4",
     "--optimize layout", "--optimize sparse", TIME),
    ("sparse", "within 1e-6", "gpt-mini, batch 8 × 256, share 0.9", "infer gpt-mini --samples 16 --prune 0.9",
     "--optimize layout", "--optimize sparse", TIME),
    ("sparse", "within 1e-6", "gpt-mini: state, 2:4", "infer gpt-mini --samples 8 --prune 2:4",
     "--optimize off", "--optimize sparse", "state_bytes"),
    ("layout", "same", "mlp, hidden 4096, batch 1", "infer mlp:hidden=4096 --batch 1 --samples 300", "--optimize off",
     "--optimize layout", TIME),
    ("layout", "same", "gpt-mini, batch 1 × 16", "infer gpt-mini --batch 1 --length 16 --samples 100", "--optimize off",
     "--optimize layout", TIME),
    ("layout", "same", "gpt-mini, batch 8 × 256", "infer gpt-mini --samples 16", "--optimize off", "--optimize layout", TIME),
    ("epilogue", "same", "gpt-mini, a step", "train gpt-mini --steps 4", "--optimize off", "--optimize epilogue", TIME),
    ("epilogue", "same", "gpt-mini, forward", "infer gpt-mini --samples 32", "--optimize off", "--optimize epilogue", TIME),
    ("norm", "same", "gpt-mini, a step", "train gpt-mini --steps 4", "--optimize off", "--optimize norm", TIME),
    ("norm", "same", "gpt-mini, forward", "infer gpt-mini --samples 32", "--optimize off", "--optimize norm", TIME),
    ("norm", "same", "bert-mini, forward", "infer bert-mini --samples 128", "--optimize off", "--optimize norm", TIME),
    ("norm-gradient", "same", "gpt-mini, a step", "train gpt-mini --steps 4", "--optimize off", "--optimize norm-gradient", TIME),
    ("conv-epilogue", "same", "resnet18, a step", "train resnet18 --steps 3", "--optimize off", "--optimize conv-epilogue", TIME),
    ("conv-epilogue", "same", "resnet18, forward", "infer resnet18 --samples 96", "--optimize off", "--optimize conv-epilogue", TIME),
    ("conv-epilogue", "same", "resnet18, forward: peak", "infer resnet18 --samples 32", "--optimize off", "--optimize conv-epilogue",
     "peak_bytes"),
    ("feed-forward", "same", "gpt-mini, forward", "infer gpt-mini --samples 32", "--optimize off", "--optimize feed-forward", TIME),
    ("feed-forward", "same", "bert-mini, forward", "infer bert-mini --samples 128", "--optimize off", "--optimize feed-forward", TIME),
    ("feed-forward", "same", "gpt-mini, forward: peak", "infer gpt-mini --samples 8", "--optimize off", "--optimize feed-forward",
     "peak_bytes"),
    ("feed-forward", "same", "the same, batch 64: peak", "infer gpt-mini --batch 64 --samples 64", "--optimize off",
     "--optimize feed-forward", "peak_bytes"),
    ("feed-forward-again", "same", "gpt-mini, a step", "train gpt-mini --steps 4", "--optimize off", "--optimize feed-forward-again", TIME),
    ("feed-forward-again", "same", "gpt-mini, a step: peak", "plan gpt-mini", "--optimize off", "--optimize feed-forward-again",
     "peak_bytes"),
    ("feed-forward-again", "same", "gpt2, a step: peak", "plan gpt2", "--optimize off", "--optimize feed-forward-again", "peak_bytes"),
    ("vocab-loss", "within 1e-6", "gpt2, batch 2 × 256, a step: peak", "plan gpt2", "--optimize off", "--optimize vocab-loss", "peak_bytes"),
    ("vocab-loss", "within 1e-6", "gpt2, batch 2 × 256, a step", "train gpt2 --steps 3", "--optimize off", "--optimize vocab-loss", TIME),
    ("tied-update", "same", "gpt2, batch 2 × 256, a step: peak", "plan gpt2", "--optimize vocab-loss", "--optimize vocab-loss,tied-update",
     "peak_bytes"),
    ("tied-update", "same", "gpt2, batch 2 × 256, a step", "train gpt2 --steps 3", "--optimize vocab-loss",
     "--optimize vocab-loss,tied-update", TIME),
    ("tied-update", "same", "gpt2, batch 2 × 256: the least memory", "plan gpt2", "--optimize vocab-loss",
     "--optimize vocab-loss,tied-update", "min_budget_bytes"),
    ("--buffers", "same", "gpt-mini: arena of a step", "plan gpt-mini", "--buffers first-fit", "--buffers best", "peak_bytes"),
    ("--buffers", "same", "resnet18: arena of a step", "plan resnet18", "--buffers first-fit", "--buffers best", "peak_bytes"),
    ("--buffers", "same", "lstm-lm: arena of a step", "plan lstm-lm", "--buffers first-fit", "--buffers best", "peak_bytes"),
    ("--prefetch", "same", "gpt-mini, 60 % of the activations, spilled to RAM",
     "train gpt-mini --steps 6 --policy spill --host-ram 1GiB --budget 60%", "--no-prefetch", "--prefetch", TIME),
    ("--prefetch", "same", "the same, to a disk held to 400 MB/s",
     "train gpt-mini --steps 6 --policy spill --spill-dir . --spill-write-rate 4e8 --spill-read-rate 4e8 --budget 60%", "--no-prefetch",
     "--prefetch", TIME),
    ("--prefetch", "same", "weights: gpt2, batch 1 × 128, in 256 MiB, on a disk held to 1 GB/s",
     "infer gpt2 --batch 1 --length 128 --samples 5 --budget 256MiB --spill-dir . --spill-read-rate 1e9", "--no-prefetch", "--prefetch", TIME),
    ("--prefetch", "same", "weights: gpt-mini, batch 8 × 256, in 28 MiB, on a disk held to 400 MB/s",
     "infer gpt-mini --samples 40 --budget 28MiB --spill-dir . --spill-read-rate 4e8", "--no-prefetch", "--prefetch", TIME),
    ("--prefetch", "same", "weights: gpt-mini, batch 1 × 256, in 14 MiB, on a disk held to 400 MB/s",
     "infer gpt-mini --batch 1 --samples 20 --budget 14MiB --spill-dir . --spill-read-rate 4e8", "--no-prefetch", "--prefetch", TIME),
    ("--prefetch", "same", "weights: gpt-mini, batch 8 × 256, in 28 MiB, in RAM",
     "infer gpt-mini --samples 40 --budget 28MiB --host-ram 1GiB", "--no-prefetch", "--prefetch", TIME),
    ("--host-ram", "same", "weights outside: gpt2, batch 1 × 128: peak", "infer gpt2 --batch 1 --length 128 --samples 1 --host-ram 1GiB",
     "--budget 100%", "--budget 256MiB", "peak_bytes"),
    ("--host-ram", "same", "weights outside: gpt2, batch 1 × 128", "infer gpt2 --batch 1 --length 128 --samples 5 --host-ram 1GiB", "--budget 100%",
     "--budget 256MiB", TIME),
    ("--host-ram", "same", "weights outside: gpt-mini, batch 8 × 256: peak", "infer gpt-mini --samples 8 --host-ram 1GiB",
     "--budget 100%", "--budget 28MiB", "peak_bytes"),
    ("--host-ram", "same", "weights outside: gpt-mini, batch 8 × 256", "infer gpt-mini --samples 40 --host-ram 1GiB", "--budget 100%", "--budget 28MiB", TIME),
    ("--recurrent unrolled:8", "same", "lstm-lm, batch 1 × 128, hidden 256", "train lstm-lm:hidden=256 --batch 1 --steps 12 --gates keep",
     "--recurrent rolled", "--recurrent unrolled:8", TIME),
]
HEAD = "| technique | bits | what | before | after | after / before | command |\n|---|---|---|---|---|---|---|\n"


def run(call, flags):
    words = ["build/neap", *call.split(), *flags.split(), "--json", "-"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def reading(result, what):
    if what != TIME:
        return result[what]
    return result["median_batch_ms"] if "median_batch_ms" in result else result["median_step_ms"]


def text(value, what):
    if what == TIME:
        return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms"
    return f"{value / 2**20:.2f} MiB" if what.endswith("bytes") else f"{value:.4g}"


def measured(row, rounds):
    technique, bits, title, call, before, after, what = row
    values = ([], [])
    for _ in range(rounds if what == TIME else 1):
        for side, flags in enumerate((before, after)):
            values[side].append(reading(run(call, flags), what))
    a, b = (statistics.median(v) for v in values)
    return (f"| `{technique}` | {bits} | {title} | {text(a, what)} | {text(b, what)} | {b / a:.2f} | "
            f"`neap {call}` with `{before}`, `{after}` |")


def kept_rows(new):
    """What the page's first table has of rows that were not measured this time."""
    keys = {line.split("|")[1] + line.split("|")[3] for line in new}
    page = PAGE.read_text()
    old = page[page.index(HEAD) + len(HEAD):].split("\n\n")[0].splitlines()
    return [line for line in old if line.split("|")[1] + line.split("|")[3] not in keys]


# Models whose fused calls are timed in all their factors.
FACTORS = ["gpt-mini:width=128,layers=2,heads=4,dropout=0.1 --steps 30"]
FACTORS_HEAD = "| model | call | rows in a block: ms | used |\n|---|---|---|---|\n"
FACTORS_TITLE = "## Loop factors\n"


def factor_rows():
    rows = []
    for call in FACTORS:
        words = ["build/neap", "train", *call.split(), "--optimize", "fuse", "--json", "-"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        objects = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        loops = next(o["loops"] for o in reversed(objects) if "loops" in o)
        for loop in loops:
            times = ", ".join(f"{name.split()[0]}: {ms:.3f}" for name, ms in zip(loop["factors"], loop["ms"]))
            rows.append(f"| {call.split()[0]} | `{loop['call']}` | {times} | {loop['factor'].split()[0]} |")
    return rows


def write_factors(rows):
    page = PAGE.read_text()
    start = page.index(FACTORS_TITLE) if FACTORS_TITLE in page else page.index("## Ties")
    end = page.index("## Ties")
    text = (FACTORS_TITLE + "\n`neap train MODEL --optimize fuse --json -`: a fused chain in blocks of so many rows, medians of five launches each, tried in turn in the\n"
            "first steps of one run; the fastest stays if it is 3 % faster than the first.\n\n" + FACTORS_HEAD + "\n".join(rows) + "\n\n")
    PAGE.write_text(page[:start] + text + page[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="rows of this technique")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--factors", action="store_true")
    args = parser.parse_args()
    if args.factors:
        rows = factor_rows()
        print(FACTORS_HEAD + "\n".join(rows))
        if args.write:
            write_factors(rows)
        return
    lines = []
    for row in ROWS:
        if args.only in (None, row[0]):
            lines.append(measured(row, args.rounds))
            print(lines[-1], flush=True)
    if args.write:
        page = PAGE.read_text()
        start, end = page.index(HEAD), page.index("\n\n", page.index(HEAD))
        order = [row[0] for row in ROWS]
        rows = kept_rows(lines) + lines
        rows.sort(key=lambda line: order.index(line.split("`")[1]) if line.split("`")[1] in order else len(order))
        PAGE.write_text(page[:start] + HEAD + "\n".join(rows) + page[end:])


if __name__ == "__main__":
    main()
