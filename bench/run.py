#!/usr/bin/env python3
"""Neap and PyTorch side by side on the CPU: whole training steps with AdamW, f32, 2 threads. Standard library only.

  bench/run.py                                    table on stdout, and its section in bench/RESULTS.md
  bench/run.py --only gpt-mini                    one model; stdout only
  bench/run.py --peer-only                        PyTorch alone; stdout only

Time: short runs, interleaved (Neap, PyTorch, PyTorch tuned, Neap, ...), each in a process of its own; the median of all timed
steps, and the ratio with its range over rounds. A run is repeated when the FMA peak measured just before or after it shows that
something else had the cores. PyTorch runs eager with fused AdamW, its fastest; "tuned" also keeps
glibc from giving memory back to the system between steps, which would be paid for in page faults. Memory: Neap's peak_bytes less state_bytes; PyTorch's peak of live heap bytes (a preloaded malloc
counter) less state and less what its libraries keep between steps. State is weights, buffers and Adam's moments on both sides.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
VENV = BENCH / ".venv" / "bin" / "python"
THREADS = 2
MARKS = ("<!-- run.py begins -->", "<!-- run.py ends -->")
MIB = 2**20
PLAIN, CHANNELS_LAST, TUNED = "torch", "torch channels-last", ", tuned"


@dataclasses.dataclass
class Work:
    model: str
    batch: int
    steps: int  # timed ones, a round
    gflop: float  # forward and backward of one step
    flags: list
    time_target: dict  # by layout of PyTorch: Neap's step over its step, at most
    memory_target: float

    @property
    def variants(self):
        return [f"{layout}{tuned}" for layout in self.time_target for tuned in ("", TUNED)]

    @property
    def title(self):
        return " ".join([self.model, f"batch {self.batch}", *self.flags]).replace("--", "")


def gpt_gflop(batch, t=256, d=384, layers=6, vocab=256):
    per_token = layers * (12 * d * d + t * d) + d * vocab  # multiply-adds; causal attention: half of 2*t*d
    return 3 * 2 * batch * t * per_token * 1e-9


def lstm_gflop(batch, t, hidden=512, layers=2, vocab=256):
    return 3 * 2 * batch * t * (layers * 4 * hidden * 2 * hidden + hidden * vocab) * 1e-9


def resnet18_gflop(batch, image):
    size, cin = image, 64
    forward = image * image * 9 * 3 * 64
    stem = forward
    for width in (64, 128, 256, 512):
        if width != cin:
            size //= 2
        forward += size * size * 9 * width * (cin + 3 * width)
        forward += size * size * cin * width if width != cin else 0
        cin = width
    return 2 * batch * (3 * forward - stem + 3 * 512 * 10) * 1e-9  # the stem has no data gradient


WORK = [
    Work("gpt-mini", 8, 6, gpt_gflop(8), [], {PLAIN: 0.85}, 0.75),
    Work("lstm-lm", 32, 6, lstm_gflop(32, 128), ["--length", "128"], {PLAIN: 1.0}, 0.5),
    Work("resnet18", 32, 3, resnet18_gflop(32, 64), ["--image", "64"], {PLAIN: 0.85, CHANNELS_LAST: 0.95}, 0.8),
]


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": str(THREADS), **more}


def call(command, env):
    done = subprocess.run([str(c) for c in command], env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"exit status {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def parse(output):
    """Step times and the summary of a JSON-lines run."""
    rows = [json.loads(line) for line in output.splitlines() if line.strip()]
    summary = next((r for r in rows if r.get("summary")), {})
    return [r["step_ms"] for r in rows if not r.get("summary")], summary


def layout_of(variant):
    return variant.removesuffix(TUNED)


def layout_flags(variant):
    return ["--channels-last"] if layout_of(variant) == CHANNELS_LAST else []


class Bench:
    def __init__(self, neap, python, build):
        self.neap, self.python, self.build = neap, python, build
        self.peak, self.disturbed = 0.0, 0  # highest FMA peak seen; runs that count although the cores were not ours alone
        build.mkdir(parents=True, exist_ok=True)
        self.compile("fma_peak.c", "fma_peak", "-O3", "-march=native", "-fopenmp")
        self.compile("peers/malloc_peak.c", "malloc_peak.so", "-O2", "-shared", "-fPIC")
        for _ in range(5):
            self.quiet()

    def compile(self, source, target, *flags):
        call(["gcc", *flags, BENCH / source, "-o", self.build / target], os.environ)

    def torch(self, work, *flags, env):
        command = [self.python, BENCH / "peers" / "torch_step.py", work.model, "--batch", work.batch, *work.flags]
        return parse(call([*command, "--threads", THREADS, "--json", *flags], env))

    def torch_steps(self, work, variant):
        env = environment()
        if variant.endswith(TUNED):  # 32 MiB is the largest threshold that glibc takes
            env.update(MALLOC_MMAP_THRESHOLD_=str(32 * MIB), MALLOC_TRIM_THRESHOLD_=str(2**36))
        return self.torch(work, "--steps", work.steps, "--warmup", 2, *layout_flags(variant), env=env)[0]

    def torch_memory(self, work, layout):
        env = environment(LD_PRELOAD=str(self.build / "malloc_peak.so"))
        return self.torch(work, "--steps", 2, "--warmup", 2, "--memory", *layout_flags(layout), env=env)[1]

    def neap_steps(self, work):
        """Two steps of warm-up as well; memory comes with the summary."""
        command = [self.neap, "train", work.model, "--batch", work.batch, "--steps", work.steps + 2, *work.flags]
        ms, summary = parse(call([*command, "--optimizer", "adamw", "--threads", THREADS, "--json", "-"], environment()))
        return ms[2:], summary

    def quiet(self):
        """Whether the cores are ours alone now."""
        now = float(call([self.build / "fma_peak"], environment()))
        self.peak = max(self.peak, now)
        return now > 0.9 * self.peak

    def undisturbed(self, run, *args):
        """run(*args), again if the machine was busy before or after, at most five times."""
        for _ in range(5):
            before = self.quiet()
            result = run(*args)
            if self.quiet() and before:
                return result
        self.disturbed += 1
        return result

    def library_peak(self):
        return float(call([self.python, BENCH / "peers" / "torch_mm.py"], environment()))


def measure(bench, work, rounds):
    """{variant: [step times of each round]} and {layout: summary with memory}."""
    times = {v: [] for v in (["neap"] if bench.neap else []) + work.variants}
    memory = {}
    for _ in range(rounds):
        if bench.neap:
            ms, memory["neap"] = bench.undisturbed(bench.neap_steps, work)
            times["neap"].append(ms)
        for v in work.variants:
            times[v].append(bench.undisturbed(bench.torch_steps, work, v))
    for layout in work.time_target:
        memory[layout] = bench.torch_memory(work, layout)
    return times, memory


def above_state(variant, memory):
    """MiB of the peak above state."""
    m = memory[layout_of(variant)]
    return (m["peak_bytes"] - m["state_bytes"] if variant == "neap" else m["peak_above_state_bytes"]) / MIB


def ratio_text(times, variant):
    """Neap's median over the variant's, with the range over rounds."""
    median = statistics.median
    whole = median(sum(times["neap"], [])) / median(sum(times[variant], []))
    each = [median(a) / median(b) for a, b in zip(times["neap"], times[variant])]
    return f"{whole:.2f} ({min(each):.2f}–{max(each):.2f})"


def rows(work, times, memory, peak):
    for variant, rounds in times.items():
        ms = statistics.median(sum(rounds, []))
        cells = [work.title, variant, f"{ms:.0f}", f"{100 * work.gflop / ms * 1e3 / peak:.0f} %", f"{above_state(variant, memory):.1f}"]
        if variant == "neap":
            cells += [""] * 4
        elif "neap" in times:
            time_aim, share = work.time_target[layout_of(variant)], above_state("neap", memory) / above_state(variant, memory)
            cells += [ratio_text(times, variant), f"≤ {time_aim:.2f}", f"{share:.2f}", f"≤ {work.memory_target:.2f}"]
        else:
            time_aim = work.time_target[layout_of(variant)] * ms
            cells += ["", f"≤ {time_aim:.0f} ms", "", f"≤ {work.memory_target * above_state(variant, memory):.0f} MiB"]
        yield cells


def table(cells):
    head = ["work", "who", "step ms", "of FMA peak", "MiB above state", "Neap's time / this", "aim", "Neap's memory / this", "aim"]
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rss_lines(results):
    for work, _, memory in results:
        if n := memory.get("neap"):
            beside = (n["rss_peak_bytes"] - n["peak_bytes"]) / MIB
            yield f"- {work.model}: process RSS {n['rss_peak_bytes'] / MIB:.0f} MiB, {beside:.0f} MiB beside the arena's {n['peak_bytes'] / MIB:.0f}."


def instruction_sets():
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown instruction set"
    return "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"


def report(results, peaks, command, rounds):
    fma, library = peaks
    version = next(m["torch"] for _, _, memory in results for v, m in memory.items() if v != "neap").split("+")[0]
    text = [
        "## Whole training steps on the CPU, Neap and PyTorch",
        "",
        f"`{command}` on {os.cpu_count()} cores with {instruction_sets()}; {THREADS} threads, f32, AdamW, PyTorch {version} eager, fused AdamW; tuned: glibc keeps its memory.",
        f"Medians of {rounds} interleaved rounds, ratios with their range over rounds. FMA peak {fma:.0f} GFLOP/s; `torch.mm` at 2048³ {library:.0f}.",
        "Memory is the peak of a step above weights, buffers and Adam's moments; gradients and inputs are in it.",
        "",
        table([cells for work, times, memory in results for cells in rows(work, times, memory, fma)]),
    ]
    rss = list(rss_lines(results))
    return "\n".join(text + ([""] + rss if rss else []))


def write_section(path, text, marks=MARKS):
    """Puts the text between the marks in the file; the rest of the file stays."""
    old = path.read_text() if path.exists() else "# Results\n"
    section = f"{marks[0]}\n{text}\n{marks[1]}"
    if marks[0] in old:
        head, rest = old.split(marks[0], 1)
        new = head + section + rest.split(marks[1], 1)[1]
    else:
        new = old.rstrip("\n") + f"\n\n{section}\n"
    path.write_text(new)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--neap", type=pathlib.Path, default=ROOT / "build" / "neap")
    p.add_argument("--python", type=pathlib.Path, default=VENV, help="one with torch; by default that of bench/setup_venv.sh")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "bench", help="where the C helpers go")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", help=f"comma-separated, of {', '.join(w.model for w in WORK)}")
    p.add_argument("--peer-only", action="store_true")
    p.add_argument("--no-write", action="store_true", help="leave bench/RESULTS.md alone; so do --only and --peer-only")
    a = p.parse_args()
    names = a.only.split(",") if a.only else [w.model for w in WORK]
    if bad := [n for n in names if n not in [w.model for w in WORK]]:
        p.error(f"unknown model {bad[0]}")
    if not a.peer_only and not a.neap.exists():
        p.error(f"{a.neap} is missing: run make build, or give --peer-only")
    if a.python == VENV:
        call([BENCH / "setup_venv.sh"], os.environ)
    elif not a.python.exists():
        p.error(f"--python {a.python} does not exist")

    bench = Bench(None if a.peer_only else a.neap, a.python, a.build)
    results = []
    for work in WORK:
        if work.model in names:
            print(f"{work.title} ...", file=sys.stderr, flush=True)
            results.append((work, *measure(bench, work, a.rounds)))
    if bench.disturbed:
        print(f"the machine was busy: {bench.disturbed} runs were disturbed in spite of repetition; run again", file=sys.stderr)
    peaks = bench.peak, bench.library_peak()
    text = report(results, peaks, " ".join(["bench/run.py", *sys.argv[1:]]), a.rounds)
    print(text)
    if not (a.no_write or a.peer_only or a.only):
        write_section(BENCH / "RESULTS.md", text)


if __name__ == "__main__":
    main()
