# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel module that the host's kernel does not have is refused by name, and any where nothing can load one; what a
host does not tell stays planned."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.modules import LOAD_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import driver_host
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.stack import module_file, release
from ansible_collections.rdma.fabric.tests.unit._host.kernel.vfs import quiet
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import booted
from ansible_collections.rdma.fabric.tests.unit._host.peer_memory.test_modules import gpu_host
from ansible_collections.rdma.fabric.tests.unit._host.qos import hosts as of_qos

APPLY = Run(check=False, diff=True, mode="apply", recorded=False, strict=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
NOT_FOUND = "modinfo: ERROR: Module ib_umd not found.\n"
VENDOR = {"version": "24.10-1.1.4.0-0", "image": "doca-driver"}
ASKED: list[dict[str, Any]] = [
    {"driver": {"flavour": "doca-ofed", "version": "24.10-1.1.4.0"}},
    {"requests": [{"source": "NicClusterPolicy nic", "node_selector": {}, "driver": VENDOR}]},
]


def host(answer: dict[str, Any] | None, listed: str | None = None) -> Kernel:
    """Return a host whose modinfo gives ``answer`` about the modules ib_umd and rdma_ucm; None: it has no modinfo."""
    document = FLEET["egx-01"]().document()
    release = document["files"]["/proc/sys/kernel/osrelease"].strip()
    if answer is not None:
        for names in ("ib_umd", "ib_umd rdma_ucm"):
            document["commands"][f"modinfo -k {release} {names}"] = answer
    if listed is not None:
        document["files"][LOAD_FILE] = listed
    return Kernel(document)


def run(kernel: Kernel, **wish: Any) -> Mapping[str, Any]:
    return apply(kernel, check_spec({"kernel_modules": ["rdma_ucm", "ib-umd"], **wish}), APPLY, None, kernel)


def answer(stderr: str, status: int = 1) -> dict[str, Any]:
    return {"rc": status, "stdout": "filename: /lib/modules/x/rdma_ucm.ko\n", "stderr": stderr}


def test_a_misspelt_name_is_refused_and_the_others_are_loaded() -> None:
    kernel = host(answer(NOT_FOUND))
    outcome = run(kernel)
    assert [step["id"] for step in outcome["executed"]] == ["modules:rdma_ucm"]
    (left,) = outcome["plan"]["steps"]
    assert (left["id"], left["status"]) == ("modules:ib_umd", "refused")
    assert "has no module of this name (modinfo); next: correct the name" in left["detail"]
    assert "ib_umd" not in kernel.read(LOAD_FILE)
    kernel.revive()
    assert not run(kernel)["changed"]
    assert kernel.mutations == []


@pytest.mark.parametrize("told", [None, answer("modinfo: ERROR: could not read the index\n"), answer("", 0)])
def test_what_a_host_does_not_tell_stays_planned(told: dict[str, Any] | None) -> None:
    assert {step["id"] for step in run(host(told))["executed"]} >= {"modules:ib_umd", "modules:rdma_ucm"}


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("/etc/modprobe.d/site.conf", "# blacklist ib_umd\nblacklist rdma-ucm\ninstall ib_umd /bin/true\n", True),
        # NVIDIA's driver container loads them itself.
        ("/etc/modprobe.d/blacklist-ofed-modules.conf", "blacklist rdma_ucm\n", False),
    ],
)
def test_a_deny_list_that_keeps_the_boot_from_loading_a_module_is_told(path: str, text: str, told: bool) -> None:
    kernel = host(answer("", 0))
    kernel.tree.add_file(path, text)
    notices = [each for each in run(kernel)["plan"]["notices"] if "denies" in each]
    assert notices == [f"{path} denies rdma_ucm (blacklist): it is not loaded at boot; next: remove that line"] * told


def driven(wish: dict[str, Any], kernel: Kernel) -> Mapping[str, Any]:
    wish = {"kernel_modules": ["knem-x"], "consents": {"driver_reload": True}, **wish}
    kernel.revive()
    return apply(kernel, check_spec(wish), APPLY, None, kernel)


@pytest.mark.parametrize("wish", ASKED)
def test_what_only_the_driver_brings_is_loaded_by_the_run_after_its_own(wish: dict[str, Any]) -> None:
    kernel = driver_host("ubuntu-24.04")
    planned = preview(kernel, check_spec({"kernel_modules": ["knem-x"], **wish}), CHECK, None)["plan"]
    assert "knem_x: the kernel has no such module yet; it is loaded by the run after the driver's" in planned["notices"]
    first = driven(wish, kernel)
    assert [step["id"] for step in first["executed"]][-1] == "driver:load"
    assert "modules:knem_x" not in {step["id"] for step in first["executed"]}
    assert not kernel.exists(LOAD_FILE)
    kernel.tree.add_file(f"/lib/modules/{release(kernel)}/updates/dkms/knem_x.ko", module_file("vendor", depends=""))
    second = driven(wish, kernel)
    assert ([step["id"] for step in second["executed"]], second["plan"]["steps"]) == (["modules:knem_x"], [])
    assert "knem_x\n" in kernel.read(LOAD_FILE)
    assert not driven(wish, kernel)["changed"]


@pytest.mark.parametrize("wish", ASKED)
def test_what_the_driver_did_not_bring_is_refused_by_the_run_after_its_own(wish: dict[str, Any]) -> None:
    kernel = driver_host("ubuntu-24.04")
    left = driven(wish, kernel)["plan"]
    assert [(step["id"], step["status"]) for step in left["steps"]] == [("modules:knem_x", "refused")]
    assert left["notices"] == []


def test_a_refused_driver_hides_no_missing_module() -> None:
    kernel = driver_host("ubuntu-24.04")
    kernel.tree.add_file("/etc/os-release", 'ID=void\nVERSION_ID="1"\n')
    plan = preview(kernel, check_spec({"kernel_modules": ["knem-x"], **ASKED[0]}), CHECK, None)["plan"]
    assert {step["id"]: step["status"] for step in plan["steps"]} == {
        "modules:knem_x": "refused",
        "driver:system": "refused",
    }


def test_peer_memory_is_waited_for_as_well() -> None:
    wish = {"kernel_modules": ["knem-x"], "peer_memory": {"mechanism": "nvidia-peermem"}}
    plan = preview(gpu_host(), check_spec(wish), CHECK, None)["plan"]
    assert "modules:knem_x" not in {step["id"] for step in plan["steps"]}
    assert "it is loaded by the run after peer memory's" in plan["notices"][-1]


def test_a_name_that_another_kernel_had_stays_in_the_file_of_the_boot() -> None:
    first = host(None)
    run(first)
    text = first.read(LOAD_FILE)
    kernel = host(answer(NOT_FOUND), listed=text)
    outcome = run(kernel)
    assert [step["status"] for step in outcome["plan"]["steps"]] == ["refused"]
    assert kernel.read(LOAD_FILE) == text


ALLOWED = {"consents": {"driver_reload": True, "vf_reset": True}}
REFUSED = "this host has no modprobe, so no kernel module can be loaded now; next: install kmod"


def without_kmod(kernel: Kernel) -> Kernel:
    kernel.absent |= {"modinfo", "modprobe", "rmmod"}
    quiet(kernel).revive()
    return kernel


def with_its_driver_on_the_disk() -> Kernel:
    kernel = driver_host("ubuntu-24.04")
    run(kernel, kernel_modules=[], **ASKED[0])
    return kernel


@pytest.mark.parametrize(
    ("make", "wish", "step"),
    [
        (lambda: host(None), {"kernel_modules": ["ib-umd"]}, "modules:ib_umd"),
        (gpu_host, {"peer_memory": {"mechanism": "nvidia-peermem"}}, "peer_memory:gpudirect"),
        (booted, {"interfaces": [{"pci": PF, "vfs": 2, "vf_driver": "vfio-pci"}], **ALLOWED}, f"vfs:{PF}:driver"),
        (with_its_driver_on_the_disk, {**ASKED[0], **ALLOWED}, "driver:load"),
        (of_qos.host, {"interfaces": [{"pci": PF, "qos": {"tos": 106}}]}, f"qos:tos:{PF}"),
    ],
)
def test_nothing_is_loaded_where_no_program_can(make: Callable[[], Kernel], wish: dict[str, Any], step: str) -> None:
    kernel = without_kmod(make())
    outcome = run(kernel, **{"kernel_modules": [], **wish})
    left = {each["id"]: each for each in outcome["plan"]["steps"]}
    assert (left[step]["status"], REFUSED in left[step]["detail"]) == ("refused", True)
    assert step not in {each["id"] for each in outcome["executed"]}
    kernel.absent.clear()
    assert step in {each["id"] for each in run(kernel, **{"kernel_modules": [], **wish})["executed"]}


def test_packages_of_a_driver_bring_the_program() -> None:
    plan = preview(without_kmod(driver_host("ubuntu-24.04")), check_spec(ASKED[0]), CHECK, None)["plan"]
    assert not [step["id"] for step in plan["steps"] if REFUSED in step["detail"]]


def test_a_recording_does_not_tell_which_programs_are_missing() -> None:
    recorded = RecordedHost(FLEET["egx-01"]().document())
    plan = preview(recorded, check_spec({"kernel_modules": ["ib-umd"]}), CHECK, None)["plan"]
    assert [step["status"] for step in plan["steps"]] == ["planned"]
