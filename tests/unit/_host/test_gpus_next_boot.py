# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reboot does to the GPUs of a host is told before it, and what would take NVLink away holds it back."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gpus import CAPABILITIES, QUERY, parse_modes
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import dgx
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import applied, document, function, previewed
from ansible_collections.rdma.fabric.tests.unit.captures import Facts, each_of

WISH: Any = {"kernel_arguments": ["iommu=pt"]}
GPUS = ("0000:36:00.0", "0000:37:00.0")
SWITCH = "0000:07:00.0"
A100, H100, B200, GB200 = "20b2", "2330", "2901", "2941"
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
STATES = {
    "installed": "/usr/lib/systemd/system/{}.service",
    "enabled": "/etc/systemd/system/multi-user.target.wants/{}.service",
    "active": "/sys/fs/cgroup/system.slice/{}.service/cgroup.procs",
    "active-v1": "/sys/fs/cgroup/systemd/system.slice/{}.service/cgroup.procs",
    "graphical": "/etc/systemd/system/graphical.target.wants/{}.service",
    "vendor": "/usr/lib/systemd/system/multi-user.target.wants/{}.service",
    "upheld": "/etc/systemd/system/multi-user.target.upholds/{}.service",
    "by-a-path": "/etc/systemd/system/multi-user.target.wants/nvidia-nvswitch-devices.path",
}


def host(
    gpu: str,
    service: str = MANAGER,
    *states: str,
    switch: str | None = None,
    modes: str = "",
    driver: str = "",
    manager: str = "",
) -> Kernel:
    """A host with two GPUs and the service in these states; ``switch`` is the driver of an NVSwitch.

    ``driver`` is the version of the GPU driver on the disk, ``manager`` that of the fabric manager.
    """
    made = document("debian-12")
    release = made["files"]["/proc/sys/kernel/osrelease"].strip()
    printed = f"\n\tFabric Manager version is : {manager}\n" if manager else ""
    of_driver = f"modinfo -k {release} -F version nvidia"
    answers = {" ".join(QUERY): modes, of_driver: f"{driver}\n", "nv-fabricmanager --version": printed}
    made["commands"].update({words: {"rc": 0, "stdout": text, "stderr": ""} for words, text in answers.items()})
    kernel = Kernel(made)
    for address in GPUS:
        function(kernel, address, f"10DE:{gpu.upper()}", "30200", "nvidia")
    if switch:
        function(kernel, SWITCH, "10DE:22A3", "68000", switch)
    for state in states:
        kernel.tree.add_file(STATES[state].format(service), "")
    kernel.tree.add_file(f"{CAPABILITIES}/mig/config", "")
    return kernel


def told(outcome: Mapping[str, Any], word: str) -> list[str]:
    return [notice for notice in outcome["plan"]["notices"] if word in notice]


def refused(outcome: Mapping[str, Any]) -> list[str]:
    return [step["detail"] for step in outcome["plan"]["steps"] if step["id"] == "reboot:nvlink"]


class TestFabricManager:
    @pytest.mark.parametrize("active", ["active", "active-v1"])
    def test_a_reboot_that_would_take_cuda_away_is_refused(self, active: str) -> None:
        kernel = host(H100, MANAGER, "installed", active, switch="nvidia-nvswitch")
        outcome = applied(kernel, **WISH)
        (detail,) = refused(outcome)
        assert outcome["reboot_required"] is False
        assert f"joined by NVSwitches ({SWITCH})" in detail and "CUDA ends with error 802" in detail
        assert detail.endswith("it runs now; next: systemctl enable nvidia-fabricmanager, and run again")
        kernel.tree.add_file(STATES["enabled"].format(MANAGER), "")
        kernel.revive()
        outcome = applied(kernel, **WISH)
        assert (outcome["reboot_required"], refused(outcome), told(outcome, "NVSwitch")) == (True, [], [])

    @pytest.mark.parametrize("gpu", [H100, B200])
    @pytest.mark.parametrize("state", ["enabled", "graphical", "vendor", "upheld", "by-a-path"])
    def test_one_that_is_enabled_is_nothing_to_tell(self, gpu: str, state: str) -> None:
        kernel = host(gpu, MANAGER, "installed", state, switch="nvidia-nvswitch" if gpu == H100 else None)
        outcome = previewed(kernel, **WISH)
        assert (refused(outcome), told(outcome, "802")) == ([], [])

    @pytest.mark.parametrize(
        ("active", "driver", "manager", "said"),
        [
            (True, "550.127.05", "550.120", 1),
            (True, "550.120", "550.120", 0),
            (True, "", "550.120", 0),
            (True, "550.127.05", "", 0),
            (False, "550.127.05", "550.120", 0),
        ],
    )
    def test_a_reboot_into_a_driver_of_another_version_is_refused(
        self, active: bool, driver: str, manager: str, said: int
    ) -> None:
        """It ends at its start then: an upgrade of packages had replaced one of the two (NVIDIA/gpu-operator#544)."""
        states = ("installed", "enabled", *(("active",) if active else ()))
        kernel = host(H100, MANAGER, *states, switch="nvidia-nvswitch", driver=driver, manager=manager)
        outcome = applied(kernel, **WISH)
        details = refused(outcome)
        assert (outcome["reboot_required"], len(details)) == (not said, said)
        assert all(f"loads GPU driver {driver}, and nvidia-fabricmanager {manager} starts" in each for each in details)

    @pytest.mark.parametrize(
        ("states", "advice"),
        [
            ((), "install nvidia-fabricmanager in the release of the GPU driver and enable it"),
            (("installed",), "systemctl enable --now nvidia-fabricmanager"),
        ],
    )
    def test_switches_that_nobody_sets_up_now_either_are_told(self, states: tuple[str, ...], advice: str) -> None:
        outcome = applied(host(B200, MANAGER, *states), **WISH)
        (notice,) = told(outcome, "802")
        assert notice.endswith(f"it does not run now either; next: {advice}")
        assert "joined by NVSwitches, and nothing starts" in notice, "PCI does not show those of B200"
        assert (outcome["reboot_required"], refused(outcome)) == (True, [])

    def test_a_masked_service_is_unmasked_first(self) -> None:
        kernel = host(H100, MANAGER, "installed", "active", "enabled", switch="nvidia-nvswitch")
        kernel.tree.add_link(f"/etc/systemd/system/{MANAGER}.service", "/dev/null")
        (detail,) = refused(previewed(kernel, **WISH))
        assert "systemctl unmask nvidia-fabricmanager && systemctl enable nvidia-fabricmanager" in detail

    @pytest.mark.parametrize("driver", ["vfio-pci", None])
    def test_a_host_without_switches_of_its_own_needs_none(self, driver: str | None) -> None:
        outcome = applied(host(H100, MANAGER, "installed", "active", switch=driver), **WISH)
        assert (outcome["reboot_required"], refused(outcome), told(outcome, "NVSwitch")) == (True, [], [])

    def test_the_gpu_operator_s_container_starts_its_own(self) -> None:
        kernel = host(H100, MANAGER, switch="nvidia-nvswitch")
        kernel.tree.add_file("/run/nvidia/validations/.driver-ctr-ready", "")
        assert told(applied(kernel, **WISH), "NVSwitch") == []

    def test_nvlink_of_a_virtual_machine_is_left_to_the_machine_below(self) -> None:
        kernel = host(H100, MANAGER, switch="nvidia-nvswitch")
        kernel.tree.add_file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n")
        assert told(previewed(kernel, **WISH), "NVSwitch") == []

    def test_nothing_is_told_where_nothing_is_rebooted(self) -> None:
        assert told(applied(host(H100, MANAGER, switch="nvidia-nvswitch")), "802") == []

    def test_it_is_told_in_the_facts_and_recorded(self) -> None:
        tree = dgx("gpu01", 1, "composed for a test")
        facts = gather(RecordedHost(tree.document()))["nvlink"]
        assert (len(facts["switches"]), facts["service"]) == (4, MANAGER)
        assert facts["state"] == {"installed": True, "enabled": True, "masked": False, "active": True}
        again = RecordedHost(record(RecordedHost(tree.document()), "gpu01"))
        assert gather(again)["nvlink"] == facts

    @each_of("services")
    def test_a_service_as_systemctl_shows_it(self, facts: Facts) -> None:
        """Its file, whether it is enabled and its cgroup are laid out where systemd has them."""
        kernel = host(facts["gpu"])
        kernel.tree.add_file(facts["file"], "")
        kernel.tree.add_file(f"/sys/fs/cgroup{facts['cgroup']}/cgroup.procs", "31082\n")
        kernel.tree.add_link(f"/etc/systemd/system/multi-user.target.wants/{facts['unit']}", facts["file"])
        found = gather(kernel)["nvlink"]
        assert f"{found['service']}.service" == facts["unit"]
        assert found["state"] == {"installed": True, "enabled": True, "masked": False, "active": True}


class TestImex:
    def test_a_tray_of_a_rack_has_no_fabric_manager(self) -> None:
        outcome = applied(host(GB200, MANAGER, "installed", "active"), **WISH)
        assert (outcome["reboot_required"], told(outcome, "nvidia-")) == (True, [])

    @pytest.mark.parametrize(("states", "count"), [(("active",), 1), (("active", "enabled"), 0), (("installed",), 0)])
    def test_memory_of_the_rack_that_goes_with_the_reboot_is_told(self, states: tuple[str, ...], count: int) -> None:
        outcome = applied(host(GB200, IMEX, "installed", *states), **WISH)
        notices = told(outcome, "nvidia-imex runs now and nothing starts it at boot")
        assert len(notices) == count
        assert all("systemctl enable nvidia-imex, unless ComputeDomains" in notice for notice in notices)
        assert (outcome["reboot_required"], refused(outcome)) == (True, [])


class TestMig:
    @each_of("mig")
    def test_what_nvidia_smi_prints(self, facts: Facts) -> None:
        """The capture has the present mode alone; the test lays out a pending one and a GPU without MIG beside it."""
        rows = [(address, mode, mode) for address, mode in facts["rows"]]
        text = "".join(f"{', '.join(row)}\n" for row in (*rows, ("00000000:01:00.0", "[N/A]", "[N/A]")))
        assert parse_modes(text) == {
            address: {"current": now, "pending": now} for address, now in facts["read"].items()
        }

    @pytest.mark.parametrize(
        ("gpu", "modes", "says"),
        [
            (H100, ("Enabled", "Enabled"), f"MIG is on for {GPUS[0]} and lasts only as long as the GPU driver"),
            (A100, ("Enabled", "Enabled"), None),
            (A100, ("Disabled", "Enabled"), f"MIG goes on with the reboot for {GPUS[0]}"),
            (A100, ("Enabled", "Disabled"), f"MIG goes off with the reboot for {GPUS[0]}"),
            (H100, ("Disabled", "Disabled"), None),
            (A100, ("[N/A]", "[N/A]"), None),
        ],
    )
    def test_what_a_reboot_does_to_it(self, gpu: str, modes: tuple[str, str], says: str | None) -> None:
        rows = f"0000{GPUS[0]}, {', '.join(modes)}\n0000{GPUS[1]}, Disabled, Disabled\n"
        outcome = applied(host(gpu, modes=rows), **WISH)
        notices = told(outcome, "MIG")
        assert len(notices) == (says is not None)
        assert all(str(says) in notice and "next: " in notice and GPUS[1] not in notice for notice in notices)
        assert outcome["reboot_required"]

    def test_instances_are_seen_by_anybody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Directories of the driver tell them; nvidia-smi is not asked unless a reboot is to come."""
        kernel = host(H100)
        for number, name in ((1, "gi1"), (1, "gi2"), (1, "gone"), (0, "config")):
            kernel.tree.add_file(f"{CAPABILITIES}/gpu{number}/mig/{name}/access", "DeviceFileMinor: 12\n")
        for minor, address in enumerate(reversed(GPUS)):
            kernel.tree.add_file(f"/proc/driver/nvidia/gpus/{address}/information", f"Device Minor: \t {minor}\n")
        asked: list[str] = []
        run = kernel.run

        def spied(argv: Any, *rest: Any) -> Any:
            asked.append(argv[0])
            return run(argv, *rest)

        monkeypatch.setattr(kernel, "run", spied)
        assert gather(kernel)["mig"] == {GPUS[0]: 2}
        assert QUERY[0] not in asked
        (notice,) = told(applied(kernel, **WISH), "MIG")
        assert GPUS[0] in notice and QUERY[0] in asked
        (notice,) = told(previewed(kernel, peer_memory={"state": "present", "mechanism": "auto"}), "MIG divides")
        assert f"instances: {GPUS[0]} (2); GPUDirect RDMA works in each, but NCCL" in notice
        assert told(previewed(kernel, peer_memory={"state": "absent"}), "MIG divides") == []
        assert gather(RecordedHost(record(kernel, "gpu01")))["mig"] == {GPUS[0]: 2}
        for address in GPUS:
            kernel.tree.discard(f"/proc/driver/nvidia/gpus/{address}/information")
        assert "mig" not in gather(kernel), "instances of no known GPU are nobody's"
