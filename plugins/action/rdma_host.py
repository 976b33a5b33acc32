# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans or applies a host: a recorded one here on the controller, a live one by the module. Documented there."""

from __future__ import annotations

import contextlib
import json
import secrets
from pathlib import Path
from typing import Any, ClassVar, Iterator, Mapping, Sequence, cast

from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import REFUSED
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.cabling import read_cabling
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.port_counters import read_counters
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.rdma import check_links
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import planner_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import check_sealed
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import DEFAULT_SECONDS, HostSpec, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import answer_problems, facts_problems
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.timeline import REBOOT, stage_of_host, versions_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    ActionFailure,
    describe_os_error,
    json_on_stdout,
    plain,
    printable,
    validated_result,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.host import HostAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import TimedOut, within
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import boot_of_controller
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.run_dir import make_run_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import nic_templates
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import explained
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.kept import kept_result
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import (
    options_of_role,
    validated_spec,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.uplink_confirm import settle, settle_after_loss
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.values import refuse_sealed, with_variables_of_task
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turn_file import TurnFile
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import not_of_inventory
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.validated import validated_of

display = Display()

# Workers are copies of the process that reads this file: each would compile what its recorded host has to do with, and
# make the boot unit's program to tell its name.
for _concern in ORDER:
    planner_of(_concern)
program_path()

KEPT = "kept"
_NOT_KEPT = (
    "mode: kept is for state: present, and needs output_file, the document of the host that an earlier run wrote"
)
# What a notice begins with among the printed lines of a plan; no step does.
_NOTICE = "notice: "
# What a run that applied tells beside facts and plan; the report shows it.
_OF_THE_RUN = ("executed", "failed_step", "not_reached", "reboot_required")


class ActionModule(HostAction):
    """Reads and plans one host, and lets the module change it."""

    # check_spec tells all violations at once, with their paths, and takes no text for a number.
    checked_in_execute = ("desired",)
    constraints: ClassVar[Mapping[str, Any]] = {
        "required_one_of": [("desired", "confirm", "joined")],
        "mutually_exclusive": [("desired", "confirm")],
    }

    def arguments_of(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the task, beside those of the role where it is the role's."""
        given = super().arguments_of(task_vars)
        if given.get("role_variables") or not given.get("validated"):
            return given
        host = str(task_vars.get("inventory_hostname", ""))
        return {"desired": validated_spec(task_vars, self.templated)["hosts"][host], **given}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the role asks of the host by its variables."""
        host = str(task_vars.get("inventory_hostname", ""))
        validated = validated_result(task_vars, self.templated)
        return options_of_role(host, Given(task_vars, self.templated), validated)

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Plan or apply the host and write what was asked for; see the module's documentation."""
        if arguments["confirm"]:
            return self._confirm(arguments["confirm"], task_vars)
        if arguments["joined"]:
            return self._run_it({"joined": True}, task_vars)
        if arguments["timeout"] < 0:
            raise ActionFailure(f"timeout: {arguments['timeout']} is negative; 0 means no limit")
        name = str(task_vars.get("inventory_hostname", ""))
        given, said = self._as_the_task_sees_it(name, arguments, task_vars)
        given, of_cards = nic_templates.split(given)
        desired = check_spec(given)
        # A document has what was asked for, so that a later run can tell another input.
        asked = cast(HostSpec, {**desired, "requests": [*desired["requests"], *of_cards]})
        recorded = arguments["recording"]
        output = Path(arguments["output_file"]).expanduser() if arguments["output_file"] else None
        if arguments["mode"] == KEPT:
            if output is None or arguments["state"] != "present":
                raise ActionFailure(_NOT_KEPT)
            return kept_result(output, asked, check=self.check_mode, strict=arguments["strict"])
        if output is not None:
            # Before the host is changed: what was done to it must not be lost for want of a place.
            make_run_directory(output.parent)
        file, state = TurnFile(arguments["turn_file"], check=self.check_mode), arguments["state"]
        with file.stage(lambda turn: stage_of_host(turn, state)) as part:
            part.first = {"state": state, "before": _versions_of_document(output)}
            desired, of_templates = self._with_templates(name, desired, of_cards, arguments, task_vars)
            if recorded:
                result = self._plan_recorded(desired, recorded, arguments)
            else:
                result = self._answer_in_time(name, desired, arguments, task_vars)
                check_result(name, result, keeps=output is not None)
            # Of other answers the shape of plan and facts is not known.
            result = explained(result, desired, of_templates) if recorded or output is not None else result
            result["reboot_due"] = self._reboot_due(result, arguments)
            boot = result.pop("boot_id", "")
            result["is_controller"] = bool(boot) and boot == boot_of_controller()
            part.found = {"after": versions_of(result["facts"])} if result.get("facts") else {}
            part.failed, part.then = bool(result.get("failed")), REBOOT if result["reboot_due"] else ""
        if said:
            result["notices"] = said
        if not json_on_stdout():
            # Status and drift, which keep no document, have a screen of their own.
            steps = self.diff_mode or (arguments["mode"] == "preview" and output is not None)
            self._show(name, result, grouped=arguments["grouped"], steps=steps)
        if output is not None and "plan" in result:
            document = {
                "host": name,
                "recorded": bool(recorded),
                "desired": asked,
                "facts": result.pop("facts"),
                "plan": result.pop("plan"),
            }
            if "executed" in result:
                document["run"] = {key: result[key] for key in _OF_THE_RUN if key in result}
            self._keep(output, document, result)
        return result

    def _keep(self, output: Path, document: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Write the document of a host. That it can't be kept must not hide what was done to it or has failed on it."""
        text = json_text(plain(document))
        try:
            write_if_different(output, text)
        except OSError as error:
            if self.check_mode or not (result.get("changed") or result.get("failed")):
                raise
            display.warning(f"facts and plan of {document['host']} are not kept: {describe_os_error(error)}")

    def _show(self, name: str, result: dict[str, Any], *, grouped: bool, steps: bool) -> None:
        """Print the plan of a host, or keep it for whoever prints those of all, there with its ``steps`` or without."""
        # Callbacks show no difference of a host that stays as it is, nor of one that fails.
        unseen = self.check_mode if result.get("failed") else not result.get("changed")
        if grouped:
            prepared = result.pop("diff", {}).get("prepared", "")
            # Of a host that was not read nobody knows whether there is something to do.
            steps = steps and bool(prepared or "plan" in result)
            result["shown_later"] = for_later(prepared, result.get("plan"), steps=steps)
            return
        if unseen and "diff" in result:
            show_plan(name, result.pop("diff"))
        elif not self.diff_mode or result.get("failed"):
            show_notices(name, result.get("plan"))

    def _reboot_due(self, result: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
        """Return whether the host is to be rebooted: something waits for that, and there is the consent to it."""
        if self.check_mode or arguments["mode"] != "apply" or result.get("recorded") or result.get("failed"):
            return False
        return bool(arguments["allow_reboot"] and result.get("reboot_required"))

    def _as_the_task_sees_it(
        self, host: str, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Notice]]:
        """Return the desired state, made anew where the task has variables of hosts that preflight did not see."""
        of_hosts = task_vars.get("hostvars") or {}
        looks = arguments["check_variables"] and host in of_hosts
        names = not_of_inventory(task_vars, of_hosts[host], self.templated) if looks else []
        if not names:
            return arguments["desired"], []
        if arguments["sealed"] is not None:
            refuse_sealed(host, names)
        spec = plain(validated_of(task_vars).get("spec") or {})
        desired, notices = with_variables_of_task(host, spec, task_vars, self.templated)
        return desired, list(notices)

    def _with_templates(
        self,
        name: str,
        desired: HostSpec,
        requests: Sequence[Mapping[str, Any]],
        arguments: Mapping[str, Any],
        task_vars: dict[str, Any],
    ) -> tuple[HostSpec, list[str]]:
        """Return the desired state with what templates ask of the host's cards, and notices.

        The host must be read to find these cards. Serial and part numbers are no facts, so that no document has them.
        """
        identities: Mapping[str, nic_templates.Identity] = {}
        if not requests or arguments["state"] != "present":
            return desired, []
        if arguments["recording"]:
            facts = gather(self.recorded_host(arguments["recording"]), desired["connection_address"])
            return nic_templates.with_templates(desired, requests, facts, identities)
        with self._in_time(name, arguments):
            answer = self.run_module("rdma_info", {}, task_vars)
            if not answer.get("failed") and nic_templates.wants_identities(requests):
                printed = self._low_level_execute_command(nic_templates.READ_IDENTITIES)
                identities = nic_templates.identities_of(printed["stdout"])
        read = completed(answer.get("facts"))
        problems = [str(answer.get("msg"))] if answer.get("failed") else facts_problems(read)
        if problems:
            raise ActionFailure(
                f"the facts of {name}, by which templates select its cards, are not known: {problems[0]}"
            )
        return nic_templates.with_templates(desired, requests, read, identities)

    def _plan_recorded(self, desired: HostSpec, recorded: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        host = self.recorded_host(recorded)
        run = Run(
            check=self.check_mode,
            diff=self.diff_mode,
            mode=arguments["mode"],
            recorded=True,
            strict=arguments["strict"],
            state=arguments["state"],
            defers_reload=arguments["defer_reload"],
            sealed=None if arguments["sealed"] is None else check_sealed(arguments["sealed"]),
        )
        try:
            outcome: dict[str, Any] = {**preview(host, desired, run, desired["connection_address"])}
        except BrokenState as error:
            raise ActionFailure(f"{self.find_file(recorded)}: {error}") from error
        if any(step["status"] == REFUSED for step in outcome["plan"]["steps"]):
            outcome["plan"]["notices"].append(host.gaps())
        counted = {"counters": read_counters(host)} if arguments["counters"] else {}
        facts = outcome["facts"]
        cabled = {"cabling": read_cabling(host, facts["rdma"])} if arguments["cabling"] != "none" else {}
        return {**outcome, "facts": {**as_returned(facts), **cabled}, **counted}

    def _answer_in_time(
        self, host: str, desired: HostSpec, arguments: Mapping[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what the module answers; raises ActionFailure where the host does not answer in time."""
        with self._in_time(host, arguments):
            result = self._run_module(desired, arguments, task_vars)
            if arguments["cabling"] != "none" and isinstance(result.get("facts"), dict):
                # The other module reads it: this one is sent in every run, and carries no code that few of them need.
                told = self.run_module("rdma_info", {"cabling": arguments["cabling"]}, task_vars)
                result["facts"].update({"cabling": told["cabling"]} if "cabling" in told else {})
            return result

    @contextlib.contextmanager
    def _in_time(self, host: str, arguments: Mapping[str, Any]) -> Iterator[None]:
        """Raise ActionFailure where the host does not answer in time."""
        try:
            with within(arguments["timeout"]):
                yield
        except TimedOut:
            raise ActionFailure(
                f"{host} has not answered for {arguments['timeout']} s (rdma_fabric_host_timeout). The work may "
                "still be running there: check the host on its console, then run again"
            ) from None

    def _run_module(self, desired: HostSpec, arguments: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        given = {key: arguments[key] for key in ("mode", "state", "strict", "defer_reload", "allow_reboot", "counters")}
        given.update(links=check_links(arguments["links"]), link_timeout=arguments["link_timeout"])
        # Who only looks at what became of a change has no plan to hold the host to.
        approved = {} if arguments["sealed"] is None else {"sealed": check_sealed(arguments["sealed"])}
        token = arguments["guard_token"] or secrets.token_hex(16)

        def confirm() -> dict[str, Any]:
            return self._confirm(token, task_vars)

        try:
            result = self._run_it({"desired": desired, "guard_token": token, **given, **approved}, task_vars)
        except AnsibleConnectionFailure as lost:
            if self.check_mode or given["mode"] == "preview" or not desired["consents"].get("uplink_change"):
                raise

            def look() -> Mapping[str, Any] | None:
                seen = self._run_it({"desired": desired, **given, "mode": "preview"}, task_vars)
                guard: Mapping[str, Any] | None = seen["facts"]["boot"].get("guard") if "facts" in seen else {}
                return guard

            seconds = desired["revert_seconds"] or DEFAULT_SECONDS
            return settle_after_loss(lost, seconds, look, confirm, self._new_connection)
        return settle(result, confirm, self._new_connection)

    def _run_it(self, arguments: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run the module on the host; raises AnsibleConnectionFailure."""
        result = self.run_module("rdma_host", arguments, task_vars)
        # The arguments hold the whole desired state, which is in the output file already.
        result.pop("invocation", None)
        return result

    def _confirm(self, token: str, task_vars: dict[str, Any]) -> dict[str, Any]:
        return self._run_it({"confirm": token}, task_vars)

    def _new_connection(self) -> None:
        """Drop the connection: one that was made before the change may live on where no new one can be made."""
        if self._connection.transport != "local":
            self._connection.reset()


def check_result(host: str, result: Mapping[str, Any], *, keeps: bool) -> None:
    """Raise ActionFailure for an answer that no later task could read. ``keeps``: a document is made of it."""
    facts = completed(result.get("facts"))
    run = {"run": result} if "executed" in result else {}
    document = {"host": host, "facts": facts, "plan": result.get("plan"), **run} if keeps else None
    problems = answer_problems(result, document)
    if not problems:
        return
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    said = f" It says: {one_line(result['msg'])}" if isinstance(result.get("msg"), str) else ""
    raise ActionFailure(
        f"the answer of {host} can't be read: {one_line(problems[0])}{more}. It is discarded, and what was done "
        f"there is not known.{said} (next: look at the host's memory, its Python, and who runs in place of it; "
        "then run again)"
    )


def _versions_of_document(path: Path | None) -> dict[str, Any] | None:
    """Return the versions that the host had by its last document; None without one."""
    try:
        document = json.loads(path.read_bytes()) if path is not None else None
        return versions_of(document["facts"]) if document else None
    except (OSError, ValueError, TypeError, KeyError):
        # What comes of this run replaces a document that can't be read.
        return None


def for_later(diff: str, plan: Mapping[str, Any] | None, *, steps: bool) -> dict[str, Any]:
    """Return what ``fabric_hosts`` prints of a host: its notices, and if asked for the lines of its steps.

    ``diff`` is the plan as it was before the run, ``plan`` what is left after it; the notices of both count.
    """
    lines = printed_lines(diff)
    notices = [line[len(_NOTICE) :] for line in lines if line.startswith(_NOTICE)]
    notices += [one_line(text) for text in (plan or {}).get("notices", ())]
    shown: dict[str, Any] = {"notices": list(dict.fromkeys(notices))}
    if steps:
        shown["steps"] = [line for line in lines if not line.startswith(_NOTICE)]
    return shown


def show_plan(host: str, diff: Mapping[str, str] | None) -> None:
    """Print the plan of a host that stays as it is: Ansible's callbacks show differences of changed hosts only.

    Those that print JSON show every result as it is, so there the plan stays in it.
    """
    for line in printed_lines((diff or {}).get("prepared", "")):
        display.display(f"[{host}] {line}")


def printed_lines(diff: object) -> list[str]:
    """Return the lines of a plan as they are printed: the host wrote them, so they may hold escapes of a terminal."""
    return [line for line in printable(str(diff)).split("\n") if line]


def show_notices(host: str, plan: Mapping[str, Any] | None) -> None:
    """Print the notices of a plan: with --diff they are among its lines."""
    for text in (plan or {}).get("notices", ()):
        display.display(f"[{host}] notice: {one_line(text)}")
