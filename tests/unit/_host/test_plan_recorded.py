# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded fleet of the example inventory, planned with its own variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.requested_functions import with_requests
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost, load_recording
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import plan_lines
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import facts_after, ofed, request, steps_of

INVENTORY = Path(__file__).resolve().parents[3] / "inventories" / "recorded"
GROUPS = {
    "dgx-h100-01": "dgx_h100",
    "dgx-h100-02": "dgx_h100",
    "roce-h100-01": "roce_h100",
    "egx-01": "egx",
    "egx-02": "egx",
    "vm-vf-01": "virtual_functions",
    "cpu-01": None,
}


def wanted_of(host: str) -> Any:
    group = GROUPS[host]
    variables = yaml.safe_load((INVENTORY / "group_vars" / f"{group}.yml").read_text()) if group else {}
    desired, violations, _notices = parse_host_variables(host, variables)
    assert violations == []
    desired["requests"] = [request(driver=ofed("24.07-0.6.1.0-0"))]
    return desired


def facts_of(host: str) -> Any:
    document = load_recording((INVENTORY / "recordings" / f"{host}.json.gz").read_bytes())
    return gather(RecordedHost(document), None, wanted_of(host)["kernel_modules"])


def plan_of(host: str) -> Plan:
    return make_plan(wanted_of(host), facts_of(host))


def test_every_recording_has_its_variables() -> None:
    assert {path.name for path in (INVENTORY / "recordings").iterdir()} == {f"{host}.json.gz" for host in GROUPS}


@pytest.mark.parametrize("host", GROUPS)
def test_only_the_driver_is_left_after_the_plan(host: str) -> None:
    plan = plan_of(host)
    assert all(line.isprintable() for line in plan_lines(plan))
    assert {step["status"] for step in plan["steps"] if step["concern"] != "driver"} <= {"planned"}
    left = make_plan(wanted_of(host), facts_after(plan, facts_of(host)))["steps"]
    assert [step for step in left if step["concern"] != "driver"] == []


def test_equal_hosts_have_equal_plans() -> None:
    first, second = plan_of("dgx-h100-01"), plan_of("dgx-h100-02")
    assert first["digest"] == second["digest"]
    assert first["steps"] == second["steps"]
    (remark,) = set(plan_lines(second)) - set(plan_lines(first))
    assert "slower link" in remark, "one of them has a card that came up at half its speed"


def test_the_rails_of_the_training_servers_are_named_by_their_place() -> None:
    renames = {step["from"]: step["to"] for step in steps_of(plan_of("dgx-h100-01"), "naming")}
    assert [renames[f"ibp{bus}s0"] for bus in (24, 64, 79, 94, 154, 192, 206, 220)] == [f"rail{n}" for n in range(8)]


def test_the_roce_servers_get_their_functions_at_the_full_mtu() -> None:
    plan = plan_of("roce-h100-01")
    assert [step["to"] for step in steps_of(plan, "vfs")] == [4] * 8
    of_vfs = dict.fromkeys("0123", 9000)
    assert [step["to"] for step in steps_of(plan, "mtu")] == [*[9000] * 8, *[of_vfs] * 8]


@pytest.mark.parametrize(
    ("host", "action"),
    [
        ("dgx-h100-01", "load DOCA-OFED 24.07-0.6.1.0 in place of DOCA-OFED 23.10-1.1.9"),
        ("roce-h100-01", "load DOCA-OFED 24.07-0.6.1.0 in place of the inbox driver"),
    ],
)
def test_the_driver_step_says_what_is_there(host: str, action: str) -> None:
    load = steps_of(plan_of(host), "driver")[-1]
    assert load["action"] == action


@pytest.mark.parametrize(("host", "runs"), [("egx-01", "MLNX_OFED 5.0-2.1.8"), ("egx-02", "the inbox driver")])
def test_a_driver_for_a_system_of_unknown_packages_is_refused(host: str, runs: str) -> None:
    (step,) = steps_of(plan_of(host), "driver")
    assert (step["status"], step["reason"].endswith(f"this host runs {runs}")) == ("refused", True)
    assert "Ubuntu 18.04" in step["detail"]


def test_a_server_without_nics_has_nothing_to_do() -> None:
    assert plan_of("cpu-01")["steps"] == []


def test_in_a_guest_a_function_is_bound_by_other_means() -> None:
    wish = check_spec({"interfaces": [{"pci": "0000:05:00.0", "vf_driver": "vfio-pci"}]})
    plan = make_plan(wish, facts_of("vm-vf-01"))
    (told,) = [each for each in plan["notices"] if "vf_driver" in each]
    assert told.startswith("0000:05:00.0 (enp5s0np0): vf_driver has no effect, as it is a VF in a guest")
    assert told.endswith("next: driverctl set-override 0000:05:00.0 vfio-pci binds the VF itself")


def test_a_function_has_no_e_switch_to_keep_at_boot() -> None:
    wish = check_spec({"interfaces": [{"pci": "0000:05:00.0", "eswitch_mode": "switchdev"}]})
    steps = make_plan(wish, facts_of("vm-vf-01"))["steps"]
    assert [(step["concern"], step["status"]) for step in steps] == [("eswitch", "refused")]


def test_in_a_guest_a_policy_makes_no_functions_and_says_why() -> None:
    functions = {"resource": "nvidia.com/vfs", "vfs": 4, "priority": 10, "vendor": "15b3"}
    wish = check_spec({"requests": [{"source": "SriovNetworkNodePolicy/vfs", "functions": functions}]})
    wanted, notices = with_requests(wish, facts_of("vm-vf-01"))
    assert wanted["interfaces"] == []
    assert notices == [
        "SriovNetworkNodePolicy/vfs selects this host and none of its ports: 0000:05:00.0, 0000:06:00.0 are VFs "
        "in a guest, which makes none of its own; the device plugin offers them as they are"
    ]
