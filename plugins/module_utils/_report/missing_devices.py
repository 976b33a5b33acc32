# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and NICs that a machine lacks and many machines have that are otherwise built like it. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .hosts import counted, device_model, natural_key, rdma_functions

# Fewer than these may be another build, and more cards as well.
_LEAST_HOSTS = 3
_MOST_CARDS = 2


def missing_devices(
    facts_of: Mapping[str, dict[str, Any]], built_alike: Iterable[Sequence[str]]
) -> dict[str, list[dict[str, str]]]:
    """Return what a host lacks, by host; ``built_alike`` are groups of hosts whose devices have the same places.

    A host lacks what another group has, which is at least three times as large, where that group has everything of the
    host's besides.
    """
    groups = [(hosts, _devices(facts_of[hosts[0]])) for hosts in built_alike]
    found: dict[str, list[dict[str, str]]] = {}
    for hosts, devices in groups:
        whole = [other for other in groups if len(other[0]) >= _LEAST_HOSTS * len(hosts) and devices < other[1]]
        if not whole:
            continue
        others, theirs = max(whole, key=lambda other: len(other[0]))
        lacking = sorted(theirs - devices, key=lambda device: natural_key(device[0]))
        if len({address.rpartition(".")[0] for address, _model in lacking}) <= _MOST_CARDS:
            seen = f"there on {counted(len(others), 'machine')} built like this one"
            told = [{"address": address, "name": model, "seen": seen} for address, model in lacking]
            found.update(dict.fromkeys(hosts, told))
    return found


def _devices(facts: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((each["address"], device_model(each)) for each in [*facts["gpus"], *rdma_functions(facts)])
