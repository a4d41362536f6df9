#!/usr/bin/env python3
"""Makes models of the zoo with random weights: model.onnx, data.npz, and what PyTorch makes of them. Needs the venv.

  make.py FOLDER [NAME ...]      all that are not big by default, each in FOLDER/NAME
  make.py --list

losses.json holds PyTorch's loss at each step with all that is needed to repeat the run; initial.safetensors and
trained.safetensors the weights before and after; probe.npz one batch and the logits that the trained model has for it. A twin
that starts 1e-6 beside the model is trained too: it shows how far apart rounding alone may lead.
"""
import argparse
import copy
import json
import logging
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
        dims = {label: torch.export.Dim(label) for label in {d for a in axes.values() for d in a.values()}}
        shapes = tuple({axis: dims[label] for axis, label in axes[name].items()} for name in names)
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


def save_weights(model, path):
    safetensors.torch.save_file({name: value.clone().contiguous() for name, value in model.state_dict().items()}, path)


def recipe(spec, model, data, losses):
    named = dict(model.named_parameters())
    loss = "cross-entropy-channels" if spec.class_axis == 1 else "cross-entropy"
    lengths = [data[name].shape[axis] for name, axes in spec.dynamic.items() for axis in axes]
    return {"model": spec.name, "loss": loss, "length": lengths[0] if lengths else None, "batch": spec.batch, "steps": STEPS, "optimizer": spec.optimizer, "lr": spec.lr,
            "weight_decay": spec.weight_decay, "betas": BETAS, "eps": EPS, "params": sum(p.numel() for p in named.values()),
            "torch": torch.__version__, "losses": losses}


def random_model(spec):
    """With random biases and scales too: exporters make one tensor of those that are equal, and what is one is trained as one."""
    torch.manual_seed(1)
    model = spec.make()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p), alpha=0.02)
    return model


def make_big(spec, folder):
    """Weights beside the model, in one file."""
    model, data = random_model(spec), example(spec)
    export(spec, model, data, folder / "whole.onnx")
    proto = onnx.load(folder / "whole.onnx")
    (folder / "whole.onnx").unlink()
    (folder / "model.onnx.data").unlink(missing_ok=True)  # it would be appended to
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    np.savez(folder / "data.npz", **data)
    (folder / "losses.json").write_text(json.dumps(recipe(spec, model, data, []), indent=1))


def disturbed(model):
    """A copy whose weights differ in the seventh digit."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for p in twin.parameters():
            p.mul_(1 + 1e-6 * torch.randn_like(p))
    return twin


def logits_of(spec, model, data):
    with torch.no_grad():
        return model(*inputs_of(data, slice(0, spec.batch))).numpy()


def make(spec, folder):
    folder.mkdir(parents=True, exist_ok=True)
    if spec.big:
        return make_big(spec, folder)
    model, data = random_model(spec), example(spec)
    export(spec, model, data, folder / "model.onnx")
    np.savez(folder / "data.npz", **data)
    save_weights(model, folder / "initial.safetensors")
    twin = disturbed(model)
    losses = train(spec, model, data)
    train(spec, twin, data)
    save_weights(model, folder / "trained.safetensors")
    save_weights(twin, folder / "twin.safetensors")
    probe = {name: values[: spec.batch] for name, values in data.items() if name != "target"}
    np.savez(folder / "probe.npz", logits=logits_of(spec, model, data), twin_logits=logits_of(spec, twin, data), **probe)
    (folder / "losses.json").write_text(json.dumps(recipe(spec, model, data, losses), indent=1))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path, nargs="?")
    p.add_argument("--list", action="store_true", help="the names of all models, and nothing else")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    if a.list:
        print("\n".join(zoo.SPECS))
        return
    if a.folder is None:
        p.error("no FOLDER given")
    names = a.names or [name for name, spec in zoo.SPECS.items() if not spec.big]
    if bad := [name for name in names if name not in zoo.SPECS]:
        p.error(f"unknown model {bad[0]}; there are {', '.join(zoo.SPECS)}")
    warnings.filterwarnings("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.set_num_threads(1)  # small models: waiting for each other would cost more than two gain
    for name in names:
        start = time.monotonic()
        make(zoo.SPECS[name], a.folder / name)
        print(f"made {name} in {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
