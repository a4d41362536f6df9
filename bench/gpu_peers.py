#!/usr/bin/env python3
"""PyTorch's ways to train in less memory on one GPU, beside Neap's rows of bench/CUDA.md: milliseconds a step and peak MiB.

  bench/gpu_peers.py build/neap                                  all models and settings
  bench/gpu_peers.py build/neap --only gpt2 --json rows.jsonl    one model; JSON lines as well
  bench/gpu_peers.py --settings eager,compile                    two settings, without Neap
  bench/gpu_peers.py build/neap --together                       all compile at once, if the card holds them all; minutes less

The same work on both sides: bf16 products (autocast), f32 weights, AdamW, a batch that stays on the card. Settings: eager; compile
(torch.compile) and compile@X with activation_memory_budget X; checkpoint (torch.utils.checkpoint on every block); save_on_cpu (pinned).
A setting has a process of its own, and nothing else runs while one is timed. Times are medians between CUDA events; peaks are
torch.cuda.max_memory_allocated() over the timed steps, without context and what the caching allocator holds beyond, and the arena's
peak for Neap. One after the other all of it takes some ten minutes, most of them compiling; rows are printed as they come. Exit status 1 if one failed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench/peers")]
import gpu_compare  # noqa: E402

BUDGETS = ["compile@0.7", "compile@0.5", "compile@0.3"]
SETTINGS = {"gpt2": ["eager", "compile", *BUDGETS, "checkpoint", "save_on_cpu"],
            "resnet50": ["eager", "compile", *BUDGETS, "checkpoint", "save_on_cpu"],
            "lstm-lm": ["eager", "compile"]}
WARM_UP, STEPS, SLOW_STEPS = 5, 15, 3  # save_on_cpu takes half a second a step
READY = "ready"  # a process says so when it is warm, and waits for a line


def make(name):
    """The model on the card, and its batch."""
    import models
    params = {"lstm-lm": {"vocab": 10000, "hidden": 1024}}.get(name, {})
    batch, length = {"gpt2": (16, 1024), "resnet50": (128, None), "lstm-lm": (64, 256)}[name]
    model = models.make(name, **params).cuda()
    x, y = models.synthetic_batch(name, batch, length)
    x, y = x.cuda(), y.cuda()
    if name == "resnet50":
        import torch
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return model, (x, y)


def make_step(name, setting):
    """A function that trains one step."""
    import torch
    import models
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")  # what is left in f32 runs in TF32
    torch.backends.cudnn.benchmark = True
    model, batch = make(name)
    run, around = model, contextlib.nullcontext
    if setting.startswith("compile"):
        if "@" in setting:
            import torch._functorch.config
            torch._functorch.config.activation_memory_budget = float(setting.split("@")[1])
        run = torch.compile(model)
    elif setting == "checkpoint":
        run = models.checkpoint_blocks(model)
    elif setting == "save_on_cpu":
        around = lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)
    elif setting != "eager":
        raise ValueError(f"there is no setting {setting}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast("cuda", torch.bfloat16), around():
            loss = run(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def measure(name, setting):
    """In a process of its own."""
    import torch
    step = make_step(name, setting)
    is_slow = setting == "save_on_cpu"
    begin = time.perf_counter()
    for _ in range(1 if is_slow else WARM_UP):
        step()
    torch.cuda.synchronize()
    warm_up = time.perf_counter() - begin
    print(READY, flush=True)
    sys.stdin.readline()
    step()  # the card's clock has fallen while it waited
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(1 + (SLOW_STEPS if is_slow else STEPS))]
    events[0].record()
    for event in events[1:]:
        loss = step()
        event.record()
    torch.cuda.synchronize()
    ms = statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:]))
    return {"model": name, "setting": setting, "ms": round(ms, 2), "mib": round(torch.cuda.max_memory_allocated() / 2**20),
            "reserved_mib": round(torch.cuda.max_memory_reserved() / 2**20), "warm_up_s": round(warm_up, 1),
            "loss": round(loss.item(), 4), "torch": torch.__version__}


class Peer:
    """A process that has warmed up, or is about to, and trains its timed steps when it is told to."""

    def __init__(self, name, setting, limit):
        self.row, self.until, self.limit = {"model": name, "setting": setting}, time.monotonic() + limit, limit
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # compilers' processes may hold pipes open
        self.process = subprocess.Popen([sys.executable, __file__, "--one", name, setting], stdin=subprocess.PIPE, stdout=self.out,
                                        stderr=self.err, text=True, start_new_session=True)

    def said(self):
        self.out.seek(0)
        return self.out.read().splitlines()

    def is_late(self):
        return time.monotonic() > self.until

    def wait_until_warm(self):
        while self.process.poll() is None and READY not in self.said() and not self.is_late():
            time.sleep(0.2)

    def measured(self):
        """The row, or why there is none."""
        self.wait_until_warm()
        try:
            self.process.communicate("go\n", timeout=max(1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return self.row | {"error": f"no answer within {self.limit:.0f} s"}
        finally:
            self.stop()
        answers = [line for line in self.said() if line.startswith("{")]
        if self.process.returncode == 0 and answers:
            return json.loads(answers[-1])
        self.err.seek(0)
        said = [line.strip() for line in self.err if line.strip()] or [f"status {self.process.returncode}"]
        return self.row | {"error": next((line for line in reversed(said) if "Error" in line), said[-1])[:200]}

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def torch_rows(settings, limit, until):
    for name, setting in settings:
        left = until - time.monotonic()
        late = {"model": name, "setting": setting, "error": "not run: the time is over"}
        yield Peer(name, setting, min(limit, left)).measured() if left > 0 else late


@contextlib.contextmanager
def warm_peers(settings, limit, meanwhile):
    """All of them at once, with a command that runs while they compile."""
    peers = [Peer(name, setting, limit) for name, setting in settings]
    try:
        if meanwhile:
            subprocess.run(meanwhile, shell=True, check=False)
        for peer in peers:
            peer.wait_until_warm()
        yield (peer.measured() for peer in peers)
    finally:
        for peer in peers:
            peer.stop()


def neap_rows(program, names):
    """The rows of gpu_compare.py --rows."""
    for model, limits in gpu_compare.ROWS if program else ():
        name = model[0].split(":")[0]
        for _, _, budget in limits if name in names else ():
            row = {"model": name, "setting": " ".join(["Neap", *budget])}
            try:
                rows, summary = gpu_compare.run_row(program, model, budget)
                row |= {"ms": round(gpu_compare.median_ms(rows), 2), "mib": round(summary["peak_bytes"] / 2**20),
                        "violations": summary["violations"], "weights_hash": summary["weights_hash"]}
            except (SystemExit, Exception) as error:  # the other rows are wanted
                row["error"] = str(error)[-200:]
            yield row


def line_of(row):
    if "error" in row:
        return f"| `{row['model']}` | {row['setting']} | failed: {row['error'].replace('|', '/')} | |"
    return f"| `{row['model']}` | {row['setting']} | {row['ms']:.1f} | {row['mib']} |"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("neap", nargs="?", help="the program; without it PyTorch alone")
    parser.add_argument("--only", choices=SETTINGS, help="one model")
    parser.add_argument("--settings", help="with commas between; of Neap's rows all are run")
    parser.add_argument("--json", metavar="FILE", help="JSON lines, one a row")
    parser.add_argument("--limit", type=float, default=240, help="seconds for each setting")
    parser.add_argument("--deadline", type=float, default=3600, help="seconds for all; what is not run by then is said")
    parser.add_argument("--together", action="store_true", help="all settings compile at once, and are timed one by one")
    parser.add_argument("--meanwhile", metavar="COMMAND", help="with --together: runs while they compile")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "SETTING"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.one:
        print(json.dumps(measure(*options.one)), flush=True)
        return 0
    names = [options.only] if options.only else list(SETTINGS)
    wanted = options.settings.split(",") if options.settings else None
    settings = [(name, s) for name in names for s in SETTINGS[name] if wanted is None or s in wanted]
    until = time.monotonic() + options.deadline
    rows = []
    peers = (warm_peers(settings, min(options.limit, options.deadline), options.meanwhile) if options.together
             else contextlib.nullcontext(torch_rows(settings, options.limit, until)))
    with peers as of_torch, open(options.json or os.devnull, "w", encoding="utf-8") as file:
        for source in (neap_rows(options.neap, names), of_torch):
            for row in source:
                rows.append(row)
                print(line_of(row), file=sys.stderr, flush=True)  # as they come
                print(json.dumps(row), file=file, flush=True)
    print("| model | setting | ms | peak MiB |\n|---|---|---|---|")
    for name in names:
        print("\n".join(line_of(row) for row in rows if row["model"] == name))
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
