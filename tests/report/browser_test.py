#!/usr/bin/env python3
"""The report in a real browser (headless Chromium): drawn without an error and without a network, in light and dark, by
keyboard and for screen readers; whole, unfinished and damaged runs.

usage: tests/report/browser_test.py build/neap [--screenshot FILE.png]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from chromium import Browser

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("neap", type=pathlib.Path)
ARGUMENTS.add_argument("--screenshot", help="writes a picture of the report for the README, and ends")
RUN = ["gpt-mini:layers=4,width=96,heads=4", "--length", "64", "--batch", "8", "--steps", "60", "--budget-schedule",
       "1:60%,30:35%"]
SPILL = ["lstm-lm:hidden=128,vocab=64", "--batch", "16", "--length", "64", "--steps", "6", "--policy", "spill", "--budget", "80%"]
# WCAG 2's contrast of two colours, each as the browser computes it.
CONTRAST = """
(() => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
  const all = [...document.querySelectorAll('h1, h2, p, td, th, dt, dd, a, summary, caption, .tag, .small, button')]
    .filter(e => e.textContent.trim() && e.offsetParent);
  return Math.min(...all.map(e => { const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05); }));
})()"""


def chromium():
    """The browser's path, or an error."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    sys.exit("there is no Chromium; make test-report installs it")


class Report(unittest.TestCase):
    """Each test opens its page afresh."""
    neap = None
    folder = None
    browser = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="neap-report-"))
        train = [cls.neap, "train"]
        subprocess.run([*train, *RUN, "--json", cls.folder / "run.jsonl", "--report", cls.folder / "run.html"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([*train, *SPILL, "--report", cls.folder / "spill.html"], check=True, stdout=subprocess.DEVNULL)
        cls.browser = Browser(chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        shutil.rmtree(cls.folder)

    def open(self, name):
        """The page, drawn, without an error and without the network."""
        self.browser.open(self.folder / name)
        self.assertEqual(self.browser.value("document.documentElement.dataset.ready"), "true")
        self.assertEqual(self.browser.errors, [])
        outside = [u for u in self.browser.requests if not u.startswith(("file:", "data:", "about:"))]
        self.assertEqual(outside, [])
        return self.browser

    def sections(self):
        """Their ids, in order."""
        return self.browser.value("[...document.querySelectorAll('section')].map(s => s.id)")

    def make(self, name, text):
        """A page from a run's lines; returns what the program says."""
        (self.folder / f"{name}.jsonl").write_bytes(text)
        return subprocess.run([self.neap, "report", self.folder / f"{name}.jsonl"], check=False, capture_output=True, text=True)

    def changed(self, name, change):
        """The page of the run with its lines changed as `change` does it to the list of their objects."""
        lines = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        change(lines)
        self.assertEqual(self.make(name, "".join(json.dumps(line) + "\n" for line in lines).encode()).returncode, 0)
        return self.open(f"{name}.html")

    def text(self, selector):
        """All the text of an element."""
        return self.browser.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def test_everything_is_shown_and_drawn(self):
        page = self.open("run.html")
        self.assertEqual(self.sections(), ["memory", "layers", "changes", "loss", "time", "regret", "spill", "summary"])
        drawn = page.value("""[...document.querySelectorAll('canvas')].map(c => {
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(Array.from(d).filter((_, i) => i % 4 === 3)).size; })""")
        self.assertGreaterEqual(len(drawn), 5)
        self.assertTrue(all(n > 1 for n in drawn), f"a canvas is empty: {drawn}")
        kinds = page.value("document.querySelector('#memory table').textContent")
        for kind in ("state", "activations kept", "gradients"):
            self.assertIn(kind, kinds)
        self.assertIn("plan 2", page.value("document.querySelector('#changes').textContent"))
        self.assertIn("budget", page.value("document.querySelector('#changes').textContent"))
        self.assertRegex(page.value("document.querySelector('#regret').textContent"), r"Regret: -?\d(\.\d)? %")
        self.assertRegex(page.value("document.querySelector('#layers table').textContent"), "recompute|every|part")

    def test_the_page_of_a_file_is_the_page_of_the_run(self):
        subprocess.run([self.neap, "report", self.folder / "run.jsonl", "-o", self.folder / "again.html"], check=True,
                       stdout=subprocess.DEVNULL)
        points = "JSON.stringify(JSON.parse(document.getElementById('run').textContent).points)"
        first = self.open("run.html").value(points)
        self.assertEqual(self.open("again.html").value(points), first)

    def test_spill_traffic(self):
        page = self.open("spill.html")
        self.assertIn("altogether", page.value("document.querySelector('#spill').textContent"))
        self.assertEqual(page.value("document.querySelectorAll('#spill canvas').length"), 1)

    def test_light_and_dark(self):
        backgrounds = []
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            page = self.open("run.html")
            self.assertEqual(page.value("document.documentElement.dataset.theme"), scheme)
            self.assertGreaterEqual(page.value(CONTRAST), 4.5, scheme)
            backgrounds.append(page.value("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(*backgrounds)
        self.browser.prefer("light")

    def test_fits_a_narrow_window(self):
        self.browser.open(self.folder / "run.html", width=420)
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), 420)

    def test_by_keyboard(self):
        page = self.open("run.html")
        page.press("Tab")
        self.assertEqual(page.value("document.activeElement.className"), "skip")
        page.press("Tab")
        self.assertEqual(page.value("document.activeElement.id"), "theme")
        page.press("Enter")
        self.assertEqual(page.value("document.documentElement.dataset.theme"), "dark")
        self.assertEqual(page.value("document.activeElement.getAttribute('aria-pressed')"), "true")
        page.value("document.getElementById('which-plan').focus()")
        before = page.value("document.querySelector('#memory canvas').getAttribute('aria-label')")
        page.press("ArrowUp")
        after = page.value("document.querySelector('#memory canvas').getAttribute('aria-label')")
        self.assertNotEqual(before, after)
        self.assertEqual(page.errors, [])
        page.value("document.querySelector('#loss summary').focus()")
        page.press("Enter")
        self.assertTrue(page.value("document.querySelector('#loss details').open"))

    def test_for_screen_readers(self):
        page = self.open("run.html")
        page.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {}
        for node in nodes:
            if not node.get("ignored"):
                roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
        images = roles.get("image", []) + roles.get("img", [])
        self.assertEqual(len(images), page.value("document.querySelectorAll('canvas').length"))
        self.assertTrue(all(len(name) > 20 for name in images), images)
        self.assertGreaterEqual(len(roles.get("table", [])), 6)
        self.assertTrue(all(roles["table"]), "each has a caption")
        self.assertTrue(roles.get("main") and roles.get("navigation") and roles.get("columnheader"))
        self.assertTrue(all(roles["region"]), "each has a name")

    def test_unfinished_and_damaged_runs(self):
        lines = (self.folder / "run.jsonl").read_bytes().splitlines(keepends=True)
        said = self.make("broken", b"".join(lines[:20]) + b"\x00\xffgarbage\n" + lines[20] + lines[21][:70])
        self.assertEqual(said.returncode, 0)
        self.assertIn("could not be read", said.stderr)
        page = self.open("broken.html")
        self.assertIn("did not end", page.value("document.getElementById('problem').textContent"))
        self.assertIn("loss", self.sections())
        bare = b'{"step":1,"loss":1.5}\n{"step":2,"loss":null,"step_ms":"?"}\n{"step":3,"loss":1,"plan":{"layers":5}}\n'
        self.assertEqual(self.make("bare", bare).returncode, 0)
        self.open("bare.html")
        self.assertEqual(self.make("empty", b"").returncode, 2)

    def test_what_is_damaged_takes_nothing_else_with_it(self):
        everything = ["memory", "layers", "changes", "loss", "time", "regret", "spill", "summary"]
        damages = {"layers": {"layers": [None]}, "memory": {"memory": {"at": [0], "kinds": {"a": 5}, "instructions": 1}}}
        for section, damage in damages.items():
            def put(lines, damage=damage):
                for line in lines:
                    if "plan" in line:
                        line["plan"].update(damage)
            page = self.changed(f"damaged-{section}", put)
            self.assertEqual(self.sections(), everything)
            broken = page.value("[...document.querySelectorAll('section .problem')].map(p => p.closest('section').id)")
            self.assertEqual(broken, [section])
            self.assertIn("could not be shown", self.text(f"#{section}"))

            def keep(lines, put=put):
                put(lines)
                lines[-1]["median_step_ms"] = "soon"
            self.changed(f"damaged-{section}-and-head", keep)
            self.assertIn("loss", self.sections())

    def test_nested_values_can_be_read(self):
        def change(lines):
            lines[-1]["recurrent"] = [{"layer": "lstm1", "gear": "hybrid:8"}]
            lines[-1]["tuning"] = {"trials": 3, "rejected": ["winograd", "fuse"],
                                   "subgraphs": [{"subgraph": "a..b", "strategy": "fuse"}]}
            lines[-1]["loops"] = [{"call": "conv1", "factors": ["1", "2"], "ms": [0.25, 0]}]
        self.changed("nested", change)
        text = self.text("#summary")
        self.assertNotIn("[object", text)
        for words in ("hybrid:8", "winograd, fuse", "a..b", "0.25, 0"):
            self.assertIn(words, text)

    def test_the_plan_that_ran_last_is_not_always_the_newest(self):
        def change(lines):
            steps = [line for line in lines if "loss_hex" in line]
            steps[-1]["plan_id"] = 1
        self.changed("back", change)
        self.assertIn("The plan that ran last: plan 1,", self.text("#layers"))
        self.assertEqual(self.browser.value("document.getElementById('which-plan').value"), "0")

        def forget(lines):
            change(lines)
            del lines[0]["plan"]
        self.changed("forgotten", forget)
        self.assertIn("the one that ran last is not among them", self.text("#layers"))

    def test_says_how_much_is_left_out(self):
        def change(lines):
            first = next(line for line in lines if "plan" in line)
            first["plan"]["layers"] = []
            steps = [dict(first, step=i, plan_id=i, note="n") for i in range(1, 601)]
            lines[:-1] = steps + [{"eval": True, "step": i, "loss": 1.0} for i in range(3000)]
        self.changed("many", change)
        self.assertIn("552 of the run's 600 plans are left out", self.text("#memory"))
        self.assertIn("699 later changes are left out", self.text("#changes"))
        self.assertIn("952 later evaluations are left out", self.text("#loss"))

    def test_says_what_the_run_was_not_asked_for(self):
        def change(lines):
            lines[-1].pop("advice", None)
            lines[-1].pop("oracle_step_ms", None)
        self.changed("unasked", change)
        for section in ("#layers", "#regret"):
            self.assertIn("neap train --report", self.text(section))
        self.open("run.html")
        self.assertNotIn("neap train --report", self.text("#layers") + self.text("#regret"))

    def test_bits_depend_on_what_is_rounded(self):
        self.open("run.html")
        self.assertIn("the bits of the result do not", self.text("#changes"))

        def change(lines):
            lines[-1]["policy"] = "int8"
        self.changed("rounded", change)
        self.assertNotIn("do not", self.text("#changes > p"))

    def test_nothing_was_predicted_and_why(self):
        def untimed(lines):
            for line in lines:
                line.pop("predicted_ms", None)
        self.changed("untimed", untimed)
        self.assertIn("ended before its calls were timed", self.text("#time"))

        def fits(lines):
            untimed(lines)
            for line in lines:
                line["budget_bytes"] = None
        self.changed("fits", fits)
        self.assertIn("since everything fits", self.text("#time"))

    def test_names_are_text(self):
        evil = b'{"step":1,"loss":1}\n{"summary":true,"model":"</script><img src=x onerror=document.title=1>","policy":"p"}\n'
        self.assertEqual(self.make("evil", evil).returncode, 0)
        page = self.open("evil.html")
        self.assertIn("<img", page.value("document.getElementById('title').textContent"))
        self.assertEqual(page.value("document.images.length"), 0)


def take_picture(neap, path):
    """A run that changes its budget, as the README shows it."""
    with tempfile.TemporaryDirectory() as folder, Browser(chromium()) as browser:
        page = pathlib.Path(folder, "run.html")
        subprocess.run([neap, "train", *RUN, "--report", page], check=True, stdout=subprocess.DEVNULL)
        browser.open(page, height=1400)
        browser.screenshot(path)


if __name__ == "__main__":
    options = ARGUMENTS.parse_args()
    Report.neap = options.neap.resolve()
    if options.screenshot:
        take_picture(Report.neap, options.screenshot)
    else:
        unittest.main(argv=[sys.argv[0]])
