#!/usr/bin/env python3
"""The initial weights of a golden run, standard library only: weights.py GOLDEN.json OUT.safetensors

A golden file lists its tensors as [name, shape, center, bound]. Element i of a tensor is
center + bound * (2 * u_i / 65535 - 1), rounded to float32, where u_i are the little-endian 16-bit words of
SHAKE-256("seed/name"). So the weights need not be stored, and any language can make them. The elements of a tensor of
rank 4, a convolution's weight [O, I, H, W], are counted in the order O, H, W, I.
"""
import array
import hashlib
import json
import sys

import safetensors


def fill(seed, name, shape, center, bound):
    """The bytes of one float32 tensor."""
    count = 1
    for d in shape:
        count *= d
    if bound == 0:
        values = array.array("f", [center]) * count
    else:
        words = array.array("H", hashlib.shake_256(f"{seed}/{name}".encode()).digest(2 * count))
        if sys.byteorder == "big":
            words.byteswap()
        table = [center + bound * (2 * u / 65535 - 1) for u in range(65536)]
        values = array.array("f", map(table.__getitem__, words))
    if len(shape) == 4:
        values = channels_first(values, *shape)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def channels_first(values, o, i, h, w):
    """From the order O, H, W, I to O, I, H, W."""
    out = array.array("f", bytes(4 * len(values)))
    for k in range(o):
        part = values[k * h * w * i : (k + 1) * h * w * i]
        for c in range(i):
            out[(k * i + c) * h * w : (k * i + c + 1) * h * w] = part[c::i]
    return out


def make(recipe):
    return {
        name: ("F32", shape, fill(recipe["seed"], name, shape, center, bound))
        for name, shape, center, bound in recipe["tensors"]
    }


def digest(tensors):
    """SHA-256 over names and data, in the order of names."""
    h = hashlib.sha256()
    for name in sorted(tensors):
        h.update(name.encode())
        h.update(tensors[name][2])
    return h.hexdigest()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        recipe = json.load(f)["weights"]
    if "tensors" not in recipe:
        sys.exit(f"{sys.argv[1]}: made from a weights file ({recipe.get('file')}), not from a recipe")
    tensors = make(recipe)
    if digest(tensors) != recipe["sha256"]:
        sys.exit(f"{sys.argv[1]}: the weights made here are not those of the golden run (sha256 differs)")
    safetensors.write(sys.argv[2], tensors)


if __name__ == "__main__":
    main()
