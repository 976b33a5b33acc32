# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of group_vars and host_vars that Ansible cannot read, and those with our variables that it passes over.

It looks beside each inventory and beside the playbook, for the names of groups and hosts as they are; of several files
with one name it reads the first, which is a folder where there is one (DataLoader.find_vars_files).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterable, Mapping

from ansible import context
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import VAULT_HINT
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

from .run_input import why_unreadable

_FOR_GROUPS, _FOR_HOSTS = "group_vars", "host_vars"
_OTHER = {_FOR_GROUPS: (_FOR_HOSTS, "host"), _FOR_HOSTS: (_FOR_GROUPS, "group")}
# In the order in which Ansible looks for them; a folder has none.
_ENDINGS = ("", ".yml", ".yaml", ".json")
_OURS = re.compile(rb"^[\"']?" + PREFIX.encode(), re.MULTILINE)
_APART = re.compile(r"[-_. ]")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


def unreadable_files(task_vars: Mapping[str, Any], loader: DataLoader) -> list[Violation]:
    """Return the files that cannot be read, for a task that some host's variables failed.

    Ansible tells why and not which file it is.
    """
    files = [
        file
        for place in _places(task_vars, loader)
        for kind, known in _known(task_vars).items()
        for name in sorted(known)
        for file in loader.find_vars_files(str(place / kind), name)
    ]
    return [violation for file in files for violation in _wrong_variables(file, loader)]


def unread_files(task_vars: Mapping[str, Any], loader: DataLoader) -> tuple[list[Violation], list[Notice]]:
    """Return the files with variables of ours that nothing reads though their name says for what they are meant."""
    known, places = _known(task_vars), _places(task_vars, loader)
    violations = [
        violation
        for place in places
        for kind in known
        for name, paths in _by_name(place / kind).items()
        for violation in _passed_over(kind, name, paths, known)
    ]
    hint = "move it beside the inventory, or give the inventory beside it with -i"
    return violations, [
        Notice(f"variables {path}", "", f"is not read: Ansible looks beside the inventory and beside {problem}", hint)
        for here, problem in _elsewhere().items()
        if here not in places
        for kind in known
        for name, paths in _by_name(here / kind).items()
        for path in paths
        if name in known[kind] and _has_ours(path)
    ]


def _elsewhere() -> dict[Path, str]:
    """Return where people keep such files, too, with where Ansible looks instead."""
    started = [Path(each).absolute() for each in context.CLIARGS.get("args") or ()]
    importing = "the playbook that has the plays, not beside one that imports it"
    return {
        Path.cwd(): "the playbook, not where it is started",
        **{playbook.parent: importing for playbook in started if playbook.is_file()},
    }


def _known(task_vars: Mapping[str, Any]) -> dict[str, set[str]]:
    groups: Mapping[str, Iterable[str]] = task_vars.get("groups") or {}
    return {_FOR_GROUPS: set(groups), _FOR_HOSTS: {host for hosts in groups.values() for host in hosts}}


def _places(task_vars: Mapping[str, Any], loader: DataLoader) -> list[Path]:
    sources = [Path(source) for source in task_vars.get("ansible_inventory_sources") or () if "," not in source]
    places = [*(source if source.is_dir() else source.parent for source in sources), Path(loader.get_basedir())]
    return list(dict.fromkeys(path.absolute() for path in places))


def _by_name(directory: Path) -> dict[str, list[Path]]:
    """Return what stands in a folder of variables by the group or host that it is for, in the order of Ansible."""
    try:
        found = sorted(directory.iterdir(), key=lambda path: (_ENDINGS.index(_ending(path)), path.name))
    except OSError:
        return {}
    by_name: dict[str, list[Path]] = {}
    for path in found:
        if not path.name.startswith(".") and not path.name.endswith("~"):
            by_name.setdefault(path.name[: len(path.name) - len(_ending(path))], []).append(path)
    return by_name


def _ending(path: Path) -> str:
    return path.suffix if path.suffix in _ENDINGS and path.is_file() else ""


def _passed_over(kind: str, name: str, paths: list[Path], known: Mapping[str, set[str]]) -> list[Violation]:
    if name in known[kind]:
        unread = [path for path in paths[1:] if _has_ours(path)]
        problem = f"is not read: Ansible reads {paths[0]} in its place"
        return [
            Violation(f"variables {path}", "", problem, f"move it into {paths[0]}, or merge both") for path in unread
        ]
    other, what = _OTHER[kind]
    alike = sorted(each for each in known[kind] if _plain(each) == _plain(name))
    if name in known[other]:
        problem, hint = f"is not read: {name} is a {what}", f"move it to {other}"
    elif alike:
        problem, hint = f"is not read: nothing in the inventory is called {name}", f"call it {alike[0]}"
    else:
        return []
    return [Violation(f"variables {path}", "", problem, hint) for path in paths if _has_ours(path)]


def _plain(name: str) -> str:
    """Return a name without what is easily mistaken: case, separators, zeros before a number."""
    return _ZEROS.sub("", _APART.sub("", name.lower()))


def _has_ours(path: Path) -> bool:
    """Say whether a file, or one in a folder, sets a variable of this collection; an encrypted one does not tell."""
    files = [each for each in path.rglob("*") if each.suffix in _ENDINGS] if path.is_dir() else [path]
    try:
        return any(_OURS.search(each.read_bytes()) for each in files if each.is_file())
    except OSError:
        return False


def _wrong_variables(file: str, loader: DataLoader) -> list[Violation]:
    try:
        found = loader.load_from_file(file, cache="none", unsafe=True)
    except AnsibleError as error:
        # Releases differ in the class of this error, and hardly in its words.
        hint = VAULT_HINT if any(words in str(error) for words in ("vault secrets", "vault password")) else "fix it"
        return [Violation(f"variables {file}", "", why_unreadable(error), hint)]
    if not found or isinstance(found, Mapping):
        return []
    problem = "is not a mapping of variables to their values"
    return [Violation(f"variables {file}", "", problem, "write NAME: VALUE on lines of their own, without a -")]
