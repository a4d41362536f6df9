#!/usr/bin/env bash
# Installs the Debian packages that are missing; does nothing when there are none.
# usage: scripts/setup.sh [lint|fuzz|report]      `lint` adds what only `make lint` and `make format` need, `fuzz` what `make fuzz`
# does, `report` what `make test-report` does
set -euo pipefail

# Build and test. Fashion-MNIST and the King James Bible are the data of demo and tests.
packages=(g++ cmake ninja-build ccache pkg-config
          libdnnl-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev liburing-dev libonnx-dev libprotobuf-dev protobuf-compiler
          libjs-chart.js libgtest-dev libbenchmark-dev dataset-fashion-mnist bible-kjv python3 python3-venv)
# clang-tidy 14, Debian's default, does not know std::source_location of g++ 12; 16 does.
lint_packages=(clang-format clang-tidy-16)
fuzz_packages=(libclang-rt-16-dev)  # libFuzzer, which g++ links as well

report_packages=(chromium)

if [ "${1:-}" = report ]; then packages+=("${report_packages[@]}"); fi
if [ "${1:-}" = lint ]; then packages+=("${lint_packages[@]}"); fi
if [ "${1:-}" = fuzz ]; then packages+=("${fuzz_packages[@]}"); fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system, so nothing is installed; needed are: ${packages[*]}" >&2
  exit 0
fi

# dpkg-query fails when it does not know one of the names, and still lists the others.
installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" installed=$package "* ]] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then exit 0; fi

if [ "$(id -u)" = 0 ]; then
  as_root=(env)
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  as_root=(sudo env)
else
  echo "setup: packages are missing and there is neither root nor sudo; as root: apt-get install ${missing[*]}" >&2
  exit 1
fi

apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
echo "setup: installing ${missing[*]}"
"${apt[@]}" update || echo "setup: the package lists could not be updated; going on with those at hand" >&2
if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; then
  echo "setup: could not install; see above, then: apt-get install ${missing[*]}" >&2
  exit 1
fi
