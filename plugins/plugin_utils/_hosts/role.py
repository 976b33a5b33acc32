# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role rdma.fabric.host asks of a host by its variables.

Written as templates, these options cost a fleet's controller more than to read and plan its hosts: each template is
compiled anew for each host.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ansible import errors
from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, ActionSkipped
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import validated_of

from .run_hosts import CONTROLLER
from .values import Asked

# What the playbook is for counts, whatever the variables of a run ask of others.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "recording": ("rdma_fabric_recording",),
    "mode": ("host_mode", "rdma_fabric_host_mode"),
    "state": ("host_state", "rdma_fabric_host_state"),
    "strict": ("rdma_fabric_host_strict",),
    "grouped": ("host_grouped",),
    "allow_reboot": ("rdma_fabric_allow_reboot",),
    "defer_reload": ("host_defer_reload",),
    "link_timeout": ("rdma_fabric_link_timeout",),
    "timeout": ("rdma_fabric_host_timeout",),
}
"""Options with the variables that say them, of which the first that is given counts."""
_TURN, _DRAIN = "_rdma_fabric_host_turn", "_rdma_fabric_host_drain"
_RUN_DIR = TABLE["rdma_fabric_run_dir"]
_NO_PREFLIGHT = (
    "nothing was validated: run rdma.fabric.preflight before this task, in a play for localhost or once for the hosts "
    "of this play (run_once: true), as the playbooks of this collection do"
)
_NOT_VALIDATED = (
    "{host} is not a host of the fabric that rdma.fabric.preflight validated: put it into the group rdma_fabric, or "
    "set rdma_fabric_hosts_pattern to a pattern that matches it"
)
# Of releases before 2.19 a text stands for it, the variable omit.
_OMITTED: tuple[type[Exception], ...] = tuple(filter(None, [getattr(errors, "AnsibleValueOmittedError", None)]))


class TaskVariables:
    """The variables of a task, their templates filled in where they are asked for."""

    def __init__(self, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
        self._variables, self._template = variables, template

    def get(self, name: str) -> Any:
        """Return the value of a variable, None without one; raises ActionFailure where its template has no value."""
        if name not in self._variables:
            return None
        try:
            value = self._template(self._variables[name])
        except AnsibleError as error:
            if isinstance(error, _OMITTED):
                return None
            raise ActionFailure(f"{name} has no value: {one_line(str(error))}") from error
        return None if value == self._variables.get("omit") else value


def validated_result(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return what preflight has registered, for an action that is run for each host of a fleet.

    Before ansible-core 2.19 a template that hands it on writes out all hosts and reads them again, for each host.
    """
    found: Any = validated_of(task_vars)
    # A play hands it on.
    result: Mapping[str, Any] = template(found) if isinstance(found, str) else found
    return result


def validated_spec(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return the specification that preflight has validated, for a task of a host of it; raises what spec_for does."""
    return spec_for(str(task_vars.get("inventory_hostname", "")), validated_result(task_vars, template))


def spec_for(host: str, validated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the specification that preflight has validated, with this host in it.

    Raises ActionFailure for a host that was not validated, and ActionSkipped for localhost unless it is of the fabric:
    a play may have it as well, so that not every host of it can fail.
    """
    spec: Mapping[str, Any] | None = validated.get("spec")
    if spec is None:
        raise ActionFailure(_NO_PREFLIGHT)
    if host not in spec["hosts"]:
        if host == CONTROLLER:
            raise ActionSkipped(f"{host} is not a host of the fabric")
        raise ActionFailure(_NOT_VALIDATED.format(host=host))
    return spec


def options_of_role(
    host: str, variables: Asked, validated: Mapping[str, Any], of_controller: Callable[[], Asked]
) -> dict[str, Any]:
    """Return the options for a host: ``validated`` is what preflight has registered, ``of_controller`` is localhost's.

    Raises what :func:`spec_for` does.
    """
    spec = spec_for(host, validated)
    run_dir = _text(variables.get(_RUN_DIR.name)) or _text(of_controller().get(_RUN_DIR.name)) or _RUN_DIR.default
    options = {
        "desired": spec["hosts"][host],
        "output_file": f"{run_dir}/hosts/{host}.json",
        "check_variables": True,
        **{option: _first(variables, names) for option, names in OPTIONS.items()},
    }
    rolls_back = variables.get("host_rolls_back") is not None
    turn = variables.get(_TURN)
    if turn is not None:
        options["turn_file"] = f"{turn['files']}/{host}.json"
        # What is torn down, or goes back after a failure, has no links to keep.
        if not rolls_back and variables.get("host_state") in (None, "previous"):
            options["links"] = turn["links"]
    # What failed goes back to what was there before the plan that was approved.
    if "sealed" in validated and not rolls_back:
        options["sealed"] = _approved(host, validated["sealed"], drained=variables.get(_DRAIN) is not None)
    return {option: value for option, value in options.items() if value is not None}


def _approved(host: str, sealed: Mapping[str, Any], *, drained: bool) -> dict[str, Any]:
    """Return what was approved of a host; in its turn to reload or reboot, what is left of that."""
    own = sealed["hosts"][host]
    return {**sealed["plans"][own["plan"]], "machine": own["machine"], "rest": drained}


def _first(variables: Asked, names: tuple[str, ...]) -> Any:
    return next((value for value in map(variables.get, names) if value is not None), None)


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
