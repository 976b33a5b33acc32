# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of nv-ipam before v0.1.0, judged as nvidia-k8s-ipam's own ``Validate`` of v0.0.3 judges it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nv_ipam import (
    config_of,
    config_problems,
    read_config,
)

IP_POOL: dict[str, Any] = {"subnet": "192.168.0.0/24", "perNodeBlockSize": 50, "gateway": "192.168.0.1"}


def selecting(*requirements: dict[str, Any], **term: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(requirements), **term}]
    return {**IP_POOL, "nodeSelector": {"nodeSelectorTerms": terms}}


def in_pool(value: str) -> dict[str, Any]:
    return {"key": "pool", "operator": "In", "values": [value]}


def test_the_retired_configuration_becomes_pools() -> None:
    config = {"pools": {"a": IP_POOL}, "nodeSelector": {"pool": "gpu"}}
    pools, problems = read_config(json.dumps(config))
    assert problems == []
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
    assert pools == {"a": {**IP_POOL, "nodeSelector": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("config", "paths"),
    [
        ("{", [""]),
        ("[]", [""]),
        ('{"pools": {}}', ["pools"]),
        ('{"pools": {"a": 7}}', ["pools.a"]),
        ('{"pools": {"A": {"subnet": "10.0.0.0/24", "perNodeBlockSize": 1}}}', ["pools.A"]),
        ('{"pools": {"a": {"subnet": "10.0.0.0/24", "perNodeBlockSize": 0}}}', ["pools.a.perNodeBlockSize"]),
        ('{"pools": {"a": {"subnet": "10.0.0.0/24", "perNodeBlockSize": 1, "gw": 1}}}', ["pools.a.gw"]),
        ('{"pools": {"a": {"subnet": "10.0.0.0/24", "perNodeBlockSize": 1}}, "x": 1}', ["x"]),
        ('{"pools": {"a": {}}}', ["pools.a", "pools.a"]),
        ('{"pools": {}, "nodeSelector": ["a"]}', ["nodeSelector"]),
    ],
)
def test_a_flawed_retired_configuration_is_refused_by_path(config: str, paths: list[str]) -> None:
    assert [each.path for each in read_config(config)[1]] == paths


def test_pools_become_the_configuration_that_they_were_read_from() -> None:
    for selector in ({}, {"nodeSelector": {"pool": "gpu", "rack": "a"}}):
        given = {"pools": {"a": IP_POOL, "b": {**IP_POOL, "subnet": "192.168.0.7/24"}}, **selector}
        assert config_of(read_config(json.dumps(given))[0]) == given


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, []),
        ({"perNodeBlockSize": 254}, []),
        ({"perNodeBlockSize": 1}, ["perNodeBlockSize"]),
        ({"subnet": "192.168.0.0/31", "perNodeBlockSize": 2}, ["perNodeBlockSize"]),
        ({"gateway": None}, ["gateway"]),
        ({"gateway": ""}, ["gateway"]),
        ({"subnet": "fd00::/64", "gateway": "fd00::1"}, ["subnet"]),
        ({"nodeSelector": None}, []),
    ],
)
def test_a_pool_that_the_old_controller_refuses_is_refused(changes: dict[str, Any], paths: list[str]) -> None:
    found = config_problems([{**IP_POOL, **changes}], "v0.0.3")
    assert [(index, problem.path) for index, problem in found] == [(0, path) for path in paths]
    assert all("v0.0.3" in problem.problem for _index, problem in found)


@pytest.mark.parametrize(
    ("specs", "refused"),
    [
        ([selecting(in_pool("a")), selecting(in_pool("a"))], []),
        ([selecting(in_pool("a")), selecting(in_pool("b"))], [1]),
        ([selecting(in_pool("a")), IP_POOL], [1]),
        ([IP_POOL, selecting(in_pool("a")), IP_POOL], [1]),
        ([selecting({"key": "pool", "operator": "Exists"})], [0]),
        ([selecting({"key": "pool", "operator": "In", "values": ["a", "b"]})], [0]),
        ([selecting(in_pool("a"), in_pool("b"))], [0]),
        ([selecting(in_pool("a"), matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])], [0]),
        ([{**IP_POOL, "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [in_pool("a")]}, {}]}}], [0]),
        ([selecting()], [0]),
    ],
)
def test_only_one_selector_of_labels_fits(specs: list[dict[str, Any]], refused: list[int]) -> None:
    found = config_problems(specs, "v0.0.2")
    assert [(index, problem.path) for index, problem in found] == [(index, "nodeSelector") for index in refused]
