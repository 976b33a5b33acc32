# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An SSH server on loopback that counts what it is asked to run: ``python ssh_server.py FOLDER``.

``FOLDER`` has the server's key (``host``) and the one that may log in (``user.pub``). It gets ``port`` once the server
listens, and ``counts.json`` when SIGTERM ends it. Commands run as the user who started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh import SSHServerProcess

CHUNK = 64 * 1024


class Counted(asyncssh.SFTPServer):
    """File transfers, each a session of its own as a command is."""

    sessions = 0

    def __init__(self, channel: Any) -> None:
        super().__init__(channel)
        Counted.sessions += 1


class Target:
    """Runs what clients ask for."""

    def __init__(self) -> None:
        self.execs = 0

    async def run(self, process: SSHServerProcess[bytes]) -> None:
        """Run one command as a login shell's child, with its streams."""
        self.execs += 1
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command or "true",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        feeding = asyncio.create_task(feed(process, child))
        await asyncio.gather(pass_on(child.stdout, process.stdout), pass_on(child.stderr, process.stderr))
        process.exit(await child.wait())
        feeding.cancel()


async def feed(process: SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """Give a command what the client sends."""
    stdin = child.stdin
    if stdin is not None:
        # A command that has ended reads no more.
        with contextlib.suppress(OSError):
            while data := await process.stdin.read(CHUNK):
                stdin.write(data)
                await stdin.drain()
        stdin.close()


async def pass_on(source: asyncio.StreamReader | None, sink: asyncssh.SSHWriter[bytes]) -> None:
    """Give the client what a command prints."""
    while source is not None and (data := await source.read(CHUNK)):
        sink.write(data)
        await sink.drain()


async def serve(folder: Path) -> None:
    """Serve until SIGTERM."""
    target, ended = Target(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(folder / "host")],
        authorized_client_keys=str(folder / "user.pub"),
        process_factory=target.run,
        sftp_factory=Counted,
        encoding=None,
    )
    draft = folder / "port.draft"
    draft.write_text(str(server.get_port()), encoding="ascii")
    draft.replace(folder / "port")
    await ended.wait()
    server.close()
    usage = os.times()
    counts = {"execs": target.execs + Counted.sessions, "cpu_seconds": usage.children_user + usage.children_system}
    (folder / "counts.json").write_text(json.dumps(counts), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
