"""A real Chromium without a window, driven over its debugging pipe: pages are opened, keys pressed, pictures taken.

It speaks the DevTools protocol over two pipes, so nothing listens anywhere and no driver is needed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
WAIT_S = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_chromium() -> str:
    """Where Chromium is: what COMMITLOG_TEST_CHROMIUM names, or what the system has; root's Debian has it from now on."""
    found = os.environ.get("COMMITLOG_TEST_CHROMIUM") or _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for step in (("update",), ("install", "--yes", "--no-install-recommends", "chromium")):
            subprocess.run(["apt-get", "--quiet=2", *step], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        found = _installed()
    assert found, "this test needs Chromium: `apt-get install chromium`, or name one in COMMITLOG_TEST_CHROMIUM"
    return found


def _installed() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One open page."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; its answer."""
        return self._browser.call(method, parameters, self._session)

    def shape(self, *, width: int, height: int, scheme: str) -> None:
        """Set the size, and whether light or dark is preferred."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Load a page, whole."""
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression holds."""
        deadline = time.monotonic() + WAIT_S
        while not self.value(expression):
            assert time.monotonic() < deadline, f"this did not come to hold: {expression}"

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"Tab": "", "Enter": "\r"}.get(key, key)
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes.get(key, ord(key[0])), **more
            )

    def picture(self, path: Path, *, height: int | None = None) -> None:
        """Take a picture of the page, or of so much of its height."""
        whole = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": whole["width"],
            "height": min(whole["height"], height or whole["height"]),
            "scale": 1,
        }
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def complaints(self) -> list[str]:
        """What the page's console, or its policy, has complained about so far."""
        return [
            json.dumps(event["params"])
            for event in self._browser.events
            if event.get("sessionId") == self._session
            and (
                event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
                and event["params"].get("entry", {}).get("level", "error") == "error"
            )
        ]

    def asked_elsewhere(self, own: str) -> list[str]:
        """What the page has loaded from other places."""
        asked = [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent"
        ]
        return [each for each in asked if not each.startswith(own)]


class Chromium:
    """A running browser."""

    def __init__(self, process: subprocess.Popen[bytes], send: int, receive: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = process
        self._send = send
        self._receive = receive
        self._number = 0
        self._rest = b""

    def page(self) -> Page:
        """A new page."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return Page(self, self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"])

    def call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """One command; its answer. What happens meanwhile is kept in `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._receive, 1 << 20)
            assert read, f"Chromium has ended with exit code {self._process.wait()}"
            self._rest += read
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message


@contextmanager
def running_chromium() -> Iterator[Chromium]:
    """A browser of its own, with a profile that goes with it."""
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="commitlog-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [find_chromium(), *_FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=_pipes_at_3_and_4(to_browser[0], from_browser[1]),
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        browser = Chromium(process, to_browser[1], from_browser[0])
        try:
            yield browser
        finally:
            process.terminate()
            process.wait()
            os.close(to_browser[1])
            os.close(from_browser[0])


def _pipes_at_3_and_4(commands: int, answers: int) -> Callable[[], None]:
    """Where Chromium looks for its pipes."""

    def put() -> None:
        kept = os.dup(commands), os.dup(answers)
        high = os.dup2(kept[0], 198), os.dup2(kept[1], 199)
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    return put


if __name__ == "__main__":
    print(find_chromium())
