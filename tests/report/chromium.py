"""Drives a headless Chromium over its debugging pipe: standard library only."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile

PATIENCE_S = 120


class Browser:
    """One page. Everything that it asks the network for, and every error of its scripts, is noted."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="neap-chromium-")
        # Chromium reads commands from its file 3 and writes to its file 4, each message ended by a zero byte.
        to_browser, self.to = os.pipe()
        self.out, from_browser = os.pipe()

        def place():
            keep_in, keep_out = os.dup(to_browser), os.dup(from_browser)
            os.dup2(keep_in, 3)
            os.dup2(keep_out, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen([program, *flags], preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number = 0
        self.buffer = b""
        self.session = None
        self.errors = []
        self.requests = []
        self.is_loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser and removes its profile."""
        os.close(self.to)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self):
        while b"\0" not in self.buffer:
            if not select.select([self.out], [], [], PATIENCE_S)[0]:
                raise RuntimeError("Chromium is silent")
            chunk = os.read(self.out, 1 << 16)
            if not chunk:
                raise RuntimeError("Chromium has ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        params = message.get("params", {})
        self.is_loaded |= message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message

    def call(self, method, **params):
        """Sends a command and waits for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, width=1200, height=900):
        """Loads a file and waits until its script has finished."""
        self.errors.clear()
        self.requests.clear()
        self.is_loaded = False
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not self.is_loaded:
            self._read()

    def value(self, script):
        """What an expression in the page comes to."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", script))
        return result["result"].get("value")

    def press(self, key, code=None):
        """A key, as a person presses it."""
        keys = {"Tab": 9, "Enter": 13, " ": 32, "ArrowUp": 38}
        text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                      windowsVirtualKeyCode=keys.get(key, 0), **(text if kind == "keyDown" else {}))

    def prefer(self, scheme):
        """light or dark, as the system would ask for it."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        """What the window shows, as PNG."""
        self.value("new Promise(done => setTimeout(done, 500))")
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
