# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables of this collection say, as the table has them.

A variable of the task counts: one of its play, of its host or an extra variable. Of those that are read once per run,
localhost's stands for it else: where a limit leaves out localhost, another host stands for the run. One that is empty
is not given. As templates of tasks these options would be compiled anew for each host of a fleet.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Callable, Mapping

from ansible import errors
from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.texts import is_blank
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import CONTROLLER

from .base import ActionFailure

# Of releases before 2.19 a text stands for it, the variable omit.
_OMITTED: tuple[type[Exception], ...] = tuple(filter(None, [getattr(errors, "AnsibleValueOmittedError", None)]))


class Given:
    """The variables of a task, their templates filled in where they are asked for."""

    def __init__(self, task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
        self._task_vars, self._template = task_vars, template

    def get(self, name: str) -> Any:
        """Return the value of a variable, None without one; raises ActionFailure where its template has no value."""
        value = self._filled(name, self._task_vars)
        row = TABLE.get(name)
        if value is None and row is not None and row.scope == CONTROLLER:
            return self._filled(name, self._of_controller)
        return value

    @cached_property
    def _of_controller(self) -> Mapping[str, Any]:
        """The variables of localhost, which Ansible merges anew at each look at them."""
        found: Mapping[str, Any] = (self._task_vars.get("hostvars") or {}).get("localhost") or {}
        return found

    def value(self, name: str) -> Any:
        """Return the value of a variable of the table, its default where nothing is given."""
        found = self.get(name)
        return TABLE[name].default if found is None else found

    def _filled(self, name: str, variables: Mapping[str, Any]) -> Any:
        if name not in variables:
            return None
        try:
            value = self._template(variables[name])
        except AnsibleError as error:
            if isinstance(error, _OMITTED):
                return None
            raise ActionFailure(f"{name} has no value: {one_line(str(error))}") from error
        return None if is_blank(value) or value == self._task_vars.get("omit") else value
