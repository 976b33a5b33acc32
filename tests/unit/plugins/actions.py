# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one action plugin of the collection in this process, as a task would."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import base

PREFIX = "ansible_collections.rdma.fabric.plugins.action"


class Fragments:
    """Loads documentation fragments by import; Ansible's own loader wants its collection finder installed first."""

    def get(self, name: str) -> Any:
        """Return the fragment ``namespace.collection.name``; None for a variant, whose fragment is asked for next."""
        namespace, collection, fragment, *variant = name.split(".")
        if variant:
            return None
        module = f"ansible_collections.{namespace}.{collection}.plugins.doc_fragments.{fragment}"
        texts = vars(importlib.import_module(module).ModuleDocFragment)
        return SimpleNamespace(ansible_name=name, **{key: text for key, text in texts.items() if key.isupper()})


def action_of(
    name: str,
    arguments: dict[str, Any],
    *,
    check: bool = False,
    diff: bool = False,
    loader: DataLoader | None = None,
) -> base.FabricAction:
    """Return the action of a task with these arguments."""
    module = importlib.import_module(f"{PREFIX}.{name}")
    task = SimpleNamespace(
        args=arguments,
        check_mode=check,
        diff=diff,
        async_val=0,
        action=f"rdma.fabric.{name}",
        environment=[],
        get_name=lambda: name,
        get_path=lambda: "tasks.yml:1",
    )
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere", env_prefix=lambda **_variables: ""))
    loader = loader or DataLoader()
    templar = SimpleNamespace(template=lambda value: value)
    action: base.FabricAction = module.ActionModule(task, connection, SimpleNamespace(), loader, templar, None)
    return action


def run_action(
    name: str,
    arguments: dict[str, Any],
    *,
    check: bool = False,
    diff: bool = False,
    task_vars: dict[str, Any] | None = None,
    loader: DataLoader | None = None,
) -> dict[str, Any]:
    """Return the result of an action with these arguments."""
    action = action_of(name, arguments, check=check, diff=diff, loader=loader)
    with mock.patch.object(base, "fragment_loader", Fragments()):
        result: dict[str, Any] = action.run(task_vars=task_vars or {})
    return result
