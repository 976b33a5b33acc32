# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows of a report: grouped, counted and cut to a level of detail. Pure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._report.cluster import ACTIONS
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import (
    STEP_STATUSES,
    counted,
    natural_key,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.remarks import ATTENTION
from ansible_collections.rdma.fabric.plugins.module_utils._report.report import of_this_run
from ansible_collections.rdma.fabric.plugins.module_utils._report.topology import carries_rdma, tree_devices

from .drawing import drawings
from .needs import needs_view
from .proof import nccl_view, proof_view
from .rails import rails_view
from .rollout import rollout_view

_OF_SEVERAL = {"needs_consent": "need consent", "needs_reboot": "need reboot"}
TAKES_HOLD = {"now": "now", "boot": "at boot", "now+boot": "now and at boot"}
STACKS = {"mlnx-ofed": "MLNX_OFED", "doca-ofed": "DOCA-OFED"}
VERDICT_WORDS = {"attention": "Needs attention", "pending": "Waits for you", "settled": "Settled"}
_CHANGED = ("created", "configured", "deleted")
_OPEN_ENTRIES = 12
_OPEN_RAILS = 40
# By what the page can be asked to show only some of its hosts.
_STATES = {
    "attention": "with remarks",
    "refused": "with refused steps",
    "needs_consent": "that wait for consent",
    "needs_reboot": "that need a reboot",
    "steps": "with steps",
    "settled": "with nothing to do",
}
# What the table does not show of a host beside its name, or what the plans say better.
_OF_ONE_HOST = ("name", "hostname", "machine", "recorded", "uplinks", "labels", "executed", "plan_digest")
# Rows of the fleet that are shown unfolded.
_OPEN_HOSTS = 60


@dataclass(frozen=True)
class Detail:
    """How much of a report fits on the page; everything left out is counted there and stands in ``report.json``.

    ``text`` and ``name`` are characters, all others are numbers of entries; ``rails`` are rows of the grid of rails,
    ``steps`` is per plan, ``remark_hosts`` per kind of remark, ``objects`` per wave, ``pairs`` and ``matrix`` (nodes on
    an edge) per network of the fabric test.
    """

    text: int
    name: int
    hosts: int
    rails: int
    classes: int
    plans: int
    steps: int
    remark_hosts: int
    devices: int
    objects: int
    images: int
    notices: int
    pairs: int
    matrix: int


# The first level whose page stays under the limit is used. The last one fits whatever a fleet or a hostile host says.
LEVELS = (
    Detail(400, 72, 1500, 400, 24, 60, 120, 120, 16, 400, 200, 200, 60, 24),
    Detail(240, 64, 1200, 300, 14, 24, 60, 60, 10, 200, 120, 120, 40, 24),
    Detail(160, 48, 1000, 200, 8, 10, 40, 40, 6, 100, 60, 60, 24, 24),
    Detail(80, 32, 200, 100, 4, 4, 30, 20, 4, 50, 30, 30, 12, 16),
)


def page_view(report: dict[str, Any], detail: Detail) -> dict[str, Any]:
    """Return what the template prints, cut to ``detail``."""
    groups = _remark_groups(report, detail)
    return {
        "report": report,
        "summary": report["summary"],
        "verdict": VERDICT_WORDS[report["summary"]["verdict"]],
        "headline": _sentence(report["summary"]["headline"]).split(", "),
        "statuses": STEP_STATUSES,
        "takes_hold": TAKES_HOLD,
        "stacks": STACKS,
        "tiles": _tiles(report["summary"]),
        "remarks": [group for group in groups if group["severity"] == ATTENTION],
        "remark_notes": [group for group in groups if group["severity"] != ATTENTION],
        "fleet": _fleet(report["hosts"], detail),
        "classes": _classes(report["topologies"], detail),
        "plans": _plans(report["plans"], detail),
        "waves": _waves(report["cluster"]["waves"], detail),
        "waits": _cut(report["cluster"]["waits"], detail.objects),
        "needs": needs_view(of_this_run(report)),
        "rails": rails_view(report["hosts"], report["remarks"], detail.rails, _OPEN_RAILS),
        "rollout": rollout_view(report["rollout"], detail.hosts),
        "proof": proof_view(report["validation"], detail.pairs, detail.matrix, detail.hosts),
        "nccl": nccl_view(report["nccl"], detail.pairs),
        "images": _cut(report["images"], detail.images),
        "notices": _cut(report["notices"], detail.notices),
        "not_done": report["summary"]["not_done"],
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def words(state: str, count: int = 1) -> str:
    """Return a state in words, such as the status of a step; of so many of them."""
    spoken = state.replace("_", " ")
    return spoken if count == 1 else _OF_SEVERAL.get(state, spoken)


def _cut(entries: list[Any], limit: int) -> dict[str, Any]:
    return {"entries": entries[:limit], "more": max(0, len(entries) - limit)}


def _fleet(hosts: list[dict[str, Any]], detail: Detail) -> dict[str, Any]:
    """Return the rows of the fleet's table: equal hosts in one, those that need attention first."""
    ordered = sorted(hosts, key=lambda host: (_urgency(host), natural_key(host["name"])))
    alike = _alike(ordered, lambda host: {key: value for key, value in host.items() if key not in _OF_ONE_HOST})
    rows = [
        {
            **members[0],
            "hosts": [member["name"] for member in members],
            "states": _states(members[0]),
            "rails_up": sum(rail["link"] == "up" for rail in members[0]["rails"]),
        }
        for members in alike
    ]
    shown = rows[: detail.hosts]
    return {
        "states": [(state, whose) for state, whose in _STATES.items() if any(state in row["states"] for row in shown)],
        "open": shown[:_OPEN_HOSTS],
        "folded": shown[_OPEN_HOSTS:],
        "more_folded": sum(len(row["hosts"]) for row in shown[_OPEN_HOSTS:]),
        "more": sum(len(row["hosts"]) for row in rows[detail.hosts :]),
    }


def _alike(entries: Iterable[dict[str, Any]], told: Callable[[dict[str, Any]], Any]) -> list[list[dict[str, Any]]]:
    """Return entries of which the same is told together, in the order of the first of each."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(json.dumps(told(entry), sort_keys=True), []).append(entry)
    return list(groups.values())


def _states(host: dict[str, Any]) -> list[str]:
    """Return by which of ``_STATES`` a host is found."""
    steps = host["steps"]
    found = {
        "attention": host["remarks"]["attention"],
        **{status: steps[status] for status in ("refused", "needs_consent", "needs_reboot")},
        "steps": steps["total"],
        "settled": not steps["total"],
    }
    return [state for state in _STATES if found[state]]


def _urgency(host: dict[str, Any]) -> int:
    """Return where a host stands among others: refused steps and remarks, consents, reboots, other steps, the rest."""
    steps = host["steps"]
    needs = (steps["refused"] or host["remarks"]["attention"], steps["needs_consent"], steps["needs_reboot"])
    return next((place for place, count in enumerate((*needs, steps["total"])) if count), len(needs) + 1)


def _tiles(summary: dict[str, Any]) -> list[dict[str, Any]]:
    hosts, nics, rails = summary["hosts"], summary["nics"], summary["rails"]
    steps, objects, waits = summary["steps"], summary["objects"], summary["waits"]
    down = rails["total"] - rails["up"]
    virtual = f"and {counted(nics['virtual'], 'VF')}" if nics["virtual"] else "PFs"
    tiles = [
        _tile("Hosts", hosts["total"], f"{hosts['recorded']:,} from recordings" if hosts["recorded"] else "read live"),
        _tile("GPUs", summary["gpus"], "in all hosts"),
        _tile("NICs", nics["physical"], virtual),
        _tile("Rails", rails["total"], "", [("up", rails["up"]), ("down", down)]),
        _tile("Steps", steps["total"], "", [(status, steps[status]) for status in STEP_STATUSES]),
        _tile("Objects", objects["total"] - objects["deleted"], "", [(action, objects[action]) for action in ACTIONS]),
    ]
    if waits["total"]:
        lame = waits["total"] - waits["ready"]
        parts = [("ready", waits["ready"]), ("not_ready", lame)]
        tiles.append(_tile("Workloads", waits["total"], "", parts))
    pairs = summary["pairs"]
    if pairs:
        kinds = [(verdict, pairs[verdict]) for verdict in ("pass", "reported", "skipped", "fail")]
        tiles.append(_tile("Pairs", pairs["total"], "", kinds))
    return tiles


def _tile(title: str, value: int, note: str, parts: list[tuple[str, int]] | None = None) -> dict[str, Any]:
    known = [{"name": name, "words": words(name, count), "count": count} for name, count in parts or [] if count]
    return {"title": title, "value": value, "note": note, "parts": known}


def _remark_groups(report: dict[str, Any], detail: Detail) -> list[dict[str, Any]]:
    earlier = {row["name"] for row in report["hosts"] if row["earlier"]}
    grouped: dict[str, list[dict[str, Any]]] = {}
    for remark in report["remarks"]:
        grouped.setdefault(remark["kind"], []).append(remark)
    groups = []
    # The remarks are in the order of their weight, also in a report that was read from a file; its keys are not.
    for kind, members in grouped.items():
        text = report["remark_kinds"][kind]
        alike = _alike(members, lambda remark: [remark["devices"], remark["host"] in earlier])
        entries = [
            {
                "hosts": [remark["host"] for remark in remarks],
                "earlier": remarks[0]["host"] in earlier,
                "sightings": _sightings(remarks[0]["devices"], detail),
            }
            for remarks in alike[: detail.remark_hosts]
        ]
        more = sum(map(len, alike[detail.remark_hosts :]))
        groups.append({**text, "count": len(members), "entries": entries, "more": more})
    return groups


def _sightings(devices: list[dict[str, str]], detail: Detail) -> dict[str, Any]:
    """Group the devices of a remark by what was seen, so that a sentence is not said once for each of them."""
    grouped: dict[str, list[dict[str, str]]] = {}
    for device in devices:
        grouped.setdefault(device["seen"], []).append(device)
    groups = [{"seen": seen, "devices": _cut(members, detail.devices)} for seen, members in grouped.items()]
    return _cut(groups, detail.devices)


def _classes(topologies: list[dict[str, Any]], detail: Detail) -> dict[str, Any]:
    """Return the classes that are drawn; hosts without devices and classes beyond the limit are only counted."""
    with_devices = [entry for entry in topologies if carries_rdma(entry["numa"])]
    empty = [name for entry in topologies if not carries_rdma(entry["numa"]) for name in entry["hosts"]]
    drawn = []
    for entry in with_devices[: detail.classes]:
        devices = tree_devices(entry["numa"])
        gpus = sum(device["type"] == "gpu" for device in devices)
        rails = {rail for device in devices for rail in device["rails"]}
        facts = [counted(gpus, "GPU"), counted(len(devices) - gpus, "NIC port"), counted(len(rails), "rail")]
        drawn.append(
            {
                **entry,
                "number": entry["id"].replace("class-", ""),
                "like_number": (entry["like"] or "").replace("class-", ""),
                "facts": ", ".join(facts),
                "differences": _cut(entry["differences"], detail.devices),
                "drawings": drawings(entry["numa"]),
            }
        )
    return {"drawn": drawn, "more": len(with_devices) - len(drawn), "empty": empty}


def _plans(plans: list[dict[str, Any]], detail: Detail) -> dict[str, Any]:
    with_steps = [plan for plan in plans if plan["steps"]]
    few = sum(len(plan["steps"]) for plan in with_steps) <= _OPEN_ENTRIES
    shown = []
    for plan in with_steps[: detail.plans]:
        found = Counter(step["concern"] for step in plan["steps"])
        shown.append(
            {
                **plan,
                "concerns": [(concern.replace("_", " "), found[concern]) for concern in found],
                "parts": [(status, plan["counts"][status]) for status in STEP_STATUSES],
                "cut": _cut(plan["steps"], detail.steps),
                "open": few,
            }
        )
    settled = [name for plan in plans if not plan["steps"] for name in plan["hosts"]]
    return {"shown": shown, "more": len(with_steps) - len(shown), "settled": settled}


def _waves(waves: list[dict[str, Any]], detail: Detail) -> list[dict[str, Any]]:
    shown = []
    few = sum(len(wave["objects"]) for wave in waves) <= _OPEN_ENTRIES
    for wave in waves:
        found = Counter(item["action"] for item in wave["objects"])
        shown.append(
            {
                "name": wave["name"],
                "count": len(wave["objects"]),
                "counts": [(action, found[action]) for action in ACTIONS if found[action]],
                "open": few or any(found[action] for action in _CHANGED),
                **_cut(wave["objects"], detail.objects),
            }
        )
    return shown
