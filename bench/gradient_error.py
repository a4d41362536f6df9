#!/usr/bin/env python3
"""How far gradients are from exact ones when activations are stored in fewer bits: measured, not estimated. Standard library only.

  bench/gradient_error.py [--only gpt-mini] [--text FILE]

A model is trained exactly for some steps. From there on weights stand still (a learning rate of 0) while --tolerance settles its levels;
then one step of plain gradient descent at a rate of 1 shows each storage's gradient, of the same batch and weights. "error" is the square of its
distance to the exact gradient over the variance of the gradient from batch to batch, weight matrix by weight matrix: mean and largest.
"bytes" are the saved ones over those of exact storage. Results go into bench/precision.gradients.md, for `bench/precision.py --table`.
"""
import argparse
import array
import json
import operator
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import tempfile

import precision
import run

STORAGES = {
    "int8": ["--policy", "int8"],
    "tolerance 0.02": ["--tolerance", "0.02"],
    "default": ["--tolerance", "default"],
    "tolerance 0.5": ["--tolerance", "0.5"],
    "int4": ["--policy", "int4"],
}
# Steps of training, then of settling.
TRAINED = {"gpt-mini": 60, "resnet20": 300, "cnn": 300}
SETTLED = {"gpt-mini": 48, "resnet20": 208, "cnn": 208}
BATCHES = 5
MATRIX = 4096  # elements: biases and norms go with their layers
PLAIN = ["--optimizer", "sgd", "--momentum", "0", "--weight-decay", "0"]


def weights(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__" or "running" in name:
            continue
        begin, end = entry["data_offsets"]
        if end - begin >= 4 * MATRIX:
            out[name] = array.array("f", data[8 + size + begin:8 + size + end])
    return out


def difference(a, b):
    return {name: array.array("d", map(operator.sub, a[name], b[name])) for name in a}


def square(v):
    return sum(map(operator.mul, v, v))


class Bench:
    def __init__(self, options, model, folder):
        base = precision.works(options.text)[model][0]
        self.base = base[:base.index("--validation")] if "--validation" in base else base[:3]
        self.neap, self.folder = options.neap, pathlib.Path(folder)

    def train(self, steps, *flags):
        command = [self.neap, "train", *self.base, "--steps", str(steps), "--json", "-", *map(str, flags)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        return json.loads(done.stdout.splitlines()[-1])

    def gradient(self, steps, *flags):
        """Of the step behind `steps`, and the summary of the run."""
        to = self.folder / "to.safetensors"
        summary = self.train(steps + 1, *PLAIN, "--lr", 1, "--save", to, *flags)
        return difference(self.start, weights(to)), summary

    def settled(self, name, flags, steps):
        """The folder of a checkpoint whose weights are those of the start."""
        out = self.folder / name.replace(" ", "-")
        self.train(steps, *PLAIN, "--lr", 0, "--init", self.init, "--checkpoint", out, *flags)
        return out

    def noise(self):
        found = [self.gradient(0, "--init", self.init, "--policy", "store-all", "--seed", seed)[0] for seed in range(1, BATCHES + 1)]
        out = {}
        for name in self.start:
            mean = [statistics.fmean(v) for v in zip(*(g[name] for g in found))]
            out[name] = sum(square(list(map(operator.sub, g[name], mean))) for g in found) / (BATCHES - 1)
        return out

    def rows(self, model):
        self.init = self.folder / "start.safetensors"
        self.train(TRAINED[model], "--policy", "store-all", "--save", self.init)
        self.start = weights(self.init)
        noise = self.noise()
        exact = None
        for name, flags in STORAGES.items():
            at = self.settled(name, flags, SETTLED[model])
            if exact is None:
                copy = shutil.copytree(at, self.folder / "exact")
                exact, _ = self.gradient(SETTLED[model], "--checkpoint", copy, "--resume", "--policy", "store-all")
            found, summary = self.gradient(SETTLED[model], "--checkpoint", at, "--resume", *flags)
            errors = {n: square(v) / noise[n] for n, v in difference(found, exact).items()}
            worst = max(errors, key=errors.get)
            yield (f"| {model} | {name} | {summary['saved_bytes'] / summary['exact_saved_bytes']:.3f} | "
                   f"{statistics.fmean(errors.values()):.4f} | {errors[worst]:.4f} (`{worst}`) |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--only", action="append", choices=list(TRAINED))
    p.add_argument("--text", help="for gpt-mini")
    a = p.parse_args()
    lines = ["| model | storage | saved / exact | error, mean | largest |", "| --- | --- | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory() as folder:
        a.text = a.text or precision.bible(folder)
        for model in a.only or TRAINED:
            place = pathlib.Path(folder) / model
            place.mkdir()
            for line in Bench(a, model, place).rows(model):
                print(line, flush=True)
                lines.append(line)
    (run.BENCH / "precision.gradients.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
