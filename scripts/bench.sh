#!/usr/bin/env bash
# Runs the comparisons with peers (bench/run.py), arguments passed on.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -f bench/run.py ]; then
  echo "bench: bench/run.py is missing from this tree" >&2
  exit 1
fi
exec python3 bench/run.py "$@"
