# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all components of one policy share: namespace, images, scheduling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from ..checks.driver_container import WAIT_LABEL, in_container
from ..common.distributions import KUBELET, USUAL
from ..common.features import NIC_LABEL
from ..common.images import effective_version, image_reference, pull_secrets
from ..common.names import LONGEST_LABEL
from ..common.objects import Object, workload
from ..common.openshift import SETTING
from ..common.quantities import canonical_quantity
from ..common.taints import toleration_of

GPU_TOLERATION: Object = {"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"}
CRITICAL = "system-node-critical"
_CONTROL_PLANE = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
CONTROL_PLANE_TOLERATIONS: list[Object] = [
    {"effect": "NoSchedule", "key": key, "operator": "Exists"} for key in _CONTROL_PLANE
]
_ON_NEW_NODES = ("DaemonSet", "Deployment")


@dataclass(frozen=True)
class Rollout:
    """One policy (cluster-wide, or of a group of nodes) with the settings of the run.

    ``suffix`` is empty for the cluster policy and the policy's name for a NicNodePolicy. ``spec`` is the policy's spec.
    ``any_nic``: the node selector alone says which nodes are meant, whoever made their NICs.
    """

    namespace: str
    spec: dict[str, Any]
    settings: dict[str, Any]
    suffix: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    any_nic: bool = False

    @property
    def cni_bin_dir(self) -> str:
        """Folder of the node where the container runtime looks for CNI programs."""
        return str(self.settings.get("cni_bin_dir") or USUAL["cni_bin_dir"])

    @property
    def cni_conf_dir(self) -> str:
        """Folder of the node where the container runtime looks for CNI configurations."""
        return str(self.settings.get("cni_conf_dir") or USUAL["cni_conf_dir"])

    @property
    def kubelet_dir(self) -> str:
        """Folder of the node that is the kubelet's own."""
        return str(self.settings.get("kubelet_dir") or KUBELET).rstrip("/")

    @property
    def openshift(self) -> bool:
        """Whether the cluster is OpenShift."""
        return bool(self.settings.get(SETTING))

    def section(self, name: str) -> Object | None:
        """Return a section of the policy by dotted name; None when the policy does not have it."""
        node: Any = self.spec
        for step in name.split("."):
            node = node.get(step) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else None

    def objects(self, components: Mapping[str, Callable[[Rollout, Object], list[Object]]]) -> list[Object]:
        """Return the objects of the components whose sections, by dotted names, the policy has."""
        asked = [(make, self.section(name)) for name, make in components.items()]
        return [each for make, section in asked if section is not None for each in make(self, section)]

    def image(self, component: str, section: Object) -> str:
        """Return the image of a component."""
        return image_reference(component, section, self._global(), self.settings)

    def version(self, component: str, section: Object) -> str:
        """Return the version of a component's image."""
        return effective_version(component, section, self._global(), self.settings)

    def named(self, name: str) -> str:
        """Return the name of a ConfigMap or pod label value of this policy."""
        return f"{name}-{self.suffix}" if self.suffix else name

    def workload_name(self, name: str, ending: str = "") -> str:
        """Return the name of a DaemonSet of this policy, which is a label of its pods, too.

        It is that of the vendor's operator up to 26.7 (``nameSuffix`` of ``pkg/state/state_skel.go``), so that what it
        has made is found and taken over: two device plugins of one resource take it from each other. Where it is too
        long for a label, with which the operator makes no pods, the policy's name is hashed, as it does after 26.7.
        """
        whole = f"{self.named(name)}{ending}"
        return whole if len(whole) <= LONGEST_LABEL else f"{name}-{name_hash(self.suffix)}{ending}"

    def pod(self, section: Object, *, selective: bool = False, after_driver: bool = False, **fields: Any) -> Object:
        """Return a DaemonSet's pod spec with everything the policy says about placing and pulling it.

        ``selective``: only nodes that have a NIC of the vendor. ``after_driver``: only nodes whose driver is loaded,
        which the label ``network.nvidia.com/operator.mofed.wait=false`` says, where containers bring it. Else the
        driver is installed on the host before anything is pushed, and nobody sets that label.
        """
        vendor = {NIC_LABEL: "true"} if selective and not self.any_nic else {}
        if after_driver and in_container(self.settings) and not self.any_nic:
            vendor[WAIT_LABEL] = "false"
        selector = {**vendor, **self.node_selector}
        affinity = self.spec.get("nodeAffinity")
        return {
            "affinity": {"nodeAffinity": affinity} if affinity else {},
            "imagePullSecrets": pull_secrets(section, self._global(), self.settings),
            "nodeSelector": selector,
            "tolerations": merge_tolerations(self.spec.get("tolerations") or [], [GPU_TOLERATION]),
            **fields,
        }

    def container(
        self, name: str, component: str, section: Object, default: Object | None = None, **fields: Any
    ) -> Object:
        """Return a container with the image and the resources, else ``default``, that a component's section names."""
        return {
            "name": name,
            "image": self.image(component, section),
            "imagePullPolicy": "IfNotPresent",
            "resources": resources_of(section, name, default),
            **fields,
        }

    def workload(self, kind: str, name: str, component: str, **parts: Any) -> Object:
        """Return a DaemonSet or Deployment of a component in the namespace of the fabric."""
        return workload(kind, name, namespace=self.namespace, component=component, **parts)

    def near_the_control_plane(self) -> Object:
        """Return the node affinity of a Deployment: it prefers the control plane, and follows the policy."""
        prefer = [
            {"preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [""]}]}, "weight": 1}
            for key in _CONTROL_PLANE
        ]
        own = {"preferredDuringSchedulingIgnoredDuringExecution": prefer}
        return merge_node_affinity(own, self.spec.get("deploymentNodeAffinity") or {})

    def _global(self) -> Object:
        return self.spec.get("global") or {}


def resources_of(section: Object, container: str, default: Object | None = None) -> Object:
    """Return the resources of a container: the section's ``containerResources`` entry of its name, else ``default``."""
    for entry in section.get("containerResources") or []:
        if entry.get("name") == container:
            return {
                kind: {name: canonical_quantity(amount) for name, amount in (entry.get(kind) or {}).items()}
                for kind in ("limits", "requests")
            }
    return default or {}


def probe(path: str, delay: int, period: int) -> Object:
    """Return how the health of a controller is asked."""
    return {"httpGet": {"path": path, "port": 8081}, "initialDelaySeconds": delay, "periodSeconds": period}


def merge_tolerations(*groups: list[Object]) -> list[Object]:
    """Return the tolerations of all groups in their order, each once."""
    merged: list[Object] = []
    for group in groups:
        merged += [toleration for toleration in group if toleration not in merged]
    return merged


def tolerating(objects: list[Object], text: str) -> list[Object]:
    """Return the objects with workloads that run on nodes with this taint too; without text, as they are.

    Deployments as well: where every node is new, none of them would run elsewhere, and nothing would be verified.
    """
    if not text:
        return objects
    return [_tolerating(each, [toleration_of(text)]) if each["kind"] in _ON_NEW_NODES else each for each in objects]


def _tolerating(workload: Object, added: list[Object]) -> Object:
    template = workload["spec"]["template"]
    tolerations = merge_tolerations(template["spec"].get("tolerations") or [], added)
    pod = {**template["spec"], "tolerations": tolerations}
    return {**workload, "spec": {**workload["spec"], "template": {**template, "spec": pod}}}


def merge_node_affinity(base: Object, added: Object) -> Object:
    """Return a node affinity that demands what both demand and prefers what either prefers.

    Terms of one affinity are alternatives, so what both demand is every combination of their terms.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = [((each.get(required) or {}).get("nodeSelectorTerms") or []) for each in (base, added)]
    if terms[0] and terms[1]:
        combined = [
            {key: [*(one.get(key) or []), *(two.get(key) or [])] for key in ("matchExpressions", "matchFields")}
            for one in terms[0]
            for two in terms[1]
        ]
    else:
        combined = terms[0] or terms[1]
    preferences = [*(base.get(preferred) or []), *(added.get(preferred) or [])]
    return {required: {"nodeSelectorTerms": combined} if combined else {}, preferred: preferences}


def name_hash(name: str) -> str:
    """Return the vendor's short hash of a policy's name: FNV-1a (32 bit) in decimal, in Kubernetes' safe alphabet."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) % 2**32
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[ord(digit) % len(alphabet)] for digit in str(value))
