# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a NicClusterPolicy that run beside networks: what looks at nodes and fabrics.

Sources: as of :mod:`models`.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.names import dns_subdomain, or_empty
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.schema import record, text, whole
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.models_images import image_fields
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rules import doca_telemetry

NIC_FEATURE_DISCOVERY = record("NIC feature discovery", image_fields(("nic-feature-discovery",)), since="v24.1.0")

DOCA_TELEMETRY = record(
    "the DOCA telemetry service",
    {
        **image_fields(("doca-telemetry-service",)),
        "config": record(
            "a configuration in place of the operator's",
            {
                "fromConfigMap": text(
                    f"ConfigMap that holds it under {doca_telemetry.KEY}", required=True, check=dns_subdomain
                )
            },
        ),
    },
    since="v24.7.0",
)

IB_KUBERNETES = record(
    "the InfiniBand GUID manager",
    {
        **image_fields(("ib-kubernetes",)),
        # The operator takes 0 as well, with which the program does not start.
        "periodicUpdateSeconds": whole("seconds between updates of the subnet manager, 5 unless given", minimum=1),
        "pKeyGUIDPoolRangeStart": text("the first GUID that pods may get", required=True),
        "pKeyGUIDPoolRangeEnd": text("the last GUID that pods may get", required=True),
        "ufmSecret": text("Secret with the access to UFM", required=True, check=or_empty(dns_subdomain)),
    },
    since="v1.4.0",
)
