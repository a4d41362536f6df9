#!/usr/bin/env bash
# Fuzzes the importer, from the corpus and from what earlier runs found worth keeping (build-asan/fuzz).
# usage: tests/fuzz/run.sh PROGRAM SECONDS [ARGUMENT-OF-LIBFUZZER...]
# The seed is fixed, so that a run can be repeated; another one: FUZZ_SEED=0 (drawn) or a number.
# Exit status 1 on a finding; its file is named in the output, and `PROGRAM FILE` shows it again.
set -euo pipefail
program=$1
seconds=$2
shift 2
corpus=$(cd "$(dirname "$0")" && pwd)/corpus
work=$(dirname "$program")/fuzz
mkdir -p "$work/kept" "$work/findings"
log=$work/log
# One thread: what an import computes is small. 2 GiB: the sanitizers triple what a model takes.
if OMP_NUM_THREADS=1 "$program" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
     -timeout=20 -print_final_stats=1 -artifact_prefix="$work/findings/" "$@" "$work/kept" "$corpus" > "$log" 2>&1; then
  grep -E '^(stat::number_of_executed_units|stat::peak_rss_mb)|^Done' "$log"
else
  grep -vE '^#[0-9]+\s+(NEW|REDUCE|RELOAD|pulse)' "$log" | tail -60
  echo "fuzz: a finding, see above"
  exit 1
fi
