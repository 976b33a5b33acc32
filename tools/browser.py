# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium that shows one page: for pictures of it, and for tests of what its script does.

Spoken to by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol), which sets a viewport narrower
than the narrowest window, and the colour scheme.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import websocket

from tests.lab.gobuild import ProgramsUnavailable
from tests.lab.unpacked import libraries, unpack

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Debian's; Ubuntu's package of that name brings a snap.
PACKAGES = ("chromium", "fonts-dejavu-core")
_FONTS = """<?xml version="1.0"?>
<fontconfig><dir>/usr/share/fonts</dir><dir>{root}/usr/share/fonts</dir><cachedir>{root}/fonts.cache</cachedir></fontconfig>
"""
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_SECONDS = 60.0


class BrowserError(Exception):
    """The browser did not start, or refused a command."""


class Program(NamedTuple):
    """A browser, and the variables that it needs."""

    path: str
    variables: Mapping[str, str]


def find_browser(environ: Mapping[str, str]) -> Program:
    """Return the first browser on PATH, else one of packages in the user's cache, which are fetched where they are not.

    Raises BrowserError.
    """
    on_path = next((path for path in map(shutil.which, PROGRAMS) if path), None)
    if on_path is not None:
        return Program(on_path, {})
    try:
        root = unpack("browser", PACKAGES, environ)
    except ProgramsUnavailable as reason:
        raise BrowserError(f"no browser on PATH ({', '.join(PROGRAMS)}), and none by apt: {reason}") from reason
    program, fonts = root / "usr/lib/chromium/chromium", root / "fonts.conf"
    if not program.exists():
        raise BrowserError(
            f"no browser on PATH ({', '.join(PROGRAMS)}), and apt's package of chromium brings none: install Chromium"
        )
    fonts.write_text(_FONTS.format(root=root), encoding="utf-8")
    return Program(str(program), {**libraries(root), "FONTCONFIG_FILE": str(fonts)})


class Tab:
    """The one page of a browser. ``messages`` are what the page and its policy had to say."""

    def __init__(self, connection: websocket.WebSocket) -> None:
        self._connection = connection
        self._number = 0
        self.messages: list[str] = []
        self._loaded = False
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, width: int, height: int, *, dark: bool = False, printed: bool = False) -> float:
        """Show a file in a viewport of CSS pixels, or as on paper; return the seconds until it was loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="print" if printed else "screen", features=[scheme])
        start, self._loaded = time.monotonic(), False
        self._call("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._read()
        return time.monotonic() - start

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression is, as far as JSON holds it."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def type_text(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key that prints nothing, by its DOM name, as ``Tab`` or ``Enter``."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27}
        text = {"text": "\r"} if key == "Enter" else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=codes[key], **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes[key])

    def picture(self, height: int | None = None) -> bytes:
        """Return the page as PNG, from its top; without ``height`` what the viewport shows."""
        clip = {}
        if height is not None:
            width = self.value("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=height is not None, **clip)
        return base64.b64decode(answer["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = self._read()
            if message.get("id") != self._number:
                continue
            if "error" in message:
                raise BrowserError(f"{method}: {message['error'].get('message')}")
            result: dict[str, Any] = message["result"]
            return result

    def _read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._connection.recv())
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            self.messages.append(str(parameters["entry"]["text"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
        return message


@contextmanager
def browser() -> Iterator[Tab]:
    """Start a browser with a profile of its own and give its tab; end it afterwards.

    Raises BrowserError where there is none, or it does not start.
    """
    program = find_browser(os.environ)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program.path, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        with (Path(profile) / "browser.log").open("wb") as log:
            variables = {**os.environ, **program.variables}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)
        try:
            connection = websocket.create_connection(
                _address_of_tab(process, Path(profile)), timeout=_SECONDS, suppress_origin=True
            )
            try:
                yield Tab(connection)
            finally:
                connection.close()
        finally:
            process.terminate()
            process.wait()


def _address_of_tab(process: subprocess.Popen[bytes], profile: Path) -> str:
    """Return the address of the tab's socket, once the browser has said its port."""
    said, until = profile / "DevToolsActivePort", time.monotonic() + _SECONDS
    while not (said.exists() and said.read_text(encoding="ascii").count("\n")):
        if process.poll() is not None or time.monotonic() > until:
            log = (profile / "browser.log").read_text(encoding="utf-8", errors="replace")
            raise BrowserError(f"the browser did not start: {log[-2000:]}")
        time.sleep(0.05)
    port, path = said.read_text(encoding="ascii").split()[:2]
    whole = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=_SECONDS, suppress_origin=True)
    try:
        whole.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        answer = json.loads(whole.recv())
    finally:
        whole.close()
    tabs = [each["targetId"] for each in answer["result"]["targetInfos"] if each["type"] == "page"]
    return f"ws://127.0.0.1:{port}/devtools/page/{tabs[0]}"
