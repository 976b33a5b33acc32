# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of variables that Ansible cannot read, or passes over, are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variable_files import unread_files, unreadable_files

HOSTS = ["gpu-01", "gpu-02.example.org"]
GROUPS = {"all": [*HOSTS, "login"], "ungrouped": ["login"], "rdma_fabric": HOSTS}
OURS, OTHERS = "rdma_fabric_kernel_modules: [ib_umad]\n", "ntp: [a]\n"


def written(root: Path, texts: dict[str, str]) -> dict[str, Any]:
    """Write the files beside an inventory and return the variables of a task."""
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return {"groups": GROUPS, "ansible_inventory_sources": [str(root / "hosts.yml"), "gpu-01,"]}


def violations(root: Path, texts: dict[str, str]) -> list[str]:
    return [each.sentence() for each in unread_files(written(root, texts), DataLoader())[0]]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("group_vars/rdma-fabric.yml", "nothing in the inventory is called rdma-fabric (call it rdma_fabric)"),
        ("group_vars/RDMA_Fabric/main.yml", "nothing in the inventory is called RDMA_Fabric (call it rdma_fabric)"),
        ("group_vars/gpu-01.yml", "gpu-01 is a host (move it to host_vars)"),
        ("host_vars/rdma_fabric.yaml", "rdma_fabric is a group (move it to group_vars)"),
        ("host_vars/gpu_01.json", "nothing in the inventory is called gpu_01 (call it gpu-01)"),
        ("host_vars/gpu-1.yml", "nothing in the inventory is called gpu-1 (call it gpu-01)"),
    ],
)
def test_a_file_that_nothing_reads_is_refused_with_what_it_is_to_be_called(
    tmp_path: Path, name: str, problem: str
) -> None:
    place = tmp_path / name
    named = place.parent if place.name == "main.yml" else place
    assert violations(tmp_path, {name: OURS}) == [f"variables {named}: is not read: {problem}"]
    assert violations(tmp_path, {name: OTHERS}) == []


def test_of_two_with_one_name_the_one_that_is_not_read_is_refused(tmp_path: Path) -> None:
    texts = {"group_vars/all.yml": OURS, "group_vars/all/vault.yml": OTHERS, "group_vars/rdma_fabric.yaml": OURS}
    folder = tmp_path / "group_vars" / "all"
    assert violations(tmp_path, texts) == [
        f"variables {folder}.yml: is not read: Ansible reads {folder} in its place (move it into {folder}, or merge "
        "both)"
    ]


def test_what_is_read_and_what_is_for_another_inventory_is_fine(tmp_path: Path) -> None:
    names = ["group_vars/rdma_fabric.yml", "group_vars/other.yml", "group_vars/.rdma-fabric.yml.swp"]
    names += ["group_vars/rdma-fabric.yml~", "host_vars/gpu-02.example.org", "host_vars/gpu-01/a.yml"]
    assert violations(tmp_path, dict.fromkeys(names, OURS)) == []


def test_files_where_ansible_is_started_are_said_unless_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = written(tmp_path / "inventory", {})
    written(tmp_path, {"group_vars/rdma_fabric.yml": OURS, "group_vars/other.yml": OURS, "host_vars/login": OTHERS})
    loader = DataLoader()
    loader.set_basedir(str(tmp_path / "inventory"))
    monkeypatch.chdir(tmp_path)
    (said,) = unread_files(given, loader)[1]
    assert said.source == f"variables {tmp_path}/group_vars/rdma_fabric.yml"
    assert said.problem.startswith("is not read: Ansible looks beside the inventory and beside the playbook, not where")
    loader.set_basedir(str(tmp_path))
    assert unread_files(given, loader) == ([], [])


def test_files_beside_a_playbook_that_imports_that_with_the_plays_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "playbooks"
    given = written(tmp_path / "inventory", {})
    written(project, {"site.yml": "", "group_vars/rdma_fabric.yml": OURS})
    monkeypatch.setattr("ansible.context.CLIARGS", {"args": ("rdma.fabric.site", f"{project}/site.yml")})
    loader = DataLoader()
    loader.set_basedir(str(tmp_path / "imported"))
    (said,) = unread_files(given, loader)[1]
    assert said.source == f"variables {project}/group_vars/rdma_fabric.yml"
    assert said.problem.endswith("not beside one that imports it")
    loader.set_basedir(str(project))
    assert unread_files(given, loader) == ([], [])


def test_files_of_variables_that_cannot_be_read_are_named_together_with_line_and_next_step(tmp_path: Path) -> None:
    vault = VaultLib([("default", VaultSecret(b"right"))])
    texts = {
        "group_vars/rdma_fabric.yml": b"rdma_fabric_vfs:\n\t- 1\n",
        "group_vars/ungrouped": b"- a: b\n",
        "host_vars/gpu-01/a.yml": vault.encrypt("a: b"),
        "host_vars/gpu-02.yml": b"",
        "host_vars/login.yml": b"a: b\n",
        "host_vars/gone.yml": b"\t",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text)
    given = {"groups": GROUPS, "ansible_inventory_sources": [str(tmp_path / "hosts.yml"), "gpu-01,"]}
    found = {each.source: f"{each.problem} ({each.hint})" for each in unreadable_files(given, DataLoader())}
    assert list(found) == [
        f"variables {tmp_path}/{name}"
        for name in ("group_vars/rdma_fabric.yml", "group_vars/ungrouped", "host_vars/gpu-01/a.yml")
    ]
    tab, no_mapping, encrypted = found.values()
    assert tab.startswith("cannot be read from line 2 on: ")
    assert no_mapping.startswith("is not a mapping of variables")
    assert encrypted.startswith("cannot be read: ")
    assert "--vault-password-file" in encrypted
