# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bill of materials: every image this collection can ask a cluster to pull, and how users replace each.

The defaults are those of one release of the vendor's operator; NFD and whereabouts come from their own projects, since
the vendor does not ship the latter. The release of ``xPlane`` is always the user's: the operator has none either.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from .objects import Object, containers_of
from .pods import pods_of

_VENDOR = "nvcr.io/nvidia/mellanox"
_DOCA = "nvcr.io/nvidia/doca"
RELEASE_SETTING = "operator_release"
"""The setting that chooses one of :data:`RELEASES`."""


class Material(NamedTuple):
    """One line of the bill: where the image of a component comes from unless the user says otherwise."""

    repository: str
    image: str
    version: str


class Release(NamedTuple):
    """What is a release's own in the images of an operator's release; every other one has the release's name as tag."""

    driver: str
    telemetry: str
    repository: str = _VENDOR
    source: str = ""

    @property
    def is_final(self) -> bool:
        """Return whether the vendor has published it: what is to come is in a registry of its own."""
        return self.repository == _VENDOR


_IMAGES = "docs/advanced/images-sha256.rst of Mellanox/network-operator-docs"
RELEASES: dict[str, Release] = {
    "26.4.1": Release(
        "doca3.4.1-26.04-1.1.0.0-1",
        "1.25.5-doca3.4.0-host",
        source="hack/release.yaml of Mellanox/network-operator at v26.4.1",
    ),
    "26.7.0": Release("doca3.5.0-26.07-0.7.7.0-1", "1.26.5-doca3.5.0-host", source=f"{_IMAGES}, as of 26.7.0"),
    "26.10.0-beta.3": Release(
        "doca3.6.0-26.10-043000-0",
        "1.27.4-doca3.6.0-host",
        repository="nvcr.io/nvstaging/mellanox",
        source=f"{_IMAGES}, as of 26.10.0-beta.3",
    ),
}
DEFAULT_RELEASE = [name for name, release in RELEASES.items() if release.is_final][-1]
"""The newest release whose images the vendor has published."""
_OF_THE_VENDOR = {
    "cni-plugins": "plugins",
    "doca-driver": "doca-driver",
    "doca-driver-init": "network-operator-init-container",
    "doca-telemetry": "doca_telemetry",
    "ib-kubernetes": "ib-kubernetes",
    "ib-sriov-cni": "ib-sriov-cni",
    "ipoib-cni": "ipoib-cni",
    "multus": "multus-cni",
    "nic-feature-discovery": "nic-feature-discovery",
    "nic-configuration-daemon": "nic-configuration-operator-daemon",
    "nic-configuration-operator": "nic-configuration-operator",
    "nv-ipam": "nvidia-k8s-ipam",
    "ovs-cni": "ovs-cni-plugin",
    "rdma-cni": "rdma-cni",
    "rdma-shared-device-plugin": "k8s-rdma-shared-dev-plugin",
    "spectrum-x-operator": "spectrum-x-operator",
    "sriov-cni": "sriov-cni",
    "sriov-device-plugin": "sriov-network-device-plugin",
}
_OF_OTHERS = {
    "nfd": Material("registry.k8s.io/nfd", "node-feature-discovery", "v0.17.3"),
    "whereabouts": Material("ghcr.io/k8snetworkplumbingwg", "whereabouts", "v0.8.0"),
    "xplane": Material(_DOCA, "xplane", ""),
}
_FORKS = "BUILD_PLATFORMS in fork-ci-reusable.yml of Mellanox/cloud-orchestration-reusable-workflows"
_BUILT = (
    *("cni-plugins", "doca-driver-init", "ib-kubernetes", "ipoib-cni", "multus", "nic-configuration-daemon"),
    *("nic-configuration-operator", "nic-feature-discovery", "nv-ipam", "ovs-cni", "rdma-cni"),
    *("rdma-shared-device-plugin", "spectrum-x-operator", "sriov-cni", "sriov-device-plugin"),
)
PLATFORMS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(_BUILT, (("amd64", "arm64"), f"{_FORKS}, which builds them")),
    "nfd": (("amd64", "arm", "arm64"), "IMAGE_ALL_PLATFORMS in the Makefile of kubernetes-sigs/node-feature-discovery"),
    "whereabouts": (("amd64", "arm64"), "image-push-release.yml of k8snetworkplumbingwg/whereabouts"),
}
"""The architectures that images of the bill are built for, each with its source. Of the others nothing is known."""
_HARDENED = "-stig-fips"
COMPONENTS = (*_OF_THE_VENDOR, *_OF_OTHERS)


def material(component: str, settings: Mapping[str, Any]) -> Material:
    """Return the line of a component in the bill of materials of the release that ``settings`` choose."""
    if component in _OF_OTHERS:
        return _OF_OTHERS[component]
    name = chosen_release(settings)
    release = RELEASES[name]
    own = {"doca-driver": release.driver, "doca-telemetry": release.telemetry}
    repository = _DOCA if component == "doca-telemetry" else release.repository
    return Material(repository, _OF_THE_VENDOR[component], own.get(component, f"network-operator-v{name}"))


def chosen_release(settings: Mapping[str, Any]) -> str:
    """Return the release of the vendor's operator whose images, definitions and chart are the defaults."""
    return str(settings.get(RELEASE_SETTING) or DEFAULT_RELEASE)


class Section(NamedTuple):
    """The component that a section of a policy describes, and its containers whose resources the section may set."""

    component: str
    containers: tuple[str, ...] = ()


SECTIONS: dict[str, Section] = {
    "docaTelemetryService": Section("doca-telemetry", ("doca-telemetry-service",)),
    "ibKubernetes": Section("ib-kubernetes", ("ib-kubernetes",)),
    "nicConfigurationOperator.configurationDaemon": Section("nic-configuration-daemon", ("nic-configuration-daemon",)),
    "nicConfigurationOperator.operator": Section("nic-configuration-operator", ("nic-configuration-operator",)),
    "nicFeatureDiscovery": Section("nic-feature-discovery", ("nic-feature-discovery",)),
    "nvIpam": Section("nv-ipam", ("nv-ipam-controller", "nv-ipam-node")),
    "ofedDriver": Section("doca-driver"),
    "rdmaSharedDevicePlugin": Section("rdma-shared-device-plugin", ("rdma-shared-dp",)),
    "sriovDevicePlugin": Section("sriov-device-plugin", ("kube-sriovdp",)),
    "secondaryNetwork.cniPlugins": Section("cni-plugins", ("cni-plugins",)),
    "secondaryNetwork.ipamPlugin": Section(
        "whereabouts", ("whereabouts", "whereabouts-reconciler", "whereabouts-controller")
    ),
    "secondaryNetwork.ipoib": Section("ipoib-cni", ("ipoib-cni",)),
    "secondaryNetwork.multus": Section("multus", ("kube-multus",)),
    "spectrumXOperator": Section("spectrum-x-operator", ("spectrum-x-flowcontroller",)),
    "spectrumXOperator.xPlane": Section("xplane"),
}
"""Sections outside this table have no image of ours. Containers of the driver are judged where it is one."""


def image_reference(component: str, section: Object, global_config: Object, settings: Object) -> str:
    """Return the image of a component as a pod names it.

    It is that of :func:`effective_image`. A version that starts with ``sha256:`` is a digest.
    ``settings["registry_mirrors"]`` then replaces the registry.
    """
    chosen = effective_image(component, section, global_config, settings)
    separator = "@" if chosen["version"].startswith("sha256:") else ":"
    reference = f"{chosen['repository'].rstrip('/')}/{chosen['image']}{separator}{chosen['version']}"
    return mirrored(reference, settings.get("registry_mirrors") or {})


def effective_image(component: str, section: Object, global_config: Object, settings: Object) -> dict[str, str]:
    """Return the repository, image and version of a component.

    For each of them the first non-empty value counts: the policy's section, the policy's ``global`` (repository and
    version), ``settings["image_overrides"]``, the bill of materials. Only ``xplane`` may be without a version.
    """
    override = (settings.get("image_overrides") or {}).get(component) or {}
    inherited = inherited_image(component, global_config)
    chosen: dict[str, str] = {}
    for field, default in material(component, settings)._asdict().items():
        candidates = (section.get(field), inherited.get(field), override.get(field), default)
        chosen[field] = next((value for value in candidates if value), "")
    return chosen


def inherited_image(component: str, global_config: Object) -> dict[str, str]:
    """Return the repository and version that a component takes from a policy's ``global``.

    Releases that have ``global`` ship no whereabouts, so there is no such image where it points to.
    """
    if component not in _OF_THE_VENDOR:
        return {}
    return {key: global_config[key] for key in ("repository", "version") if global_config.get(key)}


def mirrored(reference: str, mirrors: dict[str, str]) -> str:
    """Return an image reference with its longest matching prefix replaced by that prefix's mirror.

    Prefixes match whole path segments. A reference without a registry means ``docker.io``, as for container runtimes.
    """
    for name in (reference, f"docker.io/{reference}" if not _names_registry(reference) else reference):
        for prefix in sorted(mirrors, key=len, reverse=True):
            stem = prefix.rstrip("/")
            if name.startswith(f"{stem}/"):
                return f"{mirrors[prefix].rstrip('/')}{name[len(stem) :]}"
    return reference


def pull_secrets(section: Object, global_config: Object, settings: Object) -> list[Object]:
    """Return the pull secrets of a component: the section's or else ``global``'s, then those of the settings."""
    names = section.get("imagePullSecrets") or global_config.get("imagePullSecrets") or []
    merged = dict.fromkeys([*names, *(settings.get("image_pull_secrets") or [])])
    return [{"name": name} for name in merged]


def version_numbers(version: str) -> tuple[int, int, int] | None:
    """Return (major, minor, patch) of ``v1.2.3``, ``1.2`` or ``v0.6.1-amd64``; None when the version names no number.

    Vendor release tags and digests carry no version of the program inside: they are taken for current ones.
    """
    match = re.match(r"^v?(\d+)\.(\d+)(?:\.(\d+))?(?![\d.])", version, re.ASCII)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def effective_version(component: str, section: Object, global_config: Object, settings: Object) -> str:
    """Return the version :func:`image_reference` would use."""
    return effective_image(component, section, global_config, settings)["version"]


def older_than(version: str, bound: tuple[int, int, int]) -> bool:
    """Return whether a version is known to be older than ``bound``."""
    numbers = version_numbers(version)
    return numbers is not None and numbers < bound


def split_reference(reference: str) -> dict[str, str]:
    """Return repository, image, version (a tag, may be empty) and digest (may be empty) of an image reference."""
    name, _at, digest = reference.partition("@")
    path, _slash, last = name.rpartition("/")
    image, _colon, tag = last.partition(":")
    return {"repository": path, "image": image, "version": tag, "digest": digest}


def bill_of(objects: list[Object]) -> list[dict[str, Any]]:
    """Return every image the given objects make a node pull, once each, for reports and air-gapped copies.

    Each entry: reference, repository, image, version, digest, used_by (``Kind/namespace/name`` of the objects).
    """
    users: dict[str, list[str]] = {}
    for found in objects:
        for container in [each for pod in pods_of(found) for each in containers_of(pod)]:
            metadata = found["metadata"]
            user = "/".join(part for part in (found["kind"], metadata.get("namespace"), metadata["name"]) if part)
            known = users.setdefault(str(container.get("image", "")), [])
            if user not in known:
                known.append(user)
    return [
        {"reference": reference, **split_reference(reference), "used_by": used_by}
        for reference, used_by in sorted(users.items())
        if reference
    ]


def known_platforms(objects: list[Object], settings: Object) -> dict[str, tuple[str, ...]]:
    """Return architectures by the references of images: of the bill, in each release and through the mirrors.

    The vendor builds hardened images, of which those in ``objects`` are here, for amd64 alone. Any other image, which a
    user has chosen, may be for any architecture.
    """
    mirrors, known, hardened = settings.get("registry_mirrors") or {}, {}, set()
    for component, (architectures, _source) in PLATFORMS.items():
        for name in RELEASES:
            repository, image, version = material(component, {RELEASE_SETTING: name})
            known[mirrored(f"{repository}/{image}:{version}", mirrors)] = architectures
            hardened.add(mirrored(f"{repository}/{image}{_HARDENED}", mirrors))
    for each in bill_of(objects):
        if f"{each['repository']}/{each['image']}" in hardened:
            known[each["reference"]] = ("amd64",)
    return known


def _names_registry(reference: str) -> bool:
    first, slash, _rest = reference.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")
