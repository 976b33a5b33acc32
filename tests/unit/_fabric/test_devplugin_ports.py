# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which functions of a host the SR-IOV device plugin offers, by the rules of its own selectors."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import Function, unmet

PORT = Function("0000:18:00.0", "15b3", "1021", "mlx5_core", "rail0", "ether", is_rdma=True)
VF = PORT._replace(address="0000:18:00.2", device="101e", netdev="rail0v1", port=("rail0", "0000:18:00.0"), number=1)


@pytest.mark.parametrize(
    ("selectors", "port", "function"),
    [
        ({}, True, True),
        ({"vendors": ["15b3"], "isRdma": True, "linkTypes": ["ether"], "drivers": ["mlx5_core"]}, True, True),
        ({"vendors": ["8086"]}, False, False),
        ({"devices": ["101e"]}, False, True),
        ({"drivers": ["vfio-pci"]}, False, False),
        ({"linkTypes": ["infiniband"]}, False, False),
        ({"pciAddresses": ["0000:18:00.0"]}, True, False),
        ({"pfNames": ["rail0"]}, False, True),
        ({"pfNames": ["RAIL0#0-1"]}, False, True),
        ({"pfNames": ["rail0#0,2-7"]}, False, False),
        ({"pfNames": ["rail0#0", "rail0#1"]}, False, False),
        ({"rootDevices": ["0000:18:00.0"]}, False, True),
        ({"rootDevices": ["0000:18:00.0"], "pfNames": ["rail1"]}, False, False),
        ({"acpiIndexes": ["1"]}, False, False),
        ({"vdpaType": "vhost"}, False, False),
    ],
)
def test_every_selector_has_to_let_a_function_through(selectors: Any, port: bool, function: bool) -> None:
    found = [unmet(selectors, each, ports_by_name=False) == [] for each in (PORT, VF)]
    assert found == [port, function]


def test_releases_before_3_5_find_whole_ports_by_their_own_name_and_address() -> None:
    for selectors in ({"pfNames": ["rail0"]}, {"rootDevices": ["0000:18:00.0"]}):
        assert not unmet(selectors, PORT, ports_by_name=True)
    assert unmet({"pfNames": ["rail0#0-3"]}, PORT, ports_by_name=True)


def test_what_is_to_have_rdma_has_a_device_of_it() -> None:
    assert unmet({"isRdma": True}, PORT._replace(is_rdma=False), ports_by_name=False)
