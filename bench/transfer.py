#!/usr/bin/env python3
"""From one architecture to another: what an agent learnt on resnet20 (alone) or resnet18 (whole training) starts it on resnet50. Standard library only.

  bench/transfer.py                     table: a section of bench/RESULTS.md

Above: the agent alone on the layers of resnet50, without the exact plan's lessons and without episodes of its own (the figures that the
test Transfer.TheAgentAloneStartsNoWorseThanUntaught prints). Below: whole training, taught and untaught in turn in one process.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

import run

MARKS = ("<!-- transfer.py begins -->", "<!-- transfer.py ends -->")
FROM = ["resnet18", "--batch", "4", "--image", "64", "--budget", "50%"]
TO = ["resnet50", "--batch", "8", "--image", "64", "--budget", "min+5%"]
STEPS, SETTLED = 24, 8


def alone(test):
    """Rows (share, untaught, taught, exact) in milliseconds that recomputation adds."""
    out = run.call([test, "--gtest_filter=Transfer.TheAgentAlone*"], run.environment())
    return re.findall(r"resnet50 at (\d+) %: added ([\d.]+) ms untaught, ([\d.]+) ms taught on resnet20, ([\d.]+) ms exact", out)


def trained(neap, race, folder):
    """Step time taught / untaught: of the first steps and of the settled ones; and whether the weights are equal."""
    learnt = pathlib.Path(folder) / "learnt"
    run.call([neap, "train", *FROM, "--steps", "8", "--save-learnt", learnt, "--json", "/dev/null"], run.environment())
    words = ["1", STEPS, *TO, "--learnt", learnt, "--vs", "1", STEPS, *TO]
    done = subprocess.run([str(w) for w in (race, STEPS, *words)], stdout=subprocess.PIPE, text=True, check=True,
                          env=run.environment(GOMP_SPINCOUNT="2000"))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    ms = {(r["entrant"], r["round"]): r["step_ms"] for r in rows if not r.get("summary")}
    ratios = [ms[0, i] / ms[1, i] for i in range(1, STEPS + 1)]
    hashes = {r["weights_hash"] for r in rows if r.get("summary")}
    return statistics.median(ratios[:SETTLED]), statistics.median(ratios[SETTLED:]), len(hashes) == 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=run.ROOT / "build")
    a = p.parse_args()
    lines = ["| resnet50 | added by recomputation: untaught | taught on resnet20 | exact |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {share} % | {a_} ms | {b} ms | {c} ms |" for share, a_, b, c in alone(a.build / "test_long")]
    with tempfile.TemporaryDirectory() as folder:
        first, settled, equal = trained(a.build / "neap", a.build / "bench" / "race", folder)
    text = ("## From one architecture to another\n\n`bench/transfer.py`: the agent alone, without lessons of the exact plan, on the layers of resnet50 with guessed "
            "times;\na share below the minimum counts as the minimum plus 5 %.\n\n" + "\n".join(lines) +
            f"\n\nWhole training ({' '.join(TO).replace('--', '')}), where the exact plan stands beside the agent: taught / untaught "
            f"{first:.3f} over the first {SETTLED} steps, {settled:.3f} from then on\nto step {STEPS}; "
            f"the weights are {'equal' if equal else 'NOT equal'} to the last bit.")
    print(text)
    run.write_section(run.BENCH / "RESULTS.md", text, MARKS)


if __name__ == "__main__":
    main()
