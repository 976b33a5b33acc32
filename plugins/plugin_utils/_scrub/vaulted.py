# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what came from a vault out of messages: values that are encrypted, and those of files that are as a whole.

A message that quotes a value does not know where it came from, and a template may have made it of another variable. So
a message is searched for every text from a vault that the task's variables hold. That is done only where something is
said, as it takes a walk through all of them.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Collection, Iterable, Iterator, Mapping

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.vault import b_HEADER

HIDDEN = "<from a vault>"
# The variables of hosts to which a task is delegated, each with a "hostvars" of its own.
_DELEGATED = "ansible_delegated_vars"
# Of all hosts, or what a host says of itself.
_NOT_WALKED = (
    _DELEGATED,
    "hostvars",
    "vars",
    "groups",
    "play_hosts",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_play_batch",
    "ansible_facts",
)


def opens_vaults(loader: Any) -> bool:
    """Return whether a run has secrets of vaults; without one nothing of a vault has a value to be told."""
    vault = getattr(loader, "_vault", None)
    return bool(getattr(vault, "secrets", True))


def texts_of(variables: Iterable[Mapping[str, Any]], results: Collection[str] = ()) -> set[str]:
    """Return every text from a vault that these variables hold, as Ansible has them before templates are filled in.

    ``results`` are names of variables that tasks have registered: those of a preflight hold what all hosts are asked.
    """
    files: dict[str, bool] = {}
    found = (
        text
        for each in _with_delegated(variables)
        for name in each
        if name not in _NOT_WALKED and name not in results
        for text in _vaulted(_value(each, name), files)
    )
    # One character is no secret, and in every message.
    return {part for text in set(found) for part in _parts(text) if len(part) > 1}


def _with_delegated(variables: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in variables:
        yield each
        if _DELEGATED in each:
            yield from (_value(each, _DELEGATED) or {}).values()


def _value(variables: Mapping[str, Any], name: str) -> Any:
    try:
        return variables[name]
    except AnsibleError:
        # What has no value is in no message.
        return None


def _vaulted(value: Any, files: dict[str, bool]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _vaulted(item, files)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _vaulted(item, files)
    elif value is not None and not isinstance(value, bool) and (_is_encrypted(value) or _of_vault(value, files)):
        try:
            text = str(value).strip()
        except (AnsibleError, ReferenceError):
            # Without its secret nobody has read it either.
            text = ""
        if text:
            yield text


def _is_encrypted(value: Any) -> bool:
    """Tell whether a value is encrypted, or was: ansible-core 2.19 and later keep its cipher with it."""
    if getattr(value, "_ciphertext", None) is not None:
        return True
    helper = _known("ansible.parsing.vault", "VaultHelper")
    cipher = helper.get_ciphertext(value, with_tags=False) if helper is not None and isinstance(value, str) else None
    return cipher is not None


def _of_vault(value: Any, files: dict[str, bool]) -> bool:
    """Tell whether a value was read from a file that is encrypted as a whole."""
    # ansible-core before 2.19, and later.
    path = (getattr(value, "ansible_pos", None) or ("",))[0]
    tag = _known("ansible._internal._datatag._tags", "Origin")
    origin = tag.get_tag(value) if not path and tag is not None else None
    path = str(path or getattr(origin, "path", None) or "")
    if path not in files:
        files[path] = _is_vault(path)
    return files[path]


def _is_vault(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return bool(file.read(len(b_HEADER)) == b_HEADER)
    except (OSError, ValueError):
        return False


def _known(module: str, name: str) -> Any:
    """Return what a release of ansible-core has, None where it has not."""
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _parts(text: str) -> Iterator[str]:
    """Return a text and what is read out of it where a list or a mapping is needed; see ``_texts``."""
    yield text
    yield from filter(None, (part.strip() for part in re.split(r"[,\n]", text)))
    yield from re.findall(r"(?<=\w=)[^\s,]+", text)
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return
    if isinstance(read, (Mapping, list)):
        yield from _leaves(read)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, (Mapping, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)
