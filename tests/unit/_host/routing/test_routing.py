# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and rules in the in-memory kernel: set, changed, removed, refused, told to wait, disturbed, brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import touches_uplink
from ansible_collections.rdma.fabric.plugins.module_utils._host.managers.routes import PROTOCOL
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.plan import plan_with_context
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, NETDEVS, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import booted, the_step

PORT = NETDEVS[ETHERNET]
OURS = ("naming", "link", "routing", "leftovers")
APPLY: Run = replace(igb.APPLY, concerns=OURS)
REMOVE: Run = replace(igb.REMOVE, concerns=OURS)
CHECKED: Run = replace(igb.CHECK, concerns=OURS)
STEP = f"routing:{PF}"
IPV4 = {"to": "10.2.0.0/16", "via": "10.1.0.1", "table": 101}
LINK = {"to": "10.1.0.0/24", "table": 101}
IPV6 = {"to": "fd00:2::/64", "via": "fd00:1::1", "table": 101}
RULE = {"from": "10.1.0.0/24", "table": 101}
RULE6 = {"from": "fd00:1::/64", "table": 101, "priority": 20000}
ALL: dict[str, Any] = {"routes": [IPV4, LINK, IPV6], "rules": [RULE, RULE6]}
STATIC = "4"


def wish(variables: dict[str, Any] | None = None, rules: Any = None, **entry: Any) -> dict[str, Any]:
    """What is asked of the one port; ``rules`` are those of routing-policy."""
    desired = {"pci": PF, "routing-policy": rules, **entry}
    return igb.wish(desired, **(variables or {}))


def host(*addresses: str) -> Kernel:
    kernel = booted()
    routes.give_address(kernel, PORT, *(addresses or ("10.1.0.2/24", "fd00:1::2/64")))
    return kernel


def applied(kernel: Kernel, desired: dict[str, Any], run: Run = APPLY) -> dict[str, Any]:
    return mlx5.applied(kernel, desired, run)


def done(kernel: Kernel, desired: dict[str, Any], run: Run = APPLY) -> dict[str, Any]:
    return mlx5.done(kernel, desired, run)


def ip(kernel: Kernel, line: str) -> None:
    """Do as somebody else would."""
    result = kernel.run(["ip", *line.split()], 30.0)
    assert result.rc == 0, result.stderr
    kernel.revive()


def commands(kernel: Kernel) -> list[str]:
    return [line for line in igb.what_changed(kernel) if line.startswith("run ip ")]


def told(kernel: Kernel, name: str = PORT) -> list[str]:
    """The routes of an interface and all rules, with their protocols."""
    found = [
        f"{route['to']} via {route['via']} table {route['table']} metric {route['metric']} proto {route['protocol']}"
        for route in routes.routes(kernel, name)
    ]
    return found + [
        "from {from} to {to} table {table} priority {priority} proto {protocol}".format(**rule)
        for rule in routes.rules(kernel)
    ]


EVERYTHING = [
    "10.1.0.0/24 via None table 101 metric 0 proto 173",
    "10.2.0.0/16 via 10.1.0.1 table 101 metric 0 proto 173",
    "fd00:2::/64 via fd00:1::1 table 101 metric 1024 proto 173",
    "from 10.1.0.0/24 to None table 101 priority 30000 proto 173",
    "from fd00:1::/64 to None table 101 priority 20000 proto 173",
]


class TestSetting:
    def test_routes_and_rules_of_both_families_are_set_once(self) -> None:
        kernel = host()
        outcome = applied(kernel, wish(**ALL))
        assert told(kernel) == EVERYTHING
        assert "set route 10.2.0.0/16 via 10.1.0.1 table 101" in outcome["diff"]["prepared"]
        assert "set rule from 10.1.0.0/24 table 101 priority 30000" in outcome["diff"]["prepared"]
        kernel.revive()
        assert (applied(kernel, wish(**ALL))["plan"]["steps"], kernel.mutations) == ([], [])

    def test_the_printed_plan_is_what_is_done(self) -> None:
        kernel = host()
        done(kernel, wish(**ALL))
        changed = wish(routes=[{**IPV4, "via": "10.1.0.9"}, IPV6], rules=[RULE6])
        shown = preview(kernel, changed, CHECKED, None)["diff"]["prepared"].splitlines()
        assert [entry["line"] for entry in done(kernel, changed)["executed"]] == shown
        assert len(shown) == 2

    def test_the_commands_are_those_that_the_documentation_names(self) -> None:
        kernel = host()
        applied(kernel, wish(**ALL))
        assert commands(kernel) == [
            f"run ip -4 route add 10.1.0.0/24 dev {PORT} table 101 metric 0 proto {PROTOCOL}",
            f"run ip -4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} table 101 metric 0 proto {PROTOCOL}",
            f"run ip -6 route add fd00:2::/64 via fd00:1::1 dev {PORT} table 101 metric 1024 proto {PROTOCOL}",
            f"run ip -4 rule add from 10.1.0.0/24 table 101 priority 30000 protocol {PROTOCOL}",
            f"run ip -6 rule add from fd00:1::/64 table 101 priority 20000 protocol {PROTOCOL}",
        ]

    def test_a_default_route_in_a_table_of_its_own(self) -> None:
        kernel = host()
        wanted = wish(routes=[{"to": "default", "via": "10.1.0.1", "table": 101}])
        done(kernel, wanted)
        assert told(kernel) == ["0.0.0.0/0 via 10.1.0.1 table 101 metric 0 proto 173"]
        assert applied(kernel, wanted)["plan"]["steps"] == []

    def test_the_interface_is_found_by_its_new_name(self) -> None:
        kernel = host()
        done(kernel, wish(name="rail0", routes=[IPV4]))
        assert told(kernel, "rail0") == EVERYTHING[1:2]

    def test_an_interface_that_the_same_run_takes_up_gets_its_routes(self) -> None:
        kernel = host("10.1.0.2/24")
        ip(kernel, f"link set dev {PORT} down")
        done(kernel, wish(state="up", routes=[IPV4]))
        assert told(kernel) == EVERYTHING[1:2]

    def test_a_route_lost_with_its_link_comes_back(self) -> None:
        kernel = host("10.1.0.2/24")
        done(kernel, wish(routes=[IPV4], rules=[RULE]))
        ip(kernel, f"link set dev {PORT} down")
        ip(kernel, f"link set dev {PORT} up")
        assert told(kernel) == EVERYTHING[3:4]
        done(kernel, wish(routes=[IPV4], rules=[RULE]))
        assert told(kernel) == [EVERYTHING[1], EVERYTHING[3]]

    def test_another_gateway_takes_the_place_of_ours(self) -> None:
        kernel = host()
        done(kernel, wish(routes=[IPV4]))
        outcome = done(kernel, wish(routes=[{**IPV4, "via": "10.1.0.9"}]))
        assert "(now via 10.1.0.1)" in outcome["diff"]["prepared"]
        assert told(kernel) == ["10.2.0.0/16 via 10.1.0.9 table 101 metric 0 proto 173"]

    def test_what_is_there_already_is_nobodys_work(self) -> None:
        kernel = host()
        ip(kernel, f"-4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} table 101 proto {STATIC}")
        ip(kernel, f"-4 rule add from 10.1.0.0/24 table 101 priority 30000 protocol {STATIC}")
        wanted = wish(routes=[IPV4], rules=[RULE])
        assert applied(kernel, wanted)["plan"]["steps"] == []

    def test_a_gateway_on_the_link_needs_no_address_of_its_network(self) -> None:
        kernel = host("10.1.0.2/24")
        done(kernel, wish(routes=[{"to": "10.9.0.7", "via": "10.50.0.1", "on-link": True}]))
        assert told(kernel) == ["10.9.0.7/32 via 10.50.0.1 table 254 metric 0 proto 173"]

    def test_a_gateway_behind_a_route_of_the_same_table(self) -> None:
        kernel = host("10.1.0.2/24")
        done(kernel, wish(routes=[{**IPV4, "via": "10.50.0.1"}, {"to": "10.50.0.0/24", "table": 101}]))
        assert len(told(kernel)) == 2

    def test_a_link_local_gateway(self) -> None:
        kernel = host("10.1.0.2/24")
        done(kernel, wish(routes=[{**IPV6, "via": "fe80::1"}]))
        assert told(kernel) == ["fd00:2::/64 via fe80::1 table 101 metric 1024 proto 173"]


class TestRemoving:
    def test_what_is_no_longer_asked_for_goes_and_others_stay(self) -> None:
        kernel = host()
        done(kernel, wish(**ALL))
        ip(kernel, f"-4 route add 10.8.0.0/16 via 10.1.0.1 dev {PORT} proto {STATIC}")
        ip(kernel, "-4 rule add from 10.8.0.0/16 table 101 priority 100 protocol 0")
        done(kernel, wish(routes=[IPV4], rules=[RULE6]))
        assert told(kernel) == [
            "10.2.0.0/16 via 10.1.0.1 table 101 metric 0 proto 173",
            "10.8.0.0/16 via 10.1.0.1 table 254 metric 0 proto 4",
            "from 10.8.0.0/16 to None table 101 priority 100 proto 0",
            "from fd00:1::/64 to None table 101 priority 20000 proto 173",
        ]

    def test_an_empty_list_asks_for_none(self) -> None:
        kernel = host()
        done(kernel, wish(**ALL))
        done(kernel, wish(routes=[], rules=[]))
        assert told(kernel) == []

    def test_without_the_keys_nothing_is_read_and_nothing_changes(self) -> None:
        kernel = host()
        done(kernel, wish(**ALL))
        assert applied(kernel, wish(mtu=1500))["plan"]["steps"] == []
        assert gather(kernel, desired=wish(mtu=1500))["routing"] == {}

    def test_rules_of_an_interface_that_is_not_found_stay(self) -> None:
        kernel = host()
        done(kernel, wish(**ALL))
        lost = igb.wish({"pci": "0000:99:00.0", "routing-policy": [RULE, RULE6]}, {"pci": PF, "routes": [IPV4]})
        applied(kernel, lost)
        assert told(kernel) == [EVERYTHING[1], *EVERYTHING[3:]]

    def test_removal_takes_ours_and_leaves_what_was_there_before(self) -> None:
        kernel = host()
        ip(kernel, f"-4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} table 101 proto {STATIC}")
        before = kernel.state()
        done(kernel, wish(**ALL))
        assert len(told(kernel)) == len(EVERYTHING)
        done(kernel, wish(), REMOVE)
        assert told(kernel) == ["10.2.0.0/16 via 10.1.0.1 table 101 metric 0 proto 4"]
        after = kernel.state()
        assert {path: text for path, text in after["files"].items() if path != routes.RULES} == before["files"]


class TestRefusals:
    def refusal(self, kernel: Kernel, variables: dict[str, Any] | None = None, **entry: Any) -> str:
        step = the_step(applied(kernel, wish(variables, **entry)), STEP)
        assert (step["status"], kernel.mutations) == ("refused", [])
        return str(step["detail"])

    def test_a_gateway_that_no_address_reaches(self) -> None:
        text = self.refusal(host("10.1.0.2/24", "10.7.0.2/16"), routes=[{**IPV4, "via": "10.3.0.1"}])
        assert "10.3.0.1 is in no network of the interface (10.1.0.2/24, 10.7.0.2/16)" in text
        assert "next: correct via of 10.2.0.0/16, or set on-link: true" in text

    def test_every_problem_at_once(self) -> None:
        text = self.refusal(host(), routes=[{**IPV4, "via": "10.3.0.1"}, {**IPV6, "via": "fd00:3::1"}])
        assert "10.3.0.1" in text and "fd00:3::1" in text

    def test_a_route_of_somebody_else_stays(self) -> None:
        kernel = host()
        ip(kernel, f"-4 route add 10.2.0.0/16 via 10.1.0.7 dev {PORT} table 101 proto {STATIC}")
        text = self.refusal(kernel, routes=[IPV4])
        assert "10.2.0.0/16 via 10.1.0.7 table 101 (protocol 4) that rdma.fabric did not set" in text

    def test_the_member_of_a_bond(self) -> None:
        kernel = host()
        kernel.tree.add_dir("/sys/devices/virtual/net/bond0")
        for name, text in {"uevent": "DEVTYPE=bond\nINTERFACE=bond0\n", "flags": "0x1003", "type": "1"}.items():
            kernel.tree.add_file(f"/sys/devices/virtual/net/bond0/{name}", f"{text}\n")
        kernel.tree.add_link("/sys/class/net/bond0", "../../devices/virtual/net/bond0")
        place = kernel.realpath(f"/sys/class/net/{PORT}")
        kernel.tree.add_link(f"{place}/master", "/sys/devices/virtual/net/bond0")
        kernel.tree.add_link(f"{place}/upper_bond0", "/sys/devices/virtual/net/bond0")
        assert "give routes and routing-policy in an entry with current_name: bond0" in self.refusal(
            kernel, routes=[IPV4]
        )

    def test_without_ip(self) -> None:
        kernel = host()
        kernel.absent.add("ip")
        assert "next: install iproute2 5.0 or newer" in self.refusal(kernel, routes=[IPV4])

    def test_the_uplink(self) -> None:
        uplink = {"rdma_fabric_uplinks": [PORT]}
        assert "rdma_fabric_allow_uplink_change" in self.refusal(host(), uplink, routes=[IPV4])
        desired = wish({**uplink, "rdma_fabric_allow_uplink_change": True}, routes=[IPV4])
        plan, context = plan_with_context(desired, gather(host(), desired=desired), OURS)
        (step,) = plan["steps"]
        assert (step["status"], touches_uplink(context, step)) == ("planned", True)

    @pytest.mark.parametrize(
        ("entry", "what"),
        [
            ({"rules": [{"from": "192.168.0.0/16", "table": 101}]}, "rule from 192.168.0.0/16"),
            ({"rules": [{"to": "192.168.77.0/25", "table": 101}]}, "rule to 192.168.77.0/25"),
            ({"routes": [{"to": "192.168.77.0/25", "via": "10.1.0.1"}]}, "route 192.168.77.0/25 via 10.1.0.1"),
        ],
    )
    def test_what_would_take_the_uplinks_traffic(self, entry: dict[str, Any], what: str) -> None:
        kernel = host()
        uplink = str(gather(kernel)["uplinks"][0]["netdev"])
        routes.give_address(kernel, uplink, "192.168.77.11/24")
        text = self.refusal(kernel, **entry)
        assert what in text and "192.168.77.11/24" in text and "next: name only networks of the fabric" in text

    def test_networks_beside_the_uplinks_are_fine(self) -> None:
        kernel = host()
        uplink = str(gather(kernel)["uplinks"][0]["netdev"])
        routes.give_address(kernel, uplink, "10.0.0.11/24")
        done(kernel, wish(**ALL))
        assert told(kernel) == EVERYTHING

    def test_a_route_by_another_interface_is_told_by_the_kernel(self) -> None:
        kernel = host()
        uplink = str(gather(kernel)["uplinks"][0]["netdev"])
        ip(kernel, f"-4 route add 10.2.0.0/16 dev {uplink} table 101")
        outcome = applied(kernel, wish(routes=[IPV4]))
        assert outcome["failed"] and "there is such a route by another interface" in outcome["msg"]
        assert [route["to"] for route in routes.routes(kernel, uplink)] == ["10.2.0.0/16"]


class TestWaiting:
    def test_an_interface_that_is_down_gets_its_rules_and_a_notice(self) -> None:
        kernel = host("10.1.0.2/24")
        ip(kernel, f"link set dev {PORT} down")
        outcome = done(kernel, wish(routes=[IPV4], rules=[RULE]))
        assert told(kernel) == EVERYTHING[3:4]
        (notice,) = outcome["plan"]["notices"]
        assert "is down, so the kernel takes no 10.2.0.0/16 via 10.1.0.1 table 101 now; ask for state: up" in notice
        assert applied(kernel, wish(routes=[IPV4], rules=[RULE]))["plan"]["steps"] == []

    def test_an_interface_without_an_address_gets_what_needs_none(self) -> None:
        kernel = host("10.1.0.2/24")
        outcome = done(kernel, wish(routes=[IPV4, IPV6]))
        assert told(kernel) == EVERYTHING[1:2]
        (notice,) = outcome["plan"]["notices"]
        assert "has no address yet from which the gateway is reached" in notice and "fd00:2::/64" in notice
        routes.give_address(kernel, PORT, "fd00:1::2/64")
        done(kernel, wish(routes=[IPV4, IPV6]))
        assert told(kernel) == EVERYTHING[1:3]


def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(host, lambda kernel: applied(kernel, wish(**ALL)), ("EIO", "EPERM", "EEXIST")) >= 6


def test_whatever_disturbs_a_change_the_next_one_gets_there() -> None:
    def start() -> Kernel:
        kernel = host()
        done(kernel, wish(**ALL))
        return kernel

    changed = wish(routes=[{**IPV4, "via": "10.1.0.9"}, LINK], rules=[RULE6])
    assert sweep(start, lambda kernel: applied(kernel, changed), ("EIO", "EPERM")) == 6


def test_whatever_disturbs_a_removal_the_next_one_gets_there() -> None:
    def start() -> Kernel:
        kernel = host()
        done(kernel, wish(**ALL))
        return kernel

    assert sweep(start, lambda kernel: applied(kernel, wish(), REMOVE), ("EIO", "EPERM")) >= 5


def test_a_step_that_fails_is_taken_back() -> None:
    kernel = host()
    number = next(n for n, line in enumerate(commands_of_a_calm_run()) if "rule add from fd00" in line)
    kernel.disturb(number, "EPERM")
    outcome = applied(kernel, wish(**ALL))
    assert outcome["failed"] and "become: true" in outcome["msg"]
    assert told(kernel) == []


def commands_of_a_calm_run() -> list[str]:
    kernel = host()
    applied(kernel, wish(**ALL))
    return [f"{kind} {what}" for kind, what in kernel.mutations]
