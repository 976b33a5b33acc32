# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run was asked for and did not find: inventories, hosts, anything to do.

Ansible passes all of it over: it warns of an inventory that it cannot read, skips plays without hosts, and ends well.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Collection, Iterable, Mapping, Sequence

import yaml
from ansible.errors import AnsibleError
from ansible.inventory.manager import IGNORED, split_host_pattern
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import dns_subdomain
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation, named, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import DEFAULT_PATTERN, PATTERN, SOURCE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

from .run_hosts import CONTROLLER, taking_part

# Ansible's own default, which nobody asked for: a run about the cluster alone needs no inventory.
_DEFAULT_INVENTORY = "/etc/ansible/hosts"
_DOCUMENTS = (".yml", ".yaml", ".json")
_SECTIONS = ("hosts", "children", "vars")
_GROUPS = re.compile(rb"^ +(?:hosts|children):", re.MULTILINE)
_PLAYS = re.compile(rb"^- ", re.MULTILINE)
# Linux gives the name of a file 255 bytes, and files of hosts have endings (.json.gz).
_LONGEST_NAME = 240
_GRAPH = "ansible-inventory -i INVENTORY --graph shows its groups and hosts"


def not_found(
    pattern: str, hosts: Sequence[str], asked_of_cluster: bool, task_vars: Mapping[str, Any], loader: DataLoader
) -> list[Violation]:
    """Return what the run was asked for and did not find, from the magic variables of a task.

    ``hosts`` are those that ``pattern`` matches. ``asked_of_cluster``: there is input for the cluster.
    """
    groups = task_vars.get("groups") or {}
    limit = task_vars.get("ansible_limit")
    violations = unread_inventories(task_vars.get("ansible_inventory_sources") or (), groups.get("all") or (), loader)
    if violations:
        return violations
    if hosts:
        return _outside_of_limit(pattern, hosts, groups, limit, loader)
    if pattern == DEFAULT_PATTERN and pattern in groups:
        problem = f"the group {pattern} of the inventory has no host"
        hint = "put the hosts into it, or leave the group out for the cluster alone"
        return [Violation(SOURCE, PATTERN, problem, hint)]
    if not asked_of_cluster and pattern == DEFAULT_PATTERN:
        problem = (
            f"there is nothing to do: the inventory has no host in the group {pattern}, and neither manifests, Helm "
            "values nor resources are given for the cluster"
        )
        return [Violation(SOURCE, PATTERN, problem, _GRAPH)]
    return []


def _outside_of_limit(
    pattern: str, hosts: Sequence[str], groups: Mapping[str, Iterable[str]], limit: str | None, loader: DataLoader
) -> list[Violation]:
    # A limit that names localhost is for the cluster alone.
    if not limit or taking_part([*hosts, CONTROLLER], groups, limit, loader):
        return []
    problem = f"leaves none of the fabric's hosts in the run, which are {named(list(hosts))} ({PATTERN} is {pattern!r})"
    return [Violation(f"--limit {limit}", "", problem, f"name one of them, or {CONTROLLER} for the cluster alone")]


def unusable_names(hosts: Iterable[str]) -> list[Violation]:
    """Return the hosts whose names no play would find, or no file of the run directory can have.

    A line of an INI inventory in one of YAML makes such a name: ``gpu-01 ansible_host=192.0.2.1:``.
    """
    violations = []
    for host in hosts:
        problem, hint = "", "give the host a name of its own, its address as ansible_host, and variables on lines below"
        if split_host_pattern(host) != [host]:
            problem = "is a name that Ansible reads as several, so that no play finds the host"
        elif "/" in host:
            problem = "is a name with a slash, which no file of the run directory can have"
        elif len(host.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
            problem = f"is a name of more than {_LONGEST_NAME} bytes, which no file of the run directory can have"
        elif host in _SECTIONS:
            problem = "is a section of a group, which became a host because it is indented as one"
            hint = f"write {host}: in the column of hosts:, and what is below it as much to the left"
        if problem:
            violations.append(Violation(f"host {one_line(host)}", "", problem, hint))
    return violations


def shared_nodes(nodes: Mapping[str, str]) -> list[Violation]:
    """Return the nodes that several hosts have, from the node of each host.

    A slot is a node's, so their turns would go on at the same time, and all but one would be without a drain.
    """
    hosts: dict[str, list[str]] = {}
    for host, node in nodes.items():
        hosts.setdefault(node, []).append(host)
    hint = "give each host the name of its own node, or leave it out where the inventory has that name"
    return [
        Violation(f"{PREFIX}node_name", "", f"{named(sharing)} have the same node, {node}", hint)
        for node, sharing in hosts.items()
        if len(sharing) > 1
    ]


def unlike_nodes(nodes: Mapping[str, str]) -> tuple[list[Violation], list[Notice]]:
    """Return what no node can be called, from the node of each host: names that were given, and hosts without one.

    A host whose node nobody asks for may have any name.
    """
    wrong = {host: node for host, node in nodes.items() if dns_subdomain(node)}
    hint, unnamed = "give it as kubectl get nodes names it", [host for host, node in wrong.items() if host == node]
    violations = [
        Violation(
            f"host {one_line(host)}: {PREFIX}node_name", "", f"{node!r} cannot be the name of a Kubernetes node", hint
        )
        for host, node in wrong.items()
        if host != node
    ]
    problem = f"no node of Kubernetes can be called {named(unnamed)}"
    hint = f"set {PREFIX}node_name to its name as kubectl get nodes has it; it has no capital letters and no _"
    return violations, [Notice("hosts", "", problem, hint)] if unnamed else []


def unread_inventories(sources: Iterable[str], hosts: Collection[str], loader: DataLoader) -> list[Violation]:
    """Return the inventories that were asked for and could not be read; ``hosts`` are all that the inventory has.

    Lists of hosts (``-i host,``) are read always. A file that holds no document of its format is named with the place
    where it breaks off. Where there is no host at all, every inventory is named.
    """
    files = [source for source in sources if "," not in source and source != _DEFAULT_INVENTORY]
    paths = [path for source in files for path in _files_of(Path(source))]
    whole = len(files) == 1 and bool(hosts) and not Path(files[0]).is_dir()
    violations = [violation for path in ([] if whole else paths) for violation in _wrong_inventory(path, loader)]
    if violations or hosts or not files:
        return violations
    problem = "has no host"
    hint = f"name {CONTROLLER} in it for the cluster alone; {_GRAPH}"
    return [Violation(f"inventory {source}", "", problem, hint) for source in files]


def _files_of(source: Path) -> list[Path]:
    """Return an inventory, or the documents with groups in a folder, where Ansible tries all that stands there."""
    if not source.is_dir():
        return [source]
    return [
        path
        for path in sorted(source.rglob("*"))
        if path.suffix in _DOCUMENTS
        and not any(IGNORED.search(os.fsencode(part)) for part in path.relative_to(source).parts)
        and _has_groups(path)
    ]


def _has_groups(path: Path) -> bool:
    try:
        text = path.read_bytes()
    except OSError:  # a folder, or what nobody may read
        return False
    return bool(_GROUPS.search(text)) and not _PLAYS.search(text)


def _wrong_inventory(path: Path, loader: DataLoader) -> list[Violation]:
    """Return why an inventory file cannot be read, nothing when it can or is no document."""
    source, another = f"inventory {path}", "fix it, or name another one with -i"
    if not path.exists():
        return [Violation(source, "", "does not exist", another)]
    if path.suffix not in _DOCUMENTS or not path.is_file():
        return []
    try:
        found = loader.load_from_file(str(path), cache="none", unsafe=True)
    except AnsibleError as error:
        return [Violation(source, "", why_unreadable(error), another)]
    if not found or (isinstance(found, Mapping) and "plugin" in found):
        return []
    if not isinstance(found, Mapping):
        return [Violation(source, "", "is not a mapping of groups", f"begin with a group, such as {DEFAULT_PATTERN}:")]
    return [violation for name, group in found.items() for violation in _wrong_group(source, str(name), group)]


def _wrong_group(source: str, path: str, group: Any) -> list[Violation]:
    """Return what Ansible refuses a whole inventory for: sections that are no mappings, and hosts that are numbers."""
    violations = []
    for section in _SECTIONS if isinstance(group, Mapping) else ():
        found, place = group.get(section), f"{path}.{section}"
        if isinstance(found, list):
            hint = "write each name on a line of its own with a colon behind it, and without a -"
            violations.append(Violation(source, place, "is a list, not a mapping", hint))
        elif section == "hosts" and isinstance(found, Mapping):
            numbers = [str(name) for name in found if not isinstance(name, str)]
            problem = "is read as a number or date, not as the name of a host"
            violations += [Violation(source, f"{place}.{name}", problem, "quote it") for name in numbers]
        elif section == "children" and isinstance(found, Mapping):
            for name, child in found.items():
                violations += _wrong_group(source, f"{place}.{name}", child)
    return violations


def why_unreadable(error: AnsibleError) -> str:
    """Return why a document cannot be read, with the line at which it breaks off."""
    return f"cannot be read{_place_of(error)}: {one_line(str(error))}"


def _place_of(error: BaseException | None) -> str:
    """Return the line at which a document breaks off, as the YAML parser below an error has it."""
    while error is not None:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            return f" from line {error.problem_mark.line + 1} on"
        error = error.__cause__ or error.__context__
    return ""
