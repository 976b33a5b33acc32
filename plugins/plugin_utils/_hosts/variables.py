# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of all hosts for an action that looks at the whole fleet."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, TypeVar

from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.of_facts import set_by_facts

Value = TypeVar("Value")


class ReadOnce(Mapping[str, Value]):
    """A mapping that asks another one for each key once."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self._source = source
        self._read: dict[str, Value] = {}

    def __getitem__(self, key: str) -> Value:
        if key not in self._read:
            # Ansible's mapping of hosts has a value for a host that it does not have.
            if key not in self._source:
                raise KeyError(key)
            self._read[key] = self._value(self._source[key])
        return self._read[key]

    def __contains__(self, key: object) -> bool:
        return key in self._source

    def __iter__(self) -> Iterator[str]:
        return iter(self._source)

    def __len__(self) -> int:
        return len(self._source)

    def _value(self, value: Any) -> Value:
        found: Value = value
        return found


class HostVariables(ReadOnce[Mapping[str, Any]]):
    """The variables of each host, as ``hostvars`` has them when they are first looked at.

    Ansible merges all variables of a host anew at each look at the host, and templates and copies a value at each look
    at that.
    """

    def _value(self, value: Any) -> Mapping[str, Any]:
        return OwnVariables(value)


class OwnVariables(ReadOnce[Any]):
    """The variables of one host, without those of this collection that it has set itself: ``by_facts``, sorted."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        super().__init__(source)
        self.by_facts = tuple(set_by_facts(source))

    def __getitem__(self, key: str) -> Any:
        if key in self.by_facts:
            raise KeyError(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return key not in self.by_facts and super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        return (key for key in super().__iter__() if key not in self.by_facts)

    def __len__(self) -> int:
        return super().__len__() - len(self.by_facts)


def names_by_facts(own: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the variables of this collection that a host set itself, from all as HostVariables has them."""
    return own.by_facts if isinstance(own, OwnVariables) else ()


def variables_of_hosts(task_vars: Mapping[str, Any]) -> HostVariables:
    """Return the variables of all hosts of the inventory; none where a task has no ``hostvars``."""
    return HostVariables(task_vars.get("hostvars") or {})


def labels_read(own: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the labels that were read of a host in this run, by its variables; None of one that was not read."""
    result = own.get("rdma_fabric_host_result")
    summary = result.get("summary") if isinstance(result, Mapping) else None
    labels = summary.get("labels") if isinstance(summary, Mapping) else None
    return labels if isinstance(labels, Mapping) else None
