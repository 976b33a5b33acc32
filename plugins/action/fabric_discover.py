# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes an inventory from facts, on the controller. Its documentation is in ``plugins/modules/fabric_discover.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Mapping

import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, FabricAction, plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold_names
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.files import (
    MARKER,
    POLICY_FILE,
    files_of,
    notices_of,
    recap,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.presets import MACHINES, machine_named, rows
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.rails import (
    Fleet,
    Options,
    classified,
    planned,
    survey,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import foresee_writable_directory, write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import fabric_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts

REGISTERED = "rdma_fabric_discover_facts"
POLICY = "rdma_fabric_nic_cluster_policy"
_WITH_POLICIES = (
    "rdma_fabric_manifests",
    "rdma_fabric_helm_values",
    "rdma_fabric_helm_values_files",
    "rdma_fabric_helm_set",
)
_LIST = "list"
_NO_FILES: Mapping[str, Any] = {
    "changed": False,
    "machine": "",
    **{name: [] for name in ("files", "classes", "without_rails", "unread", "notices")},
}
_MTU = range(1280, 65536)  # as the host variables take it


class ActionModule(FabricAction):
    """Writes inventory, group_vars, host_vars and policy from the facts of a fleet."""

    variables: ClassVar[Mapping[str, str]] = {
        "machine": "rdma_fabric_discover_machine",
        "count": "rdma_fabric_discover_hosts",
        "dest": "rdma_fabric_discover_dir",
        "overwrite": "rdma_fabric_discover_overwrite",
        "mtu": "rdma_fabric_discover_mtu",
        "vfs": "rdma_fabric_discover_vfs",
        "rename": "rdma_fabric_discover_rename",
    }

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and the hosts of the fabric."""
        _pattern, hosts = fabric_of(Given(task_vars, self.templated), task_vars, self._loader)
        return {**super().role_arguments(task_vars), "hosts": hosts}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Sort what the hosts have into classes and write the files; see the module's documentation."""
        machine = machine_named(arguments["machine"] or "")
        if machine == _LIST:
            return {**_NO_FILES, "recap": listed()}
        options = options_of(arguments, machine)
        variables = variables_of_hosts(task_vars)
        folder = Path(arguments["dest"]).expanduser().absolute()
        # A class keeps the name of its group although not every host of that was read now.
        own = {path.stem for path in written_earlier(folder, "group_vars")}
        groups = {name: hosts for name, hosts in (task_vars.get("groups") or {}).items() if name not in own}
        unread: list[str] = []
        if machine:
            fleet = classified(planned(machine, names_of(machine, arguments)), options, groups)
        else:
            facts = facts_of(arguments["hosts"], arguments["facts"] or {}, variables)
            unread = [host for host in arguments["hosts"] if host not in facts]
            fleet = survey(facts, options, groups)
        if not fleet.classes:
            raise ActionFailure(nothing_found(fleet, unread))
        policy_from = policy_elsewhere(variables.get("localhost") or {}, folder)
        files = {folder / name: text for name, text in files_of(fleet, policy_from).items()}
        before = {path: read_text(path) for path in files}
        stale = {path: text for path, text in files.items() if before[path] != text}
        if not arguments["overwrite"]:
            stale = {path: text for path, text in stale.items() if not says_the_same(before[path], text)}
        kept = [path for path in stale if before[path] is not None]
        if kept and not arguments["overwrite"]:
            raise ActionFailure(would_overwrite(kept), files=[str(path) for path in kept], **self._diff(stale, before))
        for path, text in stale.items():
            foresee_writable_directory(path.parent)
            if not self.check_mode:
                write_if_different(path, text)
        return {
            "changed": bool(stale),
            "machine": machine,
            "files": [str(path) for path in files],
            "classes": [
                {
                    "group": each.name,
                    "hosts": [host.name for host in each.hosts],
                    "rails": sum(slot.rail for slot in each.slots),
                }
                for each in fleet.classes
            ],
            "without_rails": [host.name for host in fleet.without],
            "unread": unread,
            "recap": recap(fleet, str(folder), unread, policy_from=policy_from),
            "notices": [*notices_of(fleet), *earlier_files(folder, files)],
            **self._diff(stale, before),
        }

    def _diff(self, stale: Mapping[Path, str], before: Mapping[Path, str | None]) -> dict[str, Any]:
        if not self.diff_mode:
            return {}
        return {
            "diff": [
                {
                    "before_header": str(path),
                    "after_header": str(path),
                    "before": before[path] or "",
                    "after": text,
                }
                for path, text in stale.items()
            ]
        }


def listed() -> list[str]:
    """Return a line for each machine that can be planned, with its source."""
    machine, hardware = (max(len(row[at]) for row in rows()) for at in (0, 1))
    return [f"{row[0]:<{machine}}  {row[1]:<{hardware}}  {row[2]}" for row in rows()]


def names_of(machine: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of hosts that are planned: the inventory's, or as many as the user asked for."""
    count = arguments["count"]
    if count is None:
        return list(arguments["hosts"])
    return [f"{machine}-{number:0{max(2, len(str(count)))}}" for number in range(1, count + 1)]


def options_of(arguments: Mapping[str, Any], machine: str = "") -> Options:
    """Return what the user chose; raises ActionFailure with what can't be."""
    problems = []
    if machine and machine not in MACHINES:
        hint = nearest(machine, MACHINES) or f"rdma_fabric_discover_machine={_LIST} prints those that are"
        problems.append(f"machine: no layout of {one_line(machine)} is known: {hint}")
    if machine and not names_of(machine, arguments):
        problems.append("machine: no host to plan: give their number as rdma_fabric_discover_hosts, or an inventory")
    if machine and not arguments["rename"]:
        problems.append(
            "rename: false needs the names of interfaces, and no host is read: do not give rdma_fabric_discover_rename"
        )
    if arguments["count"] is not None and not (machine and arguments["count"] > 0):
        problems.append("count: give 1 or more hosts, and what they are as rdma_fabric_discover_machine")
    mtu, vfs = arguments["mtu"], arguments["vfs"]
    if mtu is not None and mtu not in _MTU:
        problems.append(
            f"mtu: {mtu} is not a valid MTU: give {_MTU.start} to {_MTU.stop - 1}, or nothing to leave it as it is"
        )
    if vfs is not None and vfs < 0:
        problems.append(f"vfs: {vfs} is not a valid number of VFs: give 0 or more, or nothing to leave them")
    if problems:
        raise ActionFailure("\n".join(problems))
    return Options(mtu, vfs, arguments["rename"])


def facts_of(hosts: list[str], given: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the hosts that were read: those given, and what ``rdma_info`` registered for the others."""
    found = {}
    for host in hosts:
        facts = given.get(host) or (variables.get(host, {}).get(REGISTERED) or {}).get("facts")
        if facts is not None:
            found[host] = plain(facts)
    return found


def policy_elsewhere(variables: Mapping[str, Any], folder: Path) -> str:
    """Return the variable that gives a policy besides the file of an earlier discovery, nothing where none does.

    Two policies are refused, and of one variable in two inventories Ansible takes the last one's without a word.
    """
    for name in _WITH_POLICIES:
        if variables.get(name):
            return name
    policy = plain(variables.get(POLICY))
    return POLICY if policy and policy != policy_written(folder / POLICY_FILE) else ""


def policy_written(path: Path) -> Any:
    """Return the policy in a file of variables, None where there is none."""
    content = content_of(read_text(path) or "")
    return content.get(POLICY) if isinstance(content, dict) else None


def says_the_same(before: str | None, text: str) -> bool:
    """Tell whether the text that is there differs in comments alone: these say how it was, or are the user's own.

    Where all is a comment, as a policy that stands back is, they are what the file is for.
    """
    content = content_of(text)
    return before is not None and content is not None and content_of(before) == content


def content_of(text: str) -> Any:
    """Return what a text of YAML says, None where it says nothing or is none (a vaulted value is none here)."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None


def nothing_found(fleet: Fleet, unread: list[str]) -> str:
    """Return why there is nothing to write, hosts with the same reason together, and the next step."""
    hosts_of: dict[str, list[str]] = {}
    for host in fleet.without:
        for left in host.left_out:
            hosts_of.setdefault(f"{left.pci} {left.netdev}: {left.why}", []).append(host.name)
        if not host.left_out:
            hosts_of.setdefault("no network controller", []).append(host.name)
    if unread:
        hosts_of["was not read; its own error says why"] = unread
    lines = [f"  - {fold_names(sorted(hosts, key=natural_key))}: {why}" for why, hosts in hosts_of.items()]
    lines = lines or ["  - no host was given"]
    return "\n".join(
        [
            "no host has an RDMA port with a link that may be a rail, so nothing was written:",
            *lines,
            "next: plug in cables, load the NIC driver (mlx5_core, mlx5_ib), or give rdma_fabric_hosts_pattern",
        ]
    )


def would_overwrite(paths: list[Path]) -> str:
    """Return why existing files stay, and the next step."""
    lines = [f"  - {path}" for path in paths]
    return "\n".join(
        [
            "these files exist and differ from what was found, so nothing was written:",
            *lines,
            "next: see the differences with --check --diff, then name another folder (rdma_fabric_discover_dir) or "
            "allow them to be replaced (rdma_fabric_discover_overwrite=true)",
        ]
    )


def earlier_files(folder: Path, files: Mapping[Path, str]) -> list[str]:
    """Return a notice for each file of an earlier discovery that this one has no place for: Ansible would read it."""
    found = [path for name in ("group_vars", "host_vars") for path in written_earlier(folder, name)]
    return [
        f"{path} is from an earlier discovery and nothing of it was found now; Ansible still reads it: remove it"
        for path in found
        if path not in files
    ]


def written_earlier(folder: Path, name: str) -> list[Path]:
    """Return the files of variables that an earlier discovery wrote into ``name`` of its folder."""
    return [path for path in sorted((folder / name).glob("*.yml")) if (read_text(path) or "").startswith(MARKER)]


def read_text(path: Path) -> str | None:
    """Return what a file holds, None where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
