# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quick starts for Ethernet offer devices on guests that nothing has given ib_umad, because the run loads it.

The RDMA shared device plugin is the real one: on the same guests, without the module, it offers none. Of the cluster
objects it is the only one: the lab has no image of nv-ipam, and no device waits for the others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import NIC_LABEL
from ansible_collections.rdma.fabric.tests.guests.pods import Json, kubectl, on_guest
from ansible_collections.rdma.fabric.tests.guests.site_runs import await_offer, run_site
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab

CARD = "enp1s0"
RESOURCE = f"rdma/{CARD}"
MODULE, LOADED_AT_BOOT = "ib_umad", "/etc/modules-load.d/rdma-fabric.conf"
SECTION = "rdmaSharedDevicePlugin"
QUICK_STARTS = ("../README.md", "guide-roce-shared.md")


@pytest.fixture
def labelled(cluster_lab: Lab) -> Iterator[Lab]:
    """A lab whose nodes have the label of those with a card, without Node Feature Discovery."""
    kubectl(cluster_lab, "label", "nodes", "--all", "--overwrite", f"{NIC_LABEL}=true")
    yield cluster_lab
    kubectl(cluster_lab, "label", "nodes", "--all", f"{NIC_LABEL}-")


def inventory_of(lab: Lab, page: str, folder: Path) -> Path:
    """Write the inventory of a quick start for the lab's guests, whose card keeps its name and is no NVIDIA one."""
    address = on_guest(lab, lab.guests[0], f"basename $(readlink -f /sys/class/net/{CARD}/device)").strip()
    text = blocks_of(guide(page))[0].replace("0000:18:00.0", address).replace("rail0", CARD)
    given: dict[str, Json] = yaml.safe_load(text)
    asked: Json = given["rdma_fabric"]["vars"]
    for interface in asked["rdma_fabric_interfaces"]:
        del interface["name"]
    policy: Json = given["ungrouped"]["hosts"]["localhost"]["rdma_fabric_nic_cluster_policy"]
    inventory: Json = json.loads(lab.inventory.read_text(encoding="utf-8"))
    own = {"ansible_become": False, "rdma_fabric_node_labels": {NIC_LABEL: "true"}}
    inventory["all"]["children"]["rdma_fabric"]["vars"].update({**asked, **own})
    objects = {"rdma_fabric_nic_cluster_policy": {SECTION: policy[SECTION]}, "rdma_fabric_nfd": False}
    inventory["all"]["vars"].update(objects)
    path = folder / "inventory.json"
    path.write_text(json.dumps(inventory), encoding="utf-8")
    return path


def test_devices_are_offered_because_the_run_has_loaded_the_module(labelled: Lab, tmp_path: Path) -> None:
    for number, page in enumerate(QUICK_STARTS):
        for guest in labelled.guests:
            on_guest(labelled, guest, f"rm -f {LOADED_AT_BOOT}; modprobe -r {MODULE}; ! test -e /sys/module/{MODULE}")
        if number:
            # The plugin that runs since the quick start before looks again.
            await_offer(labelled, RESOURCE, 0)
        run_site(labelled, User(tmp_path / str(number)), inventory=inventory_of(labelled, page, tmp_path))
        await_offer(labelled, RESOURCE, 63)
        for guest in labelled.guests:
            assert MODULE in on_guest(labelled, guest, f"cat {LOADED_AT_BOOT}").split()
