# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name of an interface that no host has is said, and no other one."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.meanings import (
    meaning_of,
    nearest_to,
    unknown_interfaces,
)

RENAME = {"concern": "naming", "status": "planned", "when": "now+boot", "from": "ens2f0", "to": "rail0"}


def document(host: str, *netdevs: str, wanted: str = "", steps: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    nic = {"function": "pf", "netdevs": [netdevs[0]] if netdevs else [], "rdma": ["mlx5_0"]}
    without_rdma = {**nic, "rdma": [], "netdevs": ["x"]}
    return {
        "host": host,
        "desired": {"interfaces": [{"name": wanted}, {"name": None}] if wanted else []},
        "facts": {
            "netdevs": [{"name": name} for name in netdevs],
            "nics": [nic, without_rdma],
        },
        "plan": {"steps": list(steps)},
    }


def said(master: str, *documents: dict[str, Any], hosts: tuple[str, ...] = ("a", "b")) -> list[str]:
    network = {"kind": "MacvlanNetwork", "name": "net", "spec": {"networkNamespace": "ai", "master": master}}
    return unknown_interfaces({"hosts": {host: {} for host in hosts}, "networks": [network]}, documents)


def test_a_name_of_no_host_is_said_with_those_that_ports_have() -> None:
    found = said("rail9", document("a", "rail0", "eno1"), document("b", "rail0", "eno1"))
    assert found == [
        "network ai/net: master rail9: none of the 2 hosts that were read has an interface of this name "
        "(did you mean rail0?); ports with RDMA are rail0"
    ]
    assert said("ibs1f0", document("a"), hosts=("a",)) == [
        "network ai/net: master ibs1f0: the host that was read has no interface of this name"
    ]


def test_of_many_names_the_usual_ones_are_said() -> None:
    documents = [document(host, f"rail{number}") for number, host in enumerate("abcdefghij")]
    (text,) = said("ibs1f0", *documents, document("k", "rail9"), hosts=tuple("abcdefghijk"))
    assert text.endswith("ports with RDMA are rail9, rail0, rail1, rail2, rail3, rail4, rail5, rail6 and 2 more")


def test_a_name_that_the_run_takes_away_is_said_with_the_new_one() -> None:
    renamed = document("a", "ens2f0", wanted="rail0", steps=(RENAME,))
    assert said("ens2f0", renamed, hosts=("a",)) == [
        "network ai/net: master ens2f0: the host that was read has no interface of this name once it is renamed to "
        "rail0: write rail0"
    ]
    assert said("rail0", renamed, hosts=("a",)) == []


@pytest.mark.parametrize("other", [{"when": "boot"}, {"status": "refused"}, {"status": "needs_consent"}])
def test_a_name_that_stays_for_now_is_no_matter(other: dict[str, str]) -> None:
    assert said("ens2f0", document("a", "ens2f0", wanted="rail0", steps=({**RENAME, **other},)), hosts=("a",)) == []


def test_one_host_that_has_the_name_is_enough() -> None:
    assert said("rail0", document("a", "rail0"), document("b", "eno1")) == []


def test_functions_that_a_run_makes_are_called_after_their_port() -> None:
    assert said("rail0v3", document("a", "rail0"), hosts=("a",)) == []
    assert len(said("rail1v3", document("a", "rail0"), hosts=("a",))) == 1
    assert said("rail1v3", document("a", "rail0", "rail1v3"), hosts=("a",)) == [], "one that is there, without its port"


def test_nothing_is_said_while_a_host_may_have_the_name() -> None:
    assert said("rail9", document("a", "rail0")) == []
    assert said("rail9", document("a", "rail0"), document("c", "rail0")) == []
    assert said("rail9") == []
    assert said("br-ex", document("a", "eno1", "ovs-system"), document("b", "eno1")) == []


class TestMeaning:
    """A name that an interface is found by elsewhere is told with the one to write."""

    def host(self, name: str = "enp24s0np0", *others: str, steps: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
        found = document("a", name, steps=steps)
        found["facts"]["netdevs"][0].update(pci="0000:18:00.0", other_names=list(others), mac="a0:88:c2:00:00:01")
        found["facts"]["netdevs"][0].update(kind="physical")
        found["facts"]["nics"][0]["address"] = found["facts"]["nics"][1]["address"] = "0000:18:00.0"
        found["facts"]["rdma"] = [{"name": "mlx5_0", "netdev": name}]
        return found

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            ("ens1np0", "an alternative name of"),
            ("enp24s0", "what another kernel or driver calls"),
            ("ens1", "what another kernel or driver calls"),
            ("0000:18:00.0", "the PCI address of"),
            ("18:00.0", "the PCI address of"),
            ("mlx5_0", "the RDMA device of"),
        ],
    )
    def test_it_is_told_with_the_name_to_write(self, given: str, kind: str) -> None:
        assert said(given, self.host("enp24s0np0", "ens1np0"), hosts=("a",)) == [
            f"network ai/net: master {given}: it is {kind} enp24s0np0: write enp24s0np0"
        ]

    def test_a_host_that_has_it_without_the_number_of_the_port_is_told_so(self) -> None:
        (text,) = said("enp24s0np0", self.host("enp24s0"), hosts=("a",))
        assert text.endswith("it is what another kernel or driver calls enp24s0: write enp24s0")

    def test_the_name_that_the_run_gives_is_written(self) -> None:
        renamed = self.host("enp24s0np0", "ens1np0", steps=({**RENAME, "from": "enp24s0np0"},))
        assert meaning_of("ens1np0", [renamed]) == "it is an alternative name of rail0: write rail0"

    def test_hosts_that_differ_are_told_both(self) -> None:
        hosts = [self.host("enp24s0np0", "ens1np0"), self.host("enp65s0np0", "ens1np0")]
        assert meaning_of("ens1np0", hosts).endswith("write enp24s0np0 or enp65s0np0")

    def test_others_mean_nothing(self) -> None:
        assert meaning_of("ens2np0", [self.host("enp24s0np0", "ens1np0")]) == ""

    @pytest.mark.parametrize(
        ("key", "value", "nearest"),
        [
            ("current_name", "enp25s0np0", "enp24s0np0"),
            ("pci", "0000:18:00.1", "0000:18:00.0 (enp24s0np0)"),
            ("mac", "a0:88:c2:00:00:02", "a0:88:c2:00:00:01 (enp24s0np0)"),
        ],
    )
    def test_the_nearest_ones_of_a_host_are_told(self, key: str, value: str, nearest: str) -> None:
        assert nearest_to(key, value, self.host()["facts"]) == f"nearest here: {nearest}"

    def test_a_host_without_interfaces_has_none(self) -> None:
        assert nearest_to("pci", "0000:18:00.1", {"netdevs": [], "nics": []}) == ""
