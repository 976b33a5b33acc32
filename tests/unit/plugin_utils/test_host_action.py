# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action makes of a module that could not begin on a host, by what was said in its place."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.host import HostAction

# The last lines of Pythons 2.7, 3.6 and 3.7, and of a 3.8 that was built without liblzma.
LAST_LINES = [
    "SyntaxError: future feature annotations is not defined",
    "SyntaxError: invalid syntax",
    "ImportError: cannot import name 'Protocol' from 'typing' (/usr/lib/python3.7/typing.py)",
    "ImportError: No module named lzma",
    "ModuleNotFoundError: No module named '_lzma'",
]


# What the kernel, sh, sudo and Python said in reports: linux-application-whitelisting/fapolicyd 311 and
# ansible-lockdown/RHEL9-STIG 60; ansible/ansible 48152 and 17215; 25831; openshift-ansible-contrib 751; kubespray 3343;
# sudo(8); dash(1) of a Python on a file system without exec; ansible-vsphere-gos-validation 91 (Flatcar), tgik 283.
SAID = [
    ("/usr/bin/python3.9: can't open file '/home/a/.ansible/tmp/AnsiballZ_rdma_host.py': [Errno 1] Operation not "
     "permitted", "fapolicyd", "ansible_remote_tmp"),
    ("mkdir: cannot create directory '/home/a/.ansible': No space left on device", "is full", "df -i"),
    ("FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp']", "is full", "df -h"),
    ("OSError: [Errno 30] Read-only file system: '/root/.ansible/tmp'", "read-only", "ansible_pipelining"),
    ("sudo: sorry, you must have a tty to run sudo", "wants a terminal", "requiretty"),
    ("sudo: a password is required", "without a password", "--ask-become-pass"),
    ("sudo: a terminal is required to read the password; either use the -S option", "without a password", "NOPASSWD"),
    ("/bin/sh: 1: /srv/python/bin/python3: Permission denied", "noexec", "/usr/bin/python3"),
    ("/bin/sh: /usr/bin/python: No such file or directory", "no such Python", "ansible_python_interpreter"),
    ("/bin/sh: 1: /usr/bin/python: not found", "no such Python", "ansible_python_interpreter"),
]  # fmt: skip


class Answered(HostAction):
    """An action whose host gives one answer, whatever it is asked."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return what the module does."""
        return self.run_module("rdma_info", arguments, task_vars)

    def _execute_module(self, **_asked: Any) -> dict[str, Any]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(("said", "what", "step"), SAID)
def test_what_fails_before_the_module_begins_is_told_with_what_to_do(said: str, what: str, step: str) -> None:
    msg = "Module result deserialization failed: No start of json char found"
    answer = {
        "failed": True,
        "msg": msg,
        "rc": 2,
        "module_stdout": "",
        "module_stderr": f"Shared connection\r\n{said}\r\n",
    }
    told = Answered(answer).execute({}, {})
    assert {*told} == {"failed", "msg", "rc"}
    first, _next, second = told["msg"].partition("; next: ")
    assert what in first and said[:80] in first and step in second
    assert len(told["msg"]) < 400, "what shows it among others cuts longer ones"


@pytest.mark.parametrize("kind", [AnsibleConnectionFailure, AnsibleError])
def test_what_fails_while_the_module_is_copied_is_told_by_the_same_error(kind: type[AnsibleError]) -> None:
    with pytest.raises(kind, match=r"is full .*; next: free space") as raised:
        Answered(kind("failed to transfer file to x:\n\ndd: x: No space left on device\n")).execute({}, {})
    assert type(raised.value) is kind
    with pytest.raises(kind, match="ssh: Connection refused"):
        Answered(kind("ssh: Connection refused")).execute({}, {})


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
