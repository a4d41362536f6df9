#!/usr/bin/env python3
"""Trains on GPU and CPU and compares.

  gpu_compare.py NEAP MODEL [--steps N]   losses on the GPU agree with the CPU's to 1e-4, two runs on the GPU are the same to the bit
  gpu_compare.py NEAP --PART              one of the parts below

NEAP_HOST in the environment names another program to run on the CPU; NEAP_DEVICE=cpu puts the CPU in the GPU's place, where there is
none, to try this script's parts --onnx and --tuned. Exit status 1 if anything is not as it should be.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading

DEVICE = os.environ.get("NEAP_DEVICE", "cuda")
LIMIT_S = 900  # of one run
TOLERANCE = 1e-4
# Batch norm over small batches makes these so sensitive that two runs on the CPU part when they round differently. They are
# compared under plain gradient descent, and may be three times as far from the CPU as other threads make it part there.
SENSITIVE = ("resnet18", "resnet20", "resnet50")
TIMED = (["mlp"], ["cnn"], ["resnet18"], ["resnet50"], ["resnet50", "--batch", "128"], ["gpt-mini"], ["bert-mini"],
         ["gpt2", "--batch", "16", "--length", "1024"], ["lstm-lm"], ["gru-lm"],
         ["lstm-lm:hidden=1024,vocab=10000", "--batch", "64", "--length", "256"])
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
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(model)} on {device}: not over after {LIMIT_S} s") from None
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
    for model in TIMED:
        rows, summary = train(program, model, "cuda", 24)
        print(f"{' '.join(model):88} {median_ms(rows):9.2f} ms  peak {summary['peak_bytes'] / 2**20:8.0f} MiB  "
              f"context {summary['context_bytes'] / 2**20:5.0f} MiB", flush=True)
    return True


def median_ms(rows):
    settled = sorted(r["compute_ms"] for r in rows[len(rows) // 2:])  # plans are made beside the first steps
    return settled[len(settled) // 2]


# Work, and under which budgets: most milliseconds, MiB of the arena, budget.
ROWS = ((["gpt2", "--batch", "16", "--length", "1024"], ((33, 6656, []), (36, 4608, ["--budget", "4608MiB"]),
                                                       (44, 3072, ["--budget", "3072MiB", "--host-ram", "8GiB"]))),
        (["resnet50", "--batch", "128"], ((26, 5632, []), (36, 2662, ["--budget", "2662MiB"]),
                                          (60, 1434, ["--budget", "1434MiB", "--host-ram", "8GiB"]))),
        (["lstm-lm:hidden=1024,vocab=10000", "--batch", "64", "--length", "256"], ((22, 1434, []), (28, 1024, ["--budget", "1024MiB"]))))


def run_row(program, model, budget):
    """Its steps and the summary."""
    return train(program, [*model, "--compute", "bf16", *budget], "cuda", 80)


def rows_of_table(program):
    good = True
    for model, limits in ROWS:
        kept = None
        for most_ms, most_mib, budget in limits:
            rows, summary = run_row(program, model, budget)
            kept = kept or summary["weights_hash"]
            same, ms, mib = summary["weights_hash"] == kept, median_ms(rows), summary["peak_bytes"] / 2**20
            ok = same and summary["violations"] == 0 and ms <= most_ms and mib <= most_mib
            good = good and ok
            print(f"{'ok  ' if ok else 'BAD '} {' '.join([*model, *budget])}: {ms:.2f} ms (at most {most_ms}), peak {mib:.0f} MiB "
                  f"(at most {most_mib}), context {summary['context_bytes'] / 2**20:.0f} MiB, {summary['violations']} violations, spilled "
                  f"{rows[-1]['spilled_bytes'] / 2**20:.0f} MiB a step; {'the same' if same else 'OTHER'} weights", flush=True)
    return good


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


# The first loss may be off by as much as the order of sums makes it, later ones by what a step makes of that: batch norm over small
# batches makes much of it, and products of bf16 round each of them.
PLAIN = ["--optimizer", "sgd", "--lr", "0.001", "--momentum", "0"]
SPLIT = ((["resnet18", *PLAIN], 1e-5, 1e-2), (["resnet50", *PLAIN], 1e-4, 5e-2), (["gpt-mini"], 1e-5, 1e-3),
         (["lstm-lm"], 1e-5, 1e-3), (["resnet50", "--compute", "bf16", *PLAIN], 1e-2, 1e-1),
         (["gpt-mini", "--compute", "bf16"], 1e-2, 5e-2))


def least_budget(program, model):
    call = [*program.split(), "plan", *model, "--device", "cuda", "--json", "-"]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(call)}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])["min_budget_bytes"]


def split(program):
    good, beside = True, ["--host-ram", "8GiB"]
    for model, first, later in SPLIT:
        parts = [*model, "--split", "4"]
        whole, kept = train(program, model, "cuda", 20)
        (rows, summary), (_, again) = (train(program, parts, "cuda", 20) for _ in range(2))
        budget = least_budget(program, [*parts, *beside]) * 11 // 10
        below, small = train(program, [*parts, *beside, "--budget", str(budget)], "cuda", 20)
        off = distance(rows, whole)
        same = summary["weights_hash"] == again["weights_hash"] == small["weights_hash"]
        ok = same and off[0] <= first and max(off) <= later and small["violations"] == 0 and small["peak_bytes"] <= budget
        good = good and ok
        print(f"{'ok  ' if ok else 'BAD '} {' '.join(parts)}: loss {rows[-1]['loss']:.6f} (whole {whole[-1]['loss']:.6f}), off by "
              f"{off[0]:.1e} at first, {max(off):.1e} at most; {median_ms(rows):.2f} ms, peak {summary['peak_bytes'] / 2**20:.0f} MiB "
              f"(whole {median_ms(whole):.2f} ms, {kept['peak_bytes'] / 2**20:.0f} MiB); below {budget / 2**20:.0f} MiB "
              f"{median_ms(below):.2f} ms, {small['violations']} violations; {'the same' if same else 'NOT THE SAME'} three times",
              flush=True)
    return split_auto(program, ["resnet18", *PLAIN]) and good


# In the middle of a run, by groups and by a share of each weight.
PRUNED = (["mlp", "--prune", "2:4,from=5"], ["mlp", "--prune", "0.5,from=5"], ["cnn", "--prune", "2:4,from=5"],
          ["gpt-mini", "--prune", "0.5,from=5"])


def prune(program):
    good = True
    for model in PRUNED:
        (rows, summary), (_, again) = (train(program, model, "cuda", 20) for _ in range(2))
        host, _ = train(program, model, "cpu", 20)
        off = max(distance(rows, host))
        same = summary["weights_hash"] == again["weights_hash"]
        ok = same and off <= 1e-3
        good = good and ok
        print(f"{'ok  ' if ok else 'BAD '} {' '.join(model)}: loss {rows[-1]['loss']:.6f}, off by {off:.1e} at most; "
              f"{'the same' if same else 'NOT THE SAME'} twice; {median_ms(rows):.2f} ms", flush=True)
    return good


def gates(program):
    good = True
    for model, tolerance in ((["lstm-lm"], 1e-3), (["gru-lm"], 1e-3), (["lstm-lm", "--compute", "bf16"], 5e-2)):
        keeping, kept = train(program, [*model, "--gates", "keep"], "cuda", 20)
        (rows, summary), (_, again) = (train(program, [*model, "--gates", "recompute"], "cuda", 20) for _ in range(2))
        off = max(distance(rows, keeping))
        same = summary["weights_hash"] == again["weights_hash"]
        ok = same and off <= tolerance and summary["peak_bytes"] < kept["peak_bytes"]
        good = good and ok
        print(f"{'ok  ' if ok else 'BAD '} {' '.join(model)} --gates recompute: off by {off:.1e} at most; {median_ms(rows):.2f} ms, peak "
              f"{summary['peak_bytes'] / 2**20:.0f} MiB (kept {median_ms(keeping):.2f} ms, {kept['peak_bytes'] / 2**20:.0f} MiB); "
              f"{'the same' if same else 'NOT THE SAME'} twice", flush=True)
    return good


# Batch norm makes much of a small difference; the last one's products are cuDNN's.
TF32 = ((["gpt-mini"], 5e-3), (["cnn"], 2e-2), (["resnet50", *PLAIN], 1e-1), (["gru-lm"], 5e-3), (["lstm-lm"], 5e-3),
        (["gpt-mini:layers=1,width=528,heads=6,vocab=8704,context=128", "--batch", "4", "--length", "128", "--optimize",
          "vocab-loss,tied-update,fuse"], 5e-3), (["lstm-lm", "--gates", "cudnn"], 5e-3))


def half_or_least(summary):
    """A budget: state and half of the rest, or the minimum where that is more."""
    half = summary["state_bytes"] + (summary["store_all_bytes"] - summary["state_bytes"]) // 2
    return max(half, summary["min_budget_bytes"])


def tf32(program):
    good = True
    for model, tolerance in TF32:
        wide, plain = train(program, model, "cuda", 20)
        call = [*model, "--compute", "tf32"]
        (rows, summary), (_, again) = (train(program, call, "cuda", 20) for _ in range(2))
        budget = half_or_least(summary)
        tight = train(program, [*call, "--budget", str(budget)], "cuda", 20)[1]
        off = max(distance(rows, wide))
        same = summary["weights_hash"] == again["weights_hash"] == tight["weights_hash"]
        other = summary["weights_hash"] != plain["weights_hash"] and summary["numerics_id"] != plain["numerics_id"]
        ok = same and other and off <= tolerance and tight["violations"] == 0
        good = good and ok
        print(f"{'ok  ' if ok else 'BAD '} {' '.join(call)}: off by {off:.1e} at most; {median_ms(rows):.2f} ms (f32 {median_ms(wide):.2f}); "
              f"{'the same' if same else 'NOT THE SAME'} twice and within {budget / 2**20:.0f} of {summary['peak_bytes'] / 2**20:.0f} MiB, {'other' if other else 'THE SAME'} than f32's", flush=True)
    return good


def split_auto(program, model):
    budget = least_budget(program, [*model, "--split", "4"])
    summary = train(program, [*model, "--split", "auto", "--budget", str(budget)], "cuda", 5)[1]
    ok = 1 <= summary["split"] <= 4 and summary["violations"] == 0 and summary["peak_bytes"] <= budget
    print(f"{'ok  ' if ok else 'BAD '} {' '.join(model)} --split auto --budget {budget}: {summary['split']} parts, peak "
          f"{summary['peak_bytes'] / 2**20:.0f} MiB", flush=True)
    return ok


# The copies take less than the calls in the first; in the others they are what takes time.
OVERLAPPED = ((["gpt2", "--batch", "16", "--length", "1024", "--compute", "bf16"], "90%", True),
              (["gpt2", "--batch", "16", "--length", "1024", "--compute", "bf16"], "3072MiB", False),
              (["resnet50", "--batch", "128", "--compute", "bf16"], "1434MiB", False))
LINK = 55e9  # bytes a second


def trace_of(path):
    with open(path) as file:
        return json.load(file)["traceEvents"]


def shared_ms(spans, others):
    """Milliseconds in which a span of both lists ran; the spans of one list lie behind each other."""
    spans, others = sorted(spans), sorted(others)
    total, k = 0, 0
    for begin, end in spans:
        while k < len(others) and others[k][1] <= begin:
            k += 1
        i = k
        while i < len(others) and others[i][0] < end:
            total += min(end, others[i][1]) - max(begin, others[i][0])
            i += 1
    return total / 1e3


def overlap(program):
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for model, budget, is_hidden in OVERLAPPED:
            call = [*model, "--budget", budget, "--host-ram", "16GiB", "--policy", "spill"]
            plain, kept = train(program, call, "cuda", 30)
            rows, summary = train(program, [*call, "--trace", f"{folder}/trace.json"], "cuda", 30)
            last, events = rows[-1], trace_of(f"{folder}/trace.json")
            spans = {kind: [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["cat"] in cats]
                     for kind, cats in (("kernels", ("kernel",)), ("copies", ("spill", "fetch")))}
            steps = sum(e["ph"] == "X" and e["cat"] == "step" for e in events)
            shown = shared_ms(spans["copies"], spans["kernels"]) / max(steps, 1)
            link, compute, both = last["link_busy_ms"], last["compute_busy_ms"], last["overlap_ms"]
            rate = 2 * last["spilled_bytes"] / (link * 1e-3)
            same = summary["weights_hash"] == kept["weights_hash"]
            ok = summary["busy_source"] == "cupti" and same and link > 0 and abs(shown - both) < 0.2 * both
            # What leaves last in forward is the first that backward wants: that part cannot hide.
            ok = ok and (link < compute and both > 0.4 * link if is_hidden else rate > 0.8 * LINK)
            good = good and ok
            print(f"{'ok  ' if ok else 'BAD '} {' '.join(model)} --budget {budget}: step {median_ms(rows):.2f} ms traced, "
                  f"{median_ms(plain):.2f} not; link {link:.2f} ms at {rate / 1e9:.1f} GB/s, compute {compute:.2f} ms, both "
                  f"{both:.2f} ms ({100 * both / link:.0f} % of the link's; in the trace {shown:.2f}); by waits "
                  f"{plain[-1]['overlap_ms']:.2f} of {plain[-1]['link_busy_ms']:.2f}; {'the same' if same else 'OTHER'} "
                  "weights", flush=True)
    return good and kernels(program)


def kernels(program):
    call = [*program.split(), "profile", "gpt2", "--batch", "16", "--length", "1024", "--compute", "bf16", "--device", "cuda",
            "--layers-only", "--json", "-"]
    done = subprocess.run(call, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [r for r in rows if "kernel" in r]
    layers = sum(r["forward_ms"] + r["backward_ms"] + r["update_ms"] for r in rows if "forward_ms" in r)
    total = sum(r["ms"] for r in found)
    ok = done.returncode == 0 and len(found) > 100 and abs(total - layers) < 0.1 * layers
    print(f"{'ok  ' if ok else 'BAD '} profile: {len(found)} kernels of calls, {sum(r['launches'] for r in found)} launches, "
          f"{total:.2f} ms in kernels, {layers:.2f} by layers {done.stderr.strip()[-300:]}", flush=True)
    sums = {}
    for r in found:
        sums[r["kernel"]] = sums.get(r["kernel"], 0) + r["ms"]
    for name, ms in sorted(sums.items(), key=lambda each: -each[1])[:8]:
        print(f"      {ms:8.3f} ms  {name[:100]}", flush=True)
    return ok


# Takes the card's memory but for so many MiB, until its standard input ends.
HOG = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, free, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
for part in (1 << 30, 1 << 26, 1 << 21):
    while True:
        cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        at = ctypes.c_uint64()
        if free.value < part + (int(sys.argv[1]) << 20) or cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(part)) != 0:
            break
print(free.value >> 20, flush=True)
sys.stdin.read()
"""


class Hog:
    def __init__(self, leaves_mib):
        self.leaves_mib = leaves_mib

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", HOG, str(self.leaves_mib)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.free_mib = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def refused(program, leaves_mib, call, says):
    with Hog(leaves_mib) as hog:
        done = subprocess.run([*program.split(), "train", *call, "--device", "cuda", "--steps", "3", "--json", "-"],
                              capture_output=True, text=True, timeout=120)
    lines = done.stderr.strip().splitlines()
    ok = done.returncode == 4 and len(lines) == 1 and says in lines[0]
    print(f"{'ok  ' if ok else 'BAD '} {' '.join(call)} with {hog.free_mib} MiB free: status {done.returncode}: "
          f"{' / '.join(lines)[-300:]}", flush=True)
    return ok


def taken_meanwhile(program):
    """The budget is to grow, but another process was faster."""
    call = ["gpt2", "--batch", "8", "--length", "1024", "--compute", "bf16"]
    steps = 400
    whole = train(program, call, "cuda", steps)[1]
    run = subprocess.Popen([*program.split(), "train", *call, "--device", "cuda", "--steps", str(steps), "--budget", "2600MiB",
                            "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(run.stderr.read()))
    reader.start()
    rows, hog = [], Hog(100)
    for line in run.stdout:
        rows.append(json.loads(line))
        if len(rows) == 20:
            hog.__enter__()
            subprocess.run([*program.split(), "budget", str(run.pid), "4GiB"], capture_output=True, check=True)
    status = run.wait(timeout=120)
    reader.join()
    hog.__exit__()
    same = bool(rows) and rows[-1].get("weights_hash") == whole["weights_hash"]
    ok = status == 0 and same and "the budget stays at" in errors[0] and rows[-1]["violations"] == 0
    print(f"{'ok  ' if ok else 'BAD '} memory taken during a run: status {status}, {'the same' if same else 'OTHER'} weights: "
          f"{errors[0].strip()[-300:]}", flush=True)
    return ok


def faults(program):
    good = refused(program, 100, ["mlp"], "no memory left for a CUDA context")
    good = refused(program, 2048, ["gpt2", "--batch", "16", "--length", "1024", "--compute", "bf16"], "free, the arena needs") and good
    with Hog(2048):
        small = train(program, ["mlp"], "cuda", 3)[1]
    print(f"ok   mlp with 2 GiB free: loss {small['loss_last']:.4f}", flush=True)
    return taken_meanwhile(program) and good


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


# Built-in models that are written as ONNX and read again: a model as it is made, then how it is trained. Batch norm is what a model
# was exported with: frozen. Large enough that activations, not the libraries' workspaces, decide what is needed.
IMPORTED = ((["cnn", "--batch", "512"], []),
            (["gpt-mini:width=192,layers=3,heads=3,vocab=256,context=128", "--batch", "32", "--length", "128"], []),
            (["lstm-lm:hidden=256,vocab=256,chunk=32", "--batch", "64", "--length", "128"], []),
            (["resnet18", "--batch", "64", "--image", "32"], PLAIN))


def imported(program, folder, model, optimizer, steps):
    name = model[0].split(":")[0]
    file = f"{folder}/{name}.onnx"
    train(program, [*model, "--save", file], "cpu", 1)
    call = [file, "--loss", "cross-entropy", "--batch", model[2], *optimizer]
    (rows, summary), (again, summary_again) = (train(program, call, DEVICE, steps) for _ in range(2))
    host, _ = train(program, call, "cpu", steps)
    noise = max(distance(train(program, [*call, "--threads", "3"], "cpu", steps)[0], host)) if optimizer else 0
    off = distance(rows, host)
    same = [r["loss_hex"] for r in rows] == [r["loss_hex"] for r in again] and summary["weights_hash"] == summary_again["weights_hash"]
    budget = half_or_least(summary)
    small = train(program, [*call, "--budget", str(budget)], DEVICE, steps)[1]
    kept = small["weights_hash"] == summary["weights_hash"] and small["violations"] == 0 and small["peak_bytes"] <= budget
    ok = same and kept and len(off) == steps and max(off) <= max(TOLERANCE, 3 * noise) and budget < summary["store_all_bytes"]
    print(f"{'ok  ' if ok else 'BAD '} {name}.onnx: loss {rows[0]['loss']:.6f} -> {rows[-1]['loss']:.6f}, off by {max(off):.1e} at most; "
          f"{'the same' if same else 'NOT THE SAME'} twice; {median_ms(rows):.2f} ms, peak {summary['peak_bytes'] / 2**20:.1f} MiB; within "
          f"{budget / 2**20:.1f} MiB ({'the minimum' if budget == summary['min_budget_bytes'] else 'half'}) peak {small['peak_bytes'] / 2**20:.1f} MiB, "
          f"{small['violations']} violations, {'the same' if kept else 'OTHER'} weights", flush=True)
    return ok


def onnx(program, steps):
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for model, optimizer in IMPORTED:
            good = attempt(imported, program, folder, model, optimizer, steps or 20) and good
    return good


# Whose logits are too small for what changes bits (vocab-loss): every way of running them gives the same. And whether there is
# something to choose from on a GPU: chains of elementwise ops, which dropout makes.
TUNED = (("gpt-mini:dropout=0.1", True), ("bert-mini:dropout=0.1", True), ("gpt-mini", False), ("resnet18", False))
TUNED_WAYS = {"adaptive": [], "again": [], "wide": ["--trial-share", "0.5"], "off": ["--optimize", "off"], "all": ["--optimize", "all"]}


def text_of(tuning):
    if not tuning:
        return "nothing tuned"
    ways = sorted({piece["strategy"] for piece in tuning["subgraphs"]})
    return (f"{tuning['trials']} trials, {tuning['adopted']} adopted, {100 * tuning['spent_share']:.2f} % of the time, rejected: "
            f"{', '.join(tuning['rejected']) or 'nothing'}, in use: {', '.join(ways)}")


def tuned_model(program, model, has_choice, steps):
    ways = TUNED_WAYS if has_choice else {way: TUNED_WAYS[way] for way in ("adaptive", "off", "all")}
    runs = {way: train(program, [model, *flags], DEVICE, steps) for way, flags in ways.items()}
    same = len({summary["weights_hash"] for _, summary in runs.values()}) == 1
    tunings = {way: runs[way][1].get("tuning") for way in ("adaptive", "wide") if way in runs}
    tried = not has_choice or bool(tunings["wide"] and tunings["wide"]["trials"] > 0)
    ok = same and tried and not any(tuning["rejected"] for tuning in tunings.values() if tuning)
    ms = ", ".join(f"{way} {median_ms(rows):.3f}" for way, (rows, _) in runs.items())
    print(f"{'ok  ' if ok else 'BAD '} {model}, {steps} steps: {'the same' if same else 'NOT THE SAME'} weights in {len(runs)} runs; ms: {ms}",
          flush=True)
    for way, tuning in tunings.items():
        print(f"      {' '.join([way, *ways[way]])}: {text_of(tuning)}", flush=True)
    return ok


def tuned(program, steps):
    return all([attempt(tuned_model, program, model, has_choice, steps or 600) for model, has_choice in TUNED])


def attempt(function, *arguments):
    """Whether it held; a run that fails is said, and the next one goes on."""
    try:
        return function(*arguments)
    except (SystemExit, OSError, ValueError, KeyError, IndexError, TypeError, ZeroDivisionError) as error:
        print(f"BAD  {type(error).__name__}: {error}", flush=True)
        return False


PARTS = {"times": (times, "the GPU's step times (once the batch is there) and memory, one line a model"),
         "rows": (rows_of_table, "the table of bench/CUDA.md: step time and memory without a budget and below some; the same weights, to the bit"),
         "spill": (spill, "below a budget, with RAM and disk beside the GPU, the weights are those without one, to the bit"),
         "split": (split, "parts of a batch that take turns: losses near those of whole batches, the same weights twice and below a budget"),
         "prune": (prune, "pruned weights: losses near the CPU's, two runs the same to the bit"),
         "gates": (gates, "recurrent layers whose gates are made again: losses near those that keep them, two runs the same, a lower peak"),
         "tf32": (tf32, "losses near f32's, but others; two runs and one below a budget the same to the bit; both step times"),
         "levels": (levels, "with activations in fewer bits the loss stays near, and two runs are the same to the bit"),
         "overlap": (overlap, "what CUPTI says of steps that spill: transfers lie under the calls, or the link is busy all the time; a trace and a profile"),
         "faults": (faults, "another process has the GPU's memory, before the run or during it"),
         "onnx": (onnx, "imported models: losses near the CPU's, the same twice, and below a budget the weights of storing everything"),
         "tuned": (tuned, "--optimize adaptive over 600 steps: what was tried and kept, and the weights of every fixed choice")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("neap", help="the program, built with CUDA")
    parser.add_argument("model", nargs="?", help="a built-in model")
    parser.add_argument("--steps", type=int, help="of MODEL, --onnx (20) and --tuned (600)")
    chosen = parser.add_mutually_exclusive_group()
    for name, (_, what) in PARTS.items():
        chosen.add_argument(f"--{name}", dest="part", action="store_const", const=name, help=what)
    options = parser.parse_args()
    if (options.part is None) == (options.model is None):
        parser.error("give a model or one part")
    if options.model:
        return 0 if compare(options.neap, options.model, options.steps or 20) else 1
    function = PARTS[options.part][0]
    good = function(options.neap, options.steps) if options.part in ("onnx", "tuned") else function(options.neap)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
