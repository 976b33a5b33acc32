# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every resource of the input, checked on its own and put where it belongs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import described, mismatch, shown

from ..common.findings import Document, Findings, Place
from ..common.jsontext import half_characters
from . import attachments, functions, policy
from .attachments import Network
from .functions import FunctionPolicy, PoolConfig, completed
from .models import NETWORK_MODELS, POLICY_NAME
from .models_sriov import NODE_POLICY, OPERATOR_CONFIG, POOL_CONFIG, SRIOV_POLICY_MODELS
from .policy import Policy
from .pools import Pool, read_pool
from .resources import ATTACHMENT_KIND, Resource, read_document, read_variable
from .settings import VARIABLES

MAX_DEPTH = 64
MAX_VALUES = 200_000

NAMED_VARIABLES = {
    "nic_node_policies": "NicNodePolicy",
    "macvlan_networks": "MacvlanNetwork",
    "host_device_networks": "HostDeviceNetwork",
    "ipoib_networks": "IPoIBNetwork",
    "sriov_networks": "SriovNetwork",
    "sriov_ib_networks": "SriovIBNetwork",
    "ovs_networks": "OVSNetwork",
    "sriov_node_policies": "SriovNetworkNodePolicy",
    "sriov_pool_configs": "SriovNetworkPoolConfig",
    "ip_pools": "IPPool",
    "cidr_pools": "CIDRPool",
}
_EXPECTED_NAMES = "a mapping of names"


@dataclass
class Input:
    """What was read so far, by what it is."""

    policies: list[Policy] = field(default_factory=list)
    function_policies: list[FunctionPolicy] = field(default_factory=list)
    pool_configs: list[PoolConfig] = field(default_factory=list)
    operator_config: OperatorConfig | None = None
    node_states: list[dict[str, Any]] = field(default_factory=list)
    networks: list[Network] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    objects: list[Resource] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    identities: dict[tuple[str, ...], Resource] = field(default_factory=dict)


def read(documents: Sequence[Document], variables: Mapping[str, Any], findings: Findings, *, container: bool) -> Input:
    """Check every resource on its own and sort them; ``container``: the driver is one, not packages on the hosts."""
    given = Input()
    for resource in _resources(documents, variables, findings):
        _note_repetition(resource, given)
        _take(resource, given, container=container)
        given.resources.append(resource)
    for name, item, place in _named("network_attachments", variables.get("network_attachments"), findings):
        given.networks.append(attachments.read_attachment_variable(name, item, place))
    given.function_policies = configured(given.function_policies, given.operator_config)
    return given


def _resources(documents: Sequence[Document], variables: Mapping[str, Any], findings: Findings) -> Iterable[Resource]:
    for document in documents:
        yield from read_document(document, findings)
    spec = variables.get("nic_cluster_policy")
    if spec is not None:
        place = place_of("nic_cluster_policy", spec, findings)
        if fits(place.document, findings):
            yield from read_variable("NicClusterPolicy", POLICY_NAME, spec, place)
    for variable, kind in NAMED_VARIABLES.items():
        for name, spec, place in _named(variable, variables.get(variable), findings):
            yield from read_variable(kind, name, spec, place)


def _named(variable: str, value: Any, findings: Findings) -> Iterable[tuple[str, Any, Place]]:
    """Yield (name, value, place) of a variable that maps names to values."""
    if value is None:
        return
    place = place_of(variable, value, findings)
    if not fits(place.document, findings):
        return
    if not isinstance(value, Mapping):
        place.violation(mismatch(value, _EXPECTED_NAMES), "write each name with its spec below it")
        return
    for name, item in value.items():
        if isinstance(name, str):
            yield name, item, place.at(name)
        else:
            place.violation(f"has the name {described(name)}, which is not text", "quote it")


def place_of(name: str, value: Any, findings: Findings) -> Place:
    """Return the place of a whole variable of the role, by its name without the prefix."""
    return Place(findings, Document(f"{VARIABLES}{name}", value))


def fits(document: Document, findings: Findings) -> bool:
    """Return whether a document is of a size that can be worked on, and text that can be sent; note it when not."""
    level, depth, count = [document.content], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_DEPTH or count > MAX_VALUES:
            problem = (
                f"holds more than {MAX_VALUES} values" if count > MAX_VALUES else f"is deeper than {MAX_DEPTH} levels"
            )
            Place(findings, document).violation(problem, "no fabric needs that; split or flatten it")
            return False
        level = [item for value in level for item in _members(value)]
    halves = half_characters(document.content)
    Place(findings, document).violations(halves)
    return not halves


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _take(resource: Resource, given: Input, *, container: bool) -> None:
    """Check one resource on its own and put it where it belongs."""
    if resource.kind in ("NicClusterPolicy", "NicNodePolicy"):
        given.policies.append(policy.read_policy(resource, container=container))
    elif resource.kind == NODE_POLICY.name:
        asked = functions.read_function_policy(resource)
        given.function_policies += [asked] if asked else []
    elif resource.kind == POOL_CONFIG.name:
        given.pool_configs.append(functions.read_pool_config(resource))
    elif resource.kind == OPERATOR_CONFIG.name:
        given.operator_config = read_operator_config(resource) or given.operator_config
    elif resource.is_node_state:
        given.node_states.append(functions.read_node_state(resource))
    elif resource.is_pool:
        given.pools.append(read_pool(resource))
    elif resource.kind in NETWORK_MODELS:
        given.networks.append(attachments.read_network(resource))
    elif resource.kind == ATTACHMENT_KIND:
        given.networks.append(attachments.read_attachment(resource))
    else:
        given.objects.append(resource)


def _note_repetition(resource: Resource, given: Input) -> None:
    # The SR-IOV operator reads what is asked of nodes in one namespace, its own.
    namespace = "" if resource.kind in SRIOV_POLICY_MODELS else resource.namespace
    identity = (str(resource.content.get("apiVersion")), resource.kind, namespace, resource.name)
    # Networks are compared by the attachment they make, pools by the namespace nv-ipam reads, and the cluster's policy
    # is one whatever its name.
    if resource.kind in ("NicClusterPolicy", ATTACHMENT_KIND) or resource.is_pool or not resource.name:
        return
    first = given.identities.setdefault(identity, resource)
    if first is not resource:
        resource.place.violation(f"{resource.kind} {resource.name} is given twice", f"{first.source} has it already")


# SriovOperatorConfig in the input: the nodes that policies are about, and how their device plugins start.
#
# Source: the controllers of the SR-IOV network operator.
SELECTOR = "configDaemonNodeSelector"
USE_CDI = "useCDI"
WEBHOOK = "enableOperatorWebhook"
_KNOWN_NAME = "default"
_OLD_LABELS = {"beta.kubernetes.io/os": "kubernetes.io/os", "beta.kubernetes.io/arch": "kubernetes.io/arch"}
_SET_BY_OPERATORS = ("network.nvidia.com/operator.mofed.wait", "network.nvidia.com/operator.nic-configuration.wait")


@dataclass(frozen=True)
class OperatorConfig:
    """What a SriovOperatorConfig means here. ``place`` is where its spec stands."""

    spec: dict[str, Any]
    place: Place

    @property
    def selector(self) -> dict[str, str]:
        """Labels that every node of a policy has, by the names that nodes and hosts have today."""
        given = self.spec.get(SELECTOR) or {}
        return {_OLD_LABELS.get(key, key): value for key, value in given.items() if key not in _SET_BY_OPERATORS}

    @property
    def has_webhook(self) -> bool:
        """Whether the operator's webhook judges and completes policies; it does unless it is switched off."""
        return self.spec.get(WEBHOOK) is not False

    @property
    def plugin(self) -> dict[str, Any]:
        """Fields of the section of each policy's device plugin."""
        return {"useCdi": True} if self.spec.get(USE_CDI) else {}


def read_operator_config(resource: Resource) -> OperatorConfig | None:
    """Check a SriovOperatorConfig; None for one of another name, which the operator passes over as well."""
    place = resource.spec_place
    spec = OPERATOR_CONFIG.read(resource.spec, place)
    if resource.name != _KNOWN_NAME:
        place.notice("has no effect here", f"the operator passes over every name but {_KNOWN_NAME} as well")
        return None
    for key in spec.get(SELECTOR) or {}:
        if key in _SET_BY_OPERATORS:
            hint = "drivers and firmware are on a host before anything of its node is changed"
            place.at(SELECTOR, key).notice("has no effect here: only an operator puts it on nodes", hint)
    return OperatorConfig(spec, place)


def configured(policies: Sequence[FunctionPolicy], config: OperatorConfig | None) -> list[FunctionPolicy]:
    """Return the policies as they are stored, on the nodes that the configuration selects; refuse one about none."""
    policies = completed(policies, webhook=config is None or config.has_webhook)
    if config is None:
        return policies
    if not policies:
        for name in (SELECTOR, USE_CDI, WEBHOOK):
            if config.spec.get(name):
                config.place.at(name).notice("has no effect here", "the input has no SriovNetworkNodePolicy")
    return [_narrowed(policy, config) for policy in policies]


def _narrowed(policy: FunctionPolicy, config: OperatorConfig) -> FunctionPolicy:
    own = policy.spec.get("nodeSelector") or {}
    for key, value in config.selector.items():
        if own.get(key, value) != value:
            problem = f"selects no node: SriovOperatorConfig {_KNOWN_NAME} asks for {key}={shown(value)}"
            policy.place.at("nodeSelector", key).violation(
                problem, f"drop one of them ({config.place.document.source})"
            )
    spec = {**policy.spec, "nodeSelector": {**config.selector, **own}}
    return replace(policy, entry={**policy.entry, "spec": spec})
