# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports what a host lacks for Spectrum-X besides firmware parameters; nothing here changes the host. Pure."""

from __future__ import annotations

from typing import Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...engine.context import Context
from ...facts.host_state import Interface
from ...facts.qos import asked
from ...facts.shapes import RoceRegisters
from ...facts.spectrum_x import is_asked
from ...spec.firmware import ACCELERATION, GAPS, LOSSLESS, TRUST

_MOST_NAMED = 4
_NEXT = "no run sets these registers, and each start of the card loses them"


def remarks(context: Context) -> list[str]:
    """Return a sentence for each difference from Spectrum-X's reference architecture, with the ports that have it."""
    if context.removing or context.has_nic_operator:
        return []
    ports = [port for port in context.interfaces if port.nic is not None and is_asked(port)]
    known = context.actual.facts.get("roce_registers", {})
    found: dict[str, list[str]] = {}
    for port in ports:
        for sentence in _of(known.get(port.key)):
            found.setdefault(sentence, []).append(context.target_of(port))
    sentences = [f"Spectrum-X: {named(targets, _MOST_NAMED)}: {sentence}" for sentence, targets in found.items()]
    return [*sentences, *_of_qos(context, ports)]


def _of(registers: RoceRegisters | None) -> list[str]:
    if registers is None:
        return []
    if registers["problem"]:
        return [f"whether adaptive routing is on can't be read ({registers['problem']}); {_NEXT}"]
    now = registers["acceleration"]
    fields = [
        f"{name} is {now[name]}, not {wanted}"
        for name, wanted in ACCELERATION.items()
        if now.get(name, wanted) != wanted
    ]
    gap = registers["gap"]
    if gap is not None and gap not in GAPS:
        fields.append(f"the gap between packets is {gap} bytes, not {GAPS[0]}, or {GAPS[1]} with an overlay")
    if not fields:
        return []
    return [f"{'; '.join(fields)}: its firmware lets the card do adaptive routing, this keeps it off or slow; {_NEXT}"]


def _of_qos(context: Context, ports: Sequence[Interface]) -> list[str]:
    lacking = []
    for port in ports:
        settings = asked(context.desired, port)
        if settings.get("trust") != TRUST or LOSSLESS not in (settings.get("pfc") or ()):
            lacking.append(context.target_of(port))
    if not lacking:
        return []
    qos = f"{{trust: {TRUST}, pfc: [{LOSSLESS}]}}"
    return [
        f"Spectrum-X: {named(lacking, _MOST_NAMED)}: its reference architecture trusts DSCP and has priority "
        f"{LOSSLESS} lossless, which nothing asks for here; next: rdma_fabric_roce_qos: {qos}, unless others set it"
    ]
