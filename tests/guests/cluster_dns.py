# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the cluster's DNS, of which the lab has none: addresses of pods behind headless services.

It reads what CoreDNS does: the endpoints that the controller manager makes of a Service and its pods.
"""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socketserver import BaseRequestHandler, UDPServer
from typing import Iterator, Sequence

from ansible_collections.rdma.fabric.tests.guests.pods import on_guest
from ansible_collections.rdma.fabric.tests.lab.api import Api, collection_path
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.layout import MANAGEMENT_HOST
from ansible_collections.rdma.fabric.tests.lab.guests.reach import enter_network, holder

KUBELET = "/etc/kubernetes/kubelet.yaml"
SETTINGS = f"clusterDNS: [{MANAGEMENT_HOST}]\\nclusterDomain: cluster.local\\n"
USE = f"printf '{SETTINGS}' >>{KUBELET} && systemctl restart kubelet"
USE_NO_MORE = f"sed -i '/^cluster/d' {KUBELET} && systemctl restart kubelet"


def address_of(api: Api, name: Sequence[str]) -> str | None:
    """Return the address of ``HOSTNAME.SERVICE.NAMESPACE.svc.cluster.local``."""
    if list(name[3:]) != ["svc", "cluster", "local"]:
        return None
    query = {"labelSelector": f"kubernetes.io/service-name={name[1]}"}
    parts = api.request("GET", collection_path("discovery.k8s.io/v1", "endpointslices", name[2]), query=query).body
    ends = [each for part in parts["items"] for each in part["endpoints"] or ()]
    return next((str(each["addresses"][0]) for each in ends if each.get("hostname") == name[0]), None)


def answer(api: Api, asked: bytes) -> bytes:
    """Answer a question for an IPv4 address (RFC 1035, 4.1); a name has no others."""
    name, at = [], 12
    while size := asked[at]:
        name.append(asked[at + 1 : at + 1 + size].decode().lower())
        at += 1 + size
    found, is_ipv4 = address_of(api, name), asked[at + 1 : at + 3] == b"\0\1"
    # The record's name is that of the question.
    record = struct.pack(">HHHIH", 0xC00C, 1, 1, 5, 4) + socket.inet_aton(found) if found and is_ipv4 else b""
    status = 0x8400 if found else 0x8403
    return asked[:2] + struct.pack(">HHHHH", status, 1, bool(record), 0, 0) + asked[12 : at + 5] + record


@contextmanager
def cluster_dns(lab: Lab) -> Iterator[None]:
    """Have pods that start from now on resolve names."""

    class Question(BaseRequestHandler):
        def handle(self) -> None:
            asked, server = self.request
            server.sendto(answer(lab.api, asked), self.client_address)

    def made() -> UDPServer:
        # The thread moves alone and ends, and the socket stays where it was made.
        enter_network(holder(lab.directory))
        return UDPServer((MANAGEMENT_HOST, 53), Question)

    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(made).result()
    with server, ThreadPoolExecutor() as pool:
        pool.submit(server.serve_forever)
        try:
            list(pool.map(lambda guest: on_guest(lab, guest, USE), lab.guests))
            yield
        finally:
            server.shutdown()
            list(pool.map(lambda guest: on_guest(lab, guest, USE_NO_MORE), lab.guests))
