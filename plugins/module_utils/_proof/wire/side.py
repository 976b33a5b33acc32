# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One end of a pair: what the cluster says of a test pod, and what is found in it before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Callable, NamedTuple

from ..output_text import quoted
from ..problem import Problem, problem_of
from . import outputs
from .endpoint import Attached, Choice, Observed, attached_network, choose, interface_problem, placement_of, read_probe
from .gpu import Ways, memory_options, ways_in_pod
from .placement import Placement
from .shell import Shell, ShellTrouble, trouble_problem

_PROBE_LIMIT = 60
_ANYWHERE = Placement()
GPU_TEST = "gpu_bandwidth"
"""The test with GPU memory at both ends, which takes pods with a GPU."""


class Known(NamedTuple):
    """What the facts of a host say of a device: rate of its link in Gb/s, PCIe link of its NIC, GPUs beside that."""

    link_gbps: float | None = None
    pcie: dict[str, Any] | None = None
    gpus: Ways = MappingProxyType({})


_UNKNOWN = Known()
Limits = Callable[[Choice], Known]


@dataclass(frozen=True)
class PodState:
    """What the cluster says about one test pod: what Multus wrote into its annotation, and why it is not Ready."""

    name: str
    network_status: str = ""
    problem: Problem | None = None


@dataclass(frozen=True)
class Side:
    """One end of a pair: its node and pod, what was found in the pod, and what is wrong before anything is sent.

    ``problems`` is keyed by the test that found it (pods, interface, device, GPU_TEST). ``known`` is what the facts of
    the host say of the chosen device. ``placement`` says on which CPUs programs measure, ``memory`` has the options of
    perftest for GPU memory.
    """

    node: str
    pod: str
    attached: Attached | None = None
    seen: Observed | None = None
    choice: Choice | None = None
    problems: dict[str, Problem] = field(default_factory=dict)
    known: Known = _UNKNOWN
    placement: Placement = _ANYWHERE
    memory: tuple[str, ...] = ()


def examine(
    shell: Shell, node: str, state: PodState, *, network: str, mtu: int | None, limits: Limits, gpu: bool = False
) -> Side:
    """Look at what one pod printed of itself; ``limits(choice)`` tells what the facts of the host know of a device.

    ``network`` is ``namespace/name`` of the attachment. With ``gpu`` the pod has a GPU, whose memory is to be tested.
    """
    if state.problem is not None:
        return Side(node, state.name, problems={"pods": state.problem})
    attached = attached_network(state.network_status, network)
    if not isinstance(attached, Attached):
        return Side(node, state.name, problems={"interface": attached})
    try:
        text = shell.log(state.name, "end", _PROBE_LIMIT)
    except ShellTrouble as trouble:
        return Side(node, state.name, attached, problems={"pods": trouble_problem(trouble)})
    seen = read_probe(text)
    if not seen.complete:
        return Side(node, state.name, attached, problems={"pods": unreadable(text)})
    problems: dict[str, Problem] = {}
    found = interface_problem(seen, attached, mtu)
    if found:
        problems["interface"] = found
    choice, found = choose(seen, attached)
    if found:
        problems["device"] = found
    known = limits(choice) if choice else _UNKNOWN
    known = known._replace(gpus=ways_in_pod(known.gpus, seen.gpus))
    placement = placement_of(seen, choice) if choice else _ANYWHERE
    memory, found = memory_options(seen.cuda, seen.peer) if gpu else ((), None)
    if found:
        problems[GPU_TEST] = found
    return Side(node, state.name, attached, seen, choice, problems, known, placement, memory)


def ends_of(source: Side, target: Side) -> outputs.Ends:
    """Return what is known about the path between two sides: the slower rate, the narrower PCIe link, emulation."""
    rates = [
        rate
        for side in (source, target)
        for rate in (side.choice.rate_gbps if side.choice else None, side.known.link_gbps)
        if rate
    ]
    software = any(side.choice is not None and side.choice.software for side in (source, target))
    return outputs.Ends(
        min(rates) if rates else None, outputs.slower_pcie([source.known.pcie, target.known.pcie]), software
    )


def unreadable(text: str) -> Problem:
    """Return what a pod whose shell prints this makes of a test."""
    told = f"what is in the pod cannot be read: {quoted(text) or 'nothing was printed'}"
    cause = "the image's shell is not a POSIX shell, or it was ended"
    return problem_of(told, cause, "use an image with sh (rdma_fabric_verify_image)")
