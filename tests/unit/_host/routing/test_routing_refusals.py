# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and rules that are refused, and those that have to wait."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import touches_uplink
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import the_step
from ansible_collections.rdma.fabric.tests.unit._host.routing.hosts import (
    ALL,
    EVERYTHING,
    IPV4,
    IPV6,
    OURS,
    PORT,
    RULE,
    STATIC,
    STEP,
    applied,
    done,
    host,
    ip,
    told,
    wish,
)


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
        uplink = {"rdma_fabric_protected_interfaces": [PORT]}
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

    @pytest.mark.parametrize(
        ("entry", "what"),
        [
            (
                {"routes": [{"to": "10.64.0.0/10", "via": "10.1.0.1"}]},
                "route 10.64.0.0/10 via 10.1.0.1 is for Ansible's",
            ),
            (
                {"rules": [{"to": "10.64.0.0/10", "table": 101}]},
                "rule to 10.64.0.0/10 table 101 priority 30000 is about",
            ),
        ],
    )
    def test_what_would_lead_away_the_answers_to_the_controller(self, entry: dict[str, Any], what: str) -> None:
        desired: HostSpec = {**wish(**entry), "controller": "10.66.7.8"}
        step = the_step(applied(host(), desired), STEP)
        assert step["status"] == "refused"
        assert what in step["detail"] and "(10.66.7.8)" in step["detail"]

    def test_what_leaves_the_controller_where_it_is(self) -> None:
        kernel = host()
        uplink = str(gather(kernel)["uplinks"][0]["netdev"])
        routes.give_address(kernel, uplink, "10.66.7.9/24")
        wanted = wish(routes=[{"to": "10.64.0.0/10", "via": "10.1.0.1"}, IPV4], rules=[RULE])
        done(kernel, {**wanted, "controller": "10.66.7.8"})
        assert len(told(kernel)) == 3
        away = wish(routes=[{"to": "10.64.0.0/10", "via": "10.1.0.1", "table": 101}], rules=[RULE])
        done(host(), {**away, "controller": "10.66.7.8"})
        done(host(), {**wish(routes=[IPV6]), "controller": "10.66.7.8"})

    def test_rules_of_the_uplink_go_with_consent_and_under_guard(self) -> None:
        kernel = host()
        uplink = str(gather(kernel)["uplinks"][0]["netdev"])
        done(kernel, wish(**ALL))
        routes.give_address(kernel, uplink, "10.1.0.7/24")
        step = the_step(applied(kernel, wish(routes=[])), "routing:rules")
        assert step["status"] == "refused" and "rdma_fabric_allow_uplink_change: true allows it" in step["detail"]
        assert told(kernel) == EVERYTHING[3:]
        desired = wish({"rdma_fabric_allow_uplink_change": True}, routes=[])
        plan, context = plan_with_context(desired, gather(kernel, desired=desired), OURS)
        (allowed,) = plan["steps"]
        assert (allowed["id"], allowed["status"]) == ("routing:rules", "planned")
        assert touches_uplink(context, allowed)

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

    def test_another_gateway_waits_for_an_address_as_well(self) -> None:
        kernel = host()
        done(kernel, wish(routes=[IPV4, IPV6]))
        routes.take_address(kernel, PORT, "fd00:1::2/64")
        outcome = done(kernel, wish(routes=[IPV4, {**IPV6, "via": "fd00:1::9"}]))
        (notice,) = outcome["plan"]["notices"]
        assert "fd00:2::/64 via fd00:1::9" in notice and "10.2.0.0/16" not in notice
        assert told(kernel) == EVERYTHING[1:3]

    def test_a_route_that_is_there_does_not_wait(self) -> None:
        kernel = host()
        done(kernel, wish(routes=[IPV6]))
        routes.take_address(kernel, PORT, "fd00:1::2/64")
        (notice,) = done(kernel, wish(routes=[IPV6, {**IPV6, "to": "fd00:5::/64"}]))["plan"]["notices"]
        assert "fd00:5::/64 via" in notice and "fd00:2::/64" not in notice
