#!/usr/bin/env python3
"""Trains on GPU and CPU and compares:
usage: gpu_compare.py NEAP MODEL [--steps N] | gpu_compare.py NEAP --times | gpu_compare.py NEAP --spill | gpu_compare.py NEAP --levels

MODEL: losses on the GPU agree with the CPU's to 1e-4, two runs on the GPU are the same to the bit (losses, weights).
NEAP_HOST in the environment names another program to run on the CPU.
--times: the GPU's step times (once the batch is there) and memory, one line a model.
--spill: below a budget, with RAM and disk beside the GPU, the weights are those without one, to the bit.
--levels: with activations in fewer bits the loss stays near, and two runs are the same to the bit.
"""
import json
import os
import subprocess
import sys

TOLERANCE = 1e-4
# Batch norm over small batches makes these so sensitive that two runs on the CPU part when they round differently. They are
# compared under plain gradient descent, and may be three times as far from the CPU as other threads make it part there.
SENSITIVE = ("resnet18", "resnet50")
TIMED = (["mlp"], ["cnn"], ["resnet18"], ["resnet50"], ["resnet50", "--batch", "128"], ["gpt-mini"], ["bert-mini"],
         ["gpt2", "--batch", "16", "--length", "1024"], ["lstm-lm"], ["gru-lm"],
         ["lstm-lm:hidden=1024,vocab=10000", "--batch", "64", "--length", "256"])
# The same work as the peer's in bench/CUDA.md: without a budget, then exact below one.
BF16 = ((["gpt2", "--batch", "16", "--length", "1024"], "4608MiB"), (["resnet50", "--batch", "128"], "2662MiB"),
        (["lstm-lm:hidden=1024,vocab=10000", "--batch", "64", "--length", "256"], "1024MiB"))


# A budget below what recomputation alone reaches cheaply; then what may be used beside the GPU.
SPILLED = ((["gpt2", "--batch", "16", "--length", "1024", "--compute", "bf16"], "3072MiB", ["--host-ram", "8GiB"]),
           (["resnet50", "--batch", "128", "--compute", "bf16"], "1434MiB", ["--host-ram", "8GiB"]),
           (["resnet50", "--batch", "128", "--compute", "bf16"], "1434MiB", ["--host-ram", "8GiB", "--policy", "spill"]),
           (["gpt-mini"], "60%", ["--host-ram", "4GiB", "--policy", "spill"]),
           (["gpt-mini"], "60%", ["--spill-dir", "/tmp", "--policy", "spill"]),
           (["gpt-mini"], "60%", ["--spill-dir", "/tmp", "--host-ram", "20MiB", "--policy", "spill"]))
LEVELS = ([["gpt-mini", "--policy", level] for level in ("bf16", "int8", "int4")] +
          [[model, "--tolerance", "default"] for model in ("gpt-mini", "cnn")])


def train(program, model, device, steps):
    program = os.environ.get("NEAP_HOST", program) if device == "cpu" else program
    call = [*program.split(), "train", *model, "--device", device, "--steps", str(steps), "--json", "-"]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(model)} on {device}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [r for r in rows if not r.get("summary")], rows[-1]


def distance(rows, others):
    return [abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(rows, others)]


def compare(program, model, steps):
    sensitive = model in SENSITIVE
    call = [model, "--optimizer", "sgd", "--lr", "0.001", "--momentum", "0"] if sensitive else [model]
    first, summary = train(program, call, "cuda", steps)
    again, summary_again = train(program, call, "cuda", steps)
    host, host_summary = train(program, call, "cpu", steps)
    same = [r["loss_hex"] for r in first] == [r["loss_hex"] for r in again]
    same = same and summary["weights_hash"] == summary_again["weights_hash"]
    noise = max(distance(train(program, [*call, "--threads", "3"], "cpu", steps)[0], host)) if sensitive else 0
    off = distance(first, host)
    ok = same and max(off) <= max(TOLERANCE, 3 * noise) and off[0] <= TOLERANCE and len(off) == steps
    print(f"{'ok  ' if ok else 'BAD '} {model:10} loss {first[0]['loss']:.6f} -> {first[-1]['loss']:.6f}, off by "
          f"{max(off):.1e} at most" + (f" (threads: {noise:.1e})" if sensitive else "") +
          f"; {'the same' if same else 'NOT THE SAME'} twice; {summary['median_step_ms']:.2f} ms "
          f"(CPU {host_summary['median_step_ms']:.0f}), peak {summary['peak_bytes'] / 2**20:.0f} MiB, "
          f"context {summary['context_bytes'] / 2**20:.0f} MiB", flush=True)
    return ok


def times(program):
    narrow = [[*model, "--compute", "bf16", *budget] for model, most in BF16 for budget in ([], ["--budget", most])]
    for model in (*narrow, *TIMED):
        rows, summary = train(program, model, "cuda", 100 if "--budget" in model else 24)  # plans settle by step 40
        print(f"{' '.join(model):88} {median_ms(rows):9.2f} ms  peak {summary['peak_bytes'] / 2**20:8.0f} MiB  "
              f"context {summary['context_bytes'] / 2**20:5.0f} MiB", flush=True)


def median_ms(rows):
    settled = sorted(r["compute_ms"] for r in rows[len(rows) // 2:])  # plans are made beside the first steps
    return settled[len(settled) // 2]


def spill(program):
    good, kept = True, {}
    for model, budget, beside in SPILLED:
        name = " ".join(model)
        if name not in kept:
            kept[name] = train(program, model, "cuda", 80)[1]["weights_hash"]
        rows, summary = train(program, [*model, "--budget", budget, *beside], "cuda", 80)
        last = rows[-1]
        same = summary["weights_hash"] == kept[name]
        must_spill = "--policy" in beside  # the adaptive policy need not
        ok = same and (last["spilled_bytes"] > 0 or not must_spill) and summary["violations"] == 0
        good = good and ok
        print(f"{'ok  ' if ok else 'BAD '} {name} --budget {budget} {' '.join(beside)}: {median_ms(rows):.2f} ms, peak "
              f"{summary['peak_bytes'] / 2**20:.0f} MiB, spilled {last['spilled_bytes'] / 2**20:.0f} MiB a step, transfers "
              f"{last['transfer_ms']:.1f} ms, stalled {last['stalled_ms']:.2f} ms; {'the same' if same else 'OTHER'} weights",
              flush=True)
    return good


def levels(program):
    good = True
    for model in LEVELS:
        exact = train(program, model[:1], "cuda", 40)[0]
        (first, summary), (_, again) = (train(program, model, "cuda", 40) for _ in range(2))
        same = summary["weights_hash"] == again["weights_hash"]
        off = abs(first[-1]["loss"] - exact[-1]["loss"]) / exact[-1]["loss"]
        ok = same and off < 0.05 and max(r.get("encoded_bytes", 0) for r in first) > 0
        good = good and ok
        print(f"{'ok  ' if ok else 'BAD '} {' '.join(model)}: loss {first[-1]['loss']:.4f} (exact {exact[-1]['loss']:.4f}), "
              f"{median_ms(first):.2f} ms (exact {median_ms(exact):.2f}), peak {summary['peak_bytes'] / 2**20:.0f} MiB, encoded "
              f"{max(r.get('encoded_bytes', 0) for r in first) / 2**20:.0f} MiB; {'the same' if same else 'NOT THE SAME'} twice",
              flush=True)
    return good


def main():
    program, what, *rest = sys.argv[1:]
    if what == "--times":
        times(program)
        return 0
    if what in ("--spill", "--levels"):
        return 0 if (spill if what == "--spill" else levels)(program) else 1
    steps = int(rest[1]) if rest[:1] == ["--steps"] else 20
    return 0 if compare(program, what, steps) else 1


if __name__ == "__main__":
    sys.exit(main())
