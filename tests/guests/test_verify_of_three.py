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
    DEVICES,
    LAST,
    NETWORKS,
    RESOURCES,
    Verifier,
    evict_the_pod,
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
