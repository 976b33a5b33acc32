# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A firmware value is judged by what it does to every function of its card, and every uplink on it has to consent.

The parameters are those of NVIDIA's own tool: Mellanox/mstflint, mlxconfig/mlxconfig_dbs/mlxconfig_host.db.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.sweeps import examples
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    Facts,
    desired,
    facts,
    interface,
    netdev,
    nic,
    steps_of,
    vf,
)

FIRST, SECOND, OTHER_SLOT = "0000:18:00.0", "0000:18:00.1", "0000:99:00.0"
GUID, OTHER_GUID = "a088:c203:00b1:7e26", "a088:c203:00b1:7f00"
ELSEWHERE = [{"netdev": "eno1", "pci": "0000:02:00.0", "reasons": ["default route"]}]
FIRMWARE, UPLINK = {"firmware": True}, {"uplink_change": True}
# What each may do to a card, by the kinds that cut; the table's rows are held to this, not the other way round.
CUTTING = {
    "LINK_TYPE_P1": "IB",
    "LINK_TYPE_P2": "IB",
    "KEEP_ETH_LINK_UP_P2": "False",
    "PHY_RATE_MASK_P1": "1",
    "PORT_OWNER": "False",
    "NETWORK_PORTS_NUMBER": "1",
    "NUM_OF_PLANES_P1": "4",
    "HIDE_PORT2_PF": "True",
    "NUM_OF_PF": "1",
    "NUM_OF_VFS": "127",
    "SRIOV_EN": "False",
    "PF_TOTAL_SF": "8",
    "PCI_SWITCH_EMULATION_ENABLE": "True",
    "VIRTIO_NET_EMULATION_ENABLE": "True",
    "INTERNAL_CPU_OFFLOAD_ENGINE": "ENABLED",
    "INTERNAL_CPU_MODEL": "0",
    "MEMIC_BAR_SIZE": "8",
    "PF_LOG_BAR_SIZE": "10",
    "VF_LOG_BAR_SIZE": "10",
    "EXP_ROM_UEFI_x86_ENABLE": "False",
    "LEGACY_BOOT_PROTOCOL": "NONE",
    "SILENT_MODE": "True",
}
HARMLESS = {
    "ATS_ENABLED": "True",
    "ADVANCED_PCI_SETTINGS": "True",
    "MAX_ACC_OUT_READ": "128",
    "PCI_WR_ORDERING": "1",
    "ROCE_CC_PRIO_MASK_P1": "128",
    "CNP_DSCP_P2": "48",
    "REAL_TIME_CLOCK_ENABLE": "True",
    "ROCE_ADAPTIVE_ROUTING_EN": "True",
}
UNKNOWN = {"SAFE_MODE_ENABLE": "True", "HOST_CHAINING_MODE": "1", "SOME_PARAMETER_OF_2027": "1"}
WARNED = {"DISABLE_SLOT_POWER_LIMITER": "True"}
EVERY = {**CUTTING, **HARMLESS, **UNKNOWN, **WARNED}


def card_facts(device: str, values: dict[str, tuple[str, str]]) -> Any:
    """What was read of a card: value now and of the next boot, by name."""
    parameters = {name: ["0", now, following] for name, (now, following) in values.items()}
    return {"device": device, "problem": "", "parameters": parameters, "near": {}, "restricted": None}


def read(*cards: str, **values: tuple[str, str]) -> Any:
    """Facts of firmware: every parameter of the tests is there with a value that nobody asks for."""
    known = {**dict.fromkeys(EVERY, ("77", "77")), **values}
    return {
        "tool": "/usr/bin/mstconfig",
        "set_since_boot": {},
        "cards": {device.rpartition(".")[0]: card_facts(device, known) for device in cards},
    }


def two_ports(**changes: Any) -> Facts:
    """A card with two ports, the second of which is the uplink."""
    state = facts(
        [nic(FIRST, "ens1f0", rdma=["mlx5_0"]), nic(SECOND, "ens1f1", rdma=["mlx5_1"])],
        [netdev("ens1f0", FIRST), netdev("ens1f1", SECOND, port_name="p1", mac="a0:88:c2:47:11:d1")],
        uplinks=[{"netdev": "ens1f1", "pci": SECOND, "reasons": ["default route"]}],
        firmware=read(FIRST),
    )
    return {**state, **changes}


def the_step(state: Facts, wanted: dict[str, str], consents: dict[str, bool], **variables: Any) -> Any:
    wish = desired(interface(pci=FIRST, firmware=wanted), consents=consents, **variables)
    (step,) = steps_of(plan_with_context(wish, state, ("firmware",))[0], "firmware")
    return step


class TestTheUplinkOnTheOtherPort:
    @pytest.mark.parametrize("name", CUTTING)
    def test_refuses_what_may_take_it_away(self, name: str) -> None:
        step = the_step(two_ports(), {name: CUTTING[name]}, FIRMWARE)
        assert step["status"] == "refused"
        assert f"{SECOND} (ens1f1): default route" in step["detail"] and name in step["detail"]
        assert "rdma_fabric_allow_uplink_change: true" in step["detail"]

    @pytest.mark.parametrize("name", CUTTING)
    def test_consents_by_a_variable_of_its_own_and_is_told_what_may_change(self, name: str) -> None:
        step = the_step(two_ports(), {name: CUTTING[name]}, {**FIRMWARE, **UPLINK})
        assert step["status"] == "planned"
        assert step["interrupts"].startswith("nothing before the card starts with it, which may change ")

    @pytest.mark.parametrize("name", HARMLESS)
    def test_is_not_asked_about_what_only_traffic_notices(self, name: str) -> None:
        step = the_step(two_ports(), {name: HARMLESS[name]}, FIRMWARE)
        assert (step["status"], step["interrupts"]) == ("planned", "nothing")

    def test_is_protected_from_a_value_that_somebody_else_set_for_the_next_boot(self) -> None:
        state = two_ports(firmware=read(FIRST, LINK_TYPE_P2=("ETH(2)", "IB(1)")))
        state["firmware"]["set_since_boot"] = {FIRST: {"LINK_TYPE_P2": "IB"}}
        step = the_step(state, {"LINK_TYPE_P2": "IB"}, FIRMWARE)
        assert (
            step["status"] == "refused" and f"mstconfig -d {FIRST} set LINK_TYPE_P2=2 takes it back" in step["detail"]
        )
        assert the_step(state, {"LINK_TYPE_P2": "IB"}, {**FIRMWARE, **UPLINK})["status"] == "needs_reboot"

    def test_does_not_matter_to_another_card(self) -> None:
        state = two_ports(uplinks=ELSEWHERE)
        assert the_step(state, CUTTING, FIRMWARE)["status"] == "planned"


def device(name: str, address: str, guid: str) -> Any:
    return {"name": name, "pci": address, "netdev": None, "system_image_guid": guid, "ports": []}


class TestACardOfTwoSlots:
    """Socket Direct: one card, two PCI slots."""

    def state(self, guid: str, other: Any, uplink: str = OTHER_SLOT) -> Facts:
        return facts(
            [nic(FIRST, "ens1"), other],
            [netdev("ens1", FIRST), netdev("ens9", OTHER_SLOT, mac="a0:88:c2:47:11:d9")],
            rdma=[device("mlx5_0", FIRST, GUID), device("mlx5_9", OTHER_SLOT, guid)],
            uplinks=[{"netdev": "ens9", "pci": uplink, "reasons": ["default route"]}],
            firmware=read(FIRST),
        )

    @pytest.mark.parametrize(("guid", "status"), [(GUID, "refused"), (OTHER_GUID, "planned"), ("", "planned")])
    def test_is_one_by_its_system_image_guid(self, guid: str, status: str) -> None:
        state = self.state(guid, nic(OTHER_SLOT, "ens9", rdma=["mlx5_9"]))
        assert the_step(state, {"NUM_OF_PF": "1"}, FIRMWARE)["status"] == status

    @pytest.mark.parametrize(("model", "status"), [("1021", "refused"), ("1023", "planned")])
    def test_half_without_any_device_may_be_the_uplink_cards_half(self, model: str, status: str) -> None:
        state = self.state(OTHER_GUID, nic(OTHER_SLOT, "ens9", rdma=["mlx5_9"], device=model))
        state["nics"][0].update(netdevs=[], rdma=[])
        state["rdma"] = state["rdma"][1:]
        assert the_step(state, {"NUM_OF_PF": "1"}, FIRMWARE)["status"] == status


def test_a_virtual_function_that_carries_the_uplink_counts_for_its_card() -> None:
    address = "0000:18:01.3"
    state = two_ports(uplinks=[{"netdev": "ens1v9", "pci": address, "reasons": ["default route"]}])
    state["nics"].append(vf(address, SECOND, "ens1v9"))
    assert the_step(state, {"NUM_OF_VFS": "4"}, FIRMWARE)["status"] == "refused"


def test_an_uplink_that_only_a_bond_carries_counts() -> None:
    state = two_ports(uplinks=[{"netdev": "bond0", "pci": None, "reasons": ["default route"]}])
    state["netdevs"].append(netdev("bond0", None, port_name=None, kind="virtual"))
    state["netdevs"][1]["master"] = "bond0"
    step = the_step(state, {"LINK_TYPE_P2": "IB"}, FIRMWARE)
    assert step["status"] == "refused" and "part of bond0" in step["detail"]


@pytest.mark.parametrize("uplinks", [[], [{"netdev": "br-ex", "pci": None, "reasons": ["default route"]}]])
def test_an_uplink_whose_card_is_not_known_may_be_on_any(uplinks: list[Any]) -> None:
    state = two_ports(uplinks=uplinks)
    step = the_step(state, {"LINK_TYPE_P1": "IB"}, FIRMWARE)
    assert step["status"] == "refused" and "rdma_fabric_protected_interfaces" in step["detail"]
    assert the_step(state, {"ATS_ENABLED": "True"}, FIRMWARE)["status"] == "planned"


class TestUnknownParameters:
    @pytest.mark.parametrize("name", UNKNOWN)
    def test_are_refused_unless_the_host_names_them(self, name: str) -> None:
        state, wanted = two_ports(uplinks=ELSEWHERE), {name: UNKNOWN[name], "ATS_ENABLED": "True"}
        step = the_step(state, wanted, FIRMWARE)
        assert step["status"] == "refused" and "rdma_fabric_firmware_allow" in step["detail"]
        assert name in step["detail"] and "what ATS_ENABLED" not in step["detail"]
        assert the_step(state, wanted, FIRMWARE, firmware_allow=[name])["status"] == "planned"

    @pytest.mark.parametrize("name", UNKNOWN)
    def test_need_the_uplinks_consent_besides(self, name: str) -> None:
        wanted = {name: UNKNOWN[name]}
        assert the_step(two_ports(), wanted, FIRMWARE, firmware_allow=[name])["status"] == "refused"
        allowed = the_step(two_ports(), wanted, {**FIRMWARE, **UPLINK}, firmware_allow=[name])
        assert allowed["status"] == "planned"

    def test_are_told_all_at_once(self) -> None:
        detail = the_step(two_ports(), {**UNKNOWN, "NUM_OF_PF": "1"}, FIRMWARE)["detail"]
        assert all(name in detail for name in (*UNKNOWN, "NUM_OF_PF"))

    @pytest.mark.parametrize("given", ["SRIOV_EN", ["sriov_en"], [3], {"SRIOV_EN": True}])
    def test_are_named_in_a_list_of_names(self, given: Any) -> None:
        _wish, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_firmware_allow": given})
        assert len(violations) == 1


def test_no_run_answers_the_tools_warning_of_damage_and_warranty() -> None:
    """mlxcfg_ui.cpp, getConfigWarning: set to true, mstconfig asks; -y answers that as well."""
    state = two_ports(uplinks=ELSEWHERE)
    for value in ("True", "1", "0x1", "False"):
        wanted = {"DISABLE_SLOT_POWER_LIMITER": value}
        consents = {**FIRMWARE, **UPLINK}
        step = the_step(state, wanted, consents, firmware_allow=list(wanted))
        assert step["status"] == "refused" and "warranty" in step["detail"]


def hiding(advanced: str) -> Facts:
    """A card that does not show MAX_ACC_OUT_READ, as Mellanox/nic-configuration-operator, configvalidation.go says."""
    state = two_ports(uplinks=ELSEWHERE, firmware=read(FIRST, ADVANCED_PCI_SETTINGS=(advanced, advanced)))
    del state["firmware"]["cards"][FIRST[:-2]]["parameters"]["MAX_ACC_OUT_READ"]
    return state


def test_a_hidden_parameter_is_set_once_the_card_shows_it() -> None:
    wanted = {"ADVANCED_PCI_SETTINGS": "True", "MAX_ACC_OUT_READ": "128"}
    step = the_step(hiding("False(0)"), wanted, FIRMWARE)
    assert (step["status"], step["to"]) == ("planned", {"ADVANCED_PCI_SETTINGS": "True"})
    assert "MAX_ACC_OUT_READ can be set after that" in step["detail"]
    missing = the_step(hiding("True(1)"), wanted, FIRMWARE)
    assert missing["status"] == "refused" and "it has no MAX_ACC_OUT_READ" in missing["detail"]


def test_a_parameter_that_may_be_hidden_is_told_with_what_shows_it() -> None:
    step = the_step(hiding("False(0)"), {"MAX_ACC_OUT_READ": "128"}, FIRMWARE)
    assert step["status"] == "refused" and "ask for ADVANCED_PCI_SETTINGS: true as well" in step["detail"]


class Draw:
    """A host drawn at random: cards with functions in one or two slots, uplinks on some, wishes and consents."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)  # noqa: S311 - hosts, not secrets
        self.nics: list[Any] = []
        self.netdevs: list[Any] = []
        self.rdma: list[Any] = []
        self.uplinks: list[Any] = []
        self.cards: dict[int, list[str]] = {number: [] for number in range(draw.randint(1, 3))}
        self.cut: set[int] = set()
        for card in self.cards:
            for slot in range(draw.choice((1, 1, 2))):
                for port in range(draw.randint(1, 2)):
                    self._function(card, f"0000:{0x10 * (card + 1) + slot:02x}:00.{port}")
        if draw.random() < 0.5 or not self.uplinks:
            self._uplink("eno1", "0000:02:00.0")
            self.nics.append(nic("0000:02:00.0", "eno1", vendor="8086", device="1521", driver="igb", rdma=[]))
        self.wished = {
            address: dict(draw.sample(sorted(EVERY.items()), draw.randint(1, 4)))
            for card in self.cards.values()
            for address in card
            if draw.random() < 0.6
        }
        self.consents = {"firmware": draw.random() < 0.9, "uplink_change": draw.random() < 0.3}
        self.allow = draw.sample(sorted(EVERY), draw.choice((0, 2, len(EVERY))))

    def _function(self, card: int, address: str) -> None:
        name, draw = f"e{address[5:7]}p{address[-1]}", self.draw
        rdma = f"mlx5_{len(self.nics)}"
        self.nics.append(nic(address, name, rdma=[rdma]))
        self.rdma.append(device(rdma, address, f"a088:c203:0000:000{card + 1}"))
        self.cards[card].append(address)
        function = f"{address[:-3]}1.{address[-1]}"
        self.nics.append(vf(function, address, f"{name}v0"))
        self.nics[-2]["sriov"].update(enabled=1, vfs=[function])
        self._interface(name, address)
        self._interface(f"{name}v0", function)
        kind = draw.choice(("none",) * 4 + ("port", "function", "bond", "named"))
        if kind == "none":
            return
        self.cut.add(card)
        if kind == "bond":
            self.netdevs[-2]["master"] = f"bond{card}"
            self._uplink(f"bond{card}", None)
        else:
            self._uplink(*((f"{name}v0", function) if kind == "function" else (name, address)))

    def _interface(self, name: str, address: str | None) -> None:
        self.netdevs.append(netdev(name, address, mac=f"02:00:00:00:00:{len(self.netdevs):02x}"))

    def _uplink(self, name: str, address: str | None) -> None:
        self.uplinks.append({"netdev": name, "pci": address, "reasons": ["default route"]})

    def steps(self) -> list[Any]:
        values = {}
        if self.draw.random() < 0.4:
            waiting = self.draw.choice(sorted(EVERY))
            values[waiting] = ("77", EVERY[waiting])
        state = facts(self.nics, self.netdevs, rdma=self.rdma, uplinks=self.uplinks)
        state["firmware"] = read(*(card[0] for card in map(self._slot, self.wished)), **values)
        state["firmware"]["set_since_boot"] = {card[0]: dict(EVERY) for card in map(self._slot, self.wished)}
        entries = [interface(pci=address, firmware=wanted) for address, wanted in self.wished.items()]
        wish = desired(*entries, consents=self.consents, firmware_allow=self.allow)
        return steps_of(plan_with_context(wish, state, ("firmware",))[0], "firmware")

    @staticmethod
    def _slot(address: str) -> tuple[str]:
        return (f"{address[:-1]}0",)


def test_whatever_is_asked_of_whatever_card_nothing_passes_that_an_uplink_did_not_consent_to() -> None:
    passed = held = 0
    count = examples(5000)
    for seed in range(count):
        host = Draw(seed)
        for step in host.steps():
            address = re.sub(":reboot$", "", step["id"].split(":", 1)[1])
            (card,) = [number for number, addresses in host.cards.items() if address in addresses]
            names = set(step["to"])
            if step["status"] == "refused":
                held += 1
                continue
            passed += 1
            described = (seed, step["status"], sorted(names))
            if step["status"] != "needs_reboot":
                assert not names & set(WARNED), described
                assert not (names & set(UNKNOWN)) - set(host.allow), described
            if names - set(HARMLESS) and card in host.cut:
                assert host.consents["uplink_change"], described
    assert min(passed, held) > count // 5, (passed, held)
