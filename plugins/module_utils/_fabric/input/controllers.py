# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controllers that a policy deploys: who reads their objects, and what they do to hosts beside this collection.

Sources: the README and the design reference of the NIC configuration operator; ``manifests/state-spectrum-x-operator``
of the Network Operator. Private to this collection: it may change.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from ..checks import crds_controllers, nic_configuration
from ..checks.instances import flaws_of
from ..checks.versions import R26_7, R26_10, Release, controller_release, controller_remarks
from ..common.images import SECTIONS, effective_version, image_reference
from .components import Deployed
from .policy import Policy
from .resources import CONTROLLER_KINDS, MAINTENANCE_CONFIG, WHO_DRAINS, Resource

SPECTRUM_X = "spectrumXOperator"
_DAEMON = f"{nic_configuration.SECTION}.configurationDaemon"
_DAEMONS = (f"{nic_configuration.SECTION}.operator", _DAEMON)
# What makes a ConfigMap a profile of Spectrum-X: pkg/consts of the NIC configuration operator.
_PROFILE_LABEL = "network.nvidia.com/operator.nic-configuration.spectrum-x-profile"
_PROFILE_KEY = "profile"
_BUNDLE_KEY, _BUNDLE_FORMAT = "format", "dospcx-data.tar.gz/v1"


def check(deployed: Deployed, objects: Sequence[Resource]) -> None:
    """Refuse objects that nobody would read, and say what the controllers do that a run of this collection does not."""
    own = [each for each in objects if each.content.get("apiVersion") == CONTROLLER_KINDS.get(each.kind, ("",))[0]]
    definitions = _definitions(deployed) if own else []
    for each in own:
        waiting = deployed.section(CONTROLLER_KINDS[each.kind][1]) is not None
        flaws = flaws_of(definitions, dict(each.content))
        for where, problem, hint in flaws:
            each.place.at(*where).violation(problem, hint)
        if each.kind == MAINTENANCE_CONFIG:
            _check_maintenance(each, waiting=waiting)
        else:
            _check_read(each, deployed=waiting, valid=not flaws)
    cluster = deployed.cluster
    cards, flows = deployed.section(nic_configuration.SECTION), deployed.section(SPECTRUM_X)
    if cluster is not None and cards is not None:
        _remark_cards(deployed, cluster, cards, objects)
        _remark_sources(deployed.namespace, objects)
        for path in _DAEMONS:
            _remark_release(deployed, cluster, path)
        release = _release(deployed, _DAEMON)
        if release >= R26_10:
            _remark_bundle(objects)
        elif release >= R26_7:
            _remark_profiles(objects)
    if cluster is not None and flows is not None:
        _remark_flows(deployed, cluster, flows)
        _remark_release(deployed, cluster, SPECTRUM_X)


def _definitions(deployed: Deployed) -> list[dict[str, Any]]:
    cards, flows = _release(deployed, *_DAEMONS), _release(deployed, SPECTRUM_X)
    of_cards, of_flows = crds_controllers.nic_configuration(cards), crds_controllers.spectrum_x(flows)
    return [*of_cards, *of_flows, *crds_controllers.maintenance()]


def _check_read(resource: Resource, *, deployed: bool, valid: bool) -> None:
    """Refuse what no controller reads, and say what hosts do of the rest without one."""
    reader, place = CONTROLLER_KINDS[resource.kind][1], resource.place.at("kind")
    is_of_cards = reader == nic_configuration.SECTION and isinstance(resource.spec, Mapping)
    done = nic_configuration.on_hosts(resource.kind, resource.spec) if is_of_cards else ""
    if not deployed:
        hint = f"add {reader} to the NicClusterPolicy, or leave the object to who deploys that controller"
        place.violation(f"is read by a controller that the input does not deploy: {reader}", hint)
    elif done and valid:
        hint = f"leave out {reader}, and it becomes, field by field, {done}"
        place.notice("is work that hosts can do without a controller", hint)


def _remark_release(deployed: Deployed, cluster: Policy, path: str) -> None:
    """Say of an image that names no release which one it is taken for."""
    for remark in controller_remarks(_version(deployed, path), deployed.settings):
        cluster.at(path).at(remark.path).remark(remark)


def _release(deployed: Deployed, *paths: str) -> Release:
    """Return the newest release of a controller's images, those of the bill of materials where it is not deployed."""
    return max(controller_release(_version(deployed, path), deployed.settings) for path in paths)


def _version(deployed: Deployed, path: str) -> str:
    defaults = (deployed.cluster.spec.get("global") if deployed.cluster else None) or {}
    return effective_version(SECTIONS[path].component, deployed.section(path) or {}, defaults, deployed.settings)


def _remark_sources(namespace: str, objects: Sequence[Resource]) -> None:
    """Name the sources of firmware that templates refer to and the daemon, which looks in its own namespace, lacks."""
    sources = [each for each in objects if each.kind == "NicFirmwareSource"]
    for each in [each for each in objects if each.kind == "NicFirmwareTemplate"]:
        for name in nic_configuration.values_at(each.spec, "template.nicFirmwareSourceRef"):
            if not [one for one in sources if one.name == name and one.namespace == namespace]:
                problem = f"names the NicFirmwareSource {name}, which is not part of the input in {namespace}"
                hint = f"the daemon looks there alone: give the source the namespace {namespace}"
                each.spec_place.at("template", "nicFirmwareSourceRef").notice(problem, hint)


def _remark_profiles(objects: Sequence[Resource]) -> None:
    """Name the profiles of Spectrum-X that templates ask for and the input does not bring.

    Until 26.4 the daemon had some of its own (RA1.3 to RA2.2); in 26.7 each is a ConfigMap.
    """
    brought = {each.name for each in objects if _is_profile(each, _PROFILE_KEY)}
    for each, name in _optimized(objects):
        if name not in brought:
            problem = f"asks for the profile {name}, which is not part of the input: the daemon of 26.7 has none itself"
            hint = (
                f"the cluster has to have a ConfigMap {name} with the label {_PROFILE_LABEL} and the key {_PROFILE_KEY}"
            )
            each.spec_place.at("template", "spectrumXOptimized", "version").notice(problem, hint)


def _remark_bundle(objects: Sequence[Resource]) -> None:
    """Say what the daemon of 26.10 plans templates of Spectrum-X from: one bundle of profiles in the cluster.

    Source: the documentation of 26.10, configuration details of the NIC configuration operator.
    """
    optimized = _optimized(objects)
    bundles = [each for each in objects if _is_profile(each, _BUNDLE_KEY)]
    of_26_7 = [each for each in objects if _is_profile(each, _PROFILE_KEY)]
    wanted = f"one ConfigMap with the label {_PROFILE_LABEL} and {_BUNDLE_KEY}: {_BUNDLE_FORMAT}"
    for each in of_26_7:
        each.place.at("data", _PROFILE_KEY).notice(
            "is a profile of 26.7, which the daemon of 26.10 takes none of", wanted
        )
    for each in bundles[1:]:
        each.place.violation("is a second bundle of profiles, of which the daemon of 26.10 takes none", wanted)
    for each, version in optimized[:1] if not bundles else []:
        problem = f"asks for {version}, and the bundle of profiles to plan it from is not part of the input"
        each.spec_place.at("template", "spectrumXOptimized", "version").notice(
            problem, f"the cluster has to have {wanted}"
        )


def _optimized(objects: Sequence[Resource]) -> list[tuple[Resource, str]]:
    """Return the templates with Spectrum-X enabled, each with the version that it asks for."""
    found = []
    for each in objects:
        profile: Any = each.spec if each.kind == "NicConfigurationTemplate" else None
        for key in ("template", "spectrumXOptimized"):
            profile = profile.get(key) if isinstance(profile, Mapping) else None
        if isinstance(profile, Mapping) and profile.get("enabled") is True and isinstance(profile.get("version"), str):
            found.append((each, profile["version"]))
    return found


def _is_profile(resource: Resource, key: str) -> bool:
    data = resource.content.get("data")
    is_labelled = resource.kind == "ConfigMap" and _PROFILE_LABEL in resource.metadata("labels")
    return is_labelled and isinstance(data, Mapping) and key in data


def _check_maintenance(resource: Resource, *, waiting: bool) -> None:
    """Refuse what sets up the maintenance operator where nothing that is deployed waits for it."""
    problem = "sets up the maintenance operator, which is not deployed here"
    if waiting:
        hint = "install its chart before this run: the kind is the chart's, whose own operatorConfig stays off"
        resource.place.at("kind").notice(problem, hint)
    else:
        resource.place.at("kind").violation(f"{problem}, and nothing of the input asks it for a node", WHO_DRAINS)


def contested(cluster: Policy | None, hosts: Mapping[str, Mapping[str, Any]]) -> list[Violation]:
    """Return the firmware that hosts are given beside the controller that sets it by itself.

    ``hosts`` are the desired states by inventory name. A node affinity that demands something may keep the
    controller's daemon off a host.
    """
    if cluster is None or nic_configuration.SECTION not in cluster.spec:
        return []
    if (cluster.spec.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
        return []
    return nic_configuration.contested(hosts)


def _remark_cards(deployed: Deployed, cluster: Policy, section: Mapping[str, Any], objects: Sequence[Resource]) -> None:
    place = cluster.at(nic_configuration.SECTION)
    problem = (
        "deploys a controller that changes hosts on its own: as its templates say, it sets firmware parameters, "
        "updates firmware, renames interfaces and reboots nodes, outside the slots of this collection"
    )
    hint = (
        "it starts none of that before the maintenance operator, which is not deployed here, gives it the node: "
        "install its chart; a host's own firmware (rdma_fabric_interfaces) is refused beside it"
    )
    place.notice(problem, hint)
    claim = nic_configuration.claim_of(section)
    known = ("PersistentVolumeClaim", claim, deployed.namespace)
    is_given = any((each.kind, each.name, each.namespace) == known for each in objects)
    if claim and not nic_configuration.makes_claim(section) and not is_given:
        problem = f"names the PersistentVolumeClaim {claim}, which is not part of the input: pods wait for it"
        hint = f"the namespace {deployed.namespace} has to have it; create: true makes it"
        place.at(nic_configuration.STORAGE, "pvcName").notice(problem, hint)
    if claim and not nic_configuration.makes_claim(section):
        for name in ("storageClassName", "availableStorageSize"):
            if section[nic_configuration.STORAGE].get(name):
                place.at(nic_configuration.STORAGE, name).notice("has no effect here", "the claim belongs to others")


def _remark_flows(deployed: Deployed, cluster: Policy, section: Mapping[str, Any]) -> None:
    place = cluster.at(SPECTRUM_X)
    problem = "makes objects of the SR-IOV Network Operator, which is not deployed here: without it no VF is made"
    hint = "keep that operator for the nodes of its SpectrumXRailPoolConfigs, and give this collection no VFs there"
    place.notice(problem, hint)
    service = section.get("xPlane")
    if isinstance(service, Mapping) and not effective_version("xplane", dict(service), {}, deployed.settings):
        problem = "has no version: as with the operator, the flow controller then starts no xPlane"
        place.at("xPlane").notice(
            problem, "give the version that the release notes of Spectrum-X name, and its repository"
        )
    elif isinstance(service, Mapping):
        reference = image_reference("xplane", dict(service), {}, deployed.settings)
        problem = f"is started by the flow controller, so its image is in no list of this collection: {reference}"
        place.at("xPlane").notice(problem, "copy it to the mirror as well, where nodes reach no other registry")
