# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts as they leave the host: small, and the same to all that reads them."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost, load_recording
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import seal
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_environment import nccl_environment
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.duplicate_macs import shared_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import host_document_violations
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import host_row
from ansible_collections.rdma.fabric.plugins.module_utils._report.remarks import fleet_remarks
from ansible_collections.rdma.fabric.plugins.module_utils._report.topology import device_map
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.rails import read_host
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.functions import functions_of
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS

MOST_BYTES = 16 * 1024


@lru_cache(maxsize=None)
def read(name: str) -> str:
    return json.dumps(gather(RecordedHost(load_recording((RECORDINGS / f"{name}.json.gz").read_bytes()))))


def whole(name: str) -> Any:
    return json.loads(read(name))


def returned(name: str) -> Any:
    return json.loads(json.dumps(as_returned(whole(name))))


def test_those_of_a_dgx_are_small() -> None:
    assert len(json.dumps(returned("dgx-h100-01"), separators=(",", ":"))) <= MOST_BYTES


@pytest.mark.parametrize("name", sorted(FLEET))
def test_readers_have_of_them_what_they_have_of_whole_ones(name: str) -> None:
    facts, found = whole(name), completed(returned(name))
    plan = make_plan(check_spec({}), copy.deepcopy(facts))
    ours, theirs = ({"host": name, "facts": each, "plan": plan} for each in (found, facts))
    assert host_document_violations(name, ours) == []
    assert host_row(ours) == host_row(theirs)
    assert fleet_remarks([ours], None, {}, [[name]]) == fleet_remarks([theirs], None, {}, [[name]])
    assert device_map(found) == device_map(facts)
    made = [{"concern": "vfs", "status": "planned", "id": f"vfs:{nic['address']}", "to": 2} for nic in facts["nics"]]
    to_come, of_whole = (functions_of({"facts": each, "plan": {"steps": made}}) for each in (found, facts))
    assert list(to_come) == list(of_whole)
    assert seal(plan, found) == seal(plan, facts)
    assert read_host(name, found) == read_host(name, facts)
    assert nccl_environment(found) == nccl_environment(facts)
    assert shared_addresses({"a": found, "b": found}) == shared_addresses({"a": facts, "b": facts})


def test_whole_ones_of_an_earlier_release_stay_whole() -> None:
    facts = whole("dgx-h100-01")
    assert completed(copy.deepcopy(facts)) == facts


def test_what_a_device_tells_is_there_and_what_it_does_not_is_not() -> None:
    facts = whole("dgx-h100-01")
    nic = facts["nics"][1]
    nic["link"].update(speed_gts=16.0, width=8, max_speed_gts=32.0, max_width=8)
    nic["numa_node"] = None
    facts["rdma"][0]["ports"][0].update(state="DOWN", physical=None)
    found = as_returned(facts)
    assert found["nics"][1]["link"] == {"speed_gts": 16, "width": 8, "max_speed_gts": 32}
    assert "numa_node" not in found["nics"][1]
    assert completed(found)["nics"][1]["numa_node"] is None
    assert completed(found)["rdma"][0]["ports"][0]["physical"] is None, "nobody knows of it"
    assert set(found["distances"]["0000:18:00.0"].values()) == {"PXB", "NODE"}


@pytest.mark.parametrize(
    "strange", [None, [], {"nics": {}}, {"nics": [7], "rdma": [{"ports": 1}], "gpus": [{"link": 2}]}]
)
def test_what_is_no_facts_is_for_others_to_refuse(strange: Any) -> None:
    completed(strange)
