# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_info and rdma_record as Ansible runs them: the modules as processes, the actions in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import rdma_info, rdma_record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    FORMAT,
    dump_recording,
    load_recording,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS
from ansible_collections.rdma.fabric.tests.unit.captures import facts_of
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

CONNECTX = "connectx-7-saturated"
MODULES = Path(rdma_info.__file__).resolve().parent.parent / "modules"


def run_module(name: str, **arguments: Any) -> dict[str, Any]:
    """Run a module on this machine as its own process, as Ansible does on a target."""
    collections = str(Path(rdma_info.__file__).parents[5])
    done = subprocess.run(
        [sys.executable, str(MODULES / f"{name}.py"), json.dumps({"ANSIBLE_MODULE_ARGS": arguments})],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([collections, *sys.path])},
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def module_that_answers(monkeypatch: pytest.MonkeyPatch, action: Any, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the module of an action give this answer; return what it is asked."""
    asked: list[dict[str, Any]] = []

    def execute(_self: Any, module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        asked.append({"name": module_name, **module_args})
        copy: dict[str, Any] = json.loads(json.dumps(answer))
        return copy

    monkeypatch.setattr(action.ActionModule, "_execute_module", execute)
    return asked


def recorded(hostname: str = "node") -> dict[str, Any]:
    return {**FLEET["cpu-01"]().document(), "hostname": hostname}


def test_facts_of_this_machine() -> None:
    result = run_module("rdma_info", kernel_modules=["br-netfilter"])
    assert (result["changed"], result["recorded"]) == (False, False)
    assert result["facts"]["system"]["kernel"] == os.uname().release
    assert "br_netfilter" in result["facts"]["modules"]
    assert "ansible_facts" not in result, "no host gives a variable a value"


def test_facts_of_a_recording_are_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = module_that_answers(monkeypatch, rdma_info, {"failed": True})
    path = str(RECORDINGS / "egx-01.json.gz")
    result = run_action("rdma_info", {"recording": path, "kernel_modules": ["rds"]}, check=True)
    assert (result["changed"], result["recorded"], asked) == (False, True, [])
    assert result["facts"]["system"]["hostname"] == "ubuntu"
    assert result["facts"]["modules"]["rds"]["loaded"] is False


def test_a_host_gives_no_variable_a_value_whatever_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    forged: dict[str, Any] = {
        "ansible_facts": {"rdma_fabric_node_name": "node-of-others"},
        "ansible_stats": {"data": {"rdma_fabric_result": {"outcome": "ok"}}},
    }
    module_that_answers(monkeypatch, rdma_info, {"changed": False, "facts": {}, **forged})
    assert not forged.keys() & run_action("rdma_info", {}).keys()


def test_facts_of_a_live_host_are_asked_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = module_that_answers(monkeypatch, rdma_info, {"changed": False, "facts": {"format": 1}})
    assert run_action("rdma_info", {"kernel_modules": "rds,smc"})["facts"] == {"format": 1}
    assert asked == [
        {"name": "rdma.fabric.rdma_info", "kernel_modules": ["rds", "smc"], "counters": False, "cabling": "none"}
    ]
    run_action("rdma_info", {"counters": True})
    assert asked[1]["counters"] is True


def test_counters_of_ports_are_returned_beside_the_facts_where_they_are_asked_for(tmp_path: Path) -> None:
    tree = FLEET["dgx-h100-01"]()
    tree.attributes("/sys/class/infiniband/mlx5_0/ports/1/counters", facts_of("port_counters", CONNECTX)["counters"])
    path = tmp_path / "dgx.json"
    path.write_bytes(dump_recording(tree.document(), compress=False))
    without = run_action("rdma_info", {"recording": str(path)})
    asked = run_action("rdma_info", {"recording": str(path), "counters": True})
    asked_of_host = run_action("rdma_host", {"desired": {}, "recording": str(path), "counters": True})
    assert "counters" not in without and asked["facts"] == without["facts"]
    assert asked["counters"][0]["counters"]["link_downed"] == 255 and asked["counters"] == asked_of_host["counters"]
    here = [run_module("rdma_info", counters=True), run_module("rdma_host", desired={}, mode="preview", counters=True)]
    ports = [str(each) for each in Path("/sys/class/infiniband").glob("*/ports/*")]
    assert [len(result["counters"]) for result in here] == [len(ports)] * 2
    assert "counters" not in run_module("rdma_host", desired={}, mode="preview")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\x7fELF\xff", "binary data"),
        (b'{"apiVersion": "v1"}', "not a recorded host"),
        (dump_recording(recorded(), compress=True)[:-9], "ends too early"),
        (None, "No such file"),
    ],
)
def test_a_bad_recording_is_named_with_its_file(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "bad.json.gz"
    if content is not None:
        path.write_bytes(content)
    result = run_action("rdma_info", {"recording": str(path)})
    assert result["failed"] is True
    assert str(path) in result["msg"]
    assert problem in result["msg"]


def test_the_module_records_this_machine_and_changes_nothing(tmp_path: Path) -> None:
    result = run_module("rdma_record", dest=str(tmp_path / "unused.json"), hostname="example")
    assert (result["changed"], list(tmp_path.iterdir())) == (False, [])
    assert (result["document"]["format"], result["document"]["hostname"]) == (FORMAT, "example")
    assert result["document"]["stand_in"] is None
    assert result["document"]["files"]["/proc/sys/kernel/hostname"] == "example\n"


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_recording_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    dest = tmp_path / "made" / f"node{suffix}"
    asked = module_that_answers(monkeypatch, rdma_record, {"changed": False, "document": recorded()})
    variables = {"inventory_hostname": "node7"}
    check = run_action("rdma_record", {"dest": str(dest)}, check=True, task_vars=variables)
    assert (check["changed"], dest.exists()) == (True, False)
    first = run_action("rdma_record", {"dest": str(dest)}, task_vars=variables)
    assert (first["changed"], load_recording(dest.read_bytes())) == (True, recorded())
    assert (first["dest"], first["hostname"], first["size"]) == (str(dest), "node7", dest.stat().st_size)
    assert "document" not in first, "the file holds it"
    written = dest.stat().st_mtime_ns
    second = run_action("rdma_record", {"dest": str(dest)}, task_vars=variables)
    assert (second["changed"], dest.stat().st_mtime_ns) == (False, written)
    assert {call["hostname"] for call in asked} == {"node7"}
    assert dest.stat().st_mode & 0o077 == 0, "facts of a host are nobody else's business"


def test_the_difference_is_told_entry_by_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dest = tmp_path / "node.json"
    before, after = recorded(), recorded()
    after["files"]["/proc/modules"] = "e1000 1 0 - Live 0x0\nmlx5_core 1 0 - Live 0x0\n"
    dest.write_bytes(dump_recording(before, compress=False))
    module_that_answers(monkeypatch, rdma_record, {"document": after})
    diff = run_action("rdma_record", {"dest": str(dest), "hostname": "node"}, check=True, diff=True)["diff"]
    assert diff["before"].startswith("files /proc/modules: ")
    assert "mlx5_core" in diff["after"]
    assert diff["after"].count("\n") == 1
    assert load_recording(dest.read_bytes()) == before


def test_what_a_recording_contradicts_is_in_the_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = recorded()
    document["files"]["/sys/devices/pci0/0000:18:00.0/uevent"] = "PCI_CLASS=20000\nPCI_ID=15B3:1FFF\n"
    module_that_answers(monkeypatch, rdma_record, {"changed": False, "document": document})
    done = run_action("rdma_record", {"dest": str(tmp_path / "node.json")}, task_vars={"inventory_hostname": "node"})
    variables = {"hostvars": {"node": {"rdma_fabric_record_result": done}}, "groups": {"all": ["node"]}}
    lines = run_action("fabric_result", {"kind": "records", "hosts": ["node"]}, task_vars=variables)["lines"]
    assert any(line.endswith("1 host recorded, 1 of 9 assumptions about hardware looked at") for line in lines)
    (attention,) = [line for line in lines if line.startswith("attention: contradicts an assumption about hardware")]
    assert attention.endswith("node: /sys/devices/pci0/0000:18:00.0: 15b3:1fff")


def test_a_damaged_recording_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dest = tmp_path / "node.json.gz"
    dest.write_bytes(b"\x1f\x8b damaged")
    module_that_answers(monkeypatch, rdma_record, {"document": recorded()})
    assert run_action("rdma_record", {"dest": str(dest)})["changed"] is True
    assert load_recording(dest.read_bytes()) == recorded()


@pytest.mark.parametrize("dest", ["node.txt", "node", "recordings/", "node.gz"])
def test_a_name_that_tells_no_format_is_refused_before_the_host_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dest: str
) -> None:
    asked = module_that_answers(monkeypatch, rdma_record, {"document": recorded()})
    result = run_action("rdma_record", {"dest": str(tmp_path / dest)})
    assert result["failed"] is True
    assert ".json.gz" in result["msg"]
    assert asked == []


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no"}, {"skipped": True}])
def test_a_host_that_gives_no_recording_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    dest = tmp_path / "node.json"
    dest.write_bytes(dump_recording(recorded(), compress=False))
    module_that_answers(monkeypatch, rdma_record, answer)
    result = run_action("rdma_record", {"dest": str(dest)})
    assert answer.items() <= result.items()
    assert load_recording(dest.read_bytes()) == recorded()


def test_a_document_a_hostile_host_makes_up_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dest = tmp_path / "node.json"
    module_that_answers(monkeypatch, rdma_record, {"document": {"format": FORMAT, "files": {"relative": 7}}})
    result = run_action("rdma_record", {"dest": str(dest)})
    assert result["failed"] is True
    assert "no usable recording" in result["msg"]
    assert not dest.exists()


def test_a_document_without_sections_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module_that_answers(monkeypatch, rdma_record, {"document": {"format": FORMAT}})
    assert run_action("rdma_record", {"dest": str(tmp_path / "node.json")})["entries"] == 0
