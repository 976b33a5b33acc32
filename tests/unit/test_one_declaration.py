# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Concerns, keys of an interface, and services of container runtimes and kubelets are listed by their records alone."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import CONCERNS
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import KUBELETS, RUNTIMES
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import members
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import handler_of, planner_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import parts
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interface_keys import KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interfaces import nothing
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

PLUGINS = Path(__file__).parents[2] / "plugins"
RECORDS = ("module_utils/_host/engine/concerns.py", "module_utils/_host/spec/interface_keys.py")
# By file and first name of the list, why it is one.
EXCEPTIONS = {
    "module_utils/_host/spec/interfaces.py:name": "the reader of each key: compared with the records below",
    "module_utils/_host/facts/requested_functions.py:vfs": "an entry made from a policy, with the values of three keys",
    "module_utils/_fabric/checks/crds_controllers.py:name": "required fields of NVIDIA's CRD",
    "module_utils/_host/engine/context.py:driver": "the type of a section of a policy's request",
    "plugin_utils/_status/status.py:name": "a network in the result of a status",
}
# What starts containers, by the table of the services that do.
OTHER_RUNTIMES = {
    "module_utils/_fabric/checks/driver_container.py:containerd": "values of a field of NVIDIA's, CRI-O's among them",
}


def lists_of(source: str, names: frozenset[str]) -> Iterator[str]:
    """Yield the first name of each tuple, list, set or dictionary whose texts are two or more of the names alone.

    A dictionary that begins with another one (``**``) changes an entry.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict) and None in node.keys:
            continue
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if len(texts) > 1 and names.issuperset(texts):
            yield texts[0]


def test_no_other_list_of_them_exists() -> None:
    sources = {str(path.relative_to(PLUGINS)): path.read_text(encoding="utf-8") for path in PLUGINS.rglob("*.py")}
    found = {
        f"{path}:{first}"
        for path, source in sources.items()
        if path not in RECORDS
        for names in (frozenset(CONCERNS), frozenset(KEYS))
        for first in lists_of(source, names)
    }
    none_of(sorted(found - {*EXCEPTIONS}))
    none_of(sorted({*EXCEPTIONS} - found))


def services_in(source: str) -> Iterator[str]:
    """Yield the first name of each list that has two or more services of the table, whatever else it has."""
    known = {*RUNTIMES, *KUBELETS}
    if not any(f'"{name}' in source for name in known):
        return
    for node in ast.walk(ast.parse(source)):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        named = [text for text in texts if text.replace(".service", "") in known]
        if len(named) > 1:
            yield named[0]


def test_no_other_list_of_runtimes_and_kubelets_exists() -> None:
    found = {
        f"{path.relative_to(PLUGINS)}:{first}"
        for path in PLUGINS.rglob("*.py")
        if path.name != "host_files.py"
        for first in services_in(path.read_text(encoding="utf-8"))
    }
    assert found == {*OTHER_RUNTIMES}


def test_each_key_has_a_reader_and_a_concern() -> None:
    assert set(nothing()) == set(KEYS)
    assert {each.concern for each in KEYS.values()} <= set(CONCERNS)
    assert {each.key for each in CONCERNS.values()} <= {"", *KEYS}


def test_what_is_imported_by_name_is_sent() -> None:
    sent = {path[:-3].replace("/", ".").partition("._host.")[2] for path in members()}
    modules = {name for each in CONCERNS.values() for name in (each.planner, each.files, each.handler) if name}
    readers = {f"spec.{part.module}" for part in vars(parts).values() if isinstance(part, parts.Part)}
    none_of(sorted((modules | readers) - sent))
    assert all(planner_of(name) and handler_of(name) for name in CONCERNS)
