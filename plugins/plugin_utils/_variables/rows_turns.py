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
            "Without it C(ofedDriver.upgradePolicy) decides; it is one if a host has no policy or is not drained.",
        ),
        ("preflight", *TURNS),
        asked=True,
    ),
    Variable(
        "failure_domain",
        "str",
        (
            "Key of the node label that names the failure domain of a node, such as C(topology.kubernetes.io/zone) "
            "or a label of racks. With it at most C(rdma_fabric_max_unavailable_per_domain) nodes of one domain are "
            "out of service at once, across all runs.",
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
            "number, or a percentage of the domain's hosts, rounded up; V(0) is no limit. The default is one.",
        ),
        ("preflight", *TURNS),
        asked=True,
    ),
    Variable(
        "canaries",
        "str",
        (
            "Pattern of the hosts that C(rdma.fabric.upgrade) or C(rdma.fabric.teardown) works on before the others. "
            "If one fails, the others are not touched.",
        ),
        TURNS,
        asked=True,
    ),
    Variable(
        "allow_teardown",
        "bool",
        (
            "Consent to C(rdma.fabric.teardown), which restores hosts and the cluster to their state before the "
            "first run. Without it that playbook refuses to begin, except with C(--check).",
        ),
        _TEARDOWN,
        default=False,
        asked=True,
    ),
    Variable(
        "allow_teardown_in_use",
        "bool",
        ("Consent to remove the cluster objects while pods still use its networks or devices.",),
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
            "Seconds within which a host has to answer, each time that it is read or changed, including the time to "
            "build a driver. A host that does not answer has failed; V(0) is no limit.",
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
        ("Seconds that a node waits for its slot while no other node finishes, V(0) without limit.",),
        ("host/upgrade",),
        default=7200,
        least=0,
        unit="seconds",
    ),
)


_REBOOT = ("host/reboot",)


def _hook(stage: str, *meaning: str, readers: tuple[str, ...] = _REBOOT) -> Variable:
    """Return the variable of the task files that are run at a stage of a host's turn."""
    return Variable(f"hooks_{stage}", "list", meaning, readers, HOST, elements="path", on_controller=True)


HOOKS = (
    _hook(
        "before_drain",
        "Task files, by their full paths on the controller, that run for a host before its node is drained. If one "
        "fails, the host fails and nothing is drained.",
    ),
    _hook(
        "after_drain",
        "The same once the node is drained and before the host is changed, reloaded or rebooted. The node stays "
        "cordoned when one fails.",
    ),
    _hook(
        "changed",
        "The same once the host is changed, and rebooted if needed, before its node is uncordoned. If one fails, for "
        "example your own test, the node stays cordoned, and in an upgrade its host is rolled back.",
    ),
    _hook("verified", "The same once the node takes pods again, before its slot is released."),
    _hook(
        "failed",
        "The same for a host whose turn has failed, before it is rolled back.",
        readers=("host/upgrade",),
    ),
    _hook(
        "rolled_back",
        "The same once a host whose turn has failed was rolled back, or could not be.",
        readers=("host/upgrade",),
    ),
)
_LIMIT = Variable(
    "hook_timeout",
    "int",
    (
        "Seconds that each task of a hook may take, V(0) without limit. A task that takes longer is ended and fails "
        "its host. The task's own C(timeout) takes precedence.",
    ),
    ("host/hook",),
    HOST,
    default=600,
    least=0,
    unit="seconds",
)
HOOK_ROWS = (*HOOKS, _LIMIT)
