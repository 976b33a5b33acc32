# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of NCCL tests judged for a fabric: what fails is named with its ranks and nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_run import (
    Asked,
    Output,
    build_document,
    expected_gbytes,
    judge,
    junit_text,
    line_of,
    outputs_of,
    recap_of,
    rows_without_output,
)

OUTPUTS = Path(__file__).resolve().parents[2] / "fixtures" / "nccl"
HCAS = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
RAILS = {device: f"default/rail{number}" for number, device in enumerate(HCAS)}
TWO = Asked("all rails", 2, {"node-a": "gpu-01", "node-b": "gpu-02"})
SIXTEEN = Asked("all rails", 16, {"dgx-01": "gpu-01", "dgx-02": "gpu-02"}, {"gpu-01": RAILS, "gpu-02": RAILS}, 8, 200.0)
SAYS = "rdma.fabric:"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "docs" / "nccl.schema.json").read_bytes())
)


def row_of(name: str, asked: Asked = SIXTEEN, status: int | None = 0, text: str = "") -> dict[str, Any]:
    text = text or (OUTPUTS / name).read_text(encoding="utf-8")
    return judge(asked, Output("all_reduce_perf", text, status))


def with_both_logs() -> str:
    """An output with the log of the second host, too, as the first one's."""
    text = (OUTPUTS / "all-reduce-2.19-log.txt").read_text(encoding="utf-8")
    first = [line for line in text.splitlines() if line.startswith("dgx-01:") and "NET/IB : Using" in line]
    return "\n".join([*(line.replace("dgx-01", "dgx-02") for line in first), text])


@pytest.mark.parametrize(
    "name", ["all-reduce-2.0.txt", "all-reduce-2.17.json", "all-reduce-2.19.json", "all-reduce-2.19-log.txt"]
)
def test_old_new_and_json_outputs_pass_by_the_rate_of_the_rails(name: str) -> None:
    rate = 43.93 if "2.0.txt" in name else 190.6
    row = row_of(name, replace(SIXTEEN, gbytes=rate))
    assert (row["verdict"], row["problems"]) == ("pass", []), line_of(row)
    assert row["minimum_gbytes"] == round(rate * 0.8, 1)


def test_a_rate_below_the_share_of_the_rails_fails_and_says_what_was_expected() -> None:
    row = row_of("all-reduce-2.19-log.txt", replace(SIXTEEN, gbytes=400.0))
    assert row["verdict"] == "fail"
    assert "190.62 GB/s of bus bandwidth, at least 320 of 400 required" in line_of(row)
    assert judge(replace(SIXTEEN, gbytes=400.0), Output("alltoall_perf", with_both_logs(), 0))["verdict"] == "reported"
    assert row_of("", replace(SIXTEEN, gbytes=None), text=with_both_logs())["verdict"] == "reported"


def test_sockets_are_named_with_ranks_and_nodes() -> None:
    row = row_of("captured/two-hosts-sockets.txt", TWO)
    told = {each["problem"]: each["where"] for each in row["problems"]}
    assert told["the data went over sockets, not over RDMA"] == "rank 0 on node gpu-01, rank 1 on node gpu-02"
    (row,) = [row_of("broken/sockets.txt")]
    assert "ranks 0 to 7 on node gpu-01" in line_of(row)


def test_wrong_results_fail() -> None:
    assert "4194304 elements of the results are wrong" in line_of(row_of("broken/wrong-results.txt"))


def test_a_rail_that_one_host_does_not_use_is_named() -> None:
    whole = with_both_logs()
    assert row_of("", text=whole)["verdict"] == "pass"
    lacking = whole.replace("[3]mlx5_5:1/IB ", "", 1)
    assert lacking != whole
    row = row_of("", text=lacking)
    assert [each["problem"] for each in row["problems"]] == [
        "ranks 8 to 15 on node gpu-02: NCCL does not use mlx5_5 (default/rail3)"
    ]
    # Where the names of functions in pods are not known their number is.
    row = row_of("", replace(SIXTEEN, rails={}), text=lacking)
    assert "ranks 8 to 15 on node gpu-02: NCCL does not use 1 of 8 devices" in line_of(row)


def test_the_rank_that_ended_first_is_named_before_those_that_lost_it() -> None:
    row = row_of("captured/rank-killed.txt", TWO, 137)
    assert row["verdict"] == "fail"
    assert row["problems"][0]["where"] == "rank 1 on node gpu-02"
    assert row["problems"][0]["problem"].startswith("prterun noticed that process rank 1")
    assert "rank 0 on node gpu-01" in {each["where"] for each in row["problems"]}


def test_a_launcher_that_is_killed_in_the_middle_fails_by_name() -> None:
    text = with_both_logs()
    cut = f"{SAYS} begin all_reduce_perf\n{text[: text.rindex('Avg bus')]}"
    (output,), said = outputs_of(cut, SAYS)
    assert (output.status, said) == (None, [])
    row = judge(SIXTEEN, output)
    assert "all_reduce_perf was ended in the middle" in line_of(row)
    assert judge(SIXTEEN, Output("all_reduce_perf", text, 1))["verdict"] == "fail"


def test_fewer_ranks_than_gpus_fail() -> None:
    row = row_of("captured/two-hosts.txt", replace(TWO, ranks=4, nodes={**TWO.nodes, "node-c": "gpu-03"}))
    assert "the test ran with 2 of 4 ranks (none runs on gpu-03" in line_of(row)


def test_the_log_of_a_launcher_is_read_program_by_program() -> None:
    log = f"{SAYS} begin /opt/x/a_perf\none\nhalf{SAYS} end a_perf 0\n{SAYS} begin b_perf\ntwo"
    outputs, said = outputs_of(log, SAYS)
    assert outputs == [Output("a_perf", "one\nhalf", 0), Output("b_perf", "two", None)]
    assert said == []
    assert rows_without_output(TWO, ["/opt/x/a_perf", "b_perf"], outputs, said, []) == []
    (row,) = rows_without_output(TWO, ["a_perf"], *outputs_of(f"{SAYS} the image lacks sshd\n", SAYS), [])
    assert "a_perf on all rails: fail: the image lacks sshd (the launcher says so" in line_of(row)
    log = f"{SAYS} no answer of node-b by ssh: Connection timed out\n"
    (row,) = rows_without_output(TWO, ["a_perf"], *outputs_of(log, SAYS), [])
    assert "NetworkPolicies of the namespace" in line_of(row) and "nccl-tests" not in line_of(row)
    (row,) = rows_without_output(TWO, ["a_perf"], [], [], [])
    assert "the launcher has not begun it" in line_of(row)


def test_the_rails_of_the_slowest_node_are_expected_and_no_gpu_feeds_two() -> None:
    assert expected_gbytes([[400.0] * 8, [400.0] * 7 + [200.0]], 8) == 375.0
    assert expected_gbytes([[400.0, 200.0]], 1) == 50.0
    assert expected_gbytes([[400.0, None]], 8) is None
    assert expected_gbytes([], 8) is None


def whole_document() -> dict[str, Any]:
    """Return the document of a run with a test that passed and one over sockets."""
    rows = [row_of("", text=with_both_logs()), row_of("broken/sockets.txt", replace(SIXTEEN, scope="rail 1"))]
    told: dict[str, Any] = {"image": "nccl:1", "launcher": "Job", "nodes": ["gpu-01", "gpu-02"], "gpus_of_each": 8}
    return build_document(rows, started_at="2026-01-01T00:00:00Z", **told, notices=[])


def test_the_document_tells_the_worst_first_and_is_junit() -> None:
    document = whole_document()
    SCHEMA.validate(document)
    assert document["verdict"] == "fail"
    assert "rail 1: fail" in recap_of(document)[0]
    root = ElementTree.fromstring(junit_text(document))  # noqa: S314  our own text
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert [suite.get("name") for suite in root] == ["all rails", "rail 1"]
    assert root.find("./testsuite[2]/testcase/failure") is not None
