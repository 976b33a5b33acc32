# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hook of a host's turn has failed by or set, from what the role ``rdma.fabric.host`` keeps of it."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

# The task of the role that looks whether the host was there for its hook.
_REACHES = "Verify that the host stayed reachable during its hook"
HOOK = "_rdma_fabric_host_hook"
_NODE_NAME = f"{PREFIX}node_name"
# ansible-core before 2.19 says it in words only (TaskTimeoutError in lib/ansible/executor/task_executor.py).
_TIMED_OUT = re.compile(r"in the expected time frame \(([0-9]+)\)")


def why_hook_failed(hook: Mapping[str, Any]) -> str:
    """Return why a hook has failed and, of one that took too long or did not end, what to do.

    ``hook`` has the ``host``, the ``stage``, the ``file`` of the hook and the name of the ``task`` in it that failed.
    ``said`` are the message of that task and those of the items of its loop, ``limits`` the seconds at which any of
    these were ended.
    """
    if "task" not in hook:
        return why_hook_left(hook)
    said = [str(message) for message in hook["said"]]
    what = f"the hook {hook['file']} ({hook['stage']})"
    if hook["task"] == _REACHES:
        return f"{what} has failed: {hook['host']} can't be reached, so tasks of the hook were passed over: {said[0]}"
    limits = [*map(str, hook["limits"]), *(found.group(1) for found in map(_TIMED_OUT.search, said) if found)]
    if not limits:
        return f"{what} has failed: {said[0] or 'its own error says why'}"
    return (
        f"{what} has not ended: its task {hook['task']} took longer than {limits[0]} seconds; see what it waits for on "
        f"{hook['host']}, or raise rdma_fabric_hook_timeout, or its own timeout"
    )


def why_hook_left(hook: Mapping[str, Any]) -> str:
    """Return why a hook that has begun did not end: with the ``host``, the ``stage`` and the ``file`` of it.

    Ansible leaves a host out of a play when one of its tasks asks for that, or is not to pass over that it reaches
    nobody.
    """
    return (
        f"the hook {hook['file']} ({hook['stage']}) took {hook['host']} out of its turn: a task of it ended the play "
        "for it (meta), or has ignore_unreachable: false and reached nobody. Its node and slot are as they were then; "
        "have the task fail instead, and run again"
    )


def why_facts_refused(host: str, names: Iterable[str]) -> str:
    """Return why a hook fails whose facts have set these variables of this collection on its host."""
    return (
        f"facts that the hook gathered set {', '.join(map(one_line, names))}, which only the inventory may: look who "
        f"wrote them on {host}, or use set_fact without cacheable"
    )


def without_facts(names: Iterable[str], own: Mapping[str, Any], controller: Mapping[str, Any]) -> dict[str, Any]:
    """Return these variables of a host, which facts have set, with the values that they get back.

    ``own`` are the variables of the host, ``controller`` those of localhost. The name of the node is that of before the
    hook, and what roles keep is as if it was never kept. For the rest a host goes by the controller's, as preflight
    refuses others, or by the defaults.
    """
    kept: dict[str, Any] = {name: {} if name.startswith("_") else controller.get(name) or "" for name in names}
    if _NODE_NAME in kept:
        kept[_NODE_NAME] = (own.get(HOOK) or {}).get("node", "")
    return kept
