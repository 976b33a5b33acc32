# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VLANs keep their MTU although a running NetworkManager gives them that of the bond below.

A booted host with NetworkManager 1.52 ended with a bond and its VLAN at 9000, where 8900 was asked of the VLAN. The
rule is parent_mtu_maybe_changed of NetworkManager's nm-device-vlan.c.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import apply as boot_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import plan as boot_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Found, PutFile, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.network_manager import OWN_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given

VLAN = "bond0.100"
RELOAD = Run(("nmcli", "general", "reload", "conf"))


def context(managed: dict[str, bool]) -> Context:
    """A bond and a VLAN of NetworkManager that shall have an MTU each; ``managed`` is what it says while it runs."""
    facts: Any = given.two_ports()
    facts["netdevs"] += [given.netdev(name, None, kind=kind, port_name=None) for name, kind in (("bond0", "bond"),)]
    facts["netdevs"].append(given.netdev(VLAN, None, kind="vlan", port_name=None))
    facts["boot"]["managers"] = {
        "NetworkManager": {"managed": managed, "unmanaged": [], "no_default": [], "profiles": []}
    }
    desired = given.desired(
        given.interface(current_name="bond0", mtu=9000), given.interface(current_name=VLAN, mtu=8900)
    )
    actual = HostState(facts)
    interfaces, _unmatched = match_interfaces(desired["interfaces"], actual)
    return Context(desired, actual, interfaces)


def file_step(found: Context) -> Step:
    (step,) = (step for step in boot_plan.plan(found)[0] if step["target"] == OWN_FILE)
    return step


def of_mtu(mtu: int) -> RecordedHost:
    return RecordedHost({"files": {f"/sys/class/net/{VLAN}/mtu": f"{mtu}\n"}})


def test_network_manager_reads_the_mtu_of_a_vlan_and_what_it_set_meanwhile_is_taken_back() -> None:
    found = context({"bond0": True, VLAN: True})
    step = file_step(found)
    assert f"until then it gives {VLAN} the MTU of the device below" in step["detail"]
    work = boot_apply.work(found, step)
    written, read, back = work.do
    assert isinstance(written, PutFile)
    assert written.path == OWN_FILE
    assert read == RELOAD
    assert isinstance(back, Found)
    assert back.operations(of_mtu(9000)) == [Run(("ip", "link", "set", "dev", VLAN, "mtu", "8900"))]
    assert back.operations(of_mtu(8900)) == []
    assert work.undo[-1] == RELOAD


@pytest.mark.parametrize("managed", [{}, {"bond0": True}, {"bond0": True, VLAN: False}])
def test_a_network_manager_that_does_not_run_or_has_no_vlan_is_left_alone(managed: dict[str, bool]) -> None:
    found = context(managed)
    step = file_step(found)
    assert step["detail"] == ""
    assert [type(operation) for operation in boot_apply.work(found, step).do] == [PutFile]
