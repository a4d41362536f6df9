#!/usr/bin/env python3
"""Makes tests/parity/golden/RUN.json: losses of 20 PyTorch steps from given weights on given data.

  make_golden.py [RUN ...]                      weights made by recipe (weights.py makes the same ones, without PyTorch)
  make_golden.py RUN --weights FILE.safetensors weights as Neap wrote them: neap train MODEL --steps 0 --save FILE.safetensors

The losses are those of a float64 run; the float32 run's greatest relative difference from them stands in the file as
`f32_max_rel_diff` (the worse of two: with and without oneDNN). It is what rounding alone does to a loss, and the
tolerance of 1e-4 must leave room above it.
A loss is that of a step's batch before its update. Batches are consecutive, in file order, without shuffling; sequence i of a
token file has inputs [i*T, i*T+T) and targets one further. Needs torch and numpy: bench/setup_venv.sh.
"""
import argparse
import dataclasses
import json
import pathlib
import sys
import warnings

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench" / "peers")]
import models  # noqa: E402
import safetensors  # noqa: E402
import weights  # noqa: E402

STEPS = 20


@dataclasses.dataclass
class Run:
    model: str
    data: str
    batch: int
    lr: float
    length: int = 0  # tokens a sequence; 0 for images
    optimizer: str = "sgd"
    options: dict = dataclasses.field(default_factory=dict)  # of the optimizer
    params: dict = dataclasses.field(default_factory=dict)  # of the model


ADAMW = {"weight_decay": 0.01, "betas": [0.9, 0.999], "eps": 1e-8}
RUNS = {
    "mlp": Run("mlp", "mnist-like.npz", 32, 0.2),
    "cnn": Run("cnn", "mnist-like.npz", 32, 0.02, params={"dropout": 0.0}),
    "resnet20": Run("resnet20", "cifar-like.npz", 8, 0.02),
    "gpt-mini": Run("gpt-mini", "bytes.bin", 8, 0.05, length=256),
    "gpt-mini-adamw": Run("gpt-mini", "bytes.bin", 8, 3e-4, length=256, optimizer="adamw", options=ADAMW),
    "bert-mini": Run("bert-mini", "tokens.bin", 16, 0.1, length=128),
    "lstm-lm": Run("lstm-lm", "bytes.bin", 16, 1.0, length=128),
    "gru-lm": Run("gru-lm", "bytes.bin", 16, 0.5, length=128),
}
MEAN, STD = 0.5, 0.5  # of images, after x / 255


def load_batches(run, dtype):
    path = HERE / "data" / run.data
    if run.length:
        ids = torch.from_numpy(np.fromfile(path, "<u2").astype(np.int64))
        count = run.batch * run.length
        for s in range(STEPS):
            at = s * count
            yield (ids[at : at + count].view(run.batch, -1), ids[at + 1 : at + count + 1].view(run.batch, -1))
        return
    with np.load(path) as z:
        x, y = torch.from_numpy(z["image"]), torch.from_numpy(z["label"].astype(np.int64))
    x = x.unsqueeze(1) if x.dim() == 3 else x.permute(0, 3, 1, 2)  # file: NHW or NHWC
    for s in range(STEPS):
        part = slice(s * run.batch, (s + 1) * run.batch)
        yield (x[part].to(dtype) / 255 - MEAN) / STD, y[part]


def named_state(model):
    """Parameters and batch-norm statistics, by name."""
    return {n: t for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")}


def center_and_bound(name, t, modules):
    """How a recipe fills a tensor: norms near 1 and 0 but not at them, so that no mapping error can hide."""
    owner, leaf = name.rpartition(".")[::2]
    module = modules[owner]
    if leaf == "running_mean":
        return 0.0, 0.0
    if leaf == "running_var":
        return 1.0, 0.0
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.BatchNorm2d)):
        # A residual branch starts damped: at full scale one ReLU that flips by rounding moves the loss by 1e-3 in a few steps.
        residual = owner.startswith("layer") and owner.endswith("bn2")
        return (0.0 if leaf == "bias" else 0.2 if residual else 1.0), 0.1
    if isinstance(module, torch.nn.Embedding):
        return 0.0, (1.0 if owner == "emb" else 0.04)
    if t.dim() == 1:
        return 0.0, 0.05
    gain = 6**0.5 if isinstance(module, torch.nn.Conv2d) else 1.0  # He's uniform bound in front of a ReLU
    return 0.0, round(gain / t[0].numel() ** 0.5, 6)


def recipe(name, model):
    modules = dict(model.named_modules())
    rows = [[n, list(t.shape), *center_and_bound(n, t, modules)] for n, t in named_state(model).items()]
    return {"seed": f"parity/{name}", "tensors": rows}


def load_weights(model, tensors):
    """Checks that names and shapes agree exactly, then copies."""
    state = named_state(model)
    if set(state) != set(tensors):
        sys.exit(f"names differ: only in PyTorch {sorted(set(state) - set(tensors))}, only in file {sorted(set(tensors) - set(state))}")
    with torch.no_grad():
        for name, (dtype, shape, data) in tensors.items():
            want = tuple(state[name].shape)
            if dtype != "F32" or tuple(shape) != want:
                sys.exit(f"{name}: {dtype} {shape} in the file, F32 {want} expected")
            state[name].copy_(torch.from_numpy(np.frombuffer(data, "<f4").reshape(shape).copy()))


def train(run, tensors, dtype):
    model = models.make(run.model, **run.params)
    load_weights(model, tensors)
    model.to(dtype)
    make = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[run.optimizer]
    opt = make(model.parameters(), lr=run.lr, **run.options)
    losses = []
    for x, y in load_batches(run, dtype):
        loss = model(x, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def golden(name, run, weights_file):
    if weights_file:
        tensors = safetensors.read(weights_file)
        source = {"file": weights_file.name}
    else:
        source = recipe(name, models.make(run.model, **run.params))
        tensors = weights.make(source)
    source["sha256"] = weights.digest(tensors)
    exact = train(run, tensors, torch.float64)
    diff = 0.0
    for onednn in (True, False):
        with torch.backends.mkldnn.flags(enabled=onednn):
            single = train(run, tensors, torch.float32)
        diff = max([diff] + [abs(a - b) / abs(a) for a, b in zip(exact, single)])
    doc = {"model": run.model, "params": run.params, "batch": run.batch, "steps": STEPS, "data": f"data/{run.data}"}
    if run.length:
        doc.update(length=run.length, targets="next")
    else:
        doc.update(layout="NHWC", mean=MEAN, std=STD)
    doc.update(optimizer=run.optimizer, lr=run.lr, **run.options)
    doc.update(torch=torch.__version__.split("+")[0], f32_max_rel_diff=float(f"{diff:.3g}"), losses=exact, weights=source)
    return doc


def dump(doc):
    """JSON with one tensor of the recipe a line."""
    rows = doc["weights"].pop("tensors", None)
    text = json.dumps(doc, indent=1)
    if rows is not None:
        lines = ",\n".join("   " + json.dumps(r) for r in rows)
        text = text[: text.rindex("\n }")] + ',\n  "tensors": [\n' + lines + "\n  ]\n }\n}"
    return text + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(RUNS)}; all without")
    p.add_argument("--weights", type=pathlib.Path, help="safetensors file with the initial weights, for one RUN")
    p.add_argument("--out", type=pathlib.Path, default=HERE / "golden")
    a = p.parse_args()
    names = a.runs or list(RUNS)
    if bad := [n for n in names if n not in RUNS]:
        p.error(f"unknown run {bad[0]}")
    if a.weights and len(names) != 1:
        p.error("--weights wants exactly one RUN")
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="TF32 acceleration")  # from switching oneDNN
    a.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        doc = golden(name, RUNS[name], a.weights)
        losses = doc["losses"]
        print(f"{name:15} loss {losses[0]:.4f} -> {losses[-1]:.4f}, float32 differs by {doc['f32_max_rel_diff']:.1e}", flush=True)
        (a.out / f"{name}.json").write_text(dump(doc))


if __name__ == "__main__":
    main()
