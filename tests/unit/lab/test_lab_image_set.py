# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever this collection makes a node pull and start is in the lab's images, apart from what cannot be had."""

from __future__ import annotations

import json
import posixpath
from pathlib import Path
from typing import Any, Mapping

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import COMPONENTS, material
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import containers_of, pod_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.lab import image_set
from ansible_collections.rdma.fabric.tests.lab.image_set import BUSYBOX, ImageRecipe, image_entries
from ansible_collections.rdma.fabric.tests.lab.images import (
    DEFAULT_PATH,
    Config,
    Entry,
    File,
    Link,
    canonical_reference,
)
from ansible_collections.rdma.fabric.tests.lab.node_programs import NODE_RECIPES
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import SEEDS, of_files, of_policy
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG

LIBRARIES = "usr/lib/x86_64-linux-gnu"
RECIPES = {recipe.name: recipe for recipe in image_set.image_recipes(LIBRARIES)}
IMAGES = {canonical_reference(name): recipe for recipe in RECIPES.values() for name in recipe.references}
NOT_TO_BE_HAD = {
    "doca-driver",
    "doca-driver-init",
    "doca-telemetry",
    "ib-kubernetes",
    "ib-sriov-cni",
    "ipoib-cni",
    "nic-configuration-daemon",
    "nic-configuration-operator",
    "nic-feature-discovery",
    "nv-ipam",
    "ovs-cni",
    "rdma-cni",
    "spectrum-x-operator",
    "sriov-cni",
    "xplane",
}
FOREIGN = {
    "docker.io/mellanox/cuda-perftest:latest",
    "docker.io/nvidia/cuda:11.0-base",
    "nvcr.io/nvidia/pytorch:24.07-py3",
}
VALUES = "playbook-values.yaml"
CONFIGS = {"rdmaSharedDevicePlugin": RDMA_CONFIG, "sriovDevicePlugin": SRIOV_CONFIG}
EVERYTHING = {
    **{section: {"config": json.dumps(config)} for section, config in CONFIGS.items()},
    "secondaryNetwork": {"cniPlugins": {}, "ipamPlugin": {}, "multus": {}},
}
CDI = {**EVERYTHING, **{name: {"config": json.dumps(config), "useCdi": True} for name, config in CONFIGS.items()}}
MULTUS_CONFIG = (
    '{"cniVersion": "0.3.1", "name": "m", "type": "multus", "clusterNetwork": "/host/etc/cni/net.d/10-c.conf"}'
)
OWN_CONFIG = {"secondaryNetwork": {"multus": {"config": MULTUS_CONFIG}}}
Container = Mapping[str, Any]


def yaml_files(folder: str) -> list[str]:
    return sorted(path.name for path in (SEEDS / folder).iterdir() if path.suffix in (".yaml", ".yml"))


def seed(folder: str) -> list[Container]:
    """Give the containers that all files of a seed become, with the Helm values that come with them."""
    names = [name for name in yaml_files(folder) if name != VALUES]
    given: dict[str, Any] = {}
    if (SEEDS / folder / VALUES).exists():
        given["values"] = yaml.safe_load((SEEDS / folder / VALUES).read_text())
    return containers(of_files(SEEDS / folder, *names, **given).accepted().spec)


def containers(spec: dict[str, Any]) -> list[Container]:
    pods = [pod_of(each) for each in objects_of(render(spec))]
    return [container for pod in pods if pod for container in containers_of(pod)]


def policy(spec: Mapping[str, Any]) -> list[Container]:
    return containers(of_policy(spec).accepted().spec)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Entry]]:
    """What lies in each image, by its name, from roots that have every file by name."""
    place = tmp_path_factory.mktemp("programs")
    directories = {}
    for recipe in NODE_RECIPES:
        directories[recipe.name] = place / recipe.name
        directories[recipe.name].mkdir()
        for name in (*recipe.packages, *(Path(file.path).name for file in recipe.files)):
            (directories[recipe.name] / name).write_text(name)
    root = place / "root"
    for path in {BUSYBOX, *(path for recipe in RECIPES.values() for path in recipe.guest_files)}:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
        (root / path).chmod(0o755 if path.startswith("usr/bin/") else 0o644)
    return {name: image_entries(recipe, directories, root, LIBRARIES) for name, recipe in RECIPES.items()}


def resolve(entries: Mapping[str, Entry], path: str) -> Entry | None:
    """Follow links inside an image as the kernel does below its root."""
    walked, rest = "", [part for part in path.split("/") if part]
    while rest:
        walked = posixpath.join(walked, rest.pop(0))
        entry = entries.get(walked)
        if isinstance(entry, Link):
            target = posixpath.normpath(posixpath.join("/", posixpath.dirname(walked), entry.target))
            walked, rest = "", [part for part in target.split("/") if part] + rest
    return entries.get(walked)


def started(container: Container, recipe: ImageRecipe) -> str:
    """Give what a container starts: its own command, or else what its image says."""
    argv = [*(container.get("command") or (*recipe.config.entrypoint, *recipe.config.command))]
    assert argv, f"nothing to start in {container['name']}"
    return str(argv[0])


def is_program(entries: Mapping[str, Entry], name: str) -> bool:
    places = [name] if name.startswith("/") else [f"{folder}/{name}" for folder in DEFAULT_PATH.split(":")]
    return any(isinstance(entry, File) and entry.mode & 0o111 for entry in (resolve(entries, p) for p in places))


def test_every_component_of_the_bill_is_here_or_cannot_be_had() -> None:
    lacking = set()
    for component in COMPONENTS:
        line = material(component, {})
        if canonical_reference(f"{line.repository}/{line.image}:{line.version}") not in IMAGES:
            lacking.add(component)
    assert lacking == NOT_TO_BE_HAD


@pytest.mark.parametrize("folder", ["egx-v0.1.0", "guide"])
def test_every_image_of_a_seed_is_here_or_a_workload_s_own(folder: str) -> None:
    used = {canonical_reference(str(container["image"])) for container in seed(folder)}
    assert used & set(IMAGES), "the test looks at something"
    assert used - set(IMAGES) <= FOREIGN


RENDERED = {
    "defaults": lambda: policy(EVERYTHING),
    "cdi": lambda: policy(CDI),
    "own multus configuration": lambda: policy(OWN_CONFIG),
    "guide": lambda: seed("guide"),
    "egx-v0.1.0": lambda: seed("egx-v0.1.0"),
}


@pytest.mark.parametrize("name", RENDERED)
def test_what_every_container_starts_is_in_its_image(contents: dict[str, dict[str, Entry]], name: str) -> None:
    looked_at = 0
    for container in RENDERED[name]():
        recipe = IMAGES.get(canonical_reference(str(container["image"])))
        if recipe is not None:
            looked_at += 1
            program = started(container, recipe)
            assert is_program(contents[recipe.name], program), f"{container['name']}: {program}"
    assert looked_at > 0


def test_the_defaults_start_every_component_that_can_be_had(contents: dict[str, dict[str, Entry]]) -> None:
    used = {IMAGES[canonical_reference(str(container["image"]))].name for container in policy(EVERYTHING)}
    assert used == set(RECIPES) - {"pause", "rping-test", "cni-plugins-upstream"}


def test_real_programs_come_before_those_of_busybox(
    contents: dict[str, dict[str, Entry]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(image_set, "APPLETS", ("sh", "ping"))
    for path in (BUSYBOX, "usr/bin/ping"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    recipe = ImageRecipe("x", ("x",), Config(), guest_files=("usr/bin/ping",), busybox=True)
    entries = image_entries(recipe, {}, tmp_path, LIBRARIES)
    assert entries["usr/bin/sh"] == Link("busybox")
    assert entries["usr/bin/ping"] == File(tmp_path / "usr/bin/ping", 0o644)
