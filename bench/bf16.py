#!/usr/bin/env python3
"""Steps with --compute bf16 beside f32 on the CPU: interleaved runs, each in a process of its own. Standard library only.

  bench/bf16.py                        all models; the table on stdout
  bench/bf16.py --only gpt-mini,...    some of them
"""
import argparse
import pathlib
import statistics
import subprocess

import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEAK = 464.0  # GFLOP/s of bf16 on two cores of the reference machine: twice what fma_peak.c measures for f32


def bert_gflop(batch=16, t=128, d=256, layers=4, vocab=1024):
    per_token = layers * (12 * d * d + 2 * t * d) + d * vocab
    return 3 * 2 * batch * t * per_token * 1e-9


WORK = {
    "gpt-mini": (["--batch", "8"], 7, run.gpt_gflop(8)),
    "bert-mini": ([], 15, bert_gflop()),
    "resnet18": (["--image", "64", "--batch", "32"], 4, run.resnet18_gflop(32, 64)),
    "lstm-lm": (["--length", "128", "--batch", "32"], 7, run.lstm_gflop(32, 128)),
}


def steps(neap, model, flags, count, compute):
    """Milliseconds of each step but the first."""
    command = [neap, "train", model, *flags, "--steps", str(count), "--threads", "2", "--compute", compute, "--json", "-"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    return run.parse(done.stdout)[0][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--neap", default=ROOT / "build" / "neap", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(WORK))
    parser.add_argument("--rounds", default=3, type=int)
    args = parser.parse_args()
    print("| model | f32 ms | bf16 ms | ratio (range over rounds) | bf16 GFLOP/s | of the bf16 peak |\n|---|---|---|---|---|---|")
    for model in args.only.split(","):
        flags, count, gflop = WORK[model]
        wide, narrow, ratios = [], [], []
        for _ in range(args.rounds):
            a = steps(args.neap, model, flags, count, "f32")
            b = steps(args.neap, model, flags, count, "bf16")
            ratios.append(statistics.median(b) / statistics.median(a))
            wide += a
            narrow += b
        a, b = statistics.median(wide), statistics.median(narrow)
        rate = gflop / b * 1e3
        print(f"| {' '.join([model, *flags]).replace('--', '')} | {a:.0f} | {b:.0f} | {b / a:.3f} "
              f"({min(ratios):.3f}–{max(ratios):.3f}) | {rate:.0f} | {rate / PEAK:.0%} |", flush=True)


if __name__ == "__main__":
    main()
