# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run ended, in the same few lines whichever playbook ran: one word, counts, files and the next step. Pure.

The schema of what programs get, the statistic and ``result.json``, is ``docs/result.schema.json``.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import PurePath
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible.errors import AnsibleError
from ansible.parsing.splitter import parse_kv

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted
from ansible_collections.rdma.fabric.plugins.module_utils._report.outcome import (
    CHANGED,
    FAILED,
    PENDING,
    REFUSED,
    UNCHANGED,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.manifests import is_secret
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import (
    FIX,
    FREE,
    UNCORDON,
    WAIT,
    held_nodes,
    names_of,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.texts import Unreadable, read_text

TITLE = "RUN RESULT"
STATISTIC, FILE = "rdma_fabric_result", "result.json"
FORMAT = "rdma.fabric/result/v1"
# The input is valid, which is all that the playbook preflight is asked.
VALID = "valid"
OWN = "rdma.fabric."
NOTHING = "nothing to do"
_AGAIN = ""
_MOST_OF_A_LINE = 160
_OPTIONS = (
    ("inventory", "-i"),
    ("subset", "--limit"),
    ("remote_user", "-u"),
    ("private_key_file", "--private-key"),
    ("vault_ids", "--vault-id"),
    ("vault_password_files", "--vault-password-file"),
)
# How hosts are reached, as text that begins with a dash and so has to follow a sign of equality.
_OF_SSH = (("ssh_common_args", "--ssh-common-args"), ("ssh_extra_args", "--ssh-extra-args"))
_TAGS, _EVERY_TAG = (("tags", "--tags"), ("skip_tags", "--skip-tags")), ["all"]
_SWITCHES = (("become", "-b"), ("become_ask_pass", "-K"), ("ask_pass", "-k"), ("ask_vault_pass", "-J"))
# The folders of ansible-runner that are gone after a run: that of ansible-rulebook (RunPlaybook of its run_playbook.py
# makes one by tempfile.mkdtemp(prefix="eda") and removes it), and that of a container.
_OF_RUNNER, _PASSING = "AWX_ISOLATED_DATA_DIR", re.compile(r"(.*/eda[a-z0-9_]{8}|/runner)/artifacts/[^/]+/?")
_INVENTORY = "INVENTORY"
_FIX = "fix what is named above, then"
_UNMET = "fix the network, the pool, the resource or the port of each line with attention above"
_OTHER_PARTS = "push and report with rdma_fabric_host_mode=kept once all other hosts are done"
_FROM_THE_BEGINNING = "leave --start-at-task out"
_PLAN_FILE, _SEALED_PLAN = "rdma_fabric_plan_file", "rdma_fabric_sealed_plan"
_OF_DISCOVERY = "rdma_fabric_discover_"


class Step(NamedTuple):
    """What to do next: ``text``, and a playbook to run ("": the same again; None: none) with options of its own.

    ``inventory`` says whether that of the run is given again.
    """

    text: str = ""
    playbook: str | None = None
    options: tuple[str, ...] = ()
    check: bool = False
    inventory: bool = True


class Ending(NamedTuple):
    """The result (one of ``OUTCOMES``, or ``VALID``), numbers, files by title, the next step, a line for each finding.

    ``data`` is for programs alone.
    """

    result: str
    counts: str
    paths: dict[str, str]
    step: Step
    data: dict[str, Any]
    findings: Sequence[str] = ()


def called(cli: Mapping[str, Any]) -> str:
    """Return the short name of the playbook that Ansible was called with: ``site``; "" for one of somebody else."""
    name = str(([*(cli.get("args") or ())] or [""])[-1])
    return name[len(OWN) :] if name.startswith(OWN) else ""


def without_passing(cli: Mapping[str, Any], environment: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the arguments of Ansible as they can be given again: files that only this run has are not named.

    ansible-runner, which names its folder in the environment, has inventory and extra variables copied there.
    """
    found = _PASSING.fullmatch(environment.get(_OF_RUNNER, ""))
    if found is None:
        return cli
    within = f"{found[1]}/"
    given = [str(each) for each in cli.get("inventory") or ()]
    lasting = [_INVENTORY if each.startswith(within) else each for each in given]
    extra = tuple(each for each in map(str, cli.get("extra_vars") or ()) if not each.startswith(f"@{within}"))
    return {**cli, "inventory": tuple(dict.fromkeys(lasting)), "extra_vars": extra}


def command(cli: Mapping[str, Any], step: Step) -> str:
    """Return the command of a step, with inventory, limit, connection and variables of the one that ran.

    Variables that are given by name are repeated where all of them are this collection's and none holds a secret:
    others may be passwords.
    """
    again = step.playbook == _AGAIN
    words = ["ansible-playbook", *([str(each) for each in cli.get("args") or ()] if again else [str(step.playbook)])]
    for key, option in _OPTIONS if step.inventory else _OPTIONS[1:]:
        given = cli.get(key) or ()
        for each in [given] if isinstance(given, str) else given:
            words += [option, str(each)]
    given = [(option, str(cli.get(key) or "")) for key, option in _OF_SSH]
    words += [f"{option}={text}" for option, text in given if text and not _holds_secret(text)]
    # Our own tasks have no tags, but a playbook of somebody else gives them some where it imports ours.
    for key, option in _TAGS if again and not called(cli) else ():
        tags = list(cli.get(key) or ())
        words += [option, ",".join(map(str, tags))] if tags not in ([], _EVERY_TAG) else []
    words += [option for key, option in _SWITCHES if cli.get(key) is True]
    for each in map(str, cli.get("extra_vars") or ()):
        # Only check mode writes the plan.
        words += (
            ["-e", each]
            if is_shown(each) and (step.check or not _only_names_plan(each)) and (again or not _is_of_discovery(each))
            else []
        )
    # Who looked at the differences looks at them again.
    looks = (again or step.check) and cli.get("diff") is True and "--diff" not in step.options
    return shlex.join([*words, *step.options, *(["--check"] if step.check else []), *(["--diff"] if looks else [])])


def started_by(cli: Mapping[str, Any], template: str = "") -> dict[str, Any]:
    """Return how a run was started: its command without what may be a secret, or its job template; limit, inventory."""
    again = command(cli, Step("", _AGAIN, (), bool(cli.get("check"))))
    inventory = [] if template else [str(each) for each in cli.get("inventory") or ()]
    return {
        "command": f"job template {template}" if template else again,
        "limit": str(cli.get("subset") or ""),
        "inventory": inventory,
    }


def is_shown(variables: str) -> bool:
    """Tell whether the variables of one ``-e`` are shown: a file, or this collection's without a secret.

    A proxy's address or a policy may have credentials in it.
    """
    if variables.startswith("@"):
        return True
    try:
        given = _given_by_name(variables)
    except (AnsibleError, Unreadable):
        return False
    return all(str(name).startswith("rdma_fabric_") for name in given) and not _holds_secret(given)


def _only_names_plan(variables: str) -> bool:
    return not variables.startswith("@") and set(_given_by_name(variables)) == {_PLAN_FILE}


def _is_of_discovery(variables: str) -> bool:
    return not variables.startswith("@") and all(name.startswith(_OF_DISCOVERY) for name in _given_by_name(variables))


def _holds_secret(value: Any) -> bool:
    # Most commands have nothing to look through, and the patterns take longer to compile than the rest of this task.
    from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.scrub import scrubbed  # noqa: PLC0415

    return bool(scrubbed(value) != value)


def _given_by_name(variables: str) -> Mapping[str, Any]:
    """Return the variables of one ``-e``; raises AnsibleError or Unreadable.

    Ansible takes a comma for a part of the value, as in ``rdma_fabric_manifests=a.yaml,b.yaml``. Documents within a
    value are not read: they may hold a secret.
    """
    try:
        return dict(read_text(variables, "dict"))
    except Unreadable:
        if "{" in variables or "[" in variables:
            raise
        return dict(parse_kv(variables))


def next_step(cli: Mapping[str, Any], step: Step, template: str = "") -> str:
    """Return the next step as one line. ``template`` is the job template of AWX that the run is a job of."""
    if step.playbook is None:
        return step.text or NOTHING
    return f"{step.text + ': ' if step.text else ''}{_launch(cli, step, template) if template else command(cli, step)}"


def _launch(cli: Mapping[str, Any], step: Step, template: str) -> str:
    """Return a step as somebody takes it in AWX: inventory and files of a job are in a folder that goes with it."""
    again = step.playbook == _AGAIN
    words = [f"launch the job template {template} again" if again else f"launch a job template of {step.playbook}"]
    if step.check is not bool(cli.get("check")):
        words.append("as a check" if step.check else "as a run")
    pairs = zip(step.options, step.options[1:])
    return " with ".join([" ".join(words), *(shlex.split(value)[0] for option, value in pairs if option == "-e")])


def statistic(ending: Ending, cli: Mapping[str, Any], template: str = "") -> dict[str, Any]:
    """Return what programs and the end of the screen get: the ending as plain data."""
    name = called(cli) or PurePath(str(([*(cli.get("args") or ())] or [""])[-1])).name
    run = {"format": FORMAT, "playbook": name, "check": bool(cli.get("check")), "limit": cli.get("subset") or ""}
    # Words of hosts and pods are in findings, and an escape sequence could rewrite what the screen shows.
    findings = [one_line(each) for each in ending.findings]
    said = {"result": ending.result, "counts": ending.counts, "findings": findings, "paths": ending.paths}
    return {**run, "outcome": ending.result, **ending.data, **said, "next": next_step(cli, ending.step, template)}


def block(found: Mapping[str, Any]) -> list[str]:
    """Return the lines of a statistic."""
    rows = [("result", found["result"]), ("counts", found["counts"])]
    first, last = (
        [f"{name + ':':<9} {text}" for name, text in each if text] for each in (rows, found["paths"].items())
    )
    return [*first, *found["findings"], *last, f"next:     {found['next']}"]


def end_unsaid(cli: Mapping[str, Any], template: str = "") -> dict[str, Any]:
    """Return the statistic of a run of our playbooks that fails before anything can tell how it ended."""
    begun = cli.get("start_at_task")
    # Every later task needs the validation.
    left_out = f": --start-at-task left out what comes before {one_line(str(begun))}" if begun else ""
    step = Step(_FROM_THE_BEGINNING if begun else _FIX, _AGAIN, (), bool(cli.get("check")))
    return statistic(Ending(FAILED, f"ended before its report{left_out}", {}, step, {}), cli, template)


def end_without_a_task(cli: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistic of a run of our playbooks in which Ansible found no task to start at, and ended well."""
    said = f"nothing was done: no task is called {one_line(str(cli.get('start_at_task')))}"
    step = Step(_FROM_THE_BEGINNING, _AGAIN, (), bool(cli.get("check")))
    return statistic(Ending(FAILED, said, {}, step, {}), cli)


class Run(NamedTuple):
    """What an ending is told from beside a result: the short name of the playbook, and whether nothing was changed.

    ``plan`` is the file in which the run has sealed its plan, if it has.
    """

    playbook: str
    check: bool
    plan: str = ""


def ending_of(kind: str, result: Mapping[str, Any], run: Run) -> Ending:
    """Return how a run ended by what its last part registered. ``kind`` is one of ``KINDS``."""
    if result.get("failed") or result.get("unreachable") or not result:
        return _failed(kind, result, run)
    return _ENDINGS[kind](result, run)


def _failed(kind: str, result: Mapping[str, Any], run: Run) -> Ending:
    violations = result.get("violations") or []
    problems = f"{counted(len(violations), 'problem')} in the input" if violations else ""
    why = one_line((str(result.get("msg") or "").strip().splitlines() or [""])[0]).rstrip(":")
    cut = f"{why[: _MOST_OF_A_LINE - 3]}..." if len(why) > _MOST_OF_A_LINE else why
    before = kind in _BEFORE_HOSTS
    said = [problems or cut]
    said += ["nothing was changed"] if before and "was changed" not in said[0] else []
    step = Step(_FIX, _AGAIN, (), run.check)
    return Ending(REFUSED if before else FAILED, ", ".join(filter(None, said)), {}, step, {})


def _input(result: Mapping[str, Any], run: Run) -> Ending:
    spec = result.get("spec") or {}
    numbers = {noun: len(spec.get(f"{noun}s") or ()) for noun in ("host", "network")}
    numbers["notice"] = len(result.get("notices") or ())
    counts = ", ".join(counted(number, noun) for noun, number in numbers.items() if number)
    return Ending(VALID, counts, {}, Step("", f"{OWN}preview"), {})


def _report(result: Mapping[str, Any], run: Run) -> Ending:
    summary, page = result["summary"], PurePath(result["report_html"])
    outcome = result["outcome"]
    paths = {"plans": str(page.parent / "hosts")} if summary["hosts"]["total"] else {}
    if result["write"] and not run.check:
        paths = {"report": str(page), **paths}
    if run.plan:
        paths["sealed"] = run.plan
    data = {key: summary[key] for key in ("hosts", "steps", "objects")}
    done = outcome in (CHANGED, UNCHANGED) and not (result["write"] or run.check)
    step = Step(_OTHER_PARTS) if done else _after_report(outcome, summary, run)
    counts, *findings = result["recap"]
    return Ending(outcome, counts, paths, step, {**data, "report": result["report_json"]}, findings)


def _after_report(outcome: str, summary: Mapping[str, Any], run: Run) -> Step:
    if outcome == PENDING:
        if summary.get("unknown_interfaces") and (run.check or run.playbook in _ONLY_LOOKS):
            # What would be pushed starts no pod.
            return Step(f"{_UNMET}, then", _AGAIN, (), run.check)
        hosts = summary["hosts"]
        if hosts["total"] and hosts.get("recorded") == hosts["total"] and run.playbook not in _ONLY_LOOKS:
            return Step("recorded hosts are only planned: give an inventory of hosts that can be reached")
        return _after_pending(summary["steps"], run)
    changed = Step() if run.playbook in _TAKES_BACK else Step("", f"{OWN}status")
    refused = Step("fix or allow what is refused above, then", _AGAIN, (), run.check)
    failed = Step(_FIX, _AGAIN, (), run.check)
    return {UNCHANGED: Step(), CHANGED: changed, REFUSED: refused}.get(outcome, failed)


def _after_pending(steps: Mapping[str, int], run: Run) -> Step:
    if run.playbook in _ONLY_LOOKS:
        return Step("", f"{OWN}site")
    if run.plan:
        return Step("have the plan approved, then", _AGAIN, ("-e", f"{_SEALED_PLAN}={shlex.quote(run.plan)}"))
    if steps["needs_consent"] and not run.check:
        return Step("allow what is named above, then", _AGAIN)
    if steps["needs_reboot"] and not run.check:
        return Step("reboot them yourself, or", _AGAIN, ("-e", "rdma_fabric_allow_reboot=true"))
    return Step("", _AGAIN)


def _drift(result: Mapping[str, Any], run: Run) -> Ending:
    word = {"same": UNCHANGED, "drift": PENDING}.get(result["outcome"], FAILED)
    step = {UNCHANGED: Step(), PENDING: Step("", f"{OWN}site")}.get(word, Step(_FIX, _AGAIN))
    counts = "; ".join(
        f"{what}: {', '.join(_numbers(numbers))}"
        for what, numbers in ((each, result["summary"].get(each)) for each in ("hosts", "objects"))
        if isinstance(numbers, Mapping) and any(numbers.values())
    )
    paths = {"drift": result["drift_json"], "junit": result["drift_xml"]}
    data = {
        "outcome": result["outcome"],
        "hosts": result["summary"]["hosts"],
        "objects": result["summary"]["objects"],
        "report": result["drift_json"],
    }
    return Ending(word, counts, paths, step, data)


def _numbers(numbers: Mapping[str, int]) -> list[str]:
    return [" ".join([str(number), *state.split("_")]) for state, number in numbers.items() if number]


def _status(result: Mapping[str, Any], run: Run) -> Ending:
    status = result["status"]
    states: Counter[str] = Counter()
    for each in status["hosts"]["classes"]:
        states[each["state"]] += len(each["hosts"])
    cluster = status["cluster"] or {}
    differing = (cluster.get("objects") or {}).get("differing") or []
    counts = [f"{number} {state}" for state, number in states.items()] or ["no host"]
    counts += [f"{counted(len(differing), 'object')} to be changed"] if differing else []
    counts += [f"{counted(len(status['attention']), 'thing')} to look at"] if status["attention"] else []
    hosts_differ = bool(set(states) & {"pending", "needs consent", "reboot"})
    lost = bool(set(states) & {"failed", "unreachable"}) or bool(cluster.get("error"))
    turn = _turn_first(cluster)
    if not status["attention"]:
        word, step = UNCHANGED, Step()
    elif lost:
        word, step = FAILED, Step(_FIX, _AGAIN)
    elif turn.text:
        word, step = FAILED, turn
    elif "refused" in states:
        word, step = REFUSED, Step("", f"{OWN}site", ("--diff",), check=True)
    elif hosts_differ or differing:
        word, step = PENDING, Step(_to_uncordon(cluster), f"{OWN}site")
    else:
        word, step = FAILED, Step(_FIX, _AGAIN)
    return Ending(word, ", ".join(counts), {}, step, {})


def _turn_first(cluster: Mapping[str, Any]) -> Step:
    """Return what comes before anything else is changed where a rollout has stopped, or still goes on."""
    stopped, going_on = (_held(cluster, *ways) for ways in ((FIX, FREE), (WAIT,)))
    if stopped:
        return Step(f"fix the failure of {names_of(stopped)} (or go back: {OWN}rollback), then", f"{OWN}upgrade")
    return Step(f"wait for the run that has the slot of {names_of(going_on)}, then", _AGAIN) if going_on else Step()


def _to_uncordon(cluster: Mapping[str, Any]) -> str:
    """Return what comes before pods can run where somebody has cordoned nodes with ``node_drain``."""
    nodes = _held(cluster, UNCORDON)
    return f"uncordon {names_of(nodes)} ({OWN}node_drain) once they may take pods, then" if nodes else ""


def _held(cluster: Mapping[str, Any], *ways: str) -> list[str]:
    return [node for each in held_nodes(cluster) if each.way in ways for node in each.nodes]


def _discover(result: Mapping[str, Any], run: Run) -> Ending:
    if not result["files"]:
        choose = Step(
            "give one as rdma_fabric_discover_machine and the number of its hosts as rdma_fabric_discover_hosts"
        )
        return Ending(_word(result, run), counted(len(result["recap"]), "machine"), {}, choose, {}, result["recap"])
    hosts = sum(len(each["hosts"]) for each in result["classes"])
    counts = [f"{counted(hosts, 'host')} in {counted(len(result['classes']), 'class', 'classes')}"]
    counts += [f"{counted(len(result['unread']), 'host')} not read"] if result["unread"] else []
    inventory, word = result["files"][0], _word(result, run)
    # What is planned can't be read yet, and has nothing to do with the hosts of an inventory.
    planned = bool(result["machine"])
    playbook = f"{OWN}{'preflight' if planned else 'preview'}"
    look = Step("look through the files, then", playbook, ("-i", inventory), inventory=not planned)
    step = Step("", _AGAIN) if word == PENDING else look
    return Ending(word, ", ".join(counts), {"files": inventory}, step, {}, result["recap"])


def _render(result: Mapping[str, Any], run: Run) -> Ending:
    word, folder = _word(result, run), result["output_dir"]
    changes = [f"{len(result[key])} {key}" for key in ("written", "removed") if result[key]]
    counts = ", ".join([counted(len(result["files"]), "file"), *changes])
    commit = "commit them"
    if any(map(is_secret, result["files"])):
        commit = "commit them without the files secret-*.yaml, which are in the clear"
    apply = Step(f"{commit}, or: " + shlex.join(["kubectl", "apply", "-k", folder]))
    return Ending(word, counts, {"files": folder}, Step("", _AGAIN) if word == PENDING else apply, {})


def _batch(result: Mapping[str, Any], run: Run) -> Ending:
    actions = Counter(str(row["action"]) for row in result.get("results") or [])
    counts = ", ".join(f"{number} {action}" for action, number in sorted(actions.items())) or "no object"
    word = _word(result, run)
    return Ending(word, f"objects: {counts}", {}, Step("", _AGAIN) if word == PENDING else Step(), {})


def _records(result: Mapping[str, Any], run: Run) -> Ending:
    done, lost = result["recorded"], result["missing"]
    counts = [f"{counted(len(done), 'host')} recorded", *([f"{len(lost)} not: {', '.join(lost[:6])}"] if lost else [])]
    counts += result["assumptions"]
    against = [f"attention: {each}" for each in result["contradicted"]]
    paths = {"files": str(PurePath(done[0]).parent)} if done else {}
    word = FAILED if lost else _word(result, run)
    if lost:
        return Ending(word, ", ".join(counts), paths, Step(_FIX, _AGAIN, (), run.check), {}, against)
    look = Step("name each file as rdma_fabric_recording of its host, then", f"{OWN}preview")
    return Ending(word, ", ".join(counts), paths, Step("", _AGAIN) if word == PENDING else look, {}, against)


def _support(result: Mapping[str, Any], run: Run) -> Ending:
    missing = result["attention"]
    counts = [result["summary"], *([f"{counted(len(missing), 'thing')} not read"] if missing else [])]
    paths = {"archive": result["dest"]}
    if missing:
        return Ending(FAILED, ", ".join(counts), paths, Step(f"send it as it is, or {_FIX}", _AGAIN), {})
    return Ending(UNCHANGED, ", ".join(counts), paths, Step("review it, then send it to those who help you"), {})


def _word(result: Mapping[str, Any], run: Run) -> str:
    return (PENDING if run.check else CHANGED) if result.get("changed") else UNCHANGED


_ONLY_LOOKS = ("preview", "verify")
_TAKES_BACK = ("teardown", "rollback")
_BEFORE_HOSTS = ("input", "ready")
_ENDINGS: Mapping[str, Callable[[Mapping[str, Any], Run], Ending]] = {
    "input": _input,
    "ready": _batch,
    "report": _report,
    "drift": _drift,
    "status": _status,
    "discover": _discover,
    "render": _render,
    "batch": _batch,
    "records": _records,
    "support": _support,
}
KINDS: Sequence[str] = tuple(_ENDINGS)
