# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ip prints of routes, rules and addresses, and what a recording keeps of it."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import kept_in
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.routing import (
    parse_addresses,
    parse_routes,
    parse_rules,
    routes_command,
    rules_command,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.unit._host import mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, NETDEVS, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PORT = NETDEVS[ETHERNET]
# ip -N -json of iproute2 6.1 on Linux 6.18, in a network namespace.
IPV4 = (
    '[{"dst":"default","gateway":"10.1.0.1","dev":"d0","table":"101","protocol":"173","flags":[]},'
    '{"dst":"10.1.0.0/24","dev":"d0","table":"101","protocol":"173","scope":"253","flags":["linkdown"]},'
    '{"dst":"10.2.0.0/16","gateway":"10.1.0.1","dev":"d0","table":"101","protocol":"173","metric":5,"flags":[]},'
    '{"dst":"10.1.0.0/24","dev":"d0","protocol":"2","scope":"253","prefsrc":"10.1.0.2","flags":[]},'
    '{"dst":"10.9.0.7","gateway":"10.50.0.1","dev":"d0","protocol":"173","flags":["onlink"]},'
    '{"type":"6","dst":"10.66.0.0/16","protocol":"173","flags":[]},'
    '{"dst":"10.77.0.0/16","flags":[],"nexthops":[{"gateway":"10.1.0.1","dev":"d0","weight":1,"flags":[]},'
    '{"gateway":"10.1.0.3","dev":"d0","weight":1,"flags":[]}]},'
    '{"dst":"10.78.0.0/16","via":{"family":"inet6","host":"fe80::1"},"dev":"d0","flags":[]},'
    '{"dst":"10.79.0.0/16","gateway":"10.1.0.1","dev":"d0","flags":[]},'
    '{"type":"2","dst":"10.1.0.2","dev":"d0","table":"255","protocol":"2","scope":"254","prefsrc":"10.1.0.2",'
    '"flags":[]}]\n'
)
IPV6 = (
    '[{"dst":"fd00:2::/64","gateway":"fd00:1::1","dev":"d0","table":"101","protocol":"173","metric":1024,"flags":[],'
    '"pref":"medium"},{"dst":"default","gateway":"fe80::1","dev":"d0","table":"101","protocol":"173","metric":1024,'
    '"flags":[],"pref":"medium"},{"type":"5","dst":"ff00::/8","dev":"d0","table":"255","protocol":"2","metric":256,'
    '"flags":[],"pref":"medium"},{"dst":"fd00:7::1","gateway":"fd00:99::1","dev":"d0","protocol":"173","metric":1024,'
    '"flags":["onlink"],"pref":"medium"}]\n'
)
RULES = (
    '[{"priority":0,"src":"all","table":"255"},'
    '{"priority":29000,"not":null,"src":"10.8.0.0","srclen":16,"fwmark":"0x5","table":"102"},'
    '{"priority":29001,"src":"10.8.0.0","srclen":16,"iif":"d0","action":"6"},'
    '{"priority":29999,"src":"10.1.0.2","dst":"10.3.0.5","table":"5000000","protocol":"173"},'
    '{"priority":30000,"src":"10.1.0.0","srclen":24,"table":"101"},'
    '{"priority":300,"src":"all","dst":"10.3.0.0","dstlen":24,"table":"4","protocol":"4"},'
    '{"priority":32766,"src":"all","table":"254"},{"priority":32767,"src":"all","table":"253"}]\n'
)


def test_routes_of_ipv4() -> None:
    found = parse_routes(IPV4, 4)
    assert found is not None
    assert [(r["to"], r["via"], r["table"], r["metric"], r["on-link"], r["protocol"]) for r in found] == [
        ("0.0.0.0/0", "10.1.0.1", 101, 0, False, 173),
        ("10.1.0.0/24", None, 101, 0, False, 173),
        ("10.2.0.0/16", "10.1.0.1", 101, 5, False, 173),
        ("10.1.0.0/24", None, 254, 0, False, 2),
        ("10.79.0.0/16", "10.1.0.1", 254, 0, False, 3),
        ("10.9.0.7/32", "10.50.0.1", 254, 0, True, 173),
    ]


def test_routes_of_ipv6() -> None:
    found = parse_routes(IPV6, 6)
    assert found is not None
    assert [(r["to"], r["via"], r["table"], r["metric"], r["on-link"]) for r in found] == [
        ("::/0", "fe80::1", 101, 1024, False),
        ("fd00:2::/64", "fd00:1::1", 101, 1024, False),
        ("fd00:7::1/128", "fd00:99::1", 254, 1024, True),
    ]


def test_rules_with_other_conditions_are_none_of_those_that_can_be_asked_for() -> None:
    assert parse_rules(RULES, 4) == [
        {"from": None, "to": "10.3.0.0/24", "table": 4, "priority": 300, "protocol": 4},
        {"from": "10.1.0.2/32", "to": "10.3.0.5/32", "table": 5000000, "priority": 29999, "protocol": 173},
        {"from": "10.1.0.0/24", "to": None, "table": 101, "priority": 30000, "protocol": 0},
    ]


@pytest.mark.parametrize("text", ["{", "5", '{"dst": "default"}', "[" * 100000])
def test_what_is_no_list_is_not_known(text: str) -> None:
    assert parse_routes(text, 4) is None
    assert parse_rules(text, 4) is None
    assert parse_addresses(text) is None


@pytest.mark.parametrize(
    "entry",
    [5, {}, {"dst": 5}, {"dst": "x/y"}, {"dst": "10.2.0.0/16", "table": "rail"}, {"dst": "10.2.0.0/16", "metric": []}],
)
def test_an_entry_that_can_not_be_read_is_left_out(entry: Any) -> None:
    assert parse_routes(json.dumps([entry]), 4) == []
    assert parse_rules(json.dumps([entry]), 4) == []


def test_addresses_have_their_networks() -> None:
    text = '[{"ifname":"d0","addr_info":[{"family":"inet","local":"10.1.0.2","prefixlen":24},{"local":5},7,{}]}]'
    assert parse_addresses(text) == ["10.1.0.2/24"]
    assert parse_addresses('[{"ifname":"d0"}]') == []


def host() -> Kernel:
    kernel = mlx5.booted()
    routes.give_address(kernel, PORT, "10.1.0.2/24", "fd00:1::2/64")
    for line in (
        f"-4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} proto 173",
        f"-4 route add default via 10.1.0.1 dev {PORT} table 101 proto 4",
        f"-6 route add fd00:2::/64 via fd00:1::1 dev {PORT} table 101 proto 173",
        "-4 rule add from 10.1.0.0/24 table 101 priority 30000 protocol 173",
        "-4 rule add to 10.2.0.7 table 101 priority 20000 protocol 173",
    ):
        assert kernel.run(["ip", *line.split()], 5.0).rc == 0
    return kernel


def read(there: Host) -> Any:
    """What is read of a host that routes are asked of."""
    return gather(there, desired=mlx5.wish(routes=[]))["routing"]


def test_only_what_is_asked_for_is_read() -> None:
    assert gather(host(), desired=mlx5.wish(mtu=9000))["routing"] == {}
    found = read(host())
    assert list(found["interfaces"]) == [PF]
    assert found["interfaces"][PF]["addresses"] == ["10.1.0.2/24", "fd00:1::2/64"]
    assert len(found["rules"]) == 2


def test_a_kernel_without_ipv6_still_tells_ipv4() -> None:
    kernel = host()
    recording = record(kernel, "recorded")
    recording["commands"].pop(" ".join(routes_command(6, PORT)))
    recording["commands"].pop(" ".join(rules_command(6)))
    found = read(RecordedHost(recording))
    assert len(found["rules"]) == 2
    assert {route["to"] for route in found["interfaces"][PF]["routes"]} > {"0.0.0.0/0"}


def test_a_recording_has_other_addresses_that_belong_together_as_the_real_ones_do() -> None:
    kernel = host()
    recording = record(kernel, "recorded")
    text = json.dumps(recording)
    assert "10.1.0" not in text and "10.2.0" not in text and "fd00:2" not in text
    found = read(RecordedHost(recording))
    there = found["interfaces"][PF]
    (network,) = {ipaddress.ip_interface(text).network for text in there["addresses"] if ":" not in text}
    ours = {route["table"]: route for route in there["routes"] if route["via"] and ":" not in route["to"]}
    assert ours[101]["to"] == "0.0.0.0/0" and ours[101]["protocol"] == 4
    assert ours[101]["via"] == ours[254]["via"] and ipaddress.ip_address(ours[254]["via"]) in network
    to, source = found["rules"]
    assert source["from"] == str(network) and source["priority"] == 30000
    assert ipaddress.ip_network(to["to"]).network_address in ipaddress.ip_network(ours[254]["to"])
    assert ipaddress.ip_network(ours[254]["to"]).prefixlen == 16


def test_a_recording_has_no_real_address_in_files_of_managers() -> None:
    kernel = host()
    drop_in = "/etc/systemd/network/20-rail.network.d/90-rdma-fabric.conf"
    kernel.tree.add_file(
        drop_in, f"# {MARKER}\n[Route]\nDestination=10.2.0.0/16\nGateway=10.1.0.1\nTable=101\nMetric=0\n"
    )
    profile = "[connection]\ninterface-name=x\n[ipv4]\nroute1=10.2.0.0/16,10.1.0.1,0\n"
    kernel.tree.add_file("/etc/NetworkManager/system-connections/rail.nmconnection", profile)
    kernel.tree.add_file("/etc/systemd/system/multi-user.target.wants/NetworkManager.service", "")
    recording = record(kernel, "recorded")
    assert "10.1.0" not in json.dumps(recording) and "10.2.0" not in json.dumps(recording)
    host_again = RecordedHost(recording)
    ((route,), _rules) = kept_in({drop_in: host_again.read(drop_in)})
    (there,) = [
        found
        for found in read(host_again)["interfaces"][PF]["routes"]
        if found["via"] and found["table"] == 254 and ":" not in found["to"]
    ]
    assert (route["to"], route["via"]) == (there["to"], there["via"])


def test_rules_of_a_recording_name_networks() -> None:
    recording = record(host(), "recorded")
    rules = json.loads(recording["commands"][" ".join(rules_command(4))]["stdout"])
    (rule,) = [rule for rule in rules if "srclen" in rule]
    assert ipaddress.ip_network(f"{rule['src']}/{rule['srclen']}").prefixlen == 24
    assert rule["src"] != "10.1.0.0"


def test_a_recording_calls_interfaces_by_one_name() -> None:
    kernel = mlx5.booted()
    assert kernel.run(["ip", "link", "set", "dev", PORT, "name", "enxa088c2470001"], 5.0).rc == 0
    recording = record(kernel, "recorded")
    assert "a088c2470001" not in json.dumps(recording)
    found = read(RecordedHost(recording))["interfaces"][PF]
    assert found["routes"] == [] and found["addresses"] == []
