# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the cluster's own network go over a rail? Pure.

Calico's calico-node looks for the node's address at its start and each minute. By default (first-found) it takes that
of the interface with the highest number, which rails with addresses have, all the more once their driver or e-switch
made them anew (projectcalico/calico, node/pkg/lifecycle/startup: ``GetInterfaces`` goes backwards). It puts it into an
annotation; routes and tunnels of other nodes lead there.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

_ADDRESSES = ("projectcalico.org/IPv4Address", "projectcalico.org/IPv6Address")
_OF_NODES = ("InternalIP", "ExternalIP")


def say_pod_network(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a notice of the nodes to which Calico sends the traffic of pods by an address that is not the node's."""
    found = []
    for node in nodes:
        listed = (node.get("status") or {}).get("addresses") or []
        own = [str(each["address"]) for each in listed if each.get("type") in _OF_NODES]
        annotations = node["metadata"].get("annotations") or {}
        for taken in (str(annotations.get(key) or "").partition("/")[0] for key in _ADDRESSES):
            of_family = [each for each in own if (":" in each) == (":" in taken)]
            if taken and of_family and taken not in of_family:
                found.append(f"{node['metadata']['name']} ({taken})")
    if not found:
        return []
    return [
        f"Calico reaches nodes by an address that is not the node's own: {named(found)}: traffic between pods goes "
        "over a rail then, or nowhere (next, unless that is meant: nodeAddressAutodetectionV4: {kubernetes: "
        "NodeInternalIP} in calicoNetwork of its Installation, without one IP_AUTODETECTION_METHOD="
        "kubernetes-internal-ip of the DaemonSet calico-node)"
    ]
