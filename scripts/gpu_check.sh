#!/usr/bin/env bash
# All that needs a GPU, in one go: tests of the CUDA kernels and device, then training on the GPU against the CPU.
# usage: scripts/gpu_check.sh [FOLDER]      a folder with `neap` and `test_cuda` built before; without it they are built
#   GPU_CHECK_PARTS="tests sanitizer train parity spill split prune gates overlap faults levels time": which parts; without it all but the sanitizer
set -uo pipefail
cd "$(dirname "$0")/.."
parts=${GPU_CHECK_PARTS:-tests train parity spill split prune gates overlap faults levels time}
folder=${1:-}
failed=0

if ! nvidia-smi -L; then
  echo "there is no GPU that works on this machine" >&2
  exit 1
fi
if [ -z "$folder" ]; then
  folder=build
  cmake -S . -B "$folder" -G Ninja --log-level=NOTICE -DNEAP_CUDA=ON || exit 1
  ninja -C "$folder" neap test_cuda || exit 1
fi

fail() {
  echo "FAILED: $*"
  failed=1
}

run_tests() {
  "$folder/test_cuda" --gtest_brief=1 || fail "test_cuda"
}

# Without what subscribes to CUPTI, as the sanitizer does itself, and what asks for speed.
run_sanitizer() {
  compute-sanitizer --tool memcheck --error-exitcode 9 "$folder/test_cuda" --gtest_brief=1 --gtest_filter='-*Cupti*:*Overlap*:*RunsNearTheSpeed*' || fail "compute-sanitizer"
}

# Losses of 20 steps on GPU and CPU, and two runs on the GPU that must be the same to the bit.
run_training() {
  local model
  for model in mlp cnn resnet18 resnet50 gpt-mini bert-mini gpt2 lstm-lm gru-lm; do
    python3 scripts/gpu_compare.py "$folder/neap" "$model" || fail "$model"
  done
}

# Losses against those of PyTorch that the tests keep.
run_parity() {
  local golden
  for golden in tests/parity/golden/*.json; do
    python3 tests/parity/compare.py "$golden" --run "$folder/neap" --device cuda || fail "$golden"
  done
}

# What each part of gpu_compare.py shows.
declare -A compared=(
  [spill]="below a budget with spilling, and with activations in fewer bits"
  [split]="parts of a batch that take turns within a step, batch norm over all of them"
  [prune]="weights that are pruned while a run goes on"
  [gates]="gates of recurrent layers that backward makes again"
  [overlap]="by CUPTI: spilling runs beside the calls; a trace and a profile show it"
  [faults]="another process has the card's memory"
  [levels]="activations in fewer bits"
)

run_times() {
  python3 scripts/gpu_compare.py "$folder/neap" --rows || fail "rows"
  python3 scripts/gpu_compare.py "$folder/neap" --times
}

for part in $parts; do
  echo "== $part"
  case $part in
    tests) run_tests ;;
    sanitizer) run_sanitizer ;;
    train) run_training ;;
    parity) run_parity ;;
    time) run_times ;;
    *)
      if [ -z "${compared[$part]:-}" ]; then
        fail "there is no part '$part'"
        continue
      fi
      python3 scripts/gpu_compare.py "$folder/neap" "--$part" || fail "$part: ${compared[$part]}"
      ;;
  esac
done
exit $failed
