# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sealed plan is made from and compared with: the variables of a run and of its hosts, and the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import digest_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import parse_document
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import CONTROLLER
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

from .plan import OF_HOSTS, SETTINGS, HostInput, Loaded, Run, digests_of, host_input_of, policies_of, read

# A thousand hosts of which no two are equal take about 10 MB.
MAX_PLAN_BYTES = 256 * 1024 * 1024

Convert = Callable[[Any], Any]


def load(path: Path) -> Loaded:
    """Return the sealed plan of a file; raises InvalidInput with what is wrong with it."""
    try:
        document = parse_document(path, MAX_PLAN_BYTES)
    except ValueError as error:
        hint = "give the file that site --check has written with rdma_fabric_plan_file"
        raise InvalidInput([Violation(f"sealed plan {path}", "", str(error), hint)]) from error
    return read(f"sealed plan {path}", document)


def run_of(spec: Mapping[str, Any], task_vars: Mapping[str, Any], convert: Convert) -> Run:
    """Return what of a run is the same for all of its hosts; localhost's variables count, as for the run.

    ``spec`` is a FabricSpec.
    """
    hostvars = variables_of_hosts(task_vars)
    runner = hostvars.get(task_vars.get("inventory_hostname", ""), {})
    controller = hostvars.get(CONTROLLER, runner)
    settings = {}
    for name, default in SETTINGS.items():
        value = _value(controller, f"{PREFIX}{name}", convert)
        settings[name] = default if value is None else value if isinstance(default, bool) else str(value)
    objects = {**digests_of(render(dict(spec))), **_chart_of(spec)}
    return Run(settings, objects, policies_of(spec.get("rollouts") or ()))


def _chart_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of the chart and its values by its release; where its file lies does not matter."""
    chart = spec.get("chart")
    if not chart:
        return {}
    kept = {**chart, "reference": chart["reference"].rpartition("/")[2]}
    return {f"Helm release {chart['namespace']}/{chart['release']}": digest_of(kept)}


def host_inputs_of(
    hosts: Iterable[str], desired: Mapping[str, Mapping[str, Any]], task_vars: Mapping[str, Any], convert: Convert
) -> dict[str, HostInput]:
    """Return the input of each host: its desired state, and the variables of runs that it has."""
    hostvars = variables_of_hosts(task_vars)
    # Of a host that it does not know, hostvars has a value that fails whatever it is asked for.
    wanted = list(hosts)
    known = {host: hostvars[host] for host in wanted if host in hostvars}
    return {host: host_input_of(desired[host], _of_runs(known.get(host, {}), convert)) for host in wanted}


def _of_runs(variables: Mapping[str, Any], convert: Convert) -> dict[str, Any]:
    values = {name: _value(variables, f"{PREFIX}{name}", convert) for name in OF_HOSTS}
    return {name: value for name, value in values.items() if value is not None}


def _value(variables: Mapping[str, Any], name: str, convert: Convert) -> Any:
    """Return a value as the table of variables reads it, None where none is given; preflight tells what is wrong."""
    try:
        return value_of(TABLE[name], convert(variables[name]))[0] if name in variables else None
    except AnsibleError:
        return None
