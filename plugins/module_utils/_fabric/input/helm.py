# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helm values of the Network Operator's chart, read as sections of a policy and as settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, shown

from ..checks import devplugin, ib_kubernetes, nic_configuration
from ..checks.sriov_networks import RESOURCE_PREFIX
from ..common.findings import Document, Findings, Place
from .helm_values import CHART, CONTAINER_CHART, POLICY_SECTIONS
from .pools import note

_CHART_ONLY = ("deploy", "resources", "initContainer")
_HEADINGS = ("USER-SUPPLIED VALUES", "COMPUTED VALUES")
_SECONDARY_DEFAULTS = ("cniPlugins", "multus")
"""Parts of ``secondaryNetwork`` that the chart deployed unless told not to, in every release that had them."""

_VFS = "give its SriovNetworkNodePolicies as manifests, or the hosts' rdma_fabric_interfaces their number (vfs)"
_OTHER_OPERATORS = {
    "sriovNetworkOperator": ("the SR-IOV operator is not deployed: VFs are made on the hosts", _VFS),
    "maintenanceOperator": (
        "the maintenance operator is not deployed: rdma.fabric.upgrade drains, reboots and uncordons nodes in turn",
        "install its own chart where nicConfigurationOperator, or anybody else, asks it for nodes",
    ),
}
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_OF_A_SHELL = re.compile(r"""\s*[-"'\u2014]|[^=]*=\s*(["']).*\1\s*$""")
_KEY = re.compile(r"((?:\\.|[^\\.=\[])+)((?:\[\d{1,3}\])*)", re.ASCII)


@dataclass
class HelmInput:
    """What the values ask for: sections of the cluster's policy, with the place of each, and settings.

    ``proxy_place`` is where the proxy among them stands, if there is one.
    """

    sections: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    proxy_place: Place | None = None
    peer_memory: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Values:
    """The merged values; ``owners`` holds the document that last spoke of each top-level key."""

    content: Mapping[str, Any]
    owners: Mapping[str, Place]
    root: Place

    def at(self, name: str) -> Place:
        """Return the place of a top-level key."""
        return self.owners.get(name, self.root).at(name)

    def get(self, name: str) -> Any:
        """Return the value of a top-level key, ``None`` when there is none."""
        return self.content.get(name)


def values_among(documents: Iterable[Document], findings: Findings) -> list[Document]:
    """Return the documents that are values; note manifests among them, and what Helm leaves unread of a file.

    The first line of ``helm get values`` is none of them.
    """
    found: list[Document] = []
    for document in documents:
        place = Place(findings, document)
        of_file = [each for each in found if each.source == document.source and each.lines]
        if isinstance(document.content, Mapping) and {"apiVersion", "kind"} <= set(document.content):
            place.violation("is a manifest, no values of a chart", "give it in rdma_fabric_manifests")
        elif of_file:
            problem = "is a second document, and Helm reads the first of a file alone"
            place.violation(problem, "write both as one, or give each a file of its own")
        elif isinstance(document.content, Mapping):
            values = {key: value for key, value in document.content.items() if key not in _HEADINGS or value}
            found.append(replace(document, content=values))
        else:
            found.append(document)
    return found


def read_values(documents: Iterable[Document], findings: Findings, *, container: bool) -> HelmInput:
    """Read values files and variables; they are merged and a later one wins, as with Helm's ``--values``.

    ``deployCR: false`` makes the chart leave every section unread, and so does this. Without ``deployCR``, which
    commands and guides often lack, the sections that are switched on are what the user wants.
    ``container``: the driver is a container, not packages on the hosts.
    """
    found = HelmInput()
    merged: dict[str, Any] = {}
    owners: dict[str, Place] = {}
    given = list(documents)
    place = Place(findings, Document("helm values", {}))
    switch = _last_switch(given)
    for document in given:
        place = Place(findings, document)
        own = Findings()
        values = (CONTAINER_CHART if container else CHART).read(document.content, Place(own, document))
        findings.violations += own.violations
        findings.notices += [each for each in own.notices if switch is not False or not _is_of_section(each)]
        merged = _merged(_without_nulls(merged, document.content), values)
        owners.update(dict.fromkeys(values, Place(findings, document)))
    values_of_all = _Values(merged, owners, place)
    _read_settings(values_of_all, found)
    _read_operators(values_of_all)
    _read_nic_configuration(values_of_all, found)
    _remark_prefix(values_of_all)
    if switch is False:
        _remark_unread(values_of_all)
        return found
    _read_sections(values_of_all, found, everything=switch is True)
    return found


def merge(documents: Iterable[Document]) -> dict[str, Any]:
    """Return the values that Helm makes of all that is given, unread; documents that are no mapping are left out."""
    merged: dict[str, Any] = {}
    for document in documents:
        if isinstance(document.content, Mapping):
            merged = _merged(merged, document.content)
    return merged


def _last_switch(documents: Sequence[Document]) -> bool | None:
    """Return ``deployCR`` of the last document that has one; None when none has, or the last one takes it back."""
    found = [
        each.content["deployCR"]
        for each in documents
        if isinstance(each.content, Mapping) and "deployCR" in each.content
    ]
    given = [each for each in found if each is None or isinstance(each, bool)]
    return given[-1] if given else None


def _is_of_section(notice: Notice) -> bool:
    return re.split(r"[.\[]", notice.path)[0] in POLICY_SECTIONS


def _remark_unread(values: _Values) -> None:
    unread = [name for name in POLICY_SECTIONS if values.get(name)]
    if unread:
        hint = "set deployCR: true, or give them in a NicClusterPolicy"
        values.at("deployCR").notice(f"is false, so nothing is made of {', '.join(unread)}", hint)


def _without_nulls(below: Mapping[str, Any], above: Any) -> dict[str, Any]:
    """Return values without what a later document sets to null: Helm takes it back, and the chart's default counts."""
    result = dict(below)
    for key, value in above.items() if isinstance(above, Mapping) else ():
        if value is None:
            result.pop(key, None)
        elif isinstance(result.get(key), Mapping):
            result[key] = _without_nulls(result[key], value)
    return result


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        present = result.get(key)
        both = isinstance(value, Mapping) and isinstance(present, Mapping)
        result[key] = _merged(present, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return result


def _read_settings(values: _Values, found: HelmInput) -> None:
    operator = values.get("operator") or {}
    for setting, value in (
        ("nfd", (values.get("nfd") or {}).get("enabled")),
        ("cni_bin_dir", operator.get("cniBinDirectory")),
        ("cni_conf_dir", operator.get("cniNetworkDirectory")),
        ("image_pull_secrets", values.get("imagePullSecrets")),
        ("proxy", {key: text for key, text in (values.get("proxy") or {}).items() if text}),
    ):
        if value is not None and value not in ({}, [], ""):
            found.settings[setting] = value
    found.proxy_place = values.at("proxy")


def _read_operators(values: _Values) -> None:
    for name, (problem, hint) in _OTHER_OPERATORS.items():
        if (values.get(name) or {}).get("enabled"):
            values.at(name).at("enabled").notice(problem, hint)


def _read_nic_configuration(values: _Values, found: HelmInput) -> None:
    """Read the switch of a chart of its own, which ``deployCR`` has no part in, as the section of a policy."""
    name = nic_configuration.SECTION
    if (values.get(name) or {}).get("enabled"):
        parts = ("operator", "configurationDaemon")
        section: dict[str, Any] = {part: {} for part in parts}
        _put(found, name, section, values.at(name))


def _remark_prefix(values: _Values) -> None:
    """Name the prefix of resources that the SR-IOV operator would have had, where it is not ours."""
    chart = values.get("sriov-network-operator")
    operator = chart.get("operator") if isinstance(chart, Mapping) else None
    prefix = operator.get("resourcePrefix") if isinstance(operator, Mapping) else None
    if prefix and prefix != RESOURCE_PREFIX:
        problem = f"is {shown(prefix)}, and resources of SriovNetworkNodePolicies are {RESOURCE_PREFIX}/NAME here"
        hint = f"have pods ask for {RESOURCE_PREFIX}/NAME; networks of the SR-IOV operator's kinds do"
        values.at("sriov-network-operator").at("operator", "resourcePrefix").notice(problem, hint)


def _read_sections(values: _Values, found: HelmInput, everything: bool) -> None:
    for name in ("nodeAffinity", "tolerations"):
        if values.get(name) and everything:
            _put(found, name, values.get(name), values.at(name))
        elif values.get(name):
            values.at(name).notice("has no effect without deployCR: true", "give it in the NicClusterPolicy")
    readers: dict[str, Callable[[Mapping[str, Any], Place], dict[str, Any]]] = {
        "docaTelemetryService": _plain,
        "ibKubernetes": _guids,
        "nicFeatureDiscovery": _plain,
        "nvIpam": _plain,
        "ofedDriver": _plain,
        "devicePlugin": _rdma,
        "rdmaSharedDevicePlugin": _rdma,
        "sriovDevicePlugin": _sriov,
    }
    for name, read in readers.items():
        default = everything and name == "rdmaSharedDevicePlugin" and values.get("devicePlugin") is None
        if _is_deployed(values.get(name), values.at(name), default):
            section = read(values.get(name) or {}, values.at(name))
            _put(found, "rdmaSharedDevicePlugin" if name == "devicePlugin" else name, section, values.at(name))
    if _is_deployed(values.get("nvPeerDriver"), values.at("nvPeerDriver"), False):
        found.peer_memory = _without_chart_keys(values.get("nvPeerDriver"))
    secondary = values.get("secondaryNetwork")
    if secondary is not None or everything:
        parts = _read_secondary(secondary or {}, values.at("secondaryNetwork"), everything)
        if parts:
            _put(found, "secondaryNetwork", parts, values.at("secondaryNetwork"))


def _read_secondary(values: Mapping[str, Any], place: Place, everything: bool) -> dict[str, Any]:
    switch = values.get("deploy")
    if switch is False:
        return {}
    parts = {}
    for name in ("multus", "cniPlugins", "ipoib", "ipamPlugin"):
        default = (everything or switch is True) and name in _SECONDARY_DEFAULTS
        if _is_deployed(values.get(name), place.at(name), default):
            parts[name] = _plain(values.get(name) or {}, place.at(name))
    return parts


def _is_deployed(section: Any, place: Place, default: bool) -> bool:
    switch = section.get("deploy") if isinstance(section, Mapping) else None
    if switch is None and section and not default:
        place.notice("describes a component that is not switched on", "set deploy: true, or remove it")
    return default if switch is None else switch is True


def _put(found: HelmInput, name: str, value: Any, place: Place) -> None:
    found.sections[name] = value
    found.places[name] = place


def _without_chart_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in _CHART_ONLY}


def _plain(values: Mapping[str, Any], _place: Place) -> dict[str, Any]:
    """Read a section that has the policy's own shape; images come from the bill of materials."""
    return {key: value for key, value in _without_chart_keys(values).items() if value not in ("", None)}


def _guids(values: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Read the section of ib-kubernetes, with the GUIDs that the chart gave it."""
    section = {**ib_kubernetes.DEFAULT_RANGE, **_plain(values, place)}
    note(ib_kubernetes.lacking(section), place)
    return section


def _rdma(values: Mapping[str, Any], place: Place) -> dict[str, Any]:
    section = _plain(values, place)
    items = [
        {
            "resourceName": item["name"],
            "rdmaHcaMax": item.get("rdmaHcaMax", 63),
            "selectors": {key: item[key] for key in devplugin.RDMA_SELECTORS if item.get(key)},
        }
        for item in _named(values, place)
    ]
    config = {"configList": items} if items else devplugin.default_rdma_shared()
    return _with_config(section, config, devplugin.check_rdma_shared, place)


def _sriov(values: Mapping[str, Any], place: Place) -> dict[str, Any]:
    section = _plain(values, place)
    items = []
    for item in _named(values, place):
        selectors = {key: value for key, value in item.items() if key != "name" and value}
        named = {"resourcePrefix": "nvidia.com", "resourceName": item["name"]}
        items.append({**named, "selectors": {**selectors, "isRdma": True}})
    config = {"resourceList": items} if items else devplugin.default_sriov()
    return _with_config(section, config, devplugin.check_sriov, place)


def _named(values: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    if values.get("config") and values.get("resources"):
        place.at("resources").notice("has no effect here", "config is given as well and takes precedence")
    return [item for item in values.get("resources") or [] if "name" in item]


def _with_config(
    section: dict[str, Any], config: dict[str, Any], check: Callable[[Any], devplugin.Verdict], place: Place
) -> dict[str, Any]:
    """Add the configuration that the chart made of ``resources``, unless one is given as such."""
    if section.get("config"):
        return section
    checked, problems = check(config)
    for problem in problems:
        path = re.sub(r"^(?:configList|resourceList)", "resources", problem.path)
        place.inside(path).violation(problem.problem, problem.hint)
    return {**section, "config": devplugin.config_text(checked if not problems else config)}


def values_of_settings(settings: Iterable[str], findings: Findings, source: str) -> list[Document]:
    """Return the values of ``--set`` arguments (``a.b=true,c[0]=x``) as one document.

    As with Helm: ``true``, ``false``, ``null`` and whole numbers are values, everything else is text; a backslash takes
    the meaning from a dot or comma; ``{a,b}`` is a list.
    """
    values: dict[str, Any] = {}
    place = Place(findings, Document(source, None))
    given = list(settings)
    for index, setting in enumerate(given):
        if _OF_A_SHELL.match(setting):
            hint = "write key.path=value, without --set and without the quotes that a shell takes away"
            place.at(index).violation(f"is written for a shell: {setting[:80]!r}", hint)
            continue
        for assignment in _split(setting, ","):
            key, equals, value = assignment.partition("=")
            path = _set_path(key)
            if not equals or path is None or not _assign(values, path, _set_value(value)):
                place.at(index).violation(f"is not an assignment: {assignment[:80]!r}", "write key.path=value")
    return [Document(source, values)] if given else []


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator outside of braces that no backslash precedes."""
    parts, depth, escaped, current = [], 0, False, ""
    for char in text:
        if char == separator and not depth and not escaped:
            parts.append(current)
            current = ""
            continue
        depth += (char == "{") - (char == "}") if not escaped else 0
        escaped = char == "\\" and not escaped
        current += char
    return [*parts, current]


def _set_path(key: str) -> list[str | int] | None:
    path: list[str | int] = []
    for part in _split(key.strip(), "."):
        match = _KEY.fullmatch(part)
        if match is None:
            return None
        path.append(re.sub(r"\\(.)", r"\1", match[1]))
        path += [int(index) for index in re.findall(r"\[(\d+)\]", match[2])]
    return path


def _set_value(text: str) -> Any:
    if text.startswith("{") and text.endswith("}"):
        return [_set_value(item) for item in _split(text[1:-1], ",") if item]
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    return int(text) if _INTEGER.fullmatch(text) else re.sub(r"\\(.)", r"\1", text)


def _assign(values: dict[str, Any], path: list[str | int], value: Any) -> bool:
    """Set one value, making what leads to it; return whether the path fits what is there."""
    owner: Any = values
    for key, following in zip(path, [*path[1:], None]):
        if isinstance(key, int) and isinstance(owner, list) and key <= len(owner):
            owner.extend([None] * (key + 1 - len(owner)))
        elif isinstance(key, int) or not isinstance(owner, dict):
            return False
        if following is None:
            owner[key] = value
            return True
        present = owner[key] if isinstance(key, int) else owner.get(key)
        if present is None:
            owner[key] = [] if isinstance(following, int) else {}
        owner = owner[key]
    return False
