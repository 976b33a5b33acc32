# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes orphaned files: files of ours that the spec no longer needs.

The running host keeps their settings until the next boot, so each step says what that boot drops.
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

# In files of systemd-networkd, netplan, NetworkManager and ifupdown.
_MTU = re.compile(r"^ *(?:MTUBytes=|mtu:? |[\w-]+\.mtu=)(\d+)$", re.MULTILINE)
_STATE = re.compile(r"^ *(?:ActivationPolicy=|activation-mode: \")(\w+)", re.MULTILINE)
_IFUP_ROUTE = re.compile(r"^ *up ip \S+ route ", re.MULTILINE)
_IFUP_RULE = re.compile(r"^ *up ip \S+ rule ", re.MULTILINE)
# One name per line, with or without a value; all other lines are comments.
_NAME = re.compile(r"^(\w[\w./*-]*)(?: = .*)?$", re.MULTILINE)
_DOWN = {"off": "down"}
_ENABLE_JOIN = Run(("systemctl", "enable", posixpath.basename(JOIN_UNIT_FILE)))


def plan(context: Context) -> ConcernPlan:
    """Return a step for each file of ours that no concern needs and no other step removes."""
    own_steps = {key_of(step) for step in context.earlier}
    # The unit by which a node joins the cluster has to start at every boot until the node has joined.
    kept = set() if context.removing else {JOIN_UNIT_FILE}
    return [
        removal_step("leftovers", path, interrupts=lost_with(path, context.boot_files[path]))
        for path in sorted(set(context.boot_files) - set(context.wanted_files) - own_steps - kept)
    ], []


def work(context: Context, step: Step) -> Work:
    """Return the removal of a step's file."""
    path = step["target"]

    def verify(host: Host) -> str:
        return f"{path} is still there" if host.exists(path) else ""

    removal = context.work_of_removal(path)
    if path == JOIN_UNIT_FILE:
        return Work([RemoveFile(JOIN_ENABLED_BY), *removal.do], [*removal.undo, _ENABLE_JOIN], verify)
    return removal._replace(verify=verify)


def kept_no_longer(former: str, now: str, mtu: bool = True) -> str:
    """Return what a manager's file keeps no longer with the text ``now``; MTUs are left out without ``mtu``."""
    return _from_boot_on(_settings(former, now, mtu), "no longer keeps")


def lost_with(path: str, text: str) -> str:
    """Return what the next boot drops without a file, in the words of a step's ``interrupts``."""
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
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"{listed} that it {verb}, from the next boot on"


def _settings(former: str, now: str, mtu: bool = True) -> list[str]:
    """Return the MTUs and link states of a manager's ``former`` text that the text ``now`` lacks."""
    mtus = sorted(map(int, _gone(_MTU, former, now))) if mtu else []
    states = sorted({_DOWN.get(state, state) for state in _gone(_STATE, former, now)})
    return [*([f"MTU {', '.join(map(str, mtus))}"] if mtus else []), *(f"state {state}" for state in states)]


def _gone(pattern: Pattern[str], former: str, now: str) -> list[str]:
    """Return the values that are gone; a value that was replaced by another is not."""
    before, after = Counter(pattern.findall(former)), Counter(pattern.findall(now))
    return list((before - after).keys()) if sum(before.values()) > sum(after.values()) else []


HANDLER = Handler(work)
