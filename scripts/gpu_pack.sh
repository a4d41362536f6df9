#!/usr/bin/env bash
# Packs what a machine with a GPU needs to run what was built here into one archive: the programs, stripped, and the libraries beside
# them that such a machine may lack. There, with the archive unpacked in FOLDER:
#   LD_LIBRARY_PATH=FOLDER:CUDA's folders scripts/gpu_check.sh FOLDER
# usage: scripts/gpu_pack.sh [FROM [TO]]      build, build-gpu/programs.tar.xz
set -euo pipefail
cd "$(dirname "$0")/.."
from=${1:-build}
to=${2:-build-gpu/programs.tar.xz}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for program in neap test_cuda; do
  strip -o "$folder/$program" "$from/$program"
  chmod +x "$folder/$program"
done
# CUDA's own are where the driver is; the C and C++ libraries are every system's, and newer ones are needed by others there.
ldd "$folder"/neap "$folder"/test_cuda | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  { grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|libz|libgcc_s|libstdc\+\+|libgomp|ld-linux[^/]*)\.so|libcuda|libcudart|libcublas|libcudnn|libnvrtc|libcupti' || true; } |
  xargs -r cp -Lt "$folder"
mkdir -p "$(dirname "$to")"
tar -C "$folder" -c . | xz -T0 -3 >"$to"
ls -l "$to"
