# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between ports, found in the facts of recorded hosts before a pod is made."""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._proof.parity import (
    PROPERTIES,
    compared,
    expected_violations,
    finding_lines,
    located,
    ports_of,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import dgx, roce
from ansible_collections.rdma.fabric.tests.fixtures.hosts.qos import add_vendor_qos

Json = dict[str, Any]

RAIL = "enp24s0np0"
NODES = [f"gpu-{number}" for number in range(1, 5)]
QOS = {"trust": "dscp", "pfc": [3], "ecn": {3: True}, "tos": 106}
LABEL = "rail 0 (default/rail0)"


@functools.lru_cache
def _read(read_qos: bool) -> Any:
    tree = roce("gpu-1", 1, "")
    add_vendor_qos(tree, RAIL, "rocep24s0")
    asked = {"interfaces": [{"current_name": RAIL, "qos": QOS}]} if read_qos else {}
    return gather(RecordedHost(tree.document()), desired=check_spec(asked))


def facts_of(read_qos: bool = True) -> Json:
    facts: Json = copy.deepcopy(_read(read_qos))
    return facts


def network(name: str = "rail0", rail: int = 0) -> Json:
    return {"network": f"default/{name}", "name": name, "rail": rail, "nodes": {node: node for node in NODES}}


def findings(hosts: dict[str, Any], names: list[str] | None = None, expected: Json | None = None) -> list[Json]:
    by = {"default/rail0": {host: names or [RAIL] for host in hosts}}
    return compared([network()], hosts, by, expected or {})


@pytest.fixture(name="hosts")
def _hosts() -> dict[str, Any]:
    """Hosts as they are once the settings were made: the kernel makes a device's file of ToS only then."""
    facts = facts_of()
    qos(facts).update(pfc=[3], trust="dscp")
    qos(facts)["rdma"]["tos"] = 106
    facts["cabling"] = {RAIL: [{"switch": "leaf-0", "port": "swp1"}]}
    return {node: copy.deepcopy(facts) for node in NODES}


def device(facts: Json) -> Json:
    return next(each for each in facts["rdma"] if each["netdev"] == RAIL)


def port(facts: Json) -> Json:
    found: Json = device(facts)["ports"][0]
    return found


def nic(facts: Json) -> Json:
    return next(each for each in facts["nics"] if each["address"] == device(facts)["pci"])


def qos(facts: Json) -> Json:
    found: Json = facts["settings"]["qos"]["ports"][RAIL]
    return found


def test_ports_that_are_alike_say_nothing(hosts: dict[str, Any]) -> None:
    assert findings(hosts) == []


def _changes() -> dict[str, Callable[[Json], None]]:
    def netdev(facts: Json) -> Json:
        return next(each for each in facts["netdevs"] if each["name"] == RAIL)

    return {
        "link": lambda facts: port(facts).update(state="DOWN", physical="Polling", rate_gbps=None),
        "speed": lambda facts: port(facts).update(rate_gbps=200),
        "pcie": lambda facts: nic(facts)["link"].update(speed_gts=16.0),
        "mtu": lambda facts: netdev(facts).update(mtu=9000),
        "gid": lambda facts: port(facts).update(rocev2_gid_index=5),
        "lossless": lambda facts: qos(facts).update(pfc=[4]),
        "trust": lambda facts: qos(facts).update(trust="pcp"),
        "ecn": lambda facts: qos(facts).update(ecn={"np": [], "rp": [3]}),
        "tos": lambda facts: qos(facts)["rdma"].update(tos=96),
        "firmware": lambda facts: device(facts).update(firmware="28.36.1010"),
        "switches": lambda facts: facts["cabling"].update({RAIL: []}),
        "driver": lambda facts: facts["stack"].update(flavour="doca-ofed", version="24.10"),
    }


WORDS = {
    "link": f"link DOWN (Polling) at 1 of 4 ports of {LABEL}, ACTIVE at 3: gpu-3/{RAIL}",
    "speed": f"link rate 200 Gb/s at 1 of 4 ports of {LABEL}, 400 Gb/s at 3: gpu-3/{RAIL}",
    "mtu": f"MTU 9000 at 1 of 4 ports of {LABEL}, 1500 at 3: gpu-3/{RAIL}",
    "lossless": f"flow control PFC of 4 at 1 of 4 ports of {LABEL}, PFC of 3 at 3: gpu-3/{RAIL}",
    "driver": "driver doca-ofed 24.10 at 1 of 4 nodes, inbox at 3: gpu-3",
}


@pytest.mark.parametrize("key", [each.key for each in PROPERTIES])
def test_one_port_that_differs_is_named_with_what_the_others_have(hosts: dict[str, Any], key: str) -> None:
    _changes()[key](hosts["gpu-3"])
    (found,) = findings(hosts)
    assert found["kind"] == key
    assert found["verdict"] == next(each.verdict for each in PROPERTIES if each.key == key)
    assert found["ports"] == ["gpu-3" if key == "driver" else f"gpu-3/{RAIL}"]
    assert found["says"] == WORDS.get(key, found["says"])
    assert found["next_step"]


def test_what_was_not_read_is_not_known_and_never_the_same(hosts: dict[str, Any]) -> None:
    unread = {node: facts_of(read_qos=False) for node in NODES}
    assert [each["verdict"] for each in findings(unread)] == ["unknown"]
    assert finding_lines(findings(unread)) == [
        f"not known at any port of {LABEL}: flow control, trust, ECN of priorities, ToS (settings that variables of "
        "hosts make are read (roce_qos, qos of an interface))"
    ]
    del hosts["gpu-2"]["settings"]["qos"]
    (found,) = findings(hosts)
    assert found["says"].startswith(f"not known at 1 of 4 ports of {LABEL}: gpu-2/{RAIL}: flow control")


def test_a_network_without_flow_control_is_told_and_does_not_fail(hosts: dict[str, Any]) -> None:
    for facts in hosts.values():
        qos(facts).update(pfc=[], pause={"rx": False, "tx": False})
    (found,) = findings(hosts)
    assert (found["verdict"], found["says"].partition(":")[0]) == (
        "reported",
        f"flow control none at 4 of 4 ports of {LABEL}",
    )


def test_what_the_user_expects_goes_before_what_most_have(hosts: dict[str, Any]) -> None:
    port(hosts["gpu-1"])["rate_gbps"] = 200
    (found,) = findings(hosts, expected={"rail0": {"speed": 200}})
    assert found["says"] == (
        f"link rate 400 Gb/s at 3 of 4 ports of {LABEL}, 200 Gb/s at 1: "
        + ", ".join(f"gpu-{n}/{RAIL}" for n in (2, 3, 4))
    )
    (found,) = findings(hosts, expected={"default/rail0": {"speed": "400"}})
    assert found["ports"] == [f"gpu-1/{RAIL}"]
    found = findings(hosts, expected={"rail0": {"mtu": 9216, "speed": 200}})[-1]
    assert found["says"].startswith(f"MTU 1500 at 4 of 4 ports of {LABEL}, 9216 is asked for: gpu-1/")


def test_cards_of_other_models_are_not_compared_in_what_the_model_decides(hosts: dict[str, Any]) -> None:
    port(hosts["gpu-3"])["rate_gbps"] = 200
    nic(hosts["gpu-3"])["device"] = "101d"
    assert findings(hosts) == []


def test_a_node_without_such_a_port_is_named(hosts: dict[str, Any]) -> None:
    hosts["gpu-4"]["rdma"] = []
    hosts["gpu-2"] = None
    (found,) = findings(hosts)
    assert found["says"] == f"no RDMA port known at 2 of 4 nodes of {LABEL}: gpu-2, gpu-4"


def test_ports_are_found_by_a_vlan_on_them_and_by_their_functions() -> None:
    facts = facts_of(read_qos=False)
    vlan = {**facts["netdevs"][0], "name": "rail0.100", "pci": None, "lower": [RAIL]}
    facts["netdevs"].append(vlan)
    address = device(facts)["pci"]
    facts["nics"].append({**nic(facts), "address": "0000:18:00.2", "function": "vf", "pf": address})
    for name in (RAIL, "rail0.100", address, "0000:18:00.2"):
        assert [str(each) for each in ports_of("gpu-1", facts, [name])] == [f"gpu-1/{RAIL}"]
    assert ports_of("gpu-1", facts, ["eth9"]) == []


def test_an_end_is_where_its_one_port_is_or_the_bond_of_its_ports() -> None:
    facts = facts_of(read_qos=False)
    facts["cabling"] = {RAIL: [{"switch": "leaf-0", "port": "swp1"}]}
    one, other = (each["netdev"] for each in facts["rdma"][:2])
    alone = ports_of("gpu-1", facts, [RAIL])
    both = ports_of("gpu-1", facts, [one, other])
    known = {"netdev": RAIL, "nic": "0000:18:00", "switches": ["leaf-0"], "cabled_to": "leaf-0 swp1"}
    assert (located(alone), located(both)) == (known, None)
    bonded = [port._replace(netdev={**port.netdev, "master": "bond0"}) for port in both]
    assert (located(bonded) or {})["netdev"] == f"{one}, {other}"


def test_infiniband_has_no_settings_of_ethernet() -> None:
    facts: Any = gather(RecordedHost(dgx("gpu-1", 1, "").document()))
    hosts = dict.fromkeys(NODES, facts)
    assert findings(hosts, ["0000:18:00.0"]) == []


def test_what_is_expected_names_networks_and_properties() -> None:
    wrong = {"rial0": {}, "rail0": {"sped": 400}, "default/rail0": 400}
    said = [each.sentence() for each in expected_violations(wrong, [network()])]
    assert said[0].endswith("rial0: is not a network of the fabric (did you mean rail0?)")
    assert "rail0.sped: is not compared (one of link, speed, pcie, mtu, gid, lossless, trust" in said[1]
    assert said[2].endswith("default/rail0: is the number 400, not a mapping (such as {speed: 400, mtu: 9000})")
    assert expected_violations({"rail0": {"speed": 400}, "default/rail0": {"mtu": 9000}}, [network()]) == []
