# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_seal writes what fabric_input takes and holds a run to."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.fleet import RECORDINGS, SUFFIX

HOST = "egx-01"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": {"k": "v"}}


class Sealed:
    """One recorded host, and what the variables say of it."""

    def __init__(self, folder: Path, mtu: int = 9000) -> None:
        self.folder = folder
        self.path = folder / "plans" / "plan.json"
        self.manifest = folder / "objects.json"
        self.manifest.write_text(json.dumps(CONFIG), encoding="utf-8")
        self.variables: dict[str, Any] = {"rdma_fabric_interfaces": [{"pci": "0000:37:00.0", "mtu": mtu}]}

    def spec(self, **arguments: Any) -> dict[str, Any]:
        of_host = {"hostvars": {HOST: self.variables, "localhost": {}}, "groups": {"all": [HOST]}}
        return run_action(
            "fabric_input", {"manifests": [str(self.manifest)], "hosts": [HOST], **arguments}, task_vars=of_host
        )

    def seal(self, check: bool = False, **arguments: Any) -> dict[str, Any]:
        spec = self.spec()["spec"]
        recorded = {"desired": spec["hosts"][HOST], "recording": str(RECORDINGS / f"{HOST}{SUFFIX}")}
        output = self.folder / "run" / "hosts" / f"{HOST}.json"
        variables = {"inventory_hostname": HOST}
        run_action("rdma_host", {**recorded, "output_file": str(output)}, check=True, task_vars=variables)
        given = {"dest": str(self.path), "spec": spec, "run_dir": str(self.folder / "run"), **arguments}
        return run_action("fabric_seal", given, check=check, task_vars={"hostvars": {HOST: self.variables}})


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    return Sealed(tmp_path)


def test_what_is_written_fits_the_run_that_it_was_made_from(sealed: Sealed) -> None:
    assert sealed.seal(check=True)["changed"] and not sealed.path.exists()
    result = sealed.seal()
    assert (result["changed"], result["hosts"], result["plans"]) == (True, 1, 1)
    assert result["objects"] == 2  # and its namespace
    assert stat.S_IMODE(sealed.path.stat().st_mode) == 0o644
    assert sealed.seal()["changed"] is False
    taken = sealed.spec(sealed_plan=str(sealed.path))
    assert not taken.get("failed"), taken.get("msg")
    own = taken["sealed"]["hosts"][HOST]
    assert "set the MTU to 9000" in taken["sealed"]["plans"][own["plan"]]["steps"][0]["line"]


def test_a_changed_variable_and_a_changed_object_are_refused_together(sealed: Sealed) -> None:
    sealed.seal()
    sealed.variables["rdma_fabric_interfaces"][0]["mtu"] = 4200
    sealed.variables["rdma_fabric_drain"] = "true"
    sealed.manifest.write_text(json.dumps({**CONFIG, "data": {"k": "w"}}), encoding="utf-8")
    found = sealed.spec(sealed_plan=str(sealed.path))["violations"]
    assert [(each["source"].split(": ")[-1], each["path"], each["problem"]) for each in found] == [
        ("rdma_fabric_drain", "", "is true now, not given was sealed"),
        ("rdma_fabric_interfaces", "[0].mtu", "is 4200 now, 9000 was sealed"),
        (f"objects of sealed plan {sealed.path}", "ConfigMap b/a", "is not what was sealed"),
    ]


def test_refused_steps_and_hosts_that_were_left_behind_are_not_sealed(tmp_path: Path) -> None:
    refused = Sealed(tmp_path, mtu=65000)
    result = refused.seal()
    assert result["failed"] and f"  - {HOST}: refused: mtu" in result["msg"]
    left = refused.seal(unfinished=[{"host": HOST, "why": "unreachable"}])
    assert left["failed"] and "not every host has a plan: egx-01" in left["msg"]
    assert not refused.path.exists()


def test_a_host_that_was_not_read_is_named(sealed: Sealed) -> None:
    spec = sealed.spec()["spec"]
    given = {"dest": str(sealed.path), "spec": spec, "run_dir": str(sealed.folder / "run")}
    result = run_action("fabric_seal", given)
    assert result["failed"] and "egx-01.json: cannot be read" in result["msg"]


def test_outside_of_check_mode_a_file_to_write_is_told_to_stay_away(sealed: Sealed) -> None:
    notices = sealed.spec(plan_file="plan.json")["notices"]
    assert "rdma_fabric_plan_file: only a run of site --check writes it" in notices


def test_a_plan_that_is_missing_is_refused_with_who_writes_it(sealed: Sealed) -> None:
    (found,) = sealed.spec(sealed_plan=str(sealed.path))["violations"]
    assert found["problem"] == "cannot be read: No such file or directory"
    assert "site --check" in found["hint"]
