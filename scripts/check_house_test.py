"""Tests of check_house.py: small trees that must pass, and one broken rule each."""
import pathlib
import tempfile
import unittest

import check_house


def findings(files):
    """What check_house says of a tree given as {path: text}, without the line numbers."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return [(path, what) for path, _, what in check_house.check(root, files)]


class Order(unittest.TestCase):
    def test_a_folder_includes_itself_the_folders_above_and_the_public_api(self):
        self.assertEqual([], findings({
            "src/ops/softmax/softmax.cc": '#include "softmax.h"\n#include "ops/op.h"\n#include "graph/graph.h"\n'
                                          '#include "neap/shape.h"\n#include <vector>\n',
            "src/ops/softmax/softmax.h": "#pragma once\n"}))

    def test_not_a_folder_below(self):
        [(path, what)] = findings({"src/graph/graph.cc": '#include "ops/op.h"\n'})
        self.assertEqual("src/graph/graph.cc", path)
        self.assertIn("ops/ stands below graph/", what)

    def test_not_a_folder_below_by_a_relative_path(self):
        self.assertEqual(1, len(findings({"src/graph/graph.cc": '#include "../ops/op.h"\n', "src/ops/op.h": "\n"})))

    def test_nothing_outside(self):
        self.assertEqual(1, len(findings({"src/graph/graph.cc": '#include "tests/harness.h"\n'})))
        self.assertEqual(1, len(findings({"src/graph/graph.cc": '#include "dnnl.hpp"\n'})))

    def test_tests_include_anything(self):
        self.assertEqual([], findings({"src/graph/graph_test.cc": '#include "train/loop.h"\n'}))

    def test_a_folder_without_a_place(self):
        self.assertEqual(1, len(findings({"src/misc/a.cc": "\n"})))

    def test_models_and_the_api_include_the_api_only(self):
        self.assertEqual([], findings({"models/cnn.cc": '#include "neap/model.h"\n#include "blocks.h"\n',
                                       "models/blocks.h": '#include "neap/model.h"\n',
                                       "include/neap/model.h": '#include "neap/shape.h"\n'}))
        self.assertEqual(1, len(findings({"models/cnn.cc": '#include "core/id.h"\n'})))
        self.assertEqual(1, len(findings({"include/neap/model.h": '#include "core/id.h"\n'})))

    def test_readme_has_every_folder_in_order(self):
        tree = {"src/core/a.cc": "\n", "src/graph/a.cc": "\n"}
        self.assertEqual([], findings({**tree, "src/README.md": "## `core/`\nIds.\n\n## `graph/`\nUses core/.\n"}))
        self.assertEqual(1, len(findings({**tree, "src/README.md": "## `graph/`\nA.\n\n## `core/`\nB.\n"})))
        self.assertEqual(1, len(findings({**tree, "src/README.md": "## `core/`\nIds.\n"})))


class Lines(unittest.TestCase):
    def test_length(self):
        self.assertEqual([], findings({"src/core/a.cc": "\n" * 600}))
        self.assertEqual([("src/core/a.cc", "longer than 600 lines")], findings({"src/core/a.cc": "\n" * 601}))
        self.assertEqual([], findings({"docs/a.md": "\n" * 601}))

    def test_marks(self):
        for mark in ("// TO" "DO: x", "# FIX" "ME", "TEST(A, DISABLED" "_B) {}", "GTEST_" "SKIP() << 1;"):
            self.assertEqual(1, len(findings({"src/core/a_test.cc": mark + "\n"})), mark)
        self.assertEqual([], findings({"src/core/a.cc": "int disabled_units;\n"}))

    def test_blanks(self):
        self.assertEqual([("a.py", "tab")], findings({"a.py": "\tpass\n"}))
        self.assertEqual([], findings({"Makefile": "all:\n\ttrue\n"}))
        self.assertEqual([("docs/a.md", "blanks at the end of the line")], findings({"docs/a.md": "a \n"}))
        self.assertEqual([("a.sh", "no newline at the end")], findings({"a.sh": "true"}))

    def test_other_files_are_left_alone(self):
        self.assertEqual([], findings({"tests/golden/a.bin": "TO" "DO\t "}))


if __name__ == "__main__":
    unittest.main()
