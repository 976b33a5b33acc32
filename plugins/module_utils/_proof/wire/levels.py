# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How thoroughly a fabric is tested: levels of acceptance, what a plan takes, and the plan that fits a time. Pure."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named

from ..schedule import pair_count
from .campaign import Settings
from .plan import Plan, ProofOptions, Surroundings, lead, make_plan, slots_of

LEVELS: Mapping[str, Mapping[str, Any]] = {
    "quick": {"pairs": "hunt", "test_timeout": 10, "iterations": 1000},
    "full": {"pairs": "hunt", "test_timeout": 30},
    "strict": {"pairs": "all", "test_timeout": 30},
}
"""What each level sets of what is not given. NCCL tests follow those of a strict one (playbook ``verify``)."""
USUAL: Mapping[str, Any] = {"pairs": "all", "test_timeout": 30}
"""What counts where neither a level nor a person says."""
BY_THOROUGHNESS = ("ring", "hunt", "leaf", "all")
_SOURCE = "verify"
_GPU, _WITH_GPUS = "nvidia.com/gpu", ("full", "strict")
# Seconds until pods whose image is there are ready, and that the requests of one take.
_START = 20
_OF_A_POD = 0.1


class Estimate(NamedTuple):
    """What a plan takes at most: pods, rounds of the longest wave of networks, pairs, bytes sent, seconds.

    Of a hunt it is what it takes where much is broken.
    """

    pods: int
    rounds: int
    pairs: int
    sent: int
    seconds: int

    def words(self) -> str:
        """Return it for a person."""
        counts = ((self.pods, "pod"), (self.pairs, "pair"), (self.rounds, "round"), (-(-self.seconds // 60), "minute"))
        pods, pairs, rounds, minutes = (f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
        return f"{pods}, {pairs} in up to {rounds}, {self.sent / 10**9:,.0f} GB sent, {minutes} at most"


def with_level(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with what their level sets of those that are not given, and the usual for the others."""
    preset = {**USUAL, **LEVELS.get(arguments["level"] or "", {})}
    return {**arguments, **{name: value for name, value in preset.items() if arguments[name] is None}}


def estimate(plan: Mapping[str, Any], settings: Settings, parallel: int) -> Estimate:
    """Return what a plan takes."""
    waves: dict[int, list[Mapping[str, Any]]] = {}
    for network in plan["networks"]:
        waves.setdefault(network["wave"], []).append(network)
    rounds, seconds = [], 0.0
    for wave in waves.values():
        pods = sum(len(network["nodes"]) for network in wave)
        more = max(network["more_rounds"] for network in wave)
        rounds.append(max(map(slots_of, wave)))
        # Those that a hunt goes on with are few.
        telling = lead(pods, settings.limit) + more * lead(0, settings.limit)
        seconds += _START + pods * _OF_A_POD / parallel + telling + rounds[-1] * settings.limit
    pairs = sum(_pairs(plan["schedule"], network) for network in plan["networks"])
    load = settings.load(software=False)
    sent = pairs * 2 * load.size * load.iterations * load.queue_pairs * (2 if settings.gpu else 1)
    pods = sum(len(network["nodes"]) for network in plan["networks"])
    return Estimate(pods, max(rounds, default=0), pairs, sent, round(seconds))


def fitting_plan(
    options: ProofOptions,
    around: Surroundings,
    schedules: Sequence[str],
    most: int | None,
    takes: Callable[[Plan], Estimate],
) -> Plan:
    """Return the plan with the last of these schedules that takes at most so many minutes, if there is a limit.

    Raises InvalidInput with what forbids a plan, or with what the least of them would take.
    """
    if most is None:
        return make_plan(options, around)
    told = ""
    for schedule in reversed(schedules):
        try:
            plan = make_plan(options._replace(schedule=schedule), around)
        except InvalidInput as refused:
            # Too many pairs for one run: a schedule with fewer may do.
            if schedule == schedules[0] or any(each.path != "pairs" for each in refused.violations):
                raise
            continue
        if schedule == "leaf" and len(schedules) > 1 and not any(each["leaves"] for each in plan["networks"]):
            continue
        found = takes(plan)
        if found.seconds <= 60 * most:
            return plan
        told = f"{schedule}: {found.words()}"
    hint = "allow more, test fewer networks (rdma_fabric_verify_networks), or shorten rdma_fabric_verify_test_timeout"
    problem = f"nothing that is asked for fits {most} minutes; {told}"
    raise InvalidInput([Violation(_SOURCE, "minutes", problem, hint)])


def gpus_left_out(level: str | None, gpu: str | None, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return that a level that is to test GPU memory has no pods with a GPU, where nodes offer some."""
    offering = [node["name"] for node in nodes if node["allocatable"].get(_GPU)]
    if level not in _WITH_GPUS or gpu or not offering:
        return []
    step = "set rdma_fabric_verify_gpu_resource, and an image whose perftest was built with CUDA"
    return [f"GPU memory is not tested, which {level} has where nodes offer {_GPU} ({named(offering)}): {step}"]


def schedules_of(pairs: str | None, level: str | None) -> Sequence[str]:
    """Return the schedules that a limit of time may choose from: the one that is given, or up to that of the level."""
    if pairs:
        return (pairs,)
    most = LEVELS.get(level or "", USUAL)["pairs"]
    return BY_THOROUGHNESS[: BY_THOROUGHNESS.index(most) + 1]


def _pairs(schedule: str, network: Mapping[str, Any]) -> int:
    planned = sum(len(turn) for turn in network["rounds"])
    return max(planned, pair_count(schedule, len(network["nodes"]), 0)) if network["more_rounds"] else planned
