# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the counters of ports say of errors, over all hosts: one entry for each counter, not for each port. Pure.

Counters only grow, so what they stand at is history; an earlier reading tells what is new. None of it needs attention
by itself, as nobody knows when it was.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._port_counters import (
    BEYOND_ROCE,
    DRIVER,
    PORT,
    SET_BACK,
    is_saturated,
    plain_name,
    rise_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import LOAD, LOADS, MEANINGS
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

_MOST_NAMED = 5


class Port(NamedTuple):
    """A port as one host told it: ``values`` are its known counters above 0 by ``FOLDER/NAME``.

    ``infiniband``: its counters can be set back.
    """

    host: str
    device: str
    number: int
    readable: bool
    infiniband: bool
    values: dict[str, int]


class Earlier(NamedTuple):
    """What an earlier reading found: its time, hosts, ports that told nothing, and the counters above 0."""

    time: str
    hosts: frozenset[str]
    silent: frozenset[tuple[str, str, int]]
    values: dict[tuple[str, str, int, str], int]


def counters_state(told: Mapping[str, Any], earlier: Any, now: str) -> Json | None:
    """Return what the counters of these hosts say; None where no host was asked for them.

    ``told`` has by host what its task returned as ``counters``, ``earlier`` is the ``counters`` of an earlier status,
    ``now`` the time of this one.
    """
    if not told:
        return None
    before = earlier_of(earlier)
    ports = [port for host in sorted(told, key=natural_key) for port in _ports(host, told[host])]
    return {
        "time": now,
        "since": before.time if before else None,
        "hosts": sorted(told, key=natural_key),
        "ports": len(ports),
        "silent": [
            {"host": port.host, "device": port.device, "port": port.number} for port in ports if not port.readable
        ],
        "found": _found(ports, before),
    }


def earlier_of(counters: Any) -> Earlier | None:
    """Return an earlier reading, None where there is none or it can't be understood."""
    try:
        return Earlier(
            str(counters["time"]),
            frozenset(counters["hosts"]),
            frozenset((each["host"], each["device"], each["port"]) for each in counters["silent"]),
            {
                (each["host"], each["device"], each["port"], each["key"]): int(each["value"])
                for entry in counters["found"]
                for each in entry["ports"]
            },
        )
    except (TypeError, ValueError, KeyError):
        return None


def _ports(host: str, rows: Any) -> Iterator[Port]:
    """Yield the ports of a host; what it returned is a stranger's, so what is not in the form of a port is none."""
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or not isinstance(row.get("port"), int):
            continue
        folders = {folder: row.get(folder) for folder in (PORT, DRIVER)}
        values = {
            f"{folder}/{name}": value
            for folder, counters in folders.items()
            for name, value in (counters.items() if isinstance(counters, dict) else ())
            if plain_name(f"{folder}/{name}") in MEANINGS and _is_number(value) and value > 0
        }
        infiniband = row.get("link_layer") == "InfiniBand"
        yield Port(host, one_line(str(row.get("device"))), row["port"], bool(row.get("readable")), infiniband, values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _found(ports: Sequence[Port], before: Earlier | None) -> list[Json]:
    """Return the counters that are above 0 on some port, with these ports."""
    rows: dict[str, list[Json]] = {}
    for port in ports:
        by_name: dict[str, str] = {}
        for key in port.values:
            # Drivers may have one of the same name in both folders, and one for their representors: the larger counts.
            other = by_name.get(plain_name(key), key)
            by_name[plain_name(key)] = max(key, other, key=port.values.__getitem__)
        for name, key in by_name.items():
            rows.setdefault(name, []).append(
                {
                    "host": port.host,
                    "device": port.device,
                    "port": port.number,
                    "infiniband": port.infiniband,
                    "key": key,
                    "value": port.values[key],
                    "saturated": is_saturated(key, port.values[key]),
                    "rise": _rise(port, key, before),
                }
            )
    return [
        {"counter": name, "kind": kind, "meaning": words, "ports": rows[name]}
        for name, (kind, words) in MEANINGS.items()
        if name in rows
    ]


def _rise(port: Port, key: str, before: Earlier | None) -> int | None:
    """Return by how much a counter rose since the earlier reading, None where that can't be told."""
    place = (port.host, port.device, port.number)
    if before is None or port.host not in before.hosts or place in before.silent:
        return None
    earlier = before.values.get((*place, key), 0)
    return None if is_saturated(key, earlier) else rise_of(key, earlier, port.values[key])


def counter_lines(state: Mapping[str, Any] | None) -> list[str]:
    """Return the lines of the screen about counters, none where they were not asked for.

    With an earlier reading those that did not rise since are left out, without one all are told.
    """
    if state is None:
        return []
    where = f"{counted(state['ports'], 'port')} of {counted(len(state['hosts']), 'host')}"
    of = f"what rose since {one_line(state['since'])}" if state["since"] else "totals, which may be long past"
    lines = [f"counters: {where}; {of}"]
    told = [(entry, [each for each in entry["ports"] if each["rise"] != 0]) for entry in state["found"]]
    errors = [(entry, ports) for entry, ports in told if ports and entry["kind"] != LOAD]
    lines += [_line(entry["counter"], _told(entry, ports)) for entry, ports in errors]
    lines += ["  no errors"] if not errors and state["ports"] > len(state["silent"]) else []
    # Waiting soon stands at its largest value for good: that it may have risen is not worth a word.
    heavy = [
        (entry["counter"], [each for each in ports if each["rise"] or not state["since"]])
        for entry, ports in told
        if entry["kind"] == LOAD
    ]
    loads = [f"{name} on {counted(len(ports), 'port')}" for name, ports in heavy if ports]
    lines += [_line(MEANINGS[LOADS[0]][1], ", ".join(loads))] if loads else []
    lines += _saturated([each for _entry, ports in errors for each in ports if each["saturated"]])
    if state["silent"]:
        lines.append(_line("no counters", named([_place(each) for each in state["silent"]], _MOST_NAMED)))
    return lines


def _saturated(ports: Sequence[Json]) -> list[str]:
    """Return what to do about ports with counters at their largest value, by what kind of port they are."""
    lines = []
    if any(each["infiniband"] for each in ports):
        lines.append(_line("saturated counters can't rise further", f"{SET_BACK} on the host resets them"))
    if not all(each["infiniband"] for each in ports):
        lines.append(_line("saturated counters of RoCE ports can't rise further", BEYOND_ROCE))
    return lines


def _told(entry: Mapping[str, Any], ports: Sequence[Json]) -> str:
    worst = sorted(ports, key=lambda each: (-(each["rise"] or 0), -each["value"]))
    return f"{counted(len(ports), 'port')}, {named([_value(each) for each in worst], _MOST_NAMED)}: {entry['meaning']}"


def _value(each: Mapping[str, Any]) -> str:
    rise = f" (+{each['rise']})" if each["rise"] else ""
    return f"{_place(each)} {each['value']}{rise}{' saturated' if each['saturated'] else ''}"


def _place(each: Mapping[str, Any]) -> str:
    number = "" if each["port"] == 1 else f"/{each['port']}"
    return f"{one_line(each['host'])} {each['device']}{number}"


def _line(label: str, text: str) -> str:
    return f"  {label}: {text}"
