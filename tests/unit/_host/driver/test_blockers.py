# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.blockers import (
    Blocker,
    function_blockers,
    module_blockers,
    sentence,
    stacked_blockers,
    user_blockers,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver_shapes import Stacked, User
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Eswitch
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import netdev, nic, vf

PF = "0000:18:00.0"
VF = "0000:18:00.2"


def module(*users: str, refcount: int | None = None) -> Any:
    return {"refcount": len(users) if refcount is None else refcount, "users": list(users)}


PLAIN = {
    "ib_core": module("mlx5_ib", "ib_uverbs", "rdma_cm"),
    "ib_uverbs": module("mlx5_ib"),
    "rdma_cm": module(),
    "mlx5_core": module("mlx5_ib"),
    "mlx5_ib": module(),
}


def names(blockers: list[Blocker]) -> list[tuple[str, str]]:
    return [(blocker.kind, blocker.name) for blocker in blockers]


def test_a_plain_stack_is_free() -> None:
    assert module_blockers(PLAIN, False, {}) == []
    assert user_blockers(PLAIN, []) == []


def test_storage_over_rdma_is_named_even_when_nothing_uses_it() -> None:
    loaded = {**PLAIN, "ib_iser": module(), "nvme_rdma": module(refcount=2)}
    (unused, used) = module_blockers(loaded, False, {})
    assert (unused.kind, unused.name, unused.text) == ("storage", "ib_iser", "ib_iser (storage over RDMA) is loaded")
    assert used.text == "nvme_rdma (storage over RDMA) is in use"


def test_unused_storage_may_be_unloaded_by_wish_but_never_used_one() -> None:
    loaded = {**PLAIN, "ib_iser": module(), "nvme_rdma": module(refcount=2)}
    assert names(module_blockers(loaded, True, {})) == [("storage", "nvme_rdma")]


def test_storage_that_only_unused_storage_uses_is_unused() -> None:
    loaded = {"rpcrdma": module("xprtrdma"), "xprtrdma": module()}
    assert module_blockers(loaded, True, {}) == []
    loaded["xprtrdma"]["refcount"] = 1
    assert names(module_blockers(loaded, True, {})) == [("storage", "rpcrdma"), ("storage", "xprtrdma")]


def test_lustre_is_never_unloaded() -> None:
    assert names(module_blockers({**PLAIN, "ko2iblnd": module()}, True, {})) == [("storage", "ko2iblnd")]


def test_drivers_of_other_vendors_and_unknown_holders() -> None:
    loaded = {**PLAIN, "irdma": module(), "nvme": module(refcount=3)}
    assert names(module_blockers(loaded, False, {})) == [("other vendor", "irdma"), ("module", "nvme")]


def test_peer_memory_holds_only_while_programs_use_it() -> None:
    assert module_blockers({**PLAIN, "nvidia_peermem": module()}, False, {}) == []
    assert names(module_blockers({**PLAIN, "nvidia_peermem": module(refcount=1)}, False, {})) == [
        ("module", "nvidia_peermem")
    ]


def test_a_program_is_named_with_its_number_and_devices() -> None:
    users: list[User] = [
        {"pid": 4711, "program": "opensm", "path": "/dev/infiniband/umad0"},
        {"pid": 4711, "program": "opensm", "path": "/dev/infiniband/issm0"},
    ]
    (blocker,) = user_blockers(PLAIN, users)
    assert blocker.text == "opensm (pid 4711) has /dev/infiniband/umad0, /dev/infiniband/issm0 open"


def test_a_reference_that_no_program_explains_blocks_as_well() -> None:
    loaded = {**PLAIN, "mlx5_ib": module(refcount=2)}
    (blocker,) = user_blockers(loaded, [])
    assert (blocker.kind, blocker.name) == ("reference", "mlx5_ib")
    assert "2 references" in blocker.text


def test_functions_that_others_have() -> None:
    netdevs = {"ens1": netdev("ens1", PF), "v0": netdev("v0", VF)}
    given = vf(VF, PF, driver="vfio-pci")
    moved = vf("0000:18:00.3", PF)
    free = vf("0000:18:00.4", PF, "v0")
    unbound = vf("0000:18:00.5", PF, driver=None)
    found = function_blockers([nic(PF, "ens1"), given, moved, free, unbound], netdevs, PLAIN, {})
    assert [(blocker.name, "virtual machine" in blocker.text) for blocker in found] == [
        (VF, True),
        ("0000:18:00.3", False),
    ]
    assert "network namespace" in found[1].text


def test_a_physical_function_without_an_interface_here_is_in_a_container() -> None:
    (blocker,) = function_blockers([nic(PF)], {}, PLAIN, {})
    assert (blocker.kind, blocker.name) == ("function", PF)
    assert "network namespace" in blocker.text


@pytest.mark.parametrize("of", [nic(PF, link_layer="InfiniBand"), vf(VF, PF, link_layer="InfiniBand")])
def test_a_function_of_infiniband_has_no_interface_where_ipoib_is_not_loaded(of: Any) -> None:
    assert function_blockers([of], {}, PLAIN, {}) == []
    (blocker,) = function_blockers([of], {}, {**PLAIN, "ib_ipoib": module()}, {})
    assert "network namespace" in blocker.text


def test_what_stands_on_ports_and_does_not_come_back() -> None:
    kinds = {"vlan20": "vlan", "br0": "bridge", "bond0": "bond", "vrf7": "vrf"}
    back: list[Stacked] = [{"on": "ens1", "name": name, "kind": kind} for name, kind in kinds.items()]
    assert stacked_blockers(back) == []
    lost: list[Stacked] = [
        {"on": "vlan20", "name": "vlan20.7", "kind": "vlan"},
        {"on": "ens1", "name": "team0", "kind": "team"},
        {"on": "ens1", "name": "br1", "kind": "bridge that filters VLANs"},
        {"on": "ens1", "name": "02:00:00:00:00:99", "kind": "address"},
    ]
    found = stacked_blockers([*back, *lost])
    assert [blocker.name for blocker in found] == ["vlan20.7", "team0", "br1", "02:00:00:00:00:99"]
    assert {blocker.kind for blocker in found} == {"interface"}
    assert all(entry["on"] in blocker.text for entry, blocker in zip(lost, found))


def test_a_switchdev_port() -> None:
    netdevs = {"ens1": netdev("ens1", PF, switch_id="a0b1")}
    (blocker,) = function_blockers([nic(PF, "ens1")], netdevs, PLAIN, {})
    assert "switchdev" in blocker.text
    found = {
        mode: function_blockers([nic(PF, "ens1")], netdevs, PLAIN, {PF: eswitch(mode)})
        for mode in ("legacy", "switchdev", None)
    }
    # Ports of mlx5 have a switch id in legacy mode as well (the kernel's mlx5 core/en/devlink.c).
    assert {mode: len(each) for mode, each in found.items()} == {"legacy": 0, "switchdev": 1, None: 1}


def eswitch(mode: str | None) -> Eswitch:
    return {"mode": mode, "inline_mode": None, "encap_mode": None, "problem": "" if mode else "devlink can't be run"}


def test_long_lists_are_cut() -> None:
    text = sentence([Blocker("program", str(number), f"p{number}") for number in range(20)])
    assert text.endswith("p11; and 8 more")
