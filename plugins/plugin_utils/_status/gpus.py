# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What DCGM exporters say of GPUs, beside what counters say of the NICs of the same rails and nodes. Pure.

Fields are those of ``etc/default-counters.csv`` and ``dcp-metrics-included.csv`` of NVIDIA/dcgm-exporter; one that an
exporter does not have is none. None of it needs attention by itself: the last Xid stays until the driver is reloaded.
"""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import LOAD
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

# The last Xid is the number of an error, not how many there were.
XID = "xid"
ERRORS: Mapping[str, tuple[str, str]] = {
    "DCGM_FI_DEV_XID_ERRORS": (XID, "last Xid"),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("double_bit_errors", "double-bit errors"),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("row_remap_failure", "failed row remappings"),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remapped_rows", "rows remapped after uncorrectable errors"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("pcie_replays", "PCIe replays"),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": ("nvlink_crc_errors", "NVLink CRC errors"),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": ("nvlink_replays", "NVLink replays"),
}
"""The fields that tell errors, by the exporter's name: ours, and in words."""
LOADS: Mapping[str, str] = {
    "DCGM_FI_DEV_GPU_UTIL": "utilization_percent",
    "DCGM_FI_DEV_GPU_TEMP": "celsius",
    "DCGM_FI_DEV_POWER_USAGE": "watts",
    "DCGM_FI_DEV_FB_USED": "memory_mib",
}
_NAMES = {**{field: name for field, (name, _words) in ERRORS.items()}, **LOADS}
_MOST_GPUS = 64
_MOST_LINES = 12
_MOST_NAMED = 5
_SAMPLE = re.compile(r"(DCGM_FI_DEV_[A-Z_]{1,60})\{(.{0,4000})\}[ \t]{1,8}([^\s]{1,40})", re.ASCII)
_LABEL = re.compile(r'(\w{1,60})="((?:[^"\\]|\\.){0,300})"', re.ASCII)
# DCGM writes a domain of eight digits and capitals, the kernel one of four.
_BUS_ID = re.compile(r"(?:0000)?([0-9a-f]{4}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


class Place(NamedTuple):
    """A host as the status knows it: its node, and by the PCI address of a GPU the RDMA device of its rail."""

    host: str
    node: str
    gpus: int
    nics: Mapping[str, str]


def place_of(host: str, node: str, facts: Mapping[str, Any]) -> Place:
    """Return the place of a host from its facts."""
    names = {nic["address"]: nic["rdma"][0] for nic in facts["nics"] if nic["rdma"]}
    nics = {rail["gpu"]: names[rail["nic"]] for rail in facts["rails"] if rail["nic"] in names}
    return Place(host, node, len(facts["gpus"]), nics)


def gpus_in(text: str) -> list[Json]:
    """Return the GPUs that an exporter tells of: ``gpu`` (its number), ``pci``, ``model``, ``pods`` and the fields.

    Instances of MIG are one GPU: the largest of their values counts. What is no sample is passed over; an exporter is a
    stranger, so no more than ``_MOST_GPUS`` are kept.
    """
    found: dict[str, Json] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        name = _NAMES.get(sample[1]) if sample else None
        value = _number(sample[3]) if sample else None
        if sample is None or name is None or value is None:
            continue
        labels = dict(_LABEL.findall(sample[2]))
        key = labels.get("UUID") or labels.get("gpu") or ""
        if key not in found and len(found) == _MOST_GPUS:
            continue
        gpu = found.setdefault(key, _gpu(labels))
        pod = "/".join(labels[each] for each in ("namespace", "pod") if labels.get(each))
        if pod and one_line(pod) not in gpu["pods"]:
            gpu["pods"].append(one_line(pod))
        gpu[name] = max(value, gpu[name] or 0)
    return sorted(found.values(), key=lambda gpu: natural_key(gpu["gpu"]))


def _gpu(labels: Mapping[str, str]) -> Json:
    bus = _BUS_ID.fullmatch((labels.get("pci_bus_id") or "").lower())
    return {
        "gpu": one_line(labels.get("gpu") or ""),
        "pci": f"{bus[1]}:{bus[2]}" if bus else None,
        "model": one_line(labels.get("modelName") or ""),
        "pods": [],
        **dict.fromkeys(_NAMES.values()),
    }


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # DCGM gives what it cannot tell as numbers near the largest of 32 or 64 bits (dcgm_structs.h, DCGM_INT32_BLANK).
    if not math.isfinite(value) or not 0 <= value < 0x7FFFFFF0:
        return None
    return int(value) if value == int(value) else value


def gpus_state(
    places: Sequence[Place],
    texts: Mapping[str, str],
    silent: Mapping[str, str],
    unread: str,
    counters: Mapping[str, Any] | None,
) -> Json:
    """Return what exporters told of GPUs, by node, with the errors of the NIC of each one's rail.

    ``texts`` are the exporters' by node, ``silent`` why a node's has none, ``unread`` why no more were asked;
    ``counters`` is the state of the counters of ports (None: not asked for). Nodes with GPUs and no exporter are
    ``without``.
    """
    of_ports = _errors_of_ports(counters)
    nodes = []
    for place in sorted(places, key=lambda each: natural_key(each.node)):
        if place.node in texts:
            gpus, errors = gpus_in(texts[place.node]), of_ports.get(place.host, {})
            for gpu in gpus:
                gpu["nic"] = place.nics.get(gpu["pci"])
                gpu["nic_errors"] = errors.get(gpu["nic"], [])
            served = {gpu["nic"] for gpu in gpus}
            others = {device: errors[device] for device in sorted(errors) if device not in served}
            nodes.append({"node": place.node, "host": place.host, "gpus": gpus, "other_nics": others})
    waited = {*texts, *silent}
    return {
        "nodes": nodes,
        "silent": [{"node": node, "why": silent[node]} for node in sorted(silent, key=natural_key)],
        "without": [] if unread else [each.node for each in places if each.gpus and each.node not in waited],
        "unread": unread,
    }


def _errors_of_ports(counters: Mapping[str, Any] | None) -> dict[str, dict[str, list[Json]]]:
    """Return the errors by host and device; of those compared with an earlier reading, the ones that rose."""
    found: dict[str, dict[str, list[Json]]] = {}
    for entry in (counters or {}).get("found", ()):
        for port in entry["ports"] if entry["kind"] != LOAD else ():
            if port["rise"] != 0:
                error = {"counter": entry["counter"], "value": port["value"], "rise": port["rise"]}
                found.setdefault(port["host"], {}).setdefault(port["device"], []).append(error)
    return found


def gpu_lines(state: Mapping[str, Any] | None) -> list[str]:
    """Return the lines of the screen about GPUs and the NICs beside them, none where they were not asked for."""
    if state is None:
        return []
    count = sum(len(node["gpus"]) for node in state["nodes"])
    lines = [f"telemetry: {counted(count, 'GPU')} of {counted(len(state['nodes']), 'node')}"]
    told = [line for node in state["nodes"] for line in _lines_of(node)]
    lines += told[:_MOST_LINES] or (["  no errors"] if count else [])
    lines += (
        [f"  {counted(len(told) - _MOST_LINES, 'more line')}, all in the status file"] if told[_MOST_LINES:] else []
    )
    if state["without"]:
        lines.append(f"  no DCGM exporter: {_listed(state['without'])}")
    silent = [f"{each['node']} ({each['why']})" for each in state["silent"]]
    lines += [f"  no answer: {_listed(silent)}"] if silent else []
    return [*lines, *([f"  not read: {one_line(state['unread'])}"] if state["unread"] else [])]


def _lines_of(node: Mapping[str, Any]) -> Iterable[str]:
    for gpu in node["gpus"]:
        errors = [f"{words} {gpu[name]:g}" for name, words in ERRORS.values() if gpu[name]]
        beside = f"; {gpu['nic']}: {_errors(gpu['nic_errors'])}" if gpu["nic_errors"] else ""
        if errors or beside:
            pods = f" ({_listed(gpu['pods'])})" if gpu["pods"] else ""
            yield f"  {one_line(node['node'])} GPU {gpu['gpu']}{pods}: {', '.join(errors) or 'no errors'}{beside}"
    for device, found in node["other_nics"].items():
        yield f"  {one_line(node['node'])} {device}: {_errors(found)}"


def _errors(found: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{each['counter']} {each['value']}" + (f" (+{each['rise']})" if each["rise"] else "") for each in found
    )


def _listed(names: Sequence[str]) -> str:
    return named([one_line(name) for name in names], _MOST_NAMED)
