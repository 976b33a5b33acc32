# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of the next boot's configuration and the result of the last boot."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Iterable, Mapping, Sequence

from ..machine import host_files, program
from ..machine.access import HostError
from ..machine.host_files import BrokenState, StateFile
from ..machine.probe import Probe, printable, texts_of
from ..spec.cards import kept_cards
from .managers import ini
from .managers.read import read_managers
from .own_files import read_awaited
from .remote_storage import Mount
from .shapes import Boot, BootResult, Guarded, SetElsewhere

RESULT = StateFile(
    host_files.RESULT_FILE,
    "the result of the last boot",
    f"read the journal of the boot unit (journalctl -u {host_files.UNIT}), and remove the file",
)
# The cards that the boot unit did not find at the addresses in its file.
OTHER_CARDS = "other_cards"
_PYTHON = "/usr/bin/python3"
_OWN_INTERPRETER = "/proc/self/exe"
_OF_USERS = ("/home/", "/root/")
# Among them is a second Python of the distribution, which its next release may not have.
_GIVES_WAY = (*_OF_USERS, "/usr/bin/")
_NEW_ENOUGH = re.compile(r"/python3\.(?:[89]|[1-9]\d)\Z")
# systemd orders what is mounted from there after the network, and so after the boot unit (systemd.mount(5), _netdev).
_REMOTE = tuple(f"/run/systemd/generator/remote-fs.target.{kind}" for kind in ("requires", "wants"))
_DASH = "\\x2d"
# Mounted after the boot unit has run.
_LATE = ("nfs", "nfs4", "cifs", "ceph", "lustre", "gpfs", "beegfs", "9p")
_MOUNTED = {"": "which is on the network", "ro": "which is mounted ro", "noexec": "which is mounted noexec"}
_MOST_LINES = 8
_GUARD_STATES = (
    ("armed", host_files.GUARD_FILE),
    ("reverting", host_files.REVERTING_FILE),
    ("reverted", host_files.REVERTED_FILE),
    ("staged", host_files.STAGED_FILE),
)


def read_boot_state(
    probe: Probe,
    netdevs: Mapping[str, str],
    files: dict[str, str],
    set_elsewhere: dict[str, list[SetElsewhere]],
    mounts: Iterable[Mount],
) -> Boot:
    """Return the network managers, the boot unit and its last result, the guard, and what awaits a reboot.

    ``netdevs`` are indexes by name, ``files`` are ours and ``set_elsewhere`` the settings of ports in files of others;
    all were read before.
    """
    python = _python(probe)
    names = [posixpath.join(host_files.PROGRAM_DIRECTORY, name) for name in probe.names(host_files.PROGRAM_DIRECTORY)]
    return {
        "files": files,
        "managers": read_managers(probe, netdevs),
        "unit": {
            "enabled": probe.target(host_files.ENABLED_BY) is not None,
            "programs": [printable(path) for path in names if program.is_program(path)],
        },
        "python": python,
        "unfit": _unfit(probe, python, sorted(mounts, key=lambda mount: len(mount.point))),
        "result": _result(probe),
        "guard": _guard(probe),
        "awaited": read_awaited(probe),
        "set_elsewhere": set_elsewhere,
    }


def _python(probe: Probe) -> str:
    """Return the interpreter for the boot unit: the generic path if it leads to this code's or outlives it."""
    # An update may have replaced the file since (proc_pid_exe(5)); the new one has the same path.
    own = (probe.target(_OWN_INTERPRETER) or "").partition(" (deleted)")[0]
    try:
        general = probe.host.realpath(_PYTHON)
    except HostError:
        general = None
    # SELinux lets systemd start nothing of a user's.
    is_usable = own.startswith(_GIVES_WAY) and _NEW_ENOUGH.search(general or "")
    return _PYTHON if own in ("", general) or is_usable else printable(own)


def _unfit(probe: Probe, python: str, mounts: Sequence[Mount]) -> str:
    """Return why the boot unit could not be written or run, empty if nothing is known against it."""
    for path, flag in ((host_files.UNIT_FILE, "ro"), (host_files.RESULT_FILE, "ro"), (python, "noexec")):
        for mount in [each for each in mounts if path.startswith(f"{each.point.rstrip('/')}/")][-1:]:
            late = flag == "noexec" and mount.point != "/" and (mount.kind in _LATE or mount.kind.startswith("fuse"))
            late = late or any(probe.host.exists(f"{place}/{_unit_of(mount.point)}") for place in _REMOTE)
            if late or flag in mount.options:
                why = _MOUNTED[flag if flag in mount.options else ""]
                return f"{path} is on {mount.point}, {why}"
    if python.startswith(_OF_USERS) and probe.text("/sys/fs/selinux/enforce") == "1":
        return f"{python} is a user's, and SELinux lets systemd start nothing there"
    if not probe.host.exists("/run/fapolicyd/fapolicyd.fifo"):
        return ""
    rule = denied(probe, f"{host_files.PROGRAM_DIRECTORY}/")
    return f"fapolicyd does not let Python open what is in {host_files.PROGRAM_DIRECTORY} ({rule})" if rule else ""


def _unit_of(point: str) -> str:
    """Return the unit of a mount point with a plain name (systemd-escape(1)); no place of ours has another one."""
    return f"{point.strip('/').replace('-', _DASH).replace('/', '-')}.mount"


def _guard(probe: Probe) -> Guarded | None:
    """Return the state of a guarded uplink change that no run has reported yet, None if there is none."""
    for state, path in _GUARD_STATES:
        text = probe.content(path)
        if text is not None:
            return {"state": state, "steps": _steps_of(text)}
    return None


def _steps_of(text: str) -> list[str]:
    """Return the steps of the guarded change as lines; none if the record is broken."""
    try:
        steps = json.loads(text)["steps"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [printable(str(step), 512) for step in steps[:_MOST_LINES]] if isinstance(steps, list) else []


def _result(probe: Probe) -> BootResult | None:
    """Return the last result of the boot unit, None if there is none or its file is broken."""
    text = probe.content(host_files.RESULT_FILE)
    try:
        document = RESULT.parse(text or "")
    except BrokenState:
        return None
    problems = document.get("problems")
    lines = problems if isinstance(problems, list) else []
    return {
        "this_boot": document.get("boot_id") == probe.text(host_files.BOOT_ID),
        "ok": document.get("ok") is True,
        "running": document.get("running") is True,
        "problems": [printable(str(line), 512) for line in lines[:_MOST_LINES]],
        "other_cards": kept_cards(document, OTHER_CARDS),
    }


# Read whether fapolicyd lets root's Python open a program of ours: the first rule that fits decides.
#
# fapolicyd.rules(5), fapolicyd.conf(5). The rules that it ships let programs of root that it trusts open everything
# (rules.d/20-dracut.rules), so only rules of a site deny. An archive is of none of their %languages.
_DIRECTORY = "/etc/fapolicyd/"
_ANY = ("all", "perm=any", "perm=open", "uid=0", "gid=0")
# What is neither root, nor Python, nor an archive. Names of sets begin with a percent sign.
_OTHER = re.compile(
    r"perm=execute|pattern=|ftype=(?!.*(?:zip|any))|exe=(?!.*(?:python|%))|path=/|dir=|[ag]?u?id=[1-9]\d*$"
)


def denied(probe: Probe, folder: str) -> str:
    """Return the rule by which the daemon that runs denies what is in ``folder``; empty if none does for certain."""
    settings = ini.settings(probe.content(f"{_DIRECTORY}fapolicyd.conf") or "")
    if ini.last(settings, "", "permissive") == "1":
        return ""
    known = texts_of(probe, [f"{_DIRECTORY}trust.d/", f"{_DIRECTORY}fapolicyd.trust"])
    trusted = None if any(folder in text for _path, text in known) else False
    for rule in (probe.content(f"{_DIRECTORY}compiled.rules") or "").splitlines():
        who, colon, what = rule.partition(" : ")
        decision, *words = who.split() or [""]
        fits = {True if word == "trust=1" else _fits(word, folder, None) for word in words}
        fits |= {_fits(word, folder, trusted) for word in what.split()}
        allows = decision.startswith("allow")
        if colon and False not in fits and (allows or None not in fits):
            return "" if allows else printable(rule)
    return ""


def _fits(word: str, folder: str, trusted: bool | None) -> bool | None:
    """Return whether a word of a rule fits, None if unknown; ``trusted`` is what it asks of the program."""
    if word.startswith("trust="):
        return trusted if trusted is None or word == "trust=1" else not trusted
    if word in _ANY or (word.startswith("dir=/") and folder.startswith(word[4:])):
        return True
    return False if _OTHER.match(word) else None
