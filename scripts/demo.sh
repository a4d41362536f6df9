#!/usr/bin/env bash
# The main job, small enough to watch: a convolutional network on Fashion-MNIST to 90 % and beyond, planned into one arena.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== The plan: where the bytes of a step go"
build/neap plan cnn --batch 64
echo
echo "== Training on Fashion-MNIST, two epochs"
exec build/neap train cnn --data fashion-mnist --batch 64 --steps 1876 --schedule cosine --eval test "$@"
