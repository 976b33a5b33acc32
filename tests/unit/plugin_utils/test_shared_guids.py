# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GUIDs of the VFs of several hosts."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.values import shared_guids
from ansible_collections.rdma.fabric.tests.unit._host.families import PF

RANGE = {"first": "02:11:22:33:44:55:66:00", "last": "02:11:22:33:44:55:66:07"}


def test_two_hosts_share_no_guid() -> None:
    def desired(**entry: Any) -> HostSpec:
        return parse_host_variables("x", {"rdma_fabric_interfaces": [{"pci": PF, "vfs": 2, **entry}]})[0]

    apart = {"first": "02:11:22:33:44:55:66:08", "last": "02:11:22:33:44:55:66:0f"}
    hosts = {"a": desired(vf_guids=RANGE), "b": desired(vf_guids=apart), "c": desired(vf_guids="deterministic")}
    assert shared_guids(hosts) == {}
    hosts["d"] = desired(vf_guids=[RANGE["last"], apart["first"]])
    found = shared_guids(hosts)
    assert list(found) == ["d"]
    assert [f"which host {host} gives" in found["d"][index].problem for index, host in enumerate("ab")] == [True, True]
    hosts["e"] = desired(vf_guids={"1": [apart["last"]]})
    assert "which host b gives" in shared_guids(hosts)["e"][0].problem
