#!/usr/bin/env python3
"""What optimizing a step's graph gains on the CPU, and Neap against torch.compile: whole steps with AdamW, 2 threads.

  bench/optimize.py                               table on stdout, and its section in bench/RESULTS.md
  bench/optimize.py --only gpt-mini               one model; stdout only
  bench/optimize.py --no-peer                     Neap alone; stdout only

Runs are interleaved and repeated as in bench/run.py: Neap with `--optimize off`, `--optimize adaptive`, `--compute bf16`, and
PyTorch compiled (glibc keeps its memory; for images the faster layout, channels last). Shares are of the FMA peak of f32
measured in the same minutes; what is done in bf16 may be above it.
"""
import argparse
import os
import pathlib
import statistics
import sys

import run
from run import CHANNELS_LAST, PLAIN

MARKS = ("<!-- optimize.py begins -->", "<!-- optimize.py ends -->")
NEAP = {"off": ["--optimize", "off"], "adaptive": ["--optimize", "adaptive"], "bf16": ["--optimize", "adaptive", "--compute", "bf16"]}
COMPILED, COMPILED_BF16 = "torch.compile", "torch.compile, bf16"


def bert_gflop(batch, t=128, d=256, layers=4, vocab=1024):
    per_token = layers * (12 * d * d + 2 * t * d) + d * vocab  # attention is not causal
    return 3 * 2 * batch * t * per_token * 1e-9


# The time aims are of the optimized step over the other.
WORK = [
    run.Work("gpt-mini", 8, 6, run.gpt_gflop(8), [], {PLAIN: 0.85}, 0),
    run.Work("bert-mini", 16, 12, bert_gflop(16), [], {PLAIN: 0.85}, 0),
    run.Work("resnet18", 32, 3, run.resnet18_gflop(32, 64), ["--image", "64"], {CHANNELS_LAST: 0.90}, 0),
]
BF16_AIM, PEER_AIM = 0.60, 0.90


class Race(run.Bench):
    def neap_with(self, work, flags):
        """Step times behind the first ones, in which calls are timed."""
        warm_up = 3
        command = [self.neap, "train", work.model, "--batch", work.batch, "--steps", work.steps + warm_up, *work.flags, *flags]
        ms, _ = run.parse(run.call([*command, "--optimizer", "adamw", "--threads", run.THREADS, "--json", "-"], run.environment()))
        return ms[warm_up:]

    def compiled(self, work, more):
        env = run.environment(MALLOC_MMAP_THRESHOLD_=str(32 * run.MIB), MALLOC_TRIM_THRESHOLD_=str(2**36))
        layout = next(iter(work.time_target))
        return self.torch(work, "--compile", *more, "--steps", work.steps, "--warmup", 3, *run.layout_flags(layout), env=env)[0]


def measure(race, work, rounds, with_peer):
    times = {}
    for _ in range(rounds):
        for name, flags in NEAP.items():
            times.setdefault(name, []).append(race.undisturbed(race.neap_with, work, flags))
        if with_peer:
            times.setdefault(COMPILED, []).append(race.undisturbed(race.compiled, work, []))
            times.setdefault(COMPILED_BF16, []).append(race.undisturbed(race.compiled, work, ["--bf16"]))
    return times


def ratio(times, one, other):
    median = statistics.median
    whole = median(sum(times[one], [])) / median(sum(times[other], []))
    each = [median(a) / median(b) for a, b in zip(times[one], times[other])]
    return f"{whole:.2f} ({min(each):.2f}–{max(each):.2f})"


def rows(work, times, peak):
    share = lambda ms: f"{100 * work.gflop / ms * 1e3 / peak:.0f} %"
    aims = {"adaptive": ("off", f"≤ {next(iter(work.time_target.values())):.2f}, or 85 % of the peak"), "bf16": ("off", f"≤ {BF16_AIM:.2f}"),
            COMPILED: ("adaptive", f"≤ {PEER_AIM:.2f}, or 85 % of the peak"), COMPILED_BF16: ("bf16", "")}
    for name, rounds in times.items():
        ms = statistics.median(sum(rounds, []))
        cells = [work.title, name if name in (COMPILED, COMPILED_BF16) else f"neap, {name}", f"{ms:.0f}", share(ms)]
        if name == "off":
            yield cells + ["", ""]
        elif name in (COMPILED, COMPILED_BF16):
            yield cells + [f"Neap {ratio(times, aims[name][0], name)} of this", aims[name][1]]
        else:
            yield cells + [f"{ratio(times, name, aims[name][0])} of off", aims[name][1]]


def table(cells):
    head = ["work", "who", "step ms", "of the f32 FMA peak", "ratio", "aim"]
    lines = [head, ["---"] * 2 + ["---:"] * 2 + ["---"] * 2, *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--python", type=pathlib.Path, default=run.VENV)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only")
    p.add_argument("--no-peer", action="store_true")
    a = p.parse_args()
    if a.python == run.VENV and not a.no_peer:
        run.call([run.BENCH / "setup_venv.sh"], os.environ)
    race = Race(a.neap, a.python, run.ROOT / "build" / "bench")
    cells = []
    for work in WORK:
        if a.only and work.model not in a.only.split(","):
            continue
        print(f"{work.title} ...", file=sys.stderr, flush=True)
        times = measure(race, work, a.rounds, not a.no_peer)
        cells += rows(work, times, race.peak)
    text = "## Optimized steps\n\n"
    text += f"`bench/optimize.py --rounds {a.rounds}`; 2 threads, AdamW; FMA peak {race.peak:.0f} GFLOP/s in f32. Medians, with the range over rounds.\n\n"
    text += table(cells)
    print(text)
    if not a.only and not a.no_peer:
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
