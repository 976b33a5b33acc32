# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of OpenShift: where its nodes have CNI programs, and which parts of a fabric are there already.

Facts: the Network Operator 26.4.1, ``pkg/consts/consts.go`` for the folder, and ``manifests``: every component with
privileged pods has a Role for OpenShift but ``state-multus-cni`` and ``state-container-networking-plugins``. Multus,
whereabouts and the CNI project's programs are the cluster network operator's there, which has Multus keep networks to
pods of their own namespace but for some namespaces (``multus-daemon-config``).
"""

from __future__ import annotations

GROUP = ".openshift.io"
"""How the API groups of OpenShift end."""

SETTING = "openshift"
DEFAULTS = {"cni_bin_dir": "/var/lib/cni/bin"}
OWNER = "secondaryNetwork"
BROUGHT = ("multus", "cniPlugins", "ipamPlugin")
"""Parts of ``secondaryNetwork`` that OpenShift has by itself."""
OPEN_NAMESPACES = ("default", "openshift-multus", "openshift-sriov-network-operator", "openshift-cnv")
"""Namespaces whose networks its Multus gives to pods of every other one."""
