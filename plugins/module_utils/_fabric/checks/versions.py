# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases of the programs the rendered objects fit.

A version without numbers (a release tag of the vendor, a digest) counts as current; only of the fields of pools is it
known which release of the vendor brought them.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._needs import LINK, needs_of

from ..common.images import chosen_release, older_than, version_numbers
from ..common.jsontext import Problem
from .devplugin import selector_groups
from .nv_ipam import exclusions_before_blocks, exclusions_over_parts

MULTUS_THIN_ENTRYPOINT = (4, 0, 0)
_MULTUS_PAUSING_WATCH = (4, 1, 0)
# Its image has neither /install_multus nor /thin_entrypoint (multus-cni, images/Dockerfile.thick).
_MULTUS_THICK = "thick"
_NFD = (0, 17, 0)
# Until 0.17 health is asked over gRPC (port 8082), since 0.18 over HTTP (port 8080): cmd/ and deployment/base of each.
_NFD_OVER_HTTP = (0, 18, 0)
# The vendor's first release with an image of its own of NFD, built after that change.
_NFD_OF_THE_VENDOR = (25, 7, 0)
# The first release that reads its pools from objects; older ones read a ConfigMap and keep addresses elsewhere.
_NV_IPAM_POOLS = (0, 1, 0)
# --leader-elect-namespace came in 0.0.3: cmd/ipam-controller/app/options of each release.
_NV_IPAM_LEADER = (0, 0, 3)
_NV_IPAM_CIDR_POOLS = (0, 2, 0)
# The first releases, its own and the vendor's, that give no node a part that is excluded as a whole.
_NV_IPAM_PASSES_OVER = ((0, 4, 0), (26, 1, 0))
# The first releases that give each attachment of a pod to one network a GUID (``getAllPodNetworkInfos``, pkg/daemon).
_IB_KUBERNETES_REPEATS = ((1, 2, 0), (25, 10, 0))  # v1.1.1 is the last with a number of its own
_IPOIB_READS_MTU = ((1, 2, 3), (26, 7, 0))  # v1.2.2 is the last with a number of its own
# The first releases, their own and the vendor's, of which it is not known that a shell of the image copies the programs
# over those of the node: entrypoint.sh of k8snetworkplumbingwg/plugins up to 1.6.2 and of Mellanox/ipoib-cni, at which
# the vendor's images are up to 26.1. Later ones have cmd/entrypoint instead, which renames, and no shell.
_COPIES_BY_RENAME = {"cni-plugins": ((1, 7, 0), (26, 4, 0)), "ipoib-cni": ((1, 3, 0), (26, 4, 0))}
# The first releases with a version of the CNI specification: containernetworking/cni in go.mod of each has 1.0.0 since
# its own 1.0.0, 1.1.0 since 1.2.0-rc0 (``All`` of pkg/version). Those that are not here have had it for long.
_CNI_VERSIONS_SINCE: dict[str, dict[str, tuple[int, int, int]]] = {
    "1.0.0": {"cni-plugins": (1, 0, 0), "ipoib-cni": (1, 2, 0), "whereabouts": (0, 7, 0)},
    "1.1.0": {"cni-plugins": (1, 6, 0), "ipoib-cni": (1, 2, 1), "nv-ipam": (0, 3, 6), "whereabouts": (0, 7, 0)},
}
# k8snetworkplumbingwg/sriov-network-device-plugin#481, its auxNetDevice and selectors in a list came after 3.5.1.
_SRIOV_DASHES = (3, 6, 0)
# First release with a field of a resource or of its selectors: pkg/types/types.go of each release.
_SRIOV_FIELDS_SINCE: dict[str, tuple[int, int, int]] = {
    "additionalInfo": (3, 6, 0),
    "excludeTopology": (3, 5, 0),
}
_SRIOV_SELECTORS_SINCE: dict[str, tuple[int, int, int]] = {
    "acpiIndexes": (3, 6, 0),
    "pKeys": (3, 7, 0),
    "vdpaType": (3, 5, 0),
}
# ip-reconciler came in 0.5, ip-control-loop in 0.5.3: Dockerfile of each release.
_WHEREABOUTS_RECONCILER = (0, 5, 0)
_WHEREABOUTS_LOOP = (0, 5, 3)
_WHEREABOUTS_NODE_SLICES = (0, 9, 0)
_WHEREABOUTS_SLICES_BESIDE_OTHERS = (0, 9, 4)

_RELEASE = re.compile(r"^network-operator-v(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)
R26_4, R26_7, R26_10 = (26, 4), (26, 7), (26, 10)
Release = Tuple[int, int]
"""Year and month of a release of the vendor's operator."""
# (kind or empty for both, field of the spec, nv-ipam's own first version, the vendor's first release with it).
_POOL_FIELDS_SINCE: tuple[tuple[str, str, tuple[int, int, int], tuple[int, int, int]], ...] = (
    ("", "exclusions", (0, 2, 0), (24, 7, 0)),
    ("", "routes", (0, 3, 0), (25, 4, 0)),
    ("CIDRPool", "defaultGateway", (0, 3, 1), (25, 4, 0)),
    ("IPPool", "defaultGateway", (0, 3, 2), (25, 4, 0)),
    ("", "perNodeExclusions", (0, 4, 0), (26, 1, 0)),
)


def version_problems(component: str, version: str) -> list[Problem]:
    """Return why the objects rendered for a component do not fit a version of it; empty when they do."""
    if component == "nfd" and older_than(version, _NFD):
        problem = f"node-feature-discovery {version} is older than the objects rendered for it"
        return [Problem("", problem, "use v0.17.0 or newer")]
    if component == "multus" and _MULTUS_THICK in version:
        problem = f"{version} is the image of Multus as a daemon, which lacks the programs of a thin plugin"
        return [Problem("", problem, f"use the same release without {_MULTUS_THICK} in its tag")]
    return []


def is_nfd_of_0_18(version: str) -> bool:
    """Return whether an image of node-feature-discovery is one of release 0.18 or newer.

    A version that says no release is taken for that of the bill of materials, 0.17.
    """
    return _names_release(version) and not _is_older(version, _NFD_OVER_HTTP, _NFD_OF_THE_VENDOR)


def version_remarks(component: str, version: str) -> list[Problem]:
    """Return what surprises about a version that is deployed all the same."""
    if component == "nfd" and not _names_release(version):
        problem = f"{version} says no release, so it is taken for 0.17: programs of 0.18 and newer would never be ready"
        return [Problem("", problem, "name such an image by its tag, v0.18.0 or newer")]
    if component == "whereabouts" and not reconciles_addresses(version):
        problem = f"whereabouts {version} cleans up nothing: addresses of pods that end with their node stay taken"
        return [Problem("", problem, "use v0.5.3 or newer, or delete them from the IPPool objects")]
    if component == "whereabouts" and not _names_release(version):
        problem = (
            f"{version} says no release, so it is taken for one before 0.9.4: with a newer one nothing cleans up "
            "addresses of pods that end with their node"
        )
        return [Problem("", problem, "name such an image by its tag, v0.9.4 or newer")]
    if component == "nv-ipam" and not reads_pool_objects(version):
        problem = f"nv-ipam {version} never renews the token in its kubeconfig"
        return [Problem("", problem, "use v0.1.1 or newer; the pools of the input become IPPool objects then")]
    of_links = [need for need in needs_of(component, {}, version_numbers(version)) if need.kind == LINK and need.until]
    found = [
        Problem("", f"{version} offers {need.want[0]} ports only: it needs {need.text}", need.step) for need in of_links
    ]
    if component == "multus" and older_than(version, _MULTUS_PAUSING_WATCH):
        problem = f"multus {version} watches its token without a pause and so uses all CPU it is allowed"
        if older_than(version, MULTUS_THIN_ENTRYPOINT):
            problem = f"multus {version} never renews the token in its kubeconfig"
        found = [Problem("", problem, "use v4.1.0 or newer")]
    return found


def sriov_resource_problems(config: Mapping[str, Any], version: str) -> list[Problem]:
    """Return why a release of the SR-IOV device plugin would not offer what a configuration that passed its check says.

    A release ignores fields that it does not know: without a selector it takes more devices than were meant.
    """
    found = []
    for index, item in enumerate(config["resourceList"]):
        path = f"resourceList[{index}]"
        if older_than(version, _SRIOV_DASHES):
            found += _stops_sriov(path, item, version)
        found += _ignored_by_sriov(path, item, _SRIOV_FIELDS_SINCE, version)
        for where, selectors in selector_groups(f"{path}.selectors", item["selectors"]):
            found += _ignored_by_sriov(where, selectors, _SRIOV_SELECTORS_SINCE, version)
    return found


def _stops_sriov(path: str, item: Mapping[str, Any], version: str) -> list[Problem]:
    found, plugin, hint = [], f"sriov-network-device-plugin {version}", "use v3.6.0 or newer"
    if "-" in item["resourceName"]:
        problem = f"{item['resourceName']!r} stops {plugin}, which knows no - in names"
        found.append(Problem(f"{path}.resourceName", problem, f"{hint}, or _ in place of -"))
    if item.get("deviceType") == "auxNetDevice":
        problem = f"auxNetDevice stops {plugin}, which knows no such type"
        found.append(Problem(f"{path}.deviceType", problem, hint))
    if isinstance(item["selectors"], list):
        problem = f"is a list, and {plugin} leaves out a resource with one"
        found.append(Problem(f"{path}.selectors", problem, f"{hint}, or one object"))
    return found


def _ignored_by_sriov(
    path: str, given: Mapping[str, Any], since: Mapping[str, tuple[int, int, int]], version: str
) -> list[Problem]:
    return [
        Problem(
            f"{path}.{key}",
            f"is not known to sriov-network-device-plugin {version}: it would be ignored",
            f"use v{'.'.join(str(number) for number in first)} or newer",
        )
        for key, first in since.items()
        if given.get(key) and older_than(version, first)
    ]


def reads_pool_objects(version: str) -> bool:
    """Return whether a release of nv-ipam reads IPPool objects, and not a ConfigMap."""
    return not older_than(version, _NV_IPAM_POOLS)


def elects_leader(version: str) -> bool:
    """Return whether two controllers of a release of nv-ipam may run beside each other."""
    return not older_than(version, _NV_IPAM_LEADER)


def webhook_problems(version: str) -> list[Problem]:
    """Return why a release of nv-ipam may not be asked about pools by the API server; ``""`` is ``enableWebhook``."""
    if reads_pool_objects(version):
        return []
    return [Problem("", f"is not known to nv-ipam {version}, which has no webhook", "use v0.1.1 or newer, or drop it")]


def controller_release(version: str, settings: Mapping[str, Any]) -> Release:
    """Return the vendor's release (year, month) of an image of NIC configuration or Spectrum-X.

    The API and the rights of both grow. Only the vendor's tags say so; other versions are taken for the release that
    ``settings`` choose.
    """
    tags = (version, f"network-operator-v{chosen_release(settings)}")
    return next((int(match[1]), int(match[2])) for match in map(_RELEASE.match, tags) if match)


def controller_remarks(version: str, settings: Mapping[str, Any]) -> list[Problem]:
    """Return what surprises about the version of an image of NIC configuration or Spectrum-X."""
    if _RELEASE.match(version):
        return []
    taken = ".".join(map(str, controller_release(version, settings)))
    problem = f"{version} says no release of the vendor's: definitions and rights are those of {taken}"
    hint = "pods of another release need others: name such an image by its tag, or set rdma_fabric_operator_release"
    return [Problem("version", problem, hint)]


def copies_in_place(component: str, version: str) -> bool:
    """Return whether the image is known to write its programs over those of the node, with a shell that it has."""
    return component in _COPIES_BY_RENAME and _is_older(version, *_COPIES_BY_RENAME[component])


def has_control_loop(version: str) -> bool:
    """Return whether a release of whereabouts has the program that frees addresses of pods as they end."""
    return not older_than(version, _WHEREABOUTS_LOOP)


def reconciles_addresses(version: str) -> bool:
    """Return whether a release of whereabouts has a program that cleans up leftover addresses."""
    return not older_than(version, _WHEREABOUTS_RECONCILER)


def has_node_slices(version: str) -> bool:
    """Return whether a release of whereabouts knows node slices."""
    return not older_than(version, _WHEREABOUTS_NODE_SLICES)


def node_slice_problems(version: str) -> list[Problem]:
    """Return why a network may not ask a release of whereabouts for node slices."""
    if has_node_slices(version):
        return []
    hint = "use v0.9.4 or newer, or drop node_slice_size"
    return [Problem("ipam.node_slice_size", f"whereabouts {version} knows no node slices", hint)]


def slices_beside_problems(version: str, other: str) -> list[Problem]:
    """Return why a release of whereabouts makes no node slices beside an attachment with other addresses, or none.

    Its controller reads every attachment of the cluster, and ends with the first one that is not of whereabouts.
    """
    if not older_than(version, _WHEREABOUTS_SLICES_BESIDE_OTHERS):
        return []
    problem = f"whereabouts {version} makes no node slices where attachments have other addresses, or none ({other})"
    return [Problem("ipam.node_slice_size", problem, "use v0.9.4 or newer, or drop node_slice_size")]


def pool_problems(kind: str, spec: Mapping[str, Any], version: str) -> list[Problem]:
    """Return the fields of a pool that the release of nv-ipam beside it does not know: it would ignore them."""
    if kind == "CIDRPool" and _is_older(version, _NV_IPAM_CIDR_POOLS, (24, 7, 0)):
        return [Problem("", f"nv-ipam {version} knows no CIDRPool", "use v0.2.0 or newer, or an IPPool")]
    problems = []
    for of_kind, name, first, release in _POOL_FIELDS_SINCE:
        if of_kind in ("", kind) and spec.get(name) and _is_older(version, first, release):
            newer = ".".join(str(number) for number in first)
            hint = f"use v{newer} or network-operator-v{release[0]}.{release[1]}.{release[2]}, or newer"
            problems.append(Problem(name, f"is not known to nv-ipam {version}: it would be ignored", hint))
    if kind == "CIDRPool" and _is_older(version, *_NV_IPAM_PASSES_OVER):
        problem = f"has whole parts between its ends, which nv-ipam {version} gives to nodes and assigns"
        hint = "an exclusion for each part, or use v0.4.0 or network-operator-v26.1.0, or newer"
        problems += [Problem(path, problem, hint) for path, _first, _last in exclusions_over_parts(spec)]
    return problems


def pool_remarks(kind: str, spec: Mapping[str, Any], version: str) -> list[Problem]:
    """Return which exclusions of an IPPool hold blocks that a release of nv-ipam gives to nodes all the same.

    It gives the first blocks that no node has, in their order (``pkg/ipam-controller/allocator`` of v0.3.7).
    """
    if kind != "IPPool" or not _is_older(version, *_NV_IPAM_PASSES_OVER):
        return []
    problem = f"holds whole blocks, which nv-ipam {version} gives to nodes all the same: no pod there gets an address"
    hint = "have the subnet begin behind it, or use v0.4.0 or network-operator-v26.1.0, or newer"
    return [Problem(path, problem, hint, unmet=True) for path in exclusions_before_blocks(spec)]


def gives_one_guid(version: str) -> bool:
    """Return whether a release of ib-kubernetes gives a GUID to the first attachment of a pod to a network alone."""
    return _is_older(version, *_IB_KUBERNETES_REPEATS)


def cni_version_remarks(component: str, wanted: str, version: str) -> list[Problem]:
    """Return why a release does not serve networks of a version of the CNI specification (whereabouts#289).

    The program ends before it reads anything else (``checkVersionAndCall`` of containernetworking/cni, pkg/skel).
    """
    first = _CNI_VERSIONS_SINCE.get(wanted, {}).get(component)
    if first is None or not older_than(version, first):
        return []
    problem = f"{component} {version} refuses networks of cniVersion {wanted}, so no pod with this one starts"
    hint = f"use v{'.'.join(map(str, first))} or newer, or a NetworkAttachmentDefinition with cniVersion 0.4.0"
    return [Problem("", problem, hint, unmet=True)]


def ipoib_remarks(plugin: Mapping[str, Any], version: str) -> list[Problem]:
    """Return what a release of ipoib-cni passes over in a plugin's configuration (its pull request 132)."""
    if plugin.get("type") != "ipoib" or not plugin.get("mtu") or not _is_older(version, *_IPOIB_READS_MTU):
        return []
    problem = f"is not known to ipoib-cni {version}: the interface in the pod has the MTU of the fabric"
    return [Problem("mtu", problem, "use network-operator-v26.7.0 or newer, or leave it out")]


def _names_release(version: str) -> bool:
    return bool(_RELEASE.match(version)) or version_numbers(version) is not None


def _is_older(version: str, first: tuple[int, int, int], release: tuple[int, int, int]) -> bool:
    """Return whether a version, the program's own or the vendor's release tag, is known to be older."""
    match = _RELEASE.match(version)
    if match:
        return (int(match[1]), int(match[2]), int(match[3] or 0)) < release
    return version_numbers(version) is not None and older_than(version, first)
