#!/usr/bin/env python3
"""The largest batch that trains in 2 GiB: Neap, exact, with a disk to spill to, against PyTorch with checkpoint on every block.

  bench/largest_batch.py                          table on stdout, and its section in bench/RESULTS.md
  bench/largest_batch.py --only gpt-mini          one model; stdout only

Neap's batches are what `neap fit` says, whole and with `--split auto`; each then trains for one step, whose peak must stay below the budget (minutes,
at batches of a thousand). PyTorch's is what its peak of live heap bytes allows (state, gradients, activations; not its libraries): measured at two batches, a straight line through them, and measured again at
the batch that this gives. Images: the layout with the lower peak.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

import run
from run import CHANNELS_LAST, MIB, PLAIN

MARKS = ("<!-- largest_batch.py begins -->", "<!-- largest_batch.py ends -->")
BUDGET = 2048 * MIB
BOTH = {PLAIN: 1.0, CHANNELS_LAST: 1.0}
# The batch of a Work is one that surely fits in PyTorch.
WORK = [
    run.Work("resnet18", 48, 1, 0, ["--image", "64"], BOTH, 1.0),
    run.Work("resnet50", 48, 1, 0, ["--image", "64"], BOTH, 1.0),
    run.Work("gpt-mini", 48, 1, 0, [], {PLAIN: 1.0}, 1.0),
    run.Work("bert-mini", 128, 1, 0, [], {PLAIN: 1.0}, 1.0),
    run.Work("lstm-lm", 64, 1, 0, ["--length", "128"], {PLAIN: 1.0}, 1.0),
]


class Sizes(run.Bench):
    def torch_bytes(self, work, batch, layout):
        """State and everything above it."""
        env = run.environment(LD_PRELOAD=str(self.build / "malloc_peak.so"))
        work = run.dataclasses.replace(work, batch=batch)
        flags = ["--checkpoint", "--steps", 1, "--warmup", 1, "--memory", *run.layout_flags(layout)]
        summary = self.torch(work, *flags, env=env)[1]
        return summary["state_bytes"] + summary["peak_above_state_bytes"]

    def torch_largest(self, work, layout):
        """(batch, its bytes), measured there."""
        low, high = work.batch // 2, work.batch
        at_low, at_high = (self.torch_bytes(work, b, layout) for b in (low, high))
        a_sample = (at_high - at_low) / (high - low)
        batch = int(high + (BUDGET - at_high) / a_sample)
        used = self.torch_bytes(work, batch, layout)
        while used > BUDGET:
            batch -= max(1, round((used - BUDGET) / a_sample))
            used = self.torch_bytes(work, batch, layout)
        return batch, used

    def neap_largest(self, work, spill_dir, split):
        """What `neap fit` says, and under `peak` the bytes that a step at that batch took."""
        flags = [*work.flags, "--budget", BUDGET, "--spill-dir", spill_dir, "--optimizer", "adamw", "--threads", run.THREADS]
        fit = json.loads(run.call([self.neap, "fit", work.model, *flags, "--split", split, "--json", "-"], run.environment()))
        print(f"  batch {fit['largest']}, --split {fit['split']}", file=sys.stderr, flush=True)
        size = ["--batch", fit["largest"], "--split", fit["split"], "--steps", 1]
        summary = run.parse(run.call([self.neap, "train", work.model, *size, *flags, "--json", "-"], run.environment()))[1]
        if summary["peak_bytes"] > BUDGET or summary["violations"] > 0:
            sys.exit(f"{work.model}: {summary['peak_bytes']} bytes, more than the budget")
        return {**fit, "peak": summary["peak_bytes"]}


def row(sizes, work, spill_dir):
    whole, split = (sizes.neap_largest(work, spill_dir, parts) for parts in (1, "auto"))
    peers = {layout: sizes.torch_largest(work, layout) for layout in work.time_target}
    best = max(peers, key=lambda layout: peers[layout][0])
    name = " ".join([work.model, *work.flags]).replace("--", "")
    peer, peer_bytes = peers[best]
    ours = [str(whole["largest"]), f"{whole['peak'] / MIB:.0f}", str(split["largest"]), str(split["split"]), f"{split['peak'] / MIB:.0f}"]
    theirs = [best, str(peer), f"{peer_bytes / MIB:.0f}"]
    return [name, *ours, str(whole["store_all_largest"]), *theirs, f"{whole['largest'] / peer:.2f}", f"{split['largest'] / peer:.2f}"]


def table(cells):
    head = ["work", "Neap's batch", "MiB", "split", "parts", "MiB", "with all stored", "PyTorch, checkpointed", "batch", "MiB", "times, unsplit", "times, split"]
    lines = [head, ["---"] + ["---:"] * 6 + ["---"] + ["---:"] * 4, *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--python", type=pathlib.Path, default=run.VENV)
    p.add_argument("--only")
    a = p.parse_args()
    if a.python == run.VENV:
        run.call([run.BENCH / "setup_venv.sh"], os.environ)
    sizes = Sizes(a.neap, a.python, run.ROOT / "build" / "bench")
    cells = []
    with tempfile.TemporaryDirectory() as spill_dir:
        for work in WORK:
            if a.only and work.model not in a.only.split(","):
                continue
            print(f"{work.model} ...", file=sys.stderr, flush=True)
            cells.append(row(sizes, work, spill_dir))
            print(cells[-1], file=sys.stderr, flush=True)
    text = "## The largest batch in 2 GiB\n\n`bench/largest_batch.py`: AdamW, f32, exact; Neap may spill to disk. MiB as used by a step at that batch.\n\n" + table(cells)
    print(text)
    if not a.only:
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
