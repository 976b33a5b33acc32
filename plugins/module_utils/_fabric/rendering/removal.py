# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What objects that are to be removed offer to pods, and what they leave on nodes. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, NamedTuple

from ..checks import devplugin, nad
from ..common.images import older_than, split_reference
from .components import multus
from .components.device_plugins import CONFIG_KEY

Body = Mapping[str, Any]

_CLEANS_UP = (4, 1, 0)
_POLICIES = ("NicClusterPolicy", "NicNodePolicy")
_PLUGIN_SECTIONS = ("rdmaSharedDevicePlugin", "sriovDevicePlugin")


class Offered(NamedTuple):
    """The networks (``namespace/name``) and the extended resources that objects offer to pods."""

    networks: frozenset[str]
    resources: frozenset[str]


def offered_by(bodies: Iterable[Body]) -> Offered:
    """Return what live objects offer.

    That are attachments, configurations of device plugins by what they hold, and what an operator makes of networks and
    policies.
    """
    networks: set[str] = set()
    resources: set[str] = set()
    for body in bodies:
        metadata = body["metadata"]
        if body["kind"] == nad.KIND:
            networks.add(f"{metadata.get('namespace') or 'default'}/{metadata['name']}")
        elif body["kind"] in nad.NETWORK_KINDS:
            network = {"spec": body.get("spec") or {}, "namespace": metadata.get("namespace")}
            networks.add(f"{nad.namespace_of(network)}/{metadata['name']}")
        for text in _configurations(body):
            for kind, check in devplugin.CHECKS.items():
                config, problems = check(text)
                resources.update([] if problems else devplugin.resource_names(kind, config))
    return Offered(frozenset(networks), frozenset(resources))


def _configurations(body: Body) -> Iterator[str]:
    """Yield the configurations of device plugins that an object holds, as text."""
    if body["kind"] == "ConfigMap" and CONFIG_KEY in (body.get("data") or {}):
        yield body["data"][CONFIG_KEY]
    elif body["kind"] in _POLICIES:
        for section in _PLUGIN_SECTIONS:
            config = ((body.get("spec") or {}).get(section) or {}).get("config")
            if isinstance(config, str):
                yield config


def left_on_nodes(bodies: Iterable[Body]) -> list[str]:
    """Return what the pods of removed workloads leave on their nodes, with the next step."""
    return [
        _left_by_multus(body)
        for body in bodies
        if (body["kind"], body["metadata"]["name"]) == ("DaemonSet", multus.DAEMON_SET)
    ]


def _left_by_multus(body: Body) -> str:
    """Return what Multus leaves.

    From 4.1.0 on its entrypoint removes its configuration when it ends (``--cleanup-config-on-exit``;
    cleanupMultusConf of cmd/thin_entrypoint, 4.1.0 to 4.3.0), so that the next one in the folder counts again. Older
    ones only use that option to renew the token (main of cmd/thin_entrypoint 4.0.2, images/entrypoint.sh 3.9.3).
    """
    pod = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
    paths = {volume.get("name"): (volume.get("hostPath") or {}).get("path") for volume in pod.get("volumes") or []}
    place = str(paths.get(multus.CONF_VOLUME) or "/etc/cni/net.d").rstrip("/")
    images = [str(container.get("image") or "") for container in pod.get("containers") or []]
    stays = any(older_than(split_reference(image)["version"], _CLEANS_UP) for image in images)
    rest = f"{place}/multus.d and the programs in the CNI folder stay, and are used by nothing then"
    if stays:
        return (
            f"this release of Multus leaves {place}/{multus.CONFIG_FILE} on every node, and no new pod with a network "
            f"of its own starts there until the file is removed: remove it on each node; {rest}"
        )
    return (
        f"Multus takes {place}/{multus.CONFIG_FILE} off each node as it ends. Where it was killed or the node was down "
        f"the file stays, and no new pod with a network of its own starts there until it is removed; {rest}"
    )
