# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spectrum-X on a host: parameters of a release are set as any are, registers and QoS beside them are named."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.firmware.effects import TRAFFIC, effect_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.spectrum_x import (
    TOOLS,
    acceleration_command,
    gap_command,
    parse,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.firmware import ACCELERATION, RELEASES
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import TOOL, connectx7
from ansible_collections.rdma.fabric.tests.unit._host.families import PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel import firmware
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import CHECK, CONNECTX7, applied, wish
from ansible_collections.rdma.fabric.tests.unit.captures import Facts, each_of

REG = TOOLS[0]
ALLOWED = {"rdma_fabric_allow_firmware": True}
QOS: Any = {"trust": "dscp", "pfc": [3]}
ON = dict(ACCELERATION)


def printed(fields: dict[str, int]) -> str:
    rows = "".join(f"{name:<47}| 0x{value:08x}\n" for name, value in fields.items())
    head = f"Sending access register...\n\n{'Field Name':<47}| Data\n{'=' * 60}\n"
    return f"{head}{rows}{'=' * 60}\n\n"


def host(accelerated: dict[str, int] | None = None, gap: int | None = 25, *, tool: str | None = REG) -> Kernel:
    """A card that has every parameter of Spectrum-X, switched off, and these registers."""
    document = host_with(CONNECTX7).document()
    if tool and accelerated is not None:
        shown = {" ".join(acceleration_command(tool, PF)): {**accelerated, "ack_dscp": 0}}
        if gap is not None:
            shown[" ".join(gap_command(tool, PF))] = {"local_port": 1, "ipg_cap_idx": 0, "ipg": gap}
        document["commands"].update(
            {command: {"rc": 0, "stdout": printed(fields), "stderr": ""} for command, fields in shown.items()}
        )
    kernel = Kernel(document)
    own = dict.fromkeys(RELEASES["RA2.2"], ("0", "0", "0"))
    firmware.install(kernel, PF, {**connectx7("ETH(2)"), **own})
    if tool:
        kernel.tree.add_file(tool, "")
    return kernel


def notices(kernel: Kernel, **entry: Any) -> list[str]:
    outcome = preview(kernel, wish(ALLOWED, **{"firmware": {"spectrum_x": "RA2.2"}, "qos": QOS, **entry}), CHECK, None)
    return [notice for notice in outcome["plan"]["notices"] if notice.startswith("Spectrum-X:")]


def violations(**values: Any) -> list[str]:
    entry = {"pci": PF, "firmware": values}
    return [str(found) for found in parse_host_variables("gpu01", {"rdma_fabric_interfaces": [entry]})[1]]


class TestParameters:
    @pytest.mark.parametrize("release", RELEASES)
    def test_a_release_stands_for_its_parameters(self, release: str) -> None:
        given = wish(firmware={"spectrum_x": release, "NUM_OF_VFS": 8})["interfaces"][0]["firmware"]
        assert given == {**RELEASES[release], "NUM_OF_VFS": "8"}
        assert {effect_of(name) for name in RELEASES[release]} == {TRAFFIC}, "none of them may cut an uplink"

    def test_its_parameters_may_be_named_beside_it_and_not_changed(self) -> None:
        assert violations(spectrum_x="RA2.2", ROCE_ADAPTIVE_ROUTING_EN=True) == []
        (found,) = violations(spectrum_x="RA2.2", ROCE_ADAPTIVE_ROUTING_EN=False)
        assert "is RA2.2, whose ROCE_ADAPTIVE_ROUTING_EN is 1" in found and "leave one of the two out" in found

    @pytest.mark.parametrize("release", ["RA9.9", 2.2, ["RA2.2"], True])
    def test_a_release_that_is_not_known_is_told_with_those_that_are(self, release: Any) -> None:
        (found,) = violations(spectrum_x=release)
        assert "one of RA1.3, RA2.0, RA2.1, RA2.2" in found

    def test_they_are_set_for_the_next_boot(self) -> None:
        kernel = host(ON)
        outcome = applied(kernel, wish(ALLOWED, firmware={"spectrum_x": "RA2.2"}, qos=QOS))
        assert not outcome.get("failed"), outcome["msg"]
        following = {name: value[2] for name, value in firmware.parameters(kernel, PF).items()}
        assert {name: following[name] for name in RELEASES["RA2.2"]} == RELEASES["RA2.2"]
        assert outcome["reboot_required"]

    def test_a_card_without_one_of_them_is_refused(self) -> None:
        kernel = host(ON)
        firmware.install(kernel, PF, connectx7("ETH(2)"))
        outcome = applied(kernel, wish(ALLOWED, firmware={"spectrum_x": "RA2.2"}, qos=QOS))
        (step,) = [step for step in outcome["plan"]["steps"] if step["concern"] == "firmware"]
        assert step["status"] == "refused" and "it has no" in step["detail"]
        assert not [line for line in kernel.mutations if TOOL in str(line)]


class TestRegisters:
    @each_of("roce_accl")
    def test_a_register_as_mlxreg_shows_it(self, facts: Facts) -> None:
        assert parse(printed(facts["fields"])) == facts["fields"]
        (notice,) = notices(host(facts["fields"]))
        assert [name for name in ACCELERATION if f"{name} is " in notice] == facts["differs"]

    @pytest.mark.parametrize("tool", TOOLS)
    def test_one_that_is_as_it_is_to_be_is_nothing_to_tell(self, tool: str) -> None:
        assert notices(host(ON, tool=tool)) == []
        assert notices(host(ON, gap=33, tool=tool)) == [], "as with an overlay"
        assert notices(host(ON, gap=None, tool=tool)) == [], "older cards do not tell it"

    def test_a_gap_of_its_own_is_told(self) -> None:
        (notice,) = notices(host(ON, gap=12))
        assert "the gap between packets is 12 bytes, not 25, or 33 with an overlay" in notice

    @pytest.mark.parametrize("name", ACCELERATION)
    def test_each_field_that_differs_is_told_with_the_next_step(self, name: str) -> None:
        (notice,) = notices(host({**ON, name: 1 - ON[name]}))
        assert f"{name} is {1 - ON[name]}, not {ON[name]}: its firmware" in notice
        assert "next: a NicConfigurationTemplate with spectrumXOptimized" in remedy_of(notice, {})

    def test_what_can_t_be_read_is_told(self) -> None:
        (notice,) = notices(host(tool=None))
        assert "neither mstreg (package mstflint) nor mlxreg" in notice
        (notice,) = notices(host())
        assert "whether adaptive routing is on can't be read" in notice and REG in notice

    def test_nobody_asks_for_them_unless_adaptive_routing_is_asked_for(self) -> None:
        kernel = host({**ON, "adaptive_routing_forced_en": 0})
        assert notices(kernel, firmware={"ROCE_ADAPTIVE_ROUTING_EN": False}) == []
        assert notices(kernel, firmware={"NUM_OF_VFS": 16}) == []
        assert len(notices(kernel, firmware={"ROCE_ADAPTIVE_ROUTING_EN": True})) == 1

    def test_where_the_nic_configuration_operator_runs_they_are_its_own(self) -> None:
        kernel = host({**ON, "adaptive_routing_forced_en": 0})
        pod = "nvidia-network-operator_nic-configuration-daemon-8x2lp_0c6a3bfe-9f1e-4c4e-8f52-3a6d2a3f1c11"
        kernel.tree.add_file(f"/var/log/pods/{pod}/nic-configuration-daemon/0.log", "")
        assert notices(kernel) == []

    def test_a_recording_has_them(self) -> None:
        kernel = host({**ON, "adaptive_routing_forced_en": 0})
        recorded = RecordedHost(record(kernel, "gpu01"))
        facts = gather(recorded, desired=wish(firmware={"spectrum_x": "RA2.2"}))
        assert facts["roce_registers"][PF] == {
            "problem": "",
            "acceleration": {**ON, "adaptive_routing_forced_en": 0},
            "gap": 25,
        }


class TestQos:
    @pytest.mark.parametrize(
        ("qos", "count"), [(QOS, 0), ({"trust": "dscp"}, 1), ({"pfc": [3]}, 1), ({"trust": "dscp", "pfc": [4]}, 1)]
    )
    def test_trust_and_the_lossless_priority_that_nothing_asks_for_are_told(self, qos: Any, count: int) -> None:
        found = notices(host(ON), qos=qos)
        assert len(found) == count
        assert all("rdma_fabric_roce_qos: {trust: dscp, pfc: [3]}" in notice for notice in found)

    def test_those_of_the_host_count(self) -> None:
        desired = wish({**ALLOWED, "rdma_fabric_roce_qos": QOS}, firmware={"spectrum_x": "RA2.2"})
        outcome = preview(host(ON), desired, CHECK, None)
        assert not [notice for notice in outcome["plan"]["notices"] if notice.startswith("Spectrum-X:")]
