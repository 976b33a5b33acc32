# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans limits of logins and services."""

from __future__ import annotations

from typing import Final

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NOW, NOW_AND_BOOT, Step, make_step, removal_step
from ...facts.limits import INFINITY, RUNTIMES
from ...machine.paths import MANAGER_FILE
from .limits_files import LOGIN_FILE, bearable, boot_files, found, most_files, unit_file, wanted_limits

CONCERN = "limits"
RELOAD = "reload"
NOFILE: Final = "nofile"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each of our files that differs or has to go, and one that lets systemd read them."""
    wanted = {} if context.removing else boot_files(context)
    steps = [] if context.removing else _too_many_files(context)
    steps += [_file_step(context, path) for path, text in wanted.items() if context.boot_differs({path: text})]
    changed = [step["target"] for step in steps if step["target"] not in (LOGIN_FILE, NOFILE)]
    if found(context)["systemd"] and (changed or (wanted and _stale(context))):
        steps.append(_reload(context))
    # The login file needs nothing but its removal, which any run does with files that nothing wants.
    ours = [MANAGER_FILE, *(unit_file(unit) for unit in RUNTIMES)]
    steps += [_removal(path) for path in ours if path in context.boot_files and path not in wanted]
    return steps, [] if context.removing else _remarks(context)


def _too_many_files(context: Context) -> list[Step]:
    """Return a refusal of more open files than the kernel lets any process have."""
    asked, most = context.desired["limits"][NOFILE], most_files(context)
    if asked is None or bearable(context)[NOFILE] is not None:
        return []
    return [
        make_step(
            CONCERN,
            NOFILE,
            target=NOFILE,
            action=f"give everybody who logs in, and services, {NOFILE} {asked}",
            before=None,
            after=asked,
            reason=f"rdma_fabric_limits asks for {NOFILE} {asked}",
            refusal=(
                f"fs.nr_open is {most}, and PAM refuses every login that is to have more: lower {NOFILE}, or raise "
                "fs.nr_open in rdma_fabric_sysctls"
            ),
        )
    ]


def _stale(context: Context) -> bool:
    """Return whether systemd works with other limits than our files say, though they are right."""
    wanted, facts = wanted_limits(context), found(context)
    known = [facts["default"], *(unit["limits"] for unit in facts["units"].values())]
    return any(limits.get(key) not in (None, value) for limits in known for key, value in wanted.items())


def _file_step(context: Context, path: str) -> Step:
    words = ", ".join(f"{key} {_spoken(key, value)}" for key, value in wanted_limits(context).items())
    if path == LOGIN_FILE:
        whom, detail = "everybody who logs in", "new logins have it; sessions that are open keep what they have"
    elif path == MANAGER_FILE:
        whom = "services"
        detail = "services without a limit of their own have it from their next start on; nothing is restarted"
    else:
        unit = path.split("/")[-2][: -len(".d")]
        whom = f"{unit} and the containers that it starts"
        detail = f"it has it from its next start on (systemctl restart {unit}); nothing is restarted"
    return make_step(
        CONCERN,
        path,
        target=path,
        action=f"give {whom} {words}",
        before=context.boot_files.get(path),
        after=boot_files(context)[path],
        reason=f"rdma_fabric_limits asks for {words}; RDMA keeps the memory that it uses in place",
        when=BOOT if path == LOGIN_FILE else NOW_AND_BOOT,
        undo=context.boot_undo_said(path),
        detail=detail,
    )


def _reload(context: Context) -> Step:
    return make_step(
        CONCERN,
        RELOAD,
        target="systemd",
        action="let systemd read its configuration again",
        before=found(context)["default"],
        after=wanted_limits(context),
        reason="it reads limits when it is told to; services that run go on as they are",
        when=NOW,
        undo="systemctl daemon-reload once the files are as before",
    )


def _removal(path: str) -> Step:
    return removal_step(
        CONCERN,
        path,
        when=NOW_AND_BOOT,
        detail="services have their former limits from their next start on; nothing is restarted",
    )


def _remarks(context: Context) -> list[str]:
    """Name what starts containers and still runs with less than is wanted."""
    remarks = []
    for unit, state in found(context)["units"].items():
        running = state["running"] or {}
        lower = [
            f"{key} {_spoken(key, running[key])}"
            for key, value in wanted_limits(context).items()
            if _is_lower(running.get(key), value)
        ]
        if lower:
            remarks.append(f"{unit} runs with {', '.join(lower)} until it is started again: systemctl restart {unit}")
    return remarks


def _is_lower(now: int | str | None, wanted: int | str) -> bool:
    return isinstance(now, int) and (isinstance(wanted, str) or now < wanted)


def _spoken(key: str, value: int | str | None) -> str:
    if value == INFINITY:
        return "unlimited"
    return f"{value >> 10} KiB" if key == "memlock" and isinstance(value, int) else str(value)
