# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters that read and judge measurements: their examples, and how they fail."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.plugins.filter.core import FilterModule as CoreFilters
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._proof.bandwidth import GPU_THRESHOLDS, HOST_THRESHOLD
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET

NAMES = ("perftest_result", "bandwidth_verdict", "nccl_test_result", "nccl_environment")
PLUGINS = {name: importlib.import_module(f"ansible_collections.rdma.fabric.plugins.filter.{name}") for name in NAMES}
FILTERS: Any = {name: PLUGINS[name].FilterModule().filters()[name] for name in NAMES}
DOCUMENTATION = {name: yaml.safe_load(PLUGINS[name].DOCUMENTATION) for name in NAMES}


@lru_cache(maxsize=None)
def facts() -> Any:
    found: Any = gather(RecordedHost(FLEET["dgx-h100-01"]().document()))
    return found


def templated(value: str, variables: Any) -> Any:
    """Evaluate a template as Ansible does: variables may be templates themselves."""
    environment = NativeEnvironment(autoescape=False)
    environment.filters.update({f"rdma.fabric.{name}": FILTERS[name] for name in NAMES})
    environment.filters["dict2items"] = CoreFilters().filters()["dict2items"]
    known: Any = {}
    for name, item in sorted(variables.items(), key=lambda pair: "{{" in str(pair[1])):
        known[name] = environment.from_string(item).render(known) if "{{" in str(item) else item
    return environment.from_string(value).render(known)


def example(name: str, number: int, field: str = "msg") -> Any:
    """Return what the template of an example's task gives."""
    task = yaml.safe_load(PLUGINS[name].EXAMPLES)[number]
    arguments = next(value for key, value in task.items() if key.startswith("ansible.builtin."))
    value = arguments[field]
    template = value if "{{" in value else f"{{{{ {value} }}}}"
    return templated(template, {**task.get("vars", {}), "host": {"facts": facts()}})


def test_the_example_of_perftest_result_shows_what_it_says() -> None:
    found = example("perftest_result", 0)
    comment = PLUGINS["perftest_result"].EXAMPLES.split("# {", 1)[1].replace("#", "")
    assert found == yaml.safe_load("{" + comment)


def test_the_examples_of_bandwidth_verdict_judge() -> None:
    assert example("bandwidth_verdict", 0, "that") is True
    assert "98% is at least the 90% required" in example("bandwidth_verdict", 0, "fail_msg")
    assert example("bandwidth_verdict", 1)["verdict"] == "pass"


def test_the_example_of_nccl_test_result_passes() -> None:
    found = example("nccl_test_result", 0)
    assert (found["verdict"], found["problems"]) == ("pass", [])
    assert found["transport"]["gpu_direct"] == "all"


def test_the_examples_of_nccl_environment_name_the_rails() -> None:
    variables = {each["name"]: each["value"] for each in example("nccl_environment", 1)}
    assert variables["NCCL_IB_HCA"].startswith("=mlx5_0,mlx5_3,")
    assert variables["NCCL_IB_QPS_PER_CONNECTION"] == "4"
    assert any("mlx5_1 also matches mlx5_10" in each["problem"] for each in example("nccl_environment", 2))


@pytest.mark.parametrize(("priority", "problems"), [(3, 0), (5, 1)])
def test_the_qos_of_a_host_is_taken_as_its_variable_has_it(priority: int, problems: int) -> None:
    """A range of DSCPs, as in rdma_fabric_roce_qos."""
    qos = {"trust": "dscp", "pfc": [3], "dscp_priority": {"24-31": priority}}
    ethernet = gather(RecordedHost(FLEET["roce-h100-01"]().document()))
    found = FILTERS["nccl_environment"](ethernet, current={"NCCL_IB_TC": "106"}, qos=qos)["problems"]
    assert sum("NCCL_IB_TC=106" in each["problem"] for each in found) == problems
    with pytest.raises(AnsibleFilterError, match="roce_qos"):
        FILTERS["nccl_environment"](ethernet, qos={"pfc": 3})


def test_a_result_has_the_documented_keys() -> None:
    documented = {name: set(yaml.safe_load(PLUGINS[name].RETURN)["_value"]["contains"]) for name in NAMES}
    result = FILTERS["perftest_result"]("")
    assert documented["perftest_result"] == set(result)
    assert documented["bandwidth_verdict"] == set(FILTERS["bandwidth_verdict"](result, 100))
    assert documented["nccl_test_result"] == set(FILTERS["nccl_test_result"](""))
    assert documented["nccl_environment"] == set(FILTERS["nccl_environment"](facts()))


def test_the_documented_options_are_those_taken() -> None:
    result = FILTERS["perftest_result"]("")
    verdicts = DOCUMENTATION["bandwidth_verdict"]["options"]
    for option, given in {
        "pcie": {"speed_gts": 8.0, "width": 16},
        "kind": "gpu",
        "distance": "PIX",
        "gpu_pcie": {"speed_gts": 8.0, "width": 16},
        "emulated": True,
        "threshold": 0.9,
    }.items():
        assert option in verdicts
        assert FILTERS["bandwidth_verdict"](result, 100, **{option: given})["verdict"] == "fail"
    assert set(verdicts) == {"_input", "link_gbps", "pcie", "kind", "distance", "gpu_pcie", "emulated", "threshold"}
    assert FILTERS["perftest_result"]("0.123456\n", unit="usec")["kind"] == "latency"
    assert FILTERS["nccl_test_result"]("", minimum=100)["verdict"] == "fail"


def test_the_documented_gates_are_those_applied() -> None:
    text = " ".join(DOCUMENTATION["bandwidth_verdict"]["description"])
    assert f"{HOST_THRESHOLD:.0%}".replace("%", " %") in text
    for gate in GPU_THRESHOLDS.values():
        assert f"{gate:.0%}".replace("%", " %") in text
    assert DOCUMENTATION["bandwidth_verdict"]["options"]["distance"]["choices"] == list(GPU_THRESHOLDS)


@pytest.mark.parametrize(
    ("name", "arguments", "options", "words"),
    [
        ("perftest_result", (None,), {}, ["perftest_result:", "text is needed"]),
        ("perftest_result", ("", "MB"), {}, ["'MB' is not a unit", "mibps"]),
        ("perftest_result", ("",), {"units": "gbps"}, ["units"]),
        ("bandwidth_verdict", ("text",), {}, ["not a result of perftest"]),
        ("bandwidth_verdict", ({}, -1), {"kind": "disk"}, ["link_gbps", "kind", "result"]),
        ("nccl_test_result", (7,), {}, ["nccl_test_result:", "text is needed"]),
        ("nccl_test_result", ("", 0), {}, ["GB/s"]),
        ("nccl_environment", ({},), {}, ["not facts of a host"]),
        ("nccl_environment", ({"rails": 1, "rdma": 2, "netdevs": 3},), {}, ["documented shape"]),
    ],
)
def test_a_flawed_input_fails_with_every_flaw(
    name: str, arguments: tuple[Any, ...], options: Any, words: list[str]
) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](*arguments, **options)
    for word in words:
        assert word in str(caught.value)
