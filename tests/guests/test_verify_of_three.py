# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``verify`` on three guests with two rails names what is wrong with one of them, whose fault it is, and leaves no pod.

Wires, frames, cards, lldpd, kubelet and the eviction are real; ``two_rails`` says what stands in for switches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.guests.pods import Json
from ansible_collections.rdma.fabric.tests.guests.site_runs import await_offer, run_site
from ansible_collections.rdma.fabric.tests.guests.two_rails import (
    CARDS,
    DEVICES,
    HUB,
    LAST,
    LEAVES,
    MOVED,
    NETWORKS,
    RESOURCES,
    Verifier,
    crossed_cables,
    done_to,
    evict_the_pod,
    other_kind_of_gids,
    pulled_wire,
    small_frames_only,
    stop_the_pod,
    tell_cabling,
    variables,
)
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab

GOOD = ("pass", "reported")


@pytest.fixture(scope="module")
def deployed(three_on_two_rails: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab that ``site`` has brought two networks to, and whose guests know what they are cabled to."""
    lab, folder = three_on_two_rails, tmp_path_factory.mktemp("two-rails")
    tell_cabling(lab, folder)
    run_site(lab, User(folder / "user"), **variables())
    for resource in RESOURCES:
        await_offer(lab, resource, DEVICES)
    return lab


@pytest.fixture
def verifier(deployed: Lab, tmp_path: Path) -> Iterator[Verifier]:
    """Somebody new; whatever their runs did, no test pod may be left."""
    found = Verifier(deployed, User(tmp_path / "user"))
    yield found
    assert found.pods() == []


def those_of(document: Json, network: str, guest: str) -> list[Json]:
    """Give the tests of the pairs of the guest that is at fault on a network.

    All its pairs fail and nobody else's, so that it is named as the one at fault, for sure.
    """
    rows = [row for row in document["pairs"] if row["network"] == network]
    assert len(rows) == 3
    told = [(row["a"], row["b"], row["verdict"]) for row in rows]
    assert [guest in (row["a"], row["b"]) for row in rows] == [row["verdict"] == "fail" for row in rows], told
    assert {row["verdict"] for row in rows} <= {"fail", *GOOD}, told
    (own,) = (each for each in document["networks"] if each["network"] == network)
    assert [(each["nodes"], each["sure"]) for each in own["accused"]] == [([guest], True)], own["accused"]
    return [test for row in rows if guest in (row["a"], row["b"]) for test in row["tests"]]


def failed(tests: list[Json], *names: str) -> str:
    """Give what is said of tests that failed, which are of these names."""
    found = [test for test in tests if test["verdict"] == "fail"]
    assert {test["test"] for test in found} == set(names), [(test["test"], test["summary"]) for test in found]
    return "\n".join(f"{test['summary']}: {test['problem']['cause']}" for test in found)


def of_ports(document: Json) -> list[tuple[str, list[str]]]:
    """Give the kinds of differences that fail before any traffic, and the ports that differ."""
    return [(each["kind"], sorted(each["ports"])) for each in document["parity"] if each["verdict"] == "fail"]


def test_a_pod_that_is_evicted_in_the_middle_is_named(verifier: Verifier) -> None:
    outcome, document = verifier.run_while(evict_the_pod, LAST, NETWORKS[0])
    outcome.refused()
    assert "the test pod was deleted while it was needed" in failed(those_of(document, NETWORKS[0], LAST), "pods")


def test_a_partner_that_stops_in_the_middle_holds_up_nobody_else(verifier: Verifier) -> None:
    outcome, document = verifier.run_while(stop_the_pod, LAST, NETWORKS[0])
    outcome.refused()
    tests = those_of(document, NETWORKS[0], LAST)
    assert f"{LAST} told nothing of this test" in "".join(test["summary"] for test in tests)


def test_another_type_of_gids_is_named(verifier: Verifier) -> None:
    with done_to(verifier.lab, MOVED, *other_kind_of_gids()):
        outcome, document = verifier.run(NETWORKS[0])
    outcome.refused()
    told = failed(those_of(document, NETWORKS[0], MOVED), "device")
    assert f"{MOVED}: no RoCE v2 GID is " in told
    assert "entries of IB/RoCE v1 only" in told


def test_crossed_cables_are_named_by_what_the_leaves_tell(verifier: Verifier) -> None:
    with crossed_cables(verifier.lab):
        outcome, document = verifier.run(*NETWORKS)
    assert "cables are crossed: " in outcome.refused().message
    assert of_ports(document) == [("switch", [f"{MOVED}/{card}" for card in CARDS])]
    for network in NETWORKS:
        assert "no answer" in failed(those_of(document, network, MOVED), "ping")


def test_a_controller_that_was_killed_is_started_again(verifier: Verifier) -> None:
    """What is right is told as such, on both rails."""
    verifier.run_until_killed(LAST, *NETWORKS)
    left = verifier.pods()
    assert len(left) == 3 * len(NETWORKS)
    outcome, document = verifier.run(*NETWORKS)
    outcome.succeeded()
    _before, removed, after = " ".join(outcome.output.split()).partition("removed test pods that an earlier run left")
    assert removed
    assert [pod for pod in left if pod.partition("/")[2] not in after] == []
    assert of_ports(document) == []
    assert [row["verdict"] for row in document["pairs"]] == ["reported"] * 3 * len(NETWORKS)
    assert [network["accused"] for network in document["networks"]] == [[], []]


def test_a_pulled_wire_is_named_before_and_by_what_is_tested(verifier: Verifier) -> None:
    with pulled_wire(verifier.lab, 0):
        outcome, document = verifier.run(NETWORKS[0])
    outcome.refused()
    assert of_ports(document) == [("link", [f"{MOVED}/{CARDS[0]}"])]
    assert "net1 is down" in failed(those_of(document, NETWORKS[0], MOVED), "interface")


def test_a_hop_with_too_small_an_mtu_is_named_on_its_rail_with_what_the_port_is_cabled_to(verifier: Verifier) -> None:
    with done_to(verifier.lab, LAST, *small_frames_only(CARDS[1])):
        outcome, document = verifier.run(NETWORKS[1])
    outcome.refused()
    tests = those_of(document, NETWORKS[1], LAST)
    assert "while small ones pass: a switch or another hop" in failed(tests, "ping", "bandwidth")
    assert {test["verdict"] for test in tests if test["test"] == "rping"} == {"pass"}
    (own,) = document["networks"]
    assert f"of {LAST} ({CARDS[1]}, {LEAVES[1]} swp1) fails" in own["accused"][0]["says"]
    assert own["leaves"] == dict.fromkeys(sorted(verifier.lab.guests), LEAVES[1])


def test_lost_packets_are_named_by_the_counters_of_the_ports(verifier: Verifier) -> None:
    wire = f"dev {CARDS[0]} root"
    with done_to(verifier.lab, MOVED, f"tc qdisc replace {wire} netem loss 5%", f"tc qdisc del {wire}"):
        outcome, document = verifier.run(NETWORKS[0])
    outcome.refused()
    tests = those_of(document, NETWORKS[0], MOVED)
    sent = [test for test in tests if (test["test"], test["from"]) == ("bandwidth", MOVED)]
    assert {test["to"] for test in sent} == {HUB, LAST}
    for test in sent:
        assert test["figures"]["measured_gbps"] > 0
        assert test["figures"]["counters"][test["to"]]["out_of_seq_request"] > 0
