# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which image a component gets, and the bill of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import (
    COMPONENTS,
    DEFAULT_RELEASE,
    PLATFORMS,
    RELEASES,
    SECTIONS,
    bill_of,
    effective_version,
    image_reference,
    known_platforms,
    material,
    mirrored,
    older_than,
    pull_secrets,
    version_numbers,
)

SECTION = {"repository": "ghcr.io/mine", "image": "own", "version": "v9"}
GLOBAL = {"repository": "reg.local/vendor", "version": "global-1"}
SETTINGS: dict[str, Any] = {
    "image_overrides": {"multus": {"repository": "reg.local/over", "image": "over", "version": "o1"}}
}


@pytest.mark.parametrize(
    ("section", "global_config", "settings", "expected"),
    [
        ({}, {}, {}, "nvcr.io/nvidia/mellanox/multus-cni:network-operator-v26.7.0"),
        ({}, {}, SETTINGS, "reg.local/over/over:o1"),
        ({}, GLOBAL, SETTINGS, "reg.local/vendor/over:global-1"),
        (SECTION, GLOBAL, SETTINGS, "ghcr.io/mine/own:v9"),
        ({"version": "v9"}, GLOBAL, {}, "reg.local/vendor/multus-cni:v9"),
        ({"repository": "", "version": ""}, {}, {}, "nvcr.io/nvidia/mellanox/multus-cni:network-operator-v26.7.0"),
        ({"version": "sha256:" + "a" * 64}, {}, {}, "nvcr.io/nvidia/mellanox/multus-cni@sha256:" + "a" * 64),
        ({"version": "v9@sha256:" + "a" * 64}, {}, {}, "nvcr.io/nvidia/mellanox/multus-cni:v9@sha256:" + "a" * 64),
        ({}, {}, {"registry_mirrors": {"nvcr.io": "r.local/nv"}}, None),
    ],
)
def test_the_most_specific_value_of_each_field_counts(
    section: dict[str, Any], global_config: dict[str, Any], settings: dict[str, Any], expected: str | None
) -> None:
    expected = expected or "r.local/nv/nvidia/mellanox/multus-cni:network-operator-v26.7.0"
    assert image_reference("multus", section, global_config, settings) == expected


@pytest.mark.parametrize(
    ("reference", "mirrors", "expected"),
    [
        ("nvcr.io/a/b:1", {"nvcr.io": "m"}, "m/a/b:1"),
        ("nvcr.io/a/b:1", {"nvcr.io/": "m/"}, "m/a/b:1"),
        ("nvcr.io/nvidia/b:1", {"nvcr.io": "m", "nvcr.io/nvidia": "n"}, "n/b:1"),
        ("nvcr.io.evil/a:1", {"nvcr.io": "m"}, "nvcr.io.evil/a:1"),
        ("ghcr.io/nvcr.io/a:1", {"nvcr.io": "m"}, "ghcr.io/nvcr.io/a:1"),
        ("mellanox/b:1", {"docker.io": "m"}, "m/mellanox/b:1"),
        ("mellanox/b:1", {"quay.io": "m"}, "mellanox/b:1"),
        ("mellanox/b:1", {"mellanox": "m"}, "m/b:1"),
        ("localhost/b:1", {"docker.io": "m"}, "localhost/b:1"),
        ("reg:5000/b@sha256:c", {"reg:5000": "m"}, "m/b@sha256:c"),
        ("nvcr.io/a:1", {}, "nvcr.io/a:1"),
    ],
)
def test_mirrors_replace_whole_prefixes(reference: str, mirrors: dict[str, str], expected: str) -> None:
    assert mirrored(reference, mirrors) == expected


def test_secrets_of_the_section_replace_the_global_ones_and_the_run_adds_its_own() -> None:
    settings = {"image_pull_secrets": ["run", "a"]}
    assert pull_secrets({"imagePullSecrets": ["a"]}, {"imagePullSecrets": ["g"]}, settings) == [
        {"name": "a"},
        {"name": "run"},
    ]
    assert pull_secrets({}, {"imagePullSecrets": ["g"]}, {}) == [{"name": "g"}]
    assert pull_secrets({}, {}, {}) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v4.0.2", (4, 0, 2)),
        ("0.7", (0, 7, 0)),
        ("v0.6.1-amd64", (0, 6, 1)),
        ("v0.10.1", (0, 10, 1)),
        ("network-operator-v26.4.1", None),
        ("sha256:" + "1" * 64, None),
        ("latest", None),
        ("1.2.3.4", None),
    ],
)
def test_versions_are_read_where_they_are_versions(text: str, numbers: tuple[int, ...] | None) -> None:
    assert version_numbers(text) == numbers


def test_a_version_without_numbers_is_never_old() -> None:
    assert older_than("v0.9.3", (0, 9, 4))
    assert not older_than("v0.9.4", (0, 9, 4))
    assert not older_than("latest", (9, 9, 9))


def test_the_version_is_the_one_of_the_image() -> None:
    for section, global_config, settings in (({}, {}, {}), (SECTION, GLOBAL, SETTINGS), ({}, GLOBAL, {})):
        version = effective_version("multus", section, global_config, settings)
        assert image_reference("multus", section, global_config, settings).endswith(f":{version}")


def test_every_section_has_a_material_and_every_material_is_complete() -> None:
    assert {section.component for section in SECTIONS.values()} <= set(COMPONENTS)
    for release in RELEASES:
        materials = {name: material(name, {"operator_release": release}) for name in COMPONENTS}
        # The operator has no release of xPlane either.
        assert [name for name, line in materials.items() if not all(line)] == ["xplane"]
        assert not [each for each in materials.values() if each.version == "latest"]


def test_the_newest_release_that_the_vendor_has_published_is_the_default() -> None:
    assert [name for name, release in RELEASES.items() if not release.is_final] == ["26.10.0-beta.3"]
    for name in ("multus", "doca-driver", "doca-telemetry"):
        by_default, older = (material(name, given) for given in ({}, {"operator_release": "26.4.1"}))
        assert by_default == material(name, {"operator_release": DEFAULT_RELEASE}) != older
    newer = image_reference("multus", {}, {}, {"operator_release": "26.10.0-beta.3"})
    assert newer == "nvcr.io/nvstaging/mellanox/multus-cni:network-operator-v26.10.0-beta.3"


def test_the_bill_names_every_image_once_with_its_users() -> None:
    def workload(kind: str, name: str, *images: str) -> dict[str, Any]:
        pod = {"initContainers": [{"image": images[0]}], "containers": [{"image": image} for image in images[1:]]}
        return {"kind": kind, "metadata": {"name": name, "namespace": "n"}, "spec": {"template": {"spec": pod}}}

    job = {"spec": {"template": {"spec": {"containers": [{"image": "b:2"}]}}}}
    cron = {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": job}}
    bill = bill_of([workload("DaemonSet", "x", "r/a:1", "r/a:1", "b:2"), cron, {"kind": "ConfigMap", "metadata": {}}])
    assert [entry["reference"] for entry in bill] == ["b:2", "r/a:1"]
    assert bill[0]["used_by"] == ["DaemonSet/n/x", "CronJob/c"]
    assert bill[1]["used_by"] == ["DaemonSet/n/x"]


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("reg:5000/a/b:1@sha256:c", ("reg:5000/a", "b", "1", "sha256:c")),
        ("reg:5000/b", ("reg:5000", "b", "", "")),
        ("b:1", ("", "b", "1", "")),
    ],
)
def test_the_bill_takes_references_apart(reference: str, parts: tuple[str, ...]) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"image": reference}]}}
    entry = bill_of([pod])[0]
    assert tuple(entry[key] for key in ("repository", "image", "version", "digest")) == parts


def test_jobs_of_other_controllers_are_in_the_bill() -> None:
    replicas = {
        name: {"template": {"spec": {"containers": [{"name": "c", "image": f"reg.local/{name.lower()}:1"}]}}}
        for name in ("Launcher", "Worker")
    }
    job = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "a", "namespace": "ai"}}
    found = bill_of([{**job, "spec": {"mpiReplicaSpecs": replicas}}])
    assert [(each["reference"], each["used_by"]) for each in found] == [
        ("reg.local/launcher:1", ["MPIJob/ai/a"]),
        ("reg.local/worker:1", ["MPIJob/ai/a"]),
    ]


def using(*images: str) -> list[dict[str, Any]]:
    pod = {"containers": [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]}
    return [
        {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "d"}, "spec": {"template": {"spec": pod}}}
    ]


def test_platforms_are_known_of_all_images_but_those_without_a_source() -> None:
    assert set(COMPONENTS) - set(PLATFORMS) == {"doca-driver", "doca-telemetry", "ib-sriov-cni", "xplane"}
    assert all(source and set(architectures) >= {"amd64", "arm64"} for architectures, source in PLATFORMS.values())


@pytest.mark.parametrize("release", RELEASES)
def test_platforms_of_the_defaults_of_each_release_are_known_through_mirrors_too(release: str) -> None:
    for settings in ({}, {"registry_mirrors": {"nvcr.io": "r.local/nv", "registry.k8s.io": "r.local/k"}}):
        chosen = {**settings, "operator_release": release}
        images = {component: image_reference(component, {}, {}, chosen) for component in PLATFORMS}
        known = known_platforms([], settings)
        assert {component: known[images[component]] for component in PLATFORMS} == {
            component: architectures for component, (architectures, _source) in PLATFORMS.items()
        }


def test_hardened_images_of_the_vendor_are_for_amd64() -> None:
    """``*stig*`` of fork-ci-reusable.yml (Mellanox/cloud-orchestration-reusable-workflows): one platform."""
    tag = "network-operator-v26.7.0-stig-fips"
    image = f"nvcr.io/nvidia/mellanox/nic-configuration-operator-daemon-stig-fips:{tag}"
    mirror = image.replace("nvcr.io", "r.local")
    assert known_platforms(using(image), {})[image] == ("amd64",)
    assert known_platforms(using(mirror), {"registry_mirrors": {"nvcr.io": "r.local"}})[mirror] == ("amd64",)


@pytest.mark.parametrize(
    "image",
    [
        "ghcr.io/mine/rdma-cni:network-operator-v26.7.0",
        "nvcr.io/nvidia/mellanox/rdma-cni:network-operator-v24.7.0",
        "ghcr.io/mine/rdma-cni-stig-fips:v1",
        f"nvcr.io/nvidia/mellanox/rdma-cni@sha256:{'a' * 64}",
    ],
)
def test_nothing_is_known_of_an_image_that_a_user_has_chosen(image: str) -> None:
    assert image not in known_platforms(using(image), {})
