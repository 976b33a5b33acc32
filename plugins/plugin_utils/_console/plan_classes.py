# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of many hosts as a person reads them: one for each group of identical hosts, and what differs inside it. Pure.

Hosts are of one class when their plans have the same steps: same status, concern and device, in the same order. What a
step says beyond that (an address, a version) may differ; each wording is printed with its hosts, so nothing is hidden
unless a file has it.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key

from .host_names import fold_names


def plan_lines_of_classes(plans: Mapping[str, Sequence[str]], most_wordings: int | None = None) -> list[str]:
    """Return the lines to print for the plans of hosts: a heading for each class, its steps indented below it.

    ``plans`` holds the lines of the steps of each host, none for a host with nothing to do. Classes stand in the order
    of their first host. Of one step ``most_wordings`` are told, where a file has the others; all without it.
    """
    classes: dict[tuple[str, ...], list[str]] = {}
    for host in sorted(plans, key=natural_key):
        classes.setdefault(tuple(map(_same_step, plans[host])), []).append(host)
    lines: list[str] = []
    for steps, hosts in classes.items():
        lines.append(f"{_counted(hosts)}: {counted(len(steps), 'step') if steps else 'nothing to do'}")
        for wordings in zip(*(plans[host] for host in hosts)):
            lines += _step(dict(zip(hosts, wordings)), most_wordings)
    return lines


def notice_lines(notices: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line for each notice, with the hosts that it is about; ``notices`` holds those of each host."""
    about: dict[str, list[str]] = {}
    for host in sorted(notices, key=natural_key):
        for text in notices[host]:
            about.setdefault(text, []).append(host)
    return [f"notice: {fold_names(hosts)}: {text}" for text, hosts in about.items()]


def _same_step(line: str) -> str:
    """Return what makes the step of a printed line the same as that of another host: ``planned: mtu 0000:29:00.0``."""
    status, _colon, rest = line.partition(": ")
    return f"{status}: {' '.join(rest.split(' ', 2)[:2]).rstrip(':')}"


def _step(wording_of: Mapping[str, str], most: int | None) -> list[str]:
    """Return the line of one step of a class, or one for each of its wordings."""
    by_wording: dict[str, list[str]] = {}
    for host, wording in wording_of.items():
        by_wording.setdefault(wording, []).append(host)
    if len(by_wording) == 1:
        return [f"  {wording}" for wording in by_wording]
    told, rest = list(by_wording.items())[:most], list(by_wording.values())[len(by_wording) if most is None else most :]
    lines = [f"  [{fold_names(hosts)}] {wording}" for wording, hosts in told]
    others = fold_names(host for hosts in rest for host in hosts)
    return [*lines, *([f"  [{others}] the same step in {counted(len(rest), 'other wording')}"] if rest else [])]


def _counted(hosts: Sequence[str]) -> str:
    names = fold_names(hosts)
    return names if len(hosts) == 1 else f"{names} ({len(hosts)} hosts)"
