# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.functions import VF_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import (
    HostSpec,
    check_spec,
    parse_host_variables,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

PF = "0000:18:00.0"


def parsed(**entry: Any) -> tuple[HostSpec, list[Violation]]:
    desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [{"pci": PF, **entry}]})
    return desired, violations


def problem(**entry: Any) -> Violation:
    violations = parsed(**entry)[1]
    assert len(violations) == 1, [violation.sentence() for violation in violations]
    return violations[0]


def test_every_setting_arrives_and_is_accepted_again() -> None:
    given = {
        "mac": {0: "02:A0:88:00:00:01", "1": "02:a0:88:00:00:02"},
        "vlan": 100,
        "trust": True,
        "spoofchk": False,
        "max_tx_rate": 10000,
        "link_state": "enable",
    }
    desired, violations = parsed(vfs=2, vf_settings=given)
    assert violations == []
    assert desired["interfaces"][0]["vf_settings"] == {
        **given,
        "mac": {"0": "02:a0:88:00:00:01", "1": "02:a0:88:00:00:02"},
    }
    assert check_spec(desired) == desired


def test_what_is_not_given_is_left_alone() -> None:
    nothing = dict.fromkeys(VF_KEYS)
    for given in ({"trust": True}, {"mac": "deterministic"}):
        (entry,) = parsed(vf_settings=given)[0]["interfaces"]
        assert entry["vf_settings"] == {**nothing, **given}


@pytest.mark.parametrize(
    ("settings", "path", "says"),
    [
        ("trust", "[0].vf_settings", "a mapping of mac, vlan"),
        ([], "[0].vf_settings", "a list"),
        ({"trusted": True}, "[0].vf_settings.trusted", "unknown field"),
        ({"trust": "on"}, "[0].vf_settings.trust", "not true or false"),
        ({"spoofchk": 1}, "[0].vf_settings.spoofchk", "not true or false"),
        ({"vlan": 4095}, "[0].vf_settings.vlan", "4094"),
        ({"vlan": -1}, "[0].vf_settings.vlan", "4094"),
        ({"vlan": True}, "[0].vf_settings.vlan", "is true"),
        ({"vlan": "100"}, "[0].vf_settings.vlan", "not a whole number"),
        ({"max_tx_rate": -1}, "[0].vf_settings.max_tx_rate", "Mb/s"),
        ({"max_tx_rate": 2**31}, "[0].vf_settings.max_tx_rate", "Mb/s"),
        ({"link_state": "up"}, "[0].vf_settings.link_state", "auto, enable, disable"),
        ({"link_state": ["auto"]}, "[0].vf_settings.link_state", "auto, enable, disable"),
        ({"mac": "random"}, "[0].vf_settings.mac", "deterministic"),
        ({"mac": ["02:a0:88:00:00:01"]}, "[0].vf_settings.mac", "deterministic"),
        ({"mac": {"first": "02:a0:88:00:00:01"}}, "[0].vf_settings.mac", "numbers of VFs"),
        ({"mac": {True: "02:a0:88:00:00:01"}}, "[0].vf_settings.mac", "numbers of VFs"),
        ({"mac": {"01": "02:a0:88:00:00:01"}}, "[0].vf_settings.mac", "numbers of VFs"),
        ({"mac": {"²": "02:a0:88:00:00:01"}}, "[0].vf_settings.mac", "numbers of VFs"),
        ({"mac": {None: "02:a0:88:00:00:01"}}, "[0].vf_settings.mac", "numbers of VFs"),
        ({"mac": {2: "02:a0:88:00:00:01"}}, "[0].vf_settings.mac.2", "numbered 0 to 1"),
        ({"mac": {0: 2}}, "[0].vf_settings.mac.0", "quote it"),
        ({"mac": {0: "01:00:5e:00:00:01"}}, "[0].vf_settings.mac.0", "multicast"),
        ({"mac": {0: "00:00:00:00:00:00"}}, "[0].vf_settings.mac.0", "zero"),
        ({"mac": {0: "02:a0:88:00:00"}}, "[0].vf_settings.mac.0", "not a MAC address"),
        ({"mac": {0: "02:a0:88:00:00:01\n"}}, "[0].vf_settings.mac.0", "not a MAC address"),
        ({"mac": {0: "02:a0:88:00:00:01", 1: "02:A0:88:00:00:01"}}, "[0].vf_settings.mac.1", "already"),
        ({"mac": {0: "02:a0:88:00:00:01", "0": "02:a0:88:00:00:02"}}, "[0].vf_settings.mac.0", "twice"),
    ],
)
def test_a_setting_that_no_function_can_have_is_refused(settings: Any, path: str, says: str) -> None:
    found = problem(vfs=2, vf_settings=settings)
    assert (found.path, says in found.sentence()) == (path, True), found.sentence()


def test_two_ports_can_not_share_an_address() -> None:
    macs = {"vf_settings": {"mac": {0: "02:a0:88:00:00:01"}}}
    entries = [{"pci": PF, **macs}, {"pci": "0000:40:00.0", **macs}]
    found = parse_host_variables("gpu01", {"rdma_fabric_interfaces": entries})[1]
    assert [violation.path for violation in found] == ["[1].vf_settings.mac.0"]
    assert "[0].vf_settings.mac.0" in found[0].problem


def test_settings_of_no_functions_are_noticed() -> None:
    notices = parse_host_variables(
        "gpu01", {"rdma_fabric_interfaces": [{"pci": PF, "vfs": 0, "vf_settings": {"trust": True}}]}
    )[2]
    assert [(notice.path, "no effect" in notice.problem) for notice in notices] == [("[0].vf_settings", True)]


@pytest.mark.parametrize("name", ["rdma_rail0", "storage0", "A", "rail0_compute_0"])
def test_a_name_of_its_own_is_taken_for_an_rdma_device(name: str) -> None:
    desired, violations = parsed(rdma_name=name)
    assert violations == []
    assert desired["interfaces"][0]["rdma_name"] == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mlx5_0", "probe order"),
        ("MLX5_7", "probe order"),
        ("mlx5_bond_0", "probe order"),
        ("rxe0", "probe order"),
        ("rocep24s0", "rdma-core"),
        ("ibp24s0f1v3", "rdma-core"),
        ("ibs2", "rdma-core"),
        ("roceo1", "rdma-core"),
        ("", "not a valid RDMA device name"),
        ("rail-0", "not a valid RDMA device name"),
        ("0rail", "not a valid RDMA device name"),
        ("rail0_compute_00", "not a valid RDMA device name"),
        ('x", RUN+="/bin/sh', "not a valid RDMA device name"),
        ("rail0\n", "not a valid RDMA device name"),
        ("räil0", "not a valid RDMA device name"),
        (7, "quote it"),
    ],
)
def test_a_name_that_may_not_be_given_to_an_rdma_device_is_refused(name: Any, says: str) -> None:
    found = problem(rdma_name=name)
    assert (found.path, says in found.sentence()) == ("[0].rdma_name", True), found.sentence()


def test_two_rdma_devices_can_not_have_one_name() -> None:
    entries = [{"pci": PF, "rdma_name": "rdma0"}, {"pci": "0000:40:00.0", "rdma_name": "rdma0"}]
    found = parse_host_variables("gpu01", {"rdma_fabric_interfaces": entries})[1]
    assert [violation.path for violation in found] == ["[1].rdma_name"]
