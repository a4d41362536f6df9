"""Tests of check_demands.py: rows that must pass, and one broken rule each."""
import unittest

import check_demands


def errors(shown):
    tests = check_demands.tests_in(["TEST(Pool, Shares) {}\nTEST_P(PoolProperty, Holds) {}"])
    return list(check_demands.check(f"| A1 | what | code | {shown} |", tests, lambda path: path == "bench/run.py"))


class CheckDemands(unittest.TestCase):
    def test_passes_what_is_there(self):
        for shown in ("`Pool.Shares`", "`Pool.*`", "`Pool`", "`Models/PoolProperty`", "`bench/run.py --only x`", "`Pool.*`; `neap plan`"):
            self.assertEqual(errors(shown), [], shown)

    def test_sees_a_test_that_is_gone(self):
        self.assertEqual(errors("`Pool.Shares`, `Pool.Gone`"), [("A1", "'Pool.Gone' is not there")])
        self.assertEqual(errors("`Pool.*`, `Other.*`"), [("A1", "'Other' is not there")])

    def test_sees_a_file_that_is_gone(self):
        self.assertEqual(errors("`Pool`, `bench/gone.py`"), [("A1", "'bench/gone.py' is not there")])

    def test_sees_a_row_that_shows_nothing(self):
        for shown in ("later", "`neap plan`", ""):
            self.assertEqual(errors(shown), [("A1", "names no test and no benchmark")])


if __name__ == "__main__":
    unittest.main()
