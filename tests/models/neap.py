"""Calls `neap train` on a model of the zoo as PyTorch trained it. Standard library only."""
import dataclasses
import json
import subprocess
import time


class Failure(Exception):
    """One line that says what went wrong with a model."""


@dataclasses.dataclass
class Run:
    losses: list
    loss_hex: list
    summary: dict
    notes: str  # standard error
    seconds: float


def flags(recipe):
    """The optimizer and the order of the data, as in losses.json."""
    f = ["--loss", recipe["loss"], "--batch", recipe["batch"], "--optimizer", recipe["optimizer"], "--lr", repr(recipe["lr"])]
    f += ["--momentum", 0, "--weight-decay", repr(recipe["weight_decay"]), "--no-shuffle"]
    if recipe["optimizer"] == "adamw":
        f += ["--beta1", repr(recipe["betas"][0]), "--beta2", repr(recipe["betas"][1]), "--epsilon", repr(recipe["eps"])]
    if recipe["length"]:
        f += ["--length", recipe["length"]]
    return f


def train(neap, model, folder, recipe, steps, *more):
    """Trains `model` on the data in `folder`."""
    command = [neap, "train", model, "--data", folder / "data.npz", *flags(recipe), "--steps", steps, "--json", "-", *more]
    start = time.monotonic()
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Failure(f"exit status {done.returncode}: {said[-1] if said else 'no message'}\n  {' '.join(map(str, command))}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    steps_done = [r for r in rows if "loss_hex" in r]
    summary = next((r for r in rows if r.get("summary")), {})
    if len(steps_done) != steps or "weights_hash" not in summary:
        raise Failure(f"{len(steps_done)} losses for {steps} steps: {' '.join(map(str, command))}")
    return Run([r["loss"] for r in steps_done], [r["loss_hex"] for r in steps_done], summary, done.stderr, seconds)
