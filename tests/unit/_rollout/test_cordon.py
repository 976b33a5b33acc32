# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark of a cordon: one write with it, and only what we have cordoned is uncordoned."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import (
    ANNOTATION,
    Mark,
    Step,
    in_one_line,
    mark_of,
    to_cordon,
    to_fail,
    to_uncordon,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import GPU_STATE_LABEL
from ansible_collections.rdma.fabric.tests.unit._rollout.objects import node

MARK = Mark("me@controller", "r1", "firmware", "2026-01-01T00:00:00Z")
KEEPS = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")


def merged(body: dict[str, Any], step: Step) -> dict[str, Any]:
    """Return the node after a merge patch, as far as these patches go."""
    assert step.patch is not None
    after: dict[str, Any] = json.loads(json.dumps(body))
    for part in ("spec", "metadata"):
        for key, value in step.patch.get(part, {}).items():
            if key == "annotations":
                for name, text in value.items():
                    after[part][key].update({name: text})
                    if text is None:
                        del after[part][key][name]
            elif value is None:
                after[part].pop(key, None)
            else:
                after[part][key] = value
    return after


def test_a_free_node_is_cordoned_marked_and_given_back_as_it_was() -> None:
    cordoned = merged(node(), to_cordon(node(), MARK))
    assert cordoned["spec"] == {"unschedulable": True}
    assert mark_of(cordoned) == replace(MARK, keeps=KEEPS)
    assert merged(cordoned, to_uncordon(cordoned)) == node()


def test_a_patch_holds_for_the_node_that_was_read_only() -> None:
    step = to_cordon(node(), MARK)
    assert step.patch is not None
    assert step.patch["metadata"]["resourceVersion"] == "7"


def test_a_node_that_somebody_else_cordoned_stays_cordoned_and_is_named() -> None:
    before = node(unschedulable=True)
    step = to_cordon(before, MARK)
    assert "somebody else has cordoned node n" in step.notice
    marked = merged(before, step)
    given_back = to_uncordon(marked)
    assert merged(marked, given_back) == before
    assert "stays so (kubectl uncordon n" in given_back.notice
    assert to_uncordon(before).patch is None
    assert "somebody else has cordoned node n" in to_uncordon(before).notice


def test_the_mark_of_a_dead_run_stays_and_is_named_and_any_run_gives_the_node_back() -> None:
    dead = Mark("they@elsewhere", "r0", "kernel", "2025-12-31T00:00:00Z")
    cordoned = merged(node(), to_cordon(node(), dead))
    step = to_cordon(cordoned, MARK)
    assert step.patch is None
    assert "they@elsewhere, run r0, since 2025-12-31T00:00:00Z: kernel" in step.notice
    assert to_cordon(cordoned, dead) == Step(None)
    assert merged(cordoned, to_uncordon(cordoned)) == node()


def test_a_node_that_was_uncordoned_by_hand_loses_its_mark_only() -> None:
    uncordoned = node(annotation=MARK.text())
    assert merged(uncordoned, to_uncordon(uncordoned)) == node()
    early = to_uncordon(node(annotation=replace(MARK, unschedulable=True).text())).notice
    assert early.startswith("somebody else has uncordoned node n before this run did (after a reboot the GPU Operator")
    assert to_fail(uncordoned, "no links") == Step(None)
    again = merged(uncordoned, to_cordon(uncordoned, MARK))
    assert merged(again, to_uncordon(again)) == node()


def test_a_run_that_is_named_gives_back_only_what_it_has_cordoned() -> None:
    cordoned = merged(node(), to_cordon(node(), MARK))
    step = to_uncordon(cordoned, "other")
    assert step.patch is None
    assert "node n is cordoned by me@controller, run r1, since 2026-01-01T00:00:00Z: firmware" in step.notice
    assert merged(cordoned, to_uncordon(cordoned, "r1")) == node()


def test_a_cordoned_node_says_what_it_has_failed_by_and_is_given_back_as_it_was() -> None:
    cordoned = merged(node(), to_cordon(node(), MARK))
    failed = merged(cordoned, to_fail(cordoned, "no links"))
    assert mark_of(failed) == replace(MARK, reason="no links", keeps=KEEPS)
    assert to_fail(failed, "no links") == Step(None)
    given_back = merged(failed, to_uncordon(failed))
    assert (mark_of(given_back), given_back["spec"]) == (None, node()["spec"])


def test_what_a_node_has_failed_by_is_one_line_of_bounded_length() -> None:
    assert in_one_line(" no\n links ") == "no links"
    assert len(in_one_line("no links\n" * 1000)) <= 500


def test_a_node_that_we_have_not_cordoned_says_nothing_of_a_failure() -> None:
    assert to_fail(node(), "no links") == Step(None)
    assert to_fail(node(unschedulable=True), "no links") == Step(None)


def test_a_free_node_needs_nothing() -> None:
    assert to_uncordon(node()) == Step(None)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"holder": "x"}', pytest.param("[" * 100_000, id="too-deep")])
def test_a_mark_that_cannot_be_read_frees_no_node(text: str) -> None:
    damaged = node(unschedulable=True, annotation=text)
    step = to_uncordon(damaged)
    after = merged(damaged, step)
    assert after["spec"] == {"unschedulable": True}
    assert ANNOTATION not in after["metadata"]["annotations"]
    assert "stays so" in step.notice


QUARANTINE, DRAIN = "quarantineHealthEventIsCordoned", "sriovnetwork.openshift.io/state"


@pytest.mark.parametrize(
    ("part", "name", "value", "idle", "who"),
    [
        ("annotations", QUARANTINE, "True", "", "NVSentinel"),
        ("annotations", DRAIN, "Drain_Required", "Idle", "the SR-IOV Network Operator"),
        ("labels", GPU_STATE_LABEL, "pod-restart-required", "upgrade-done", "the GPU Operator, which upgrades"),
    ],
)
def test_a_node_that_another_controller_has_claimed_since_stays_cordoned(
    part: str, name: str, value: str, idle: str, who: str
) -> None:
    """An uncordon would end NVSentinel's quarantine of a GPU that has failed meanwhile (NVIDIA/NVSentinel#141)."""
    cordoned = merged(node(), to_cordon(node(), MARK))
    cordoned["metadata"].setdefault(part, {})[name] = value
    step = to_uncordon(cordoned)
    after = merged(cordoned, step)
    assert (after["spec"], mark_of(after)) == ({"unschedulable": True}, None)
    assert f"stays cordoned, {who}" in step.notice
    assert f"has claimed it since it was cordoned ({name}: {value})" in step.notice
    cordoned["metadata"][part][name] = idle
    assert merged(cordoned, to_uncordon(cordoned))["spec"] == {}


def test_a_claim_of_before_such_as_one_that_was_left_behind_keeps_no_node_cordoned() -> None:
    before = node()
    before["metadata"]["annotations"][DRAIN] = "Draining"
    cordoned = merged(before, to_cordon(before, MARK))
    assert merged(cordoned, to_uncordon(cordoned)) == before


def test_autoscalers_delete_no_node_that_is_empty_because_it_is_drained() -> None:
    """They take it for unneeded (kubereboot/kured#707 and #1309, kubernetes/autoscaler#8494)."""
    before = node()
    before["metadata"]["annotations"][KEEPS[1]] = "true"
    cordoned = merged(before, to_cordon(before, MARK))
    assert {name: cordoned["metadata"]["annotations"][name] for name in KEEPS} == dict.fromkeys(KEEPS, "true")
    assert merged(cordoned, to_uncordon(cordoned)) == before, "what somebody else has set stays"


def test_what_keeps_autoscalers_away_goes_also_from_a_node_that_was_uncordoned_by_hand() -> None:
    uncordoned = merged(node(), to_cordon(node(), MARK))
    del uncordoned["spec"]["unschedulable"]
    again = merged(uncordoned, to_cordon(uncordoned, MARK))
    assert merged(again, to_uncordon(again)) == merged(uncordoned, to_uncordon(uncordoned)) == node()


def test_a_mark_removes_no_annotation_of_others_from_a_node() -> None:
    forged = node(unschedulable=True, annotation=replace(MARK, keeps=("other",)).text())
    assert merged(forged, to_uncordon(forged)) == node()
