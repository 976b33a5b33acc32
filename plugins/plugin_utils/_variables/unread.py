# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds variables of this collection that nothing would read: misspelt ones, those of hosts that only the controller
reads, those of the controller that only hosts read, and those of hosts that do not belong to the fabric.

Ansible passes all of them over in silence, and a run without the manifests that were meant would remove what they made.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Iterable, Mapping

from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, HOST_VARIABLES
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.keys import KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.place import Found, own_place
from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Violation,
    folded,
    named,
    nearest,
)

from .rows_cluster import RESOURCE_ROWS
from .table import OF_CONTROLLER, OF_HOSTS, TABLE
from .validated import validated_of
from .variable import PREFIX

SOURCE = "variables"
# Read once per run, on the controller: cluster objects, the proof, the report, the discovery, and which hosts belong
# to the fabric.
CONTROLLER_VARIABLES = tuple(row.name for row in OF_CONTROLLER)
INPUTS = tuple(
    [f"{PREFIX}{name}" for name in ("manifests", "helm_values", "helm_values_files", "helm_set")]
    + [row.name for row in RESOURCE_ROWS]
)
"""What only preflight reads of the cluster objects."""
_RESULT = f"{PREFIX}result"
KNOWN_VARIABLES = frozenset((*TABLE, *HOST_VARIABLES, _RESULT))
REGISTERED = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "chart_result",
        "cluster_rendered",
        "cluster_result",
        "discover_facts",
        "discover_result",
        "drift_result",
        "hook",
        "host_join",
        "host_result",
        "hosts_result",
        "nccl_result",
        "preflight_result",
        "record_result",
        "render_result",
        "report_result",
        "status_result",
        "support_recorded",
        "support_result",
        "verify_result",
    )
)
"""What roles and playbooks register for those that come after them; names that nobody else needs begin with ``_``."""
# Those that ask for something on a host. A consent, or the address that Ansible connects to, asks for nothing.
SETTINGS = tuple(name for name in HOST_VARIABLES if name.startswith(PREFIX) and name not in CONSENTS.values())
# Read by the role rdma.fabric.host itself, wherever they are set.
_OF_THE_ROLE = (CONSENTS["reboot"], f"{PREFIX}recording")
PATTERN = f"{PREFIX}hosts_pattern"
DEFAULT_PATTERN = "rdma_fabric"
"""The pattern of the fabric's hosts unless another one is given; a fabric without hosts is none of its mistakes."""
_NEAR = 0.8
_PART_OF_PREFIX = re.compile(r"^(?:rdma_?(?:fabric_?)?|fabric_)")
_NONE_OF_OURS = "is not a variable of this collection"
# Where Ansible puts the words of an -e that are not NAME=VALUE.
_WORDS = "_raw_params"
_GROUP = PREFIX.rstrip("_")
# Of an inventory; in a file of group_vars or host_vars, or below a host, each is a variable like any other.
_VARS = "vars"
_SECTIONS = (_GROUP, "all", _VARS)
_ONLY_LOCALHOST = "is set for localhost, which is not a host of the fabric, and for none of its hosts: nothing reads it"


class VariableSurvey:
    """Looks at the variables of one host after the other and says what would be passed over.

    ``controller`` holds the variables of the controller, ``given`` the names of those that reached it some other way.
    Values are asked for only where both sides have one, and made plain by ``convert`` before they are compared.
    """

    def __init__(self, controller: Mapping[str, Any], given: Collection[str], convert: Callable[[Any], Any]) -> None:
        self._controller = controller
        self._given = given
        self._convert = convert
        self._only_hosts: dict[str, list[str]] = {}
        self._differing: dict[str, list[str]] = {}
        self._unknown: set[str] = set()
        self._nested: dict[str, str] = {}
        self._looked = False
        # Of a host variable that a host has as well, the host's counts.
        self._only_controller = [row.name for row in OF_HOSTS if row.name in controller]
        self._note_unknown(controller)

    def look(self, host: str, variables: Mapping[str, Any]) -> None:
        """Take the variables of one host of the fabric into account."""
        self._note_unknown(variables)
        self._looked = True
        self._only_controller = [name for name in self._only_controller if name not in variables]
        for name in CONTROLLER_VARIABLES:
            if name not in variables:
                continue
            if name in self._controller:
                if self._differs(name, variables):
                    self._differing.setdefault(name, []).append(host)
            elif name not in self._given:
                self._only_hosts.setdefault(name, []).append(host)

    def findings(self) -> tuple[list[Violation], list[Notice]]:
        """Return what would be ignored, and variables that look like this collection's and are not."""
        violations = [self._misplaced(*entry, "is not set for localhost") for entry in self._only_hosts.items()]
        violations += [self._misplaced(*entry, "differs from localhost's") for entry in self._differing.items()]
        notices = [
            Notice(SOURCE, name, _ONLY_LOCALHOST, "set it for the hosts, as in group_vars/rdma_fabric")
            for name in (self._only_controller if self._looked else ())
            if self._asks_for_something(name)
        ]
        if _WORDS in self._controller:
            violations.append(_no_variables(str(self._controller[_WORDS])))
        violations += [_of_key(*entry) for entry in sorted(self._nested.items())]
        for name in sorted(self._unknown):
            own = _as_ours(name)[len(PREFIX) :]
            meant = nearest(
                own, (known[len(PREFIX) :] for known in sorted(KNOWN_VARIABLES) if known.startswith(PREFIX)), _NEAR
            )
            if meant:
                hint = meant.replace("mean ", f"mean {PREFIX}", 1)
                violations.append(Violation(SOURCE, name, _NONE_OF_OURS, hint))
            else:
                place = own_place(own, "", Found(keys=KEYS))
                notices.append(Notice(SOURCE, name, f"{_NONE_OF_OURS}, nothing reads it", place))
        return violations, notices

    def _note_unknown(self, variables: Mapping[str, Any]) -> None:
        known = KNOWN_VARIABLES | REGISTERED
        for name in map(str, variables):  # YAML has other keys too
            ours = _as_ours(name)
            # Somebody's own rdma_interfaces may be what rdma_fabric_interfaces is made of.
            if name not in known and ours.startswith(PREFIX) and (name.startswith(PREFIX) or ours not in variables):
                self._unknown.add(name)
        for section in _SECTIONS:
            if section in variables:
                found = [name for name in self._names_below(section, variables) if name in TABLE]
                self._nested.update({name: section for name in found if section == _VARS or name not in variables})

    def _names_below(self, section: str, variables: Mapping[str, Any]) -> Iterable[str]:
        """Return the names of variables that stand below one with the name of a section, with their prefix or not."""
        try:
            value = self._convert(variables[section])
        except AnsibleError:
            return []
        values = [value, value.get(_VARS)] if isinstance(value, Mapping) else []
        names = [str(key) for each in values if isinstance(each, Mapping) for key in each]
        return [*names, *(f"{PREFIX}{name}" for name in names if section == _GROUP)]

    def _differs(self, name: str, variables: Mapping[str, Any]) -> bool:
        try:
            return bool(self._convert(variables[name]) != self._convert(self._controller[name]))
        except AnsibleError:
            return False  # it makes no sense on one of the two sides, so nobody meant it to be read there

    def _asks_for_something(self, name: str) -> bool:
        try:
            return bool(self._convert(self._controller[name])) != (TABLE[name].default is True)
        except AnsibleError:
            return False

    @staticmethod
    def _misplaced(name: str, hosts: list[str], how: str) -> Violation:
        problem = f"is set for {named(hosts)} and {how}, where it is read: it would be ignored"
        return Violation(SOURCE, name, problem, "set it in group_vars/all, for localhost, or with -e")


def around_the_fabric(
    pattern: str, hosts: Collection[str], hostvars: Mapping[str, Mapping[str, Any]], controller: Collection[str]
) -> tuple[list[Violation], list[Notice]]:
    """Return what is wrong about which hosts ``pattern`` matched, and inventory hosts that were probably meant too.

    A pattern of the user's own may leave hosts out, but not match nothing. ``controller`` has the names of variables
    that localhost has as well: they are set for everybody, so on a host they say nothing about that host.
    """
    if not pattern.strip():
        problem = "is empty, which Ansible takes for every host of the inventory"
        return [
            Violation(SOURCE, PATTERN, problem, f"name a group or hosts, or leave it out for {DEFAULT_PATTERN}")
        ], []
    if not hosts and pattern != DEFAULT_PATTERN:
        problem = f"is {pattern!r}, which matches no host of the inventory"
        return [Violation(SOURCE, PATTERN, problem, "ansible-inventory --graph shows its groups and hosts")], []
    outside: list[str] = []
    settings: set[str] = set()
    looked_for = [name for name in SETTINGS if not hosts or name not in controller]
    for host in sorted(set(hostvars).difference(hosts)):
        variables = hostvars[host]
        found = [name for name in looked_for if name in variables]
        if found:
            outside.append(host)
            settings.update(found)
    if not outside:
        return [], []
    asked = f"{', '.join(sorted(settings))} of {named(outside)}"
    if hosts:
        problem = f"is {pattern!r}, which leaves hosts out: nothing reads {asked}"
        return [], [Notice(SOURCE, PATTERN, problem, "right when the run is for the others only")]
    problem = f"is {pattern!r}, which matches no host of the inventory: nothing would read {asked}"
    hint = f"put the hosts into the group {DEFAULT_PATTERN}, or give their own group as {PATTERN}"
    return [Violation(SOURCE, PATTERN, problem, hint)], []


def not_of_inventory(
    of_task: Mapping[str, Any], of_inventory: Mapping[str, Any], template: Callable[[Any], Any]
) -> list[str]:
    """Return the variables of hosts that a task has and that preflight did not read, as it looks at the inventory's.

    Variables of a role, a play, a block or a task are such. What asks for nothing is as good as not given.
    ``template`` makes a value plain.
    """
    return [
        name
        for name in (*SETTINGS, *CONSENTS.values())
        if name in of_task
        and name not in _OF_THE_ROLE
        and _as_read(name, template(of_task[name]))
        != _as_read(name, template(of_inventory[name]) if name in of_inventory else None)
    ]


def refuse_unseen(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
    """Raise InvalidInput where a role is given an input that preflight reads for it and did not see."""
    seen = validated_of(task_vars).get("given")
    if seen is None:
        return
    names = [name for name in INPUTS if name in task_vars and name not in seen and _asks(task_vars[name], template)]
    problem = "is set where only this role sees it, in its own variables: preflight, which reads it, did not"
    hint = "set it for the play, in the inventory, with -e, or for the role rdma.fabric.preflight"
    if names:
        raise InvalidInput([Violation(SOURCE, name, problem, hint) for name in names])


def _asks(value: Any, template: Callable[[Any], Any]) -> bool:
    try:
        found = template(value)
    except AnsibleError:
        return False  # it makes no sense here, so nobody meant it to be read
    return bool(found.strip() if isinstance(found, str) else found)


def _as_read(name: str, value: Any) -> Any:
    """Return a value as the desired state takes it: a consent that is withheld is none."""
    return None if value is False and name in CONSENTS.values() else value


def _of_key(name: str, section: str) -> Violation:
    problem = f"is a key of a variable {section}, which nothing reads"
    hint = f"make it a variable of its own, {name}: VALUE, beside {section}"
    if section == _VARS:
        hint = f"write {name}: VALUE without {section} above it: only a group of an inventory has this section"
    return Violation(SOURCE, name, problem, hint)


def _no_variables(words: str) -> Violation:
    # They may be the end of a password.
    problem = f"has words that are not NAME=VALUE ({len(words.split())}), which Ansible passes over"
    hint = 'write no blanks around =, and JSON for a value with blanks: -e \'{"NAME": "VALUE"}\''
    return Violation("extra variables (-e)", "", problem, hint)


def _as_ours(name: str) -> str:
    """Return a name as variables of this collection are written; one without all of the prefix only if it is known."""
    if name.startswith(PREFIX):
        return name
    plain = folded(name)
    whole = f"{PREFIX}{_PART_OF_PREFIX.sub('', plain)}"
    return whole if whole != f"{PREFIX}{plain}" and whole in KNOWN_VARIABLES else plain
