# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of actions that run a module of this collection on a host."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import lzma
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Pattern

from ansible import constants
from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import bare_source
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    BadRecording,
    RecordedHost,
    load_recording,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import replace_file
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.said import without_logins

from .base import ActionFailure, FabricAction

# What ansible-core takes from the answer of any module (StrategyBase._process_pending_results): a host could set
# variables of itself before the inventory's. It takes add_host and add_group from actions of the controller alone.
_OF_ANSIBLE = frozenset(("ansible_facts", "ansible_stats"))


class Unstarted(NamedTuple):
    """Why a module could not begin on a host: by a line that says it, in words, and what to do."""

    line: Pattern[str]
    what: str
    next: str


def _line(pattern: str) -> Pattern[str]:
    return re.compile(rf"^.*(?:{pattern}).*$", re.MULTILINE)


_OTHER_PYTHON = (
    "install Python 3.8 or newer with its standard library, and set ansible_python_interpreter of the host to its path"
)
_OTHER_FOLDER = "set ansible_remote_tmp of the host to a folder that may be used, or ansible_pipelining: true"
# Texts of the kernel, sh, env, sudo and Python. The first ones are what Pythons before 3.8 say of our modules,
# and one that was built without the library that unpacks them.
_UNSTARTED = (
    Unstarted(
        re.compile(
            r"^(?:SyntaxError: .*|ImportError: cannot import name 'Protocol'.*|\w+Error: No module named '?_?lzma\b.*)",
            re.MULTILINE,
        ),
        "the host's Python can't run the module, which needs Python 3.8 or newer with its standard library",
        _OTHER_PYTHON,
    ),
    Unstarted(
        _line("No space left on device|Disk quota exceeded|No usable temporary directory"),
        "a file system of the host is full",
        "free space or inodes (df -h, df -i) in its home and /tmp, or set ansible_remote_tmp of the host",
    ),
    Unstarted(
        _line("Read-only file system"),
        "a file system of the host is mounted read-only",
        f"look at its kernel log for errors of the disk; if it is meant to be so, {_OTHER_FOLDER}",
    ),
    Unstarted(
        _line(r"can't open file .*\[Errno (?:1|13)\]|\[Errno (?:1|13)\] .*[Aa]nsi(?:ble|ballZ)"),
        "fapolicyd, SELinux or another policy of the host does not let Python open the module that Ansible copied",
        f"connect as root, {_OTHER_FOLDER}",
    ),
    Unstarted(
        _line("sudo: .*(?:must have a tty|no tty present)"),
        "sudo of the host wants a terminal",
        "set ansible_pipelining: false for it, or take requiretty out of its sudoers (Defaults:USER !requiretty)",
    ),
    Unstarted(
        _line("sudo: .*(?:password|terminal) is required|is not in the sudoers|sudo: .* is not allowed to execute"),
        "sudo of the host does not let this user become root without a password",
        "give ansible_become_password (--ask-become-pass), or allow it in its sudoers (NOPASSWD)",
    ),
    Unstarted(
        _line(r"(?:sh|env): .*python\S*: .*(?:Permission denied|Operation not permitted)"),
        "the host does not let this user start that Python: it is mounted noexec, or fapolicyd or SELinux forbids it",
        "set ansible_python_interpreter of the host to one of the distribution, such as /usr/bin/python3",
    ),
    Unstarted(
        _line(r"(?:sh|env): .*python\S*: .*(?:not found|No such file)|No python interpreters found"),
        "the host has no such Python",
        _OTHER_PYTHON,
    ),
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
        try:
            result: dict[str, Any] = self._execute_module(
                module_name=f"rdma.fabric.{name}", module_args=dict(arguments), task_vars=task_vars
            )
        except AnsibleError as error:
            # Its folder could not be made, or its program not be copied.
            told = unstarted(str(error))
            if told:
                raise type(error)(told) from error
            raise
        return _as_told({key: without_logins(result[key]) for key in result if key not in _OF_ANSIBLE})

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


def unstarted(said: str) -> str:
    """Return why no module could begin, and what to do, by what was said in its place; empty if nothing tells it."""
    lines = said.replace("\r", "")
    for each in _UNSTARTED:
        found = each.line.findall(lines)
        if found:
            return f"{each.what} ({one_line(found[-1].strip())[:_MOST_TOLD]}); next: {each.next}"
    return ""


def _as_told(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a module; of one that could not even begin, with why, and what to do about that."""
    told = unstarted("\n".join(str(result.get(key) or "") for key in _UNANSWERED[:-1])) if result.get("failed") else ""
    return {**{key: value for key, value in result.items() if key not in _UNANSWERED}, "msg": told} if told else result


# Makes what Ansible sends of a module less than half as large, as every host gets it at every run.
#
# Ansible sends one Python program that holds a zip archive as Base64 text: the module and all it imports, each file
# compressed alone. Here the sources of this collection lose their comments and documentation, and the archive is
# compressed as a whole. The text of the archive becomes an expression that gives it back; nothing else of the program
# changes.
# The first bytes of a zip archive, as Base64 text between quotes.
_ARCHIVE = re.compile(rb"'(UEsDB[A-Za-z0-9+/]+={0,2})'")
_COLLECTION = "ansible_collections/rdma/fabric/"
_DOCUMENTATION = re.compile(r'^(DOCUMENTATION|EXAMPLES|RETURN) = r""".*?"""', re.MULTILINE | re.DOTALL)
_EXPRESSION = (
    b"(lambda base64, lzma: base64.b64encode(lzma.decompress(base64.b64decode('%s'))).decode())"
    b"(__import__('base64'), __import__('lzma'))"
)
# Text has no columns of bytes (pb), and a longer search costs a run some hundredths of a second.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "pb": 0}]


def compact(program: bytes, cache: Path) -> bytes:
    """Return the program with a smaller archive, or as it is when it does not hold exactly one.

    ``cache`` is a directory that the processes of one run share. Raises OSError.
    """
    found = list(_ARCHIVE.finditer(program))
    if len(found) != 1:
        return program
    (archive,) = found
    return program[: archive.start()] + _expression(archive[1], cache) + program[archive.end() :]


def _expression(archive: bytes, cache: Path) -> bytes:
    """Return the expression for an archive; the first process of a run makes it, the others wait for that."""
    path = cache / hashlib.sha256(archive).hexdigest()
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                packed = base64.b64encode(lzma.compress(repack(base64.b64decode(archive)), filters=_FILTERS))
                replace_file(path, _EXPRESSION % packed)
    return path.read_bytes()


def repack(archive: bytes) -> bytes:
    """Return a zip archive with the same members, not compressed, those of this collection without documentation."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as after:
        # By their names, as neighbours are alike.
        for member in sorted(before.infolist(), key=lambda each: each.filename):
            data = before.read(member)
            if member.filename.startswith(_COLLECTION):
                data = _without_documentation(data.decode("utf-8")).encode("utf-8")
            after.writestr(zipfile.ZipInfo(member.filename, member.date_time), data)
    return made.getvalue()


def _without_documentation(source: str) -> str:
    """Return a source as ``bare_source`` does, without what ansible-doc shows of a module."""
    return bare_source(_DOCUMENTATION.sub(lambda found: f'{found[1]} = ""' + "\n" * found[0].count("\n"), source))
