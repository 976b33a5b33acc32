# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cert-manager's kinds, as far as the certificate of a webhook needs them: nothing here issues anything."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any, Iterator

from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane


@contextmanager
def cert_manager_kinds(cluster: ControlPlane) -> Iterator[None]:
    """Define Issuer and Certificate while the caller needs them."""
    definitions: list[dict[str, Any]] = []
    for kind in ("Issuer", "Certificate"):
        plural = f"{kind.lower()}s"
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {"group": "cert-manager.io", "names": names, "scope": "Namespaced", "versions": [version]}
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        definitions.append({**definition, "metadata": {"name": f"{plural}.cert-manager.io"}, "spec": spec})
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    cluster.kubectl("apply", "-f", "-", stdin=text)
    targets = [f"crd/{each['metadata']['name']}" for each in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=90s", *targets)
    yield
    cluster.kubectl("delete", *targets)
