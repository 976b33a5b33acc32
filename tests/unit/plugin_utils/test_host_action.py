# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action makes of the answer of a module on a host that could not load it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.host import HostAction

# The last lines of Pythons 2.7, 3.6 and 3.7, and of a 3.8 that was built without liblzma.
LAST_LINES = [
    "SyntaxError: future feature annotations is not defined",
    "SyntaxError: invalid syntax",
    "ImportError: cannot import name 'Protocol' from 'typing' (/usr/lib/python3.7/typing.py)",
    "ImportError: No module named lzma",
    "ModuleNotFoundError: No module named '_lzma'",
]


class Answered(HostAction):
    """An action whose host gives one answer, whatever it is asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return what the module does."""
        return self.run_module("rdma_info", arguments, task_vars)

    def _execute_module(self, **_asked: Any) -> dict[str, Any]:
        return self._answer


@pytest.mark.parametrize("key", ["module_stdout", "module_stderr"])
@pytest.mark.parametrize("last", LAST_LINES)
def test_a_python_that_is_too_old_is_told_with_what_to_do(last: str, key: str) -> None:
    lines = f'Traceback (most recent call last):\r\n  File "x.py", line 1\r\n{last}\r\n'
    answer = {"failed": True, "msg": "MODULE FAILURE", "exception": "of Ansible", "rc": 1, key: lines}
    told = Answered(answer).execute({}, {})
    assert "needs Python 3.8 or newer" in told["msg"]
    assert f"({last[:100]})" in told["msg"]
    assert "set ansible_python_interpreter" in told["msg"]
    assert {*told} == {"failed", "msg", "rc"}


def test_credentials_of_the_mirrors_of_a_host_are_in_no_answer() -> None:
    said = "E: Failed to fetch http://me:hunter2@mirror.example/doca  401"
    answer = {"failed": True, "msg": said, "executed": [{"error": said}], "facts": {"a": ["user@host", 1]}}
    told = Answered(answer).execute({}, {})
    assert "hunter2" not in str(told) and "http://********@mirror.example" in told["msg"]
    assert told["facts"] == answer["facts"]


@pytest.mark.parametrize(
    "answer",
    [
        {"failed": True, "msg": "SyntaxError: of a file of the host"},
        {"failed": True, "msg": "MODULE FAILURE", "module_stderr": "MemoryError\n"},
        {"changed": False, "module_stderr": "SyntaxError: invalid syntax"},
    ],
)
def test_any_other_answer_stays_as_it_is(answer: dict[str, Any]) -> None:
    assert Answered(answer).execute({}, {}) == answer
