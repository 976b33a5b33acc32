# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which programs are used: a directory of assets, PATH, or the pinned modules."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Callable

import pytest

from ansible_collections.rdma.fabric.tests.lab import programs
from ansible_collections.rdma.fabric.tests.lab.gobuild import (
    ProgramsUnavailable,
    Recipe,
    build_key,
)
from ansible_collections.rdma.fabric.tests.lab.programs import GROUPS, KUBERNETES_VERSION, Group

ETCD, KUBERNETES, KWOK = GROUPS
Put = Callable[[str, str], None]
KUBERNETES_NAMES = tuple(KUBERNETES.version_arguments)


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def put_program(path: str, says: str) -> None:
        program = tmp_path / path
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{says}'\n")
        program.chmod(0o755)

    return put_program


def put_kubernetes(put: Put, directory: str, version: str) -> None:
    for name in KUBERNETES_NAMES:
        put(f"{directory}/{name}", f"Kubernetes v{version}")


def present(group: Group, environ: dict[str, str]) -> tuple[dict[str, Path] | None, list[str]]:
    lines: list[str] = []
    return programs.present_programs(group, environ, lines.append), lines


def test_assets_come_before_path(put: Put, tmp_path: Path) -> None:
    put("assets/etcd", "etcd Version: 3.6.5")
    put("bin/etcd", "etcd Version: 3.6.5")
    environ = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "PATH": f"{tmp_path}/bin:/bin"}
    assert present(ETCD, environ) == ({"etcd": tmp_path / "assets" / "etcd"}, [])
    del environ["KUBEBUILDER_ASSETS"]
    assert present(ETCD, environ) == ({"etcd": tmp_path / "bin" / "etcd"}, [])


def test_incomplete_assets_are_not_used_and_said_so(put: Put, tmp_path: Path) -> None:
    put("assets/kube-apiserver", "Kubernetes v1.35.4")
    put("assets/kubectl", "Client Version: v1.35.4")
    found, lines = present(KUBERNETES, {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "PATH": ""})
    assert found is None
    assert lines == ["kubernetes of KUBEBUILDER_ASSETS is not used: kube-controller-manager, kube-scheduler not found"]
    found, lines = present(KWOK, {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")})
    assert (found, lines) == (None, ["kwok of KUBEBUILDER_ASSETS is not used: none of its programs is there"])


def test_a_kubectl_alone_is_nothing_to_speak_of(put: Put, tmp_path: Path) -> None:
    put("bin/kubectl", "Client Version: v1.35.4")
    assert present(KUBERNETES, {"PATH": str(tmp_path / "bin")}) == (None, [])


@pytest.mark.parametrize(
    ("version", "usable"), [("1.34.9", False), ("1.35.0", True), ("1.36.2", True), ("2.0.0", True)]
)
def test_kubernetes_has_to_be_1_35_or_newer(put: Put, tmp_path: Path, version: str, usable: bool) -> None:
    put_kubernetes(put, "bin", version)
    found, lines = present(KUBERNETES, {"PATH": f"{tmp_path}/bin:/bin"})
    assert (found is not None) is usable
    assert usable or "kube-scheduler is 1.34.9, older than 1.35" in lines[0]


def test_one_old_program_spoils_the_group(put: Put, tmp_path: Path) -> None:
    put_kubernetes(put, "bin", "1.35.4")
    put("bin/kube-scheduler", "Kubernetes v1.33.1")
    found, lines = present(KUBERNETES, {"PATH": f"{tmp_path}/bin:/bin"})
    assert found is None
    assert lines == [f"kubernetes of PATH is not used: {tmp_path}/bin/kube-scheduler is 1.33.1, older than 1.35"]


def test_a_program_that_cannot_say_its_version_is_not_used(put: Put, tmp_path: Path) -> None:
    put("bin/kwok", "no idea")
    found, lines = present(KWOK, {"PATH": f"{tmp_path}/bin:/bin"})
    assert found is None
    assert "does not say its version" in lines[0]
    (tmp_path / "bin" / "kwok").write_text("not a program")
    assert present(KWOK, {"PATH": f"{tmp_path}/bin:/bin"})[0] is None


def test_only_missing_groups_are_built(put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_kubernetes(put, "bin", "1.35.4")
    built = []

    def fake_build(recipe: Recipe, cache: Path, *_rest: object) -> Path:
        built.append((recipe.name, cache))
        return Path("/built") / recipe.name

    monkeypatch.setattr(programs, "build", fake_build)
    environ = {"PATH": f"{tmp_path}/bin:/bin", "XDG_CACHE_HOME": "/cache", "CI": "true"}
    gathered = programs.gather(environ, lambda line: None)
    assert built == [("etcd", Path("/cache/rdma-fabric")), ("kwok", Path("/cache/rdma-fabric"))]
    assert gathered.etcd == Path("/built/etcd/etcd")
    assert gathered.kwok == Path("/built/kwok/kwok")
    assert gathered.kube_controller_manager == tmp_path / "bin" / "kube-controller-manager"


def test_for_an_api_server_nothing_else_is_built_and_what_is_built_of_all_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def fake_build(recipe: Recipe, cache: Path, *_rest: object) -> Path:
        built.append(sorted(recipe.packages))
        return cache / "bin" / build_key(recipe, platform.machine())

    monkeypatch.setattr(programs, "build", fake_build)
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path), "CI": "true"}
    gathered = programs.gather_api(environ, lambda line: None)
    assert built == [["etcd"], ["kube-apiserver"]]
    assert gathered.kube_apiserver.name == "kube-apiserver"
    whole = tmp_path / "rdma-fabric" / "bin" / build_key(KUBERNETES.recipe, platform.machine())
    whole.mkdir(parents=True)
    assert programs.gather_api(environ, lambda line: None).kube_apiserver == whole / "kube-apiserver"
    assert gathered.kube_apiserver.parent != whole


def test_an_api_server_of_path_is_taken_without_the_rest_of_its_group(put: Put, tmp_path: Path) -> None:
    put("bin/etcd", "etcd Version: 3.6.5")
    put("bin/kube-apiserver", "Kubernetes v1.35.4")
    gathered = programs.gather_api({"PATH": f"{tmp_path}/bin:/bin"}, lambda line: None)
    assert gathered == (tmp_path / "bin" / "etcd", tmp_path / "bin" / "kube-apiserver")


def test_server_is_told_the_version_of_its_module() -> None:
    module = (KUBERNETES.recipe.module_dir / "go.mod").read_text()
    assert re.search(rf"^\s+k8s\.io/kubernetes v{re.escape(KUBERNETES_VERSION)}( |$)", module, re.MULTILINE)
    staging = KUBERNETES_VERSION.replace("1.", "v0.", 1)
    assert set(re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$", module, re.MULTILINE)) == {staging}
    assert f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}" in KUBERNETES.recipe.ldflags
    assert "-X k8s.io/component-base/version.gitMinor=35" in KUBERNETES.recipe.ldflags


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "rdma-fabric").write_text("a file where the cache should be")
    with pytest.raises(ProgramsUnavailable, match=r"cannot build etcd in .*/rdma-fabric: .*Not a directory"):
        programs.gather({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}, lambda line: None)
