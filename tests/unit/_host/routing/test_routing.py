# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and rules in the simulated kernel: set, changed, removed, disturbed, brought back."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import PROTOCOL
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.routing.hosts import (
    ALL,
    CHECKED,
    EVERYTHING,
    IPV4,
    IPV6,
    LINK,
    PORT,
    REMOVE,
    RULE,
    RULE6,
    STATIC,
    applied,
    commands,
    done,
    host,
    ip,
    told,
    wish,
)


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

    def test_a_kernel_that_renames_by_taking_the_link_down_gets_them_again(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/sys/kernel/osrelease", "5.15.0-1047-nvidia\n")
        done(kernel, wish(**ALL))
        outcome = done(kernel, wish(**ALL, name="rail0"))
        assert told(kernel, "rail0") == [*EVERYTHING[:2], *EVERYTHING[3:]]
        assert any("fd00:2::/64 via fd00:1::1" in notice for notice in outcome["plan"]["notices"])
        routes.give_address(kernel, "rail0", "fd00:1::2/64")
        done(kernel, wish(**ALL, name="rail0"))
        assert told(kernel, "rail0") == EVERYTHING

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


@pytest.mark.slow
def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(host, lambda kernel: applied(kernel, wish(**ALL)), ("EIO", "EPERM", "EEXIST")) >= 6


def test_whatever_disturbs_a_change_the_next_one_gets_there() -> None:
    def start() -> Kernel:
        kernel = host()
        done(kernel, wish(**ALL))
        return kernel

    changed = wish(routes=[{**IPV4, "via": "10.1.0.9"}, LINK], rules=[RULE6])
    assert sweep(start, lambda kernel: applied(kernel, changed), ("EIO", "EPERM")) == 6


@pytest.mark.slow
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
