#!/usr/bin/env python3
"""Makes models of the zoo with random weights: model.onnx, data.npz, and what PyTorch makes of them. Needs the venv.

  make.py FOLDER [NAME ...]      all that are not big by default, each in FOLDER/NAME

losses.json holds PyTorch's loss at each step with all that is needed to repeat the run; trained.safetensors the weights after
the last step; probe.npz one batch and the logits that the trained model has for it.
"""
import argparse
import copy
import json
import pathlib
import time
import warnings

import numpy as np
import onnx
import safetensors.torch
import torch
from torch.nn import functional

import zoo

STEPS = 20
BETAS, EPS = (0.9, 0.999), 1e-8


def example(spec):
    rng = np.random.default_rng(1)
    return spec.sample(rng, STEPS * spec.batch)


def inputs_of(data, rows):
    return tuple(torch.from_numpy(data[name][rows]) for name in data if name != "target")


def export(spec, model, data, path):
    model = copy.deepcopy(model)  # tracing in training mode updates running statistics
    names = [name for name in data if name != "target"]
    args = inputs_of(data, slice(0, spec.batch))
    axes = {name: {**({0: "batch"} if spec.batch_is_symbolic else {}), **spec.dynamic.get(name, {})} for name in names}
    common = dict(input_names=names, output_names=["logits"], opset_version=spec.opset)
    model.train(spec.training)
    if spec.exporter == "dynamo":
        shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes[name]} for name in names)
        shapes = {"inputs": shapes} if isinstance(model, zoo.Logits) else shapes
        torch.onnx.export(model, args, path, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False, **common)
        return
    mode = torch.onnx.TrainingMode.TRAINING if spec.training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, args, path, dynamo=False, training=mode, do_constant_folding=not spec.training,
                      dynamic_axes={**axes, "logits": {0: "batch"} if spec.batch_is_symbolic else {}}, **common)


def optimizer_of(spec, model):
    if spec.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=spec.lr, betas=BETAS, eps=EPS, weight_decay=spec.weight_decay)
    return torch.optim.SGD(model.parameters(), lr=spec.lr, weight_decay=spec.weight_decay)


def train(spec, model, data):
    """The losses of all steps, on the batches in order."""
    model.train(spec.training)
    optimizer = optimizer_of(spec, model)
    losses = []
    for step in range(STEPS):
        rows = slice(step * spec.batch, (step + 1) * spec.batch)
        logits = model(*inputs_of(data, rows)).movedim(spec.class_axis, 1)
        loss = functional.cross_entropy(logits, torch.from_numpy(data["target"][rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def recipe(spec, model, losses):
    named = dict(model.named_parameters())
    return {"model": spec.name, "batch": spec.batch, "steps": STEPS, "optimizer": spec.optimizer, "lr": spec.lr,
            "weight_decay": spec.weight_decay, "betas": BETAS, "eps": EPS, "params": sum(p.numel() for p in named.values()),
            "torch": torch.__version__, "losses": losses}


def make_big(spec, folder):
    """Weights beside the model, in one file."""
    model, data = spec.make(), example(spec)
    export(spec, model, data, folder / "whole.onnx")
    proto = onnx.load(folder / "whole.onnx")
    (folder / "whole.onnx").unlink()
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    np.savez(folder / "data.npz", **data)
    (folder / "losses.json").write_text(json.dumps(recipe(spec, model, []), indent=1))


def make(spec, folder):
    torch.manual_seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    if spec.big:
        return make_big(spec, folder)
    model, data = spec.make(), example(spec)
    export(spec, model, data, folder / "model.onnx")
    np.savez(folder / "data.npz", **data)
    losses = train(spec, model, data)
    state = {name: value.contiguous() for name, value in model.state_dict(keep_vars=False).items()}
    safetensors.torch.save_file({k: v.clone() for k, v in state.items()}, folder / "trained.safetensors")
    probe = inputs_of(data, slice(0, spec.batch))
    with torch.no_grad():
        logits = model(*probe)
    names = [name for name in data if name != "target"]
    np.savez(folder / "probe.npz", logits=logits.numpy(), **{n: p.numpy() for n, p in zip(names, probe)})
    (folder / "losses.json").write_text(json.dumps(recipe(spec, model, losses), indent=1))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    names = a.names or [name for name, spec in zoo.SPECS.items() if not spec.big]
    if bad := [name for name in names if name not in zoo.SPECS]:
        p.error(f"unknown model {bad[0]}; there are {', '.join(zoo.SPECS)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    for name in names:
        start = time.monotonic()
        make(zoo.SPECS[name], a.folder / name)
        print(f"made {name} in {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
