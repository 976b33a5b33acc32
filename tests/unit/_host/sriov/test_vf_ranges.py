# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs of one port with values of their own: read, set up, kept over a reboot, taken back by a removal."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.vf_settings import deterministic_guid
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import RESULT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.by_range import per_vf
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host.families import INFINIBAND, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.boot import with_disk_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import changed_devices, settled, sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import (
    ALLOWED,
    APPLY,
    REMOVE,
    applied,
    booted,
    done,
    drivers,
    functions,
    the_step,
    wish,
)

MLX5, VFIO = "mlx5_core", "vfio-pci"
GUID = "02:11:22:33:44:55:66:70"
# The port's own, as the card that families.py composes has it.
PORT_GUID = "a0:88:c2:03:00:47:11:d0"
MIXED: dict[str, Any] = {
    "vfs": 4,
    "mtu": 9000,
    "vf_driver": {"2-3": VFIO},
    "vf_mtu": {"0": 9000, "1": 4000},
    "vf_settings": {"0-1": {"vlan": 100}, 3: {"mac": "02:aa:00:00:00:03"}},
}


def mtus(kernel: Kernel) -> list[int | None]:
    """The MTU of each VF, None for those without interface."""
    names = [
        kernel.list(f"{vfs.PCI}/{vf}/net") if kernel.exists(f"{vfs.PCI}/{vf}/net") else [] for vf in functions(kernel)
    ]
    return [int(kernel.read(f"/sys/class/net/{each[0]}/mtu")) if each else None for each in names]


def settings(kernel: Kernel) -> list[dict[str, Any]]:
    (name,) = kernel.list(f"{vfs.PCI}/{PF}/net")
    (link,) = json.loads(kernel.run(("ip", "-json", "link", "show", "dev", name), 10).stdout)
    found: list[dict[str, Any]] = link["vfinfo_list"]
    return found


def is_mixed(kernel: Kernel) -> bool:
    given = settings(kernel)
    vlans = [each.get("vlan_list", [{}])[0].get("vlan", 0) for each in given]
    return (
        drivers(kernel) == [MLX5, MLX5, VFIO, VFIO]
        and mtus(kernel) == [9000, 4000, None, None]
        and vlans == [100, 100, 0, 0]
        and given[3]["address"] == "02:aa:00:00:00:03"
    )


class TestRead:
    def test_ranges_arrive_and_are_accepted_again(self) -> None:
        desired, violations, notices = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [{"pci": PF, **MIXED}]})
        assert (violations, notices) == ([], [])
        (entry,) = desired["interfaces"]
        assert per_vf(entry["vf_driver"], 4) == [None, None, VFIO, VFIO]
        assert per_vf(entry["vf_mtu"], 4) == [9000, 4000, None, None]
        assert check_spec(desired) == desired

    @pytest.mark.parametrize(
        ("entry", "path", "says"),
        [
            ({"vf_driver": {"0-1": VFIO, "1-3": "netdevice"}}, "vf_driver.1-3", "twice"),
            ({"vf_driver": {"2-4": VFIO}}, "vf_driver.2-4", "numbered 0 to 3"),
            ({"vf_driver": {"3-2": VFIO}}, "vf_driver", "ranges of them (0-3)"),
            ({"vf_driver": {"0": VFIO, "rest": "netdevice"}}, "vf_driver", "ranges of them (0-3)"),
            ({"vf_driver": {"0-1": "vfio"}}, "vf_driver.0-1", "did you mean vfio-pci?"),
            ({"vf_driver": {"0-1": VFIO}, "vf_mtu": {"1": 1500}}, "vf_mtu", "no interface here"),
            ({"mtu": 4000, "vf_mtu": {"1": 9000}}, "vf_mtu.1", "above the MTU 4000"),
            ({"vf_settings": {"0-1": {"vlan": 4095}}}, "vf_settings.0-1.vlan", "4094"),
            ({"vf_settings": {"0-1": {"mac": {"2": "02:aa:00:00:00:02"}}}}, "vf_settings.0-1.mac.2", "numbered 0 to 1"),
            ({"vf_settings": {"0-1": {"mac": "02:aa:00:00:00:02"}}}, "vf_settings.0-1.mac", "numbers of VFs"),
            ({"eswitch_mode": "switchdev", "vf_settings": {"2": {"trust": True}}}, "vf_settings.2.trust", "switchdev"),
            ({"vf_guids": {"0-1": [GUID]}}, "vf_guids.0-1", "holds 1 GUIDs for 2 VFs"),
        ],
    )
    def test_what_no_vf_can_have_is_refused(self, entry: dict[str, Any], path: str, says: str) -> None:
        given = {"rdma_fabric_interfaces": [{"pci": PF, "vfs": 4, **entry}]}
        (found,) = parse_host_variables("gpu01", given)[1]
        assert (found.path, says in found.sentence()) == (f"[0].{path}", True), found.sentence()

    def test_guids_of_two_ranges_are_held_against_each_other(self) -> None:
        entries = [{"pci": PF, "vf_guids": {"0": [GUID]}}, {"pci": "0000:40:00.0", "vf_guids": {"3": [GUID]}}]
        (found,) = parse_host_variables("gpu01", {"rdma_fabric_interfaces": entries})[1]
        assert found.path == "[1].vf_guids"


class TestMixed:
    def test_each_vf_is_set_up_as_its_range_says_and_stays_so(self) -> None:
        kernel = booted()
        done(kernel, wish(**MIXED))
        assert is_mixed(kernel)
        assert applied(kernel, wish(**MIXED))["plan"]["steps"] == []

    def test_the_plan_names_the_vfs(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=4, vf_driver={"0-1": VFIO}))
        steps = applied(vfs.quiet(kernel), wish(**MIXED))["plan"]["steps"]
        actions = {step["id"].replace(f"vfs:{PF}", "", 1): step["action"] for step in steps}
        assert actions[":driver"] == "bind VFs 0 to 1 to the driver of their interfaces and VFs 2 to 3 to vfio-pci"

    def test_a_boot_makes_them_again(self) -> None:
        kernel = booted()
        done(kernel, wish(**MIXED), replace(APPLY, concerns=ORDER))
        fresh = with_disk_of(booted(), kernel)
        start(fresh, fresh)
        assert json.loads(fresh.read(RESULT_FILE))["problems"] == []
        assert is_mixed(fresh)

    def test_a_vf_that_leaves_its_range_gets_its_interface_back(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=4, vf_driver={"0-2": VFIO}))
        done(vfs.quiet(kernel), wish(ALLOWED, vfs=4, vf_driver={"0": VFIO}))
        assert drivers(kernel) == [VFIO, MLX5, MLX5, MLX5]

    def test_values_for_vfs_that_do_not_exist_are_named(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2))
        plan = applied(kernel, wish(vf_driver={"1-3": "netdevice", "4-7": VFIO}))["plan"]
        assert [notice for notice in plan["notices"] if "no effect" in notice] == [
            f"{PF} (enp24s0f0np0): vf_driver of VFs 4 to 7 has no effect, there are 2 VFs"
        ]

    def test_a_driver_that_waits_for_consent_holds_back_the_drivers_alone(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=4))
        outcome = applied(vfs.quiet(kernel), wish(vfs=4, vf_driver={"3": VFIO}, vf_settings={"0": {"vlan": 7}}))
        assert the_step(outcome, f"vfs:{PF}:driver")["status"] == "needs_consent"
        assert drivers(kernel) == [MLX5] * 4
        assert settings(kernel)[0]["vlan_list"][0]["vlan"] == 7


class TestRemoval:
    def test_a_host_without_vfs_is_as_before(self) -> None:
        kernel = booted()
        before = settled(kernel)
        done(kernel, wish(**MIXED))
        done(vfs.quiet(kernel), wish(ALLOWED), REMOVE)
        assert changed_devices(before, settled(kernel)) == []

    def test_each_vf_gets_the_driver_and_the_mtu_that_it_had(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=4, mtu=9000, vf_driver={"0": VFIO}, vf_mtu={"1": 3000, "2": 9000}))
        kernel.tree.discard("/var/lib/rdma-fabric")
        before = (drivers(kernel), mtus(kernel))
        done(vfs.quiet(kernel), wish(ALLOWED, vfs=4, vf_driver={"3": VFIO}, vf_mtu={"1-2": 4000}))
        assert (drivers(kernel), mtus(kernel)[1:]) == ([MLX5, MLX5, MLX5, VFIO], [4000, 4000, None])
        done(kernel, wish(ALLOWED), REMOVE)
        assert (drivers(kernel), mtus(kernel)) == before

    def test_guids_of_some_come_back(self) -> None:
        kernel = booted(link_layer=INFINIBAND)
        done(kernel, wish(vfs=2, vf_guids=[GUID, f"{GUID[:-1]}1"]))
        kernel.tree.discard("/var/lib/rdma-fabric")
        done(kernel, wish(ALLOWED, vfs=2, vf_guids={"1": [f"{GUID[:-1]}7"]}))
        done(kernel, wish(ALLOWED), REMOVE)
        found = settings(kernel)
        assert [each["node guid"].replace(":", "")[-1] for each in found] == ["0", "1"]


def test_guids_are_counted_from_the_first_vf_of_their_range() -> None:
    kernel = booted(link_layer=INFINIBAND)
    last = f"{GUID[:-1]}1"
    done(
        kernel,
        wish(vfs=4, vf_driver={"3": VFIO}, vf_guids={"1-2": {"first": GUID, "last": last}, "3": "deterministic"}),
    )
    assert drivers(kernel) == [MLX5, MLX5, MLX5, VFIO]
    guids = [each["node guid"] for each in settings(kernel)]
    assert guids[1:] == [GUID, last, deterministic_guid(PORT_GUID, 3)]
    assert applied(kernel, wish(vfs=4, vf_driver={"3": VFIO}, vf_guids={"1-2": [GUID, last]}))["plan"]["steps"] == []


SWEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "made": ({}, {"vfs": 2, "vf_driver": {"1": VFIO}, "vf_mtu": {"0": 1400}}),
    "exchanged": ({"vfs": 2, "vf_driver": {"1": VFIO}}, {"vfs": 2, "vf_driver": {"0": VFIO}}),
}


@pytest.mark.parametrize("case", SWEPT)
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str) -> None:
    before, entry = SWEPT[case]

    def begin() -> Kernel:
        kernel = vfs.quiet(booted())
        if before:
            done(kernel, wish(**before))
        return kernel

    assert sweep(begin, lambda kernel: applied(kernel, wish(ALLOWED, **entry)), errors=("EIO", "EBUSY")) >= 5
