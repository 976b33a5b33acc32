# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds variables of this collection that a host has set itself, by facts.

Ansible lets facts go before what the inventory says of a host (INJECT_FACTS_AS_VARS). So a host whose facts are
gathered could name another one's node to be drained, or give a kubeconfig that runs a program on the controller.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible import constants

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line

from .variable import PREFIX

# Beside those of users, what roles and playbooks register and keep.
_OURS = (PREFIX, f"_{PREFIX}")
_HINT = (
    "facts come from the host itself and would go before the inventory: set it in the inventory, or with set_fact "
    "without cacheable, and forget the facts (meta: clear_facts)"
)


def set_by_facts(variables: Mapping[str, Any]) -> list[str]:
    """Return the variables of this collection that have the value of a fact of their host, sorted.

    ``variables`` are all of the host's. Blank ones are left out: they ask for nothing.
    """
    if not constants.INJECT_FACTS_AS_VARS:
        return []
    # What hostvars assigns would be all facts, copied.
    known: Mapping[str, Any] = getattr(variables, "_vars", variables)
    facts = known.get("ansible_facts")
    given: Mapping[Any, Any] = facts if isinstance(facts, Mapping) else {}
    ours = (name for name in given if str(name).startswith(_OURS) and given[name])
    # set_fact, a play and a task go before facts.
    return sorted(str(name) for name in ours if known.get(name) == given[name])


def violations_of_facts(host: str, names: Iterable[str]) -> list[Violation]:
    """Return one violation for each of these variables, which facts of the host set."""
    problem = "is set by facts of the host"
    return [Violation(f"host {one_line(host)}: {one_line(name)}", "", problem, _HINT) for name in names]
