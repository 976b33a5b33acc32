# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ports are cabled to: frames of LLDP, and what lldpd, systemd-networkd and smpquery print."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import cabling
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.cabling import (
    by_lldpd,
    by_networkd,
    hear,
    in_frame,
    in_subnet,
    read_cabling,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult

# Captured frames of lldpd/lldpd (da2ab0b5), tests/integration/data: the start of sg200.pcap (Cisco SG200), and
# connectx.pcap (firmware of a ConnectX-4 Lx).
SG200 = bytes.fromhex(
    "0180c200000e00353535353588cc0207040035353535350403056731"
    "06020078fe0900120f010300010000fe070012bb01002f04ff050012bb0302270244450306426572"
)
CONNECTX = bytes.fromhex(
    "0180c200000e506b4bf61eb188cc020704506b4bf61eb3040703506b4bf61eb106020030081d"
    "436f6e6e656374582d34204c782c203235472f3130472f3147205346500000000000"
)
# lldpd/lldpd (0a78e14f), tests/integration/test_lldpcli.py, what its test_json_output expects.
ONE_OF_LLDPD = {
    "lldp": {
        "interface": {
            "eth0": {
                "via": "LLDP",
                "rid": "1",
                "chassis": {
                    "ns-2.example.com": {
                        "id": {"type": "mac", "value": "00:00:00:00:00:02"},
                        "descr": "Spectacular GNU/Linux 2016",
                        "mgmt-ip": "fe80::200:ff:fe00:2",
                        "capability": [{"type": "Bridge", "enabled": False}],
                    }
                },
                "port": {"id": {"type": "mac", "value": "00:00:00:00:00:02"}, "descr": "eth1", "ttl": "120"},
            }
        }
    }
}
# The same form with several interfaces, composed, and a chassis that sends no name (lldpd/lldpd issue 372 shows one).
SEVERAL_OF_LLDPD = {
    "lldp": {
        "interface": [
            {
                "ens2f0np0": {
                    "chassis": {"TOR-A-01": {"id": {"type": "mac", "value": "aa"}}},
                    "port": {"id": {"type": "ifname", "value": "Eth1/8/3"}, "descr": "rack7-a"},
                }
            },
            {
                "ens2f0np0": {
                    "chassis": {"TOR-B-02": {"id": {"type": "mac", "value": "bb"}}},
                    "port": {"id": {"type": "ifname", "value": "Eth2/8/3"}, "descr": "rack7-b"},
                }
            },
            {
                "ens3f0np0": {
                    "chassis": {"id": {"type": "mac", "value": "a4:8c:db:6a:09:00"}},
                    "port": {"id": {"type": "local", "value": "34"}},
                }
            },
        ]
    }
}
# systemd/systemd, src/network/networkd-manager-varlink.c (link_append_lldp_neighbors) and
# src/libsystemd-network/lldp-neighbor.c (lldp_neighbor_build_json) write it.
OF_NETWORKD = {
    "Neighbors": [
        {
            "InterfaceIndex": 2,
            "InterfaceName": "enp2s0f0",
            "Neighbors": [
                {"ChassisID": "18:a6:f7:05:19:21", "SystemName": "ds9", "PortID": "swp7", "PortDescription": "br-lan"}
            ],
        },
        {"InterfaceIndex": 3, "InterfaceName": "ens3", "Neighbors": []},
    ]
}
# The form of `smpquery -D nodeinfo 0,1` (infiniband-diags, src/smpquery.c); the names are made up.
DESCRIPTION = "Node Description:.................MF0;leaf-1:MQM9700/U1\n"
INFO = """# Node info: DR path slid 65535; dlid 65535; 0,1
BaseVers:........................1
ClassVers:.......................1
NodeType:........................Switch
NumPorts:........................30
SystemGuid:......................0xe41d2d03004bef70
Guid:............................0xe41d2d03004bef70
LocalPort:.......................17
VendorId:........................0x0002c9
"""


def tlv(kind: int, content: bytes, length: int | None = None) -> bytes:
    return struct.pack(">H", kind << 9 | (len(content) if length is None else length)) + content


def frame(*tlvs: bytes, ethertype: int = 0x88CC) -> bytes:
    return bytes.fromhex("0180c200000e0035353535") + b"5" + struct.pack(">H", ethertype) + b"".join(tlvs)


WHOLE = (tlv(1, b"\x04\x00\x35\x35\x35\x35\x35"), tlv(2, b"\x05Ethernet1/3"), tlv(3, b"\x00\x78"), tlv(5, b"leaf-2"))


def test_captured_frames() -> None:
    assert in_frame(SG200) == {"switch": "00:35:35:35:35:35", "port": "g1"}
    assert in_frame(CONNECTX) == {"switch": "50:6b:4b:f6:1e:b3", "port": "ConnectX-4 Lx, 25G/10G/1G SFP"}
    assert in_frame(frame(*WHOLE, tlv(0, b""))) == {"switch": "leaf-2", "port": "Ethernet1/3"}


@pytest.mark.parametrize("captured", [SG200, CONNECTX, frame(*WHOLE)], ids=["sg200", "connectx", "whole"])
def test_a_frame_that_is_cut_anywhere_tells_the_same_or_less(captured: bytes) -> None:
    said = [in_frame(captured[:end]) for end in range(len(captured) + 1)]
    values = {json.dumps(each) for each in said}
    assert len(values) <= 4
    assert "null" in values
    assert said[-1] == in_frame(captured)


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        frame(*WHOLE, ethertype=0x0800),
        frame(tlv(1, b""), tlv(2, b""), tlv(3, b"")),
        frame(tlv(1, b"\x04"), tlv(2, b"\x03")),
        frame(*[b"\x00\x00"] * 300),
        frame(tlv(1, b"\x07leaf", length=511), tlv(2, b"\x05e")),
        frame(tlv(5, b"leaf-1")),
        frame(*[tlv(127, b"")] * 900),
    ],
    ids=["empty", "of another type", "zero lengths", "only subtypes", "ends", "too long", "no port", "many"],
)
def test_hostile_frames_tell_nothing(hostile: bytes) -> None:
    assert in_frame(hostile) is None


def test_text_that_is_none_is_escaped_and_bounded() -> None:
    seen = in_frame(frame(tlv(1, b"\x07\xff\xfe\x1b[31m"), tlv(2, b"\x05" + b"x" * 400), tlv(5, b"\x00 ")))
    assert seen == {"switch": "\ufffd\ufffd\\x1b[31m", "port": "x" * 64}


def test_the_first_of_repeated_fields_counts() -> None:
    assert in_frame(frame(*WHOLE, tlv(5, b"another"))) == {"switch": "leaf-2", "port": "Ethernet1/3"}


def test_what_programs_print() -> None:
    assert list(by_lldpd(ONE_OF_LLDPD)) == [("eth0", {"switch": "ns-2.example.com", "port": "eth1"})]
    assert list(by_lldpd(SEVERAL_OF_LLDPD)) == [
        ("ens2f0np0", {"switch": "TOR-A-01", "port": "Eth1/8/3"}),
        ("ens2f0np0", {"switch": "TOR-B-02", "port": "Eth2/8/3"}),
        ("ens3f0np0", {"switch": "a4:8c:db:6a:09:00", "port": "34"}),
    ]
    assert list(by_networkd(OF_NETWORKD)) == [("enp2s0f0", {"switch": "ds9", "port": "swp7"})]
    assert list(in_subnet("mlx5_0", DESCRIPTION, INFO)) == [
        ("mlx5_0", {"switch": "MF0;leaf-1:MQM9700/U1", "port": "17"})
    ]
    assert list(in_subnet("mlx5_0", "", "")) == []


@pytest.mark.parametrize(
    "shown",
    [
        *(None, [], {}, 7, "text", {"lldp": 1}, {"lldp": {"interface": [1, None, {"e": 3}]}}, {"Neighbors": [7]}),
        {"lldp": {"interface": {"e": {"chassis": [{"a": 1}], "port": {"id": "x"}}}}},
        {"lldp": {"interface": {"e": {"chassis": {"a": 1}, "port": {"id": {"value": 5}, "descr": ["b"]}}}}},
        {"Neighbors": [{"InterfaceName": 1, "Neighbors": [{"SystemName": {}, "PortID": []}]}]},
    ],
)
def test_json_of_another_form_tells_nothing(shown: Any) -> None:
    assert [*by_lldpd(shown), *by_networkd(shown)] == []


def test_a_host_tells_by_whatever_runs_on_it() -> None:
    port = {"port": 1, "link_layer": "InfiniBand", "state": "ACTIVE"}
    devices: Any = [
        {"name": "mlx5_0", "pci": "0000:18:00.0", "ports": [port]},
        {"name": "mlx5_1", "pci": "0000:19:00.0", "ports": [{**port, "state": "DOWN"}]},
        {"name": "mlx5_2", "pci": "0000:1a:00.0", "ports": [{**port, "link_layer": "Ethernet"}]},
    ]
    printed = {
        "lldpctl -f json": json.dumps(SEVERAL_OF_LLDPD),
        "networkctl --json=short --no-pager lldp": json.dumps(OF_NETWORKD),
        "smpquery -C mlx5_0 -P 1 -D nodedesc 0,1": DESCRIPTION,
        "smpquery -C mlx5_0 -P 1 -D nodeinfo 0,1": INFO,
    }

    class Programs:
        def run(self, argv: tuple[str, ...], _timeout: float) -> CommandResult:
            return CommandResult(0, printed[" ".join(argv)], "")

    heard: Any = {"ens3f0np0": [{"switch": "a4:8c:db:6a:09:00", "port": "34"}], "ens9": [{"switch": "x", "port": "y"}]}
    host: Any = Programs()
    found = read_cabling(host, devices, heard)
    counts = {"ens2f0np0": 2, "ens3f0np0": 1, "enp2s0f0": 1, "ens9": 1, "mlx5_0": 1}
    assert {name: len(those) for name, those in found.items()} == counts


class Wire:
    """A packet socket with frames on it; the clock goes on by a second for each."""

    def __init__(self, frames: list[Any]) -> None:
        self.frames, self.now = frames, 0.0
        self.joined: list[bytes] = []

    def __call__(self, *_kind: int) -> Wire:
        return self

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_error: object) -> None:
        self.joined.append(b"closed")

    def setsockopt(self, *given: Any) -> None:
        if len(self.joined) == 1:
            self.joined.append(b"")
            raise OSError(22, "no Ethernet")
        self.joined.append(given[2])

    def settimeout(self, _seconds: float) -> None:
        self.now += 1

    def recvfrom(self, _size: int) -> Any:
        if not self.frames:
            raise socket.timeout()
        return self.frames.pop(0)


def _came(name: str, content: bytes, direction: int = 0) -> Any:
    return content, (name, 0x88CC, direction, 1, b"")


def test_listening_ends_with_the_last_interface_or_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = frame(*WHOLE)
    coming = [_came("ens0", whole, 4), _came("ens0", b"junk"), _came("ens0", whole), _came("ens1", whole)]
    wire = Wire([*coming, _came("ens2", whole)])
    monkeypatch.setattr(f"{cabling.__name__}.socket.socket", wire)
    monkeypatch.setattr(f"{cabling.__name__}.time.monotonic", lambda: wire.now)
    told = [{"switch": "leaf-2", "port": "Ethernet1/3"}]
    assert hear(["ens0", "ens1"]) == {"ens0": told, "ens1": told}
    assert (len(wire.frames), wire.joined[-1]) == (1, b"closed")
    assert hear(["ens3"]) == {"ens2": told}
    assert wire.now == pytest.approx(39, abs=1)
