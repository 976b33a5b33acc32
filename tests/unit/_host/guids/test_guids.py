# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GUIDs of InfiniBand functions in the simulated kernel: made, kept, taken by devices, disturbed, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persisted import boot_entries
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.vf_settings import deterministic_guid, parse
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import (
    check_spec,
    parse_host_variables,
)
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host.families import FAMILIES, INFINIBAND, PF, Family
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import (
    ALLOWED,
    REMOVE,
    applied,
    booted,
    done,
    the_step,
    wish,
)

STEP = f"guids:{PF}"
RANGE = {"first": "02:11:22:33:44:55:66:00", "last": "02:11:22:33:44:55:66:07"}
# The port's own, as the card that families.py composes has it.
PORT_GUID = "a0:88:c2:03:00:47:11:d0"


def host() -> Kernel:
    return booted(link_layer=INFINIBAND)


def with_functions(count: int = 2, **entry: Any) -> Kernel:
    kernel = host()
    done(kernel, wish(vfs=count, **entry))
    return kernel


def devices(kernel: Kernel) -> list[str]:
    """The GUID that the RDMA device of each function has taken, as sysfs writes it; empty without a device."""
    count = int(kernel.read(f"{vfs.PCI}/{PF}/sriov_numvfs"))
    found = []
    for number in range(count):
        base = f"{vfs.PCI}/{PF}/virtfn{number}/infiniband"
        names = kernel.list(base) if kernel.exists(base) else []
        found.append(kernel.read(f"{base}/{names[0]}/node_guid").strip() if names else "")
    return found


def told(kernel: Kernel) -> list[dict[str, Any]]:
    (link,) = json.loads(kernel.run(("ip", "-json", "link", "show", "dev", "ibp24s0f0"), 10).stdout)
    found: list[dict[str, Any]] = link["vfinfo_list"]
    return found


class TestSetting:
    def test_a_range_is_given_by_number_and_taken_by_the_devices(self) -> None:
        kernel = with_functions(2, vf_guids=RANGE)
        assert devices(kernel) == ["0211:2233:4455:6600", "0211:2233:4455:6601"]
        first = told(kernel)[0]
        assert (first["node guid"], first["port guid"], first["link_state"]) == (RANGE["first"], RANGE["first"], "auto")
        assert kernel.read(f"{vfs.PCI}/{PF}/virtfn0/infiniband/ibp24s0f2/ports/1/state") == "4: ACTIVE\n"

    def test_a_list_gives_each_function_its_own(self) -> None:
        kernel = with_functions(2, vf_guids=["0x02aabbccddeeff01", "02AA:BBCC:DDEE:FF02"])
        assert devices(kernel) == ["02aa:bbcc:ddee:ff01", "02aa:bbcc:ddee:ff02"]

    def test_two_hosts_and_two_runs_give_the_same_deterministic_guids(self) -> None:
        first, second = (with_functions(2, vf_guids="deterministic") for _run in range(2))
        assert devices(first) == devices(second)
        assert applied(first, wish(vfs=2, vf_guids="deterministic"))["plan"]["steps"] == []
        assert first.mutations == []

    def test_deterministic_guids_are_local_single_and_a_promise(self) -> None:
        guids = [deterministic_guid(PORT_GUID, number) for number in range(128)]
        assert len(set(guids)) == 128
        assert all(int(guid[:2], 16) & 3 == 2 for guid in guids)
        assert deterministic_guid(PORT_GUID.upper(), 0) == guids[0] == "d6:c7:fc:59:6b:a7:42:c7"

    def test_a_device_that_is_all_zero_is_drift_and_an_absent_one_is_not(self) -> None:
        kernel = with_functions(2, vf_guids=RANGE)
        kernel.tree.add_file(f"{vfs.PCI}/{PF}/virtfn1/infiniband/ibp24s0f3/node_guid", "0000:0000:0000:0000\n")
        outcome = applied(kernel, wish(ALLOWED, vfs=2, vf_guids=RANGE))
        assert [entry["id"] for entry in outcome["executed"]] == [STEP]
        assert devices(kernel)[1] == "0211:2233:4455:6601"
        kernel.revive()
        kernel.tree.discard("/sys/class/infiniband/ibp24s0f2")
        kernel.tree.discard(f"{vfs.PCI}/{PF}/virtfn0/infiniband")
        assert applied(kernel, wish(vfs=2, vf_guids=RANGE))["plan"]["steps"] == []

    def test_functions_that_exist_need_consent_and_only_they_are_touched(self) -> None:
        kernel = with_functions(2, vf_guids=["02:00:00:00:00:00:00:01", "02:00:00:00:00:00:00:02"])
        wanted = ["02:00:00:00:00:00:00:01", "02:00:00:00:00:00:00:09"]
        step = the_step(applied(kernel, wish(vfs=2, vf_guids=wanted)), STEP)
        assert (step["status"], step["consent"]) == ("needs_consent", "rdma_fabric_allow_vf_reset")
        assert list(step["to"]) == ["1"] and kernel.mutations == []
        done(kernel, wish(ALLOWED, vfs=2, vf_guids=wanted))
        assert devices(kernel)[1] == "0200:0000:0000:0009"

    def test_a_link_that_is_switched_off_follows_the_port_again_without_a_new_binding(self) -> None:
        kernel = with_functions(1, vf_guids=RANGE)
        kernel.run(("ip", "link", "set", "dev", "ibp24s0f0", "vf", "0", "state", "disable"), 10)
        kernel.revive()
        outcome = applied(kernel, wish(vfs=1, vf_guids=RANGE))
        assert len(outcome["executed"]) == 1
        assert not any("bind" in mutation.what for mutation in kernel.mutations)
        assert told(kernel)[0]["link_state"] == "auto"

    def test_without_the_port_s_interface_the_vendor_s_files_are_written(self) -> None:
        kernel = with_functions(1)
        for name in kernel.list(f"{vfs.PCI}/{PF}/net"):
            kernel.tree.discard(f"/sys/class/net/{name}")
        kernel.tree.discard(f"{vfs.PCI}/{PF}/net")
        base = f"{vfs.PCI}/{PF}/sriov/0"
        for name, text in (("node", "00:" * 7 + "00"), ("port", "00:" * 7 + "00"), ("policy", "Down")):
            kernel.tree.add_file(f"{base}/{name}", f"{text}\n")
        outcome = applied(kernel, wish(ALLOWED, vfs=1, vf_guids=RANGE))
        assert [kernel.read(f"{base}/{name}").strip() for name in ("node", "port", "policy")] == [
            RANGE["first"],
            RANGE["first"],
            "Follow",
        ], outcome["msg"]


@pytest.mark.parametrize("entry", [{"vfs": 2, "vf_guids": RANGE}, {"mtu": 4092}, {"state": "down"}])
def test_a_port_with_an_interface_of_another_partition_is_set_up_all_the_same(entry: dict[str, Any]) -> None:
    kernel = host()
    place = f"{kernel.realpath(f'{vfs.PCI}/{PF}')}/net/ib0.8001"
    for key, value in {"type": 32, "mtu": 2044, "flags": "0x1003", "parent": "ibp24s0f0", "dev_port": 0}.items():
        kernel.tree.add_file(f"{place}/{key}", f"{value}\n")
    kernel.tree.add_link("/sys/class/net/ib0.8001", place)
    done(kernel, wish(**entry))
    assert applied(kernel, wish(**entry))["plan"]["steps"] == []


@pytest.mark.parametrize(
    "family", [pytest.param(family, id=family.name) for family in FAMILIES if INFINIBAND in family.link_layers]
)
def test_functions_of_every_family_take_their_guids(family: Family) -> None:
    kernel = booted(family, INFINIBAND)
    done(kernel, wish(vfs=2, vf_guids=RANGE))
    assert devices(kernel) == ["0211:2233:4455:6600", "0211:2233:4455:6601"]
    assert applied(kernel, wish(vfs=2, vf_guids=RANGE))["plan"]["steps"] == []


class TestRefusals:
    def detail(self, kernel: Kernel, **entry: Any) -> str:
        step = the_step(applied(kernel, wish(ALLOWED, **entry)), STEP)
        assert step["status"] == "refused"
        assert not any("guid" in mutation.what for mutation in kernel.mutations if mutation.kind == "run")
        return str(step["detail"])

    def test_more_functions_than_guids(self) -> None:
        kernel = with_functions(3)
        two = {**RANGE, "last": f"{RANGE['first'][:-1]}1"}
        assert "none for VF 2" in self.detail(kernel, vf_guids=two)

    def test_the_guid_of_another_device_of_the_host(self) -> None:
        assert f"{PORT_GUID} is the GUID of {PF} already" in self.detail(host(), vfs=1, vf_guids=[PORT_GUID])

    def test_an_ethernet_port(self) -> None:
        assert "mac of vf_settings" in self.detail(booted(), vfs=1, vf_guids=RANGE)

    def test_a_port_without_interface_and_without_files(self) -> None:
        kernel = with_functions(1)
        for name in kernel.list(f"{vfs.PCI}/{PF}/net"):
            kernel.tree.discard(f"/sys/class/net/{name}")
        kernel.tree.discard(f"{vfs.PCI}/{PF}/net")
        assert "load ib_ipoib" in self.detail(kernel, vfs=1, vf_guids=RANGE)

    def test_a_function_that_a_program_uses(self) -> None:
        kernel = with_functions(2)
        kernel.tree.add_file("/sys/class/infiniband_verbs/uverbs4/ibdev", "ibp24s0f3\n")
        kernel.tree.add_file("/proc/99/comm", "ib_write_bw\n")
        kernel.tree.add_link("/proc/99/fd/3", "/dev/infiniband/uverbs4")
        assert "ib_write_bw (pid 99)" in self.detail(kernel, vfs=2, vf_guids=RANGE)


@pytest.mark.parametrize(
    ("code", "says"),
    [("EOPNOTSUPP", "link_layer"), ("EINVAL", "vf_guids"), ("EIO", "syndrome"), ("EBUSY", "rdma resource")],
)
def test_each_error_of_the_driver_has_its_cause_and_next_step(code: str, says: str) -> None:
    trial = host()
    applied(trial, wish(vfs=1, vf_guids=RANGE))
    kernel = host()
    kernel.disturb(next(n for n, mutation in enumerate(trial.mutations) if "node_guid" in mutation.what), code)
    outcome = applied(kernel, wish(vfs=1, vf_guids=RANGE))
    assert outcome["failed"] and says in outcome["msg"] and "next: " in outcome["msg"], outcome["msg"]
    kernel.sleep(5)
    assert vfs.driver_of(kernel, kernel.link(f"{vfs.PCI}/{PF}/virtfn0")[3:]), "the VF has its driver again"


def test_a_device_that_does_not_take_its_guid_fails_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    real = vfs._add_hca
    monkeypatch.setattr(vfs, "_add_hca", lambda kernel, address, _guid: real(kernel, address, vfs.NO_GUID))
    outcome = applied(host(), wish(vfs=1, vf_guids=RANGE))
    assert outcome["failed"] and "the GUIDs of the RDMA devices" in outcome["msg"]


SWEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "new VFs": ({}, {"vfs": 2, "vf_guids": RANGE}),
    "VFs without": ({"vfs": 1}, {"vfs": 1, "vf_guids": "deterministic"}),
}


@pytest.mark.parametrize("case", first_of(SWEPT))
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str) -> None:
    before, entry = SWEPT[case]
    assert sweep(
        lambda: with_functions(before["vfs"]) if before else host(),
        lambda kernel: applied(kernel, wish(ALLOWED, **entry)),
    )


def test_removal_gives_functions_of_before_their_guids_back() -> None:
    kernel = with_functions(1, vf_guids=["02:00:00:00:00:00:00:01"])
    kernel.tree.discard("/var/lib/rdma-fabric")
    done(kernel, wish(ALLOWED, vfs=1, vf_guids=["02:00:00:00:00:00:00:02"]))
    done(kernel, wish(ALLOWED), REMOVE)
    assert devices(kernel) == ["0200:0000:0000:0001"]


def test_the_boot_unit_gives_new_functions_their_guids() -> None:
    kernel = host()
    desired = wish(vfs=2, vf_guids=RANGE)
    _plan, context = plan_with_context(desired, gather(kernel, desired=desired))
    (kept,) = boot_entries(context)
    assert (kept["vfs"], kept["vf_guids"]) == (2, RANGE)
    assert check_spec({"interfaces": [kept]})["interfaces"][0]["vf_guids"] == RANGE


@pytest.mark.parametrize("text", ["", "[", "{}", '["x"]', '[{"vfinfo_list": 1}]', '[{"vfinfo_list": [{"vf": 1}]}]'])
def test_a_text_that_was_cut_off_tells_nothing(text: str) -> None:
    assert parse(text) == []


def test_an_older_ip_tells_no_guids() -> None:
    text = '[{"vfinfo_list": [{"vf": 0, "link_state": "enable"}, {"vf": 1, "node guid": "no guid", "link_state": 3}]}]'
    assert parse(text) == [
        {"node_guid": None, "port_guid": None, "link_state": "enable"},
        {"node_guid": None, "port_guid": None, "link_state": None},
    ]


def violations_of(*entries: dict[str, Any]) -> list[str]:
    return list(map(str, parse_host_variables("gpu01", {"rdma_fabric_interfaces": list(entries)})[1]))


@pytest.mark.parametrize(
    ("guids", "says"),
    [
        ("random", "deterministic, a list of GUIDs"),
        (7, "deterministic, a list of GUIDs"),
        (["02:00"], "is not a GUID: eight octets"),
        (["00:00:00:00:00:00:00:00"], "is not a GUID that a VF can have"),
        (["ff:ff:ff:ff:ff:ff:ff:ff"], "is not a GUID that a VF can have"),
        ([1_000_000], "not a GUID"),
        (["02:00:00:00:00:00:00:01", "0x0200000000000001"], "is listed twice"),
        ({"first": "02:00:00:00:00:00:00:01"}, "not a GUID"),
        ({"first": "02:00:00:00:00:00:00:02", "last": "02:00:00:00:00:00:00:01"}, "is below first"),
        ({**RANGE, "end": "x"}, "unknown field"),
        (["02:00:00:00:00:00:00:01"], "holds 1 GUIDs for 2 VFs"),
        ({"first": RANGE["first"], "last": RANGE["first"]}, "holds 1 GUIDs for 2 VFs"),
        (["02:00:00:00:00:00:00:01\\n"], "is not a GUID"),
    ],
)
def test_bad_guids_are_told_before_anything_is_touched(guids: Any, says: str) -> None:
    assert any(says in violation for violation in violations_of({"pci": PF, "vfs": 2, "vf_guids": guids}))


def test_two_ports_of_a_host_share_no_guid() -> None:
    other = {"first": "02:11:22:33:44:55:66:07", "last": "02:11:22:33:44:55:66:10"}
    (violation,) = violations_of(
        {"pci": PF, "vfs": 2, "vf_guids": RANGE}, {"pci": "0000:40:00.0", "vfs": 2, "vf_guids": other}
    )
    assert "gives 02:11:22:33:44:55:66:07, which [0] gives already" in violation
