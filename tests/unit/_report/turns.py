# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns of hosts as a run keeps them, for tests of the report and its page."""

from __future__ import annotations

from typing import Any

OLD = {"driver": "mlnx-ofed 24.07", "kernel": "5.15.0-100", "firmware": ["28.39.1002"]}
NEW = {"driver": "doca-ofed 25.04", "kernel": "5.15.0-119", "firmware": ["28.43.1014"]}
STAGES = (("drain", 24.0), ("change", 190.0), ("reboot", 240.0), ("verify", 12.0), ("give_back", 20.0))


def turn(host: str, began: float = 0.0, *, scale: float = 1.0, **changes: Any) -> dict[str, Any]:
    """Return a turn that took 490 seconds by ``scale``, of which its stages took 486."""
    at, stages = 1.0, []
    for stage, seconds in STAGES:
        stages.append({"stage": stage, "at": at, "seconds": seconds * scale, "failed": False})
        at += seconds * scale
    return {
        "format": "rdma.fabric/turn/v1",
        "host": host,
        "node": host,
        "run": "admin@controller-1",
        "slot": "rdma-fabric-slot-upgrade-0",
        "domain": "",
        "began": 1767225600.0 + began,
        "waited": 0.0,
        "stages": stages,
        "seconds": at + 3.0,
        "end": "given_back",
        "reason": "",
        "state": "present",
        "before": OLD,
        "after": NEW,
        "refusals": [],
        **changes,
    }
