# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_drift: what it takes, what it writes, and what it says where there is no cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.modules import fabric_drift
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

SMALL = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own leads to a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST"):
        monkeypatch.delenv(name, raising=False)


def compare(run_dir: Path, *objects: Any, hosts: Any = None, check: bool = False, **task_vars: Any) -> dict[str, Any]:
    spec = {**run_action("fabric_input", {})["spec"], "objects": list(objects), "hosts": hosts or {}}
    return run_action("fabric_drift", {"spec": spec, "run_dir": str(run_dir)}, check=check, task_vars=task_vars)


def document(run_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "drift.json").read_text(encoding="utf-8"))
    return found


def test_the_documentation_names_every_result(tmp_path: Path) -> None:
    result = compare(tmp_path)
    returned = [key for key in result if key != "changed"]
    assert [key for key in returned if f"\n{key}:\n" not in fabric_drift.RETURN] == []


def test_without_hosts_and_objects_nothing_differs_and_no_cluster_is_asked(tmp_path: Path) -> None:
    result = compare(tmp_path / "run")
    assert (result["outcome"], result["attention"]) == ("same", [])
    assert document(tmp_path / "run")["cluster"] is None
    assert "<testsuites" in Path(result["drift_xml"]).read_text(encoding="utf-8")


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    assert compare(tmp_path / "run", check=True)["outcome"] == "same"
    assert not (tmp_path / "run").exists()


def test_a_host_that_registered_nothing_was_not_read_and_one_with_something_else_neither(tmp_path: Path) -> None:
    registered = {"b": {"rdma_fabric_host_result": {"facts": {}, "plan": {"steps": 7}}}}
    result = compare(tmp_path, hosts={"a": {}, "b": {}}, hostvars={"a": {}, **registered})
    rows = {row["host"]: row for row in document(tmp_path)["hosts"]}
    assert result["outcome"] == "error"
    assert rows["a"]["why"] == "failed before it was read; its own error says why"
    assert "what it returned can't be read" in rows["b"]["why"]


def test_a_cluster_that_nobody_can_find_is_an_error_and_the_files_are_written(tmp_path: Path) -> None:
    result = compare(tmp_path, SMALL)
    (error,) = document(tmp_path)["cluster"]["errors"]
    assert error["fault"] == "configuration" and "there is no kubeconfig" in error["message"]
    assert result["outcome"] == "error"
    assert result["summary"]["objects"] == {"total": 2, "same": 0, "different": 0, "not_compared": 2}


def test_a_run_directory_that_can_not_be_written_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = compare(tmp_path / "file" / "run")
    assert result["failed"]
    assert result["msg"].startswith("the run directory ") and "give another one" in result["msg"]


@pytest.mark.parametrize("spec", [{}, {"version": 99}, {"version": 1, "hosts": []}])
def test_a_spec_that_is_none_is_refused(tmp_path: Path, spec: Any) -> None:
    result = run_action("fabric_drift", {"spec": spec, "run_dir": str(tmp_path)})
    assert result["failed"] and "spec" in result["msg"]
    assert not (tmp_path / "drift.json").exists()
