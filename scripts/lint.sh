#!/usr/bin/env bash
# Form, house rules, and what clang-tidy finds. Needs build/compile_commands.json; `make lint` sees to that.
# usage: scripts/lint.sh [--all]      --all: clang-tidy on every source, not only on what changed
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files -co --exclude-standard '*.cc' '*.h' '*.cu' '*.cuh' | xargs -r clang-format --dry-run -Werror
python3 scripts/check_house.py
python3 scripts/check_demands.py
python3 scripts/tidy.py "$@"
