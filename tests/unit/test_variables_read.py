# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable of the table changes something, in each role and playbook that is said to read it, and nowhere else.

What a role or a playbook makes of its variables is templated by Ansible, once without and once with each of them. What
its actions make of their arguments is asked of the actions where that needs neither a host nor a cluster.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, Mapping

import pytest
import yaml
from ansible import template
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.action.node_slot import _OF_THE_TURN as OF_TURN
from ansible_collections.rdma.fabric.plugins.lookup.run import LookupModule
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import SHOW_SECRETS, ActionSkipped
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import role
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.rows_hosts import ROWS as OF_THE_STATE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.rows_turns import HOOKS
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import REGISTERED
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.validated import VALIDATED
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX, Variable
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import action_of, run_action
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[2]
ROWS = list(TABLE.values())
NAME = re.compile(r"\brdma_fabric_\w+")
# Groups that a run makes, and what it leaves to the next one.
NO_VARIABLES = {
    f"rdma_fabric_{name}" for name in ("reboot", "give_back", "canary", "upgrade", "alone", "result")
} | REGISTERED
# What preflight reads for the role: the role itself sees what became of it.
THROUGH_PREFLIGHT = {row.name for row in OF_THE_STATE} - {"rdma_fabric_allow_reboot", "rdma_fabric_recording"}
# What the base of actions reads for every role.
THROUGH_EVERY_ACTION = {SHOW_SECRETS}
# What the lookup reads for the role, and fabric_hosts and fabric_rollout for the playbooks.
THROUGH_OTHER_HOSTS = {row.name for row in HOOKS} | {"rdma_fabric_allow_controller_node"}
# Parts of playbooks with the playbooks that import them.
IMPORTED = {
    "hosts": ("join", "nccl", "preview", "rollback", "site", "teardown", "upgrade", "verify"),
    "push": ("site", "upgrade"),
    "read": ("drift", "status"),
    "ready": ("join", "rollback", "site", "upgrade"),
    "reboots": ("join", "site", "teardown"),
    "in_turn": ("rollback", "teardown", "upgrade"),
    "report": ("join", "rollback"),
    "turns": ("rollback", "teardown", "upgrade"),
}
# Parts of roles that only another part includes, whose variables are checked with that.
INCLUDED = {"host/failed": "host/upgrade"}
MODULE = re.compile(r"rdma\.fabric\.(\w+)")
# The others are about what earlier plays have left.
LOOK = re.compile(
    r"(?:query|lookup)\('rdma\.fabric\.run', "
    r"'(hosts|hosts_pattern|run_dir|push|verify_level|verify_cabling|nccl_image|reboots_parallel|discover_machine)'\)"
)
AROUND = {"inventory_hostname": "gpu01", "groups": {"all": ["gpu01"], "rdma_fabric": ["gpu01"]}}


def files_of_readers() -> Iterator[tuple[str, Path]]:
    """Yield each role, part of a role and playbook with its file."""
    for path in (CHECKOUT / "roles").glob("*/tasks/*.yml"):
        role = path.parents[1].name
        part = role if path.stem == "main" else f"{role}/{path.stem}"
        yield INCLUDED.get(part, part), path
    for path in (CHECKOUT / "playbooks").glob("*.yml"):
        yield f"playbook {path.stem}", path
    for part, playbooks in IMPORTED.items():
        for name in playbooks:
            yield f"playbook {name}", CHECKOUT / "playbooks" / "parts" / f"{part}.yml"


class Asked(dict[str, Any]):
    """Variables of a task, and which of them are asked for."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        super().__init__(variables)
        self.names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


def names_in(path: Path) -> set[str]:
    """Return the variables that a file names, or that the actions of its tasks read."""
    asked = Asked({})
    made_by_actions(path, asked)
    return {*NAME.findall(path.read_text(encoding="utf-8")), *filter(NAME.fullmatch, asked.names)}


@lru_cache(maxsize=None)
def changes_something(path: Path, name: str) -> bool:
    """Tell whether a file comes to something else with a variable; several playbooks import the same part."""
    return name in TABLE and outcomes(path, **{name: other(TABLE[name])}) != outcomes_without_any(path)


def made_by_actions(path: Path, variables: Mapping[str, Any]) -> list[str]:
    """Return what actions make of variables: each option of a task that reads them, and each look at the run."""
    known = around(variables)
    said = []
    for name, arguments in tasks_with_variables(path):
        try:
            said.append(str(sorted(action_of(name, dict(arguments)).arguments_of(known).items(), key=itemgetter(0))))
        except ActionSkipped as skipped:
            said.append(str(skipped))
    for term in LOOK.findall(path.read_text(encoding="utf-8")):
        look = LookupModule(loader=DataLoader(), templar=SimpleNamespace(template=lambda value: value))
        said.append(str(look.run([term], known)))
    if isinstance(variables, Asked):
        variables.names |= known.names - {VALIDATED}
    return said


def around(variables: Mapping[str, Any]) -> Asked:
    """Return variables as a task has them in the turn of a host."""
    settings = {"label_nodes": True, "driver_source": "container"}
    validated = {"hosts": {"gpu01": {}}, "namespace": "fabric", "settings": settings}
    turn = {"file": "turns/gpu01.json", **dict.fromkeys((*OF_TURN.values(), "host", "canary", "links"), "")}
    of_controller = {"_rdma_fabric_turns": {"turns": {"gpu01": turn}, "cordoned": []}}
    hosts = dict(variables.get("hostvars") or {})
    hosts["localhost"] = {**hosts.get("localhost", {}), **of_controller}
    known = {"hostvars": hosts, VALIDATED: {"spec": validated}, "_rdma_fabric_host_slot": {"turn": turn}}
    return Asked({**variables, **known, **AROUND})


@lru_cache(maxsize=None)
def tasks_with_variables(path: Path) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the tasks of a file whose actions read variables, each with its arguments."""

    def below(node: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for value in node if isinstance(node, list) else ():
            yield from below(value)
        for key, value in node.items() if isinstance(node, dict) else ():
            match = MODULE.fullmatch(key)
            if match and value.get("role_variables"):
                yield match[1], value
            yield from below(value)

    return tuple(below(yaml.safe_load(path.read_text(encoding="utf-8"))))


@lru_cache(maxsize=None)
def templates(path: Path) -> tuple[tuple[str, dict[str, str]], ...]:
    """Return each text of a file that names a variable, with the variables of its task that it may stand on."""
    found: list[tuple[str, dict[str, str]]] = []
    # Full names of Ansible's own plugins need its finder of collections, which only its programs install.
    text = path.read_text(encoding="utf-8").replace("ansible.builtin.inventory_hostnames", "inventory_hostnames")
    collect(yaml.safe_load(text), {}, found)
    return tuple(found)


def trusted(text: str) -> str:
    """Return text that ansible-core templates; releases from 2.19 on want to be told so."""
    marked: str = getattr(template, "trust_as_template", str)(text)
    return marked


def collect(node: Any, around: dict[str, str], found: list[tuple[str, dict[str, str]]]) -> None:
    if isinstance(node, list):
        for each in node:
            collect(each, around, found)
    elif isinstance(node, dict):
        inner = {**around, **{key: trusted(str(value)) for key, value in (node.get("vars") or {}).items()}}
        for key, value in node.items():
            # They count where they are used; what an imported playbook is given is used in its own file.
            if key == "vars" and "ansible.builtin.import_playbook" not in node:
                continue
            condition = key in {"when", "that"} and isinstance(value, (str, list))
            for text in [value] if isinstance(value, str) else value if condition else []:
                found.append((f"{{{{ {text} }}}}" if condition else text, inner))
            collect(value, inner, found)


@lru_cache(maxsize=None)
def outcomes_without_any(path: Path) -> list[str]:
    """Return what each text of a file comes to without a variable of the table."""
    return outcomes(path)


def outcomes(path: Path, **given: Any) -> list[str]:
    """Return what each text of a file comes to with these variables; what they can't tell alone is an error's kind.

    A text that names none of them, nor is in a task whose variables do, comes to what it does without.
    """
    controller = dict(given)
    variables = {
        "hostvars": {"localhost": controller, "gpu01": given},
        "inventory_hostname": "gpu01",
        "groups": {"all": ["gpu01"], "rdma_fabric": ["gpu01"]},
        "omit": "__omit__",
        **given,
    }
    said = []
    for place, (text, around) in enumerate(templates(path)):
        if given and given.keys().isdisjoint(NAME.findall(" ".join((text, *around.values())))):
            said.append(outcomes_without_any(path)[place])
            continue
        try:
            said.append(
                str(template.Templar(loader=DataLoader(), variables={**around, **variables}).template(trusted(text)))
            )
        except Exception as error:  # of a text about something else, such as what a task before registered
            said.append(type(error).__name__)
    return [*said, *made_by_actions(path, variables)]


def other(row: Variable) -> Any:
    """Return a value that the row takes, and that is not what it has unless given."""
    if row.choices:
        return next(choice for choice in reversed(row.choices) if choice != row.default)
    if row.least is not None:
        return 1 if row.type == "float" else int(row.least) + 7
    samples: dict[str, Any] = {"str": "another", "path": "/another", "list": ["another"], "dict": {"another": 1}}
    return samples.get(row.type, not (row.short == "nfd" or row.default))


def test_each_variable_is_read_where_the_table_says_and_changes_something_there() -> None:
    read: set[tuple[str, str]] = set()
    idle: set[tuple[str, str]] = set()
    for reader, path in files_of_readers():
        for name in names_in(path) - NO_VARIABLES:
            (read if changes_something(path, name) else idle).add((name, reader))
    told = {(row.name, reader) for row in ROWS for reader in row.readers}
    told -= {(name, "host") for name in THROUGH_PREFLIGHT}
    told = {(name, reader) for name, reader in told if name not in THROUGH_EVERY_ACTION or (name, reader) in read}
    told = {(name, reader) for name, reader in told if name not in THROUGH_OTHER_HOSTS}
    idle = {(name, reader) for name, reader in idle - read if (name, reader) in told or name not in TABLE}
    none_of(
        [
            *(
                f"{name}: {reader} is said to read it, and nothing changes there with it"
                for name, reader in told - read
            ),
            *(f"{name}: {reader} reads it, and the table does not say so" for name, reader in read - told),
            *(f"{name}: {reader} names it, and it is not a variable of the table" for name, reader in idle - told),
        ]
    )


def test_empty_text_is_not_given_in_roles_and_playbooks() -> None:
    """Options that are left out without their variable get the text, and their actions take it as not given."""
    for_actions = re.compile(r"default\((?:omit|\[\]|\{\})\)")
    found = []
    for path in sorted({path for _reader, path in files_of_readers()}):
        names = names_in(path) & set(TABLE)
        before, texts = outcomes_without_any(path), [text for text, _around in templates(path)]
        texts += [f"what {name} makes of its variables" for name, _arguments in tasks_with_variables(path)]
        texts += [f"what is looked up of a run: {term}" for term in LOOK.findall(path.read_text(encoding="utf-8"))]
        for name, given in ((name, given) for name in names for given in ("", " ")):
            after = outcomes(path, **{name: given})
            found += [
                f"{name}: {given!r} counts in {path.relative_to(CHECKOUT)}: {text}"
                for text, was, now in zip(texts, before, after)
                if was != now and not (for_actions.search(text) and not now.strip())
            ]
    none_of(sorted(set(found)))


@pytest.mark.parametrize("row", [row for row in ROWS if "preflight" in row.readers], ids=lambda row: row.short)
def test_what_preflight_reads_changes_its_result(row: Variable) -> None:
    """Another spec, another violation or another notice."""
    value = {
        "set": "No Name",
        "reboot_parallel": "none",
        "max_unavailable": "none",
        "failure_domain": "no key",
        "hosts": ["another"],
    }.get(row.short, other(row))
    before, after = run_action("fabric_input", {}), run_action("fabric_input", {row.short: value})
    assert after != before


@pytest.mark.parametrize("row", OF_THE_STATE, ids=lambda row: row.short)
def test_what_preflight_reads_of_a_host_changes_its_result(row: Variable) -> None:
    value = {"netns_mode": "exclusive", "recording": ["a"]}.get(row.short, other(row))

    def result(**variables: Any) -> dict[str, Any]:
        return run_action("fabric_input", {"hosts": ["gpu01"]}, task_vars={"hostvars": {"gpu01": variables}})

    assert result(**{row.name: value}) != result()


@pytest.mark.parametrize("row", HOOKS, ids=lambda row: row.short)
def test_the_hooks_of_a_stage_are_those_that_the_host_has_for_it(row: Variable) -> None:
    look = LookupModule(loader=DataLoader(), templar=SimpleNamespace(template=lambda value: value))
    stages = (each.short.partition("_")[2] for each in HOOKS)
    task_vars = {"inventory_hostname": "gpu01", "hostvars": {"gpu01": {row.name: "/a.yml, /b.yml"}}}
    found = {stage: look.run(["hooks"], {**task_vars, "host_stage": stage}) for stage in stages}
    of_its_stage = {"stage": row.short.partition("_")[2], "node": "gpu01", "reason": ""}
    assert [hook for hooks in found.values() for hook in hooks] == [
        {**of_its_stage, "file": file} for file in ("/a.yml", "/b.yml")
    ]


def test_every_option_that_a_variable_goes_into_is_read_by_its_action() -> None:
    none_of(
        f"{module}: {option} gets a variable, and the action does not read it"
        for _reader, path in files_of_readers()
        for module, option in [
            *options_with_variables(yaml.safe_load(path.read_text(encoding="utf-8"))),
            *(
                (name, option)
                for name, arguments in tasks_with_variables(path)
                for option in of_variables(name, arguments)
            ),
        ]
        if not reads(module, option)
    )


def options_with_variables(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the options of our modules that a variable of the table goes into."""
    for each in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        yield from options_with_variables(each)
    for key, options in node.items() if isinstance(node, dict) else ():
        match = MODULE.fullmatch(str(key))
        for option, value in options.items() if match and isinstance(options, dict) else ():
            if match and NAME.search(str(value)):
                yield match[1], option


def reads(module: str, option: str) -> bool:
    """Return whether an action reads an option: by its name, or with the authentication or resources as a whole."""
    together = {"kubeconfig", "context"}
    if module == "fabric_input":
        # The archive for whoever helps looks into the namespace of an input that is not valid, too.
        together |= {row.short for row in ROWS if set(row.readers) - {"playbook support"} == {"preflight"}}
    source = (CHECKOUT / "plugins" / "action" / f"{module}.py").read_text(encoding="utf-8")
    # Where it is said which variable goes into it, and where that is done.
    said = source.count(f'"{option}"') - source.count(f'"{option}": "{PREFIX}')
    return option in together or said > 0


def of_variables(name: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the options of a task with the variables of the table that go into them."""
    if name == "rdma_host":
        return {option: names[-1] for option, names in role.OPTIONS.items()}
    return action_of(name, dict(arguments)).variables_read()


def test_what_a_role_hands_on_when_nothing_is_given_is_what_the_table_says() -> None:
    """A default of a module that differs from the documented one would count, as it did for the time to wait."""
    none_of(
        f"{row.name}: {module} takes {of_module!r} for {option}, and {row.default!r} is documented"
        for _reader, path in files_of_readers()
        for module, option, row, of_module in [
            *handed_on(yaml.safe_load(path.read_text(encoding="utf-8"))),
            *handed_on_by_actions(path),
        ]
        # Preflight only checks what others read.
        if module not in ("fabric_input", "fabric_seal")
        and row.default is not None
        and (of_module or None) != (row.default or None)
    )


def handed_on(node: Any) -> Iterator[tuple[str, str, Variable, Any]]:
    """Yield the options that are left out with their variable, with the module's own default."""
    for each in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        yield from handed_on(each)
    for key, options in node.items() if isinstance(node, dict) else ():
        match = MODULE.fullmatch(str(key))
        for option, value in options.items() if match and isinstance(options, dict) else ():
            names = NAME.findall(str(value))
            if match and names and "default(omit)" in value and names[0] in TABLE:
                yield match[1], option, TABLE[names[0]], module_default(match[1], option)


def handed_on_by_actions(path: Path) -> Iterator[tuple[str, str, Variable, Any]]:
    """Yield the same of the options that actions make of variables, with what they take without."""
    for module, arguments in tasks_with_variables(path):
        read = {option: TABLE[name] for option, name in of_variables(module, arguments).items() if name in TABLE}
        # Only a plan that is wanted is sealed.
        made = action_of(module, dict(arguments)).arguments_of(around({})) if module != "fabric_seal" else {}
        yield from (
            (module, option, row, made.get(option, module_default(module, option))) for option, row in read.items()
        )


@lru_cache(maxsize=None)
def documented(module: str) -> dict[str, Any]:
    text = (CHECKOUT / "plugins" / "modules" / f"{module}.py").read_text(encoding="utf-8")
    block = re.search(r'^DOCUMENTATION = r?"""\n(.*?)^"""', text, re.MULTILINE | re.DOTALL)
    options: dict[str, Any] = yaml.safe_load(block[1])["options"] if block else {}
    return options


def module_default(module: str, option: str) -> Any:
    return documented(module).get(option, {}).get("default")
