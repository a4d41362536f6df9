#!/bin/sh
# Makes bench/.venv with the PyTorch that Neap is compared with. Does nothing the second time.
set -eu
cd "$(dirname "$0")"
version=2.13.0
stamp=.venv/.ready-torch-$version
[ -e "$stamp" ] && exit 0
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check "torch==$version" numpy
.venv/bin/python -c "import numpy, torch; assert torch.__version__.startswith('$version')"
touch "$stamp"
