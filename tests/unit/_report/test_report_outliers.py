# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The odd one among machines built alike: what differs is named on the host that has it, and on no other."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import port_state
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.view import LEVELS, page_view
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.large_fleet import large_fleet, old_driver
from ansible_collections.rdma.fabric.tests.unit._report.sample_fleet import report_of
from ansible_collections.rdma.fabric.tests.unit._report.test_report_remarks import Facts, h100, remarks_on


def add_virtual_function(facts: Facts) -> None:
    parent = facts["nics"][0]
    facts["nics"].append({**parent, "address": "0000:18:00.1", "function": "vf", "pf": parent["address"], "rdma": []})


def slot_of_eight(facts: Facts) -> None:
    facts["nics"][2]["link"] = sample_fleet.pcie(width=8, widest=8)


# The change of one host, the kind it is remarked as, and what is seen of which device.
ODD: list[tuple[Callable[[Facts], Any], str, str, str]] = [
    (lambda facts: facts["netdevs"][4].update(mtu=2044), "mtu_differs", "mlx5_6", "MTU 2044, elsewhere MTU 4092"),
    (
        lambda facts: facts["rdma"][5]["ports"][0].update(rate_gbps=200),
        "link_rate_differs",
        "mlx5_9",
        "200 Gb/s, elsewhere 400 Gb/s",
    ),
    (slot_of_eight, "pcie_differs", "mlx5_4", "PCIe 32 GT/s x8, elsewhere PCIe 32 GT/s x16"),
    (add_virtual_function, "virtual_functions_differ", "mlx5_0", "1 VF, elsewhere 0 VFs"),
    (
        lambda facts: facts["stack"].update(version="23.07-0.5.1"),
        "driver_differs",
        "RDMA driver",
        "mlnx-ofed 23.07-0.5.1, elsewhere mlnx-ofed 23.10-1.1.9",
    ),
    (
        lambda facts: facts["stack"].update(gpu_driver="470.1"),
        "driver_differs",
        "GPU driver",
        "470.1, elsewhere 535.161.08",
    ),
    (
        lambda facts: facts["system"].update(kernel="5.15.0-1040-nvidia"),
        "kernel_differs",
        "kernel",
        "5.15.0-1040-nvidia, elsewhere 5.15.0-1047-nvidia",
    ),
    (
        lambda facts: facts["system"]["os"].update(name="Ubuntu 22.04.3 LTS"),
        "os_differs",
        "operating system",
        "Ubuntu 22.04.3 LTS, elsewhere Ubuntu 22.04.4 LTS",
    ),
]


def test_what_one_of_three_machines_built_alike_has_for_itself_is_remarked_on_that_one() -> None:
    for change, kind, name, seen in ODD:
        found = remarks_on(h100(), h100(change), h100())
        assert list(found) == [kind]
        (remark,) = found[kind]
        assert remark["host"] == "host-1"
        assert [(device["name"], device["seen"]) for device in remark["devices"]] == [(name, seen)]


def test_what_hangs_on_a_port_is_not_taken_for_it() -> None:
    """Representors, sub-functions and IPoIB interfaces of other partitions have the address of the port."""

    for kind in ("representor", "sub-function", "ipoib-child"):
        odd = h100()
        odd["netdevs"].insert(0, {**odd["netdevs"][4], "name": "a0", "kind": kind, "mtu": 1500})
        assert remarks_on(h100(), odd, h100()) == {}


def test_a_port_is_down_whatever_its_representors_are() -> None:
    """Of a NIC without an RDMA device the interface tells."""
    facts = h100()
    port = next(netdev for netdev in facts["netdevs"] if netdev["pci"] == "0000:5e:00.0")
    facts["rdma"] = [device for device in facts["rdma"] if device["pci"] != port["pci"]]
    port["carrier"] = False
    facts["netdevs"].append({**port, "name": "pf0vf0", "kind": "representor", "carrier": True})
    assert port_state(facts, "0000:5e:00.0")["state"] == "down"


def test_of_values_that_equally_many_have_the_newest_is_the_usual_one() -> None:
    for place, fleet in enumerate(([h100(old_driver), h100()], [h100(), h100(old_driver)])):
        found = remarks_on(*fleet)
        assert {kind: [remark["host"] for remark in remarks] for kind, remarks in found.items()} == {
            "driver_differs": [f"host-{place}"],
            "kernel_differs": [f"host-{place}"],
        }


def test_machines_of_another_build_are_not_compared() -> None:
    assert "kernel_differs" not in remarks_on(
        h100(), sample_fleet.egx_facts("e"), sample_fleet.h100_facts("r", "Ethernet")
    )
    plain = [sample_fleet.plain_facts("p") for _place in range(3)]
    plain[1]["system"]["kernel"] = "6.1.0-1-amd64"
    assert remarks_on(*plain) == {}


def test_what_is_not_known_is_no_difference() -> None:
    def unread(facts: Facts) -> None:
        facts["system"].update(kernel=None, os={"id": None, "version_id": None, "name": None})
        facts["stack"]["gpu_driver"] = None
        facts["nics"][0]["link"] = dict.fromkeys(("speed_gts", "width", "max_speed_gts", "max_width"))
        facts["netdevs"][0]["mtu"] = None

    assert remarks_on(h100(), h100(), h100(unread)) == {}


def test_a_fault_that_has_a_remark_of_its_own_is_told_once() -> None:
    down = h100(lambda facts: sample_fleet.port_down(facts, "0000:5e:00.0"))
    narrow = h100(lambda facts: facts["nics"][2].update(link=sample_fleet.pcie(width=8)))
    assert set(remarks_on(h100(), h100(), down, narrow)) == {"rail_down", "pcie_degraded"}


def test_a_difference_that_many_hosts_share_is_one_line() -> None:
    documents = large_fleet(200)
    for place in (3, 4, 5, 6, 30):
        documents[place]["facts"]["system"]["kernel"] = "5.15.0-1040-nvidia"
    groups = page_view(report_of(documents), LEVELS[0])["remark_notes"]
    kernels = next(group for group in groups if group["title"].startswith("Kernel"))
    assert [entry["hosts"] for entry in kernels["entries"]] == [
        ["gpu-0004", "gpu-0005", "gpu-0006", "gpu-0007", "gpu-0031", "gpu-0143"]
    ]
