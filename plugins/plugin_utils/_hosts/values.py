# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what the variables of one host ask for, those of the inventory as those that a role or a play adds."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Protocol, Sequence

from ansible.errors import AnsibleError, AnsibleUndefinedVariable

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.policy import conflicting_modes
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.functions import doubled, guid_spans, guid_text
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HOST_VARIABLES, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.keys import KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import VAULT_HINT
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import hint_of, value_of


class VariableSource(Protocol):
    """Variables that are asked for one by one."""

    def get(self, name: str, /) -> Any:
        """Return the value of a variable, None where there is none."""


def values_of(host: str, variables: VariableSource) -> tuple[dict[str, Any], list[Violation]]:
    """Return the variables of a host that its desired state is made from, and those whose templates have no value."""
    values: dict[str, Any] = {}
    violations: list[Violation] = []
    for name in HOST_VARIABLES:
        try:
            values[name] = plain(variables.get(name))
            # Other types are for the checks of the desired state, which tell their places.
            row = TABLE.get(name)
            if row and (isinstance(values[name], str) or (row.type == "bool" and isinstance(values[name], int))):
                values[name], problem = value_of(row, values[name])
                if problem:
                    violations.append(Violation(f"host {one_line(host)}: {name}", "", problem, hint_of(row)))
        except AnsibleError as error:
            problem = f"has no value: {one_line(str(error))}"
            violations.append(Violation(f"host {one_line(host)}: {name}", "", problem, _hint_for(error)))
    return values, violations


def _hint_for(error: AnsibleError) -> str:
    """Return the next step where the value of a variable can't be had."""
    if isinstance(error, AnsibleUndefinedVariable):
        return "define it for this host, in the inventory, group_vars or host_vars"
    # Releases differ in the class of this error, not in these words.
    return VAULT_HINT if "vault secrets" in str(error) else "fix the value"


def with_variables_of_task(
    host: str, spec: Mapping[str, Any], of_task: Mapping[str, Any], template: Callable[[Any], Any]
) -> tuple[dict[str, Any], Sequence[Notice]]:
    """Return the desired state of a host as a task sees its variables, and notices.

    It is held to what the validated ``spec`` has of the cluster and of the other hosts. Raises InvalidInput with
    everything that is wrong.
    """
    given, wrong = values_of(host, _Templated(of_task, template))
    desired, violations, notices = parse_host_variables(host, given, KEYS)
    all_hosts = spec.get("hosts") or {}
    # Of two hosts with the same GUIDs the later one is told of it.
    others = {name: other for name, other in all_hosts.items() if name != host}
    violations = [*wrong, *violations, *shared_guids({**others, host: desired}).get(host, [])]
    policy = spec.get("cluster_policy") or {}
    violations += conflicting_modes(policy.get("spec"), {host: desired})
    if violations:
        raise InvalidInput(violations)
    return {**desired, "requests": (all_hosts.get(host) or {}).get("requests") or []}, notices


def refuse_sealed(host: str, names: Sequence[str]) -> None:
    """Raise InvalidInput for variables that a task adds to an approved plan."""
    problem = "is set in the variables of a role or play, and the plan that was approved is of the inventory's"
    hint = "set it in the inventory, group_vars or host_vars, or with -e, and have the plan approved again"
    raise InvalidInput([Violation(f"host {one_line(host)}: {name}", "", problem, hint) for name in names])


class _Templated:
    """The variables of a task with their templates filled in when they are asked for, as hostvars has them."""

    def __init__(self, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
        self._variables, self._template = variables, template

    def get(self, name: str) -> Any:
        """Return the value of a variable, None where there is none."""
        return self._template(self._variables[name]) if name in self._variables else None


_HINT = "a fabric needs each GUID once: give every host its own range in host_vars, or deterministic"


def shared_guids(desired: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Violation]]:
    """Return violations for GUIDs that several hosts have, each at the later host; ``desired`` is by inventory name.

    GUIDs that a single host has twice are reported with that host's own variables.
    """
    owned = [
        (span, (host, index))
        for host, spec in desired.items()
        for index, entry in enumerate(spec.get("interfaces") or ())
        for span in guid_spans(entry.get("vf_guids"))
    ]
    found: dict[str, list[Violation]] = {}
    for (first, _first_index), (later, index), guid in doubled(owned):
        if first == later:
            continue
        source = f"host {one_line(later)}: rdma_fabric_interfaces"
        problem = f"gives {guid_text(guid)}, which host {one_line(first)} gives to VFs of its own"
        found.setdefault(later, []).append(Violation(source, f"[{index}].vf_guids", problem, _HINT))
    return found
