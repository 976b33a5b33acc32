# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.driver.version import parse_driver_version
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods.files import LOAD_FILE, load_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.plan import make_plan
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    desired,
    facts,
    gpu,
    module,
    netdev,
    nic,
    ofed,
    request,
    steps_of,
    two_ports,
    with_functions,
)

PF = "0000:18:00.0"


def stack(flavour: str = "inbox", version: str | None = None, **changes: Any) -> dict[str, Any]:
    base = {"flavour": flavour, "version": version, "gpu_driver": None, "gpu_driver_flavour": None, "peer_memory": None}
    return {**base, **changes}


def driver_steps(state: dict[str, Any], *requests: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    return steps_of(make_plan(desired(requests=list(requests), **changes), state), "driver")


class TestModules:
    def test_a_missing_module_is_loaded_now_and_at_boot(self) -> None:
        (step,) = make_plan(desired(kernel_modules=["rdma_ucm"]), two_ports())["steps"]
        assert (step["id"], step["from"], step["to"]) == ("modules:rdma_ucm", "not loaded", "loaded")
        assert (step["when"], step["status"]) == ("now+boot", "planned")

    @pytest.mark.parametrize("present", [module(), module(loaded=False, builtin=True)])
    def test_a_loaded_or_built_in_module_needs_no_step(self, present: dict[str, Any]) -> None:
        state = two_ports(modules={"rdma_ucm": present}, boot={"files": {LOAD_FILE: load_file(["rdma_ucm"])}})
        if present["builtin"]:
            state["boot"]["files"] = {}
        assert make_plan(desired(kernel_modules=["rdma_ucm"]), state)["steps"] == []

    def test_dash_and_underscore_are_one_module(self) -> None:
        state = two_ports(
            modules={"nvidia_peermem": module()}, boot={"files": {LOAD_FILE: load_file(["nvidia_peermem"])}}
        )
        assert make_plan(desired(kernel_modules=["nvidia-peermem"]), state)["steps"] == []

    def test_a_module_that_nothing_of_ours_loads_at_boot_gets_a_step_for_it(self) -> None:
        (step,) = make_plan(desired(kernel_modules=["mlx5_core"]), two_ports())["steps"]
        assert (step["from"], step["to"], step["when"]) == ("loaded", "loaded", "boot")


class TestDriverVersion:
    @pytest.mark.parametrize(
        ("text", "fields", "release", "doca"),
        [
            ("24.07-0.6.1.0-0", (24, 7, 0, 6, 1), "24.07-0.6.1.0", None),
            ("5.0-2.1.8.0", (5, 0, 2, 1, 8), "5.0-2.1.8.0", None),
            ("24.10-1.1.4", (24, 10, 1, 1, 4), "24.10-1.1.4", None),
            ("doca3.1.0-25.07-0.9.7.0-0", (25, 7, 0, 9, 7), "25.07-0.9.7.0", "3.1.0"),
            ("doca3.2-25.10-1.2.8.0-2-ubuntu24.04-amd64", (25, 10, 1, 2, 8), "25.10-1.2.8.0", "3.2"),
            ("23.04-0.5.3.3.1", (23, 4, 0, 5, 3), "23.04-0.5.3.3.1", None),
            ("24.10-1", (24, 10, 1, 0, 0), "24.10-1", None),
        ],
    )
    def test_releases_are_read(self, text: str, fields: tuple[int, ...], release: str, doca: str | None) -> None:
        version = parse_driver_version(text)
        assert version is not None
        assert (version.fields, version.release, version.doca) == (fields, release, doca)

    @pytest.mark.parametrize("text", ["", "latest", "24.07", "v24.07-0.6.1.0", "sha256:" + "a" * 64, "9" * 9000])
    def test_other_texts_name_no_release(self, text: str) -> None:
        assert parse_driver_version(text) is None


class TestDriver:
    def test_an_inbox_driver_is_to_be_replaced(self) -> None:
        (step,) = driver_steps(two_ports(), request(driver=ofed("24.07-0.6.1.0-0")))
        assert step["action"] == "replace the inbox mlx5 driver by DOCA-OFED 24.07-0.6.1.0"
        assert step["status"] == "not_executed_yet"
        assert step["to"] == ofed("24.07-0.6.1.0-0")

    def test_the_old_image_means_mlnx_ofed(self) -> None:
        (step,) = driver_steps(two_ports(), request(driver=ofed("5.0-2.1.8.0", image="mofed")))
        assert step["action"].endswith("by MLNX_OFED 5.0-2.1.8.0")

    @pytest.mark.parametrize("version", ["23.10-1.1.9", "23.10-1.1.9.0"])
    def test_the_wanted_release_needs_no_step(self, version: str) -> None:
        state = two_ports(stack=stack("doca-ofed", version))
        assert driver_steps(state, request(driver=ofed("23.10-1.1.9.0-0"))) == []

    @pytest.mark.parametrize(
        ("wanted", "action"),
        [
            ("24.10-0.7.0.0-0", "upgrade MLNX_OFED 23.10-1.1.9 to DOCA-OFED 24.10-0.7.0.0"),
            ("23.07-0.5.0.0-0", "downgrade MLNX_OFED 23.10-1.1.9 to DOCA-OFED 23.07-0.5.0.0"),
        ],
    )
    def test_another_release_says_the_direction(self, wanted: str, action: str) -> None:
        state = two_ports(stack=stack("mlnx-ofed", "23.10-1.1.9"))
        assert driver_steps(state, request(driver=ofed(wanted)))[0]["action"] == action

    @pytest.mark.parametrize("version", [None, "unknown", "sha256:"])
    def test_a_vendor_driver_of_unknown_release_is_replaced(self, version: str | None) -> None:
        (step,) = driver_steps(two_ports(stack=stack("mlnx-ofed", version)), request(driver=ofed("24.07-0.6.1.0-0")))
        assert step["action"].startswith("replace MLNX_OFED")

    def test_no_driver_at_all_is_installed(self) -> None:
        (step,) = driver_steps(two_ports(stack=stack("none")), request(driver=ofed("24.07-0.6.1.0-0")))
        assert step["action"] == "install DOCA-OFED 24.07-0.6.1.0"

    @pytest.mark.parametrize(
        ("flavour", "action"),
        [
            ("inbox", "load the installed DOCA-OFED 24.07-0.6.1.0 in place of the inbox mlx5 driver"),
            ("none", "load the installed DOCA-OFED 24.07-0.6.1.0"),
        ],
    )
    def test_an_installed_release_is_only_to_be_loaded(self, flavour: str, action: str) -> None:
        state = two_ports(stack=stack(flavour, installed="OFED-internal-24.07-0.6.1"))
        assert driver_steps(state, request(driver=ofed("24.07-0.6.1.0-0")))[0]["action"] == action

    def test_it_names_every_interface_it_takes_away_and_the_uplink(self) -> None:
        state = two_ports()
        state["uplinks"] = [{"netdev": "ens2", "pci": "0000:40:00.0", "reasons": ["default route"]}]
        (step,) = driver_steps(state, request(driver=ofed("24.07-0.6.1.0-0")))
        assert step["interrupts"] == "traffic on ens1, ens2 (the uplink: default route)"

    def test_it_says_that_functions_are_lost(self) -> None:
        (step,) = driver_steps(with_functions(two_ports(), PF, 2), request(driver=ofed("24.07-0.6.1.0-0")))
        assert "removes the 2 virtual functions" in step["detail"]

    def test_secure_boot_is_said(self) -> None:
        state = two_ports()
        state["system"]["secure_boot"] = True
        assert "Secure Boot" in driver_steps(state, request(driver=ofed("24.07-0.6.1.0-0")))[0]["detail"]

    def test_an_ostree_system_is_refused(self) -> None:
        state = two_ports()
        state["system"]["ostree"] = True
        assert driver_steps(state, request(driver=ofed("24.07-0.6.1.0-0")))[0]["status"] == "refused"

    def test_a_host_without_nvidia_nic_gets_nothing(self) -> None:
        state = facts([nic(PF, "eno1", vendor="8086")], [netdev("eno1", PF)])
        assert driver_steps(state, request(driver=ofed("24.07-0.6.1.0-0"))) == []

    @pytest.mark.parametrize(
        ("selector", "labels", "count"),
        [
            ({}, {}, 1),
            ({"feature.node.kubernetes.io/pci-15b3.present": "true"}, {}, 1),
            ({"kubernetes.io/arch": "arm64"}, {}, 0),
            ({"role": "gpu"}, {}, 0),
            ({"role": "gpu"}, {"role": "gpu"}, 1),
            ({"role": "gpu", "rack": "r1"}, {"role": "gpu"}, 0),
        ],
    )
    def test_only_selected_hosts_are_asked(self, selector: dict[str, str], labels: dict[str, str], count: int) -> None:
        asked = request(node_selector=selector, driver=ofed("24.07-0.6.1.0-0"))
        assert len(driver_steps(two_ports(), asked, node_labels=labels)) == count

    def test_two_requests_for_one_host_are_refused_by_name(self) -> None:
        (step,) = driver_steps(
            two_ports(),
            request("NicNodePolicy/b", driver=ofed("24.10-0.7.0.0-0")),
            request("NicClusterPolicy/a", driver=ofed("24.07-0.6.1.0-0")),
        )
        assert step["status"] == "refused"
        assert "NicClusterPolicy/a" in step["reason"] and "NicNodePolicy/b" in step["reason"]

    def test_a_digest_can_not_be_compared(self) -> None:
        state = two_ports(stack=stack("doca-ofed", "24.07-0.6.1.0"))
        (step,) = driver_steps(state, request(driver=ofed("sha256:" + "0" * 64)))
        assert (step["status"], "digest" in step["detail"]) == ("not_executed_yet", True)

    @pytest.mark.parametrize("version", ["latest", "", "24.07\nrefused: all", None])
    def test_an_unreadable_version_is_refused(self, version: Any) -> None:
        (step,) = driver_steps(two_ports(), request(driver=ofed(version)))
        assert (step["status"], "24.07-0.6.1.0-0" in step["detail"]) == ("refused", True)


class TestPeerMemory:
    REQUEST = request(peer_memory={"image": "nv-peer-mem-driver", "version": "1.0-9"})

    def plan(self, state: dict[str, Any], *requests: dict[str, Any]) -> dict[str, Any]:
        return make_plan(desired(requests=[self.REQUEST, *requests]), state)

    def state(self, **changes: Any) -> dict[str, Any]:
        return two_ports(gpus=[gpu("0000:1b:00.0")], stack=stack(**changes))

    def test_a_host_without_gpu_gets_nothing(self) -> None:
        plan = self.plan(two_ports(stack=stack("doca-ofed", "24.07-0.6.1.0")))
        assert (plan["steps"], plan["notices"]) == ([], [])

    def test_a_host_without_nvidia_nic_gets_nothing(self) -> None:
        assert self.plan(facts(gpus=[gpu("0000:1b:00.0")], stack=stack(gpu_driver="535.161.08")))["steps"] == []

    def test_a_host_that_nobody_asks_about_gets_nothing(self) -> None:
        state = self.state(flavour="doca-ofed", gpu_driver="535.161.08", gpu_driver_flavour="proprietary")
        assert make_plan(desired(), state)["steps"] == []

    @pytest.mark.parametrize("active", ["nvidia-peermem", "nv_peer_mem"])
    def test_a_loaded_module_needs_no_step(self, active: str) -> None:
        assert self.plan(self.state(peer_memory=active))["steps"] == []

    def test_the_open_gpu_driver_shares_memory_without_a_module(self) -> None:
        plan = self.plan(self.state(gpu_driver="570.86.15", gpu_driver_flavour="open"))
        assert plan["steps"] == []
        assert "DMA-BUF" in plan["notices"][0]

    @pytest.mark.parametrize(
        ("driver", "flavour", "kernel", "mechanism"),
        [
            ("570.86.15", "proprietary", "6.8.0", "nvidia-peermem"),
            ("510.47.03", "open", "6.8.0", "nvidia-peermem"),
            ("570.86.15", "open", "5.11.0", "nvidia-peermem"),
            ("470.57.02", "proprietary", "6.8.0", "nvidia-peermem"),
            ("460.32.03", "proprietary", "5.4.0", "nv_peer_mem"),
        ],
    )
    def test_the_module_is_chosen_by_driver_and_kernel(
        self, driver: str, flavour: str, kernel: str, mechanism: str
    ) -> None:
        state = self.state(flavour="mlnx-ofed", version="23.10-1.1.9", gpu_driver=driver, gpu_driver_flavour=flavour)
        state["system"]["kernel"] = kernel
        (step,) = self.plan(state)["steps"]
        assert (step["to"], step["status"]) == (mechanism, "not_executed_yet")

    def test_a_missing_gpu_driver_is_refused(self) -> None:
        (step,) = self.plan(self.state(flavour="doca-ofed"))["steps"]
        assert (step["status"], "GPU driver is not loaded" in step["detail"]) == ("refused", True)

    def test_an_inbox_stack_without_peer_symbols_is_refused(self) -> None:
        (step,) = self.plan(self.state(gpu_driver="535.161.08", gpu_driver_flavour="proprietary"))["steps"]
        assert (step["status"], "ofedDriver" in step["detail"]) == ("refused", True)

    def test_a_driver_that_is_asked_for_as_well_clears_the_way(self) -> None:
        state = self.state(gpu_driver="535.161.08", gpu_driver_flavour="proprietary")
        steps = self.plan(state, request("x", driver=ofed("24.07-0.6.1.0-0")))["steps"]
        assert [(step["concern"], step["status"]) for step in steps] == [
            ("driver", "not_executed_yet"),
            ("peer_memory", "not_executed_yet"),
        ]
