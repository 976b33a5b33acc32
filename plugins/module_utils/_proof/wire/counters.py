# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of an RDMA port before and after a test: which rose, by how much, and what that means. Pure.

Names are those of ``Documentation/ABI/stable/sysfs-class-infiniband`` of the kernel, of
``drivers/infiniband/hw/mlx5/counters.c`` and of ``drivers/infiniband/sw/rxe/rxe_hw_counters.c``; how far they count is
in ``_port_counters.py``.
"""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._port_counters import (
    BEYOND_ROCE,
    SET_BACK,
    plain_name,
    rise_of,
    saturated_of,
)

from ..problem import Problem, problem_of
from .scripts import UsedPort

Values = Dict[str, int]
Rises = Dict[str, int]


class Reading(NamedTuple):
    """The counters of one port by ``FOLDER/NAME``, before and after a test; ``port`` is the one they are of."""

    before: Values
    after: Values
    port: UsedPort | None = None


class Loss(NamedTuple):
    """What a counter says of packets that were lost or damaged on the way, and what to do."""

    words: str
    next_step: str


_CABLE = "clean or replace cable and transceiver of this port"
_WAY = "look at drops on the switch ports between the two, and at PFC, ECN and MTU on every one of them"

LOSSES: Mapping[str, Loss] = {
    "port_rcv_errors": Loss("packets came in damaged", _CABLE),
    "local_link_integrity_errors": Loss("the link had more errors than it may", _CABLE),
    "link_error_recovery": Loss("the link was retrained", _CABLE),
    "link_downed": Loss("the link went down", _CABLE),
    "rx_icrc_encapsulated": Loss("RoCE packets came in damaged", _CABLE),
    "port_rcv_remote_physical_errors": Loss(
        "packets were damaged on another link of the way", "look for the port of a switch that has errors of its own"
    ),
    "excessive_buffer_overrun_errors": Loss("the port's receive buffer overran", _WAY),
    "port_xmit_discards": Loss("the port dropped packets it should have sent", _WAY),
    "packet_seq_err": Loss("the receiver missed packets and requested them again", _WAY),
    "implied_nak_seq_err": Loss("acknowledgements were lost", _WAY),
    "local_ack_timeout_err": Loss("no acknowledgement came in time", _WAY),
    "req_transport_retries_exceeded": Loss("packets stayed unanswered after all retries", _WAY),
    "out_of_seq_request": Loss("packets were missing", _WAY),
    "rcvd_seq_err": Loss("the receiver missed packets and requested them again", _WAY),
    "retry_exceeded_err": Loss("packets stayed unanswered after all retries", _WAY),
}
SIGNS: Mapping[str, str] = {
    "symbol_error": "bits were damaged and corrected",
    "out_of_sequence": "packets were missing or overtook others, as adaptive routing lets them",
    "duplicate_request": "packets came twice, as the sender repeated them",
    "completer_retry_err": "packets were sent again",
    "roce_adp_retrans": "packets were sent again",
    "roce_adp_retrans_to": "packets were sent again after a timeout",
    "roce_slow_restart": "the sender started again, slowly",
    "out_of_buffer": "packets found no receive buffer",
    "rnr_nak_retry_err": "the receiver was not ready",
    "rcvd_rnr_err": "the receiver was not ready",
    "send_rnr_err": "this side was not ready to receive",
    "rp_cnp_ignored": "this side was asked to slow down and did not: ECN is off for the priority",
}
"""Counters that may rise on a healthy way, and what they say."""
LOADS = ("port_xmit_wait", "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled")
"""Counters of waiting and of congestion that was handled: kept among the figures, not told."""

LOSS, SIGN, LOAD = "loss", "sign", "load"
MEANINGS: Mapping[str, tuple[str, str]] = {
    **{name: (LOSS, loss.words) for name, loss in LOSSES.items()},
    **{name: (SIGN, words) for name, words in SIGNS.items()},
    **dict.fromkeys(LOADS, (LOAD, "waiting, or congestion that was handled")),
}
"""The counters that are told, with their kind and what they say, the worst first."""
_KNOWN = tuple(MEANINGS)
# What soft RoCE counts beside its errors.
_EMULATED = ("hw_counters/sent_pkts", "hw_counters/rcvd_pkts")
_EMULATED_SHARE = 500
TOLD = (*_KNOWN, *(name.partition("/")[2] for name in _EMULATED))
"""The counters that a pod tells, by their places here."""


def rises(reading: Reading) -> Rises:
    """Return by how much each known counter rose, by name; one that was set back in between is left out.

    Drivers may have one of the same name in both folders.
    """
    found: Rises = {}
    for key, before in reading.before.items():
        name, after = plain_name(key), reading.after.get(key)
        by = 0 if after is None or name not in _KNOWN else rise_of(key, before, after)
        if by:
            found[name] = max(by, found.get(name, 0))
    return {name: found[name] for name in _KNOWN if name in found}


def saturated(reading: Reading) -> list[str]:
    """Return the names of counters that stand at their largest value, so that they cannot tell what this test did."""
    return saturated_of((key, value) for key, value in reading.before.items() if plain_name(key) in _KNOWN)


def losses(reading: Reading) -> Rises:
    """Return the rises that tell of packets lost or damaged on the way.

    A busy machine drops a few packets of an emulated device, wherever the wire leads: there they count from one in
    five hundred on.
    """
    risen = rises(reading)
    found = {name: risen[name] for name in LOSSES if name in risen}
    if all(name in reading.before for name in _EMULATED):
        packets = max(reading.after.get(name, 0) - reading.before[name] for name in _EMULATED)
        if max(found.values(), default=0) * _EMULATED_SHARE < packets:
            return {}
    return found


def loss_problem(lost: Mapping[str, Rises]) -> Problem | None:
    """Return what the losses of both sides, by node, mean and what to do; None where there are none."""
    found = [(node, name, by) for node, names in lost.items() for name, by in names.items()]
    if not found:
        return None
    node, name, _by = found[0]
    told = ", ".join(f"{name} of {node} rose by {by}" for node, name, by in found)
    cause = f"{name} of {node}: {LOSSES[name].words}; the counters are the port's, so other traffic counts, too"
    return problem_of(f"packets were lost or damaged: {told}", cause, LOSSES[name].next_step)


def sign_lines(unjudged: Mapping[str, Rises], readings: Mapping[str, Reading]) -> list[str]:
    """Return what else a person should know, by node: rises that fail nothing, and counters that can't rise."""
    lines = [
        f"{name} of {node} rose by {by}: {MEANINGS[name][1]}"
        for node, names in unjudged.items()
        for name, by in names.items()
        if MEANINGS[name][0] != LOAD
    ]
    return lines + [
        f"{' and '.join(names)} of {node} can't rise further: {_way_out(reading.port)}"
        for node, reading in readings.items()
        for names in [saturated(reading)]
        if names
    ]


def _way_out(port: UsedPort | None) -> str:
    """Return what to do about saturated counters of a port."""
    infiniband = port is not None and port.gid_index is None
    return f"{SET_BACK} on the node resets them" if infiniband else BEYOND_ROCE
