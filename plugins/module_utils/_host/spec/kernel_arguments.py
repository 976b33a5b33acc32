# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the kernel arguments that a host's variables ask for."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.arguments import (
    NETNS_MODES,
    argument_problem,
    contradictions,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.place import Place, choice_of, list_of, text_of


def kernel_arguments(place: Place, value: object) -> list[str]:
    """Return the wanted arguments in their order, each once."""
    wanted: list[str] = []
    for index, item in enumerate(list_of(place, value, "kernel arguments")):
        argument = text_of(place.at(index), item, "a kernel argument such as iommu=pt", argument_problem)
        if argument is None:
            continue
        if argument in wanted:
            place.at(index).notice(f"{argument} is listed twice", "leave one out")
        else:
            wanted.append(argument)
    for sentence in contradictions(wanted):
        place.violation(sentence, "leave one of them out")
    return wanted


def netns_mode(place: Place, value: object) -> str | None:
    """Return how network namespaces shall share RDMA devices, None when nothing is asked for."""
    return choice_of(place, value, tuple(NETNS_MODES))
