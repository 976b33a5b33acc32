# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on the lab's nodes is built from pinned modules, in releases that fit together."""

from __future__ import annotations

import re

import pytest

from ansible_collections.rdma.fabric.tests.lab.gobuild import Recipe
from ansible_collections.rdma.fabric.tests.lab.node_programs import (
    CNI_PLUGINS,
    KUBELET,
    MULTUS,
    NODE_FEATURE_DISCOVERY,
    RDMA_SHARED_DEVICE_PLUGIN,
    WHEREABOUTS,
)
from ansible_collections.rdma.fabric.tests.lab.programs import KUBERNETES_VERSION, MODULES

REPLACEMENTS = re.compile(r"^\t(k8s\.io/\S+ => k8s\.io/\S+ \S+)$", re.MULTILINE)


def module_text(recipe: Recipe) -> str:
    return (recipe.module_dir / "go.mod").read_text()


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
