# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every family of cards in the simulated kernel: read, planned, brought to what is asked for, and planned again."""

from __future__ import annotations

from typing import Any, Iterable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host.families import (
    ETHERNET,
    FAMILIES,
    HCAS,
    INFINIBAND,
    LARGE_MTU,
    NETDEVS,
    PF,
    SECOND,
    Family,
    guest_with,
    host_with,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)


# The oldest, one that shares the ID of its functions, one that has no firmware here, and one with a processor.
FIRST = {"ConnectX-4", "ConnectX-7", "ConnectX-9", "BlueField-3"}


def marks(family: Family) -> Any:
    return () if family.name in FIRST else pytest.mark.slow


def params_of(families: Iterable[Family]) -> list[Any]:
    return [pytest.param(family, id=family.name, marks=marks(family)) for family in families]


EVERY_FAMILY = params_of(FAMILIES)
EVERY_PORT = [
    pytest.param(family, link_layer, id=f"{family.name} {link_layer}", marks=marks(family))
    for family in FAMILIES
    for link_layer in family.link_layers
]


def nic(facts: Any, address: str = PF) -> Any:
    return next(entry for entry in facts["nics"] if entry["address"] == address)


def wish(link_layer: str, **changes: Any) -> Any:
    """A name, a large MTU, a name for RDMA and four functions with that MTU; Ethernet ones with addresses of ours."""
    entry = {"pci": PF, "name": "rail0", "rdma_name": "rail0_rdma", "vfs": 4}
    entry.update(mtu=LARGE_MTU[link_layer], vf_mtu=LARGE_MTU[link_layer], state="up")
    if link_layer == ETHERNET:
        entry["vf_settings"] = {"mac": "deterministic", "trust": True}
    variables = {"rdma_fabric_interfaces": [{**entry, **changes}], "rdma_fabric_allow_vf_reset": True}
    desired, violations, _notices = parse_host_variables("gpu01", variables)
    assert violations == []
    return desired


def functions_of(facts: Any) -> list[Any]:
    return [nic(facts, address) for address in nic(facts)["sriov"]["vfs"]]


@pytest.mark.parametrize(("family", "link_layer"), EVERY_PORT)
def test_a_card_is_told_by_the_id_of_its_physical_function(family: Family, link_layer: str) -> None:
    facts = gather(RecordedHost(host_with(family, link_layer).document()))
    card = nic(facts)
    assert (card["family"], card["function"], card["link_layer"]) == (family.name, "pf", link_layer)
    assert (card["sriov"]["total"], card["sriov"]["vf_device"]) == (8, family.vf)
    (device,) = facts["rdma"]
    assert (device["hca_type"], device["firmware"]) == (family.hca, family.firmware or None)
    assert device["ports"][0]["rate_gbps"] == int(family.rate.split()[0])
    assert facts["stack"]["flavour"] == "inbox"


@pytest.mark.parametrize("family", params_of(family for family in FAMILIES if family.management))
def test_a_management_or_data_direct_function_is_no_nic(family: Family) -> None:
    facts = gather(RecordedHost(host_with(family).document()))
    assert SECOND not in {entry["address"] for entry in facts["nics"]}


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_guest_names_the_family_where_anything_tells_it(family: Family) -> None:
    facts = gather(RecordedHost(guest_with(family).document()))
    assert (nic(facts)["function"], nic(facts)["pf"]) == ("vf", None)
    assert nic(facts)["family"] == (family.name if family.is_told_by_guests else None)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_guest_gets_name_and_mtu_and_no_functions(family: Family) -> None:
    kernel = Kernel(guest_with(family).document())
    desired = wish(ETHERNET, vf_mtu=None, vf_settings=None)
    outcome = apply(kernel, desired, APPLY, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert not any(path.endswith("sriov_numvfs") for path in kernel.tree.files)
    (port,) = [entry for entry in outcome["facts"]["netdevs"] if entry["pci"] == PF]
    assert (port["name"], port["mtu"]) == ("rail0", 9000)
    assert any("skipped" in notice for notice in outcome["plan"]["notices"])


@pytest.mark.parametrize(("family", "link_layer"), EVERY_PORT)
def test_a_card_gets_what_is_asked_for_and_then_nothing_is_left(family: Family, link_layer: str) -> None:
    kernel = Kernel(host_with(family, link_layer).document())
    desired = wish(link_layer)
    shown = preview(kernel, desired, CHECK, None)
    assert kernel.mutations == []
    done = apply(kernel, desired, APPLY, None, kernel)
    assert not done.get("failed"), done["msg"]
    lines = shown["diff"]["prepared"].splitlines()
    said = [line for line in lines if line.startswith("notice: ")]
    assert [entry["line"] for entry in done["executed"]] == [line for line in lines if line not in said]
    # No tool tells here which side of a BlueField sets its functions up, and the host's own settings wait for nobody.
    assert ["the mode of the BlueField (DPU or NIC) is unknown" in line for line in said] == (
        [True] if family.name.startswith("BlueField") and link_layer == ETHERNET else []
    )
    assert done["plan"]["steps"] == []
    kernel.revive()
    again = apply(kernel, desired, APPLY, None, kernel)
    assert (again["changed"], kernel.mutations) == (False, [])
    facts = again["facts"]
    assert nic(facts)["netdevs"] == ["rail0"] and nic(facts)["rdma"] == ["rail0_rdma"]
    functions = functions_of(facts)
    assert [entry["family"] for entry in functions] == [family.name] * 4, "the id may be shared by several families"
    assert {entry["device"] for entry in functions} == {family.vf}
    ports = [entry for entry in facts["netdevs"] if entry["pci"] in {PF, *nic(facts)["sriov"]["vfs"]}]
    assert [entry["mtu"] for entry in ports] == [LARGE_MTU[link_layer]] * 5
    expected = {"ether"} if link_layer == ETHERNET else {"infiniband"}
    assert {entry["link_type"] for entry in ports} == expected


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_functions_are_lowered_and_removed(family: Family) -> None:
    kernel = Kernel(host_with(family).document())
    for count in (4, 2, 0):
        changes = {} if count else {"vf_mtu": None, "vf_settings": None}
        outcome = apply(kernel, wish(ETHERNET, vfs=count, **changes), APPLY, None, kernel)
        assert not outcome.get("failed"), outcome["msg"]
        assert outcome["plan"]["steps"] == []
        assert len(functions_of(outcome["facts"])) == count


@pytest.mark.parametrize(("family", "link_layer"), EVERY_PORT)
def test_removal_brings_everything_back(family: Family, link_layer: str) -> None:
    kernel = Kernel(host_with(family, link_layer).document())
    outcome = apply(kernel, wish(link_layer), APPLY, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    after = apply(kernel, wish(link_layer), REMOVE, None, kernel)
    assert not after.get("failed"), after["msg"]
    assert after["plan"]["steps"] == []
    assert functions_of(after["facts"]) == []
    assert (nic(after["facts"])["netdevs"], nic(after["facts"])["rdma"]) == ([NETDEVS[link_layer]], [HCAS[link_layer]])
    (port,) = [entry for entry in after["facts"]["netdevs"] if entry["pci"] == PF]
    assert port["mtu"] == (1500 if link_layer == ETHERNET else 2044)
    assert not any("rdma-fabric" in path for path in kernel.tree.files)


@pytest.mark.parametrize(("family", "link_layer"), EVERY_PORT)
def test_more_functions_than_the_firmware_offers_are_refused(family: Family, link_layer: str) -> None:
    kernel = Kernel(host_with(family, link_layer).document())
    desired = wish(link_layer, vfs=9, vf_settings=None, vf_mtu=None)
    (refused,) = [step for step in preview(kernel, desired, CHECK, None)["plan"]["steps"] if step["concern"] == "vfs"]
    assert (refused["status"], "at most 8: raise NUM_OF_VFS" in refused["detail"]) == ("refused", True)


@pytest.mark.parametrize("family", params_of(family for family in FAMILIES if INFINIBAND in family.link_layers))
def test_functions_of_an_infiniband_port_have_no_ethernet_settings(family: Family) -> None:
    kernel = Kernel(host_with(family, INFINIBAND).document())
    plan = preview(kernel, wish(INFINIBAND, vf_settings={"trust": True}), CHECK, None)["plan"]
    (refused,) = [step for step in plan["steps"] if step["status"] == "refused"]
    assert (refused["id"], "GUIDs" in refused["detail"]) == (f"vfs:{PF}:settings", True)
