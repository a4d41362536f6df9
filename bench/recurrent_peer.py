#!/usr/bin/env python3
"""Recurrent layers, forward and backward: Neap's kernels beside PyTorch's nn.LSTM and nn.GRU, shape by shape, interleaved.

  recurrent_peer.py BUILD/bench/recurrent_gears [--threads N] [--from I] [--count N]

Needs torch (bench/setup_venv.sh). With one thread both sides count the time that the process had a processor, which is
steadier where others use the machine too; with more, the time that passes. Each figure is the least of some rounds.
"""
import argparse
import json
import os
import subprocess
import time

import torch


def torch_ms(shape, threads, rounds):
    """The least milliseconds of a forward and a backward pass."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[shape["kind"]](shape["input"], shape["hidden"])
    x = torch.randn(shape["steps"], shape["batch"], shape["input"], requires_grad=True)
    dy = torch.randn(shape["steps"], shape["batch"], shape["hidden"])
    best = float("inf")
    for _ in range(rounds + 1):
        layer.zero_grad()
        start = clock()
        layer(x)[0].backward(dy)
        best = min(best, clock() - start)
    return best * 1e3


def main():
    """One line a shape, and the number of shapes at or below 0.8 of PyTorch's time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first shape")
    parser.add_argument("--count", type=int, default=1000, help="shapes")
    args = parser.parse_args()
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads), GOMP_SPINCOUNT="2000")
    below = count = 0
    for i in range(args.first, args.first + args.count):
        # One at a time: neither side runs while the other is timed.
        line = subprocess.run([args.program, "shapes", str(i), "1"], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
        if not line:
            break
        shape = json.loads(line)
        peer = torch_ms(shape, args.threads, args.rounds)
        ratio = shape["ms"] / peer
        below += ratio <= 0.8
        count += 1
        print(f"{shape['kind']:5} T {shape['steps']:4} batch {shape['batch']:3} input {shape['input']:5} "
              f"H {shape['hidden']:5}: neap {shape['ms']:9.2f} ms, torch {peer:9.2f} ms, {ratio:.2f}x", flush=True)
    print(f"{below} of {count} shapes at most 0.8x, torch {torch.__version__}, {args.threads} threads")


if __name__ == "__main__":
    main()
