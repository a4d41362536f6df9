#!/usr/bin/env python3
"""Checks that every CUDA kernel in a library can be launched; prints `object: what`, exits 1 if one cannot.

nvcc 13.0 compiles some __device__ lambdas (those that capture an init-capture or a structured binding of a lambda around
them) without a word into launches of a function that was never registered: "invalid device function" when it runs. A
launch that is right goes through `__cudaLaunchKernel`; an object with a broken one asks for `cudaLaunchKernel` itself.

usage: scripts/check_launches.py LIBRARY.a [--nm PROGRAM]
"""
import argparse
import re
import subprocess
import sys

OBJECT = re.compile(r"^(\S+\.cu\.o(?:bj)?):$")
UNDEFINED = re.compile(r"^\s+U (\w+)(?:@\S+)?$")


def undefined_symbols(nm_output):
    """What each object of a .cu file asks for, by its name; objects of one name are taken together."""
    symbols = {}
    current = None
    for line in nm_output.splitlines():
        if line.endswith(":"):
            found = OBJECT.match(line)
            current = symbols.setdefault(found.group(1), set()) if found else None
        elif current is not None and (found := UNDEFINED.match(line)):
            current.add(found.group(1))
    return symbols


def check(nm_output):
    """What is wrong, as (object, what)."""
    symbols = undefined_symbols(nm_output)
    for name, asked in sorted(symbols.items()):
        if "cudaLaunchKernel" in asked:
            yield name, "launches a kernel that was never registered: make its lambda capture plain variables of a function"
    if not any("__cudaLaunchKernel" in asked for asked in symbols.values()):
        yield "no object", "launches by __cudaLaunchKernel: with this compiler the check says nothing"


def main():
    parser = argparse.ArgumentParser(description="Checks that every CUDA kernel in a library can be launched.")
    parser.add_argument("library")
    parser.add_argument("--nm", default="nm")
    args = parser.parse_args()
    output = subprocess.run([args.nm, "-u", args.library], check=True, capture_output=True, text=True).stdout
    errors = list(check(output))
    for name, what in errors:
        print(f"{name}: {what}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
