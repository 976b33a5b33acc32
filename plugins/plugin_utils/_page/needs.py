# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs attention, in a few lines at the top of the page: each with its hosts and a way to its section. Pure."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted
from ansible_collections.rdma.fabric.plugins.module_utils._report.parts import WORDS
from ansible_collections.rdma.fabric.plugins.module_utils._report.remarks import ATTENTION
from ansible_collections.rdma.fabric.plugins.module_utils._report.report import idle_waits
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

MOST = 12


class Need(NamedTuple):
    """One line: ``tone`` is ``bad`` or ``warn``, ``place`` the section; ``note`` follows the hosts, if any."""

    tone: str
    title: str
    place: str
    hosts: list[str]
    note: str = ""


def needs_view(report: dict[str, Any]) -> dict[str, Any]:
    """Return the first lines of what needs attention, faults before consents and reboots, and those that follow."""
    needs = [*_failures(report), *_remarks(report), *_steps(report)]
    return {"entries": needs[:MOST], "more": needs[MOST:]}


def _failures(report: dict[str, Any]) -> Iterator[Need]:
    for part in report["summary"]["failed"]:
        yield Need("bad", f"The {WORDS[part]} failed", "undone", [], "see what was not done, and why")
    proof = report["validation"]
    if proof and proof["counts"]["fail"]:
        # Who is certainly at fault is named before those of whom it is open.
        failed = {each for network in proof["networks"] for each in _failing_nodes(network)}
        hosts = [node for _open, node in sorted(failed)]
        title = f"{counted(proof['counts']['fail'], 'pair')} failed on the wire"
        yield Need("bad", title, "proof", list(dict.fromkeys(hosts)), "; ".join(proof["accused"][:1]))
    odd = [each for each in proof["parity"] if each["verdict"] == "fail"] if proof else []
    if odd:
        nodes = [port.partition("/")[0] for each in odd for port in each["ports"]]
        yield Need("bad", "Ports are not alike", "proof", list(dict.fromkeys(nodes)), odd[0]["says"])
    lame = [wait for wait in report["cluster"]["waits"] if not wait["ready"]]
    if lame:
        yield Need("bad", "Not ready in the cluster", "cluster", [], named([wait["name"] for wait in lame], 3))
    idle = [wait["name"] for wait in idle_waits(report)]
    if idle:
        yield Need("bad", "On no node", "cluster", [], named(idle, 3))
    unknown = report["summary"]["unknown_interfaces"]
    if unknown:
        yield Need("bad", "Unmet needs", "notices", [], named([*map(_interface, unknown)], 2))


def _interface(notice: str) -> str:
    """Return who asks for an interface, and its name: the start of a notice, whose rest is in its section."""
    return ": ".join(notice.split(": ")[:2])


def _failing_nodes(network: dict[str, Any]) -> list[tuple[bool, str]]:
    """Return who is at fault, and whether that is open; where nobody is known to be, both sides of what failed."""
    pairs = (pair for pair in network["pairs"] if pair["verdict"] == "fail")
    at_fault = [(not each["sure"], node) for each in network["accused"] for node in each["nodes"]]
    return at_fault or [(True, node) for pair in pairs for node in (pair["a"], pair["b"])]


def _remarks(report: dict[str, Any]) -> Iterator[Need]:
    hosts: dict[str, list[str]] = {}
    for remark in report["remarks"]:
        if remark["severity"] == ATTENTION:
            hosts.setdefault(remark["kind"], []).append(remark["host"])
    for kind, names in hosts.items():
        yield Need("bad", report["remark_kinds"][kind]["title"], "remarks", names)


def _steps(report: dict[str, Any]) -> Iterator[Need]:
    found: dict[tuple[str, str], list[str]] = {}
    for plan in report["plans"]:
        for status, consent in dict.fromkeys((step["status"], step["consent"]) for step in plan["steps"]):
            key = (status, consent or "" if status == "needs_consent" else "")
            found.setdefault(key, []).extend(plan["hosts"])
    texts = {
        "refused": ("bad", "Steps are refused"),
        "needs_consent": ("warn", "Steps wait for "),
        "needs_reboot": ("warn", "A reboot is needed"),
    }
    for status, (tone, title) in texts.items():
        for (of_status, consent), hosts in found.items():
            if of_status == status:
                spoken = title + (consent or "consent") if status == "needs_consent" else title
                yield Need(tone, spoken, "plans", list(dict.fromkeys(hosts)))
