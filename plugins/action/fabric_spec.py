# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Mapping

from ansible.errors import AnsibleError, AnsibleUndefinedVariable

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.findings import Document, Findings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.helm import values_of_settings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.load import HostReading, build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HOST_VARIABLES, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.guids.fleet import shared_guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.syntax import one_line
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects import set_name_violations
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._action import FabricAction, plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents import read_files
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables import (
    PREFIX,
    RESOURCES,
    SETTINGS,
    VariableSurvey,
    around_the_fabric,
)

EXTRA_VARS = "extra vars"
RESOURCE_FIELDS = ("apiVersion", "kind", "metadata", "spec")


class ActionModule(FabricAction):
    """Loads every input, validates all of it at once and returns one FabricSpec."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the spec and the notices of everything given; raise InvalidInput with every violation."""
        documents, violations = read_files(arguments["manifests"], self.find_file)
        values, wrong_values = self._helm_values(arguments)
        hostvars = task_vars.get("hostvars") or {}
        controller = hostvars.get(task_vars.get("inventory_hostname", ""), {})
        given = {f"{PREFIX}{name}" for name, value in arguments.items() if value}
        survey = VariableSurvey(controller, given, plain)
        hosts = read_hosts(arguments["hosts"], hostvars, survey)
        ignored, remarks = survey.findings()
        if arguments["hosts_pattern"] is not None:
            missed, left_out = around_the_fabric(arguments["hosts_pattern"], arguments["hosts"], hostvars, controller)
            ignored, remarks = [*ignored, *missed], [*remarks, *left_out]
        spec, notices = build_spec(
            [*documents, *extra_resource(task_vars)],
            {name: arguments[name] for name in RESOURCES},
            {name: arguments[name] for name in SETTINGS},
            hosts,
            helm_values=values,
            violations=[*violations, *wrong_values, *ignored, *set_violations(arguments["set"])],
        )
        return {"changed": False, "spec": spec, "notices": [*notices, *remarks]}

    def _helm_values(self, arguments: Mapping[str, Any]) -> tuple[list[Document], list[Violation]]:
        documents, violations = read_files(arguments["helm_values_files"], self.find_file)
        if arguments["helm_values"]:
            documents.append(Document("rdma_fabric_helm_values", arguments["helm_values"]))
        findings = Findings()
        documents += values_of_settings(arguments["helm_set"], findings, "helm_set")
        return documents, [*violations, *findings.violations]


def set_violations(name: str | None) -> list[Violation]:
    """Return what is wrong with the set's name, None where none is given; the batch apply would refuse it too late."""
    found = [] if name is None else set_name_violations(name)
    return [Violation(f"{PREFIX}set", each.path, each.problem, each.hint) for each in found]


def extra_resource(task_vars: Mapping[str, Any]) -> list[Document]:
    """Return the custom resource that was given as extra variables, if there is one."""
    if not all(task_vars.get(name) for name in ("apiVersion", "kind", "spec")):
        return []
    return [Document(EXTRA_VARS, {name: plain(task_vars[name]) for name in RESOURCE_FIELDS if name in task_vars})]


def read_hosts(hosts: list[str], hostvars: Mapping[str, Any], survey: VariableSurvey) -> dict[str, HostReading]:
    """Return what the variables of each inventory host ask for, with what is wrong about them."""
    readings: dict[str, HostReading] = {}
    for host in hosts:
        if host not in hostvars:
            violation = Violation("hosts", host, "is no host of the inventory", "check rdma_fabric_hosts")
            readings[host] = ({}, [violation], [])
            continue
        variables = hostvars[host]
        survey.look(host, variables)
        given, undefined = values_of(host, variables)
        desired, violations, notices = parse_host_variables(host, given)
        readings[host] = (desired, [*undefined, *violations], notices)
    for host, shared in shared_guids({host: reading[0] for host, reading in readings.items()}).items():
        desired, violations, notices = readings[host]
        readings[host] = (desired, [*violations, *shared], notices)
    return readings


def values_of(host: str, variables: Mapping[str, Any]) -> tuple[dict[str, Any], list[Violation]]:
    """Return the variables of a host that its desired state is made from, and those whose templates have no value."""
    values: dict[str, Any] = {}
    violations: list[Violation] = []
    for name in HOST_VARIABLES:
        try:
            values[name] = plain(variables.get(name))
        except AnsibleError as error:
            undefined = isinstance(error, AnsibleUndefinedVariable)
            hint = (
                "define it for this host, in the inventory, group_vars or host_vars" if undefined else "mend the value"
            )
            problem = f"has no value: {one_line(str(error))}"
            violations.append(Violation(f"host {one_line(host)}: {name}", "", problem, hint))
    return values, violations
