# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of pairs: short ones of those that pass, which say all that others need, and whole rows of the others."""

from __future__ import annotations

import json

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.culprits import outcomes_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import document_text, slow_words
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import (
    Written,
    brief_row,
    digest_of,
    head_line,
    last_line,
    read_lines,
    row_line,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import verification_violations
from ansible_collections.rdma.fabric.plugins.module_utils._report.wire import verification_section
from ansible_collections.rdma.fabric.tests.unit._proof.wire.sample_proof import document

NODES = ["gpu-node-0001", "gpu-node-0002", "gpu-node-0003", "gpu-node-0004"]


def test_the_line_of_a_pair_that_passes_is_short_and_that_of_another_one_is_its_row() -> None:
    rows = document(NODES, bad=(NODES[3],), networks=2)["pairs"]
    for row in rows:
        line = row_line(row)
        assert line.endswith("}\n")
        assert len(line) <= 200 if row["verdict"] == "pass" else json.loads(line) == row
    assert {row["verdict"] for row in rows} == {"pass", "fail"}


def test_brief_rows_tell_blame_latency_and_report_the_same_as_whole_ones() -> None:
    whole = document(NODES, slow=(NODES[0],), far=(NODES[1],), networks=2)
    network = {"network": "default/rail0", "nodes": {node: node for node in NODES}}
    rows = whole["pairs"]
    brief = [brief_row(row) for row in rows]
    assert outcomes_of([network], brief) == outcomes_of([network], rows)
    assert [slow_words([row for row in each if row["rail"] == 1]) for each in (brief, rows)] == [
        slow_words(rows[6:])
    ] * 2
    assert verification_violations("verify.json", {**whole, "pairs": brief}) == []
    shown, reference = (verification_section({**whole, "pairs": pairs}) or {} for pairs in (brief, rows))
    rates = [
        [pair["rates"] for network in each["networks"] for pair in network["pairs"]] for each in (shown, reference)
    ]
    assert rates[0] == rates[1]


def test_pairs_that_pass_are_not_in_the_text_of_a_brief_document() -> None:
    found = document(NODES, bad=(NODES[3],))
    assert len(json.loads(document_text(found))["pairs"]) == 6
    kept = json.loads(document_text({**found, "brief": True}))
    assert [row["verdict"] for row in kept["pairs"]] == ["fail"] * 3
    assert kept["counts"]["total"] == 6


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_a_file_is_read_as_far_as_it_was_written(cut: int) -> None:
    rows = document(NODES)["pairs"]
    lines = [head_line("0a1b2c3d", 7, "digest"), *map(row_line, rows)]
    text = "".join(lines)
    found = read_lines(text[: len(text) - cut].splitlines())
    left = len(rows) if cut < 2 else len(rows) - 1
    assert found == Written("0a1b2c3d", 7, "digest", [brief_row(row) for row in rows[:left]], False)
    assert read_lines([*lines, last_line("pass")]).ended


@pytest.mark.parametrize(
    "text", ["", "\n", "[]\n", "null", '{"format": "rdma.fabric/verify-rows/v1"}', '{"a": 1}', "\0"]
)
def test_another_file_says_nothing(text: str) -> None:
    assert read_lines(text.splitlines()) == Written(rows=[])


def test_another_plan_image_or_setting_is_told_apart() -> None:
    plan = {"networks": [{"network": "a", "rounds": [[["n1", "n2"]]]}], "seed": 1}
    asked = [(plan, "image", (30, None)), ({**plan, "seed": 2}, "image", (30, None)), (plan, "other", (30, None))]
    assert len({digest_of(*each) for each in [*asked, (plan, "image", (20, None))]}) == 4
    assert digest_of(*asked[0]) == digest_of(json.loads(json.dumps(plan)), "image", (30, None))
