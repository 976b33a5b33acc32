# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds an address first: what a comparison of all pairs finds, in steps that grow about as the ranges do."""

from __future__ import annotations

import json
import random
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.ipam import (
    Claim,
    earlier_sharing,
    shared_addresses,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nad import Attachment, check_between
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.overlaps import (
    Held,
    Neighbours,
    neighbour,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit.profiled import profiled

SIZE = 150
POLICY = resource("NicClusterPolicy", "nic-cluster-policy", {"nvIpam": {}})


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions are called, of Python and built in: what stands for comparisons."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with profiled(note):
        work()
    return count


def grows_about_linearly(work: Callable[[int], Callable[[], Any]]) -> bool:
    """Tell whether four times as many take less than 5.5 times the steps; all pairs would take sixteen times."""
    return calls_of(work(4 * SIZE)) < 5.5 * calls_of(work(SIZE))


def rails(count: int, text: str, **ipam: Any) -> list[Attachment]:
    configs: list[Any] = [
        {"type": "macvlan", "master": "rail0", "ipam": {"type": "whereabouts", "range": text.format(*divmod(i, 256))}}
        for i in range(count)
    ]
    for number, config in enumerate(configs):
        config["ipam"].update({key: value.format(number) for key, value in ipam.items()})
    return [Attachment(f"n{i}", f"n{i}", json.dumps(config), {}) for i, config in enumerate(configs)]


def some_claims(dice: random.Random) -> list[Claim]:
    claims = []
    for _each in range(dice.randint(0, 12)):
        ends = sorted(dice.sample(range(30), 2 * dice.randint(0, 3)))
        intervals = tuple(zip(ends[::2], ends[1::2]))
        claims.append(Claim("path", "text", dice.choice((4, 4, 6)), intervals, dice.choice("abc")))
    return claims


def of_all_pairs(held: list[Claim], owners: list[str]) -> list[int | None]:
    def is_told(index: int, other: int) -> bool:
        apart = held[index].pool != held[other].pool and owners[index] != owners[other]
        return apart and shared_addresses(held[index], held[other])

    return [next((j for j in range(i) if is_told(i, j)), None) for i in range(len(held))]


def test_the_first_earlier_holder_is_that_of_a_comparison_of_all_pairs() -> None:
    for seed in range(1000):
        dice = random.Random(seed)  # noqa: S311 - the same claims in every run, no secret
        held = some_claims(dice)
        owners = [str(each) for each in sorted(dice.choices(range(8), k=len(held)))]
        assert earlier_sharing(held, owners) == of_all_pairs(held, owners), f"seed {seed}"


@pytest.mark.parametrize(
    ("text", "ipam"),
    [
        ("10.{}.{}.0/24", {}),
        ("10.0.0.0/24", {}),
        ("10.0.0.0/24", {"network_name": "net-{}"}),
        ("10.{}.{}.0/8", {}),
    ],
)
def test_networks_of_one_wire_are_compared_in_about_as_many_steps_as_there_are(text: str, ipam: Any) -> None:
    def work(count: int) -> Callable[[], Any]:
        attachments = rails(count, text, **ipam)
        return lambda: check_between(attachments)

    assert grows_about_linearly(work)


@pytest.mark.parametrize("count", [2, 300])
def test_each_network_names_the_first_that_has_its_addresses(count: int) -> None:
    found = check_between(rails(count, "10.0.0.0/24", network_name="net-{}"))
    assert [where for where, _problem in found] == [f"n{i}" for i in range(1, count)]
    assert {problem.hint for _where, problem in found} == {"n0: ipam already assigns addresses of 10.0.0.0/24"}


def test_ranges_are_held_against_hosts_in_about_as_many_steps_as_there_are() -> None:
    def work(count: int) -> Callable[[], Any]:
        told = [neighbour(f"host h{i}", "10.{}.{}.1".format(*divmod(i, 256))) for i in range(count)]
        hosts = [each for each in told if each is not None]
        held = [Claim("", "", 4, ((start := (20 << 24) + 256 * i, start + 255),), "") for i in range(count)]

        def hold() -> None:
            around = Held(Neighbours(hosts=hosts))
            assert not any(around.problems_of(claim, lambda _address: False) for claim in held)

        return hold

    assert grows_about_linearly(work)


def test_pools_are_read_in_about_as_many_steps_as_there_are() -> None:
    def work(count: int) -> Callable[[], Any]:
        pools = [
            resource("IPPool", f"p{i}", {"subnet": "10.{}.{}.0/24".format(*divmod(i, 256)), "perNodeBlockSize": 8})
            for i in range(count)
        ]
        return lambda: Fabric([POLICY, *pools], []).accepted()

    assert grows_about_linearly(work)
