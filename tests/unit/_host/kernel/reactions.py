# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the simulated kernel reacts: each module of this package that has reactions declares them with these decorators.

A reaction to a written attribute gets the kernel, the match of the attribute's real path and the text. It raises
``HostError(code, path)`` as the kernel would, or changes ``kernel.tree``. An attribute without a reaction keeps what
is written to it. A program gets the kernel and its arguments, ``argv[0]`` included, and returns what it left.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Match, NamedTuple, Pattern, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

Attribute = Callable[["Kernel", Match[str], str], None]
Program = Callable[["Kernel", Sequence[str]], CommandResult]
LinkSetting = Callable[["Kernel", str, Deque[str]], CommandResult]
Register = Callable[["Kernel", str, int, bytes], bytes]
LinkShown = Callable[["Kernel", str], Dict[str, Any]]
Question = Callable[[Sequence[str]], bool]

DONE = CommandResult(0, "", "")
# Holds after how many seconds the link of a port follows its being set up; drivers refuse rates before that.
LINKS = "/run/lab/seconds-until-links"


class AttributeReaction(NamedTuple):
    pattern: Pattern[str]
    react: Attribute


class ProgramReaction(NamedTuple):
    run: Program
    only_reads: Question


ATTRIBUTES: list[AttributeReaction] = []
PROGRAMS: dict[str, ProgramReaction] = {}
LINK_SETTINGS: dict[str, LinkSetting] = {}
LINK_SHOWN: list[LinkShown] = []
REGISTERS: list[Register] = []


def attribute(pattern: str) -> Callable[[Attribute], Attribute]:
    """Declare the reaction to writing an attribute whose real path matches ``pattern`` as a whole."""

    def declare(react: Attribute) -> Attribute:
        ATTRIBUTES.append(AttributeReaction(re.compile(pattern), react))
        return react

    return declare


def program(name: str, only_reads: Question = lambda argv: False) -> Callable[[Program], Program]:
    """Declare a program; a call for which ``only_reads`` holds is no mutation and is never made to fail."""

    def declare(run: Program) -> Program:
        PROGRAMS[name] = ProgramReaction(run, only_reads)
        return run

    return declare


def link_setting(word: str) -> Callable[[LinkSetting], LinkSetting]:
    """Declare what ``ip link set dev NAME <word> ...`` does; it gets the name and takes its values from the words."""

    def declare(react: LinkSetting) -> LinkSetting:
        LINK_SETTINGS[word] = react
        return react

    return declare


def link_shown(react: LinkShown) -> LinkShown:
    """Declare members of what ``ip -json link show dev NAME`` prints."""
    LINK_SHOWN.append(react)
    return react


def register(react: Register) -> Register:
    """Declare what a device makes of a write to its configuration space (path, place, bytes): the bytes it has then."""
    REGISTERS.append(react)
    return react


def failed(rc: int, stderr: str) -> CommandResult:
    """Return what a program leaves that complains and ends with ``rc``."""
    return CommandResult(rc, "", f"{stderr}\n")
