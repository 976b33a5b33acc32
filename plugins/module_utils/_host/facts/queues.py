# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads rings and channels of interfaces.

Only ethtool tells them (ETHTOOL_MSG_RINGS_GET and ETHTOOL_MSG_CHANNELS_GET of Documentation/networking/
ethtool-netlink.rst), one interface at a time: those that some are asked of.
"""

from __future__ import annotations

import re
from typing import Iterable

from ..machine.probe import Probe
from .host_state import Interface
from .shapes import Queue

# What each key is called where ``ethtool`` shows it, and where it sets it.
WORDS = {"rx_ring": ("RX", "rx"), "tx_ring": ("TX", "tx"), "channels": ("Combined", "combined")}
_LINE = re.compile(r"^(RX|TX|Combined):\s+(\d{1,9})$", re.MULTILINE)
_NOW = "Current hardware settings"
# Its lines RX and TX count channels of one direction.
_OF_CHANNELS = "Channel parameters for "


def show_command(key: str, name: str) -> tuple[str, ...]:
    """Return the command that shows what ``key`` is about."""
    return ("ethtool", "-l" if key == "channels" else "-g", name)


def read_queues(probe: Probe, interfaces: Iterable[Interface]) -> dict[str, dict[str, Queue]]:
    """Return ``{key of the interface: {rx_ring, tx_ring, channels: {"now", "most"}}}`` of what is asked for.

    A key that the driver does not tell, or that can't be read, is left out.
    """
    found: dict[str, dict[str, Queue]] = {}
    for interface in interfaces:
        asked = list(interface.wanted["queues"] or ())
        if interface.netdev is not None and asked:
            commands = dict.fromkeys(show_command(key, interface.netdev["name"]) for key in asked)
            texts = [probe.output(*command) for command in commands]
            told = {key: value for text in texts for key, value in parse(text).items()}
            found[interface.key] = {key: told[key] for key in asked if key in told}
    return found


def parse(text: str) -> dict[str, Queue]:
    """Parse what ``show_command`` prints; what is ``n/a``, 0 at most, or cut off is left out."""
    asked = [key for key in WORDS if (key == "channels") == (_OF_CHANNELS in text)]
    maximums, _title, present = text.partition(_NOW)
    most = {word: int(number) for word, number in _LINE.findall(maximums)}
    now = {word: int(number) for word, number in _LINE.findall(present)}
    both = {key: WORDS[key][0] for key in asked if now.get(WORDS[key][0]) is not None and most.get(WORDS[key][0])}
    return {key: {"now": now[word], "most": most[word]} for key, word in both.items()}
