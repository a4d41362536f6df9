#!/usr/bin/env python3
"""Whole training steps of a built-in model in PyTorch on the CPU: forward, backward, AdamW; f32 and eager unless told otherwise.

  torch_step.py gpt-mini --batch 8 --steps 10 --json
  LD_PRELOAD=malloc_peak.so torch_step.py gpt-mini --batch 8 --steps 4 --memory --json

With --json: one object a step (step, loss, step_ms), then a summary. --memory adds the peak of live heap bytes over
the timed steps, less what is live between steps without a batch: state (weights, buffers, Adam's moments) and the libraries' own caches.
"""
import argparse
import ctypes
import json
import statistics
import time

import torch

import models


class HeapCounter:
    """Live and peak bytes of malloc, from malloc_peak.c, which must be preloaded."""

    def __init__(self):
        lib = ctypes.CDLL(None)
        if not hasattr(lib, "heap_live"):
            raise SystemExit("--memory wants LD_PRELOAD=malloc_peak.so (bench/run.py builds it from bench/peers/malloc_peak.c)")
        self.live, self.peak, self.reset = lib.heap_live, lib.heap_peak, lib.heap_reset_peak
        self.live.restype = self.peak.restype = ctypes.c_longlong


def tensor_bytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def state_bytes(model, opt):
    """Weights, buffers, optimizer state."""
    moments = [t for s in opt.state.values() for t in s.values() if torch.is_tensor(t)]
    return tensor_bytes(model.parameters()) + tensor_bytes(model.buffers()) + tensor_bytes(moments)


def adamw(model, way):
    flags = {"fused": {"fused": True}, "foreach": {"foreach": True}, "plain": {"foreach": False, "fused": False}}[way]
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **flags)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2, help="steps before those, untimed")
    p.add_argument("--length", type=int)
    p.add_argument("--image", type=int)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--adamw", choices=("fused", "foreach", "plain"), default="fused")
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--onednn", choices=("on", "off"), default="on")
    p.add_argument("--flush-denormal", action="store_true")
    p.add_argument("--checkpoint", action="store_true", help="torch.utils.checkpoint on every block")
    p.add_argument("--compile", action="store_true", help="torch.compile")
    p.add_argument("--bf16", action="store_true", help="products in bf16, by autocast")
    p.add_argument("--memory", action="store_true")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()

    heap = HeapCounter() if a.memory else None
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    torch.set_flush_denormal(a.flush_denormal)
    torch.backends.mkldnn.enabled = a.onednn == "on"
    before = heap.live() if heap else 0
    params = {"t": a.length} if a.length and a.model in ("gpt-mini", "gpt2", "bert-mini") else {}
    model = models.make(a.model, **params)
    if a.checkpoint:
        model = models.checkpoint_blocks(model)
    if a.channels_last:
        model = model.to(memory_format=torch.channels_last)
    opt = adamw(model, a.adamw)
    forward = torch.compile(model) if a.compile else model

    ms, loss = [], None
    for step in range(1 - a.warmup, a.steps + 1):
        x, y = models.synthetic_batch(a.model, a.batch, a.length, a.image)
        if a.channels_last and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        if heap and step == 1:
            heap.reset()
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            out = forward(x, y)
        out.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        loss = out.item()
        del out
        took = 1e3 * (time.perf_counter() - begin)
        if step >= 1:
            ms.append(took)
            if a.json:
                print(json.dumps({"step": step, "loss": loss, "step_ms": round(took, 3)}), flush=True)

    weights, state = tensor_bytes(model.parameters()), state_bytes(model, opt)
    summary = {"summary": True, "model": a.model, "batch": a.batch, "steps": a.steps, "torch": torch.__version__}
    summary.update(median_step_ms=round(statistics.median(ms), 3), weight_bytes=weights, state_bytes=state)
    if heap:
        del x, y
        idle = heap.live()  # weights and state, and what libraries keep between steps
        summary.update(peak_above_state_bytes=heap.peak() - idle, kept_by_libraries_bytes=idle - before - state)
    print(json.dumps(summary) if a.json else summary)


if __name__ == "__main__":
    main()
