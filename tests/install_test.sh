#!/bin/sh
# Installs Neap into a temporary folder and builds examples/ against it, as an application would: install_test.sh CMAKE BUILD
# Checks what they print, and that they link nothing that they do not use.
set -eu
cmake=$1
build=$2
source=$(cd "$(dirname "$0")/.." && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

DESTDIR=$temp/stage "$cmake" --install "$build" --prefix /opt/neap >"$temp/log"
prefix=$temp/stage/opt/neap
"$prefix/bin/neap" --version
"$cmake" -S "$source/examples" -B "$temp/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$temp/log" || { cat "$temp/log"; exit 1; }
ninja -C "$temp/build" >"$temp/log" || { cat "$temp/log"; exit 1; }

for program in embed custom_op; do
  echo "== $program"
  "$temp/build/$program"
  libraries=$(ldd "$temp/build/$program" | awk '{print $1}' | tr '\n' ' ')
  echo "links $libraries"
  for library in $libraries; do
    case $library in
      linux-vdso.so.* | /lib*/ld-linux* | libc.so.* | libm.so.* | libgcc_s.so.* | libstdc++.so.* | libgomp.so.* | libfmt.so.*) ;;
      *) echo "$program links $library, which it does not need"; exit 1 ;;
    esac
  done
done
