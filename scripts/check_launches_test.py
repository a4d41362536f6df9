"""Tests of check_launches.py on what nm says of good and of broken objects."""
import unittest

import check_launches

GOOD = "\na_cuda.cu.o:\n                 U __cudaLaunchKernel\n                 U cudaLaunchKernelExC\n"
BROKEN = "\nb_cuda.cu.o:\n                 U __cudaLaunchKernel\n                 U cudaLaunchKernel@libcudart.so.13\n"
HOST = "\nc_cuda.cc.o:\n                 U cudaLaunchKernel\n"


def found(text):
    return [name for name, _ in check_launches.check(text)]


class CheckLaunches(unittest.TestCase):
    def test_passes_what_launches(self):
        self.assertEqual(found(GOOD), [])
        self.assertEqual(found(HOST + GOOD), [])
        self.assertEqual(found(GOOD + HOST), [])

    def test_sees_a_broken_launch(self):
        self.assertEqual(found(GOOD + BROKEN), ["b_cuda.cu.o"])
        self.assertEqual(found(BROKEN + HOST), ["b_cuda.cu.o"])
        self.assertEqual(found(BROKEN.replace("@libcudart.so.13", "")), ["b_cuda.cu.o"])

    def test_says_when_it_sees_nothing(self):
        self.assertEqual(found(HOST), ["no object"])
        self.assertEqual(found(""), ["no object"])


if __name__ == "__main__":
    unittest.main()
