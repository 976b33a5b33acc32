# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting up peer memory on the in-memory kernel: load, keep, replace, remove, and every disturbance of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Mapping, cast

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils import _module
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._module import converge_concern
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import offered
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

PEER = "ib_register_peer_memory_client"
LOAD_FILE = "/etc/modules-load.d/rdma-fabric-peer-memory.conf"
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
ORDER_FILE = "/etc/modprobe.d/rdma-fabric-peer-memory.conf"


def gpu_host(symbols: str = PEER, depends: str = "nvidia,ib_core", **info: Any) -> Kernel:
    """A host with T4 GPUs, the proprietary GPU driver, and nvidia-peermem beside it."""
    document = FLEET["egx-02"]().document()
    release = document["files"]["/proc/sys/kernel/osrelease"].strip()
    document["files"]["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17 22:55:48 UTC 2024\n"
    )
    document["files"]["/proc/kallsyms"] = f"0000000000000000 T {symbols}\t[ib_core]\n"
    kernel = Kernel(document)
    known = {"manager": "apt", "installed": {}, "offered": offered(release), "images": {}, "busy": []}
    stack.keep(kernel, stack.STACK, known)
    for name, needs in (("nvidia_peermem", depends), ("nv_peer_mem", "nvidia,ib_core"), ("nvidia", "")):
        content = stack.module_file(name, depends=needs, **info)
        kernel.tree.add_file(f"/lib/modules/{release}/kernel/{name}.ko", content)
    return kernel


def run(kernel: Kernel, **peer_memory: Any) -> Mapping[str, Any]:
    how = Run(check=False, diff=True, mode="apply", recorded=False, concerns=("peer_memory",))
    return apply(kernel, check_spec({"peer_memory": peer_memory}), how, None, kernel)


def loaded(kernel: Kernel) -> list[str]:
    return [name for name in ("nvidia_peermem", "nv_peer_mem") if kernel.exists(f"/sys/module/{name}")]


def test_the_module_is_loaded_and_kept() -> None:
    kernel = gpu_host()
    outcome = run(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert loaded(kernel) == ["nvidia_peermem"]
    assert kernel.read(LOAD_FILE).splitlines()[1:] == ["nvidia-peermem"]
    assert kernel.read(ORDER_FILE).splitlines()[1:] == [
        "softdep nvidia-peermem pre: ib_core nvidia",
        "softdep nvidia post: nvidia-peermem",
    ]
    kernel.revive()
    assert (run(kernel)["changed"], kernel.mutations) == (False, [])


@pytest.mark.parametrize("owner", ["ib_core", "ib_uverbs"])
def test_the_module_that_takes_clients_is_read_from_the_kernels_own_table(owner: str) -> None:
    """Lines as depmod(8) writes them; a host with MLNX_OFED 24.10 and kernel 6.8.0-90 has ib_uverbs there."""
    kernel = gpu_host(depends=f"nvidia,{owner}")
    release = kernel.read("/proc/sys/kernel/osrelease").strip()
    kernel.tree.add_file("/proc/kallsyms", f"0000000000000000 T {PEER}\t[{owner}]\n")
    assert gather(kernel, desired=check_spec({"peer_memory": {}}))["peer_memory"]["exporter"] == owner
    table = f"alias symbol:ib_umem_get ib_uverbs\nalias symbol:{PEER} {owner}\n"
    kernel.tree.add_file(f"/lib/modules/{release}/modules.symbols", f"# Aliases for symbols\n{table}")
    kernel.tree.add_file("/proc/kallsyms", "")
    assert gather(kernel, desired=check_spec({"peer_memory": {}}))["peer_memory"]["exporter"] == owner
    kernel.tree.add_file("/proc/kallsyms", f"0000000000000000 T {PEER}\t[{owner}]\n")
    assert not run(kernel).get("failed") and loaded(kernel) == ["nvidia_peermem"]


def test_removal_leaves_nothing() -> None:
    kernel = gpu_host()
    run(kernel)
    run(kernel, state="absent")
    assert loaded(kernel) == []
    assert not kernel.exists(LOAD_FILE) and not kernel.exists(ORDER_FILE)
    kernel.revive()
    assert (run(kernel, state="absent")["changed"], kernel.mutations) == (False, [])


def test_check_mode_of_the_module_fails_where_the_run_would(monkeypatch: pytest.MonkeyPatch) -> None:
    wish = check_spec({"peer_memory": {"mechanism": "nvidia-peermem"}})
    module = cast(AnsibleModule, SimpleNamespace(check_mode=True, _diff=False))
    for symbols, failed in ((PEER, False), ("ib_register_client", True)):
        kernel = gpu_host(symbols)
        monkeypatch.setattr(_module, "LiveHost", lambda host=kernel: host)
        shown, _facts = converge_concern(module, wish, "peer_memory")
        assert bool(shown.get("failed")) is bool(run(kernel, mechanism="nvidia-peermem").get("failed")) is failed
    assert "a run would fail: refused, so the host would not come to the desired state" in shown["msg"]
    # Such a module has no option to go on without.
    assert "strict" not in shown["msg"]


def removed(kernel: Kernel) -> Mapping[str, Any]:
    return apply(kernel, check_spec({}), REMOVE, None, kernel)


class TestRemovalOfEverything:
    def test_the_module_that_was_loaded_goes_with_the_rest(self) -> None:
        kernel = gpu_host()
        run(kernel)
        outcome = removed(kernel)
        assert not outcome.get("failed"), outcome["msg"]
        assert loaded(kernel) == []
        assert not kernel.exists(LOAD_FILE) and not kernel.exists(ORDER_FILE) and not kernel.exists(baseline.PATH)
        kernel.revive()
        assert (removed(kernel)["changed"], kernel.mutations) == (False, [])

    def test_the_module_of_before_comes_back(self) -> None:
        kernel = gpu_host()
        kernel.run(["modprobe", "nv_peer_mem"], 1)
        run(kernel, mechanism="nvidia-peermem")
        removed(kernel)
        assert loaded(kernel) == ["nv_peer_mem"]

    def test_one_that_was_loaded_before_stays(self) -> None:
        kernel = gpu_host()
        kernel.run(["modprobe", "nvidia-peermem"], 1)
        run(kernel)
        removed(kernel)
        assert loaded(kernel) == ["nvidia_peermem"]

    @pytest.mark.parametrize("obstacle", ["in use by GPU programs", "the GPU Operator owns the GPU driver here"])
    def test_one_that_others_need_stays_and_is_told(self, obstacle: str) -> None:
        kernel = gpu_host()
        run(kernel)
        if "Operator" in obstacle:
            kernel.tree.add_file("/run/nvidia/validations/.driver-ctr-ready", "")
        else:
            text = kernel.read("/proc/modules").replace("nvidia_peermem 16384 0", "nvidia_peermem 16384 2")
            kernel.tree.add_file("/proc/modules", text)
        (notice,) = [text for text in removed(kernel)["plan"]["notices"] if text.startswith("peer memory")]
        assert "stays loaded until the next boot" in notice and obstacle in notice
        assert loaded(kernel) == ["nvidia_peermem"]
        assert not kernel.exists(LOAD_FILE)

    def test_whatever_disturbs_it_the_next_run_gets_there(self) -> None:
        def start() -> Kernel:
            kernel = gpu_host()
            run(kernel)
            kernel.mutations.clear()
            return kernel

        assert sweep(start, removed) > 3


def test_one_module_replaces_the_other() -> None:
    kernel = gpu_host()
    run(kernel, mechanism="nv_peer_mem")
    assert loaded(kernel) == ["nv_peer_mem"]
    run(kernel, mechanism="nvidia-peermem")
    assert loaded(kernel) == ["nvidia_peermem"]
    assert kernel.read(LOAD_FILE).splitlines()[1:] == ["nvidia-peermem"]


def test_a_module_without_symbols_is_never_tried() -> None:
    kernel = gpu_host(depends="")
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert "built without peer-memory symbols" in outcome["msg"]
    assert kernel.mutations == []


@pytest.mark.parametrize(
    ("refuses", "cause"),
    [
        ("Invalid argument", "built without peer-memory symbols, or against another RDMA stack"),
        ("Unknown symbol in module, or unknown parameter (see dmesg)", "built against another RDMA stack"),
        ("Key was rejected by service", "Secure Boot is on"),
    ],
)
def test_a_module_that_does_not_load_is_explained_and_forgotten(refuses: str, cause: str) -> None:
    kernel = gpu_host(refuses=refuses)
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert cause in outcome["msg"] and "next:" in outcome["msg"]
    assert not outcome["failed_step"]["not_undone"]
    assert not kernel.exists(LOAD_FILE)
    assert loaded(kernel) == []


def test_the_gpu_driver_stays_when_its_module_goes() -> None:
    kernel = gpu_host()
    run(kernel)
    needed = "nvidia 56713216 1 nvidia_peermem, Live 0x0000000000000000\n"
    kernel.tree.add_file("/proc/modules", f"{kernel.read('/proc/modules')}{needed}")
    kernel.tree.add_file("/sys/module/nvidia/refcnt", "1\n")
    run(kernel, state="absent")
    assert loaded(kernel) == [] and kernel.exists("/sys/module/nvidia")


def test_whatever_disturbs_it_the_next_run_gets_there() -> None:
    assert sweep(gpu_host, run) > 5


def test_whatever_disturbs_a_removal_the_next_run_gets_there() -> None:
    def start() -> Kernel:
        kernel = gpu_host()
        run(kernel)
        kernel.mutations.clear()
        return kernel

    assert sweep(start, lambda kernel: run(kernel, state="absent")) > 2
