# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cable goes to the wrong switch, of fabrics cabled in the usual ways."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.cabling import Rail, misplaced
from ansible_collections.rdma.fabric.plugins.module_utils._proof.parity import compared

Cables = dict[tuple[int, int], tuple[str, ...]]
"""The switches of each node and rail."""


class Port(NamedTuple):
    node: str
    name: str
    neighbours: Sequence[dict[str, str]] | None

    def __str__(self) -> str:
        return f"{self.node}/{self.name}"


def found(cables: Cables, **switches: Any) -> list[str]:
    rails: dict[str, Rail] = {}
    for (node, rail), names in sorted(cables.items()):
        seen = [{"switch": name, "port": f"swp{node}"} for name in names]
        port = Port(f"gpu-{node}", f"ens{rail}", seen)
        own = rails.get(f"rail {rail}", Rail([], switches.get(f"rail{rail}")))
        rails[f"rail {rail}"] = own._replace(ports=[*own.ports, port])
    return [each.says for each in misplaced(rails)]


def cabled(nodes: int, rails: int, leaf: Callable[[int, int], tuple[str, ...]]) -> Cables:
    return {(node, rail): leaf(node, rail) for node in range(nodes) for rail in range(rails)}


WAYS: dict[str, Callable[[int, int], tuple[str, ...]]] = {
    "a leaf for each rail": lambda _node, rail: (f"leaf-{rail}",),
    "a leaf for each rail of each 16 nodes": lambda node, rail: (f"leaf-{node // 16}-{rail}",),
    "two leaves for each rail": lambda _node, rail: (f"leaf-{rail}a", f"leaf-{rail}b"),
    "a leaf for every two rails": lambda _node, rail: (f"leaf-{rail // 2}",),
    "one leaf for all rails of a rack": lambda node, _rail: (f"tor-{node // 8}",),
    "nothing known": lambda _node, _rail: (),
}


@pytest.mark.parametrize("nodes", [2, 3, 32])
@pytest.mark.parametrize("way", WAYS)
def test_every_usual_cabling_is_right(way: str, nodes: int) -> None:
    cables = cabled(nodes, 4, WAYS[way])
    assert found(cables) == []
    # One port of which nothing is known makes the others no strays.
    assert found({key: value for key, value in cables.items() if key != (0, 1)}) == []


@pytest.mark.parametrize("nodes", [3, 32])
@pytest.mark.parametrize("way", ["a leaf for each rail", "two leaves for each rail"])
def test_two_crossed_cables_of_a_node_are_one_finding(way: str, nodes: int) -> None:
    cables = cabled(nodes, 4, WAYS[way])
    cables[2, 0], cables[2, 1] = (*cables[2, 1][:1], *cables[2, 0][1:]), (*cables[2, 0][:1], *cables[2, 1][1:])
    (says,) = found(cables)
    mine, other = (name[0] for name in (cables[0, 0], cables[0, 1]))
    assert says == (
        f"cables are crossed: gpu-2/ens0 is cabled to {other} swp2, which is of rail 1, and gpu-2/ens1 is cabled to "
        f"{mine} swp2, which is of rail 0"
    )


def test_a_single_cable_is_named_at_both_ends_with_where_the_others_go() -> None:
    cables = cabled(32, 4, WAYS["a leaf for each rail"])
    cables[5, 1] = ("leaf-2",)
    assert found(cables) == ["gpu-5/ens1 is cabled to leaf-2 swp5, 31 of 32 ports of rail 1 to leaf-1"]
    cables[5, 1] = ("storage-1",)
    assert found(cables) == []
    assert found(cables, rail1=["leaf-1"]) == [
        "gpu-5/ens1 is cabled to storage-1 swp5, 31 of 32 ports of rail 1 to leaf-1"
    ]


def test_two_nodes_do_not_tell_which_one_is_crossed_but_a_plan_does() -> None:
    cables = cabled(2, 2, WAYS["a leaf for each rail"])
    cables[1, 0], cables[1, 1] = cables[1, 1], cables[1, 0]
    assert found(cables) == []
    (says,) = found(cables, rail0="leaf-0", rail1="leaf-1")
    assert says.startswith("cables are crossed: gpu-1/ens0")


def _facts(name: str, cabling: dict[str, list[str]] | None) -> dict[str, Any]:
    port = {"port": 1, "state": "ACTIVE", "physical": "LinkUp", "rate_gbps": 400, "link_layer": "InfiniBand"}
    device = {"name": "mlx5_0", "pci": None, "netdev": "bond0", "firmware": "1", "psid": "X", "ports": [port]}
    netdev = {"name": "bond0", "mtu": 9000, "lower": ["ens0", "ens1"]}
    found = {"nics": [], "rdma": [device], "netdevs": [netdev], "stack": {"flavour": "inbox", "version": None}}
    seen = {key: [{"switch": each, "port": name} for each in names] for key, names in (cabling or {}).items()}
    return {**found, **({} if cabling is None else {"cabling": seen})}


def test_the_members_of_a_bond_count_together_and_a_missing_switch_is_told() -> None:
    both = {"ens0": ["leaf-0a"], "ens1": ["leaf-0b"]}
    cabling = {
        "n1": both,
        "n2": both,
        "n3": {"ens0": ["leaf-0a"], "ens1": ["leaf-0a"]},
        "n4": {"mgmt0": ["oob"]},
        "n5": both,
    }
    hosts = {name: _facts(name, own) for name, own in cabling.items()}
    network = {"network": "default/bond", "rail": None, "nodes": {name: name for name in hosts}}
    named = {"default/bond": dict.fromkeys(hosts, ("bond0",))}
    kinds = {each["says"] for each in compared([network], hosts, named) if each["kind"] == "switches"}
    assert kinds == {
        "number of switches cabled to 1 at 1 of 5 ports of default/bond, 2 at 3: n3/bond0",
        "number of switches cabled to 0 at 1 of 5 ports of default/bond, 2 at 3: n4/bond0",
    }
    expected = {"bond": {"switch": ["leaf-0a"]}}
    strays = [each for each in compared([network], hosts, named, expected) if each["kind"] == "switch"]
    assert [(each["verdict"], each["ports"]) for each in strays] == [
        ("fail", [f"{n}/bond0"]) for n in ("n1", "n2", "n5")
    ]
    assert strays[0]["says"] == "n1/bond0 is cabled to leaf-0b n1, 4 of 5 ports of default/bond to leaf-0a"
    hosts["n4"]["cabling"] = {}
    assert "not known at 1 of 5 ports of default/bond: n4/bond0: number of switches cabled to" in {
        each["says"] for each in compared([network], hosts, named)
    }
    # Where nobody looked, nothing is said of it.
    unread = {name: _facts(name, None) for name in cabling}
    assert not [each for each in compared([network], unread, named) if "switch" in each["kind"]]
    assert "switches" not in " ".join(each["says"] for each in compared([network], unread, named))
