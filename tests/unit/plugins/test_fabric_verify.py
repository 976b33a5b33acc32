# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of fabric_verify: what is refused before a cluster is asked, and what the proof gets of them."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Mapping

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.action import fabric_verify as fabric_verify_action
from ansible_collections.rdma.fabric.plugins.action.fabric_verify import check_arguments, request_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import AT_ONCE, MOST_AT_ONCE
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import TEST_POD
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.modules import fabric_verify
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.rows_proof import ROWS
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.nccl_jobs import NcclJobs
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.pods import ClusterPods
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

GUIDE = Path(__file__).parents[3] / "docs" / "guide-verify.md"
OPTIONS = yaml.safe_load(fabric_verify.DOCUMENTATION)["options"]


def arguments(**changes: Any) -> dict[str, Any]:
    usual = {name: option.get("default") for name, option in OPTIONS.items()}
    return {**usual, "spec": {}, **changes}


def flaws(**changes: Any) -> list[str]:
    """What is wrong with arguments beside the empty spec."""
    with pytest.raises(InvalidInput) as refused:
        check_arguments(arguments(**changes))
    return [each.problem for each in refused.value.violations if each.source == "parallel"]


@pytest.mark.parametrize("parallel", [1, AT_ONCE, MOST_AT_ONCE])
def test_requests_at_a_time_that_a_controller_bears_are_what_the_proof_gets(parallel: int) -> None:
    assert flaws(parallel=parallel) == []
    asked = arguments(parallel=parallel)
    assert request_of(asked, {}, "0a1b2c3d", {}).parallel == parallel


@pytest.mark.parametrize("parallel", [-1, 0, MOST_AT_ONCE + 1])
def test_more_or_fewer_are_refused(parallel: int) -> None:
    assert flaws(parallel=parallel) == [f"{parallel} requests cannot be under way at a time"]


@pytest.mark.parametrize("check", [True, False])
def test_a_proxy_that_commands_can_not_go_through_is_refused_before_the_cluster_is_asked(
    check: bool, tmp_path: Path
) -> None:
    lists: dict[str, Any] = {name: [] for name in ("node_policies", "networks", "attachments", "objects")}
    spec = {"namespace": None, "cluster_policy": None, "hosts": {}, **lists}
    connection = {"host": "https://192.0.2.1", "api_key": "t", "proxy": "https://127.0.0.1:9"}
    given = {"spec": spec, "namespace": "rdma", "run_dir": str(tmp_path), "image": "x", **connection}
    result = run_action("fabric_verify", given, check=check, task_vars={"hostvars": {}, "groups": {}})
    assert "commands in pods can't go through a proxy of the kind https://" in result["msg"]


def test_the_specification_is_given_or_what_was_validated(tmp_path: Path) -> None:
    given = {"run_dir": str(tmp_path), "parallel": 0}
    assert "missing required arguments: spec" in run_action("fabric_verify", given)["msg"]
    variables = {"inventory_hostname": "gpu01", "rdma_fabric_preflight_result": {"spec": {"hosts": {"gpu01": {}}}}}
    result = run_action("fabric_verify", {**given, "role_variables": True}, task_vars=variables)
    assert "0 requests cannot be under way" in result["msg"]
    assert "hosts" not in result["msg"]


class Asked(dict[str, Any]):
    """The variables of hosts, which Ansible merges anew at each look: how often each host is looked at."""

    def __init__(self, hosts: Mapping[str, Any]) -> None:
        super().__init__(hosts)
        self.looks: Counter[str] = Counter()

    def __getitem__(self, host: str) -> Any:
        self.looks[host] += 1
        return super().__getitem__(host)


@pytest.mark.parametrize("node", [None, "n1"])
def test_variables_of_each_host_are_merged_once(node: str | None) -> None:
    """A test of one node, which each turn of a rollout has, looks at all hosts for their nodes."""
    hosts = {f"h{number}": {"ansible_host": f"10.0.0.{number}"} for number in range(5)}
    variables = Asked(hosts)
    pods: Any = SimpleNamespace(networks=lambda *_given: ([], [], []), nodes=list, users=dict)
    pods.surroundings = partial(ClusterPods.surroundings, pods)
    action: Any = fabric_verify_action.ActionModule
    given = arguments(node=node, spec={"hosts": hosts})
    around = action._around(None, given, {}, pods, {"hostvars": variables})
    assert variables.looks == dict.fromkeys(hosts, 1)
    # Where nodes are known by their hosts' names, nobody looks for addresses.
    assert len(around.addresses) == (0 if node else 5)
    assert len(around.names) == (5 if node else 0)


@pytest.mark.parametrize("action", ["fabric_verify", "fabric_nccl"])
@pytest.mark.parametrize(
    ("limit", "tested"),
    [
        (None, "tests h1 h2 h3"),
        ("localhost", "tests h1 h2 h3"),
        ("all,!h2", "tests h1 h3"),
        ("h2", "leaves only h2 of the fabric's hosts"),
    ],
)
def test_hosts_outside_the_limit_are_not_tested(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str, limit: str | None, tested: str
) -> None:
    def surroundings(_self: Any, spec: Any, *_given: Any, **_more: Any) -> Any:
        raise ActionFailure(f"tests {' '.join(spec['hosts'])}")

    monkeypatch.setattr(ClusterPods, "surroundings", surroundings)
    monkeypatch.setattr(NcclJobs, "serves_mpi_jobs", lambda _self: False)
    lists: dict[str, Any] = {name: [] for name in ("node_policies", "networks", "attachments", "objects")}
    hosts: dict[str, Any] = {name: {} for name in ("h1", "h2", "h3")}
    spec = {"namespace": None, "cluster_policy": None, "hosts": hosts, **lists}
    busy = {"busy_nodes": True} if action == "fabric_verify" else {}
    given = {"spec": spec, "run_dir": str(tmp_path), "image": "x", "host": "https://192.0.2.1", "api_key": "t", **busy}
    task_vars = {"hostvars": hosts, "groups": {"all": [*hosts]}, **({"ansible_limit": limit} if limit else {})}
    message = run_action(action, given, check=True, task_vars=task_vars)["msg"]
    assert tested in message


def test_module_and_variable_have_the_same_limits() -> None:
    (row,) = [row for row in ROWS if row.short == "verify_parallel"]
    assert (row.default, row.least, row.most) == (AT_ONCE, 1, MOST_AT_ONCE)
    assert OPTIONS["parallel"]["default"] == AT_ONCE


def test_the_guide_ends_traffic_without_a_controller_by_the_labels_of_test_pods() -> None:
    (selector,) = re.findall(r"kubectl delete pods --all-namespaces -l (\S+)", GUIDE.read_text(encoding="utf-8"))
    assert dict(each.split("=") for each in selector.split(",")) == TEST_POD
