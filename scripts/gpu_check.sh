#!/usr/bin/env bash
# All that needs a GPU, in one go: tests of the CUDA kernels and device, then training on the GPU against the CPU.
# usage: scripts/gpu_check.sh [FOLDER]      a folder with `neap` and `test_cuda` built before; without it they are built
#   GPU_CHECK_PARTS="tests sanitizer train parity onnx spill split prune gates tf32 overlap faults levels tuned time peers": which parts; without it all but the sanitizer
#   and the peers, which want PyTorch (PYTHON names an interpreter that has it) and take ten minutes
set -uo pipefail
cd "$(dirname "$0")/.."
parts=${GPU_CHECK_PARTS:-tests train parity onnx spill split prune gates tf32 overlap faults levels tuned time}
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

# Without what subscribes to CUPTI, as the sanitizer does itself, and what asks for speed. In shards, since most of its time is the host's.
run_sanitizer() {
  local shards=${GPU_CHECK_SHARDS:-4} logs shard
  logs=${GPU_CHECK_LOGS:-$(mktemp -d)}
  mkdir -p "$logs"
  for ((shard = 0; shard < shards; shard++)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard compute-sanitizer --tool memcheck --error-exitcode 9 "$folder/test_cuda" \
      --gtest_filter='-*Cupti*:*Overlap*:*RunsNearTheSpeed*' >"$logs/$shard" 2>&1 || echo failed >"$logs/$shard.failed" &
  done
  wait
  grep -hE "ERROR SUMMARY|\[  (PASSED|FAILED)" "$logs"/*
  if compgen -G "$logs/*.failed" >/dev/null; then
    grep -hE -A12 "^========= [A-Z]|Failure" "$logs"/* | head -n 200
    fail "compute-sanitizer"
  fi
  [ -n "${GPU_CHECK_LOGS:-}" ] || rm -rf "$logs"
}

# Losses of 20 steps on GPU and CPU, and two runs on the GPU that must be the same to the bit.
run_training() {
  local model
  for model in mlp cnn resnet20 resnet18 resnet50 gpt-mini bert-mini gpt2 lstm-lm gru-lm; do
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
  [onnx]="imported models on GPU and CPU, twice, and below a budget"
  [spill]="below a budget with spilling, and with activations in fewer bits"
  [split]="parts of a batch that take turns within a step, batch norm over all of them"
  [prune]="weights that are pruned while a run goes on"
  [tf32]="products by TF32"
  [gates]="gates of recurrent layers that backward makes again"
  [overlap]="by CUPTI: spilling runs beside the calls; a trace and a profile show it"
  [faults]="another process has the card's memory"
  [levels]="activations in fewer bits"
  [tuned]="optimizations that are chosen while training runs"
)

run_times() {
  python3 scripts/gpu_compare.py "$folder/neap" --rows || fail "rows"
  python3 scripts/gpu_compare.py "$folder/neap" --times
}

# What the card can do, and PyTorch beside Neap, in the same lease.
run_peers() {
  "${PYTHON:-python3}" bench/gpu_ceilings.py || fail "ceilings"
  "${PYTHON:-python3}" bench/gpu_peers.py "$folder/neap" || fail "peers"
}

for part in $parts; do
  echo "== $part"
  case $part in
    tests) run_tests ;;
    sanitizer) run_sanitizer ;;
    train) run_training ;;
    parity) run_parity ;;
    time) run_times ;;
    peers) run_peers ;;
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
