#!/usr/bin/env python3
"""Neap under a budget against PyTorch with torch.utils.checkpoint on every block: time at the same or a lower peak.

  bench/peer_checkpoint.py                        table on stdout, and its section in bench/RESULTS.md
  bench/peer_checkpoint.py --only gpt-mini        one model; stdout only

PyTorch's peak above state (live heap bytes) is Neap's budget above state; where Neap's minimum is higher, the row says so.
Runs are interleaved and repeated as in bench/run.py. PyTorch runs as fast as it can: fused AdamW, glibc keeps its memory, and
for images the faster of the two layouts.
"""
import argparse
import os
import pathlib
import statistics
import sys

import run
from run import MIB, PLAIN, CHANNELS_LAST, TUNED

MARKS = ("<!-- peer_checkpoint.py begins -->", "<!-- peer_checkpoint.py ends -->")
BOTH = {PLAIN: 1.0, CHANNELS_LAST: 1.0}
WORK = [
    run.Work("resnet18", 32, 3, 0, ["--image", "64"], BOTH, 1.0),
    run.Work("resnet50", 8, 6, 0, ["--image", "64"], BOTH, 1.0),
    run.Work("gpt-mini", 8, 6, 0, [], {PLAIN: 1.0}, 1.0),
    run.Work("bert-mini", 16, 10, 0, [], {PLAIN: 1.0}, 1.0),
    run.Work("lstm-lm", 32, 6, 0, ["--length", "128"], {PLAIN: 1.0}, 1.0),
]


class Race(run.Bench):
    """The same as for whole steps, with blocks computed again on both sides."""

    def torch(self, work, *flags, env):
        return super().torch(work, "--checkpoint", *flags, env=env)

    def neap_within(self, work, budget):
        """Step times behind the first ones, in which it learns; the summary."""
        warm_up = 4
        command = [self.neap, "train", work.model, "--batch", work.batch, "--steps", work.steps + warm_up, *work.flags]
        more = ["--policy", "adaptive", "--budget", budget, "--optimizer", "adamw", "--threads", run.THREADS, "--json", "-"]
        ms, summary = run.parse(run.call([*command, *more], run.environment()))
        return ms[warm_up:], summary

    def plan(self, work, budget):
        command = [self.neap, "plan", work.model, "--batch", work.batch, *work.flags, "--budget", budget, "--json", "-"]
        return run.json.loads(run.call(command, run.environment()))


def measure(race, work, rounds):
    layouts = {v: race.torch_memory(work, v)["peak_above_state_bytes"] for v in work.time_target}
    plan = race.plan(work, "100%")
    budget = plan["state_bytes"] + min(layouts.values())
    note = ""
    if budget < plan["min_budget_bytes"]:
        budget, note = plan["min_budget_bytes"], "the minimum; PyTorch's peak is lower"
    budget = min(budget, plan["store_all_bytes"])
    times, summary = {"neap": []} | {v: [] for v in layouts}, None
    for _ in range(rounds):
        ms, summary = race.undisturbed(race.neap_within, work, budget)
        times["neap"].append(ms)
        for v in layouts:
            times[v].append(race.undisturbed(race.torch_steps, work, v + TUNED))
    return times, layouts, summary, note


def rows(work, times, layouts, summary, note):
    best = min(layouts, key=lambda v: statistics.median(sum(times[v], [])))
    neap, peer = (statistics.median(sum(times[v], [])) for v in ("neap", best))
    above = (summary["peak_bytes"] - summary["state_bytes"]) / MIB
    yield [
        work.title, f"{neap:.0f}", f"{above:.1f}", f"{100 * (summary['peak_bytes'] - summary['state_bytes']) / (summary['store_all_bytes'] - summary['state_bytes']):.0f} %",
        best, f"{peer:.0f}", f"{layouts[best] / MIB:.1f}", run.ratio_text(times, best), f"{above * MIB / layouts[best]:.2f}", note,
    ]


def table(cells):
    head = ["work", "Neap ms", "MiB above state", "of store-all's", "PyTorch", "ms", "MiB above state", "time ratio", "memory ratio", "note"]
    lines = [head, ["---"] + ["---:"] * 3 + ["---"] + ["---:"] * 4 + ["---"], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=run.ROOT / "build" / "neap")
    p.add_argument("--python", type=pathlib.Path, default=run.VENV)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only")
    a = p.parse_args()
    if a.python == run.VENV:
        run.call([run.BENCH / "setup_venv.sh"], os.environ)
    race = Race(a.neap, a.python, run.ROOT / "build" / "bench")
    cells = []
    for work in WORK:
        if a.only and work.model not in a.only.split(","):
            continue
        print(f"{work.title} ...", file=sys.stderr, flush=True)
        cells += rows(work, *measure(race, work, a.rounds))
    text = "## Against PyTorch's checkpoint on every block\n\n"
    text += f"`bench/peer_checkpoint.py --rounds {a.rounds}`; ratios are Neap's over PyTorch's, below 1 is better.\n\n" + table(cells)
    print(text)
    if not a.only:
        run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
