# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peer memory: plans from literal facts; on the simulated kernel load, keep, replace, remove, and all disturbances."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Mapping, cast

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils import _module
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory import modules
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import make_step, refused
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._module import converge_concern
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import offered
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    facts,
    gpu,
    module,
    ofed,
    request,
    steps_of,
    two_ports,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

REQUEST = request(peer_memory={"image": "nv-peer-mem-driver", "version": "1.0-9"})
LOAD_FILE = "/etc/modules-load.d/rdma-fabric-peer-memory.conf"
ORDER_FILE = "/etc/modprobe.d/rdma-fabric-peer-memory.conf"
OURS = {LOAD_FILE: f"# {MARKER}\nnvidia-peermem\n", ORDER_FILE: f"# {MARKER}\n"}
WITH_SYMBOL = {"path": "/lib/modules/6.8.0/nvidia-peermem.ko", "depends": ["nvidia", "ib_core"]}
WITHOUT_SYMBOL = {"path": "/lib/modules/6.8.0/nvidia-peermem.ko", "depends": []}
UNTOLD = {"peer_memory": None, "dma_buf": None}
PROPRIETARY: Any = {"flavour": "mlnx-ofed", "gpu_driver": "535.161.08", "gpu_driver_flavour": "proprietary"}
PEER = "ib_register_peer_memory_client"
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")


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

    @pytest.mark.slow
    def test_whatever_disturbs_it_the_next_run_gets_there(self) -> None:
        def start() -> Kernel:
            kernel = gpu_host()
            run(kernel)
            kernel.mutations.clear()
            return kernel

        assert sweep(start, removed) > 3


def state(loaded: tuple[str, ...] = (), read: Any = None, **changes: Any) -> Any:
    stack = {"flavour": "inbox", "version": None, "gpu_driver": None, "gpu_driver_flavour": None, "peer_memory": None}
    made = two_ports(
        gpus=[gpu("0000:1b:00.0")],
        stack={**stack, **changes},
        modules={name: module() for name in ("mlx5_core", *loaded)},
    )
    if read is not None:
        made["peer_memory"] = peer(**read)
    return made


def peer(**changes: Any) -> Any:
    symbols = {"peer_memory": True, "dma_buf": False}
    base: Any = {
        "symbols": {"running": symbols, "on_disk": symbols},
        "exporter": None,
        "modules": {"nvidia_peermem": WITH_SYMBOL},
        "clients": [],
        "operator": [],
        "loaded_at_boot": {},
    }
    return {**base, **changes}


def plan(made: Any, *requests: Any, **wanted: Any) -> Any:
    return make_plan(check_spec({"requests": list(requests), **wanted}), made)


def own(made: Any, **settings: Any) -> list[Any]:
    return steps_of(plan(made, peer_memory=settings), "peer_memory")


def test_a_host_without_gpu_gets_nothing() -> None:
    found = plan(two_ports(), REQUEST)
    assert (found["steps"], found["notices"]) == ([], [])


@pytest.mark.parametrize("settings", [{}, {"mechanism": "nvidia-peermem"}])
def test_a_gpu_whose_memory_no_nic_reaches_gets_nothing_and_is_told(settings: Any) -> None:
    """With the open driver a GB10 looked like any GPU that shares its memory by DMA-BUF."""
    made = state(gpu_driver="580.95.05", gpu_driver_flavour="open")
    made["gpus"] = [{**gpu("000f:01:00.0"), "device": "0x2e12"}]
    found = plan(made, peer_memory=settings)
    assert steps_of(found, "peer_memory") == []
    (notice,) = [notice for notice in found["notices"] if "peer_memory" in notice]
    assert "GB10 has no GPUDirect RDMA" in notice and "cudaHostAlloc" in notice


def test_a_host_with_gpus_and_without_nvidia_nic_gets_nothing_and_is_told() -> None:
    found = plan(facts(gpus=[gpu("0000:1b:00.0")]), REQUEST)
    assert found["steps"] == []
    (notice,) = found["notices"]
    assert notice.endswith("nothing is done for peer memory, as this host has GPUs and no NIC of NVIDIA")


def test_a_host_that_nobody_asks_about_gets_nothing() -> None:
    assert plan(state(**PROPRIETARY))["steps"] == []


@pytest.mark.parametrize("active", ["nvidia_peermem", "nv_peer_mem"])
def test_a_loaded_module_needs_no_step(active: str) -> None:
    assert plan(state((active,), **PROPRIETARY), REQUEST)["steps"] == []


def test_the_open_gpu_driver_shares_memory_without_a_module() -> None:
    found = plan(state(gpu_driver="570.86.15", gpu_driver_flavour="open"), REQUEST)
    assert found["steps"] == []
    assert "DMA-BUF" in found["notices"][0]


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
def test_the_module_is_chosen_by_driver_and_kernel(driver: str, flavour: str, kernel: str, mechanism: str) -> None:
    made = state(flavour="mlnx-ofed", version="23.10-1.1.9", gpu_driver=driver, gpu_driver_flavour=flavour)
    made["system"]["kernel"] = kernel
    (step,) = plan(made, REQUEST)["steps"]
    assert (step["to"], step["status"], step["when"]) == ([mechanism], "planned", "now+boot")


def test_a_missing_gpu_driver_is_refused() -> None:
    (step,) = plan(state(flavour="doca-ofed"), REQUEST)["steps"]
    assert (step["status"], "GPU driver is not loaded" in step["detail"]) == ("refused", True)


@pytest.mark.parametrize("mechanism", ["auto", "nvidia-peermem"])
@pytest.mark.parametrize(
    "read",
    [
        {"modules": {"nvidia_peermem": WITHOUT_SYMBOL}},
        {"modules": {}},
        {"symbols": {"running": UNTOLD, "on_disk": UNTOLD}},
    ],
)
def test_a_module_that_is_loaded_is_never_refused(mechanism: str, read: Any) -> None:
    made = state(("nvidia_peermem",), read, **PROPRIETARY)
    assert [step["status"] for step in own(made, mechanism=mechanism) if step["status"] != "planned"] == []


def test_an_inbox_stack_without_peer_symbols_is_refused() -> None:
    (step,) = plan(state(gpu_driver="535.161.08", gpu_driver_flavour="proprietary"), REQUEST)["steps"]
    assert (step["status"], "ofedDriver" in step["detail"]) == ("refused", True)


def test_a_module_built_without_symbols_is_refused_with_the_cause() -> None:
    (step,) = own(state(read={"modules": {"nvidia_peermem": WITHOUT_SYMBOL}}, **PROPRIETARY))
    assert step["status"] == "refused"
    assert "built without peer-memory symbols" in step["detail"] and "empty kernel log" in step["detail"]


def test_a_driver_that_is_asked_for_as_well_clears_the_way() -> None:
    made = state(gpu_driver="535.161.08", gpu_driver_flavour="proprietary")
    found = plan(made, REQUEST, request("x", driver=ofed("24.07-0.6.1.0-0")))["steps"]
    assert [step["concern"] for step in found] == ["driver"] * 4 + ["peer_memory"]
    assert found[-1]["status"] == "planned"


@pytest.mark.parametrize(("flavour", "told"), [("inbox", True), ("mlnx-ofed", False)])
def test_a_driver_that_goes_takes_the_stack_of_a_loaded_module_with_it(flavour: str, told: bool) -> None:
    made = state(("nvidia_peermem",), {}, **{**PROPRIETARY, "version": "24.07-0.6.1.0"})
    load = make_step("driver", "load", action="load it", after={"flavour": flavour, "version": None}, reason="asked")
    context = Context(check_spec({"peer_memory": {"mechanism": "nvidia-peermem"}}), HostState(made), earlier=(load,))
    notices = modules.plan(context)[1]
    assert any("brings the inbox driver, which does so in few kernels only" in said for said in notices) is told
    without = replace(context, earlier=(refused(load, "no"),))
    assert not any("brings the inbox driver" in said for said in modules.plan(without)[1])


@pytest.mark.parametrize(
    ("read", "labels"),
    [
        ({"operator": ["/run/nvidia/validations/.driver-ctr-ready"]}, {}),
        ({}, {"nvidia.com/gpu.deploy.driver": "true"}),
    ],
)
def test_the_gpu_operator_is_left_alone_and_the_evidence_said(read: Any, labels: dict[str, str]) -> None:
    found = plan(state(read=read, **PROPRIETARY), REQUEST, node_labels=labels)
    assert found["steps"] == []
    assert "GPU Operator" in found["notices"][0]


def test_a_preinstalled_gpu_driver_is_the_hosts_own() -> None:
    labels = {"nvidia.com/gpu.deploy.driver": "pre-installed"}
    assert plan(state(read={}, **PROPRIETARY), REQUEST, node_labels=labels)["steps"]


def test_a_module_that_another_file_loads_at_boot_gets_no_second_one() -> None:
    elsewhere = {"loaded_at_boot": {"nvidia_peermem": ["/etc/modules-load.d/nvidia-peermem.conf"]}}
    assert own(state(("nvidia_peermem",), read=elsewhere, **PROPRIETARY)) == []


def test_a_module_that_nothing_loads_at_boot_is_kept() -> None:
    (step,) = own(state(("nvidia_peermem",), read={}, **PROPRIETARY))
    assert (step["when"], step["status"]) == ("boot", "planned")


def test_two_loaded_modules_become_one() -> None:
    (step,) = own(state(("nvidia_peermem", "nv_peer_mem"), read={}, **PROPRIETARY))
    assert (step["from"], step["to"]) == (["nvidia-peermem", "nv_peer_mem"], ["nvidia-peermem"])
    assert "in place of nv_peer_mem" in step["action"]


@pytest.mark.parametrize("settings", [{"state": "absent"}, {"mechanism": "none"}])
def test_removal_unloads_and_forgets(settings: dict[str, str]) -> None:
    made = state(("nvidia_peermem",), read={}, **PROPRIETARY)
    made["boot"]["files"] = OURS
    (step,) = own(made, **settings)
    assert (step["to"], step["when"], step["status"]) == ([], "now+boot", "planned")


def test_a_module_in_use_waits_for_the_reboot() -> None:
    made = state(("nvidia_peermem",), read={}, **PROPRIETARY)
    made["modules"]["nvidia_peermem"]["refcount"] = 3
    (step,) = own(made, state="absent")
    assert (step["status"], "in use by GPU programs" in step["detail"]) == ("needs_reboot", True)
    made["boot"]["files"] = OURS
    (step,) = own(made, state="absent")
    assert (step["status"], step["when"]) == ("planned", "boot")


def test_removal_where_nothing_is_loaded_needs_nothing() -> None:
    assert own(state(read={}), state="absent") == []


def test_dma_buf_instead_of_a_module() -> None:
    symbols = {"peer_memory": True, "dma_buf": True}
    read = {"symbols": {"running": symbols, "on_disk": symbols}}
    made = state(("nvidia_peermem",), read=read, gpu_driver="570.86.15", gpu_driver_flavour="open")
    (step,) = own(made, mechanism="dma-buf")
    assert (step["from"], step["to"], step["when"]) == (["nvidia-peermem"], [], "now")


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


@pytest.mark.slow
def test_whatever_disturbs_it_the_next_run_gets_there() -> None:
    assert sweep(gpu_host, run) > 5


def test_whatever_disturbs_a_removal_the_next_run_gets_there() -> None:
    def start() -> Kernel:
        kernel = gpu_host()
        run(kernel)
        kernel.mutations.clear()
        return kernel

    assert sweep(start, lambda kernel: run(kernel, state="absent")) > 2
