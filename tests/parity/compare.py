#!/usr/bin/env python3
"""Compares Neap's losses with PyTorch's. Standard library only.

  compare.py golden/gpt-mini.json losses.jsonl                what `neap train ... --json losses.jsonl` wrote; - is stdin
  compare.py golden/gpt-mini.json --run build/neap [FLAG ...]  makes the weights, runs Neap (with FLAGs added), compares

Exit status 0 if every step's loss is within the tolerance (relative), 1 if not, 2 if there is nothing to compare.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import safetensors
import weights


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def read_losses(lines, source):
    """The losses of a JSON-lines run, in the order of steps."""
    losses = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            fail(f"{source}:{number}: not JSON: {line.strip()[:80]}")
        if not row.get("summary"):
            if not isinstance(row.get("loss"), (int, float)):
                fail(f"{source}:{number}: step {row.get('step')} has no number as loss")
            losses.append(row["loss"])
    return losses


def neap_command(neap, golden, root, init, flags):
    model = golden["model"]
    if golden["params"]:
        model += ":" + ",".join(f"{k}={v}" for k, v in golden["params"].items())
    command = [neap, "train", model, "--data", str(root / golden["data"]), "--batch", str(golden["batch"])]
    command += ["--steps", str(golden["steps"]), "--optimizer", golden["optimizer"], "--lr", repr(golden["lr"])]
    command += ["--momentum", "0", "--weight-decay", repr(golden.get("weight_decay", 0.0)), "--no-shuffle"]
    if golden["optimizer"] == "adamw":
        command += ["--beta1", repr(golden["betas"][0]), "--beta2", repr(golden["betas"][1]), "--epsilon", repr(golden["eps"])]
    if "length" in golden:
        command += ["--length", str(golden["length"])]
    return command + ["--init", str(init), "--json", "-", *flags]


def run_neap(neap, golden_path, golden, flags):
    with tempfile.TemporaryDirectory() as temp:
        init = pathlib.Path(temp) / "init.safetensors"
        recipe = golden["weights"]
        if "tensors" not in recipe:
            fail(f"{golden_path}: made from {recipe.get('file')}; run neap by hand and pass its losses")
        tensors = weights.make(recipe)
        if weights.digest(tensors) != recipe["sha256"]:
            fail(f"{golden_path}: the weights made here are not those of the golden run (sha256 differs)")
        safetensors.write(init, tensors)
        command = neap_command(neap, golden, golden_path.resolve().parents[1], init, flags)
        print("+", " ".join(command), flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        fail(f"{neap}: exit status {done.returncode}")
    return read_losses(done.stdout.splitlines(), neap)


def compare(want, got, tolerance):
    """Prints one line a step; true if all are within the tolerance."""
    worst = 0.0
    for step, (a, b) in enumerate(zip(want, got), 1):
        diff = abs(a - b) / abs(a) if math.isfinite(b) else math.inf
        worst = max(worst, diff)
        print(f"step {step:3}  golden {a:.8f}  neap {b:.8f}  relative {diff:.2e}{'' if diff <= tolerance else '  <<<'}")
    print(f"worst {worst:.2e}, tolerance {tolerance:.0e}: {'ok' if worst <= tolerance else 'DIFFERS'}")
    return worst <= tolerance


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("golden", type=pathlib.Path)
    p.add_argument("losses", nargs="?", help="JSON lines of neap train; - for standard input")
    p.add_argument("--run", metavar="NEAP", help="run this program instead")
    p.add_argument("--tolerance", type=float, default=1e-4)
    a, flags = p.parse_known_args()
    try:
        golden = json.loads(a.golden.read_text())
    except (OSError, json.JSONDecodeError) as e:
        fail(f"{a.golden}: {e}")
    if a.run:
        got = run_neap(a.run, a.golden, golden, ([a.losses] if a.losses else []) + flags)
    elif a.losses and not flags:
        try:
            got = read_losses(sys.stdin if a.losses == "-" else open(a.losses), a.losses)
        except OSError as e:
            fail(str(e))
    else:
        p.error("give a file of losses, or --run NEAP")
    if len(got) < len(golden["losses"]):
        fail(f"{len(got)} losses, {len(golden['losses'])} expected")
    sys.exit(0 if compare(golden["losses"], got, a.tolerance) else 1)


if __name__ == "__main__":
    main()
