"""Chromium without a window, spoken to over the DevTools protocol through a pipe.

With --remote-debugging-pipe the browser reads JSON messages from its file descriptor 3 and writes
them to 4, each ended by a NUL, so that a test needs neither a port nor a WebSocket library
(https://chromedevtools.github.io/devtools-protocol/).
"""

import base64
import importlib.util
import itertools
import json
import os
import select
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_SECONDS = 30


class Browser:
    """A browser process with one page.

    Attributes
    ----------
    events : list of dict
        Every event so far: console messages, exceptions, requests.
    """

    def __init__(self, profile):
        commands, answers = os.pipe(), os.pipe()
        flags = ["--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
        flags += ["--no-sandbox", "--hide-scrollbars", "--disable-background-networking"]
        flags += [f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        # The shell puts the two pipes where the protocol wants them.
        redirected = f"exec {shlex.join([CHROMIUM, *flags])} 3<&{commands[0]} 4>&{answers[1]}"
        self._process = subprocess.Popen(
            ["bash", "-c", redirected],
            pass_fds=(commands[0], answers[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands[0])
        os.close(answers[1])
        self._commands, self._answers = commands[1], answers[0]
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._session = None
        self.events = []
        (target,) = [
            one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"
        ]
        attach = {"targetId": target["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", **attach)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(_SECONDS)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            os.close(self._commands)
            os.close(self._answers)

    def call(self, method, **params):
        """The result of one command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url):
        """Go to `url`, another document than the present one, and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not self.happened("Page.loadEventFired"):
            self._next()

    def happened(self, method):
        """The parameters of all events of a kind since the page was opened."""
        return [event["params"] for event in self.events if event["method"] == method]

    def js(self, expression):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def wait(self, condition):
        """Until a JavaScript expression is true: events are told after the call that made them."""
        deadline = time.monotonic() + _SECONDS
        while not self.js(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never so: {condition}")

    def go(self, place):
        """Show a list or a detail of the page, and wait until it is there."""
        self.js(f"location.hash = {json.dumps('#' + place)}")
        self.wait(f"current === {json.dumps(place)}")

    def asked(self):
        """The addresses that were requested since the page was opened."""
        urls = (one["request"]["url"] for one in self.happened("Network.requestWillBeSent"))
        return [url.partition("#")[0] for url in urls if not url.startswith("data:")]

    def visit(self, address, place):
        """Yields with a place of the page; nothing is complained about or asked for meanwhile."""
        self.size(1280)
        self.prefer("light")
        self.open("about:blank")
        self.open(f"{address}#{place}")
        self.wait(f"current === {json.dumps(place)}")
        yield self
        trouble = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        assert [event for event in self.events if event["method"] in trouble] == []
        assert {*self.asked()} == {address}

    def size(self, width, height=900):
        """A window of `width` CSS pixels; a phone below 600."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, scheme):
        """What the system would say of light and dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path):
        """The window as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def _next(self):
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise TimeoutError(f"chromium is silent for {_SECONDS} s")
            read = os.read(self._answers, 1 << 20)
            if not read:
                raise ConnectionError("chromium has ended")
            self._buffer += read
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message

    def axe_violations(self):
        """What breaks the accessibility rules of axe-core (Deque), of package axe-core-python."""
        package = importlib.util.find_spec("axe_core_python")
        if package is None:
            pytest.skip("axe-core-python is not installed")
        self.js(Path(package.origin).with_name("axe.min.js").read_text() + ";0")
        found = "r => { window.broken = r.violations.map(v => `${v.id}: ${v.nodes[0].html}`); }"
        self.js(f"window.broken = undefined; axe.run().then({found}); 0")
        self.wait("window.broken !== undefined")
        return self.js("window.broken")
