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

echo "== models and data by name"
mkdir "$temp/by_name"
cat >"$temp/by_name/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(by_name LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(neap 0.1 REQUIRED COMPONENTS models)
add_executable(by_name by_name.cc)
target_link_libraries(by_name PRIVATE neap::models)
END
cat >"$temp/by_name/by_name.cc" <<'END'
#include <neap/train.h>
int main() {
  neap::Trainer trainer({.model = "cnn", .data = "synthetic", .steps = 2, .batch = 2});
  trainer.advance();
  return trainer.advance().step == 2 ? 0 : 1;
}
END
"$cmake" -S "$temp/by_name" -B "$temp/by_name/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$temp/log" || { cat "$temp/log"; exit 1; }
ninja -C "$temp/by_name/build" >"$temp/log" || { cat "$temp/log"; exit 1; }
"$temp/by_name/build/by_name"
