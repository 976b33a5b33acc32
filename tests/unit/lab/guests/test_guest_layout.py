# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.layout import InvalidLayout, plan_guests, rail_wires
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image, Machine, guest_argv, overlay_file

IMAGE = Image(Path("/cache/image"), Path("/cache/qemu"))


def values(argv: list[str], option: str) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def test_every_guest_and_port_has_names_and_addresses_of_its_own() -> None:
    guests = plan_guests(3, 2)
    macs = [guest.mac for guest in guests] + [port.mac for guest in guests for port in guest.ports]
    addresses = [guest.address for guest in guests] + [port.address for guest in guests for port in guest.ports]
    for unique in (macs, addresses, [guest.name for guest in guests], [guest.machine_id for guest in guests]):
        assert len(set(unique)) == len(unique)
    assert [guest.name for guest in guests] == ["rdma-1", "rdma-2", "rdma-3"]
    assert all(mac.startswith("52:54:00:") for mac in macs)


def test_the_ports_of_one_rail_share_a_subnet_and_the_rails_do_not() -> None:
    guests = plan_guests(2, 2)
    subnets = [{guest.ports[rail].address.rpartition(".")[0] for guest in guests} for rail in range(2)]
    assert [len(each) for each in subnets] == [1, 1]
    assert subnets[0] != subnets[1]


@pytest.mark.parametrize(("guests", "rails"), [(0, 1), (10, 1), (-1, 1), (2, 0), (2, 9)])
def test_impossible_sizes_are_refused_with_the_possible_ones(guests: int, rails: int) -> None:
    with pytest.raises(InvalidLayout, match=r"a lab has 1 to \d"):
        plan_guests(guests, rails)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_each_wire_has_one_listening_end_and_joins_all_guests(count: int) -> None:
    guests = plan_guests(count, 1)
    ends = [(guest.number, wire) for guest in guests for wire in rail_wires(guest, count, 0)]
    ends.sort(key=lambda end: end[1].socket)
    reached = set()
    for _socket, group in itertools.groupby(ends, key=lambda end: end[1].socket):
        first, second = group
        assert {first[1].listens, second[1].listens} == {True, False}
        reached |= {first[0], second[0]}
    assert reached == {guest.number for guest in guests}


def test_the_wires_of_different_rails_are_different() -> None:
    guest = plan_guests(2, 2)[0]
    assert rail_wires(guest, 2, 0)[0].socket != rail_wires(guest, 2, 1)[0].socket
    assert rail_wires(guest, 2, 0)[0].backend != rail_wires(guest, 2, 1)[0].backend


def test_each_rail_is_a_card_behind_a_root_port_of_its_own_on_its_wire() -> None:
    guest = plan_guests(2, 2)[1]
    argv = guest_argv(IMAGE, guest, 2, Machine("tcg"))
    devices, backends = values(argv, "-device"), values(argv, "-netdev")
    for port in guest.ports:
        (card,) = (each for each in devices if each.startswith("igb,") and f"mac={port.mac}" in each)
        assert f"bus=slot{port.rail}," in card
        assert any(each.startswith(f"pcie-root-port,id=slot{port.rail},") for each in devices)
        backend = card.split("netdev=")[1].split(",")[0]
        (wire,) = (each for each in backends if f"id={backend}," in each)
        assert wire.startswith("stream,")
        assert "server=off,reconnect-ms=" in wire
    chassis = [each.split("chassis=")[1].split(",")[0] for each in devices if each.startswith("pcie-root-port")]
    assert len(set(chassis)) == 2


@pytest.mark.parametrize("count", [1, 3])
def test_every_card_and_hub_port_names_a_backend_that_exists(count: int) -> None:
    for guest in plan_guests(count, 1):
        argv = guest_argv(IMAGE, guest, count, Machine("tcg"))
        backends = {each.split("id=")[1].split(",")[0] for each in values(argv, "-netdev")}
        named = [each.split("netdev=")[1].split(",")[0] for each in values(argv, "-device") if "netdev=" in each]
        named += [each.split("netdev=")[1].split(",")[0] for each in values(argv, "-netdev") if "netdev=" in each]
        assert set(named) == backends - {name for name in backends if name.endswith("-hub")}
        assert len(set(named)) == len(named)


def test_a_guest_writes_nothing_into_the_image_and_knows_who_it_is() -> None:
    guest = plan_guests(2, 1)[0]
    argv = guest_argv(IMAGE, guest, 2, Machine("kvm"))
    root, config = values(argv, "-drive")
    assert root.startswith(f"file={overlay_file(guest, 'root')},format=qcow2,")
    assert "readonly=on" in config
    (credentials,) = values(argv, "-smbios")
    assert credentials.split(",") == [
        "type=11",
        f"value=io.systemd.credential:system.hostname={guest.name}",
        f"value=io.systemd.credential:system.machine_id={guest.machine_id}",
    ]
    assert values(argv, "-accel") == ["kvm"]


def test_a_guests_kernel_and_its_arguments_come_from_the_guests_own_disk() -> None:
    argv = guest_argv(IMAGE, plan_guests(1, 1)[0], 1, Machine("tcg"))
    assert values(argv, "-kernel") == [str(IMAGE.loader)]
    assert not {"-initrd", "-append", "-no-reboot"} & set(argv)
