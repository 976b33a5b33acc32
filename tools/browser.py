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
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

from tests.lab.gobuild import ProgramsUnavailable
from tests.lab.unpacked import libraries, unpack

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Debian's; Ubuntu's package of that name brings a snap.
PACKAGES = ("chromium", "fonts-dejavu-core")
_FONTS = """<?xml version="1.0"?>
<fontconfig>
<dir>/usr/share/fonts</dir><dir>{root}/usr/share/fonts</dir><cachedir>{root}/fonts.cache</cachedir>
<match target="pattern"><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
</fontconfig>
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
    "--remote-debugging-pipe",
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
    lacking = f"no browser on PATH ({', '.join(PROGRAMS)}), and none by apt"
    try:
        root = unpack("browser", PACKAGES, environ)
    except ProgramsUnavailable as reason:
        raise BrowserError(f"{lacking}: {reason}") from reason
    program, fonts = root / "usr/lib/chromium/chromium", root / "fonts.conf"
    if not program.exists():
        raise BrowserError(f"{lacking}, whose package of chromium brings no program: install Chromium")
    fonts.write_text(_FONTS.format(root=root), encoding="utf-8")
    return Program(str(program), {**libraries(root), "FONTCONFIG_FILE": str(fonts)})


class Tab:
    """The one page of a browser. ``messages`` are what the page and its policy had to say."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._number, self._received, self._loaded = 0, b"", False
        self._session: dict[str, str] = {}
        self.messages: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, width: int, height: int, *, dark: bool = False, printed: bool = False) -> None:
        """Show a file in a viewport of CSS pixels, or as on paper, until it is loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="print" if printed else "screen", features=[scheme])
        self._loaded = False
        self._call("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._read()

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
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=codes[key], **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes[key])

    def picture(self, height: int) -> bytes:
        """Return the page as PNG, from its top."""
        clip = {"x": 0, "y": 0, "width": self.value("innerWidth"), "height": height, "scale": 1}
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(answer["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._connection.sendall(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            pass
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            part = self._connection.recv(1 << 20)
            if not part:
                raise ConnectionError("the browser has ended")
            self._received += part
        text, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            self.messages.append(str(parameters["entry"]["text"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
        return message


@contextmanager
def browser(program: Program) -> Iterator[Tab]:
    """Start a browser with a profile of its own and give its tab; end it afterwards.

    Raises BrowserError where it does not start.
    """
    # It reads commands from descriptor 3, and answers on 4.
    shell = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >&2', "sh"]
    variables = {**os.environ, **program.variables}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, tempfile.TemporaryFile() as log:
        command = [*shell, program.path, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        connection, end = socket.socketpair()
        connection.settimeout(_SECONDS)
        with connection, subprocess.Popen(
            command, stdin=end.fileno(), stdout=end.fileno(), stderr=log, env=variables
        ) as process:
            try:
                end.close()
                yield Tab(connection)
            except (ConnectionError, TimeoutError) as error:
                log.seek(0)
                raise BrowserError(
                    f"the browser has ended ({error}): {log.read()[-2000:].decode(errors='replace')}"
                ) from error
            finally:
                process.terminate()
