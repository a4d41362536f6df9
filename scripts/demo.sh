#!/usr/bin/env bash
# The main job, small enough to watch: a convolutional network on Fashion-MNIST.
set -euo pipefail
cd "$(dirname "$0")/.."

exec build/neap train cnn --data fashion-mnist --steps 300 --batch 64 "$@"
