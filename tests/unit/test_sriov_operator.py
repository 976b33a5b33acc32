# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies and what the SR-IOV operator made of them: its webhook's answers, and the VFs of a node by its own record.

Each VF here has the driver, the MTU and the resource that the operator gives it, or a notice or refusal says why not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import Function
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.sriov_policies import FUNCTION_IDS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import Offer, offers_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.requested_functions import with_requests
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.by_range import NETDEVICE, VFIO, per_vf
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import facts, ipoib, netdev, nic

Json = dict[str, Any]
API = "sriovnetwork.openshift.io/v1"
ROWS: list[Json] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "operator" / "sriov-policies.json").read_text(encoding="utf-8")
)
# Driver, MTU and resource of a VF.
Vf = tuple[str, Any, str]


def document(kind: str, name: str, spec: Json) -> Document:
    metadata = {"name": name, "namespace": "nvidia-network-operator"}
    return Document(f"{name}.yaml", {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})


def theirs(row: Json) -> dict[str, list[Vf]]:
    """Return the VFs of each port by the operator's record: of two groups with a VF the first one counts."""
    found: dict[str, list[Vf]] = {}
    for port in row["operator"]["interfaces"]:
        vfs: list[Vf] = [(NETDEVICE, None, "")] * port["numVfs"]
        for group in reversed(port["vfGroups"]):
            first, _dash, last = group["vfRange"].partition("-")
            mtu = None if group["deviceType"] == VFIO else group.get("mtu")
            for number in range(int(first), min(int(last or first) + 1, len(vfs))):
                vfs[number] = (group["deviceType"], mtu, group["resourceName"])
        found[port["pciAddress"]] = vfs
    return found


def facts_of(row: Json) -> Any:
    nics: list[Any] = []
    netdevs: list[Any] = []
    for port in row["ports"]:
        of_mellanox, is_ib = port["vendor"] == "15b3", port["linkType"] == "IB"
        sriov = {"total": port["totalvfs"], "enabled": 0, "vf_device": None, "autoprobe": True, "vfs": []}
        made = nic(
            *(port["pciAddress"], port["name"]),
            vendor=port["vendor"],
            device=port["deviceID"],
            driver=port["driver"],
            rdma=[f"mlx5_{len(nics)}"] if of_mellanox else [],
            link_layer=("InfiniBand" if is_ib else "Ethernet") if of_mellanox else None,
            sriov={**sriov, "settings": None},
        )
        nics.append(made)
        netdevs.append((ipoib if is_ib else netdev)(port["name"], port["pciAddress"], mtu=port["mtu"]))
    return facts(nics=nics, netdevs=netdevs, labels=row["labels"])


def offered(row: Json) -> tuple[list[Offer], Any, list[str]]:
    """Return the resources of policies here, the spec of the row's host, and what is said; raises InvalidInput."""
    documents = [document("SriovNetworkNodePolicy", each["name"], each["spec"]) for each in row["policies"]]
    documents.append(document("SriovOperatorConfig", "default", {"enableOperatorWebhook": row["webhook"]}))
    spec, notices = build_spec(documents, {}, {}, {}, helm_values=[], violations=[])
    offers = offers_of(objects_of(render(spec)))
    merged, said = with_requests(check_spec({"requests": spec["host_requests"]}), facts_of(row))
    return offers, merged, [*(str(notice.problem) for notice in notices), *said]


def vfs_of(row: Json) -> tuple[list[Offer], list[Function]]:
    """Return the resources of policies, and the VFs that they make, of all ports; raises InvalidInput."""
    offers, merged, _said = offered(row)
    vfs = [
        function(port, number, driver)
        for entry in merged["interfaces"]
        for port in row["ports"]
        if port["pciAddress"] == entry["pci"]
        for number, driver in enumerate(per_vf(entry["vf_driver"], entry["vfs"] or 0, NETDEVICE))
    ]
    return offers, vfs


def ours(row: Json) -> tuple[dict[str, list[Vf]], set[tuple[str, int]], list[str]]:
    """Return the VFs of each port here, those that several resources select, and what is said; raises InvalidInput."""
    offers, merged, said = offered(row)
    found: dict[str, list[Vf]] = {}
    shared: set[tuple[str, int]] = set()
    for entry in merged["interfaces"]:
        (port,) = [each for each in row["ports"] if each["pciAddress"] == entry["pci"]]
        count = entry["vfs"] or 0
        drivers, mtus = per_vf(entry["vf_driver"], count, NETDEVICE), per_vf(entry["vf_mtu"], count)
        vfs = [function(port, number, driver) for number, driver in enumerate(drivers)]
        takers = [[each.resource.rpartition("/")[2] for each in offers if each.has(vf)] for vf in vfs]
        found[str(entry["pci"])] = list(zip(drivers, mtus, [next(iter(each), "") for each in takers]))
        shared |= {(str(entry["pci"]), number) for number, each in enumerate(takers) if len(each) > 1}
    return found, shared, said


def function(port: Json, number: int, driver: str) -> Function:
    is_away = driver == VFIO
    return Function(
        address=f"{port['pciAddress']}#{number}",
        vendor=port["vendor"],
        device=FUNCTION_IDS.get(port["deviceID"], ""),
        driver=VFIO if is_away else port["driver"],
        netdev="" if is_away else f"{port['name']}v{number}",
        link="" if is_away else {"IB": "infiniband", "ETH": "ether"}[port["linkType"]],
        is_rdma=port["vendor"] == "15b3" and not is_away,
        port=(port["name"], port["pciAddress"]),
        number=number,
    )


@pytest.mark.parametrize("row", ROWS, ids=[str(row["about"]) for row in ROWS])
def test_vfs_are_what_the_operator_makes_of_them_or_it_is_said_why_not(row: Json) -> None:
    try:
        made, shared, said = ours(row)
    except InvalidInput as invalid:
        assert row.get("refused"), str(invalid)
        assert row["refused"] in str(invalid)
        return
    assert not row.get("refused"), made
    if row.get("said"):
        assert [text for text in said if row["said"] in text], said
        return
    asked = theirs(row)
    assert {port: len(vfs) for port, vfs in made.items()} == {port: len(vfs) for port, vfs in asked.items()}
    others = {(port, n) for port, vfs in made.items() for n, vf in enumerate(vfs) if vf != asked[port][n]}
    # Which resource gets a VF that several select is said where hosts were read (test_needs).
    assert (others <= shared, bool(others)) == (True, row.get("shared", False))
    assert all(made[port][n][:2] == asked[port][n][:2] for port, n in others)
