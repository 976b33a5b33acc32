# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run was asked for and did not find is a violation of its input, with the name that was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_input import (
    not_found,
    unusable_names,
)

HOSTS = ["gpu-01", "gpu-02"]
GROUPS = {"all": [*HOSTS, "login"], "ungrouped": ["login"], "rdma_fabric": HOSTS}


def look(
    hosts: list[str] | None = None,
    *,
    pattern: str = "rdma_fabric",
    asked: bool = False,
    groups: dict[str, list[str]] | None = None,
    sources: tuple[str, ...] = ("gpu-01,gpu-02,login,",),
    limit: str | None = None,
) -> list[str]:
    """Return the violations as text."""
    given: dict[str, Any] = {"groups": GROUPS if groups is None else groups, "ansible_inventory_sources": sources}
    if limit is not None:
        given["ansible_limit"] = limit
    found = not_found(pattern, HOSTS if hosts is None else hosts, asked, given, DataLoader())
    return [f"{each.source}: {each.path}: {each.problem} ({each.hint})" for each in found]


NOTHING: dict[str, list[str]] = {"all": [], "ungrouped": []}


def test_a_run_that_finds_its_hosts_has_nothing_to_say() -> None:
    assert look() == []
    assert look(asked=True) == []


def test_a_file_that_has_the_hosts_is_fine_alone_and_beside_a_list_of_hosts(tmp_path: Path) -> None:
    there = tmp_path / "hosts.yml"
    there.write_text("rdma_fabric: {hosts: {gpu-01: , gpu-02: }}\n", encoding="utf-8")
    for sources in ((str(there),), (str(there), "login,"), (str(there), str(there))):
        assert look(sources=sources) == []


def test_an_inventory_that_is_not_there_is_named_even_beside_one_that_is(tmp_path: Path) -> None:
    missing, there = str(tmp_path / "host.yml"), tmp_path / "hosts.yml"
    there.write_text("rdma_fabric: {hosts: {gpu-01: }}\n", encoding="utf-8")
    alone = look([], groups=NOTHING, sources=(missing,), asked=True)
    for (said,) in (alone, look(sources=(str(there), missing))):
        assert said.startswith(f"inventory {missing}: : does not exist")


def test_an_inventory_with_a_tab_is_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("rdma_fabric:\n\thosts:\n", encoding="utf-8")
    (said,) = look([], groups=NOTHING, sources=(str(path),), asked=True)
    assert said.startswith(f"inventory {path}: : cannot be read from line 2 on: ")


def test_a_broken_inventory_in_a_folder_is_named_and_what_is_none_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("rdma_fabric: {hosts: {gpu-01: {}}}\n", encoding="utf-8")
    (tmp_path / "manifests.yaml").write_text("kind: A\n---\nkind: B\n", encoding="utf-8")
    (tmp_path / "site.yml").write_text("- name: a\n  hosts: all\n", encoding="utf-8")
    (tmp_path / "group_vars").mkdir()
    broken = tmp_path / "b.yml"
    for path in (broken, tmp_path / "group_vars" / "all.yml"):
        path.write_text("rdma_fabric:\n  hosts:\n    gpu-02: {\n", encoding="utf-8")
    (said,) = look(sources=(str(tmp_path),))
    assert said.startswith(f"inventory {broken}: : cannot be read from line 4 on: ")
    broken.unlink()
    assert look(sources=(str(tmp_path),)) == []


def test_a_section_that_became_a_host_by_its_indentation_is_refused() -> None:
    (said,) = unusable_names(["gpu-01", "vars", "vars-01"])
    assert (said.source, said.problem.partition(",")[0]) == ("host vars", "is a section of a group")
    assert "in the column of hosts:" in said.hint


def test_a_name_that_no_file_can_have_is_refused() -> None:
    (said,) = unusable_names(["g" * 240, "\u00fc" * 121])
    assert said.problem == "is a name of more than 240 bytes, which no file of the run directory can have"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- gpu-01\n", "is not a mapping of groups (begin with a group, such as rdma_fabric:)"),
        ("rdma_fabric: {hosts: [gpu-01]}\n", "rdma_fabric.hosts: is a list, not a mapping (write each name on"),
        ("all: {children: {a: {vars: [b: 1]}}}\n", "all.children.a.vars: is a list, not a mapping (write each"),
        ("a: {hosts: {gpu-01: , 102: }}\n", "a.hosts.102: is read as a number or date, not as the name of a host (q"),
    ],
)
def test_an_inventory_that_ansible_refuses_for_its_shape_is_named_with_the_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    (found,) = look([], groups=NOTHING, sources=(str(path),), asked=True)
    assert said in found


def test_the_configuration_of_an_inventory_plugin_has_a_shape_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("plugin: constructed\nhosts: [1]\na: {hosts: [1]}\n", encoding="utf-8")
    assert look(sources=(str(path), "gpu-01,")) == []


def test_an_inventory_without_any_host_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("[rdma_fabric]\n", encoding="utf-8")
    (said,) = look([], groups=NOTHING, sources=(str(path),), asked=True)
    assert said.startswith(f"inventory {path}: : has no host (name localhost in it for the cluster alone; ")


def test_the_cluster_side_alone_needs_no_inventory_and_no_group() -> None:
    assert look([], groups=NOTHING, sources=("/etc/ansible/hosts",), asked=True) == []
    assert look([], groups={"all": ["localhost"]}, sources=("localhost,",), asked=True) == []


def test_a_group_without_hosts_is_named_although_the_cluster_side_is_asked_for() -> None:
    (said,) = look([], groups={"all": ["login"], "rdma_fabric": []}, asked=True)
    assert "the group rdma_fabric of the inventory has no host (put the hosts into it, or leave the group out" in said


def test_a_run_that_is_asked_for_nothing_says_what_it_looked_for() -> None:
    (said,) = look([], groups={"all": ["login"]})
    assert "nothing to do: the inventory has no host in the group rdma_fabric, and neither manifests" in said


@pytest.mark.parametrize("limit", ["login", "all,!gpu*", "rdma_fabric:&login"])
def test_a_limit_that_leaves_out_every_host_of_the_fabric_is_named_with_them(limit: str) -> None:
    (said,) = look(limit=limit)
    assert said.startswith(f"--limit {limit}: : leaves none of the fabric's hosts in the run, which are gpu-01, gpu-02")


@pytest.mark.parametrize("limit", ["gpu-01", "localhost", "login,gpu-02", "login,localhost"])
def test_a_limit_with_a_host_of_the_fabric_or_with_localhost_is_fine(limit: str) -> None:
    assert look(limit=limit) == []
