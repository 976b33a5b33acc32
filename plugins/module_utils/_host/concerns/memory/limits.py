# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of logins, services and container runtimes: files of ours that PAM and systemd read."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Mapping

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import RELOAD_UNITS, Operation, Work
from ...engine.steps import BOOT, NOW, NOW_AND_BOOT, Step, key_of, make_step, removal_step
from ...facts.memory import INFINITY, LIMITS, LOGIN_FILE, read_limits
from ...facts.settings_shapes import ServiceLimits
from ...machine.access import Host
from ...machine.host_files import MANAGER_FILE, RUNTIMES, marked
from ...machine.probe import Probe
from ...spec.memory import Limits

CONCERN = "limits"
RELOAD = "reload"
NOFILE: Final = "nofile"
_UNIT_FILE = "/etc/systemd/system/{unit}.d/90-rdma-fabric.conf"
_UNTOLD: ServiceLimits = {"systemd": False, "default": {}, "units": {}, "nr_open": None, "later": []}
ERRORS = MappingProxyType(
    {"ENOENT": "systemctl is missing though systemd runs the host; next: install systemd's package again"}
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each of our files that differs or is no longer needed, and one that has systemd read them."""
    wanted = {} if context.removing else boot_files(context)
    steps = [] if context.removing else _too_many_files(context)
    steps += [_file_step(context, path) for path, text in wanted.items() if context.boot_differs({path: text})]
    changed = [step["target"] for step in steps if step["target"] not in (LOGIN_FILE, NOFILE)]
    if found(context)["systemd"] and (changed or (wanted and _stale(context))):
        steps.append(_reload(context))
    steps += [] if context.removing else _overridden(context)
    ours = [LOGIN_FILE, MANAGER_FILE, *(unit_file(f"{name}.service") for name in RUNTIMES)]
    steps += [_removal(path) for path in ours if path in context.boot_files and path not in wanted]
    return steps, []


def _too_many_files(context: Context) -> list[Step]:
    """Return a refusal of more open files than the kernel allows any process."""
    asked, most = context.desired["limits"][NOFILE], most_files(context)
    if asked is None or bearable(context)[NOFILE] is not None:
        return []
    return [
        make_step(
            CONCERN,
            NOFILE,
            action=f"give everybody who logs in, and services, {NOFILE} {asked}",
            after=asked,
            reason=f"rdma_fabric_limits asks for {NOFILE} {asked}",
            refusal=(
                f"fs.nr_open is {most}, and PAM refuses every login that is to have more: lower {NOFILE}, or raise "
                "fs.nr_open in rdma_fabric_sysctls"
            ),
        )
    ]


def _overridden(context: Context) -> list[Step]:
    """Return a refusal of each limit that something lowers after our files."""
    steps = []
    for other in found(context)["later"]:
        key, whom, limit, to = other["key"], other["whom"], other["limit"], wanted_limits(context).get(other["key"])
        if isinstance(limit, int) and (to == INFINITY or (isinstance(to, int) and limit < to)):
            step = make_step(
                CONCERN,
                f"{key}:{other['file']}",
                target=whom,
                action=f"give {whom} {key} {_spoken(key, to)}",
                before=limit,
                after=to,
                reason=f"rdma_fabric_limits asks for {key}",
                refusal=f"{other['file']} sets {key} to {_spoken(key, limit)} after our files: remove it there",
            )
            steps.append(step)
    return steps


def _stale(context: Context) -> bool:
    """Return whether systemd uses other limits than our files have, although these are right."""
    wanted, facts = wanted_limits(context), found(context)
    known = [facts["default"], *(unit["limits"] for unit in facts["units"].values())]
    return any(limits.get(key) not in (None, value) for limits in known for key, value in wanted.items())


def _file_step(context: Context, path: str) -> Step:
    words = ", ".join(f"{key} {_spoken(key, value)}" for key, value in wanted_limits(context).items())
    if path == LOGIN_FILE:
        whom, detail = "everybody who logs in", "new logins have it; open sessions keep theirs"
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
        reason="systemd reads limits only on a reload; running services keep theirs",
        when=NOW,
        undo="systemctl daemon-reload once the files are as before",
    )


def _removal(path: str) -> Step:
    if path == LOGIN_FILE:
        return removal_step(CONCERN, path, detail="new logins have their former limits; open sessions keep theirs")
    return removal_step(
        CONCERN,
        path,
        when=NOW_AND_BOOT,
        detail="services have their former limits from their next start on; nothing is restarted",
    )


def _spoken(key: str, value: int | str | None) -> str:
    if value == INFINITY:
        return "unlimited"
    return f"{value >> 10} KiB" if key == "memlock" and isinstance(value, int) else str(value)


def found(context: Context) -> ServiceLimits:
    """Return the facts about limits, empty if they were not read."""
    return context.actual.facts["settings"].get("limits", _UNTOLD)


def most_files(context: Context) -> int | None:
    """Return how many open files the kernel allows any process: fs.nr_open of the spec, else the present one."""
    asked = context.desired["sysctls"].get("fs.nr_open", "")
    return int(asked) if asked.isdecimal() else found(context)["nr_open"]


def bearable(context: Context) -> Limits:
    """Return the limits of the spec without a number of files that the kernel denies: PAM would refuse every login.

    torvalds/linux, kernel/sys.c (do_prlimit): EPERM above fs.nr_open, for root as well.
    """
    asked, most = context.desired["limits"], most_files(context)
    too_many = asked["nofile"] is not None and most is not None and asked["nofile"] > most
    return {**asked, "nofile": None} if too_many else asked


def wanted_limits(context: Context) -> dict[str, int | str]:
    """Return the wanted limits in systemd's units: bytes, files, or ``infinity``."""
    asked = bearable(context)
    memlock, nofile = asked["memlock"], asked["nofile"]
    limits: dict[str, int | str] = {}
    if memlock is not None:
        limits["memlock"] = memlock * 1024 if isinstance(memlock, int) else INFINITY
    if nofile is not None:
        limits["nofile"] = nofile
    return limits


def unit_file(unit: str) -> str:
    """Return the path of our drop-in of a unit."""
    return _UNIT_FILE.format(unit=unit)


def boot_files(context: Context) -> dict[str, str]:
    """Return our files, none if the spec has no limit."""
    wanted = wanted_limits(context)
    if not wanted:
        return {}
    files = {LOGIN_FILE: _login_text(bearable(context)), MANAGER_FILE: _text("Manager", "DefaultLimit", wanted)}
    for unit in found(context)["units"]:
        files[unit_file(unit)] = _text("Service", "Limit", wanted)
    return files


def _login_text(limits: Limits) -> str:
    """Return lines for everybody and for root, to whom those for everybody do not apply (limits.conf(5))."""
    lines = [f"{who} - {key} {value}" for key, value in limits.items() if value is not None for who in ("*", "root")]
    return marked(lines)


def _text(section: str, prefix: str, limits: Mapping[str, int | str]) -> str:
    lines = [f"{prefix}{LIMITS[key]}={value}" for key, value in limits.items()]
    return marked([f"[{section}]", *lines])


def work(context: Context, step: Step) -> Work:
    """Return how a file is written or removed, or how systemd reads its files."""
    key = key_of(step)
    if key == RELOAD:
        wanted = wanted_limits(context)
        return Work([RELOAD_UNITS], verify=lambda host: _problem(host, wanted))
    reload: list[Operation] = [RELOAD_UNITS] if found(context)["systemd"] and key != LOGIN_FILE else []
    wanted_files = {} if context.removing else boot_files(context)
    if key not in wanted_files:
        return context.work_of_removal(key, reload)
    return context.work_of_files({key: wanted_files[key]})


def _problem(host: Host, wanted: Mapping[str, object]) -> str:
    """Return the limits that a file after ours sets: an override.conf of systemctl edit comes after all numbers."""
    facts = read_limits(Probe(host))
    places = {"/etc/systemd/system.conf.d": facts["default"]}
    places.update({f"systemctl cat {unit}": each["limits"] for unit, each in facts["units"].items()})
    other = [
        f"{key} is {now[key]}, not {value}, by a file that comes after ours ({place})"
        for place, now in places.items()
        for key, value in wanted.items()
        if now[key] not in (None, value)
    ]
    return f"{'; '.join(other)}; next: remove it there, and run again" if other else ""


HANDLER = Handler(work, ERRORS)
