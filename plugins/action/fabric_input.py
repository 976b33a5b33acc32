# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any, ClassVar, Collection, Iterable, Mapping, Sequence

from ansible import constants, context
from ansible.errors import AnsibleError

# This is the first action of a run, and what Ansible has loaded by now stays until its end. Garbage would be looked for
# in all of it while the rooms are imported, and in all of it and them in each worker, which copies what is looked at.
gc.freeze()

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, Findings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.helm import values_of_settings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import HostReading, build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import networks_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HOST_VARIABLES, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.keys import KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import label_key_problem
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import set_name_violations
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.limits import limit_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Unmet,
    Violation,
    named,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    SHOW_SECRETS,
    FabricAction,
    describe_os_error,
    plain,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold_names
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import located
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import decrypted, read_files
from ansible_collections.rdma.fabric.plugins.plugin_utils._endings import called
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import foresee_writable_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import fabric_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    CONTROLLER,
    nodes_of,
    taking_part,
    wire_tested,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_input import (
    not_found,
    shared_nodes,
    unlike_nodes,
    unusable_names,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.values import shared_guids, values_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variable_files import unread_files, unreadable_files
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import names_by_facts, variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.of_facts import violations_of_facts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.rows_cluster import RESOURCE_ROWS, SETTING_ROWS
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import OF_CONTROLLER, TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import (
    INPUTS,
    VariableSurvey,
    around_the_fabric,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import (
    HostValues,
    of_controller,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import HOST, PREFIX

gc.freeze()

EXTRA_VARS = "extra vars"
RESOURCES = tuple(row.short for row in RESOURCE_ROWS)
SETTINGS = tuple(row.short for row in SETTING_ROWS)
_INPUTS = ("manifests", "helm_values", "helm_values_files", "helm_set")
_SHARE = re.compile(r"[0-9]+%?")
# What the tasks of a host read of its variables after the preflight, which would be too late to refuse them.
READ_LATER = tuple(row for row in TABLE.values() if row.scope == HOST and row.name not in HOST_VARIABLES)
RECORDING = f"{PREFIX}recording"
RESOURCE_FIELDS = ("apiVersion", "kind", "metadata", "spec")


class ActionModule(FabricAction):
    """Loads every input, validates all of it at once and returns one FabricSpec."""

    variables: ClassVar[Mapping[str, str]] = {
        row.short: row.name for row in OF_CONTROLLER if "preflight" in row.readers and row.name != SHOW_SECRETS
    }
    hands_on = ("spec", "sealed")

    def arguments_of(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments but those of another type than their variable, which is told with what else is wrong."""
        self._misread = of_controller(task_vars, controller_of(task_vars), self.templated)
        wrong = {violation.source for violation in self._misread}
        given = super().arguments_of(task_vars)
        return {name: value for name, value in given.items() if f"{PREFIX}{name}" not in wrong}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given by variables, without their defaults, and the hosts of the fabric."""
        given = Given(task_vars, self.templated)
        found = {option: given.get(name) for option, name in self.variables.items()}
        self.learn(found)
        found["hosts_pattern"], found["hosts"] = fabric_of(given, task_vars, self._loader)
        # Of playbooks that write to it and look at no other prerequisites.
        if given.get("preflight_writes"):
            found["run_dir"] = given.value(f"{PREFIX}run_dir")
        return {option: value for option, value in found.items() if value is not None}

    def quoted_hosts(self, task_vars: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Return the variables of every host: each is checked."""
        hostvars = task_vars.get("hostvars") or {}
        raw = getattr(hostvars, "raw_get", None) or hostvars.get
        for host in hostvars:
            try:
                yield raw(host) or {}
            except AnsibleError:
                continue  # a file of its variables cannot be read, which is what the result says

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the spec and the notices of everything given; raise InvalidInput with every violation."""
        try:
            return self._read(arguments, task_vars)
        except AnsibleError as error:
            failed = error
        violations = unreadable_files(task_vars, self._loader)
        raise InvalidInput(violations) if violations else failed

    def _read(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        documents, violations = self._read_files(arguments["manifests"])
        values, wrong_values = self._helm_values(arguments)
        hostvars = variables_of_hosts(task_vars)
        by_facts = [each for host in hostvars for each in violations_of_facts(host, names_by_facts(hostvars[host]))]
        runner = hostvars.get(task_vars.get("inventory_hostname", ""), {})
        controller = controller_of(task_vars)
        given = given_otherwise(arguments, runner)
        survey, late = VariableSurvey(controller, given, plain), HostValues(READ_LATER, plain)
        hosts = read_hosts(arguments["hosts"], hostvars, survey, late)
        ignored, remarks = survey.findings()
        if arguments["hosts_pattern"] is not None:
            missed, left_out = around_the_fabric(arguments["hosts_pattern"], arguments["hosts"], hostvars, controller)
            passed_over, elsewhere = unread_files(task_vars, self._loader)
            ignored, remarks = [*ignored, *missed, *passed_over], [*remarks, *left_out, *elsewhere]
            if not missed:
                ignored = [*ignored, *self._not_found(arguments, task_vars)]
        missing, missed_some = self._missing_recordings(arguments["hosts"], hostvars)
        remarks = [*remarks, *missed_some]
        reference, no_chart = located(arguments["helm_chart"] or "", self.find_file)
        spec, notices = build_spec(
            [*documents, *extra_resource(task_vars)],
            {name: arguments[name] for name in RESOURCES},
            {**{name: arguments[name] for name in SETTINGS}, "helm_chart": reference or None},
            hosts,
            helm_values=values,
            violations=[
                *violations,
                *self._misread,
                *wrong_values,
                *no_chart,
                *ignored,
                *set_violations(arguments["set"]),
                *serial_violations(arguments),
                *limit_violations(arguments),
                *late.violations(),
                *missing,
                *unusable_names(arguments["hosts"]),
                *run_dir_violations(arguments["run_dir"]),
                *skipped_tags_violations(context.CLIARGS, constants.TAGS_SKIP),
                *by_facts,
            ],
        )
        nodes = nodes_of(spec["hosts"], hostvars)
        no_nodes, unlike = unlike_nodes(nodes)
        wrong = [*wire_violations(spec, hostvars), *shared_nodes(nodes), *no_nodes]
        if wrong:
            raise InvalidInput(wrong)
        # What renders is a sixth of all that is imported here, and input that is refused until now needs none of it.
        from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.preflight import (  # noqa: PLC0415
            preflight,
        )

        # Without cluster objects nodes have no part in a run.
        remarks = [*remarks, *(unlike if self._asks_of_cluster(arguments, task_vars) else ())]
        if arguments["plan_file"] and not self.check_mode:
            remarks = [*remarks, Notice(f"{PREFIX}plan_file", "", "only a run of site --check writes it")]
        found: dict[str, Any] = {"changed": False, "spec": spec, "notices": [*notices, *preflight(spec), *remarks]}
        found["unmet"] = [each for each in found["notices"] if isinstance(each, Unmet)]
        found["given"] = [name for name in INPUTS if arguments[name[len(PREFIX) :]]]
        if arguments["sealed_plan"]:
            sealed, said = self._sealed(self.find_file(arguments["sealed_plan"]), spec, task_vars)
            found.update(sealed=sealed, notices=[*found["notices"], *said])
        return found

    def _sealed(
        self, path: Path, spec: Mapping[str, Any], task_vars: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Notice]]:
        """Return the sealed plans of the hosts of this run; raise InvalidInput where something is another one now."""
        # Few runs have a sealed plan, and every run would import what reads one.
        from ansible_collections.rdma.fabric.plugins.plugin_utils._sealed.plan import (  # noqa: PLC0415
            compare,
            host_inputs_of,
            load,
            run_of,
        )

        loaded, limit = load(path), task_vars.get("ansible_limit")
        hosts = taking_part(list(spec["hosts"]), task_vars.get("groups") or {}, limit, self._loader)
        run = run_of(spec, task_vars, plain)
        inputs = host_inputs_of(hosts, spec["hosts"], task_vars, plain)
        violations, said = compare(f"sealed plan {path}", loaded, run, inputs, limited=bool(limit))
        if violations:
            raise InvalidInput(violations)
        return {"plans": loaded.plans, "hosts": {host: loaded.hosts[host] for host in hosts}}, said

    def _not_found(self, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> list[Violation]:
        asked = self._asks_of_cluster(arguments, task_vars)
        return not_found(arguments["hosts_pattern"], arguments["hosts"], asked, task_vars, self._loader)

    def _missing_recordings(
        self, hosts: Sequence[str], hostvars: Mapping[str, Any]
    ) -> tuple[list[Violation], list[Notice]]:
        """Return what is said of recordings that are not there: it is wrong if no host of the run has anything else.

        Otherwise these hosts fail by themselves, and the others go on, as with a host that can't be reached.
        """
        missing: dict[str, str] = {}
        for host in hosts:
            try:
                value = plain(hostvars[host][RECORDING]) if RECORDING in hostvars.get(host, {}) else None
            except AnsibleError:
                continue  # it is told with the other variables that have no value
            if value and isinstance(value, str) and not self.find_file(value).is_file():
                missing[host] = value
        if not missing:
            return [], []
        one = next(iter(missing.values()))
        problem = f"names no file on {len(missing)} of {len(hosts)} hosts ({fold_names(missing)}), such as {one}"
        found = (RECORDING, "", problem, "name files that rdma.fabric.record wrote")
        return ([Violation(*found)], []) if len(missing) == len(hosts) else ([], [Notice(*found)])

    @staticmethod
    def _asks_of_cluster(arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> bool:
        return any(arguments[name] for name in (*_INPUTS, *RESOURCES)) or bool(extra_resource(task_vars))

    def _read_files(self, names: list[str]) -> tuple[list[Document], list[Violation]]:
        with decrypted(self.find_file, self._loader) as find:
            documents, violations = read_files(names, find)
        self.learn([document.content for document in documents])
        return documents, violations

    def _helm_values(self, arguments: Mapping[str, Any]) -> tuple[list[Document], list[Violation]]:
        documents, violations = self._read_files(arguments["helm_values_files"])
        given = [Document("rdma_fabric_helm_values", arguments["helm_values"])] if arguments["helm_values"] else []
        findings = Findings()
        given += values_of_settings(arguments["helm_set"], findings, "helm_set")
        self.learn([document.content for document in given])
        return [*documents, *given], [*violations, *findings.violations]


def controller_of(task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return localhost's variables; where a limit leaves it out, another host stands for the run."""
    hostvars = variables_of_hosts(task_vars)
    found: Mapping[str, Any] = hostvars.get(CONTROLLER, hostvars.get(task_vars.get("inventory_hostname", ""), {}))
    return found


def given_otherwise(arguments: Mapping[str, Any], runner: Mapping[str, Any]) -> set[str]:
    """Return the variables of this collection that reached the task with a value that its host's inventory has not."""
    given = set()
    for option, value in arguments.items():
        name = f"{PREFIX}{option}"
        if value and not (name in runner and same(runner, name, value)):
            given.add(name)
    return given


def same(variables: Mapping[str, Any], name: str, value: Any) -> bool:
    """Return whether a host's variable has this value; one that makes no sense there has none."""
    try:
        return bool(plain(variables[name]) == value)
    except AnsibleError:
        return False


def set_violations(name: str | None) -> list[Violation]:
    """Return what is wrong with the set's name, None where none is given; the batch apply would refuse it too late."""
    found = [] if name is None else set_name_violations(name)
    return [Violation(f"{PREFIX}set", each.path, each.problem, each.hint) for each in found]


def serial_violations(arguments: Mapping[str, Any]) -> list[Violation]:
    """Return what is wrong with how many hosts are rebooted at once: Ansible would take 0 for all of them."""
    given = arguments["reboot_parallel"]
    if given is None or (_SHARE.fullmatch(given.strip()) and int(given.strip().rstrip("%")) > 0):
        return []
    hint = "give a number from 1 on, or a share of the hosts to be rebooted such as 10%"
    return [Violation(f"{PREFIX}reboot_parallel", "", f"is {given!r}, neither a number nor a percentage", hint)]


def limit_violations(arguments: Mapping[str, Any]) -> list[Violation]:
    """Return what is wrong with how many nodes, in all and of one failure domain, may be out of service at once."""
    found = []
    for option in ("max_unavailable", "max_unavailable_per_domain"):
        try:
            limit_of((arguments[option] or "").strip() or "1", total=100)
        except ValueError as err:
            found.append(Violation(f"{PREFIX}{option}", "", str(err), "give one of these"))
    label = arguments["failure_domain"].strip()
    problem = label_key_problem(label) if label else ""
    if problem:
        hint = "give the key of a label of nodes, such as topology.kubernetes.io/zone"
        found.append(Violation(f"{PREFIX}failure_domain", "", f"{label!r} {problem}", hint))
    if arguments["max_unavailable_per_domain"].strip() and not label:
        hint = f"give {PREFIX}failure_domain as well, the key of the label that says which nodes are of one domain"
        found.append(Violation(f"{PREFIX}max_unavailable_per_domain", "", "is given without failure domains", hint))
    return found


def run_dir_violations(run_dir: str | None) -> list[Violation]:
    """Return why no host's file could be written to the run directory; each host would fail by it."""
    if not run_dir:
        return []
    try:
        foresee_writable_directory(Path(run_dir).absolute() / "hosts")
    except OSError as error:
        hint = "make it writable, or give another directory"
        return [Violation(f"{PREFIX}run_dir", "", describe_os_error(error), hint)]
    return []


def skipped_tags_violations(cli: Mapping[str, Any], configured: Collection[str]) -> list[Violation]:
    """Return that ``--skip-tags`` leaves nothing out of a playbook of ours: whoever gives it means to change less.

    ``configured`` are the tags that ansible.cfg names for every playbook.
    """
    given = ",".join(str(tag) for tag in cli.get("skip_tags") or () if tag not in configured)
    if not (given and called(cli)):
        return []
    hint = "run the playbook for the part you want: preflight, preview, render, verify or record; or use the roles"
    return [Violation("the command line", "", f"--skip-tags {given} leaves nothing out, as no task has tags", hint)]


def wire_violations(spec: Mapping[str, Any], hostvars: Mapping[str, Any]) -> list[Violation]:
    """Return what is wrong where hosts are to be tested on the wire, and the fabric has no network for that."""
    hosts = wire_tested(spec["hosts"], hostvars)
    if not hosts or networks_of(dict(spec)):
        return []
    problem = f"asks for a wire test, but the fabric has no secondary network to test (on {named(hosts)})"
    hint = "give a MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork or NetworkAttachmentDefinition, or set it to false"
    return [Violation(f"{PREFIX}wire_test", "", problem, hint)]


def extra_resource(task_vars: Mapping[str, Any]) -> list[Document]:
    """Return the custom resource that was given as extra variables, if there is one."""
    if not all(task_vars.get(name) for name in ("apiVersion", "kind", "spec")):
        return []
    return [Document(EXTRA_VARS, {name: plain(task_vars[name]) for name in RESOURCE_FIELDS if name in task_vars})]


def read_hosts(
    hosts: list[str], hostvars: Mapping[str, Any], survey: VariableSurvey, late: HostValues
) -> dict[str, HostReading]:
    """Return what the variables of each inventory host ask for, with what is wrong about them."""
    readings: dict[str, HostReading] = {}
    for host in hosts:
        if host not in hostvars:
            violation = Violation("hosts", host, "is not a host of the inventory", "check rdma_fabric_hosts_pattern")
            readings[host] = ({}, [violation], [])
            continue
        variables = hostvars[host]
        survey.look(host, variables)
        late.look(host, variables)
        given, undefined = values_of(host, variables)
        desired, violations, notices = parse_host_variables(host, given, KEYS)
        readings[host] = (desired, [*undefined, *violations], notices)
    for host, shared in shared_guids({host: reading[0] for host, reading in readings.items()}).items():
        asked, found, said = readings[host]
        readings[host] = (asked, [*found, *shared], said)
    return readings
