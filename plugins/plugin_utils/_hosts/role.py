# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role rdma.fabric.host asks of a host by its variables.

Written as templates, these options cost a fleet's controller more than to read and plan its hosts: each template is
compiled anew for each host.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    ActionFailure,
    ActionSkipped,
    validated_result,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE

from .run_hosts import CONTROLLER, hosts_of
from .values import VariableSource

# What the playbook is for counts, whatever the variables of a run ask of others.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "recording": ("rdma_fabric_recording",),
    "mode": ("host_mode", "rdma_fabric_host_mode"),
    "state": ("host_state", "rdma_fabric_host_state"),
    "strict": ("rdma_fabric_host_strict",),
    "grouped": ("host_grouped",),
    "allow_reboot": ("rdma_fabric_allow_reboot",),
    "defer_reload": ("host_defer_reload",),
    "cabling": ("host_cabling",),
    "link_timeout": ("rdma_fabric_link_timeout",),
    "timeout": ("rdma_fabric_host_timeout",),
}
"""Options with the variables that say them, of which the first that is given counts."""
SLOT, _DRAIN = "_rdma_fabric_host_slot", "_rdma_fabric_host_drain"
_RUN_DIR = TABLE["rdma_fabric_run_dir"]
_NOT_VALIDATED = (
    "{host} is not a host of the fabric that rdma.fabric.preflight validated: put it into the group rdma_fabric, or "
    "set rdma_fabric_hosts_pattern to a pattern that matches it"
)


def validated_spec(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return the specification that preflight has validated, for a task of a host of it; raises what spec_for does."""
    return spec_for(str(task_vars.get("inventory_hostname", "")), validated_result(task_vars, template))


def spec_for(host: str, validated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the specification that preflight has validated, with this host in it.

    Raises ActionFailure for a host that was not validated, and ActionSkipped for localhost unless it is of the fabric:
    a play may have it as well, so that not every host of it can fail.
    """
    spec: Mapping[str, Any] = validated["spec"]
    if host not in spec["hosts"]:
        if host == CONTROLLER:
            raise ActionSkipped(f"{host} is not a host of the fabric")
        raise ActionFailure(_NOT_VALIDATED.format(host=host))
    return spec


def fabric_of(given: Given, task_vars: Mapping[str, Any], loader: DataLoader) -> tuple[str, list[str]]:
    """Return the pattern of the hosts that belong to the fabric, and those hosts."""
    pattern = str(given.value("rdma_fabric_hosts_pattern")).strip()
    return pattern, hosts_of(pattern, task_vars, loader)


def own_turn(variables: VariableSource) -> Mapping[str, Any]:
    """Return the turn that a host has its slot for, as ``node_slot`` has registered it; empty outside of one."""
    turn: Mapping[str, Any] = (variables.get(SLOT) or {}).get("turn") or {}
    return turn


def options_of_role(host: str, variables: VariableSource, validated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a host, of which preflight has registered ``validated``; raises what spec_for does."""
    spec = spec_for(host, validated)
    run_dir = str(variables.get(_RUN_DIR.name) or _RUN_DIR.default).strip()
    options = {
        "desired": spec["hosts"][host],
        "output_file": f"{run_dir}/hosts/{host}.json",
        "check_variables": True,
        **{option: _first(variables, names) for option, names in OPTIONS.items()},
    }
    rolls_back = variables.get("host_rolls_back") is not None
    turn = own_turn(variables)
    if turn:
        options["turn_file"] = turn["file"]
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


def _first(variables: VariableSource, names: tuple[str, ...]) -> Any:
    return next((value for value in map(variables.get, names) if value is not None), None)
