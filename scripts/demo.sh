#!/usr/bin/env bash
# What Neap is for, small enough to watch: the same network trained twice on real data, once with everything stored, once in a
# quarter of the memory that its activations take. The weights come out the same to the bit. Ends within 3 minutes.
# usage: scripts/demo.sh [STEPS]
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-60}
out=build/demo
mkdir -p "$out"

text=$out/bible.txt
[ -s "$text" ] || bible gen1:1-rev22:21 > "$text"
run=(build/neap train gpt-mini:layers=6,width=128,heads=4 --data "$text" --length 128 --batch 16 --steps "$steps" --validation 0.01)

echo "== A small GPT on the King James Bible, $steps steps, everything stored"
"${run[@]}" --policy store-all --json "$out/store-all.jsonl"
echo
echo "== The same in 25 % of its activation memory"
"${run[@]}" --budget 25% --json "$out/quarter.jsonl" --report "$out/report.html"
echo
python3 - "$out/store-all.jsonl" "$out/quarter.jsonl" "$PWD/$out/report.html" <<'PY'
import json
import sys

def read(path):
    """The last evaluation and the summary."""
    lines = [json.loads(line) for line in open(path)]
    return [line for line in lines if line.get("eval")][-1], lines[-1]

MIB = 1 << 20
runs = [("store-all", *read(sys.argv[1])), ("25 %", *read(sys.argv[2]))]
base = runs[0][2]
print(f"{'':<10} {'peak':>11} {'above state':>13} {'step':>10} {'next byte right':>16}  weights")
for name, evaluation, s in runs:
    print(f"{name:<10} {s['peak_bytes'] / MIB:>7.1f} MiB {(s['peak_bytes'] - s['state_bytes']) / MIB:>9.1f} MiB "
          f"{s['median_step_ms']:>7.1f} ms {100 * evaluation['accuracy']:>14.2f} %  {s['weights_hash']}")
low = runs[1][2]
same = low["weights_hash"] == base["weights_hash"]
beyond = (low["peak_bytes"] - low["state_bytes"]) / (base["peak_bytes"] - base["state_bytes"])
print(f"\n{100 * beyond:.0f} % of the activation memory, {low['median_step_ms'] / base['median_step_ms']:.2f} times the time, "
      + ("the same weights to the bit." if same else "OTHER WEIGHTS."))
print(f"What happened to each layer, and why: {sys.argv[3]}")
sys.exit(0 if same and low["violations"] == 0 else 1)
PY
