# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and rules as variables give them: in one shape afterwards, or refused with what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interfaces import InterfaceSpec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

PF, OTHER = "0000:18:00.0", "0000:40:00.0"
ROUTE = {"to": "10.2.0.0/16", "via": "10.1.0.1"}
RULE = {"from": "10.1.0.0/24", "table": 101}


def parsed(*entries: dict[str, Any]) -> tuple[list[InterfaceSpec], list[Violation]]:
    desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [*entries]})
    return desired["interfaces"], violations


def accepted(**entry: Any) -> InterfaceSpec:
    (found,), violations = parsed({"pci": PF, **entry})
    assert violations == []
    return found


def said(*entries: dict[str, Any]) -> list[str]:
    """What is wrong, with the place within rdma_fabric_interfaces and the hint."""
    return [f"{v.path} {v.problem}; {v.hint}" for v in parsed(*entries)[1]]


def test_what_is_left_out_has_the_kernels_values() -> None:
    entry = accepted(routes=[ROUTE, {"to": "fd00:2::/64", "via": "fd00:1::1"}], **{"routing-policy": [RULE]})
    assert entry["routes"] == [
        {"to": "10.2.0.0/16", "via": "10.1.0.1", "table": 254, "metric": 0, "on-link": False},
        {"to": "fd00:2::/64", "via": "fd00:1::1", "table": 254, "metric": 1024, "on-link": False},
    ]
    assert entry["routing-policy"] == [{"from": "10.1.0.0/24", "to": None, "table": 101, "priority": 30000}]


def test_what_comes_out_goes_in_again() -> None:
    everything = {
        "routes": [
            {"to": "default", "via": "fe80::1", "table": 101, "metric": 5},
            {"to": "10.9.0.7", "via": "10.50.0.1", "on-link": True},
            {"to": "10.1.0.0/24", "table": 101},
        ],
        "routing-policy": [{"to": "fd00:3::/64", "table": 7, "priority": 5}, RULE],
    }
    entry = accepted(**everything)
    assert [route["to"] for route in entry["routes"] or []] == ["10.1.0.0/24", "10.9.0.7/32", "::/0"]
    assert check_spec({"interfaces": [entry]})["interfaces"] == [entry]


def test_the_order_of_what_is_given_does_not_matter() -> None:
    other = {"to": "10.3.0.0/16", "via": "10.1.0.1"}
    assert accepted(routes=[ROUTE, other]) == accepted(routes=[other, ROUTE])


def test_nothing_said_and_nothing_wanted_are_two_things() -> None:
    assert accepted()["routes"] is None and accepted()["routing-policy"] is None
    entry = accepted(routes=[], **{"routing-policy": []})
    assert entry["routes"] == [] and entry["routing-policy"] == []


def test_the_default_route_needs_a_table_of_its_own() -> None:
    for to in ("default", "0.0.0.0/0"):
        (text,) = said({"pci": PF, "routes": [{"to": to, "via": "10.1.0.1"}]})
        assert text.startswith("[0].routes[0].to 0.0.0.0/0 holds all addresses: it would divert the uplink's traffic")
        assert "give it a table of its own" in text
    (route,) = accepted(routes=[{"to": "default", "via": "10.1.0.1", "table": 101}])["routes"] or []
    assert route["to"] == "0.0.0.0/0"
    (route,) = accepted(routes=[{"to": "::/0", "table": 101}])["routes"] or []
    assert route["via"] is None


@pytest.mark.parametrize(
    ("route", "path", "what"),
    [
        ({"via": "10.1.0.1"}, ".to", "is missing"),
        ({**ROUTE, "to": "10.2.0.1/16"}, ".to", "did you mean 10.2.0.0/16, or 10.2.0.1/32 alone?"),
        ({**ROUTE, "to": "10.2.0.0/33"}, ".to", "is not a network such as 10.2.0.0/16 or fd00:2::/64"),
        ({**ROUTE, "to": "rail0"}, ".to", "is not a network"),
        ({"to": "fe80::%rail0", "via": "fe80::1"}, ".to", "is not a network"),
        ({**ROUTE, "to": 10}, ".to", "quote it"),
        ({**ROUTE, "to": "224.0.0.0/8"}, ".to", "is multicast"),
        ({**ROUTE, "to": "127.0.0.0/8"}, ".to", "loopback"),
        ({**ROUTE, "to": "0.0.0.0/1"}, ".to", "0.0.0.0/1 is wide"),
        ({"to": "default", "table": 101}, ".to", "write 0.0.0.0/0 or ::/0"),
        ({**ROUTE, "via": "fd00:1::1"}, ".via", "fd00:1::1 is not an IPv4 address, as 10.2.0.0/16 needs"),
        ({**ROUTE, "via": "10.1.0.1/24"}, ".via", "is not an address such as"),
        ({"to": "fd00:2::/64", "via": "::"}, ".via", "can't be the address of a gateway"),
        ({**ROUTE, "via": 1}, ".via", "quote it"),
        ({**ROUTE, "table": 255}, ".table", "is the kernel's own table local; next: take another number, such as 101"),
        ({**ROUTE, "table": 0}, ".table", "kernel's own table unspec"),
        ({**ROUTE, "table": 253}, ".table", "kernel's own table default"),
        ({**ROUTE, "table": 2**31}, ".table", "is not between 1 and 2147483647"),
        ({**ROUTE, "table": "101"}, ".table", "not a whole number"),
        ({**ROUTE, "metric": -1}, ".metric", "is not between 0 and 4294967295"),
        ({**ROUTE, "on-link": "yes"}, ".on-link", "not true or false"),
        ({"to": "10.2.0.0/16", "on-link": True}, ".on-link", "applies to a gateway, and none is given"),
        ({**ROUTE, "on_link": True}, ".on_link", "did you mean on-link?"),
    ],
)
def test_a_route_that_can_not_be_is_refused(route: dict[str, Any], path: str, what: str) -> None:
    (text,) = said({"pci": PF, "routes": [route]})
    assert text.startswith(f"[0].routes[0]{path} ") and what in text


@pytest.mark.parametrize(
    ("rule", "path", "what"),
    [
        ({"table": 101}, "", "has neither from nor to, so it would match all traffic"),
        ({**RULE, "from": "0.0.0.0/0"}, ".from", "holds all addresses: it would divert the uplink's traffic"),
        ({**RULE, "to": "::/0", "from": None}, ".to", "holds all addresses"),
        ({**RULE, "from": "128.0.0.0/1"}, ".from", "128.0.0.0/1 is wide"),
        ({**RULE, "to": "fd00::/64"}, ".to", "is of another family than from (10.1.0.0/24); make a rule for each"),
        ({"from": "10.1.0.0/24"}, "", "has no table to look up"),
        ({**RULE, "table": 254}, ".table", "is the kernel's own table main"),
        ({**RULE, "priority": 0}, ".priority", "is not between 1 and 32765"),
        ({**RULE, "priority": 32766}, ".priority", "is not between 1 and 32765"),
        ({**RULE, "from": "10.1.0.1/24"}, ".from", "did you mean 10.1.0.0/24, or 10.1.0.1/32 alone?"),
        ({**RULE, "prio": 5}, ".prio", "did you mean priority?"),
    ],
)
def test_a_rule_that_can_not_be_is_refused(rule: dict[str, Any], path: str, what: str) -> None:
    (text,) = said({"pci": PF, "routing-policy": [rule]})
    assert text.startswith(f"[0].routing-policy[0]{path} ") and what in text


def test_everything_is_told_at_once() -> None:
    texts = said({"pci": PF, "routes": [{"to": "x", "via": "y", "table": 0, "metric": -1}, 5]})
    assert [text.partition(" ")[0] for text in texts] == [
        "[0].routes[0].via",
        "[0].routes[0].to",
        "[0].routes[0].table",
        "[0].routes[0].metric",
        "[0].routes[1]",
    ]


def test_routes_and_rules_are_given_once() -> None:
    again = {**ROUTE, "via": "10.1.0.9"}
    one, other = {"pci": PF, "routes": [ROUTE]}, {"pci": OTHER, "routes": [again]}
    (text,) = said(one, other)
    assert text.startswith("[1].routes 10.2.0.0/16 via 10.1.0.9 is given by [0] already")
    assert len(said({"pci": PF, "routes": [ROUTE, again]})) == 1
    assert said(one, {"pci": OTHER, "routes": [{**again, "table": 101}, {**again, "metric": 5}]}) == []
    (text,) = said({"pci": PF, "routing-policy": [RULE]}, {"pci": OTHER, "routing-policy": [RULE]})
    assert text.startswith("[1].routing-policy from 10.1.0.0/24 table 101 priority 30000 is given by [0] already")


def test_rules_about_the_same_traffic_have_an_order() -> None:
    wide = {"from": "10.0.0.0/8", "table": 102}
    (text,) = said({"pci": PF, "routing-policy": [RULE]}, {"pci": OTHER, "routing-policy": [wide]})
    assert "match the same traffic, and which one applies first is undefined; give the narrower one" in text
    assert said({"pci": PF, "routing-policy": [{**RULE, "priority": 29999}, wide]}) == []
    assert said({"pci": PF, "routing-policy": [{**RULE, "to": "10.3.0.0/24"}, {**wide, "to": "10.4.0.0/24"}]}) == []
    assert said({"pci": PF, "routing-policy": [RULE, {"from": "fd00::/64", "table": 102}]}) == []


def test_an_interface_that_shall_be_down_has_no_routes() -> None:
    (text,) = said({"pci": PF, "state": "down", "routes": [ROUTE]})
    assert text.startswith("[0].routes are given for an interface with state down")
    assert said({"pci": PF, "state": "down", "routes": []}) == []
