# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on the lab's nodes is built from pinned modules, in releases that fit together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab import __main__ as command_line
from ansible_collections.rdma.fabric.tests.lab import node_programs, programs
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable, Recipe
from ansible_collections.rdma.fabric.tests.lab.node_programs import (
    CNI_PLUGINS,
    KUBELET,
    MULTUS,
    NODE_FEATURE_DISCOVERY,
    NODE_RECIPES,
    RDMA_SHARED_DEVICE_PLUGIN,
    WHEREABOUTS,
)
from ansible_collections.rdma.fabric.tests.lab.programs import KUBERNETES_VERSION, MODULES, ApiPrograms, Programs

REPLACEMENTS = re.compile(r"^\t(k8s\.io/\S+ => k8s\.io/\S+ \S+)$", re.MULTILINE)


def module_text(recipe: Recipe) -> str:
    return (recipe.module_dir / "go.mod").read_text()


@pytest.mark.parametrize("recipe", NODE_RECIPES, ids=lambda recipe: recipe.name)
def test_pinned_modules_hold_every_program_and_nothing_else(recipe: Recipe) -> None:
    module = module_text(recipe)
    tools = re.findall(r"^(?:tool |\t)([^\s(]+)$", module, re.MULTILINE)
    assert sorted(tools) == sorted(package for package in recipe.packages.values() if package != ".")


@pytest.mark.parametrize("recipe", NODE_RECIPES, ids=lambda recipe: recipe.name)
def test_every_required_module_has_its_hash_committed(recipe: Recipe) -> None:
    module, sums = module_text(recipe), (recipe.module_dir / "go.sum").read_text()
    replacements = re.findall(r"^(?:replace |\t)(\S+)(?: (\S+))? => (\S+ \S+)$", module, re.MULTILINE)
    replaced = {(name, version): by for name, version, by in replacements}
    required = re.findall(r"^\t?(?:require )?(\S+) (v\S+)(?: // indirect)?$", module, re.MULTILINE)
    for name, version in required:
        used = replaced.get((name, version)) or replaced.get((name, "")) or f"{name} {version}"
        assert f"{used}/go.mod h1:" in sums, name


def test_kubelet_is_of_the_control_plane_s_release() -> None:
    control_plane = (MODULES / "kubernetes" / "go.mod").read_text()
    assert f"\tk8s.io/kubernetes v{KUBERNETES_VERSION} " in module_text(KUBELET)
    assert set(REPLACEMENTS.findall(module_text(KUBELET))) == set(REPLACEMENTS.findall(control_plane)) != set()
    assert f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}" in KUBELET.ldflags


@pytest.mark.parametrize(
    "recipe",
    [CNI_PLUGINS, MULTUS, WHEREABOUTS, RDMA_SHARED_DEVICE_PLUGIN, NODE_FEATURE_DISCOVERY],
    ids=lambda r: r.name,
)
def test_programs_say_the_version_of_their_module(recipe: Recipe) -> None:
    said = re.search(r"version=(v\S+)", recipe.ldflags, re.IGNORECASE)
    assert said is not None
    package = next(iter(recipe.packages.values()))
    required = re.findall(r"^\t?(?:require )?(\S+) (v\S+)(?: // indirect)?$", module_text(recipe), re.MULTILINE)
    (version,) = [version for name, version in required if package.startswith(f"{name}/")]
    assert said[1] == version


@pytest.mark.parametrize("recipe", NODE_RECIPES, ids=lambda recipe: recipe.name)
def test_scripts_come_out_of_the_modules_that_are_built(recipe: Recipe) -> None:
    for file in recipe.files:
        assert any(package.startswith(f"{file.module}/") for package in recipe.packages.values())


def test_nfd_looks_where_its_container_has_the_host() -> None:
    assert NODE_FEATURE_DISCOVERY.ldflags.endswith("hostpath.pathPrefix=/host-")


def test_node_programs_are_built_in_the_user_s_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake_build(recipe: Recipe, cache: Path, *_rest: object) -> Path:
        return cache / recipe.name

    monkeypatch.setattr(programs, "build", fake_build)
    gathered = node_programs.gather_node_programs({"XDG_CACHE_HOME": "/cache"}, lambda line: None)
    assert gathered["kubelet"] == Path("/cache/rdma-fabric/kubelet")
    assert list(gathered) == [recipe.name for recipe in NODE_RECIPES]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "rdma-fabric").write_text("a file where the cache should be")
    with pytest.raises(ProgramsUnavailable, match=r"cannot build kubelet in .*/rdma-fabric: .*Not a directory"):
        node_programs.gather_node_programs({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}, lambda line: None)


def test_more_programs_are_gathered_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kubelet").touch()
    control_plane = Programs(*(Path("/bin") / name for name in Programs._fields))
    monkeypatch.setattr(command_line, "gather", lambda: control_plane)
    monkeypatch.setattr(command_line, "gather_api", lambda: ApiPrograms(Path("/bin/etcd"), Path("/bin/kube_apiserver")))
    asked: list[str] = []

    def build(recipe: Recipe, *_arguments: object) -> Path:
        asked.append(recipe.name)
        return tmp_path

    monkeypatch.setattr(command_line, "built", build)
    monkeypatch.setattr(command_line, "UNPACKED", {"browser": lambda _environ: "/bin/chromium"})
    assert command_line.main(["programs"]) == 0
    without = capsys.readouterr().out.splitlines()
    assert "kube-apiserver /bin/kube_apiserver" in without
    assert command_line.main(["programs", "--api"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert asked == []
    assert command_line.main(["programs", "--nodes"]) == 0
    assert capsys.readouterr().out.splitlines() == [*without, *[f"kubelet {tmp_path}/kubelet"] * len(asked)]
    assert asked == [recipe.name for recipe in node_programs.NODE_RECIPES]
    asked.clear()
    assert command_line.main(["programs", "--tests"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "browser /bin/chromium"
    assert asked[0] == "helm"
