#!/usr/bin/env python3
"""Activations in fewer bits: what it saves and what it costs. Standard library only.

  bench/precision.py                                       codecs and all models, five seeds; section in bench/RESULTS.md
  bench/precision.py --only gpt-mini --seeds 2 --steps 100 less of it; stdout only
  bench/precision.py --codecs                              the codecs alone (needs `ninja -C build codec_bench`); stdout only
  bench/precision.py --text FILE                           real text for gpt-mini (default: the project's own documents)

Every seed runs exact, default, int8 and int4, one behind the other in another order each time, in processes of their own. "saved" is
what backward finds kept when it begins, over exact's; "step" the median over seeds of the ratio of median step times; quality is the
mean over seeds of the difference to exact's at the same seed, with the 95 % interval (Student's t).
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import run

MARKS = ("<!-- precision.py begins -->", "<!-- precision.py ends -->")
EPOCH = 60000 // 64
VARIANTS = {
    "exact": ["--policy", "store-all"],
    "default": ["--tolerance", "default"],
    "int8": ["--policy", "int8"],
    "int4": ["--policy", "int4"],
}
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}


def works(text):
    image = ["--data", "fashion-mnist", "--eval", "test"]
    return {
        "cnn": (["cnn", *image], 3 * EPOCH, "accuracy"),
        "resnet20": (["resnet20", *image], 3 * EPOCH, "accuracy"),
        "gpt-mini": (["gpt-mini", "--data", text, "--validation", "0.05"], 400, "perplexity"),
    }


def documents(folder):
    """The project's own pages as one text."""
    pages = sorted([*run.ROOT.glob("*.md"), *run.ROOT.glob("docs/**/*.md"), *run.ROOT.glob("src/**/*.h")])
    path = pathlib.Path(folder) / "text.txt"
    path.write_text("\n\n".join(p.read_text() for p in pages))
    return str(path)


def train(neap, flags, steps, seed):
    done = subprocess.run([neap, "train", *flags, "--steps", str(steps), "--seed", str(seed), "--json", "-"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"neap train {' '.join(flags)}: {done.stderr.strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    summary = lines[-1]
    quality = next((line for line in reversed(lines) if line.get("eval")), {})
    ms = statistics.median(line["step_ms"] for line in lines[:-1] if "step_ms" in line)
    return {"ms": ms, "saved": summary["saved_bytes"] / summary["exact_saved_bytes"], "summary": summary, **quality}


def interval(values):
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:+.3f}"
    half = STUDENT.get(len(values), 2.0) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:+.3f} ± {half:.3f}"


def row(model, variant, runs, base, measure):
    ratio = statistics.median(r["ms"] / b["ms"] for r, b in zip(runs, base))
    if measure == "accuracy":
        change = interval([100 * (r["accuracy"] - b["accuracy"]) for r, b in zip(runs, base)]) + " points"
        level = f"{100 * statistics.fmean(r['accuracy'] for r in runs):.2f} %"
    else:
        change = interval([100 * (r["perplexity"] / b["perplexity"] - 1) for r, b in zip(runs, base)]) + " %"
        level = f"{statistics.fmean(r['perplexity'] for r in runs):.3f}"
    error = statistics.fmean(r["summary"]["encoding_error"] for r in runs)
    saved = statistics.fmean(r["saved"] for r in runs)
    return f"| {model} | {variant} | {saved:.3f} | {ratio:.3f} | {level} | {change} | {error:.4f} |"


def table(options, text):
    lines = ["| model | storage | saved / exact | step / exact | test | against exact | error by estimate |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for model, (flags, steps, measure) in works(text).items():
        if options.only and model not in options.only:
            continue
        results = {variant: [] for variant in VARIANTS}
        for seed in range(options.seeds):
            names = list(VARIANTS)
            for variant in names[seed % len(names):] + names[:seed % len(names)]:
                print(f"{model} {variant} seed {seed} ...", file=sys.stderr, flush=True)
                found = train(options.neap, [*flags, *VARIANTS[variant]], options.steps or steps, seed)
                results[variant].append(found)
        lines += [row(model, v, results[v], results["exact"], measure) for v in VARIANTS]
    return lines


def codecs(options):
    bench = options.neap.parent / "bench" / "codec_bench"
    lines = ["| codec | threads | GB/s of floats | of memcpy |", "| --- | ---: | ---: | ---: |"]
    for threads in (1, 2):
        done = subprocess.run([bench, "--benchmark_format=json", "--benchmark_repetitions=3", "--benchmark_min_time=0.05"],
                              capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        if done.returncode != 0:
            sys.exit(f"{bench}: {done.stderr.strip()}")
        speeds = {}
        for b in json.loads(done.stdout)["benchmarks"]:
            if b.get("aggregate_name") == "median" and "bytes_per_second" in b:
                speeds[re.sub(r"_median$", "", b["name"])] = b["bytes_per_second"] * 1e-9
        copy = next(v for k, v in speeds.items() if "copy" in k or "memcpy" in k)
        lines += [f"| {k} | {threads} | {v:.1f} | {v / copy:.2f} |" for k, v in speeds.items()]
    return lines


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--only", action="append", choices=["cnn", "resnet20", "gpt-mini"])
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--steps", type=int, help="instead of each model's own")
    p.add_argument("--text", help="for gpt-mini")
    p.add_argument("--codecs", action="store_true")
    a = p.parse_args()
    if a.codecs:
        print("\n".join(codecs(a)))
        return
    with tempfile.TemporaryDirectory() as folder:
        lines = table(a, a.text or documents(folder))
    print("\n".join(lines))
    if a.only or a.steps:
        return
    text = (f"## Activations in fewer bits\n\n`bench/precision.py --seeds {a.seeds}`: 3 epochs of Fashion-MNIST, 400 steps of text.\n\n" +
            "\n".join(lines) + "\n\n" + "\n".join(codecs(a)))
    run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
