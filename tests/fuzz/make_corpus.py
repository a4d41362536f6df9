#!/usr/bin/env python3
"""Writes corpus/: tiny valid and hostile models for the importer's tests and as seeds for its fuzzer. Needs onnx.

  build/onnx-venv/bin/python tests/fuzz/make_corpus.py       the venv is that of `make conformance`

corpus/expected.json says of every file what the one-line error must contain, null where the file must import, and "" where
either will do (check_corpus.py). Rewriting gives the same bytes, so changes show in the diff.
"""
import json
import pathlib

import corpus_files
import corpus_graphs
import corpus_valid

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus"
LIMIT = 200_000  # bytes, all files together


def main():
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    expected = {}
    for cases in (corpus_valid.CASES, corpus_graphs.CASES, corpus_files.CASES):
        for name, (content, fragment) in cases.items():
            if name in expected:
                raise SystemExit(f"two cases have the name {name}")
            (FOLDER / f"{name}.onnx").write_bytes(content if isinstance(content, bytes) else content.SerializeToString(deterministic=True))
            expected[f"{name}.onnx"] = fragment
    corpus_files.write_data(FOLDER)
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    total = sum(f.stat().st_size for f in FOLDER.iterdir())
    print(f"{len(expected)} models, {total} bytes")
    if total > LIMIT:
        raise SystemExit(f"more than {LIMIT} bytes")


if __name__ == "__main__":
    main()
