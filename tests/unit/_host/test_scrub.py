# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What identifies a host is replaced, the same everywhere, and what planning needs stays."""

from __future__ import annotations

import ipaddress
import random
import re

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK, mask_parameters
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.scrub_document import Pseudonyms
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import eui64, ipoib_address, ipv4_gid, link_local_gid

MAC = "a0:88:c2:47:11:d0"
GUID = "a088:c203:00b1:7e26"


@pytest.fixture
def names() -> Pseudonyms:
    return Pseudonyms(b"key")


def test_of_a_mac_the_vendor_stays(names: Pseudonyms) -> None:
    replaced = names.text(f"address {MAC}\n")
    assert re.fullmatch(r"address a0:88:c2(:[0-9a-f]{2}){3}\n", replaced)
    assert "47:11:d0" not in replaced
    assert names.text(f"address {MAC}\n") == replaced


def test_mac_guid_and_gids_still_belong_together(names: Pseudonyms) -> None:
    mac = names.text(MAC)
    assert names.text(eui64(MAC)) == eui64(mac)
    assert names.addresses(link_local_gid(MAC)) == link_local_gid(mac)
    assert names.addresses(f"fe80:0000:0000:0000:{GUID}") == f"fe80:0000:0000:0000:{names.text(GUID)}"
    assert names.text(ipoib_address(GUID)) == ipoib_address(names.text(GUID))
    assert names.addresses(ipv4_gid("10.1.0.11")) == ipv4_gid(names.addresses("10.1.0.11"))


@pytest.mark.parametrize(("network", "member"), [("10.2.0.0/16", "10.2.3.4"), ("fd00:1:2::/48", "fd00:1:2::5")])
def test_a_network_stays_one_and_keeps_its_members(names: Pseudonyms, network: str, member: str) -> None:
    replaced = ipaddress.ip_network(names.addresses(network))
    assert str(replaced) != network
    assert ipaddress.ip_address(names.addresses(member)) in replaced
    assert names.addresses(f"{member}/64") == f"{names.addresses(member)}/64"


@pytest.mark.parametrize("text", ["10.2.0.1/99", "10.2.0.1/2/3", "10.2.0.1/x"])
def test_an_address_before_something_else_is_replaced_all_the_same(names: Pseudonyms, text: str) -> None:
    assert names.addresses(text) == text.replace("10.2.0.1", names.addresses("10.2.0.1"))


def test_names_made_of_addresses_follow_them(names: Pseudonyms) -> None:
    mac, guid = names.text(MAC).replace(":", ""), names.text(GUID).replace(":", "")
    assert names.text("/sys/class/net/enxa088c24711d0/mtu") == f"/sys/class/net/enx{mac}/mtu"
    assert names.text("ibxa088c20300b17e26") == f"ibx{guid}"
    assert names.text("BOOTIF=01-a0-88-c2-47-11-d0") == f"BOOTIF=01-{names.text(MAC).replace(':', '-')}"


def test_a_guid_of_another_form_is_replaced_as_well(names: Pseudonyms) -> None:
    replaced = names.text("0002:c9e1:1234:5678")
    assert replaced.startswith("0002:c9")
    assert "1234" not in replaced
    assert names.text("00:02:c9:e1:12:34:56:78").replace(":", "") == replaced.replace(":", "")


@pytest.mark.parametrize(
    "text",
    [
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "0000:0000:0000:0000",
        "0000:0000:0000:0000:0000:0000:0000:0000",
        "0000:18:00.0",
        "pci0000:15",
        "28.39.3560",
        "0-55,112-167",
        "12:34:56",
        "MT_0000000838",
        "IB/RoCE v1",
        "400 Gb/sec (4X NDR)",
        "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0",
        "127.0.0.1 0.0.0.0 255.255.255.255 224.0.0.1",
        "::1 ff02::1",
        "OFED-internal-23.10-1.1.9.0:",
        "version=1.2.3.4.5",
        "999.1.1.1",
        "a::b::c",
    ],
)
def test_what_identifies_nobody_stays(names: Pseudonyms, text: str) -> None:
    assert names.addresses(text) == text


def test_addresses_keep_their_networks_and_their_kind(names: Pseudonyms) -> None:
    seen: dict[ipaddress.IPv4Address, ipaddress.IPv4Address] = {}
    generator = random.Random(7)  # noqa: S311 - a fixed sequence of test data
    for _turn in range(300):
        address = ipaddress.IPv4Address(generator.getrandbits(32))
        seen[address] = names.ipv4(address)
    assert len(set(seen.values())) == len(seen), "other addresses stay other ones"
    for private in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"):
        network = ipaddress.IPv4Network(private)
        assert names.ipv4(network[77]) in network
    one, other = (names.ipv4(ipaddress.IPv4Address(text)) for text in ("10.20.30.40", "10.20.30.41"))
    assert int(one) >> 1 == int(other) >> 1, "neighbours stay neighbours"
    assert one != ipaddress.IPv4Address("10.20.30.40")


def test_ipv6_addresses_keep_prefixes_and_form(names: Pseudonyms) -> None:
    first, second = names.addresses("fd00:1:2:3::5"), names.addresses("fd00:1:2:3::6")
    assert first != "fd00:1:2:3::5"
    assert ipaddress.IPv6Address(first).packed[:8] == ipaddress.IPv6Address(second).packed[:8]
    exploded = names.addresses("fd00:0001:0002:0003:0123:4567:89ab:cdef")
    assert len(exploded) == 39
    assert "89ab" not in exploded
    assert names.addresses("fe80::1") == "fe80::1"


def test_uuids_are_replaced_in_text_but_not_in_paths(names: Pseudonyms) -> None:
    uuid = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
    assert uuid not in names.text(f"root=UUID={uuid} ro")
    assert names.names(f"/sys/firmware/efi/efivars/SecureBoot-{uuid}").endswith(uuid), "it names the variable"


def test_another_key_gives_other_names() -> None:
    one, other = Pseudonyms(b"one"), Pseudonyms(b"other")
    assert one.text(MAC) != other.text(MAC)
    assert one.addresses("10.1.2.3") != other.addresses("10.1.2.3")
    assert one.opaque("00b17e2600c288a0") != other.opaque("00b17e2600c288a0")


def test_no_two_serials_become_one(names: Pseudonyms) -> None:
    macs = [f"a0:88:c2:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}" for number in range(1, 9000)]
    assert len({names.text(mac) for mac in macs}) == len(macs)


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [
        ("ro quiet iommu=pt", "ro quiet iommu=pt"),
        ("rd.luks.key=/keyfile ro", f"rd.luks.key={MASK} ro"),
        ('systemd.setenv="A_PASSWORD=x y" ro', f"systemd.setenv={MASK} ro"),
        ('"api_token=with space" ro', f"api_token={MASK} ro"),
        ('ro api_token="never closed', f"ro api_token={MASK}"),
        ("ks=http://host/ks.cfg?token=abc ro", f"ks={MASK} ro"),
        ('dyndbg="file drivers/usb/* +p" ro', 'dyndbg="file drivers/usb/* +p" ro'),
        ("netroot=iscsi:user:secret@10.0.0.1::::iqn", f"netroot={MASK}"),
        ("ks=https://me:se/cr@et@host/ks.cfg", f"ks=https://{MASK}@host/ks.cfg"),
        ("systemd.machine_id=0123456789abcdef", f"systemd.machine_id={MASK}"),
        ("proxy=me:secret@host:3128 ro", f"proxy={MASK}@host:3128 ro"),
        ("url=https://host/x?sig=abc rootpw=abc", f"url={MASK} rootpw={MASK}"),
        ("nvme.hostkey=DHHC-1:00:abc: module.sig_enforce=1", f"nvme.hostkey={MASK} module.sig_enforce=1"),
        ("ignition.config.url=https://host/x?X-Amz-Signature=abc", f"ignition.config.url={MASK}"),
        ("console=ttyS0 hugepages=16", "console=ttyS0 hugepages=16"),
    ],
)
def test_secrets_of_a_command_line(cmdline: str, expected: str) -> None:
    assert mask_parameters(cmdline) == expected
