# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A card in the place of a failed one: what the host set there comes back, what the failed one held does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.same_card import (
    Changes,
    Moved,
    changed_cards,
    serial_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.followed import followed
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import Values, connectx7
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import firmware
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import REMOVE, booted, done, wish
from ansible_collections.rdma.fabric.tests.unit._host.serials import vpd

ALLOWED = {"rdma_fabric_allow_firmware": True}
MORE = {"NUM_OF_VFS": 32}
OF_THE_NEW_CARD = {**connectx7("ETH(2)"), "NUM_OF_VFS": ("16", "8", "8")}
OF_THE_FIRST_CARD = {**connectx7("ETH(2)"), "NUM_OF_VFS": ("16", "32", "32")}
DEVICES = "/sys/bus/pci/devices"


def started() -> Kernel:
    kernel = booted()
    firmware.install(kernel, PF, connectx7("ETH(2)"))
    kernel.tree.add_file(f"{DEVICES}/{PF}/vpd", vpd("MT1"))
    return kernel


def replaced(kernel: Kernel, serial: str = "MT2", values: Values = OF_THE_NEW_CARD) -> None:
    firmware.install(kernel, PF, values)
    kernel.tree.add_file(f"{DEVICES}/{PF}/vpd", vpd(serial))
    kernel.tree.discard("/run/rdma-fabric")
    kernel.revive()


def of_next_boot(kernel: Kernel) -> str:
    return firmware.parameters(kernel, PF)["NUM_OF_VFS"][2]


def mtu(kernel: Kernel) -> str:
    (name,) = kernel.list(f"{DEVICES}/{PF}/net")
    return kernel.read(f"/sys/class/net/{name}/mtu").strip()


def kept(kernel: Kernel) -> Any:
    return json.loads(kernel.read(baseline.PATH))


@pytest.mark.parametrize("mtus", [{}, {"mtu": 9000}], ids=["nothing else", "a setting of the host"])
def test_a_removal_leaves_the_firmware_of_the_new_card_alone(mtus: dict[str, int]) -> None:
    kernel = started()
    done(kernel, wish(ALLOWED, firmware=MORE, **mtus))
    replaced(kernel)
    outcome = done(kernel, wish(ALLOWED), REMOVE)
    assert (of_next_boot(kernel), mtu(kernel), kernel.exists(baseline.PATH)) == ("8", "1500", False)
    assert [notice for notice in outcome["plan"]["notices"] if notice.startswith(f"{PF}: its card was replaced")]


def test_a_removal_tells_of_values_that_go_with_a_card_that_is_gone() -> None:
    kernel = started()
    done(kernel, wish(ALLOWED, firmware=MORE, mtu=9000))
    kernel.tree.discard(f"{DEVICES}/{PF}")
    notices = done(kernel, wish(ALLOWED), REMOVE)["plan"]["notices"]
    assert notices == [f"{PF}: its card is gone, so the former card's values are dropped (firmware)"]
    assert not kernel.exists(baseline.PATH)


def test_a_run_keeps_what_the_new_card_had_and_a_removal_brings_that_back() -> None:
    kernel = started()
    done(kernel, wish(ALLOWED, firmware=MORE, mtu=9000))
    replaced(kernel)
    done(kernel, wish(ALLOWED, firmware=MORE, mtu=9000))
    assert kept(kernel)["settings"] == {f"firmware:{PF}": {"NUM_OF_VFS": "8"}, f"mtu:{PF}": 1500}
    assert kept(kernel)["cards"][PF]["serial"] == serial_of(vpd("MT2"))
    done(kernel, wish(ALLOWED), REMOVE)
    assert (of_next_boot(kernel), mtu(kernel)) == ("8", "1500")


def test_a_run_notes_the_new_card_where_the_values_stay_the_same() -> None:
    kernel = started()
    done(kernel, wish(mtu=9000))
    replaced(kernel)
    done(kernel, wish(mtu=4200))
    assert kept(kernel)["settings"] == {f"mtu:{PF}": 1500}
    assert kept(kernel)["cards"][PF]["serial"] == serial_of(vpd("MT2"))


def with_two_cards(kernel: Kernel) -> None:
    """A run changes the firmware of a card, then that of another in its place."""
    done(kernel, wish(ALLOWED, firmware=MORE))
    replaced(kernel)
    done(kernel, wish(ALLOWED, firmware=MORE))


@pytest.mark.parametrize("runs", [0, 1], ids=["at once", "after a run"])
def test_a_card_that_comes_back_gets_what_it_had_before_the_first_run(runs: int) -> None:
    kernel = started()
    with_two_cards(kernel)
    replaced(kernel, "MT1", OF_THE_FIRST_CARD)
    for _run in range(runs):
        done(kernel, wish(ALLOWED, firmware={**MORE, "SRIOV_EN": False}))
    done(kernel, wish(ALLOWED), REMOVE)
    found = firmware.parameters(kernel, PF)
    assert (found["NUM_OF_VFS"][2], found["SRIOV_EN"][2]) == ("16", "1" if runs else "True(1)")


def test_each_of_two_cards_keeps_its_own_as_often_as_they_are_swapped() -> None:
    kernel = started()
    with_two_cards(kernel)
    replaced(kernel, "MT1", OF_THE_FIRST_CARD)
    done(kernel, wish(ALLOWED, firmware={"NUM_OF_VFS": 64}))
    replaced(kernel, "MT2", {**OF_THE_NEW_CARD, "NUM_OF_VFS": ("16", "32", "32")})
    outcome = done(kernel, wish(ALLOWED), REMOVE)
    assert of_next_boot(kernel) == "8"
    assert [notice for notice in outcome["plan"]["notices"] if notice.startswith(f"{PF}: its card was replaced")]


def test_a_card_that_comes_back_to_another_slot_brings_its_values_along() -> None:
    now_at, card = "0000:9a:00.0", {"model": "0x15b3 0x1021", "serial": "1"}
    away = baseline.FormerCard(PF, card, {f"firmware:{PF}": {"NUM_OF_VFS": "16"}})
    kept: baseline.Baseline = {f"firmware:{PF}": {"NUM_OF_VFS": "8"}}
    found = followed(kept, {PF: {**card, "serial": "2"}}, Changes([], []), away=[(away, now_at)])
    assert found.kept.settings == {**kept, f"firmware:{now_at}": {"NUM_OF_VFS": "16"}}
    assert (found.kept.former, found.notices) == ([], [])


def test_a_card_that_comes_back_waits_where_values_of_another_are_kept() -> None:
    card = {"model": "0x15b3 0x1021", "serial": "1"}
    away = baseline.FormerCard(PF, card, {f"firmware:{PF}": {"NUM_OF_VFS": "16"}})
    kept: baseline.Baseline = {f"firmware:{PF}": {"NUM_OF_VFS": "4"}}
    other = Moved(PF, "", is_sure=False, is_taken=True)
    found = followed(kept, {PF: {"model": "0x15b3 0x101d", "serial": "2"}}, Changes([other], []), away=[(away, PF)])
    assert (found.kept.settings, found.kept.former) == (kept, [away])


def test_a_card_of_another_model_does_not_make_the_values_of_the_former_one_forgotten() -> None:
    card = {"model": "0x15b3 0x1021", "serial": "1"}
    kept: baseline.Baseline = {f"firmware:{PF}": {"NUM_OF_VFS": "16"}, f"mtu:{PF}": 1500}
    other = Moved(PF, "", is_sure=False, is_taken=True)
    found = followed(kept, {PF: card}, Changes([other], []), asked={PF})
    assert (found.kept.settings, found.kept.former) == (
        {},
        [baseline.FormerCard(PF, card, {f"firmware:{PF}": {"NUM_OF_VFS": "16"}})],
    )


@pytest.mark.parametrize("former", [5, [5], [{"address": PF}], [{"address": PF, "card": [5], "settings": {}}]])
def test_former_cards_that_are_none_are_refused(former: Any) -> None:
    kernel = started()
    kernel.tree.add_file(baseline.PATH, baseline.FILE.text({"settings": {}, "cards": {}, "former": former}))
    with pytest.raises(BrokenState, match="its former cards are none"):
        baseline.read_kept(kernel)


def test_a_new_card_is_one_though_its_other_port_is_noted_already() -> None:
    ports = ("0000:37:00.0", "0000:37:00.1")
    kernel = Kernel(FLEET["egx-01"]().document())
    for port in ports:
        kernel.tree.add_file(f"{DEVICES}/{port}/vpd", vpd("MT2"))
    model = " ".join(kernel.read(f"{DEVICES}/{ports[0]}/{name}").strip() for name in ("vendor", "device"))
    known = dict(zip(ports, ({"model": model, "serial": serial_of(vpd(text))} for text in ("MT2", "MT1"))))
    assert changed_cards(kernel, known) == Changes([], [ports[1]])


def test_only_what_a_card_holds_itself_goes_with_it() -> None:
    values: baseline.Baseline = {
        f"firmware:{PF}": {"NUM_OF_VFS": "16"},
        f"guids:{PF}": {"0": {"node_guid": "a088:c203:00b1:7e27"}},
        f"vfs:{PF}": 2,
        f"eswitch:{PF}": "legacy",
        f"qos:trust:{PF}": "pcp",
        f"pcie:max_read_request:{PF}": 512,
    }
    found = followed(values, {PF: {"model": "0x15b3 0x1021", "serial": "1"}}, Changes([], [PF]))
    assert set(values) - set(found.kept.settings) == {f"firmware:{PF}", f"guids:{PF}"}
    assert (found.kept.cards, found.left) == ({}, [])
    assert found.notices == [f"{PF}: its card was replaced, so the former card's values are dropped (firmware, guids)"]
