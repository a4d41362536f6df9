#!/usr/bin/env python3
"""Built-in models: trained a little, saved as ONNX, and run by ONNX Runtime. Needs the venv.

  builtin.py                        all
  builtin.py --only cnn,gpt2        some

The onnx checker must accept the file, its inputs must have an open batch, and the logits that ONNX Runtime computes must give the
loss and the accuracy that Neap's own evaluation gives, on all samples as one batch and on one alone. Exit status 1 if anything fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5  # of the loss
SAMPLES, STEPS = 12, 25
IMAGES = {"mlp": 28, "cnn": 28, "resnet20": 32, "resnet18": 16, "resnet50": 32}
CHANNELS = {"mlp": 1, "cnn": 1}
CLASSES = {"resnet50": 1000}
SMALL = "width=48,layers=2,heads=3,vocab=60,context=40"
TOKENS = {f"gpt-mini:{SMALL}": 40, f"gpt2:{SMALL}": 24, f"bert-mini:{SMALL}": 32, "lstm-lm:hidden=40,vocab=60,chunk=6": 20,
          "gru-lm:hidden=40,vocab=60,chunk=6": 20}


def make_data(model, rng):
    """Arrays by the names of the model's inputs, targets last, and flags that say how large they are."""
    if model in IMAGES:
        side, channels, classes = IMAGES[model], CHANNELS.get(model, 3), CLASSES.get(model, 10)
        return {"image": rng.standard_normal((SAMPLES, side, side, channels), dtype=np.float32),
                "label": rng.integers(0, classes, SAMPLES, dtype=np.int32)}, ["--image", side]
    length = TOKENS[model]
    text = rng.integers(0, 60, (SAMPLES, length + 1), dtype=np.int32)
    return {"tokens": text[:, :-1], "targets": text[:, 1:]}, ["--length", length]


def run(neap, model, *flags):
    command = [str(c) for c in (neap, "train", model, *flags, "--json", "-")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip().splitlines()[-1]}: {' '.join(command)}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def evaluation(rows):
    return [row for row in rows if row.get("eval")][-1]


def measure(session, data):
    """Mean cross-entropy in double, and the share of right answers."""
    name, targets = list(data)
    logits = session.run(["logits"], {name: data[name]})[0].astype(np.float64)
    top = logits.max(-1, keepdims=True)
    sums = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]
    chosen = np.take_along_axis(logits, data[targets][..., None], -1)[..., 0]
    return float((sums - chosen).mean()), float((logits.argmax(-1) == data[targets]).mean())


def compare(what, session, data, report):
    """Relative difference of the losses, and what is wrong."""
    loss, accuracy = measure(session, data)
    difference = abs(loss - report["loss"]) / abs(report["loss"])
    errors = []
    if not difference <= TOLERANCE:
        errors.append(f"{what}: loss {loss!r}, Neap's is {report['loss']!r}")
    if "accuracy" in report and abs(accuracy - report["accuracy"]) > 1e-6:
        errors.append(f"{what}: accuracy {accuracy!r}, Neap's is {report['accuracy']!r}")
    return difference, errors


def check(neap, model, folder):
    """Nodes of the saved model, the worst difference, and what is wrong."""
    rng = np.random.default_rng(len(model))
    seen, sizes = make_data(model, rng)
    data, _ = make_data(model, rng)  # on samples that it was not trained on no loss is near 0
    one = {key: values[:1] for key, values in data.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for file, arrays in (("seen", seen), ("all", data), ("one", one)):
        np.savez(folder / f"{file}.npz", **arrays)
    saved = folder / "out.onnx"
    saved.unlink(missing_ok=True)
    common = ["--data", folder / "seen.npz", "--batch", 4, "--steps", STEPS, "--lr", 0.003, *sizes]
    rows = run(neap, model, *common, "--eval", folder / "all.npz", "--save", saved)
    alone = run(neap, model, *common, "--eval", folder / "one.npz")
    onnx.checker.check_model(str(saved), full_check=True)
    proto = onnx.load(saved)
    errors = []
    if proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param != "batch" or len(proto.graph.input) != 1:
        errors.append("its input has no open batch")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(saved), options, providers=["CPUExecutionProvider"])
    worst, found = compare("all samples", session, data, evaluation(rows))
    errors += found
    second, found = compare("one sample", session, one, evaluation(alone))
    return len(proto.graph.node), max(worst, second), errors + found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=ROOT / "build" / "neap")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "models" / "builtin", help="folder for the saved models")
    p.add_argument("--only", metavar="NAMES", help="comma-separated; all by default")
    a = p.parse_args()
    known = {model.split(":")[0]: model for model in [*IMAGES, *TOKENS]}
    names = a.only.split(",") if a.only else list(known)
    if bad := [n for n in names if n not in known]:
        p.error(f"unknown model {bad[0]}; there are {', '.join(known)}")
    failed = []
    print(f"{'built in':12}{'nodes':>6}{'worst rel. diff.':>18}")
    for name in names:
        try:
            nodes, worst, errors = check(a.neap, known[name], a.out / name)
            print(f"{name:12}{nodes:6}{worst:18.1e}", flush=True)
        except Exception as e:  # whatever a bad file does to the runtime: the next model's turn
            errors = [f"{type(e).__name__}: {str(e).strip()[:300]}"]
        for error in errors:
            print(f"{name}: {error}", flush=True)
        failed += [name] if errors else []
    print(f"{len(names)} built-in models saved as ONNX, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
