#!/usr/bin/env python3
"""Which cells of bench/joint.py are above the bars, on rows that are made up: no program runs."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import joint


def rows_of(ratios, numbers=joint.EXACT):
    base = {name: 2.0 for name in joint.names_of(numbers)}
    return [{"model": "gpt-mini", "budget": "50%", "numbers": numbers, "policy": name, "feasible": ratio is not None, "violations": 0,
             "budget_bytes": 1 << 20, "same_weights": True, "ratio_to_store_all": ratio} for name, ratio in {**base, **ratios}.items()]


class Bars(unittest.TestCase):
    def test_cells_within_the_bars_are_not_named(self):
        self.assertEqual(list(joint.misses(rows_of({"adaptive": 1.03, "oracle": 1.0, "sqrt": 1.0}), 0.04)), [])
        self.assertEqual(list(joint.misses(rows_of({"adaptive": 2.0, "oracle": 2.0}), 0.0)), [])

    def test_each_bar_is_named(self):
        slower = list(joint.misses(rows_of({"adaptive": 1.10, "oracle": 1.10, "dtr": 1.0}), 0.03))
        self.assertEqual(slower, ["gpt-mini 50% exact: best other 1.100, at most 1.03"])
        regret = list(joint.misses(rows_of({"adaptive": 1.10, "oracle": 1.0}, joint.ROUNDED), 0.03))
        self.assertEqual(regret, ["gpt-mini 50% tolerance: regret 1.100, at most 1.03"])
        both = list(joint.misses(rows_of({"adaptive": 1.10, "oracle": 1.0, "no spill": 1.0}), 0.03))
        self.assertEqual(both, ["gpt-mini 50% exact: best other 1.100, at most 1.03; regret 1.100, at most 1.03"])

    def test_what_does_not_fit_is_no_other(self):
        alone = {name: None for name in joint.names_of(joint.EXACT)} | {"adaptive": 3.0, "oracle": 3.0}
        self.assertEqual(list(joint.misses(rows_of(alone), 0.03)), [])
        self.assertIn("| alone |", joint.table(rows_of(alone), joint.EXACT))

    def test_strict_makes_them_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.jsonl"
            path.write_text("".join(joint.json.dumps(r) + "\n" for r in rows_of({"adaptive": 1.10, "oracle": 1.10, "dtr": 1.0})))
            call = [sys.executable, "-B", "joint.py", "--only", "gpt-mini", "--budgets", "50%", "--numbers", "exact", "--rows", str(path)]
            for more, status in (([], 0), (["--strict"], 1), (["--strict", "--noise", "0.2"], 0)):
                done = subprocess.run([*call, *more], capture_output=True, text=True)
                self.assertEqual(done.returncode, status, f"{more}\n{done.stderr}")
                self.assertEqual("above the bar: gpt-mini 50% exact" in done.stdout, "--noise" not in more)


if __name__ == "__main__":
    unittest.main()
