# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs as the device plugin finds them after a plan, from facts as they leave the host."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import unmet
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.functions import functions_of
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import facts, netdev, nic, with_functions

PF = "0000:18:00.0"
RANGES = {"vfs": 4, "vf_driver": {"2-3": "vfio-pci"}}


def offered(state: Any, selectors: dict[str, Any]) -> list[int]:
    """The numbers of the VFs that a selector finds once the plan of a host is done."""
    desired = check_spec({"interfaces": [{"pci": PF, **RANGES}], "consents": {"vf_reset": True}})
    document = {
        "facts": completed(as_returned(state)),
        "plan": make_plan(desired, copy.deepcopy(state)),
        "desired": desired,
    }
    found = [vf for vf in functions_of(document) if not unmet(selectors, vf, ports_by_name=False)]
    return sorted(vf.number for vf in found if vf.port)


@pytest.mark.parametrize("present", [0, 4])
def test_a_mixed_port_offers_each_vf_with_its_own_driver(present: int) -> None:
    state = facts([nic(PF, "ens1f0")], [netdev("ens1f0", PF)])
    state = with_functions(state, PF, present) if present else state
    for one in state["nics"]:
        one.update(iommu={"group": 7, "type": "DMA"}, rdma=["mlx5_0"])
    assert offered(state, {"pfNames": ["ens1f0#0-3"], "isRdma": True}) == [0, 1]
    assert offered(state, {"pfNames": ["ens1f0"], "drivers": ["vfio-pci"]}) == [2, 3]
    assert offered(state, {"pfNames": ["ens1f0"], "drivers": ["mlx5_core"]}) == [0, 1]


@pytest.mark.parametrize(
    ("port", "of_kernel"),
    [
        ("1021", "101e"),
        ("1017", "1018"),
        ("1017", None),
        ("9999", "101e"),
        ("9999", "999a"),
    ],
)
def test_vfs_to_come_have_an_id_of_their_own(port: str, of_kernel: str | None) -> None:
    state = facts([nic(PF, "ens1f0", device=port)], [netdev("ens1f0", PF)])
    state["nics"][0]["sriov"]["vf_device"] = of_kernel
    assert offered(state, {"devices": [of_kernel or "1018"]}) == [0, 1, 2, 3]
    assert offered(state, {"devices": [port]}) == []
