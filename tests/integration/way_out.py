# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only way out of a network namespace: to the API server, at the address on loopback that it has outside.

Sockets of files know no network namespaces, so one leads out. ``python -m
ansible_collections.rdma.fabric.tests.integration.way_out PORT SOCKET COMMAND...`` runs a command in a new namespace, as
root, and ends as it does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.checkout import CHECKOUT, COLLECTIONS


class WayOut(NamedTuple):
    """The API server's port, and the socket that leads to it from anywhere."""

    port: int
    path: str

    def alone(self) -> list[str]:
        """Return the words before a command that run it where nothing but the API server can be reached."""
        found_at = f"PYTHONPATH={COLLECTIONS}{os.pathsep}{CHECKOUT}"
        program = [sys.executable, "-m", __spec__.name, str(self.port), self.path]
        return [*apart("net"), "env", found_at, *program, "env", "--unset=PYTHONPATH"]


@contextmanager
def way_to(control_plane: ControlPlane, path: Path) -> Iterator[WayOut]:
    """Lead to a control plane from a socket at ``path``, whose name may have some 100 characters."""
    port = urlsplit(control_plane.server).port
    assert port is not None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        serve(listener, lambda: socket.create_connection(("127.0.0.1", port)))
        yield WayOut(port, str(path))


def open_way(port: int, path: str) -> None:
    """Make the API server's address reachable in this network namespace, for as long as this process lives."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    serve(socket.create_server(("127.0.0.1", port)), lambda: _connected(path))


def serve(listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Carry what comes to a listener on to a connection of its own, until the listener is closed."""
    threading.Thread(target=_accept, args=(listener, connect), daemon=True).start()


def _accept(listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
    with suppress(OSError):
        while True:
            inner, _address = listener.accept()
            outer = connect()
            for source, target in ((inner, outer), (outer, inner)):
                threading.Thread(target=_carry, args=(source, target), daemon=True).start()


def _connected(path: str) -> socket.socket:
    outer = socket.socket(socket.AF_UNIX)
    outer.connect(path)
    return outer


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while True:
            data = source.recv(65536)
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)


if __name__ == "__main__":
    open_way(int(sys.argv[1]), sys.argv[2])
    sys.exit(subprocess.run(sys.argv[3:], check=False).returncode)
