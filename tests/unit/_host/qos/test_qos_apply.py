# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE QoS in the simulated kernel: made in every tree, taken back, disturbed at every write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.tests.sweeps import some_pairs
from ansible_collections.rdma.fabric.tests.unit._host import mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import FAMILIES, Family
from ansible_collections.rdma.fabric.tests.unit._host.kernel import kmods, qos
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import settled, sweep
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import (
    APPLY,
    DEVICE,
    INBOX,
    LOSSLESS,
    OF_VENDOR,
    OLD_VENDOR,
    PORT,
    REMOVE,
    TREES,
    VENDOR,
    applied,
    host,
    previewed,
    state_of,
)


def everything(tree: str) -> dict[str, Any]:
    return LOSSLESS if tree == INBOX else {**LOSSLESS, **OF_VENDOR}


def asked(tree: str, **changes: Any) -> dict[str, Any]:
    return {**everything(tree), **changes}


@pytest.mark.parametrize(
    ("tree", "family"),
    [pytest.param(tree, family, id=f"{tree}-{family.name}") for tree, family in some_pairs(list(TREES), FAMILIES)],
)
def test_every_family_gets_it_on_every_tree_and_gives_it_back(tree: str, family: Family) -> None:
    kernel, usual = host(tree, family=family), host(tree)
    before = state_of(kernel)
    for each in (kernel, usual):
        outcome = applied(each, everything(tree))
        assert not outcome.get("failed") and outcome["plan"]["steps"] == [], outcome["msg"]
    assert state_of(kernel) == state_of(usual)
    kernel.revive()
    assert (applied(kernel, everything(tree))["changed"], kernel.mutations) == (False, [])
    assert applied(kernel, None, REMOVE)["plan"]["steps"] == []
    assert state_of(kernel) == before


@pytest.mark.parametrize("tree", TREES)
class TestEveryTree:
    def test_lossless_roce_is_one_and_the_same_state(self, tree: str) -> None:
        kernel = host(tree)
        outcome = applied(kernel, everything(tree))
        assert not outcome.get("failed"), outcome["msg"]
        state = state_of(kernel)
        assert {key: state[key] for key in ("dcbx", "trust", "cable", "pfc", "pause", "tos")} == {
            "dcbx": "os",
            "trust": "dscp",
            "cable": 20,
            "pfc": [3],
            "pause": {"rx": False, "tx": False},
            "tos": "106",
        }
        assert (state["table"]["26"], state["table"]["46"], state["table"]["7"], state["table"]["63"]) == (3, 6, 0, 7)
        assert state["ets"] == ["ets"] * 6 + ["strict", "ets"]

    def test_what_the_plan_shows_is_what_is_done(self, tree: str) -> None:
        kernel = host(tree)
        shown = [step["id"] for step in previewed(kernel, everything(tree))["plan"]["steps"]]
        assert kernel.mutations == []
        assert [step["id"] for step in applied(kernel, everything(tree))["executed"]] == shown

    def test_a_second_run_writes_nothing(self, tree: str) -> None:
        kernel = host(tree)
        applied(kernel, everything(tree))
        kernel.revive()
        outcome = applied(kernel, everything(tree))
        assert (outcome["changed"], kernel.mutations) == (False, [])

    def test_all_of_it_goes_back(self, tree: str) -> None:
        kernel = host(tree)
        before, files = state_of(kernel), settled(kernel)["files"]
        applied(kernel, everything(tree))
        outcome = applied(kernel, None, REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert state_of(kernel) == before
        left = {path for path, text in settled(kernel)["files"].items() if files.get(path) != text}
        # Modules stay loaded, and configfs mounted.
        assert left <= {"/proc/modules", "/sys/module/rdma_cm/refcnt", "/stand-in/configfs", qos.tos_memory(DEVICE)}

    def test_originals_are_those_before_the_first_of_several_runs(self, tree: str) -> None:
        kernel = host(tree)
        before = state_of(kernel)
        applied(kernel, everything(tree))
        applied(kernel, asked(tree, dscp_priority={10: 5}, pfc=[5], ets={1: 100}, tos=104))
        assert state_of(kernel)["pfc"] == [5]
        outcome = applied(kernel, None, REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert state_of(kernel) == before

    @pytest.mark.slow
    def test_every_disturbance_is_healed_by_the_next_run(self, tree: str) -> None:
        assert sweep(lambda: host(tree), lambda kernel: applied(kernel, everything(tree))) >= 10

    @pytest.mark.slow
    def test_so_is_every_disturbance_of_the_way_back(self, tree: str) -> None:
        def configured() -> Kernel:
            kernel = host(tree)
            applied(kernel, everything(tree))
            kernel.revive()
            return kernel

        assert sweep(configured, lambda kernel: applied(kernel, None, REMOVE), ("EIO",)) >= 10

    def test_flow_control_goes_off_before_global_pause_goes_on(self, tree: str) -> None:
        kernel = host(tree)
        applied(kernel, everything(tree))
        kernel.revive()
        outcome = applied(kernel, asked(tree, pfc=[], pause=True))
        assert [step["id"].split(":")[1] for step in outcome["executed"]] == ["pfc", "pause"]
        assert (state_of(kernel)["pfc"], state_of(kernel)["pause"]) == ([], {"rx": True, "tx": True})


class TestVendor:
    @pytest.mark.parametrize("tree", [VENDOR, OLD_VENDOR])
    def test_congestion_control_and_marks_are_set(self, tree: str) -> None:
        kernel = host(tree)
        applied(kernel, everything(tree))
        state = state_of(kernel)
        assert (state["ecn"], state["cnp"], state["traffic_class"]) == (
            ["rp3", "np3"],
            ("48", "6"),
            "Global tclass=106",
        )

    def test_one_side_of_congestion_control_is_set_alone(self) -> None:
        kernel = host(VENDOR)
        applied(kernel, {"ecn": {3: {"np": True}, 5: True}})
        assert state_of(kernel)["ecn"] == ["rp5", "np3", "np5"]
        applied(kernel, {"ecn": {5: False}})
        assert state_of(kernel)["ecn"] == ["np3"]

    def test_half_of_a_change_is_taken_back_whatever_was_on_before(self) -> None:
        settings = {"ecn": {3: True, 5: False}}

        def with_five() -> Kernel:
            kernel = host(VENDOR)
            applied(kernel, {"ecn": {5: True}})
            kernel.revive()
            return kernel

        calm = with_five()
        applied(calm, settings)
        writes = [number for number, done in enumerate(calm.mutations) if done.kind == "attribute"]
        kernel = with_five()
        kernel.disturb(writes[1], "EIO")
        outcome = applied(kernel, settings)
        assert outcome["failed"] and outcome["failed_step"]["not_undone"] == []
        assert state_of(kernel)["ecn"] == ["rp5", "np5"]

    def test_the_traffic_class_goes_back_to_none(self) -> None:
        kernel = host(VENDOR)
        applied(kernel, {"traffic_class": 106})
        applied(kernel, None, REMOVE)
        assert state_of(kernel)["traffic_class"] == ""

    def test_rules_for_single_destinations_are_no_class_of_all(self) -> None:
        kernel = host(VENDOR)
        path = f"/sys/class/infiniband/{DEVICE}/tc/1/traffic_class"
        kernel.tree.add_file(path, "tclass=32,dst_ip=10.0.0.0/8\n")
        (step,) = previewed(kernel, {"traffic_class": 106})["plan"]["steps"]
        assert (step["from"], step["to"]) == (-1, 106)

    def test_a_port_that_has_trust_by_file_and_priorities_by_dcb_stays_as_it_was_set(self) -> None:
        kernel = host(OLD_VENDOR)
        kernel.tree.discard(f"/sys/class/net/{PORT}/qos/dscp2prio")
        for changed in (True, False):
            outcome = applied(kernel, {"trust": "dscp", "dscp_priority": {26: 3}})
            assert (outcome.get("failed", False), outcome["changed"]) == (False, changed), outcome["msg"]
        assert qos.state_of(kernel, PORT)["app"] == {"26": 3}


class TestInbox:
    def test_marks_of_notifications_are_in_debugfs(self) -> None:
        kernel = host()
        base = "/sys/kernel/debug/mlx5/0000:18:00.0/cc_params"
        for name in ("np_cnp_dscp", "np_cnp_prio"):
            kernel.tree.add_file(f"{base}/{name}", "0\n")
        outcome = applied(kernel, {"cnp_dscp": 48, "cnp_priority": 6})
        assert not outcome.get("failed"), outcome["msg"]
        assert [kernel.read(f"{base}/{name}") for name in ("np_cnp_dscp", "np_cnp_prio")] == ["48\n", "6\n"]

    def test_a_priority_that_the_card_does_not_use_is_set_and_is_not_used_again_afterwards(self) -> None:
        """The former value is the wanted one, but the card gives notifications the priority of their packets."""
        kernel = host()
        qos.add_kernel_notifications(kernel, "0000:18:00.0", priority=6, mode=1)
        (step,) = previewed(kernel, {"cnp_priority": 6})["plan"]["steps"]
        assert "to 6 (now that of the packet)" in step["action"]
        assert not applied(kernel, {"cnp_priority": 6}).get("failed")
        assert qos.kernel_notifications(kernel, "0000:18:00.0") == {"priority": 6, "mode": 0}
        assert previewed(kernel, {"cnp_priority": 6})["plan"]["steps"] == []
        assert not applied(kernel, None, REMOVE).get("failed")
        assert qos.kernel_notifications(kernel, "0000:18:00.0") == {"priority": 6, "mode": 1}

    def test_a_table_that_is_there_is_changed_where_it_differs(self) -> None:
        kernel = host(app={"26": 4, "10": 1})
        applied(kernel, {"trust": "dscp", "dscp_priority": {26: 3}})
        assert qos.state_of(kernel, PORT)["app"] == {"26": 3, "10": 1}
        applied(kernel, None, REMOVE)
        assert qos.state_of(kernel, PORT)["app"] == {"26": 4, "10": 1}

    def test_what_was_odd_before_is_odd_again(self) -> None:
        kernel = host(pfc=[5])
        before = state_of(kernel)
        assert before["pause"] == {"rx": True, "tx": True}
        applied(kernel, {"pfc": []})
        applied(kernel, None, REMOVE)
        assert state_of(kernel) == before

    def test_entries_that_were_added_to_a_table_are_removed_again(self) -> None:
        kernel = host(app={"10": 1})
        applied(kernel, {"trust": "dscp", "dscp_priority": {26: 3}})
        assert qos.state_of(kernel, PORT)["app"] == {"26": 3, "10": 1}
        applied(kernel, None, REMOVE)
        assert qos.state_of(kernel, PORT)["app"] == {"10": 1}

    def test_a_port_trusts_tags_again_without_entries(self) -> None:
        kernel = host(app={"10": 1})
        applied(kernel, {"trust": "pcp"})
        assert qos.state_of(kernel, PORT)["app"] == {}

    def test_dcbx_goes_back_to_the_firmware_with_the_vendors_tool(self) -> None:
        kernel = host(dcbx=["cee", "host", "ieee"])
        assert not applied(kernel, {"dcbx": "firmware"}).get("failed")
        assert state_of(kernel)["dcbx"] == "firmware"

    def test_without_that_tool_the_host_keeps_dcbx_and_says_so(self) -> None:
        kernel = host()
        applied(kernel, {"dcbx": "os"})
        kernel.tree.discard("/usr/bin/mlnx_qos")
        outcome = applied(kernel, None, REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert state_of(kernel)["dcbx"] == "os"
        (notice,) = outcome["plan"]["notices"]
        assert "the owner of DCBX can't be set to firmware again: only mlnx_qos" in notice

    def test_the_link_is_waited_for(self) -> None:
        kernel = host()
        applied(kernel, {"pfc": [3]})
        assert kernel.now() >= qos.LINK_SECONDS
        assert kernel.read(f"/sys/class/net/{PORT}/carrier") == "1\n"

    def test_a_link_that_stays_away_fails_the_step_and_flow_control_goes_off_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = host()
        monkeypatch.setattr(qos, "LINK_SECONDS", 1e6)
        outcome = applied(kernel, {"pfc": [3]})
        assert outcome["failed"] and "waited 60 seconds for the link" in outcome["msg"]
        assert state_of(kernel)["pfc"] == []

    @pytest.mark.parametrize(
        ("code", "says"),
        [
            ("EINVAL", "too little receive buffer"),
            ("EOPNOTSUPP", "leave it out of qos"),
            ("EPERM", "lldpad"),
            ("ENODEV", "run again"),
            ("EIO", "syndrome"),
        ],
    )
    def test_each_error_of_the_driver_has_its_cause_and_next_step(self, code: str, says: str) -> None:
        calm = host(pause={"rx": False, "tx": False})
        applied(calm, {"pfc": [3]})
        number = next(number for number, done in enumerate(calm.mutations) if done.what.startswith("dcb pfc set"))
        kernel = host(pause={"rx": False, "tx": False})
        kernel.disturb(number, code)
        outcome = applied(kernel, {"pfc": [3]})
        assert outcome["failed"]
        assert says in outcome["msg"] and "next: " in outcome["msg"], outcome["msg"]

    def test_a_value_that_the_driver_does_not_keep_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host()
        monkeypatch.setitem(qos._SET, "pfc", lambda *_arguments: "")
        outcome = applied(kernel, {"cable_length": 20})
        assert outcome["failed"] and "the cable length is 7 m, expected 20 m" in outcome["msg"]


class TestTos:
    def test_rdma_cm_is_loaded_and_configfs_mounted_for_it(self) -> None:
        kernel = host()
        outcome = applied(kernel, {"tos": 106})
        assert not outcome.get("failed"), outcome["msg"]
        runs = [what for kind, what in kernel.mutations if kind == "run"]
        assert runs == [
            "modprobe rdma_cm",
            "mount -t configfs configfs /sys/kernel/config",
            f"mkdir /sys/kernel/config/rdma_cm/{DEVICE}",
        ]

    def test_a_configfs_that_systemd_mounts_meanwhile_is_as_good(self) -> None:
        kernel = host()
        kernel.tree.add_file("/stand-in/configfs", "")
        outcome = applied(kernel, {"tos": 106})
        assert not outcome.get("failed"), outcome["msg"]
        assert state_of(kernel)["tos"] == "106"

    def test_nothing_is_loaded_or_made_that_is_there(self) -> None:
        kernel = host()
        applied(kernel, {"tos": 106})
        kernel.revive()
        applied(kernel, {"tos": 104})
        assert [what for _kind, what in kernel.mutations] == [
            f"/sys/kernel/config/rdma_cm/{DEVICE}/ports/1/default_roce_tos = 104"
        ]

    def test_a_value_without_its_directory_is_found_out(self) -> None:
        kernel = host()
        applied(kernel, {"tos": 106})
        kernel.run(("rmdir", f"{qos.RDMA_CM}/{DEVICE}"), 10)
        kernel.revive()
        (step,) = previewed(kernel, {"tos": 106})["plan"]["steps"]
        assert step["from"] is None
        assert not applied(kernel, {"tos": 106}).get("failed")

    def test_a_kernel_without_the_module_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host()
        monkeypatch.setattr(kmods, "MISSING", "rdma_cm")
        outcome = applied(kernel, {"tos": 106})
        assert outcome["failed"] and "linux-modules-extra" in outcome["msg"], outcome["msg"]


NAMED, TOS = {"rdma_name": "rdma_rail0"}, {"qos": {"tos": 106}}


@pytest.mark.parametrize(
    "entries",
    [[{**NAMED, **TOS}], [NAMED, TOS], [NAMED, {**NAMED, **TOS}], [TOS, NAMED], [TOS, {**NAMED, **TOS}]],
)
def test_a_device_that_gets_its_name_back_gets_the_kernels_own_tos_back(entries: list[dict[str, Any]]) -> None:
    """The directory of RDMA-CM has the name that the device had when it was made, and means nothing under another."""
    kernel = host()
    run = replace(APPLY, concerns=("naming", "qos"))
    for entry in entries:
        outcome = apply(kernel, mlx5.wish(**entry), run, None, kernel)
        assert not outcome.get("failed") and outcome["plan"]["steps"] == [], outcome["msg"]
    (device,) = kernel.list("/sys/class/infiniband")
    assert kernel.read(qos.tos_memory(device)) == "106\n"
    if "qos" in entries[-1]:
        assert kernel.list(qos.RDMA_CM) == [device], "the directory of the former name is gone"
    outcome = apply(kernel, mlx5.wish(), replace(run, state="absent"), None, kernel)
    assert not outcome.get("failed") and outcome["plan"]["steps"] == [], outcome["msg"]
    assert (kernel.list("/sys/class/infiniband"), kernel.list(qos.RDMA_CM)) == ([DEVICE], [])
    assert kernel.read(qos.tos_memory(DEVICE)) == "0\n"
