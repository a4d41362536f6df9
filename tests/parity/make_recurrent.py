#!/usr/bin/env python3
"""Makes tests/parity/recurrent/NAME.safetensors: outputs and gradients of PyTorch's nn.LSTM, nn.GRU and nn.RNN.

Two layers in both directions from given first states; NAME-lengths: rows that end earlier (packed sequences). The loss
weighs every output and last state: sum(y * wy) + sum(h_n * wh) + sum(c_n * wc). Inputs and weights are float32 values;
what is wanted of them is computed in float64 and rounded once. Needs torch and numpy: bench/setup_venv.sh.
"""
import pathlib
import sys

import numpy as np
import torch
from torch.nn.utils import rnn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import safetensors  # noqa: E402

STEPS, BATCH, INPUT, HIDDEN, LAYERS = 11, 3, 5, 6, 2
LENGTHS = [7, 11, 1]
FAMILIES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}


def uniform(*shape):
    """Float32 values between -0.7 and 0.7, as float64."""
    return (torch.rand(*shape, dtype=torch.float32) * 1.4 - 0.7).double()


def run(name, lengths):
    """All tensors of one file, by name."""
    layer = FAMILIES[name](INPUT, HIDDEN, num_layers=LAYERS, bidirectional=True, dtype=torch.float64)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(uniform(*p.shape))
    tensors = {"x": uniform(STEPS, BATCH, INPUT)}
    states = ["h0", "c0"] if name == "lstm" else ["h0"]
    for state in states:
        tensors[state] = uniform(2 * LAYERS, BATCH, HIDDEN)
    for t in tensors.values():
        t.requires_grad_()
    first = tuple(tensors[s] for s in states)
    x = rnn.pack_padded_sequence(tensors["x"], torch.tensor(lengths), enforce_sorted=False) if lengths else tensors["x"]
    y, last = layer(x, first if name == "lstm" else first[0])
    if lengths:
        y, _ = rnn.pad_packed_sequence(y, total_length=STEPS)
    tensors.update(layer.named_parameters())
    out = {"y": y, **dict(zip(["h_n", "c_n"], last if name == "lstm" else [last]))}
    weights = {"wy": uniform(*y.shape), **{"w" + n[0]: uniform(*t.shape) for n, t in out.items() if n != "y"}}
    loss = sum((t * weights["w" + n[0]]).sum() for n, t in out.items())
    gradients = torch.autograd.grad(loss, list(tensors.values()))
    tensors.update({"d." + n: g for n, g in zip(list(tensors), gradients)}, **out, **weights)
    return tensors


def main():
    """Writes the six files; the seed is that of the name."""
    (HERE / "recurrent").mkdir(exist_ok=True)
    for lengths in (None, LENGTHS):
        for seed, name in enumerate(FAMILIES):
            torch.manual_seed(seed)
            tensors = {n: ("F32", t.shape, t.detach().numpy().astype(np.float32).tobytes())
                       for n, t in run(name, lengths).items()}
            if lengths:
                tensors["lengths"] = ("I32", [BATCH], np.array(lengths, np.int32).tobytes())
            safetensors.write(HERE / "recurrent" / f"{name}{'-lengths' if lengths else ''}.safetensors", tensors)


if __name__ == "__main__":
    main()
