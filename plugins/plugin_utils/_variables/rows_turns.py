# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of runs that take hosts in turn: how many at once, which first, and the consents of a teardown."""

from __future__ import annotations

from .variable import HOST, Variable

TURNS = ("playbook rollback", "playbook teardown", "playbook upgrade")
_TEARDOWN = ("playbook teardown",)

ROWS = (
    Variable(
        "max_unavailable",
        "str",
        (
            "How many nodes may be out of service at once while C(rdma.fabric.upgrade) or C(rdma.fabric.teardown) "
            "works on them, a number, or a percentage such as V(10%) of the hosts of the fabric; V(0) is no limit. "
            "Parallel runs share it.",
            "Without it C(ofedDriver.upgradePolicy) decides, and it is one where a host has no policy or is not "
            "drained.",
        ),
        ("preflight", *TURNS),
        asked=True,
    ),
    Variable(
        "failure_domain",
        "str",
        (
            "Key of the label of nodes that says in which failure domain a node is, such as "
            "C(topology.kubernetes.io/zone) or a label of racks. With it no more than "
            "C(rdma_fabric_max_unavailable_per_domain) nodes of one domain are out of service at once, whichever runs "
            "work on them.",
            "Nodes without the label are in no domain.",
        ),
        ("preflight", *TURNS),
        asked=True,
    ),
    Variable(
        "max_unavailable_per_domain",
        "str",
        (
            "How many nodes of one failure domain (C(rdma_fabric_failure_domain)) may be out of service at once, a "
            "number, or a percentage of the domain's hosts, rounded up; V(0) is no limit. One unless given.",
        ),
        ("preflight", *TURNS),
        asked=True,
    ),
    Variable(
        "canaries",
        "str",
        (
            "Pattern of the hosts that C(rdma.fabric.upgrade) or C(rdma.fabric.teardown) works on before the others. "
            "One that fails keeps the others from being touched.",
        ),
        TURNS,
        asked=True,
    ),
    Variable(
        "allow_teardown",
        "bool",
        (
            "Consent to what C(rdma.fabric.teardown) does, which is to take hosts and the cluster side back to what "
            "they were before the first run. Without it that playbook refuses to begin, unless with C(--check).",
        ),
        _TEARDOWN,
        default=False,
        asked=True,
    ),
    Variable(
        "allow_teardown_in_use",
        "bool",
        ("Consent to remove the cluster side while pods still use its networks or devices.",),
        _TEARDOWN,
        default=False,
        asked=True,
    ),
    Variable(
        "delete_definitions",
        "bool",
        (
            "Whether C(rdma.fabric.teardown) deletes the Namespaces and CustomResourceDefinitions of the set too, with "
            "everything in them, whoever made it.",
        ),
        _TEARDOWN,
        default=False,
        asked=True,
    ),
    Variable(
        "host_timeout",
        "int",
        (
            "Seconds within which a host has to answer, each time that it is read or changed. The time in which it "
            "builds a driver counts. One that does not answer has failed; V(0) is no limit.",
        ),
        ("host",),
        HOST,
        default=3600,
        least=0,
        unit="seconds",
    ),
    Variable(
        "slot_timeout",
        "int",
        ("Seconds that a node waits for its slot while no other node comes to its end, V(0) without limit.",),
        ("host/upgrade",),
        default=7200,
        least=0,
        unit="seconds",
    ),
)
