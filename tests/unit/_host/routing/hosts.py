# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with one port for routes and rules, what is asked of it, and runs over it in the simulated kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, NETDEVS, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import booted

PORT = NETDEVS[ETHERNET]
OURS = ("naming", "link", "routing", "leftovers")
APPLY: Run = replace(igb.APPLY, concerns=OURS)
REMOVE: Run = replace(igb.REMOVE, concerns=OURS)
CHECKED: Run = replace(igb.CHECK, concerns=OURS)
STEP = f"routing:{PF}"
IPV4 = {"to": "10.2.0.0/16", "via": "10.1.0.1", "table": 101}
LINK = {"to": "10.1.0.0/24", "table": 101}
IPV6 = {"to": "fd00:2::/64", "via": "fd00:1::1", "table": 101}
RULE = {"from": "10.1.0.0/24", "table": 101}
RULE6 = {"from": "fd00:1::/64", "table": 101, "priority": 20000}
ALL: dict[str, Any] = {"routes": [IPV4, LINK, IPV6], "rules": [RULE, RULE6]}
STATIC = "4"


def wish(variables: dict[str, Any] | None = None, rules: Any = None, **entry: Any) -> HostSpec:
    """What is asked of the one port; ``rules`` are those of routing-policy."""
    desired = {"pci": PF, "routing-policy": rules, **entry}
    return igb.wish(desired, **(variables or {}))


def host(*addresses: str) -> Kernel:
    kernel = booted()
    routes.give_address(kernel, PORT, *(addresses or ("10.1.0.2/24", "fd00:1::2/64")))
    return kernel


def applied(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    return mlx5.applied(kernel, desired, run)


def done(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    return mlx5.done(kernel, desired, run)


def ip(kernel: Kernel, line: str) -> None:
    """Do as somebody else would."""
    result = kernel.run(["ip", *line.split()], 30.0)
    assert result.rc == 0, result.stderr
    kernel.revive()


def commands(kernel: Kernel) -> list[str]:
    return [line for line in igb.what_changed(kernel) if line.startswith("run ip ")]


def told(kernel: Kernel, name: str = PORT) -> list[str]:
    """The routes of an interface and all rules, with their protocols."""
    found = [
        f"{route['to']} via {route['via']} table {route['table']} metric {route['metric']} proto {route['protocol']}"
        for route in routes.routes(kernel, name)
    ]
    return found + [
        "from {from} to {to} table {table} priority {priority} proto {protocol}".format(**rule)
        for rule in routes.rules(kernel)
    ]


EVERYTHING = [
    "10.1.0.0/24 via None table 101 metric 0 proto 173",
    "10.2.0.0/16 via 10.1.0.1 table 101 metric 0 proto 173",
    "fd00:2::/64 via fd00:1::1 table 101 metric 1024 proto 173",
    "from 10.1.0.0/24 to None table 101 priority 30000 proto 173",
    "from fd00:1::/64 to None table 101 priority 20000 proto 173",
]
