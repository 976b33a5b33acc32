# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a network by ARP who has an address, and tells everybody who answers; arping(8) would take the first.

``python3 -I -S - INTERFACE OWN-ADDRESS ADDRESS SECONDS`` prints the hardware addresses as a JSON list. It listens until
nobody has answered for that many seconds.
"""

from __future__ import annotations

import json
import socket
import struct
import sys

ARP, IPV4 = 0x0806, 0x0800
QUESTION, ANSWER = 1, 2
BROADCAST = b"\xff" * 6
LONGEST = 128


def who_has(interface: str, own: str, address: str, seconds: float) -> list[str]:
    """Give the hardware addresses of all that answer for an address, in order."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ARP)) as wire:
        wire.bind((interface, ARP))
        wire.settimeout(seconds)
        sender = wire.getsockname()[4]
        about = struct.pack("!HHBBH", 1, IPV4, 6, 4, QUESTION) + sender + socket.inet_aton(own)
        wire.send(BROADCAST + sender + struct.pack("!H", ARP) + about + b"\0" * 6 + socket.inet_aton(address))
        answers: set[str] = set()
        while True:
            try:
                frame = wire.recv(LONGEST)
            except socket.timeout:
                return sorted(answers)
            kind, target = struct.unpack("!H", frame[20:22])[0], frame[28:32]
            if kind == ANSWER and target == socket.inet_aton(address):
                answers.add(frame[22:28].hex(":"))


if __name__ == "__main__":
    json.dump(who_has(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])), sys.stdout)
