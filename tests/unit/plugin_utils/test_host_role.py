# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role asks of a host: by its variables, by what was validated, and in its turn."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, ActionSkipped
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import options_of_role

VALIDATED: dict[str, Any] = {"spec": {"hosts": {"gpu01": {"kernel_modules": ["rdma_ucm"]}}}}
HELD = [{"pci": "0000:18:00.0"}]
TURN: dict[str, Any] = {"_rdma_fabric_host_slot": {"turn": {"links": HELD, "file": "run/turns/gpu01.json"}}}


def options(
    variables: dict[str, Any], validated: dict[str, Any] | None = None, host: str = "gpu01", **of_controller: Any
) -> dict[str, Any]:
    task = Given({**variables, "hostvars": {"localhost": of_controller}}, lambda value: value)
    return options_of_role(host, task, VALIDATED if validated is None else validated)


def test_what_no_variable_says_is_left_to_the_module() -> None:
    assert options({}) == {
        "desired": {"kernel_modules": ["rdma_ucm"]},
        "output_file": "rdma-fabric-run/hosts/gpu01.json",
        "check_variables": True,
    }


def test_what_the_playbook_is_for_counts_before_the_variables_of_a_run() -> None:
    asked = {"rdma_fabric_host_mode": "apply", "rdma_fabric_host_state": "absent", "rdma_fabric_allow_reboot": "yes"}
    assert {**options(asked), "allow_reboot": "yes", "mode": "apply", "state": "absent"} == options(asked)
    assert options({**asked, "host_mode": "preview"})["mode"] == "preview"
    assert options({**asked, "host_state": "previous"})["state"] == "previous"


@pytest.mark.parametrize(
    ("of_host", "of_controller", "folder"),
    [("a ", "b", "a"), (None, "b", "b"), (" ", "b", "b"), ("", " ", "rdma-fabric-run")],
)
def test_the_run_directory_is_the_hosts_else_that_of_localhost(of_host: Any, of_controller: str, folder: str) -> None:
    found = options({"rdma_fabric_run_dir": of_host}, rdma_fabric_run_dir=of_controller)["output_file"]
    assert found == f"{folder}/hosts/gpu01.json"


@pytest.mark.parametrize(
    ("variables", "links"),
    [
        (TURN, HELD),
        ({**TURN, "host_state": "previous"}, HELD),
        ({**TURN, "host_state": "previous", "host_rolls_back": True}, None),
        ({**TURN, "host_state": "absent"}, None),
        ({}, None),
    ],
    ids=["upgrade", "rollback", "after a failure", "teardown", "outside of a turn"],
)
def test_links_are_kept_in_a_turn_unless_the_host_is_torn_down_or_rolled_back(
    variables: dict[str, Any], links: Any
) -> None:
    found = options(variables)
    assert found.get("links") == links
    assert found.get("turn_file") == ("run/turns/gpu01.json" if variables else None)


def test_a_host_is_held_to_its_approved_plan_unless_it_goes_back() -> None:
    sealed = {"plans": [{"steps": [1]}, {"steps": [2]}], "hosts": {"gpu01": {"plan": 1, "machine": "m"}}}
    validated = {**VALIDATED, "sealed": sealed}
    assert options({}, validated)["sealed"] == {"steps": [2], "machine": "m", "rest": False}
    assert options({"_rdma_fabric_host_drain": {"skipped": True}}, validated)["sealed"]["rest"]
    assert "sealed" not in options({"host_rolls_back": True}, validated)


def test_a_host_that_nobody_validated_is_refused_and_localhost_is_passed_over() -> None:
    with pytest.raises(ActionFailure, match="gpu02 is not a host of the fabric that"):
        options({}, host="gpu02")
    with pytest.raises(ActionSkipped):
        options({}, host="localhost")
    assert options({}, {"spec": {"hosts": {"localhost": {}}}}, host="localhost")["desired"] == {}
