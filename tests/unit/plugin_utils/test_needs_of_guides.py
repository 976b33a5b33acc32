# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of each guide for a kind of network, held against hosts with RoCE, InfiniBand, VFs alone and a bond."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import assess
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import held
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from tools.checkout import CHECKOUT

CHECK = Run(check=True, diff=False, mode="preview", recorded=True)
ROCE, INFINIBAND, VFS = "roce-h100-01", "dgx-h100-01", "vm-vf-01"
PREFIX = "rdma_fabric_"


def inventory(guide: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of hosts and of localhost of the first inventory that a guide prints."""
    text = (CHECKOUT / "docs" / f"guide-{guide}.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    group = next(block for block in blocks if isinstance(block, dict) and "ungrouped" in block)
    return group["rdma_fabric"].get("vars") or {}, group["ungrouped"]["hosts"]["localhost"]


def document(guide: str, host: str, bond: str = "") -> tuple[Any, Any]:
    """Return the FabricSpec of a guide's inventory with one recorded host, and what a run knows of that host."""
    of_hosts, of_controller = inventory(guide)
    desired = parse_host_variables(host, {key: value for key, value in of_hosts.items() if key.startswith(PREFIX)})
    variables = {key[len(PREFIX) :]: value for key, value in of_controller.items() if key.startswith(PREFIX)}
    # Subnets by templates, which only Ansible evaluates.
    for number, pool in enumerate(variables.get("cidr_pools", {}).values()):
        pool["cidr"] = f"10.{number}.0.0/20"
    spec, _notices = build_spec([], variables, {}, {host: desired})
    seen = assess(RecordedHost(FLEET[host]().document()), check_spec(spec["hosts"][host]), CHECK, None)
    facts: Any = seen.facts
    # A recording of a bond that is one of RoCE ports does not exist here.
    for netdev in facts["netdevs"] if bond else ():
        netdev["master"] = bond if netdev["pci"] == "0000:18:00.0" else netdev["master"]
    return spec, {"host": host, "desired": spec["hosts"][host], "facts": facts, "plan": seen.plan}


def judged(guide: str, host: str, bond: str = "") -> Any:
    spec, read = document(guide, host, bond)
    return held(spec, [read])


NO_ETHERNET = "it is InfiniBand on dgx-h100-01"
NONE = "ports with RDMA are 101e (mlx5_core, ether)"


@pytest.mark.parametrize(
    ("guide", "host", "bond", "unmet", "devices"),
    [
        ("roce-shared", ROCE, "", [], "resource rdma/rail0: 1 device on 1 host"),
        ("roce-shared", INFINIBAND, "", [NO_ETHERNET], "resource rdma/rail0: 1 device on 1 host"),
        ("roce-shared", VFS, "", [NONE], "resource rdma/rail0: 0 on vm-vf-01"),
        ("roce-shared", ROCE, "bond0", ["it belongs to bond0"], "resource rdma/rail0: 1 device on 1 host"),
        ("multirail", ROCE, "", [], "resources rdma/rail0, rdma/rail1: 1 device on 1 host"),
        ("multirail", INFINIBAND, "", [NO_ETHERNET] * 2, "resources rdma/rail0, rdma/rail1: 1 device on 1 host"),
        ("multirail", VFS, "", [NONE] * 2, "resources rdma/rail0, rdma/rail1: 0 on vm-vf-01"),
        ("multirail", ROCE, "bond0", ["it belongs to bond0"], "resources rdma/rail0, rdma/rail1: 1 device on 1 host"),
        ("sriov", ROCE, "", [], "resource nvidia.com/rail0_vf: 8 devices on 1 host"),
        ("sriov", INFINIBAND, "", [NO_ETHERNET], "resource nvidia.com/rail0_vf: 8 devices on 1 host"),
        ("sriov", VFS, "", [NONE], "resource nvidia.com/rail0_vf: 0 on vm-vf-01"),
        ("sriov", ROCE, "bond0", [], "resource nvidia.com/rail0_vf: 8 devices on 1 host"),
        ("host-device", ROCE, "", [], "resource nvidia.com/hostdev: 8 devices on 1 host"),
        ("host-device", INFINIBAND, "", [], "resource nvidia.com/hostdev: 8 devices on 1 host"),
        ("host-device", VFS, "", [NONE], "resource nvidia.com/hostdev: 0 on vm-vf-01"),
        ("host-device", ROCE, "bond0", [], "resource nvidia.com/hostdev: 8 devices on 1 host"),
        ("ipoib", ROCE, "", ["it is Ethernet", "no port of 1 host fits"], "resource rdma/rail0_ib: 0 on roce-h100-01"),
        ("ipoib", INFINIBAND, "", [], "resource rdma/rail0_ib: 1 device on 1 host"),
        ("ipoib", VFS, "", [NONE], "resource rdma/rail0_ib: 0 on vm-vf-01"),
    ],
)
def test_a_guide_is_judged_on_each_kind_of_host(
    guide: str, host: str, bond: str, unmet: list[str], devices: str
) -> None:
    """No host lacks a module: the plan loads those that device plugins and networks need."""
    found = judged(guide, host, bond)
    assert found.devices == [devices]
    assert (
        [words in text for words, text in zip(unmet, found.unmet)] == [True] * len(unmet) == [True] * len(found.unmet)
    )
