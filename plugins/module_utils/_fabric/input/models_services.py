# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a NicClusterPolicy that run beside networks: what looks at nodes and fabrics.

Sources: as of :mod:`models`.
"""

from __future__ import annotations

from ..checks import doca_telemetry, nic_configuration
from ..common.names import dns_label, dns_subdomain, or_empty
from ..common.schema import Field, flag, record, text, whole
from .models_images import image_fields
from .models_kubernetes import env_list

_LATER = "the operator of today does not read it"

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

NIC_CONFIGURATION = record(
    "the NIC configuration operator",
    {
        "operator": record("image of the controller", image_fields(("nic-configuration-operator",)), required=True),
        "configurationDaemon": record(
            "image of the daemon on each node", image_fields(("nic-configuration-daemon",)), required=True
        ),
        "logLevel": text("what both log, info unless given", choices=("info", "debug")),
        "env": env_list("environment of both", since="v25.10.0"),
        "nicFirmwareStorage": record(
            "storage for the firmware that it updates to; without it none is updated",
            {
                "create": flag("whether the claim is made, as it is unless false is given"),
                "pvcName": text(
                    f"PersistentVolumeClaim, {nic_configuration.DEFAULT_CLAIM} unless given", check=dns_label
                ),
                "storageClassName": text(
                    "StorageClass of the claim, the cluster's default unless given", check=dns_label
                ),
                "availableStorageSize": text(
                    f"size of the claim, {nic_configuration.DEFAULT_SIZE} unless given",
                    check=nic_configuration.check_size,
                ),
            },
        ),
    },
    since="v25.4.0",
)

SPECTRUM_X = record(
    "the Spectrum-X operator",
    {
        **image_fields(("spectrum-x-flowcontroller",)),
        "xPlane": record(
            "image of the service that the flow controller starts, none unless given",
            {
                **image_fields(("xplane",)),
                "containerResources": Field("anything", "cpu and memory", idle="the operator reads it neither"),
            },
            since="v26.4.0",
        ),
        "sriovObjNamespace": text(
            "namespace of the SR-IOV objects", until="v25.4.0", successor="it has no effect", idle=_LATER
        ),
        "spectrumXConfig": record(
            "configuration",
            {"name": text("name of a ConfigMap")},
            until="v25.4.0",
            successor="write a SpectrumXRailPoolConfig",
            idle=_LATER,
        ),
    },
    since="v25.4.0",
)
