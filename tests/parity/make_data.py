#!/usr/bin/env python3
"""Makes tests/parity/data from fixed seeds: small, and with enough structure that 20 steps lower the loss.

mnist-like.npz   image uint8 [640, 28, 28], label uint8     mlp, cnn: 20 batches of 32
cifar-like.npz   image uint8 [160, 32, 32, 3], label uint8  resnet20: 20 batches of 8
bytes.bin        40961 little-endian uint16 below 256      gpt-mini (8 x 256), lstm-lm and gru-lm (16 x 128)
tokens.bin       40961 little-endian uint16 below 1024     bert-mini (16 x 128)
"""
import pathlib

import numpy as np

DATA = pathlib.Path(__file__).parent / "data"


def images(seed, count, shape, classes=10):
    """One smooth pattern a class, scaled at random, with noise."""
    r = np.random.Generator(np.random.PCG64(seed))
    axes = np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij")
    phase = r.uniform(0, 2 * np.pi, (classes, len(shape)))
    freq = r.integers(1, 4, (classes, len(shape)))
    y = r.integers(0, classes, count)
    pattern = np.stack([np.mean([np.sin(2 * np.pi * f * a + p) for a, f, p in zip(axes, freq[c], phase[c])], 0) for c in range(classes)])
    gain = r.uniform(40, 100, (count,) + (1,) * len(shape))
    x = 128 + gain * pattern[y] + r.integers(-48, 49, (count, *shape))
    return np.clip(np.rint(x), 0, 255).astype(np.uint8), y.astype(np.uint8)


def tokens(seed, count, vocab):
    """Zipf-distributed tokens where a token is often the one before it, permuted."""
    r = np.random.Generator(np.random.PCG64(seed))
    p = 1 / np.arange(1, vocab + 1)
    fresh = r.choice(vocab, count, p=p / p.sum())
    follow, follows = r.permutation(vocab), r.random(count) < 0.4
    out = np.empty(count, np.uint16)
    out[0] = fresh[0]
    for i in range(1, count):
        out[i] = follow[out[i - 1]] if follows[i] else fresh[i]
    return out.astype("<u2")


def main():
    DATA.mkdir(exist_ok=True)
    x, y = images(1, 640, (28, 28))
    np.savez(DATA / "mnist-like.npz", image=x, label=y)
    x, y = images(2, 160, (32, 32, 3))
    np.savez(DATA / "cifar-like.npz", image=x, label=y)
    tokens(3, 40961, 256).tofile(DATA / "bytes.bin")
    tokens(4, 40961, 1024).tofile(DATA / "tokens.bin")


if __name__ == "__main__":
    main()
