# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and does the removal of orphaned files, and says what the next boot loses with them.

The running host has it until then, so nothing else tells.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from typing import Pattern

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..concerns.kernel.modules import LOAD_FILE
from ..concerns.memory.hugepages import TMPFILES_FILE
from ..engine.context import ConcernPlan, Context, Handler
from ..engine.operations import RemoveFile, Run, Work
from ..engine.steps import NOTHING, Step, key_of, removal_step
from ..facts.managers.routes import kept_in
from ..machine.access import Host
from ..machine.host_files import JOIN_ENABLED_BY, JOIN_UNIT_FILE
from ..spec import sysctls

# As files of systemd-networkd, netplan, NetworkManager and ifupdown say it.
_MTU = re.compile(r"^ *(?:MTUBytes=|mtu:? |[\w-]+\.mtu=)(\d+)$", re.MULTILINE)
_STATE = re.compile(r"^ *(?:ActivationPolicy=|activation-mode: \")(\w+)", re.MULTILINE)
_IFUP_ROUTE = re.compile(r"^ *up ip \S+ route ", re.MULTILINE)
_IFUP_RULE = re.compile(r"^ *up ip \S+ rule ", re.MULTILINE)
# One name a line, before a value if it has one; others are comments.
_NAME = re.compile(r"^(\w[\w./*-]*)(?: = .*)?$", re.MULTILINE)
_DOWN = {"off": "down"}


def kept_no_longer(former: str, now: str, mtu: bool = True) -> str:
    """Return what a manager's file no longer keeps with its new text; the MTU counts only with ``mtu``."""
    return _from_boot_on(_settings(former, now, mtu), "no longer keeps")


def lost_with(path: str, text: str) -> str:
    """Return what the next boot no longer has without a file, as a step says what it interrupts."""
    names = _NAME.findall(text)
    if path == LOAD_FILE:
        return _from_boot_on([f"the kernel modules {named(names)}"], "loads")
    if path == sysctls.FILE:
        return _from_boot_on([f"the sysctls {named(names)}"], "sets")
    if path == TMPFILES_FILE:
        return _from_boot_on(["the huge pages"], "reserves")
    routes, rules = kept_in({path: text})
    counts = (
        (len(routes) + len(_IFUP_ROUTE.findall(text)), "route"),
        (len(rules) + len(_IFUP_RULE.findall(text)), "rule"),
    )
    routing = [f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count]
    return _from_boot_on([*_settings(text, ""), *routing])


def _from_boot_on(parts: list[str], verb: str = "keeps") -> str:
    if not parts:
        return NOTHING
    told = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"{told} that it {verb}, from the next boot on"


def _settings(former: str, now: str, mtu: bool = True) -> list[str]:
    """Return the MTUs and link states that a manager's file kept and its new text does not."""
    mtus = sorted(map(int, _gone(_MTU, former, now))) if mtu else []
    states = sorted({_DOWN.get(state, state) for state in _gone(_STATE, former, now)})
    return [*([f"MTU {', '.join(map(str, mtus))}"] if mtus else []), *(f"state {state}" for state in states)]


def _gone(pattern: Pattern[str], former: str, now: str) -> list[str]:
    """Return the values that went; one that took the place of another is no loss."""
    before, after = Counter(pattern.findall(former)), Counter(pattern.findall(now))
    return list((before - after).keys()) if sum(before.values()) > sum(after.values()) else []


_ENABLE_JOIN = Run(("systemctl", "enable", posixpath.basename(JOIN_UNIT_FILE)))


def plan(context: Context) -> ConcernPlan:
    """Return a step for each file of ours that no concern wants and that no concern's own step is about."""
    own_steps = {key_of(step) for step in context.earlier}
    # Until the node has joined, the unit that lets it join has to start with every boot.
    kept = set() if context.removing else {JOIN_UNIT_FILE}
    return [
        removal_step("leftovers", path, interrupts=lost_with(path, context.boot_files[path]))
        for path in sorted(set(context.boot_files) - set(context.wanted_files) - own_steps - kept)
    ], []


def work(context: Context, step: Step) -> Work:
    """Return how the file of a step is removed."""
    path = step["target"]

    def verify(host: Host) -> str:
        return f"{path} is still there" if host.exists(path) else ""

    removal = context.work_of_removal(path)
    if path == JOIN_UNIT_FILE:
        return Work([RemoveFile(JOIN_ENABLED_BY), *removal.do], [*removal.undo, _ENABLE_JOIN], verify)
    return removal._replace(verify=verify)


HANDLER = Handler(work)
