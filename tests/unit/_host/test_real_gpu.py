# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real H100 and a real H200, each in a virtual machine: what ``rdma.fabric.record`` found, nvidia-smi and CUDA said.

The machines have no NIC of NVIDIA, their kernel has the RDMA drivers built in and cannot unload modules.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory.decide import decide, situation_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost, load_recording
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "hosts" / "recorded"
MACHINES = ("h100-passed-through", "h200-passed-through")
GTS_OF_GENERATION = {"5": 32.0}
HEX_DIGITS_OF_ID = slice(2, 6)


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def facts(machine: str) -> Any:
    document = load_recording((RECORDED / f"{machine}.json").read_bytes())
    assert document["stand_in"] is None, "it is of a real machine"
    return gather(RecordedHost(document), None, [])


@pytest.fixture(scope="module")
def nvidia_smi(machine: str) -> dict[str, str]:
    with (RECORDED / f"{machine}.csv").open(encoding="utf-8", newline="") as stream:
        (gpu,) = csv.DictReader(stream, skipinitialspace=True)
    return gpu


@pytest.fixture(scope="module")
def cuda(machine: str) -> Any:
    return json.loads((RECORDED / f"{machine}.cuda.json").read_text(encoding="utf-8"))


def test_the_gpu_is_what_nvidia_smi_says(facts: Any, nvidia_smi: dict[str, str]) -> None:
    (gpu,) = facts["gpus"]
    assert gpu["address"] == nvidia_smi["pci.bus_id"][4:]
    assert gpu["device"] == nvidia_smi["pci.device_id"][HEX_DIGITS_OF_ID]
    assert gpu["link"] == {
        "speed_gts": GTS_OF_GENERATION[nvidia_smi["pcie.link.gen.current"]],
        "max_speed_gts": GTS_OF_GENERATION[nvidia_smi["pcie.link.gen.max"]],
        "width": int(nvidia_smi["pcie.link.width.current"]),
        "max_width": 16,
    }
    # The PCI id list calls the board SXM5, the driver its memory HBM3.
    assert gpu["name"].split()[0] == nvidia_smi["name"].split()[1]
    assert (facts["stack"]["gpu_driver"], facts["stack"]["gpu_driver_flavour"]) == (
        nvidia_smi["driver_version"],
        "open",
    )
    assert (nvidia_smi["mig.mode.current"], facts.get("mig", {})) == ("Disabled", {})


def test_a_module_of_a_kernel_that_cannot_unload_is_loaded_and_not_built_in(facts: Any) -> None:
    """Its line of /proc/modules has ``-`` in place of the count of references."""
    assert facts["modules"]["nvidia"] == {
        "loaded": True,
        "builtin": False,
        "refcount": 0,
        "users": [],
        "version": "580.159.04",
        "srcversion": "06B987C9B8B712FF4E7FB47",
        "out_of_tree": True,
    }
    built_in = {name for name, module in facts["modules"].items() if module["builtin"]}
    assert built_in == {"ib_core", "mlx5_core", "mlx5_ib"}


def test_the_mechanism_that_is_chosen_is_one_that_the_driver_has(facts: Any, cuda: Any) -> None:
    decision = decide("auto", situation_of(HostState(facts, [])))
    assert (decision.mechanism, decision.obstacle) == ("dma-buf", "")
    assert cuda["CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED"] == 1
    assert cuda["cuMemGetHandleForAddressRange"]["exp_name"] == "nv_dmabuf"


def test_without_a_nic_nothing_is_done_and_that_is_said(facts: Any) -> None:
    plan = make_plan(check_spec({"peer_memory": {"state": "present", "mechanism": "auto"}}), facts)
    assert plan["steps"] == []
    assert any("GPUs and no NIC of NVIDIA" in notice for notice in plan["notices"])
