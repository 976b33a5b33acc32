# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What DCGM exporters tell is read from their text, joined with rails, pods and counters of NICs, and kept short."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._status.gpus import (
    Place,
    gpu_lines,
    gpus_in,
    gpus_state,
    place_of,
)
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit.rules import none_of


def sample(field: str, value: Any, gpu: int = 3, more: str = "") -> str:
    """Return a line as NVIDIA/dcgm-exporter writes it (pull request 326 has lines with ``pci_bus_id``)."""
    bus = f'pci_bus_id="00000000:{0x1B + gpu:02X}:00.0"'
    model = 'device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="x"'
    return f'DCGM_FI_DEV_{field}{{gpu="{gpu}",UUID="GPU-{gpu}",{bus},{model}{more}}} {value}\n'


POD = ',container="main",namespace="ml",pod="train-0"'
TEXT = (
    "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.\n"
    "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
    + sample("XID_ERRORS", 79, more=POD + ',err_code="79",err_msg="GPU has fallen {off} the bus"')
    + sample("GPU_UTIL", 0, more=POD)
    + sample("POWER_USAGE", "68.250000", more=POD)
    + sample("XID_ERRORS", 0, gpu=2)
    + sample("PCIE_REPLAY_COUNTER", 0, gpu=2)
)
NICS = {"0000:1d:00.0": "mlx5_2", "0000:1e:00.0": "mlx5_3"}
PLACE = Place("gpu-1", "node-1", 8, NICS)


def counters(device: str, rise: int | None, kind: str = "sign") -> dict[str, Any]:
    port = {"host": "gpu-1", "device": device, "value": 5, "rise": rise}
    return {"found": [{"counter": "link_downed", "kind": kind, "ports": [port]}]}


def test_a_gpu_is_told_with_its_pod_its_errors_and_what_it_does() -> None:
    idle, lost = gpus_in(TEXT)
    assert (lost["gpu"], lost["pci"], lost["model"]) == ("3", "0000:1e:00.0", "NVIDIA H100 80GB HBM3")
    assert (lost["xid"], lost["utilization_percent"], lost["watts"], lost["pods"]) == (79, 0, 68.25, ["ml/train-0"])
    assert (idle["xid"], idle["pcie_replays"], idle["celsius"], idle["pods"]) == (0, 0, None, [])


def test_instances_of_mig_are_one_gpu_with_the_pods_of_all() -> None:
    other = ',GPU_I_PROFILE="2g.20gb",GPU_I_ID="5",namespace="ml",pod="b"'
    (gpu,) = gpus_in(sample("XID_ERRORS", 0, more=POD) + sample("XID_ERRORS", 13, more=other))
    assert (gpu["xid"], gpu["pods"]) == (13, ["ml/train-0", "ml/b"])


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "2147483632", "9223372036854775792", "x", ""])
def test_what_is_no_value_is_none(value: str) -> None:
    assert gpus_in(sample("XID_ERRORS", value)) == []


def test_an_exporter_is_a_stranger() -> None:
    hostile = "".join(
        f'DCGM_FI_DEV_XID_ERRORS{{gpu="{n}",UUID="{n}",namespace="a",pod="x\x1b[2J"}} 1\n' for n in range(999)
    )
    gpus = gpus_in(f"{hostile}\ufffd{{}} 1\nDCGM_FI_DEV_XID_ERRORS{{ 1\n<html>")
    assert len(gpus) == 64
    none_of([gpu["gpu"] for gpu in gpus if "\x1b" in str(gpu["pods"])])


def test_a_gpu_and_the_nic_of_its_rail_are_shown_together() -> None:
    state = gpus_state([PLACE], {"node-1": TEXT}, {}, "", counters("mlx5_3", 2))
    assert gpu_lines(state) == [
        "telemetry: 2 GPUs of 1 node",
        "  node-1 GPU 3 (ml/train-0): last Xid 79; mlx5_3: link_downed 5 (+2)",
    ]
    assert state["nodes"][0]["gpus"][1]["nic_errors"] == [{"counter": "link_downed", "value": 5, "rise": 2}]


@pytest.mark.parametrize(
    ("device", "rise", "kind", "lines"),
    [
        ("mlx5_2", None, "loss", ["  node-1 GPU 2: no errors; mlx5_2: link_downed 5"]),
        ("mlx5_9", 1, "sign", ["  node-1 mlx5_9: link_downed 5 (+1)"]),
        ("mlx5_2", 0, "sign", ["  no errors"]),
        ("mlx5_2", 4, "load", ["  no errors"]),
    ],
)
def test_of_counters_errors_that_rose_or_may_have_are_shown(
    device: str, rise: int | None, kind: str, lines: list[str]
) -> None:
    text = sample("XID_ERRORS", 0, gpu=2)
    assert gpu_lines(gpus_state([PLACE], {"node-1": text}, {}, "", counters(device, rise, kind)))[1:] == lines


def test_nodes_without_an_exporter_or_an_answer_are_named_and_hosts_without_gpus_are_not() -> None:
    places = [PLACE, Place("b", "b", 8, {}), Place("c", "c", 8, {}), Place("cpu", "cpu", 0, {})]
    lines = gpu_lines(gpus_state(places, {"node-1": ""}, {"c": "gpu/dcgm-1 is Pending"}, "", None))
    assert lines[1:] == ["  no DCGM exporter: b", "  no answer: c (gpu/dcgm-1 is Pending)"]
    unread = gpu_lines(gpus_state(places, {}, {}, "pods is forbidden", None))
    assert unread == ["telemetry: 0 GPUs of 0 nodes", "  not read: pods is forbidden"]
    assert gpu_lines(None) == []


def test_a_thousand_nodes_with_errors_are_a_screen() -> None:
    places = [Place(f"n{number}", f"n{number}", 8, {}) for number in range(1000)]
    state = gpus_state(places, {place.node: TEXT for place in places}, {}, "", None)
    lines = gpu_lines(state)
    assert len(lines) == 14 and lines[-1] == "  988 more lines, all in the status file"
    assert lines[1].startswith("  n0 GPU 3")


def test_the_nic_of_a_gpu_is_that_of_its_rail() -> None:
    facts = sample_fleet.h100_facts("h")
    place = place_of("h", "n", facts)
    assert (place.gpus, len(place.nics)) == (8, 8)
    rail = facts["rails"][0]
    nic = next(nic for nic in facts["nics"] if nic["address"] == rail["nic"])
    assert place.nics[rail["gpu"]] == nic["rdma"][0]
