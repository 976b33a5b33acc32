# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of the guide on routes per rail, on the kernel of this machine: two rails in one subnet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.integration import guides, rails_apart
from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from tools.checkout import COLLECTIONS
from tools.fleet import RECORDINGS

EXAMPLE, COMPUTED = [text for text in guides.blocks_of(guides.guide("guide-system.md")) if "routing-policy" in text]
RAIL0, RAIL1 = rails_apart.RAILS
ADDRESS0, ADDRESS1 = rails_apart.ADDRESSES
OWN_WAYS = {
    f"{address} to {target}": rail
    for address, rail in zip(rails_apart.ADDRESSES, rails_apart.RAILS)
    for target in (rails_apart.GATEWAY, rails_apart.FAR)
}


@lru_cache(maxsize=1)
def stages() -> dict[str, Any]:
    """What was seen; the guide's cards are the rails here."""
    variables = yaml.safe_load(EXAMPLE)
    for rail, entry in zip(rails_apart.RAILS, variables["rdma_fabric_interfaces"]):
        entry["current_name"] = rail
        del entry["pci"]
    desired, violations, _notices = parse_host_variables("rails", variables)
    assert violations == []
    module = "ansible_collections.rdma.fabric.tests.integration.rails_apart"
    done = subprocess.run(
        [*apart("net", "mount"), sys.executable, "-m", module, json.dumps(desired)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_settings_both_rails_answer_for_each_address_and_one_sends_for_both() -> None:
    before = stages()["before"]
    assert before["answers"] == {ADDRESS0: [RAIL0, RAIL1], ADDRESS1: [RAIL0, RAIL1]}
    assert before["ways"][f"{ADDRESS1} to {rails_apart.GATEWAY}"] == RAIL0
    assert before["ways"][f"{ADDRESS0} to {rails_apart.FAR}"] is None
    assert before["ours"] == []


@pytest.mark.parametrize("stage", ["after", "restored"])
def test_each_rail_answers_only_for_its_own_address_and_sends_what_is_its_own(stage: str) -> None:
    after = stages()[stage]
    assert after["answers"] == {ADDRESS0: [RAIL0], ADDRESS1: [RAIL1]}
    assert after["ways"] == OWN_WAYS
    assert after["reached"] == {ADDRESS0: True, ADDRESS1: True}
    assert len(after["ours"]) == 4 and len(after["rules"]) == 2


def test_a_second_run_does_nothing() -> None:
    assert stages()["lines"] != []
    assert stages()["again"] == []


def test_what_the_kernel_forgets_with_a_link_is_set_again_and_nothing_else() -> None:
    assert len(stages()["lost"]) == 2
    (line,) = stages()["back"]
    assert line.startswith(f"planned: routing {RAIL0}: set route 10.1.0.0/24 on the link table 101")


def test_the_removal_leaves_what_was_there_before() -> None:
    removed, before = stages()["removed"], stages()["before"]
    assert (removed["answers"], removed["ours"], removed["rules"]) == (before["answers"], [], [])
    assert stages()["files"] == []


def test_the_numbers_of_rail_and_host_come_to_routes_and_rules(tmp_path: Path) -> None:
    user = User(tmp_path)
    variables = {"rdma_fabric_recording": str(RECORDINGS / "roce-h100-01.json.gz"), **yaml.safe_load(COMPUTED)}
    inventory = tmp_path / "hosts.json"
    hosts = {"gpu-11": {}, "gpu-12": {"rail_host": 12}}
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": hosts, "vars": variables}}), encoding="utf-8")
    user.run("preview", inventory=inventory)
    for number in (11, 12):
        host = json.loads((user.here / "rdma-fabric-run" / "hosts" / f"gpu-{number}.json").read_text(encoding="utf-8"))
        for rail, entry in enumerate(host["desired"]["interfaces"], 1):
            (route,), (rule,) = entry["routes"], entry["routing-policy"]
            assert (route["to"], route["via"]) == ("10.0.0.0/8", f"10.{rail}.0.1")
            assert rule["from"] == f"10.{rail}.0.{number}/32"
            assert route["table"] == rule["table"] == 100 + rail
