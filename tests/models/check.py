#!/usr/bin/env python3
"""Checks models that Neap has saved (FOLDER/out.onnx, again.onnx) against what went in and against PyTorch. Needs the venv.

  check.py FOLDER ...        prints one JSON object a folder: model, nodes, export (ok or no), errors

The onnx checker must accept the file; nodes, names, inputs and outputs must be those of model.onnx, weights apart; a second import
and export changes no bit. Each weight's change in training must be PyTorch's, and the logits of the saved model, as ONNX
Runtime computes them, must be those of the model that PyTorch trained.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from safetensors.numpy import load_file

UPDATE_TOLERANCE = 0.02  # of the norm of a weight's change over 20 steps
LOGITS_TOLERANCE = 1e-3  # of the largest logit
MOST = 0.4  # however far rounding may lead, a missing gradient is farther
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")  # ONNX's variance is the biased one


def weights_of(model):
    return {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}


def check_structure(before, after):
    errors = []
    if before.graph.input != after.graph.input or before.graph.output != after.graph.output:
        errors.append("inputs or outputs changed")
    if list(before.graph.node) != list(after.graph.node):
        errors.append("nodes changed")
    old, new = weights_of(before), weights_of(after)
    if list(old) != list(new):
        errors.append(f"initializers changed names: {sorted(set(old) ^ set(new))[:4]}")
    errors += [f"initializer {n} changed type or shape" for n in old if n in new and (old[n].shape, old[n].dtype) != (new[n].shape, new[n].dtype)]
    return errors


def check_same_bits(first, second):
    a, b = weights_of(first), weights_of(second)
    return [f"{n} differs after a second import and export" for n in a if n not in b or a[n].tobytes() != b[n].tobytes()]


def pairs(start, initial):
    """(name here, name in PyTorch, whether it is transposed here): exporters keep names or fold a transposition and make one up."""
    transposed = {w.T.tobytes(): name for name, w in initial.items() if w.ndim == 2}
    for name, w in start.items():
        if name in initial and initial[name].shape == w.shape:
            yield name, name, False
        elif w.ndim == 2 and (found := transposed.get(w.tobytes())):
            yield name, found, True


def change_error(got, want, floor):
    return np.linalg.norm(got.astype(np.float64) - want) / max(np.linalg.norm(want), floor, 1e-30)


def check_updates(before, after, initial, trained, twin):
    """The change of every weight that PyTorch has too, against the change there: as near as the twin's, or nearer than 2 %."""
    start, end = weights_of(before), weights_of(after)
    floor = 1e-3 * max(np.linalg.norm(trained[n] - initial[n]) for n in initial)  # less is rounding: a bias before a batch norm
    errors = []
    for name, theirs, is_transposed in pairs(start, initial):
        if start[name].dtype != np.float32 or theirs.endswith(BUFFERS):
            continue
        want = trained[theirs].astype(np.float64) - initial[theirs]
        allowed = min(MOST, max(UPDATE_TOLERANCE, 3 * change_error(twin[theirs] - initial[theirs], want, floor)))
        error = change_error(end[name] - start[name], want.T if is_transposed else want, floor)
        if not error <= allowed:
            errors.append(f"{name} changed otherwise than in PyTorch: by {error:.3f} of the change, {allowed:.3f} are allowed")
    return errors


def check_logits(folder):
    """What ONNX Runtime makes of the saved model."""
    probe = dict(np.load(folder / "probe.npz"))
    want, twin = probe.pop("logits"), probe.pop("twin_logits")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(str(folder / "out.onnx"), options, providers=["CPUExecutionProvider"])
        got = session.run(["logits"], probe)[0]
    except Exception as e:  # its kinds of error have no base of their own
        return [f"ONNX Runtime cannot run the saved model: {str(e).strip().splitlines()[0]}"]
    error, apart = (np.abs(x - want).max() / np.abs(want).max() for x in (got, twin))
    allowed = min(MOST, max(LOGITS_TOLERANCE, 3 * apart))
    return [f"logits of the saved model differ from PyTorch's by {error:.1e}, {allowed:.1e} are allowed"] if not error <= allowed else []


def check(folder):
    before = onnx.load(folder / "model.onnx", load_external_data=False)
    row = {"model": folder.name, "nodes": len(before.graph.node), "errors": []}
    if not json.loads((folder / "losses.json").read_text())["losses"]:
        return row | {"export": "import only"}
    if not (folder / "out.onnx").is_file():
        return row | {"export": "no"}  # run.py has said why
    try:
        onnx.checker.check_model(str(folder / "out.onnx"), full_check=True)
    except Exception as e:  # the checker's own kinds of error, and those of the parser below it
        row["errors"].append(f"out.onnx: the checker says: {str(e).strip().splitlines()[0]}")
    after = onnx.load(folder / "out.onnx")
    row["errors"] += check_structure(before, after)
    if (folder / "again.onnx").is_file():
        row["errors"] += check_same_bits(after, onnx.load(folder / "again.onnx"))
    if not row["errors"]:
        weights = [load_file(folder / f"{name}.safetensors") for name in ("initial", "trained", "twin")]
        row["errors"] = check_updates(before, after, *weights) + check_logits(folder)
    return row | {"export": "no" if row["errors"] else "ok"}


def main():
    for folder in map(pathlib.Path, sys.argv[1:]):
        try:
            row = check(folder)
        except Exception as e:  # whatever a bad file does to the parsers: the next model's turn
            row = {"model": folder.name, "export": "no", "errors": [f"check.py: {type(e).__name__}: {str(e).strip()[:200]}"]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
