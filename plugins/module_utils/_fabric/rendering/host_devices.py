# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rendered objects give to pods of the hosts' own: functions by device plugins, devices by attachments. Pure."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import selects
from ansible_collections.rdma.fabric.plugins.module_utils._needs import SHARED, SRIOV, Release

from ..checks import devplugin, nad
from ..checks.devplugin_ports import PORTS_BY_NAME_UNTIL, Function, Selectors, unmet
from ..checks.driver_container import WAIT_LABEL
from ..common.images import older_than, split_reference, version_numbers
from ..common.objects import items_of, mapping_of, pod_of, texts_of
from .components.device_plugins import CONFIG_KEY, DEVICE_PLUGINS
from .render import cluster_rollout, objects_of, of_node_policies, render

Body = Mapping[str, Any]

_NET_DEVICE = "netDevice"
_COMPONENT = "app.kubernetes.io/component"


class Offer(NamedTuple):
    """One resource of a device plugin: its sets of selectors, and the pod of the plugin with its nodes.

    ``plugin`` is the component, ``release`` its numbers, None for a current one. ``pod`` is empty where its
    nodes are not known: of a configuration that is given without what reads it.
    """

    plugin: str
    release: Release | None
    resource: str
    selectors: tuple[Selectors, ...]
    pod: Body
    ports_by_name: bool

    @property
    def gives_rdma(self) -> bool:
        """Whether pods get the RDMA device of a function that is theirs alone."""
        return self.plugin == SRIOV and any(each.get("isRdma") for each in self.selectors)

    def runs_on(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the plugin runs on a node with these labels, once the container of its driver is ready."""
        return selects(self.pod, {"metadata": {"name": name, "labels": {**labels, WAIT_LABEL: "false"}}})

    def has(self, function: Function) -> bool:
        """Tell whether pods may get a function, unless another resource is the first that takes it."""
        if self.plugin == SRIOV and function.is_held_back:
            return False
        return any(not unmet(each, function, ports_by_name=self.ports_by_name) for each in self.selectors)

    def unmet(self, function: Function) -> list[str]:
        """Return what keeps a function from the set of selectors that it is nearest to, nothing where one takes it."""
        return min((unmet(each, function, ports_by_name=self.ports_by_name) for each in self.selectors), key=len)


class PodInterface(NamedTuple):
    """An interface of the host that an attachment gives to a pod: ``key`` names it by ``value``.

    ``device``, ``hwaddr`` and ``pciBusID`` are of the CNI plugin host-device. ``master`` is of macvlan in the mode
    passthru, which takes every frame that its master receives (macvlan_handle_frame in drivers/net/macvlan.c); without
    a value that is the interface of the default route (plugins/main/macvlan of containernetworking/plugins).
    """

    network: str
    key: str
    value: str


def giving_objects(spec: Mapping[str, Any]) -> list[Body]:
    """Return the objects of a FabricSpec, with a chart those as well by which its operator gives devices to pods.

    Its device plugins run where ours do, with the same configuration (the operator was recorded: docs/differences.md).
    Those of the SR-IOV operator offer functions alone.
    """
    found: list[Body] = [*objects_of(render(dict(spec)))]
    if spec.get("chart"):
        cluster = cluster_rollout(dict(spec))
        for rollout in (cluster, *of_node_policies(dict(spec), cluster)):
            found += rollout.objects(DEVICE_PLUGINS)
        found += map(nad.network_attachment, spec.get("networks") or [])
    return found


def offers_of(objects: Sequence[Body]) -> list[Offer]:
    """Return what device plugins among rendered objects offer of network functions."""
    configs = _configurations(objects)
    found = []
    for body in objects:
        plugin = _component_of(body)
        if not plugin:
            continue
        pod = body["spec"]["template"]["spec"]
        version = split_reference(pod["containers"][0]["image"])["version"]
        for volume in pod["volumes"]:
            text = configs.get((body["metadata"].get("namespace"), (volume.get("configMap") or {}).get("name")))
            found += [] if text is None else _resources(plugin, text, pod, version)
    return found


def given_offers(objects: Sequence[Body]) -> list[Offer]:
    """Return what ConfigMaps of device plugins that are given as such offer, by the DaemonSets that mount them."""
    readers: dict[Any, Body] = {}
    for body in objects:
        if body["kind"] == "DaemonSet":
            for _index, volume in items_of(pod_of(dict(body)), "volumes"):
                name = mapping_of(volume.get("configMap")).get("name")
                readers.setdefault((body["metadata"].get("namespace"), name), body)
    found = []
    for (namespace, name), text in _configurations(objects).items():
        reader = readers.get((namespace, name))
        kind = devplugin.kind_of(name, text)
        if kind and not (reader and _component_of(reader)):
            pod = pod_of(dict(reader or {})) or {}
            images = [str(each.get("image") or "") for _index, each in items_of(pod, "containers")]
            version = split_reference(images[0])["version"] if images else ""
            placed = {"nodeSelector": texts_of(pod, "nodeSelector")} if reader and not pod.get("affinity") else {}
            found += _resources(SRIOV if kind == "sriov" else SHARED, text, placed, version)
    return found


def _component_of(body: Body) -> str:
    """Return which device plugin a DaemonSet of ours is, empty for any other object."""
    label = mapping_of(mapping_of(body.get("metadata")).get("labels")).get(_COMPONENT)
    return str(label) if body.get("kind") == "DaemonSet" and label in (SHARED, SRIOV) else ""


def _configurations(objects: Sequence[Body]) -> dict[tuple[Any, Any], str]:
    """Return the configurations in ConfigMaps among objects, by namespace and name."""
    return {
        (each["metadata"].get("namespace"), each["metadata"]["name"]): each["data"][CONFIG_KEY]
        for each in objects
        if each["kind"] == "ConfigMap" and isinstance(mapping_of(each.get("data")).get(CONFIG_KEY), str)
    }


def _resources(plugin: str, text: str, pod: Body, version: str) -> list[Offer]:
    kind = "sriov" if plugin == SRIOV else "rdma_shared"
    config, problems = devplugin.CHECKS[kind](text)
    if problems:
        return []
    items = config["resourceList" if plugin == SRIOV else "configList"]
    by_name, release = older_than(version, PORTS_BY_NAME_UNTIL), version_numbers(version)
    return [
        Offer(plugin, release, name, _selectors(item, plugin), pod, by_name)
        for name, item in zip(devplugin.resource_names(kind, config), items)
        if (item.get("deviceType") or _NET_DEVICE) == _NET_DEVICE
    ]


def _selectors(item: Body, plugin: str) -> tuple[Selectors, ...]:
    if plugin == SRIOV:
        return tuple(each for _path, each in devplugin.selector_groups("", item["selectors"]))
    # It takes what has an RDMA device alone; the retired ``devices`` are names of interfaces.
    return ({**(item.get("selectors") or {"ifNames": item.get("devices") or []}), "isRdma": True},)


def given_by(objects: Sequence[Body]) -> list[PodInterface]:
    """Return the interfaces of hosts that attachments among rendered objects give to pods."""
    return [found for body in objects if body["kind"] == nad.KIND for found in _named(body)]


def _named(body: Body) -> Iterator[PodInterface]:
    network = f"{body['metadata'].get('namespace') or 'default'}/{body['metadata']['name']}"
    for plugin in nad.plugins_in((body.get("spec") or {}).get("config") or ""):
        if plugin.get("type") == "macvlan" and plugin.get("mode") == "passthru":
            yield PodInterface(network, "master", str(plugin.get("master") or ""))
        for key in ("device", "hwaddr", "pciBusID") if plugin.get("type") == "host-device" else ():
            if isinstance(plugin.get(key), str) and plugin[key]:
                yield PodInterface(network, key, plugin[key])
