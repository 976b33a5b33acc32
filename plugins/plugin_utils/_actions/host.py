# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of actions that run a module of this collection on a host."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping

from ansible import constants

from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    BadRecording,
    RecordedHost,
    load_recording,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.said import without_logins

from .base import ActionFailure, FabricAction
from .payload import compact

# What ansible-core takes from the answer of any module (StrategyBase._process_pending_results): a host could set
# variables of itself before the inventory's. It takes add_host and add_group from actions of the controller alone.
_OF_ANSIBLE = frozenset(("ansible_facts", "ansible_stats"))
# What Pythons before 3.8 say of our modules, and one that was built without the library that unpacks them.
_OF_PYTHON = re.compile(
    r"^(?:SyntaxError: .*|ImportError: cannot import name 'Protocol'.*|\w+Error: No module named '?_?lzma\b.*)",
    re.MULTILINE,
)
# Where a module gave no answer: what its Python said, and Ansible's own failure to read that.
_UNANSWERED = ("module_stdout", "module_stderr", "exception")
_MOST_TOLD = 100


class HostAction(FabricAction):
    """An action whose module is sent in fewer bytes than ansible-core makes of it."""

    def run_module(self, name: str, arguments: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run a module of this collection on the host and return its result; raises AnsibleConnectionFailure.

        Of the keys that Ansible acts on, none of ours returns one.
        """
        result: dict[str, Any] = self._execute_module(
            module_name=f"rdma.fabric.{name}", module_args=dict(arguments), task_vars=task_vars
        )
        return _without_python({key: without_logins(result[key]) for key in result if key not in _OF_ANSIBLE})

    def recorded_host(self, recording: str) -> RecordedHost:
        """Return the host of a recording on the controller; raises ActionFailure with what to do about the file."""
        path = self.find_file(recording)
        try:
            return RecordedHost(load_recording(path.read_bytes()))
        except OSError as error:
            next_step = "name a file that rdma.fabric.record wrote (recording, or rdma_fabric_recording of the host)"
            raise ActionFailure(f"{path}: can't be read ({error.strerror}); next: {next_step}") from error
        except BadRecording as error:
            raise ActionFailure(f"{path}: {error}") from error

    def _configure_module(self, module_name: str, module_args: Any, task_vars: Any) -> Any:
        """Return what ActionBase does, with a smaller program."""
        configured = super()._configure_module(module_name, module_args, task_vars)
        cache = Path(constants.DEFAULT_LOCAL_TMP) / "rdma_fabric_payloads"
        if len(configured) == 2:
            built, path = configured
            return replace(built, b_module_data=compact(built.b_module_data, cache)), path
        # ansible-core before 2.19.
        style, shebang, program, path = configured
        return style, shebang, compact(program, cache), path


def _without_python(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a module; where the host's Python could not even load it, with what to do about that."""
    said = "\n".join(str(result.get(key) or "") for key in _UNANSWERED[:-1])
    found = _OF_PYTHON.findall(said.replace("\r", ""))
    if not result.get("failed") or not found:
        return result
    why = one_line(found[-1])[:_MOST_TOLD]
    what = f"the host's Python can't run the module, which needs Python 3.8 or newer with its standard library ({why})"
    told = f"{what}; next: install one and set ansible_python_interpreter of the host to its path"
    return {**{key: value for key, value in result.items() if key not in _UNANSWERED}, "msg": told}
