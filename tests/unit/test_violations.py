# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong in the same way with many hosts is told once, with the hosts; nothing else is put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Violation,
    named,
    report,
    together,
)


def wrong(host: int, path: str = "[0].mtu", problem: str = "is 5", hint: str = "raise it") -> Violation:
    return Violation(f"host gpu{host:02}: rdma_fabric_interfaces", path, problem, hint)


def test_a_line_of_group_vars_is_one_violation_however_many_hosts_it_is_about() -> None:
    invalid = InvalidInput([*(wrong(host) for host in range(1, 41)), wrong(7, "[1].pci")])
    assert str(invalid).splitlines() == [
        "2 problems in the input; nothing was changed:",
        "  - hosts gpu01, gpu02, gpu03 and 37 more: rdma_fabric_interfaces: [0].mtu: is 5 (raise it)",
        "  - host gpu07: rdma_fabric_interfaces: [1].pci: is 5 (raise it)",
    ]
    assert [type(found) for found in invalid.violations] == [Violation, Violation]


def test_problems_in_words_of_their_own_are_told_in_part_and_kept_all() -> None:
    invalid = InvalidInput([wrong(host, problem=f"is {host}") for host in range(5000)])
    lines = str(invalid).splitlines()
    assert lines[0] == "5000 problems in the input; nothing was changed:"
    assert lines[-1] == "  - and 4900 more, among the violations of the result"
    assert (len(lines), len(invalid.violations)) == (102, 5000)


def test_what_differs_in_any_part_stays_apart() -> None:
    found = [wrong(1), wrong(2, path="[1].mtu"), wrong(3, problem="is 6"), wrong(4, hint="lower it")]
    found.append(Violation("host gpu05: rdma_fabric_sysctls", "[0].mtu", "is 5", "raise it"))
    assert together(found) == found


def test_what_no_host_is_about_stays_as_it_is_and_one_host_stays_one() -> None:
    files = [Violation("a.yaml", "x", "is wrong"), Violation("b.yaml", "x", "is wrong")]
    assert together([*files, wrong(1), wrong(1)]) == [*files, wrong(1)]


def test_what_is_about_one_file_is_told_together_by_line() -> None:
    told = [("b.yaml", 48), ("a.yaml", 2), ("b.yaml", 15), ("b.yaml", 16), ("a.yaml", None)]
    found = together([Notice(source, "spec", "is odd", line=line) for source, line in told])
    lines = [("b.yaml", 15), ("b.yaml", 16), ("b.yaml", 48), ("a.yaml", None), ("a.yaml", 2)]
    assert [(each.source, each.line) for each in found] == lines


def test_notices_are_put_together_as_well() -> None:
    notices = [Notice(f"host {host}: rdma_fabric_limits", "memlock", "is low") for host in ("a", "b")]
    assert together(notices) == [Notice("hosts a, b: rdma_fabric_limits", "memlock", "is low")]


def test_hosts_are_named_as_a_person_says_it() -> None:
    assert named(["a"]) == "a"
    assert named(["a", "b", "c"]) == "a, b, c"
    assert named(["a", "b", "c", "d"]) == "a, b, c and 1 more"


@pytest.mark.parametrize("part", ["source", "path", "problem", "hint"])
@pytest.mark.parametrize("text", ["a\n  - p.yaml:1: forged line", "\x1b[2J\u202e", "\ud800", "x" * 5000])
def test_each_part_of_a_finding_is_told_in_one_line_of_bounded_length(part: str, text: str) -> None:
    found = replace(Violation("s", "p", "is wrong", "fix it", 3), **{part: text})  # type: ignore[arg-type]  # texts only
    for told in (found.sentence(), found.as_dict()[part], report([found]).splitlines()[1]):
        assert told.isprintable()
        assert len(told) < 1100
    assert found.as_dict()[part].endswith("...") == (len(text) > 1000)
