# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pass connections from the caller's network namespace on into the lab's.

``python forward.py DESCRIPTOR ADDRESS PORT`` takes connections from a listening socket that it inherits as DESCRIPTOR
and connects each to ADDRESS and PORT. A socket stays in the network namespace in which it was made: the listening one
in the caller's, the new ones in that of this process, the lab's. Standard library only: it runs as a plain script,
isolated from the caller's environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

CHUNK = 65536


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end of one direction, and pass that end on."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def serve(descriptor: int, address: str, port: int) -> None:
    """Take connections until the process ends."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                far_reader, far_writer = await asyncio.open_connection(address, port)
            except OSError:
                return  # the caller sees its connection closed, as it would see the server's port closed
            with contextlib.closing(far_writer):
                await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    server = await asyncio.start_server(relay, sock=socket.socket(fileno=descriptor))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
