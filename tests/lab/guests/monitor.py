# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a guest's QEMU through its machine protocol (QMP) to pull and plug network wires."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Callable, Mapping

ANSWER_SECONDS = 20.0


class MonitorRefused(Exception):
    """QEMU did not do what it was asked for; the text holds its own words."""


def set_link(monitor: Path, card: str, *, up: bool) -> None:
    """Plug (``up``) or pull the wire of one card; the guest sees its carrier come or go."""
    execute(monitor, "set_link", {"name": card, "up": up})


def execute(monitor: Path, command: str, arguments: Mapping[str, Any]) -> Any:
    """Run one command on the monitor's unix socket; give what it returns. Raises ``MonitorRefused`` and OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(str(monitor))
        with connection.makefile("rw", encoding="utf-8", newline="\n") as stream:
            stream.readline()  # the greeting
            # Until then QEMU takes no other command.
            for each in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": dict(arguments)}):
                stream.write(json.dumps(each) + "\n")
                stream.flush()
                answer = _answer(stream.readline, command)
    return answer


def _answer(readline: Callable[[], str], command: str) -> Any:
    """Read lines until one that answers; events come in between."""
    while True:
        line = readline()
        if not line:
            raise MonitorRefused(f"QEMU closed its monitor before it answered {command}")
        message = json.loads(line)
        if "error" in message:
            raise MonitorRefused(f"QEMU refuses {command}: {message['error'].get('desc', message['error'])}")
        if "return" in message:
            return message["return"]
