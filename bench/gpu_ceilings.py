#!/usr/bin/env python3
"""What one GPU and its link can do at most, by PyTorch: products, copies on the card, copies to and from pinned memory.

  bench/gpu_ceilings.py                       a Markdown table
  bench/gpu_ceilings.py --json ceilings.json  and a JSON object

To be run in the same lease as what is judged by it. Medians of repeated runs between CUDA events, on random numbers (zeros cost less
power and are faster). Takes some ten seconds. Exit status 1 if a row failed.
"""
import argparse
import json
import statistics
import sys
import time

SIDE = 8192                # of the product's matrices
CARD_BYTES = 2 << 30       # a copy on the card: far more than its caches hold
HOST_BYTES = 1 << 30       # a copy by the link


def median_seconds(torch, work, runs):
    """Of one run; the queue is never empty."""
    for _ in range(3):
        work()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:])) / 1e3


def product(torch, dtype, precision, runs):
    torch.set_float32_matmul_precision(precision)
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty(SIDE, SIDE, device="cuda", dtype=dtype)
    return 2 * SIDE**3 / median_seconds(torch, lambda: torch.mm(a, b, out=out), runs) / 1e12


def copy_on_card(torch):
    a = torch.randn(CARD_BYTES // 4, device="cuda")
    b = torch.empty_like(a)
    return 2 * CARD_BYTES / median_seconds(torch, lambda: b.copy_(a), 20) / 1e9


def pairs(torch):
    """Pinned memory and the card's, twice."""
    host = [torch.empty(HOST_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    card = [torch.empty(HOST_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    return host, card


def copy_in(torch):
    host, card = pairs(torch)
    return HOST_BYTES / median_seconds(torch, lambda: card[0].copy_(host[0], non_blocking=True), 10) / 1e9


def copy_out(torch):
    host, card = pairs(torch)
    return HOST_BYTES / median_seconds(torch, lambda: host[1].copy_(card[1], non_blocking=True), 10) / 1e9


def both_ways(torch, runs=10):
    """Of each way, while the other one is busy too: until the slower one has ended."""
    host, card = pairs(torch)
    ways = ((torch.cuda.Stream(), card[0], host[0]), (torch.cuda.Stream(), host[1], card[1]))

    def run(times):
        for _ in range(times):
            for stream, target, source in ways:
                with torch.cuda.stream(stream):
                    target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    run(2)
    begin = time.perf_counter()
    run(runs)
    return runs * HOST_BYTES / (time.perf_counter() - begin) / 1e9


def measures(torch):
    """Key, what is measured, unit, function."""
    return (("bf16_tflops", f"product of bf16, {SIDE}³", "TFLOP/s", lambda: product(torch, torch.bfloat16, "high", 30)),
            ("tf32_tflops", f"product of f32 by TF32, {SIDE}³", "TFLOP/s", lambda: product(torch, torch.float32, "high", 20)),
            ("f32_tflops", f"product of f32, {SIDE}³", "TFLOP/s", lambda: product(torch, torch.float32, "highest", 8)),
            ("copy_gbs", "copy on the card, read and written", "GB/s", lambda: copy_on_card(torch)),
            ("in_gbs", "pinned memory to the card", "GB/s", lambda: copy_in(torch)),
            ("out_gbs", "the card to pinned memory", "GB/s", lambda: copy_out(torch)),
            ("both_gbs", "both at once, each way", "GB/s", lambda: both_ways(torch)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="the same as an object")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"gpu_ceilings: PyTorch is wanted: {error}")
    if not torch.cuda.is_available():
        sys.exit("gpu_ceilings: there is no GPU that PyTorch can use")
    found, failed = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}, False
    print(f"| {found['device']}, PyTorch {found['torch']} | |\n|---|---|")
    for key, what, unit, measure in measures(torch):
        try:
            found[key] = round(measure(), 1)
            print(f"| {what} | {found[key]:.1f} {unit} |", flush=True)
        except Exception as error:  # the other rows are wanted
            failed = True
            said = str(error).splitlines() or [type(error).__name__]
            print(f"| {what} | failed: {said[0][:160]} |", flush=True)
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            print(json.dumps(found), file=file)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
