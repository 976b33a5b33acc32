# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Original values go back to the card that had them, and to no other that has its PCI address since."""

from __future__ import annotations

import json
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.same_card import moved_cards, serial_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.serials import vpd

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
PORT = "0000:37:00.0"
DEVICES = "/sys/bus/pci/devices"


def shown(kernel: Kernel, serials: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = kernel.read_bytes

    def read_bytes(path: str, *limit: int) -> bytes:
        for address, serial in serials.items():
            if path == f"{DEVICES}/{address}/vpd":
                return vpd(serial)
        return known(path, *limit)

    monkeypatch.setattr(kernel, "read_bytes", read_bytes)


def changed(serials: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Kernel:
    document = FLEET["egx-01"]().document()
    document.setdefault("dirs", []).append("/etc/systemd/system")
    kernel = Kernel(document)
    shown(kernel, serials, monkeypatch)
    outcome = apply(kernel, check_spec({"interfaces": [{"pci": PORT, "mtu": 4200}]}), APPLY, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    return kernel


def removed(kernel: Kernel) -> Mapping[str, Any]:
    return apply(kernel, check_spec({}), REMOVE, None, kernel)


def mtu(kernel: Kernel) -> str:
    (name,) = kernel.list(f"{DEVICES}/{PORT}/net")
    return kernel.read(f"/sys/class/net/{name}/mtu").strip()


def test_the_same_card_gets_its_values_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = changed({PORT: "MT1"}, monkeypatch)
    outcome = removed(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert (mtu(kernel), kernel.exists(baseline.PATH)) == ("1500", False)


def test_a_serial_number_that_only_one_reading_has_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = changed({}, monkeypatch)
    shown(kernel, {PORT: "MT1"}, monkeypatch)
    assert not removed(kernel).get("failed")
    assert mtu(kernel) == "1500"


def test_a_replacement_in_the_same_place_gets_the_values_of_the_card_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = changed({PORT: "MT1"}, monkeypatch)
    shown(kernel, {PORT: "MT2"}, monkeypatch)
    assert not removed(kernel).get("failed")
    assert mtu(kernel) == "1500"


def test_a_card_that_another_address_had_is_no_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(FLEET["egx-01"]().document())
    shown(kernel, {PORT: "MT2"}, monkeypatch)
    model = " ".join(kernel.read(f"{DEVICES}/{PORT}/{name}").strip() for name in ("vendor", "device"))
    known = {
        address: {"model": model, "serial": serial_of(vpd(serial))}
        for address, serial in ((PORT, "MT1"), ("0000:f0:00.0", "MT2"))
    }
    assert [(each.address, each.now_at) for each in moved_cards(kernel, known)] == [(PORT, ""), ("0000:f0:00.0", PORT)]


def test_another_model_is_another_card(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = changed({}, monkeypatch)
    document = json.loads(kernel.read(baseline.PATH))
    cards = {PORT: {**document["cards"][PORT], "model": "0x15b3 0x1021"}}
    kernel.tree.add_file(baseline.PATH, baseline.text_of(baseline.Kept(document["settings"], cards, [])))
    outcome = removed(kernel)
    assert outcome["failed"]
    assert "which is no longer found; next: " in outcome["plan"]["steps"][0]["detail"]
    assert mtu(kernel) == "4200"


def test_a_card_that_is_nowhere_any_more_is_no_obstacle() -> None:
    kernel = Kernel(FLEET["egx-01"]().document())
    assert moved_cards(kernel, {"0000:f0:00.0": {"model": "0x15b3 0x1017", "serial": "1"}}) == []


def test_another_model_is_no_card_that_moved_whatever_its_serial_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some vendors give all of their cards one."""
    kernel = Kernel(FLEET["egx-01"]().document())
    shown(kernel, {PORT: "0"}, monkeypatch)
    gone = {"0000:f0:00.0": {"model": "0x15b3 0x1021", "serial": serial_of(vpd("0"))}}
    assert moved_cards(kernel, gone) == []


def test_the_other_half_of_a_card_is_not_where_it_has_moved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(FLEET["egx-01"]().document())
    shown(kernel, {PORT: "MT1"}, monkeypatch)
    card = {"model": "0x15b3 0x1017", "serial": serial_of(vpd("MT1"))}
    gone = "0000:f0:00.0"
    assert [each.now_at for each in moved_cards(kernel, {gone: card})] == [PORT]
    halves = moved_cards(kernel, {gone: card, PORT: card})
    assert gone not in [each.address for each in halves]


@pytest.mark.parametrize(
    "text", [b"", b"\x82", b"\x90\xff\xff", b"\x90\x05\x00SN\xffab", b"\x00" * 64, b"\x82\x00\x00" * 9]
)
def test_broken_vital_product_data_is_read_to_its_end(text: bytes) -> None:
    assert len(serial_of(text)) in (0, 16)


def test_a_serial_number_is_told_by_its_digest() -> None:
    assert serial_of(vpd("MT1 ")) == serial_of(vpd("MT1")) != serial_of(vpd("MT2"))
