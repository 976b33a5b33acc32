# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task that renders: objects, bill of images, files on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import (
    SPECS,
    attachment,
    driver_container,
    spec_of,
    training_cluster,
)
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.rules import none_of


def render(spec: dict[str, Any], folder: Path | None = None, **modes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"spec": spec}
    if folder is not None:
        arguments["output_dir"] = str(folder)
    return run_action("fabric_render", arguments, **modes)


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_without_a_folder_nothing_is_written_and_nothing_changes() -> None:
    result = render(training_cluster())
    assert not result.get("failed")
    assert result["changed"] is False
    assert next(wave["name"] for wave in result["waves"]) == "namespaces"
    references = {entry["reference"]: entry for entry in result["images"]}
    plugin = references["ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.1"]
    assert plugin["used_by"] == ["DaemonSet/nvidia-network-operator/rdma-shared-dp-ds"]
    assert "nvcr.io/nvidia/pytorch:24.07-py3" in references


@pytest.mark.parametrize("folder", [{}, {"output_dir": " "}])
def test_who_is_to_write_and_has_no_folder_is_told_the_variable(folder: dict[str, str]) -> None:
    result = run_action("fabric_render", {"spec": training_cluster(), "writes": True, **folder})
    assert result["failed"] is True
    assert "rdma.fabric.render that is rdma_fabric_render_dir" in result["msg"]


@pytest.mark.parametrize("name", sorted(SPECS))
def test_files_hold_exactly_the_objects_in_their_order(name: str, tmp_path: Path) -> None:
    result = render(SPECS[name](), tmp_path / "out")
    assert result["changed"] is True
    kustomization = yaml.safe_load((tmp_path / "out" / "kustomization.yaml").read_text())
    listed = [yaml.load((tmp_path / "out" / path).read_text(), yaml.CSafeLoader) for path in kustomization["resources"]]
    assert listed == objects_of(render(SPECS[name]())["waves"])
    assert sorted([*kustomization["resources"], "kustomization.yaml"]) == result["files"]
    assert "04-workloads/daemonset-" in "\n".join(result["files"])


def test_a_second_run_changes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    render(training_cluster(), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    result = render(training_cluster(), tmp_path, diff=True)
    assert result["changed"] is False
    assert result["written"] == result["removed"] == result["diff"] == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_check_mode_says_what_a_run_would_do_and_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    predicted = render(training_cluster(), folder, check=True, diff=True)
    assert not folder.exists()
    done = render(training_cluster(), folder, diff=True)
    assert predicted["changed"] is done["changed"] is True
    assert predicted["written"] == done["written"]
    assert predicted["diff"] == done["diff"]
    after = {Path(entry["after_header"]): entry["after"].splitlines() for entry in done["diff"]}
    none_of(
        f"{path}: {line}"
        for path, lines in after.items()
        for line in {*lines} - {*path.read_text().splitlines()}
        if MASK not in line
    )


def test_what_is_no_longer_rendered_is_removed_and_only_that(tmp_path: Path) -> None:
    render(training_cluster(), tmp_path)
    mine = tmp_path / "05-networks" / "notes.txt"
    mine.write_text("mine")
    (tmp_path / "extra.yaml").write_text("mine")
    spec = training_cluster()
    spec["attachments"], spec["objects"] = spec["attachments"][:1], []
    checked = render(spec, tmp_path, check=True)
    assert (tmp_path / "06-objects").exists()
    result = render(spec, tmp_path)
    gone = [
        "05-networks/networkattachmentdefinition-ai-training-ib-network.yaml",
        "06-objects/job-ai-training-distributed-training.yaml",
    ]
    assert result["removed"] == checked["removed"] == gone
    assert not (tmp_path / "06-objects").exists()
    assert mine.read_text() == "mine"
    assert (tmp_path / "extra.yaml").read_text() == "mine"


def test_a_hand_edited_file_of_ours_is_put_right(tmp_path: Path) -> None:
    render(training_cluster(), tmp_path)
    before = tree(tmp_path)
    edited = next(tmp_path.glob("03-configs/*rdma-devices.yaml"))
    edited.write_text("kind: Nonsense\n")
    result = render(training_cluster(), tmp_path, diff=True)
    assert result["written"] == [str(edited.relative_to(tmp_path))]
    assert result["diff"][0]["before"] == "kind: Nonsense\n"
    assert tree(tmp_path) == before


def test_a_foreign_file_in_the_way_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [mine.yaml]\n")
    for check in (True, False):
        result = render(training_cluster(), tmp_path, check=check)
        assert result["failed"]
        assert str(tmp_path / "kustomization.yaml") in result["msg"]
        assert tree(tmp_path) == {"kustomization.yaml": "resources: [mine.yaml]\n"}


def test_a_run_that_was_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    render(training_cluster(), tmp_path)
    complete = tree(tmp_path)
    spec = training_cluster()
    spec["cluster_policy"]["spec"]["rdmaSharedDevicePlugin"]["version"] = "v1.5.3"
    # As if the run had ended after the first files: some old, some new, the record already complete.
    changed = next(tmp_path.glob("04-workloads/*rdma-shared*"))
    changed.write_text("half")
    next(tmp_path.glob("03-configs/*rdma*")).unlink()
    assert render(training_cluster(), tmp_path)["changed"] is True
    assert tree(tmp_path) == complete
    assert render(spec, tmp_path)["written"] == [str(changed.relative_to(tmp_path))]


def test_the_record_can_t_be_used_to_remove_other_files(tmp_path: Path) -> None:
    victim = tmp_path / "victim.yaml"
    victim.write_text("keep me")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "own.txt").write_text("keep me too")
    names = f'["../victim.yaml", "{victim}", "own.txt", 7, "00-namespaces/../../victim.yaml"]'
    (folder / ".rdma-fabric-render.json").write_text('{"files": ' + names + "}")
    result = render(training_cluster(), folder)
    assert result["removed"] == []
    assert victim.read_text() == "keep me"
    assert (folder / "own.txt").read_text() == "keep me too"


def test_a_broken_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".rdma-fabric-render.json").write_text("{")
    result = render(training_cluster(), tmp_path)
    assert result["failed"]
    assert ".rdma-fabric-render.json" in result["msg"]


def test_a_folder_that_can_t_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = render(training_cluster(), tmp_path / "file")
    assert result["failed"]
    assert "file" in result["msg"]


def test_files_are_readable_by_everybody_and_no_temporary_one_stays(tmp_path: Path) -> None:
    render(training_cluster(), tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(oct(path.stat().st_mode)[-3:] == "644" for path in files)
    assert not [path for path in files if path.name.endswith(".new")]


def test_hostile_text_stays_text_in_the_files(tmp_path: Path) -> None:
    hostile = {
        "a": "{{ 1 + 1 }}",
        "b": "yes",
        "c": "1e3",
        "d": "0o17",
        "e": "'\"\n: #",
        "f": "- x",
        "g": "null",
        "h": "\u2028",
    }
    job = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": hostile}
    render(spec_of(objects=[job], attachments=[attachment("n", '{"type": "macvlan", "master": "a\'b"}')]), tmp_path)
    found = yaml.safe_load(next(tmp_path.glob("06-objects/*")).read_text())
    assert found["data"] == hostile
    text = next(tmp_path.glob("06-objects/*")).read_text()
    for line in ('b: "yes"', 'c: "1e3"', 'd: "0o17"', 'g: "null"'):
        assert line in text


def test_names_of_objects_can_t_leave_the_folder(tmp_path: Path) -> None:
    name = "../../" + "x" * 240 + ":Y"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    other = {**role, "metadata": {"name": name.lower()}}
    result = render(spec_of(objects=[role, other]), tmp_path / "out")
    assert not result.get("failed")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len([path for path in result["files"] if path.startswith("06-objects/clusterrole-")]) == 2


def test_a_flawed_spec_fails_with_every_violation_and_writes_nothing(tmp_path: Path) -> None:
    spec = spec_of(attachments=[attachment(name, "{}") for name in ("n", "n", "m", "m")])
    result = render(spec, tmp_path / "out")
    assert result["failed"]
    assert len(result["violations"]) == 2
    assert not (tmp_path / "out").exists()


def test_something_else_than_a_spec_is_refused_by_name() -> None:
    result = render({"spectrumXOperator": {}})
    assert result["failed"]
    assert "fabric_input" in result["msg"]


def secret(value: str) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ufm"}, "stringData": {"PASSWORD": value}}
    return spec_of({}, objects=[body])


def test_a_secret_is_for_its_owner_alone_and_no_difference_shows_it(tmp_path: Path) -> None:
    shown = [render(secret(value), tmp_path, diff=True)["diff"] for value in ("hush", "hushed")]
    shown.append(render(spec_of({}), tmp_path, diff=True)["diff"])
    assert [len([each for each in run if "/secret-" in each["after_header"]]) for run in shown] == [1, 1, 1]
    assert "hush" not in str(shown)
    assert all(each["before"] != each["after"] for run in shown for each in run)
    (changed,) = (each["after"] for each in shown[1] if "/secret-" in each["after_header"])
    assert yaml.safe_load(changed)["stringData"] == {"PASSWORD": "(hidden, changed)"}
    render(secret("hush"), tmp_path)
    (path,) = tmp_path.rglob("secret-*.yaml")
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["stringData"] == {"PASSWORD": "hush"}


def test_a_file_with_the_password_of_a_proxy_is_for_its_owner_alone(tmp_path: Path) -> None:
    spec = driver_container()
    proxy = {"httpProxy": "http://me:hunter2@proxy.example:3128"}
    render({**spec, "settings": {**spec["settings"], "proxy": proxy}}, tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*.yaml") if "hunter2" in path.read_text()}
    assert modes == {0o600}
    assert (tmp_path / "kustomization.yaml").stat().st_mode & 0o777 == 0o644


class TestNodesOfTheDriver:
    """The driver's container runs where hosts say that their nodes are, unless the input does."""

    def spec(self) -> dict[str, Any]:
        spec = driver_container()
        return {**spec, "settings": {**spec["settings"], "driver_nodes": None}, "hosts": {"gpu01": {}, "gpu02": {}}}

    def hostvars(self, *hosts: str) -> dict[str, Any]:
        feature = "feature.node.kubernetes.io"
        labels = {
            "kubernetes.io/arch": "amd64",
            f"{feature}/kernel-version.full": "6.8.0-41-generic",
            f"{feature}/pci-15b3.present": "true",
            f"{feature}/system-os_release.ID": "ubuntu",
            f"{feature}/system-os_release.VERSION_ID": "24.04",
        }
        read = {"rdma_fabric_host_result": {"summary": {"labels": labels}}}
        return {"hostvars": {host: read if host in hosts else {} for host in ("gpu01", "gpu02")}}

    def test_they_are_those_of_the_hosts_that_were_read(self) -> None:
        result = run_action("fabric_render", {"spec": self.spec()}, task_vars=self.hostvars("gpu01", "gpu02"))
        names = [each["metadata"]["name"] for each in objects_of(result["waves"])]
        assert [name for name in names if name.startswith("mofed-")] == ["mofed-ubuntu24.04-848bf4b879-ds"]

    def test_a_host_that_was_not_read_ends_the_task_by_name(self) -> None:
        result = run_action("fabric_render", {"spec": self.spec()}, task_vars=self.hostvars("gpu02"))
        assert result["failed"] and "were not read: gpu01" in result["msg"]
        assert "rdma_fabric_driver_nodes" in result["msg"]

    def test_hosts_that_none_of_the_given_groups_is_for_are_named(self) -> None:
        spec = {**driver_container(), "hosts": {"gpu01": {}, "gpu02": {}}}
        assert run_action("fabric_render", {"spec": spec}, task_vars=self.hostvars("gpu01"))["notices"] == []
        spec["hosts"]["gpu01"] = {"node_labels": {"feature.node.kubernetes.io/kernel-version.full": "6.9.0-1"}}
        (notice,) = run_action("fabric_render", {"spec": spec}, task_vars=self.hostvars("gpu01"))["notices"]
        assert "is for the nodes of gpu01" in notice

    def test_it_is_only_named_where_the_rest_shall_be_rendered(self) -> None:
        arguments = {"spec": self.spec(), "partial": True}
        result = run_action("fabric_render", arguments, task_vars=self.hostvars("gpu02"))
        assert not result.get("failed") and "were not read: gpu01" in result["notices"][0]
