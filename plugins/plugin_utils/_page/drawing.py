# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawing of one NUMA node: a tree from host bridges over switches to devices. Geometry only.

Lengths are SVG user units. Every device is one row; rows of one rail that are neighbours share a band. The drawing is
narrow on purpose: it is read on a phone without scrolling, and several stand side by side on a wide screen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import short_address
from ansible_collections.rdma.fabric.plugins.module_utils._report.topology import leaves, pcie_text

ROW = 36
GAP = 8
WIRE = 8
PILL_WIDTH = 31
WIDE_PILL = 54
DEVICE_WIDTH = 172
LINK_WIDTH = 80
RAIL_WIDTH = 50
MAX_LEVELS = 5
MAX_ROWS = 96
RAIL_COLOURS = 8
_TITLE_ROOM = 18
_PLACE_ROOM = 23
_NAME_ROOM = 13
_SHORT_MODELS = (("NVIDIA ", ""), ("ConnectX-", "CX-"), ("BlueField-", "BF-"))
_SHORT_BUS = 2
_LAYERS = {"InfiniBand": "IB", "Ethernet": "Eth"}
_STATES = {"up": "up", "partial": "partly up", "init": "no SM", "down": "down", "unknown": "unknown"}


@dataclass(frozen=True)
class Pill:
    """A host bridge (``kind`` bridge) or a PCIe switch (``kind`` switch), ``y`` its middle."""

    kind: str
    x: int
    y: int
    text: str
    address: str


@dataclass(frozen=True)
class Line:
    """A connection: right from (x1, y1), turning at x2 to y2, on to x3."""

    x1: int
    y1: int
    x2: int
    y2: int
    x3: int


@dataclass(frozen=True)
class DeviceRow:
    """One GPU or NIC. ``y`` is the top of the row; ``link`` is None for a GPU; ``warning`` replaces the second line."""

    kind: str
    y: int
    name: str
    model: str
    place: str
    address: str
    link: str | None
    speed: str
    under: str
    warning: str


@dataclass(frozen=True)
class Band:
    """The rows of one rail: ``colour`` counts from 0 and repeats after ``RAIL_COLOURS``."""

    y: int
    height: int
    colour: int
    title: str
    distance: str


@dataclass
class Drawing:
    """Everything that is drawn of one NUMA node; ``left_out`` devices did not fit."""

    width: int
    height: int
    device_x: int
    pill_width: int
    pills: list[Pill] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    rows: list[DeviceRow] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    left_out: int = 0

    @property
    def gpus(self) -> int:
        """Number of GPUs drawn."""
        return sum(row.kind == "gpu" for row in self.rows)

    @property
    def nics(self) -> int:
        """Number of NIC functions drawn."""
        return len(self.rows) - self.gpus


def drawings(tree: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Drawing]]:
    """Return every NUMA node of a device map with its drawing; all of one host have the same columns."""
    levels = min(MAX_LEVELS, max((_depth(bridge) for numa in tree for bridge in numa["bridges"]), default=1))
    with_domain = any(len(_bus(bridge["address"])) > _SHORT_BUS for numa in tree for bridge in numa["bridges"])
    pill_width = WIDE_PILL if with_domain else PILL_WIDTH
    return [(numa, _draw(numa["bridges"], levels, pill_width)) for numa in tree]


def _depth(node: dict[str, Any]) -> int:
    return 1 + max((_depth(child) for child in node["children"]), default=0) if "children" in node else 0


def _draw(bridges: list[dict[str, Any]], levels: int, pill_width: int) -> Drawing:
    device_x = levels * (pill_width + WIRE)
    drawing = Drawing(device_x + DEVICE_WIDTH + LINK_WIDTH + RAIL_WIDTH, 0, device_x, pill_width)
    devices = leaves(bridges)
    drawing.left_out = max(0, len(devices) - MAX_ROWS)
    tops = _row_tops(bridges, devices[:MAX_ROWS], drawing)
    for bridge in bridges:
        _place(bridge, 0, levels, tops, drawing)
    return drawing


def _row_tops(bridges: list[dict[str, Any]], devices: list[dict[str, Any]], drawing: Drawing) -> dict[str, int]:
    """Put the rows under each other with gaps between rails and host bridges; return the top of each by address."""
    starts = {leaves([bridge])[0]["address"] for bridge in bridges}
    tops: dict[str, int] = {}
    y = 0
    rails: list[int] = []
    for index, device in enumerate(devices):
        new_rail = device["rails"] != rails or not rails
        if index and (device["address"] in starts or (new_rail and (rails or device["rails"]))):
            y += GAP
        tops[device["address"]] = y
        drawing.rows.append(_row(device, y))
        _extend_bands(drawing, device, y, joined=bool(index) and not new_rail)
        rails = device["rails"]
        y += ROW
    drawing.height = y
    return tops


def _row(device: dict[str, Any], y: int) -> DeviceRow:
    is_nic = device["type"] == "nic"
    link = device.get("link") or {}
    warning = pcie_text(device["pcie"]) if device["pcie"]["degraded"] and is_nic else ""
    place = [short_address(device["address"])]
    if is_nic and device["uplink"]:
        place.append("uplink")
    if is_nic and device["virtual_functions"]:
        place.append(f"{device['virtual_functions']} VFs")
    if is_nic and device["netdev"]:
        place.append(device["netdev"])
    name = _cut((device["name"] or device["netdev"] or "NIC") if is_nic else "GPU", _NAME_ROOM)
    return DeviceRow(
        kind=device["type"],
        y=y,
        name=name,
        model=_model(device["model"], _TITLE_ROOM - 1 - len(name)),
        place=_cut(" ".join(place), _PLACE_ROOM),
        address=device["address"],
        link=link.get("state"),
        speed=_speed(device, link),
        under=link.get("physical") or "",
        warning=warning,
    )


def _model(model: str, room: int) -> str:
    """Return the model of a device in ``room`` characters: in short form where the long one does not fit."""
    if len(model) > room:
        for long, short in _SHORT_MODELS:
            model = model.replace(long, short)
    return _cut(model, room)


def _speed(device: dict[str, Any], link: dict[str, Any]) -> str:
    if link.get("state") not in ("up", "partial"):
        return _STATES.get(link.get("state", ""), "")
    rate = "" if link["rate_gbps"] is None else f"{link['rate_gbps']:g}G"
    layer = _LAYERS.get(device["layer"] or "", "")
    return f"{rate} {layer}".strip() or _STATES[link["state"]]


def _extend_bands(drawing: Drawing, device: dict[str, Any], y: int, *, joined: bool) -> None:
    if not device["rails"]:
        return
    distance = device.get("distance") or ""
    if joined and drawing.bands:
        last = drawing.bands.pop()
        height = y + ROW - last.y
        drawing.bands.append(Band(last.y, height, last.colour, last.title, last.distance or distance))
        return
    numbers = ", ".join(str(rail) for rail in device["rails"])
    colour = device["rails"][0] % RAIL_COLOURS
    drawing.bands.append(Band(y, ROW, colour, _cut(f"rail {numbers}", 9), distance))


def _place(node: dict[str, Any], level: int, levels: int, tops: dict[str, int], drawing: Drawing) -> int | None:
    """Draw a bridge or switch and all below it; return the middle of its pill, None when nothing below it is drawn.

    Switches below the last level are left out of the drawing: their devices hang on the last one that is drawn.
    """
    if "children" not in node:
        top = tops.get(node["address"])
        return None if top is None else top + ROW // 2
    shown = level < levels
    ends = [(child, _place(child, level + 1, levels, tops, drawing)) for child in node["children"]]
    middles = [middle for _child, middle in ends if middle is not None]
    if not middles:
        return None
    middle = (middles[0] + middles[-1]) // 2
    if shown:
        step = drawing.pill_width + WIRE
        x = level * step
        drawing.pills.append(Pill(node["type"], x, middle, _bus(node["address"]), node["address"]))
        turn = x + drawing.pill_width + WIRE // 2
        for child, end in ends:
            if end is not None:
                is_pill = "children" in child and level + 1 < levels
                stop = x + step if is_pill else drawing.device_x + 6
                drawing.lines.append(Line(x + drawing.pill_width, middle, turn, end, stop))
    return middle


def _bus(address: str) -> str:
    """Return the bus of a bridge or switch, with its domain where that is not 0: ``15``, ``0001:01``."""
    parts = address.replace("pci", "").split(":")
    bus = ":".join(parts[:2]) if len(parts) > 1 else address
    return _cut(bus[5:] if bus.startswith("0000:") else bus, 7)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 1)] + "\u2026"
