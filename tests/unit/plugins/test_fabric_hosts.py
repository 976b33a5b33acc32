# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_hosts: no host of the run that was left behind is overlooked, and none outside of the run counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

FINE: dict[str, Any] = {"changed": False, "reboot_required": False}
REFUSED_WHY = "unreachable: Task failed: Failed to connect: Connection refused"
REFUSED = {"unreachable": True, "msg": "Task failed: Failed to connect:\n  Connection refused"}
GROUPS = {"all": ["a", "b", "c"], "ungrouped": [], "rdma_fabric": ["a", "b", "c"], "pair": ["a", "b"]}


def look(
    variables: dict[str, dict[str, Any]], *, limit: str | None = None, hosts: list[str] | None = None, **arguments: Any
) -> dict[str, Any]:
    task_vars: dict[str, Any] = {"hostvars": variables, "groups": GROUPS}
    if limit is not None:
        task_vars["ansible_limit"] = limit
    return run_action("fabric_hosts", {"hosts": hosts or sorted(GROUPS["all"]), **arguments}, task_vars=task_vars)


def done(**others: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give the variables of three hosts that came to the end, but for ``others``."""
    return {name: others.get(name, {"host_result": FINE}) for name in GROUPS["all"]}


def test_hosts_that_came_to_the_end_are_no_matter() -> None:
    result = look(done())
    assert (result["unfinished"], result["changed"], result.get("failed")) == ([], False, None)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"host_result": REFUSED}, REFUSED_WHY),
        ({"host_result": {"failed": True, "msg": "no such card"}}, "failed: no such card"),
        ({"host_result": {"failed": True}}, "failed: its own error says why"),
        ({"host_result": {"failed": True, "msg": "x" * 5000}}, f"failed: {'x' * 300}..."),
        (
            {"host_result": FINE, "host_reboot": {"failed": True, "msg": "did not come back"}},
            "failed: did not come back",
        ),
        (
            {"host_result": FINE, "host_reboot": REFUSED},
            "unreachable: Task failed: Failed to connect: Connection refused",
        ),
        (
            {"host_result": {"reboot_required": True}, "host_reboot": {"rebooted": True}},
            "failed: it was rebooted and came back without what the reboot was for",
        ),
        ({}, "failed before it was read; its own error says why"),
    ],
)
def test_a_host_that_was_left_behind_is_named_with_the_reason(variables: dict[str, Any], why: str) -> None:
    result = look(done(b=variables))
    assert result["failed"] is True
    assert result["unfinished"] == [{"host": "b", "why": why}]
    head, line, step = result["msg"].splitlines()
    assert head == "1 of 3 hosts of this run was not brought to the end, so this run goes no further than its report:"
    assert line == f"  - b: {why}"
    assert step == "next: mend it and run again, or leave it out: --limit 'all,localhost,!b'"


@pytest.mark.parametrize(
    "variables",
    [{"host_result": {"reboot_required": True}}, {"host_result": FINE, "host_reboot": {"rebooted": True}}],
)
def test_a_reboot_that_waits_for_consent_or_brought_everything_is_an_end(variables: dict[str, Any]) -> None:
    assert look(done(b=variables))["unfinished"] == []


@pytest.mark.parametrize("limit", ["a", "pair,!b", "!b", "all,localhost,!b", "pair:&a", "@{file}"])
def test_hosts_outside_of_the_limit_are_no_matter(limit: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a\nc\n", encoding="utf-8")
    assert look(done(b={}), limit=limit.format(file=file))["unfinished"] == []


def test_the_next_step_keeps_the_limit_of_the_run() -> None:
    message = look(done(b={"host_result": REFUSED}, c={}), limit="pair,localhost")["msg"]
    assert message.startswith("1 of 2 hosts of this run was")
    assert message.endswith("--limit 'pair,localhost,!b'")


def test_localhost_counts_when_it_is_a_host_of_the_fabric_and_in_the_limit() -> None:
    assert [each["host"] for each in look({}, limit="localhost", hosts=["localhost"])["unfinished"]] == ["localhost"]
    assert look({}, limit="a", hosts=["localhost"])["unfinished"] == []


@pytest.mark.parametrize(
    ("hosts", "step"),
    [
        (["localhost"], "it and run again, or leave it out of rdma_fabric_hosts, as every run needs localhost"),
        (["b", "localhost"], "them and run again, or leave them out: --limit 'all,localhost,!b', and localhost by "),
    ],
)
def test_nobody_is_told_to_leave_out_localhost_by_limit(hosts: list[str], step: str) -> None:
    assert look({}, hosts=hosts)["msg"].splitlines()[-1].startswith(f"next: mend {step}")


def test_of_many_hosts_the_first_are_named_and_the_rest_is_counted() -> None:
    names = [f"h{number:02}" for number in range(30)]
    result = look({}, hosts=names)
    assert len(result["unfinished"]) == 30
    lines = result["msg"].splitlines()
    assert lines[0].startswith("30 of 30 hosts of this run were not brought to the end")
    assert lines[-2:] == ["  - and 20 more", "next: mend them and run again, or leave them out with --limit"]
    assert len(lines) == 13


def test_without_strict_it_warns() -> None:
    result = look(done(b={"host_result": REFUSED}), strict=False)
    assert result.get("failed") is None
    assert [each["host"] for each in result["unfinished"]] == ["b"]
    assert result["notices"][0].startswith("1 of 3 hosts of this run was not brought to the end:\n  - b: unreachable: ")
