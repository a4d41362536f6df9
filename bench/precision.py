#!/usr/bin/env python3
"""Activations in fewer bits: what it saves and what it costs. Standard library only.

  bench/precision.py                                       all trainings that bench/precision.jsonl lacks, then the table
  bench/precision.py --jobs 8 --threads 2 --minutes 9      eight at once; begins nothing that would end later than that
  bench/precision.py --time                                step times over exact's, interleaved; needs a quiet machine
  bench/precision.py --codecs                              the codecs alone (needs `ninja -C build codec_bench`)
  bench/precision.py --table                               the section of bench/RESULTS.md from the rows, nothing else
  bench/precision.py --only gpt-mini --seeds 2 --steps 100 --rows less.jsonl     less of it

A training is one row of --rows, written when it ends: what was killed is begun anew next time, what is there is not run again.
Every seed trains exact and default; the first --fixed-seeds of them int8 and int4 too. "saved" is what backward finds kept when it
begins, over exact's, at the end of the run; quality is the mean over seeds of the difference to exact's at the same seed, with the
95 % interval (Student's t); "error" is the gradient variance that rounding adds, relative to the minibatch's own, by estimate.
Trainings side by side disturb each other's times, so that step times come from --time alone: for each model short runs of all
variants in turn; the mean over sixteen places (a period of profiles and measurements of sensitivity) of the median there, behind the first sixteen steps.
Learning rates fall to 0 (cosine): at a constant rate trainings that differ by int8's rounding alone ended 0.9 % apart in perplexity (gpt-mini)
and 0.24 points in accuracy (cnn), which hides what is to be seen.
The text for gpt-mini is `bible gen1:1-rev22:21` (Debian's bible-kjv, 4.3 MB), or --text FILE; its last 2 % are held out.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import run

MARKS = ("<!-- precision.py begins -->", "<!-- precision.py ends -->")
EPOCH = 60000 // 64
VARIANTS = {
    "exact": ["--policy", "store-all"],
    "default": ["--tolerance", "default"],
    "int8": ["--policy", "int8"],
    "int4": ["--policy", "int4"],
}
# Of Student's t, by the number of values.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
# Steps of --time: the first ones, then those that count.
WARM, COUNTED, PERIOD = 16, {"cnn": 160, "resnet20": 48, "gpt-mini": 16}, 16
# Elements of a tensor that no cache holds.
LARGE = 16 << 20
SUMMARY = ("saved_bytes", "exact_saved_bytes", "encoding_error", "kept_exact", "replays", "plan_swaps", "peak_bytes", "weights_hash")


def works(text):
    image = ["--data", "fashion-mnist", "--eval", "test", "--schedule", "cosine:warmup=100"]
    return {
        "gpt-mini": (["gpt-mini", "--data", text, "--batch", "4", "--validation", "0.02", "--schedule", "cosine:warmup=40"], 400,
                     "perplexity"),
        "resnet20": (["resnet20", *image], 3 * EPOCH, "accuracy"),
        "cnn": (["cnn", *image], 3 * EPOCH, "accuracy"),
    }


def chosen(options):
    return {m: w for m, w in works(options.text).items() if not options.only or m in options.only}


def bible(folder):
    path = pathlib.Path(folder) / "text.txt"
    try:
        path.write_bytes(subprocess.run(["bible", "gen1:1-rev22:21"], capture_output=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("precision.py: no text for gpt-mini: install Debian's package bible-kjv, or give --text FILE")
    return str(path)


def train(options, flags, steps, seed):
    """All lines that it prints."""
    done = subprocess.run([options.neap, "train", *flags, "--steps", str(steps), "--seed", str(seed), "--json", "-"],
                          capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    if done.returncode != 0:
        raise RuntimeError(f"neap train {' '.join(flags)}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Rows:
    """Results by (model, variant, seed, steps), kept in a file as they come."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.found = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                self.take(json.loads(line))
            except ValueError:
                pass  # the end of a run that was killed

    def take(self, row):
        self.found[row["model"], row["variant"], row["seed"], row["steps"]] = row

    def add(self, row):
        with self.lock:
            self.take(row)
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
                file.flush()

    def seconds(self, model):
        """How long the longest training of that model took; 0: none is known."""
        with self.lock:
            return max((r["seconds"] for (m, *_), r in self.found.items() if m == model), default=0)


def wanted(options):
    """The most important first: exact and default of every seed, long trainings before short ones."""
    models = chosen(options)
    for variants, seeds in ((("exact", "default"), options.seeds), (("int4", "int8"), min(options.fixed_seeds, options.seeds))):
        for seed in range(seeds):
            for model, (_, steps, _) in models.items():
                for variant in variants:
                    yield model, variant, seed, options.steps or steps


def run_all(options, rows):
    begin = time.monotonic()

    def one(key):
        model, variant, seed, steps = key
        start = time.monotonic()
        if options.minutes and start - begin + rows.seconds(model) > 60 * options.minutes:
            return f"{model} {variant} seed {seed}: left for next time"
        lines = train(options, [*chosen(options)[model][0], *VARIANTS[variant]], steps, seed)
        quality = next((line for line in reversed(lines) if line.get("eval")), {})
        row = {"model": model, "variant": variant, "seed": seed, "steps": steps, "jobs": options.jobs, "threads": options.threads,
               "seconds": round(time.monotonic() - start, 1), **{k: quality.get(k) for k in ("accuracy", "perplexity", "loss")}}
        rows.add({**row, **{k: lines[-1][k] for k in SUMMARY}})
        return f"{model} {variant} seed {seed}: {row['seconds']} s"

    missing = [key for key in wanted(options) if key not in rows.found]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, key) for key in missing]):
            print(done.result(), file=sys.stderr, flush=True)
    return all(key in rows.found for key in wanted(options))


def interval(values):
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:+.3f}"
    half = STUDENT.get(len(values), 2.0) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:+.3f} ± {half:.3f}"


def table_row(model, variant, measure, rows, steps):
    """Of the seeds that both the variant and exact have."""
    pairs = [(row, rows.found[model, "exact", seed, steps]) for (m, v, seed, s), row in sorted(rows.found.items())
             if (m, v, s) == (model, variant, steps) and (model, "exact", seed, steps) in rows.found]
    if not pairs:
        return []
    if measure == "accuracy":
        change = interval([100 * (r["accuracy"] - b["accuracy"]) for r, b in pairs]) + " points"
        level = f"{100 * statistics.fmean(r['accuracy'] for r, _ in pairs):.2f} %"
    else:
        change = interval([100 * (r["perplexity"] / b["perplexity"] - 1) for r, b in pairs]) + " %"
        level = f"{statistics.fmean(r['perplexity'] for r, _ in pairs):.3f}"
    saved = statistics.fmean(r["saved_bytes"] / r["exact_saved_bytes"] for r, _ in pairs)
    error = statistics.fmean(r["encoding_error"] for r, _ in pairs)
    return [f"| {model} | {variant} | {len(pairs)} | {saved:.3f} | {level} | {change} | {error:.4f} |"]


def table(options, rows):
    lines = ["| model | storage | seeds | saved / exact | test | against exact | error |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for model, (_, steps, measure) in chosen(options).items():
        for variant in VARIANTS:
            lines += table_row(model, variant, measure, rows, options.steps or steps)
    return lines


def typical(runs):
    """A step's time over a period of profiles and measurements: for each place in it the median of all runs, then their mean."""
    return statistics.fmean(statistics.median(ms for run_ms in runs for ms in run_ms[place::PERIOD]) for place in range(PERIOD))


def times(options):
    """Rounds of short runs, each variant in turn; the ratio over all rounds, and within each."""
    lines = ["| model | storage | step / exact | rounds |", "| --- | --- | ---: | --- |"]
    for model, (flags, _, _) in chosen(options).items():
        flags = flags[:3]  # nothing is evaluated, the batch is the model's own
        ms = {variant: [] for variant in VARIANTS}
        for number in range(options.rounds):
            names = list(VARIANTS)
            for variant in names[number % len(names):] + names[:number % len(names)]:
                steps = [line["step_ms"] for line in train(options, [*flags, *VARIANTS[variant]], WARM + COUNTED[model], number)
                         if "step_ms" in line]
                ms[variant].append(steps[WARM:])
        for variant in list(VARIANTS)[1:]:
            ratios = [typical([a]) / typical([b]) for a, b in zip(ms[variant], ms["exact"])]
            lines.append(f"| {model} | {variant} | {typical(ms[variant]) / typical(ms['exact']):.3f} | "
                         f"{' '.join(f'{r:.3f}' for r in ratios)} |")
        print(f"{model}: exact {typical(ms['exact']):.1f} ms a step", file=sys.stderr, flush=True)
    return lines


def codecs(options):
    bench = options.neap.parent / "bench" / "codec_bench"
    lines = ["| codec | threads | GB/s of floats | of memcpy |", "| --- | ---: | ---: | ---: |"]
    for threads in (1, 2):
        done = subprocess.run([bench, "--benchmark_format=json", "--benchmark_repetitions=5", f"--benchmark_filter=/{LARGE}/"],
                              capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        if done.returncode != 0:
            sys.exit(f"{bench}: {done.stderr.strip()}")
        speeds = {}
        for b in json.loads(done.stdout)["benchmarks"]:
            if b.get("aggregate_name") == "median" and "bytes_per_second" in b and "fp32" not in b["name"]:
                speeds[b["name"].split(f"/{LARGE}")[0]] = b["bytes_per_second"] * 1e-9
        lines += [f"| {k} | {threads} | {v:.1f} | {v / speeds['memcpy']:.2f} |" for k, v in speeds.items()]
    return lines


def kept(options, part, lines):
    """A part of the section that was measured apart: into its file beside the rows, for --table."""
    options.rows.with_suffix(f".{part}.md").write_text("\n".join(lines) + "\n")
    return lines


def write_section(options, lines):
    parts = [f"## Activations in fewer bits\n\n`bench/precision.py`: 3 epochs of Fashion-MNIST (batch 64), 400 steps of text "
             f"(batch 4), learning rates falling to 0; rows in `bench/{options.rows.name}`. Before that, one seed was run at "
             "constant rates (gpt-mini at batch 8), with attention's inputs not yet taken for sensitive: default ended 2.0 % above exact's perplexity, "
             "1.3 points (resnet20) and 0.6 points (cnn) below its accuracy; int8, whose gradients hardly differ, 0.9 % above and 0.2 points "
             "below (cnn). That setting was given up for its noise and was not run again.", "\n".join(lines)]
    for part, head in (("time", "`bench/precision.py --time`:"), ("gradients", "`bench/gradient_error.py`; error: the square of the distance to the exact gradient, over the gradient's variance "
                         "from batch to batch, weight matrix by weight matrix:"), ("codecs", "`bench/precision.py --codecs`:")):
        path = options.rows.with_suffix(f".{part}.md")
        if path.exists():
            parts.append(f"{head}\n\n{path.read_text().rstrip()}")
    run.write_section(run.BENCH / "RESULTS.md", "\n\n".join(parts), MARKS)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--rows", type=pathlib.Path, default=run.BENCH / "precision.jsonl")
    p.add_argument("--only", action="append", choices=["cnn", "resnet20", "gpt-mini"])
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--fixed-seeds", type=int, default=5, help="of int8 and int4")
    p.add_argument("--steps", type=int, help="instead of each model's own")
    p.add_argument("--jobs", type=int, default=1, help="trainings at once")
    p.add_argument("--threads", type=int, default=2, help="of each training")
    p.add_argument("--minutes", type=float, help="begin nothing that would, by what is known, end later")
    p.add_argument("--rounds", type=int, default=3, help="of --time")
    p.add_argument("--text", help="for gpt-mini")
    p.add_argument("--table", action="store_true")
    p.add_argument("--time", action="store_true")
    p.add_argument("--codecs", action="store_true")
    a = p.parse_args()
    if a.codecs:
        return print("\n".join(kept(a, "codecs", codecs(a))))
    rows = Rows(a.rows)
    with tempfile.TemporaryDirectory() as folder:
        a.text = a.text or ("" if a.table else bible(folder))
        if a.time:
            return print("\n".join(kept(a, "time", times(a))))
        is_whole = a.table or run_all(a, rows)
    lines = table(a, rows)
    print("\n".join(lines))
    if is_whole and not a.only and not a.steps:
        write_section(a, lines)


if __name__ == "__main__":
    main()
