# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook that failed is told apart from one that did not end within its limit, whichever ansible-core ran it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.hooks import (
    _REACHES,
    HOOK,
    why_facts_refused,
    why_hook_failed,
    why_hook_left,
    without_facts,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import Unfinished, unfinished_hosts

CHECKOUT = Path(__file__).resolve().parents[3]
# What ansible-core 2.16 and 2.19 say of a command that was ended at a timeout of three seconds.
IN_WORDS = "The command action failed to execute in the expected time frame (3) and was terminated"
IN_A_KEY = "Task failed: Timed out after 3 second(s)."
TOO_LONG = (
    "the hook /hooks/nccl.yml (changed) has not ended: its task Measure took longer than 3 seconds; see what it waits "
    "for on gpu-01, or raise rdma_fabric_hook_timeout, or its own timeout"
)


def why(*said: str, limits: tuple[Any, ...] = ()) -> str:
    kept = {"host": "gpu-01", "stage": "changed", "file": "/hooks/nccl.yml", "task": "Measure"}
    return why_hook_failed({**kept, "said": list(said), "limits": list(limits)})


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ((IN_WORDS,), ()),
        ((IN_A_KEY,), (3,)),
        (("One or more items failed", "", IN_WORDS), ()),
        (("One or more items failed", "", IN_A_KEY), (3,)),
        (("One or more items failed", IN_A_KEY, IN_A_KEY), (3, 3)),
    ],
)
def test_a_task_that_took_too_long_is_told_with_its_limit_and_what_to_do(
    said: tuple[str, ...], limits: tuple[int, ...]
) -> None:
    assert why(*said, limits=limits) == TOO_LONG


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (("the test of mine says no",), "the test of mine says no"),
        (("One or more items failed", "no", "no"), "One or more items failed"),
        (("",), "its own error says why"),
    ],
)
def test_any_other_failure_is_told_in_its_own_words(said: tuple[str, ...], reason: str) -> None:
    assert why(*said) == f"the hook /hooks/nccl.yml (changed) has failed: {reason}"


def test_a_host_that_is_away_after_its_hook_is_told_however_that_was_found() -> None:
    kept = {"host": "gpu-01", "stage": "changed", "file": "/hooks/nccl.yml", "task": _REACHES}
    told = "has failed: gpu-01 can't be reached, so tasks of the hook were passed over: no route"
    for limits in ([], [600]):
        assert why_hook_failed({**kept, "said": ["no route"], "limits": limits}).endswith(told)
    tasks = yaml.safe_load((CHECKOUT / "roles" / "host" / "tasks" / "hook.yml").read_text(encoding="utf-8"))
    assert _REACHES in [task["name"] for task in tasks[1]["block"]]


def test_a_hook_that_has_begun_and_not_ended_fails_its_host_with_what_may_have_done_that() -> None:
    hook = {"host": "gpu-01", "stage": "changed", "file": "/hooks/nccl.yml"}
    own = {"rdma_fabric_host_result": {"changed": True}, HOOK: hook}
    assert unfinished_hosts(["gpu-01"], {"gpu-01": own}) == [Unfinished("gpu-01", f"failed: {why_hook_left(hook)}")]
    assert why_hook_left(hook).startswith("the hook /hooks/nccl.yml (changed) took gpu-01 out of its turn: ")
    ended = {**own, HOOK: {}}
    assert unfinished_hosts(["gpu-01"], {"gpu-01": ended}) == []


def test_what_facts_have_set_gets_back_what_it_was_before_the_hook() -> None:
    names = ("_rdma_fabric_host_slot", "rdma_fabric_context", "rdma_fabric_drain", "rdma_fabric_node_name")
    own = {HOOK: {"node": "node-a"}}
    assert without_facts(names, own, {"rdma_fabric_context": "here", "rdma_fabric_node_name": "x"}) == {
        "_rdma_fabric_host_slot": {},
        "rdma_fabric_context": "here",
        "rdma_fabric_drain": "",
        "rdma_fabric_node_name": "node-a",
    }
    assert why_facts_refused("gpu-01", names[:1]) == (
        "facts that the hook gathered set _rdma_fabric_host_slot, which only the inventory may: look who wrote them on "
        "gpu-01, or use set_fact without cacheable"
    )
