# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that make a Kubernetes node of a guest, and those that its control plane starts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Sequence

from ..audit import ADMIN_USER
from ..control_plane import ADMINISTRATORS
from ..pki import Authority, kubeconfig, write_kubeconfig, write_private
from ..programs import Programs
from .cluster_server import AUTHORITY, PROGRAMS
from .layout import API_PORT, MANAGEMENT_HOST, REGISTRY_PORT, SERVICE_ADDRESS, Guest, pod_subnet
from .recipe import FILES

NODES_GROUP = "system:nodes"  # with the user system:node:NAME: what the node authorizer goes by
# Files of FILES that a node needs -> where they go on its configuration disk.
NODE_FILES = {
    "containerd.toml": "etc/containerd/config.toml",
    "kubelet.service": "etc/systemd/system/kubelet.service",
    "kubelet.yaml": "etc/kubernetes/kubelet.yaml",
    "nfd-features": "etc/kubernetes/node-feature-discovery/features.d/rdma-lab",
    "rdma_overlay.py": "rdma_overlay.py",
}
INTERPRETER = "#!/usr/bin/python3 -IS\n"  # isolated and without site packages: it starts in half the time


def primary_network(guest: Guest) -> dict[str, object]:
    """Give the CNI configuration of the pods' first interface: a pair of veths, an address of the guest's subnet."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": pod_subnet(guest)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": "primary", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}


def registry_hosts() -> str:
    """Give containerd's ``hosts.toml`` by which every registry is the lab's."""
    place = f"http://{MANAGEMENT_HOST}:{REGISTRY_PORT}"
    return f'server = "{place}"\n\n[host."{place}"]\n  capabilities = ["pull", "resolve"]\n'


def service_rules() -> str:
    """Give the packet filter's rules that lead the API server's address inside the cluster to the API server.

    A stand-in for kube-proxy, which would do this and more for every service.
    """
    rule = f"ip daddr {SERVICE_ADDRESS} tcp dport 443 dnat to {MANAGEMENT_HOST}:{API_PORT}"
    return (
        "table ip rdma-lab {\n"
        f"    chain prerouting {{\n        type nat hook prerouting priority dstnat;\n        {rule}\n    }}\n"
        f"    chain output {{\n        type nat hook output priority -100;\n        {rule}\n    }}\n"
        "}\n"
    )


def pod_routes(guest: Guest, guests: Sequence[Guest]) -> str:
    """Give the part of the management network's configuration that leads to the other guests' pods."""
    return "".join(
        f"[Route]\nDestination={pod_subnet(other)}\nGateway={other.address}\n\n"
        for other in guests
        if other.number != guest.number
    )


def node_files(guest: Guest, guests: Sequence[Guest], authority: Authority) -> dict[str, str]:
    """Give what a guest's configuration disk holds for the cluster: path below its root -> text."""
    ca = authority.pair.certificate
    client = authority.client(f"system:node:{guest.name}", [NODES_GROUP])
    access = kubeconfig(f"https://{MANAGEMENT_HOST}:{API_PORT}", ca, client)
    return {
        **{path: (FILES / name).read_text(encoding="utf-8") for name, path in NODE_FILES.items()},
        "rxe-netns": INTERPRETER + (FILES / "rxe_netns.py").read_text(encoding="utf-8"),
        "etc/containerd/certs.d/_default/hosts.toml": registry_hosts(),
        "etc/cni/net.d/10-primary.conflist": json.dumps(primary_network(guest)),
        "etc/kubernetes/ca.crt": ca.decode("ascii"),
        "etc/kubernetes/kubeconfig": json.dumps(access),
        "etc/rdma-lab/node": f"NODE_NAME={guest.name}\nNODE_ADDRESS={guest.address}\n",
        "etc/rdma-lab/service.nft": service_rules(),
        "etc/systemd/network/20-mgmt.network.d/pods.conf": pod_routes(guest, guests),
    }


def write_control_plane(directory: Path, authority: Authority, programs: Programs) -> None:
    """Write what ``cluster_server`` reads into the directory of the control plane."""
    directory.mkdir(mode=0o700, exist_ok=True)
    for name, content in zip(AUTHORITY, authority.pair):
        write_private(directory / name, content)
    paths = {name: str(path) for name, path in programs._asdict().items()}
    (directory / PROGRAMS).write_text(json.dumps(paths), encoding="utf-8")


def write_access(path: Path, authority: Authority, port: int) -> None:
    """Write the administrator's kubeconfig for the forwarder's port on loopback."""
    admin = authority.client(ADMIN_USER, [ADMINISTRATORS])
    write_kubeconfig(path, kubeconfig(f"https://127.0.0.1:{port}", authority.pair.certificate, admin))
