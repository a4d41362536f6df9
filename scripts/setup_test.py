"""Tests of setup.sh with a made-up system: a PATH that holds only what it calls, most of it replaced."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parent / "setup.sh"


def run_setup(present, uid=0, sudo=None, update_fails=False, arguments=()):
    """Runs setup.sh where `present` says which packages are installed (a shell pattern). Returns (status, output, calls)."""
    with tempfile.TemporaryDirectory() as folder:
        calls = pathlib.Path(folder, "calls")
        calls.write_text("")
        programs = {
            "id": f"echo {uid}",
            # The arguments: -W -f FORMAT PACKAGE…; status 1 where one is unknown, like the real one.
            "dpkg-query": 'shift 3; status=0; for p; do case "$p" in ' + present +
                          ') printf "installed=%s " "$p";; *) status=1;; esac; done; exit $status',
            "apt-get": f'echo "apt-get $*" >> {calls}; case "$*" in *update*) exit {int(update_fails)};; esac',
        }
        if sudo is not None:
            programs["sudo"] = f'[ "$1" = -n ] && exit {sudo}; echo sudo >> {calls}; exec "$@"'
        for name, body in programs.items():
            file = pathlib.Path(folder, name)
            file.write_text(f"#!/bin/sh\n{body}\n")
            file.chmod(0o755)
        for name in ("bash", "env", "sh"):
            os.symlink(shutil.which(name), pathlib.Path(folder, name))
        done = subprocess.run(["bash", str(SETUP), *arguments], env={"PATH": folder}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout, calls.read_text()


class Setup(unittest.TestCase):
    def test_does_nothing_when_all_is_there(self):
        self.assertEqual((0, "", ""), run_setup(present="*"))
        self.assertEqual((0, "", ""), run_setup(present="*", uid=1000))

    def test_root_installs_what_is_missing_and_no_more(self):
        status, _, calls = run_setup(present="[!cg]*|cmake")
        self.assertEqual(0, status)
        self.assertIn(" update\n", calls)
        self.assertIn(" install -y --no-install-recommends g++ ccache\n", calls)
        self.assertNotIn("sudo", calls)

    def test_sudo(self):
        status, _, calls = run_setup(present="[!g]*", uid=1000, sudo=0)
        self.assertEqual(0, status)
        self.assertEqual(2, calls.count("sudo\n"))

    def test_neither_root_nor_sudo_says_what_to_type(self):
        for sudo in (None, 1):
            status, output, calls = run_setup(present="[!g]*", uid=1000, sudo=sudo)
            self.assertEqual(1, status)
            self.assertEqual("", calls)
            self.assertEqual(1, output.count("\n"))
            self.assertTrue(output.endswith("apt-get install g++\n"), output)

    def test_lists_that_cannot_be_updated_are_no_obstacle(self):
        status, _, calls = run_setup(present="[!g]*", update_fails=True)
        self.assertEqual(0, status)
        self.assertIn(" install ", calls)

    def test_lint_adds_its_tools(self):
        self.assertEqual((0, "", ""), run_setup(present="[!c]*|cmake|ccache"))
        _, _, calls = run_setup(present="[!c]*|cmake|ccache", arguments=["lint"])
        self.assertIn("clang-format clang-tidy-16\n", calls)


if __name__ == "__main__":
    unittest.main()
