# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which firmware image a card has in its flash, which one it runs, and which one a file holds.

``mstflint`` (or ``flint`` of NVIDIA's firmware tools) prints both in one format: ``FW Version`` is the image that the
next start loads; ``FW Version(Running)`` follows if the card still runs another one (Mellanox/mstflint,
flint/subcommands.cpp: QuerySubCommand::printInfo). A card is queried once, by the first of its functions that answers:
on some ConnectX-7, not all do (Mellanox/nic-configuration-operator issue 496).
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Mapping, Sequence

from ..machine.access import Host, HostError
from ..machine.probe import Probe, last_words, printable
from ..spec.firmware import is_version
from .firmware import flash_of, functions_of_flash
from .host_state import HostState, Interface
from .shapes import CardImage, FirmwareImages, Image

FLINT = ("/usr/bin/mstflint", "/usr/local/bin/mstflint", "/usr/bin/flint", "/usr/local/bin/flint")
SECURE = "secure-fw"
_QUERY_SECONDS = 60.0
_LINE = re.compile(r"^(FW Version|FW Version\(Running\)|PSID|Security Attributes):[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_AT_ONCE = 8


def device_query(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that prints the image in a card's flash."""
    return (tool, "-d", device, "query")


def file_query(tool: str, path: str) -> tuple[str, ...]:
    """Return the command that prints the image in a file."""
    return (tool, "-i", path, "query")


def read_firmware_images(probe: Probe, ports: Sequence[Interface], actual: HostState) -> FirmwareImages:
    """Return ``tool``, and the images of ``cards`` (by their first function) and ``files`` (by path).

    Each has ``version``, ``running``, ``psid``, ``security`` and ``problem``; a card also has the ``device`` for
    commands.
    """
    images = [(port, image) for port in ports for image in [port.wanted["firmware_image"]] if image]
    if not images:
        return {"tool": None, "cards": {}, "files": {}}
    tool = probe.first(FLINT)
    cards = list(dict.fromkeys(flash_of(actual, port.key) for port, _image in images))
    paths = list(dict.fromkeys(filter(None, (image["file"] for _port, image in images))))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        of_cards = pool.map(lambda card: _card(probe.host, tool, functions_of_flash(actual, card)), cards)
        of_files = pool.map(lambda path: _file(probe.host, tool, path), paths)
    return {"tool": tool, "cards": dict(zip(cards, of_cards)), "files": dict(zip(paths, of_files))}


def _card(host: Host, tool: str | None, devices: Sequence[str]) -> CardImage:
    found: list[CardImage] = []
    for device in devices:
        found.append({**_shown(host, tool, device_query(str(tool), device)), "device": device})
        if not found[-1]["problem"]:
            return found[-1]
    return found[0]


def _file(host: Host, tool: str | None, path: str) -> Image:
    if not host.exists(path):
        return {**parse(""), "problem": f"{path} is not on this host: copy the image there"}
    return _shown(host, tool, file_query(str(tool), path))


def _shown(host: Host, tool: str | None, command: tuple[str, ...]) -> Image:
    if tool is None:
        problem = "neither mstflint nor flint (NVIDIA's firmware tools) is installed"
        return {**parse(""), "problem": problem}
    return query_image(host, command)


def query_image(host: Host, command: tuple[str, ...]) -> Image:
    """Return the result of a query; ``problem`` says why it has nothing to compare."""
    try:
        result = host.run(command, _QUERY_SECONDS)
    except HostError as error:
        return {**parse(""), "problem": f"{command[0]} can't be run ({error.code})"}
    image = parse(result.stdout)
    if image["version"] is None or image["psid"] is None:
        image["problem"] = f"{command[0]} shows no version and PSID: {last_words(result)}"
    return image


def parse(text: str) -> Image:
    """Parse the output of a query; a card with a single version runs that one."""
    shown: Mapping[str, str] = {name: printable(value, 64) for name, value in _LINE.findall(text)}
    version = _version(shown.get("FW Version"))
    return {
        "version": version,
        "running": _version(shown.get("FW Version(Running)")) or version,
        "psid": shown.get("PSID"),
        "security": shown.get("Security Attributes", ""),
        "problem": "",
    }


def public_part(text: str) -> str:
    """Return the part of a query's output that may be recorded; the rest includes the card's GUID and MAC address."""
    return "".join(f"{found.group(0)}\n" for found in _LINE.finditer(text))


def _version(text: str | None) -> str | None:
    return text if text and is_version(text) else None
