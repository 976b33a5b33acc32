# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the variables of the discovery."""

from __future__ import annotations

from .variable import Variable

_DISCOVERY = ("discover",)

OF_THE_DISCOVERY = (
    Variable(
        "discover_machine",
        "str",
        (
            "Machine of hosts that are not there yet, such as V(dgx-h100): the files are written from its published "
            "layout, and no host is read. V(list) prints the machines with their sources.",
        ),
        (*_DISCOVERY, "playbook discover"),
        asked=True,
    ),
    Variable(
        "discover_hosts",
        "int",
        (
            "Number of hosts of O(rdma_fabric_discover_machine), which are named after it. Without it, they are the "
            "hosts of the inventory.",
        ),
        _DISCOVERY,
        least=1,
        asked=True,
    ),
    Variable(
        "discover_dir",
        "path",
        ("Folder on the controller for the files.",),
        _DISCOVERY,
        default="rdma-fabric-inventory",
    ),
    Variable(
        "discover_overwrite",
        "bool",
        (
            "Whether to replace files of that folder that differ. Otherwise the run fails and names them. Files that "
            "differ only in comments are kept.",
        ),
        _DISCOVERY,
        default=False,
        asked=True,
    ),
    Variable(
        "discover_mtu",
        "int",
        ("MTU of Ethernet rails, such as V(9000). Without it, the one that most hosts of a class have now.",),
        _DISCOVERY,
        least=1280,
        most=65535,
        unit="bytes",
        asked=True,
    ),
    Variable(
        "discover_vfs",
        "int",
        (
            "Number of VFs of every rail. Without it, the number that most hosts of a class have now.",
            "Rails with VFs are offered to pods by the SR-IOV device plugin, others by the shared one.",
        ),
        _DISCOVERY,
        least=0,
        asked=True,
    ),
    Variable(
        "discover_rename",
        "bool",
        ("Whether rails are named V(rail0) and so on. Otherwise they keep their names, in the policy as well.",),
        _DISCOVERY,
        default=True,
        asked=True,
    ),
)
