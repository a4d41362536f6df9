#!/usr/bin/env python3
"""Models from PyTorch through Neap: import, 20 steps of training, export, and back in. Standard library only.

  run.py                      all; makes build/models-venv and, the first time or when the zoo changed, the models
  run.py --only bert,crnn     some
  run.py --no-train           makes the models only

For each model: every step's loss must be within 1e-3, relative, of PyTorch's from the same weights. The saved model, taken in
again, must have the same weights to the bit and go on where the training stopped, also by way of safetensors. What it is as an
ONNX file and what it computes is check.py's part. gpt2-124m, weights in a file of their own, is imported only: in 2 s and with no
more memory beside the arena than its weights have bytes. Exit status 1 if anything fails.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys

import neap
from neap import Failure

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ["torch==2.13.0", "transformers==5.22.2", "onnx==1.23.2", "onnxscript==0.7.2", "onnxruntime==1.31.1",
            "numpy", "safetensors"]
SAVED = ("out.onnx", "again.onnx", "out.safetensors")
TOLERANCE = 1e-3
IMPORT_MS = 2000
HEAD = ("model", "nodes", "params", "import ms", "first loss", "last loss", "worst rel. diff.", "export")


def digest():
    """Of everything that the made models depend on."""
    h = hashlib.sha256(" ".join(PACKAGES).encode())
    for path in sorted([HERE / "make.py", *(HERE / "zoo").glob("*.py")]):
        h.update(path.read_bytes())
    return h.hexdigest()


def make_models(python, out, names, fresh):
    """Makes those of the models that are missing or older than the zoo."""
    now = digest()
    stale = [n for n in names if fresh or not (out / n / "made").is_file() or (out / n / "made").read_text() != now]
    if not stale:
        return
    if subprocess.run([python, HERE / "make.py", out, *stale], env={**os.environ, "OMP_NUM_THREADS": "2"}).returncode:
        sys.exit("models: making them failed; see above")
    for name in stale:
        (out / name / "made").write_text(now)


def worst_difference(want, got):
    return max(abs(a - b) / abs(a) if math.isfinite(b) else math.inf for a, b in zip(want, got, strict=True))


def same(what, a, b):
    if a != b:
        raise Failure(f"{what}: {a} and {b} should be the same bits")


def check_round_trips(program, folder, recipe, trained):
    """What was saved is what was trained: the same bits, and the next step is the next step. The data end after 20 steps and
    begin again, so that step 21 of the whole run has the batch of the first step after the import."""
    model, (saved, again, weights) = folder / "model.onnx", (folder / name for name in SAVED)
    steps = recipe["steps"]
    whole = neap.train(program, model, folder, recipe, steps + 1)
    same("loss of the last step, twice", trained.loss_hex[-1], whole.loss_hex[steps - 1])
    loaded = neap.train(program, saved, folder, recipe, 0, "--save", again)
    same("weights before saving and after importing", trained.summary["weights_hash"], loaded.summary["weights_hash"])
    onward = neap.train(program, saved, folder, recipe, 1, "--save", weights)
    same("loss of the next step, with and without saving", whole.loss_hex[steps], onward.loss_hex[0])
    if recipe["optimizer"] == "sgd":  # it has no state to lose
        same("weights of the next step, with and without saving", whole.summary["weights_hash"], onward.summary["weights_hash"])
    renewed = neap.train(program, model, folder, recipe, 0, "--init", weights)
    same("weights by way of safetensors", onward.summary["weights_hash"], renewed.summary["weights_hash"])


def train_model(program, folder):
    """Cells of the table for a model, and what is wrong with it."""
    recipe = json.loads((folder / "losses.json").read_text())
    cells, errors = {"params": recipe["params"]}, []
    for name in SAVED:
        (folder / name).unlink(missing_ok=True)  # of an earlier run
    try:
        run = neap.train(program, folder / "model.onnx", folder, recipe, recipe["steps"], "--save", folder / "out.onnx")
        worst = worst_difference(recipe["losses"], run.losses)
        cells |= {"import ms": run.summary.get("import_ms"), "first loss": run.losses[0], "last loss": run.losses[-1]}
        cells["worst rel. diff."] = worst
        if not worst <= TOLERANCE:
            first = next(i for i, (a, b) in enumerate(zip(recipe["losses"], run.losses)) if not abs(a - b) <= TOLERANCE * abs(a))
            errors.append(f"step {first + 1}: loss {run.losses[first]!r}, PyTorch's is {recipe['losses'][first]!r}")
        check_round_trips(program, folder, recipe, run)
    except Failure as e:
        errors.append(str(e))
    return cells, errors


def import_big(program, folder):
    """Imports without training a step; time and memory beside the arena are bounded."""
    recipe = json.loads((folder / "losses.json").read_text())
    cells, errors = {"params": recipe["params"]}, []
    try:
        run = neap.train(program, folder / "model.onnx", folder, recipe, 0)
        took = run.summary.get("import_ms", 1e3 * run.seconds)
        beside = run.summary["rss_peak_bytes"] - run.summary["peak_bytes"]
        weights = 4 * recipe["params"]
        cells["import ms"] = took
        if took > IMPORT_MS:
            errors.append(f"import took {took:.0f} ms, at most {IMPORT_MS} are allowed")
        if beside > weights:
            errors.append(f"{beside} bytes beside the arena, and the weights have {weights}")
    except Failure as e:
        errors.append(str(e))
    return cells, errors


def check_files(python, folders):
    """What check.py says of the saved models: {name: {"nodes", "export", "errors"}}."""
    done = subprocess.run([python, HERE / "check.py", *folders], stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["model"]: row for row in rows}


def text_of(head, value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1e}" if head == "worst rel. diff." else f"{value:.0f}" if head == "import ms" else f"{value:.4f}"
    return str(value)


def print_table(rows):
    lines = [HEAD, *[[text_of(head, row.get(head)) for head in HEAD] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    for line in lines:
        cells = [cell.ljust(w) if i in (0, len(HEAD) - 1) else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=ROOT / "build" / "neap")
    p.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "models-venv")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "models", help="folder of the made models")
    p.add_argument("--only", metavar="NAMES", help="comma-separated; all by default")
    p.add_argument("--fresh", action="store_true", help="make models anew")
    p.add_argument("--no-train", action="store_true", help="make models only")
    a = p.parse_args()
    if not (a.no_train or a.neap.is_file()):
        p.error(f"{a.neap} is missing: make build")
    if subprocess.run([ROOT / "tests" / "venv.sh", a.venv, *PACKAGES]).returncode:
        sys.exit(f"{a.venv}: could not be made; see above")
    python = a.venv / "bin" / "python"
    known = subprocess.run([python, HERE / "make.py", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    names = a.only.split(",") if a.only else known
    if bad := [n for n in names if n not in known]:
        p.error(f"unknown model {bad[0]}; there are {', '.join(known)}")
    make_models(python, a.out, names, a.fresh)
    if a.no_train:
        return

    rows, errors = [], {}
    for name in names:
        folder = a.out / name
        print(f"{name} ...", file=sys.stderr, flush=True)
        big = not json.loads((folder / "losses.json").read_text())["losses"]
        cells, errors[name] = (import_big if big else train_model)(a.neap, folder)
        rows.append({"model": name, **cells})
    checked = check_files(python, [a.out / n for n in names])
    for row in rows:
        found = checked.get(row["model"], {"errors": ["check.py ended before it came to this model"]})
        errors[row["model"]] += found["errors"]
        row |= {key: found[key] for key in ("nodes", "export") if key in found}
    print_table(rows)
    for name in names:
        for error in errors[name]:
            print(f"{name}: {error}")
    failed = [n for n in names if errors[n]]
    print(f"{len(names)} models, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
