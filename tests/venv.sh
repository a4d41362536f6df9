#!/bin/sh
# Makes a virtual environment with the packages given. Does nothing when it has them already.
# usage: tests/venv.sh FOLDER PACKAGE==VERSION ...
set -eu
folder=$1
shift
stamp=$folder/.ready
if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$*" ]; then exit 0; fi
echo "installing $* into $folder" >&2
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
echo "$*" > "$stamp"
