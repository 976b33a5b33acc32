# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attachments that are rendered, given to the real CNI programs: they take them, and make of them what was asked.

The programs, their address management and the kernel are real, whereabouts keeps its addresses in a real API server.
"""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.cni import check_configuration
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.ipam import check_ipam, ipam_remarks
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import crds
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.integration import cni_runtime
from ansible_collections.rdma.fabric.tests.integration.cni_runtime import GIVEN, PCI_ADDRESS, PORT, Observed, Request
from ansible_collections.rdma.fabric.tests.integration.isolated import run_module_apart
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.integration.way_out import WayOut, way_to
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.node_programs import CNI_PLUGINS, WHEREABOUTS
from ansible_collections.rdma.fabric.tests.lab.programs import built, to_standard_error
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import of_text

Json = dict[str, Any]

WHEREABOUTS_FILES = "/etc/cni/net.d/whereabouts.d"


def network(kind: str, name: str, ipam: Json, **spec: Any) -> Json:
    """A network of the operator's."""
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"networkNamespace": "default", "ipam": json.dumps(ipam), **spec},
    }


def attachment(name: str, *plugins: Json) -> Json:
    """An attachment given as such."""
    config = {"cniVersion": "1.0.0", "name": name, "plugins": list(plugins)}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"config": json.dumps(config)},
    }


def static(*addresses: str, **more: Any) -> Json:
    return {"type": "static", "addresses": [{"address": address} for address in addresses], **more}


def host_local(subnet: str, **more: Any) -> Json:
    return {"type": "host-local", "ranges": [[{"subnet": subnet, **more}]]}


POOL = {"type": "whereabouts", "range": "192.0.2.0/28", "exclude": ["192.0.2.0/30"]}
MACVLAN = {"type": "macvlan", "master": PORT, "mode": "bridge"}
INPUT: list[Json] = [
    network("MacvlanNetwork", "pool", POOL, master=PORT, mode="bridge", mtu=9000),
    network(
        "MacvlanNetwork", "pool-of-six", {"type": "whereabouts", "range": "fd00:a::/64"}, master=PORT, mode="private"
    ),
    network(
        "MacvlanNetwork", "vepa", host_local("198.51.100.0/24", rangeStart="198.51.100.9"), master=PORT, mode="vepa"
    ),
    network("MacvlanNetwork", "small", static("203.0.113.7/24", "fd00:b::7/64"), master=PORT, mode="bridge", mtu=1500),
    network("HostDeviceNetwork", "device", POOL, resourceName="hostdev"),
    attachment("bridged", {"type": "bridge", "bridge": "mybridge", "ipam": host_local("198.51.100.0/24")}),
    attachment(
        "tuned",
        {**MACVLAN, "ipam": static("203.0.113.8/24")},
        {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_announce": "2"}, "mtu": 4200},
    ),
    attachment(
        "routed-by-source",
        {**MACVLAN, "ipam": static("203.0.113.9/24", routes=[{"dst": "198.18.0.0/15", "gw": "203.0.113.1"}])},
        {"type": "sbr"},
    ),
    attachment("tagged", {"type": "vlan", "master": PORT, "vlanId": 5, "ipam": static("203.0.113.10/24")}),
    attachment("shared", {"type": "ipvlan", "master": PORT, "mode": "l2", "ipam": static("203.0.113.11/24")}),
    attachment("named", {"type": "host-device", "device": GIVEN, "ipam": static("203.0.113.12/24")}),
]


def rendered() -> dict[str, Json]:
    """The configurations of the attachments by name, with what Multus adds of a pod's device."""
    spec = of_text(yaml.safe_dump_all(INPUT)).accepted().spec
    found = {}
    for each in objects_of(render(spec)):
        if each["kind"] == "NetworkAttachmentDefinition":
            config = json.loads(each["spec"]["config"])
            if config.get("type") == "host-device" and "device" not in config:
                config["pciBusID"] = PCI_ADDRESS
            found[each["metadata"]["name"]] = config
    return found


@pytest.fixture(scope="module")
def programs() -> list[str]:
    """The directories of the CNI programs."""
    try:
        return [str(built(recipe, os.environ, to_standard_error)) for recipe in (CNI_PLUGINS, WHEREABOUTS)]
    except ProgramsUnavailable as reason:
        do_without(f"no CNI programs: {reason}")


@pytest.fixture(scope="module")
def way_out(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WayOut]:
    """What leads to the API server from the node."""
    with way_to(control_plane, tmp_path_factory.mktemp("server") / "socket") as found:
        yield found


@pytest.fixture(scope="module")
def kept_addresses(control_plane: ControlPlane) -> Iterator[None]:
    """The kinds that whereabouts keeps addresses in; other tests bring the same ones."""
    kinds = crds.whereabouts(with_node_slices=False)
    control_plane.kubectl(
        "apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": kinds})
    )
    names = [f"crd/{each['metadata']['name']}" for each in kinds]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=90s", *names)
    yield
    control_plane.kubectl("delete", *names)


@pytest.fixture(scope="module")
def served(
    control_plane: ControlPlane, kept_addresses: None, programs: list[str], way_out: WayOut
) -> Callable[[dict[str, Json]], dict[str, Observed]]:
    """Adds a pod to each of some networks, on a node of their own, and deletes it again."""

    def serve(configs: dict[str, Json]) -> dict[str, Observed]:
        kubeconfig = f"{WHEREABOUTS_FILES}/whereabouts.kubeconfig"
        settings = {"datastore": "kubernetes", "kubernetes": {"kubeconfig": kubeconfig}}
        files = {
            kubeconfig: control_plane.kubeconfig.read_text(encoding="utf-8"),
            f"{WHEREABOUTS_FILES}/whereabouts.conf": json.dumps(settings),
        }
        request = json.dumps(Request(programs, configs, way_out, files)._asdict())
        found = run_module_apart(cni_runtime.__name__, given=request, seconds=300)
        return {name: Observed(**seen) for name, seen in found.items()}

    return serve


@pytest.fixture(scope="module")
def seen(served: Callable[[dict[str, Json]], dict[str, Observed]]) -> dict[str, Observed]:
    """What became of a pod on each of the rendered attachments."""
    return served(rendered())


# What a pod gets: the kind of its interface, its mode, its MTU and its addresses.
EXPECTED: dict[str, tuple[str | None, str | None, int, list[str]]] = {
    "pool": ("macvlan", "bridge", 9000, ["192.0.2.4/28"]),
    "pool-of-six": ("macvlan", "private", 9000, ["fd00:a::1/64"]),
    "vepa": ("macvlan", "vepa", 9000, ["198.51.100.9/24"]),
    "small": ("macvlan", "bridge", 1500, ["203.0.113.7/24", "fd00:b::7/64"]),
    "device": ("veth", None, 9000, ["192.0.2.4/28"]),
    "bridged": ("veth", None, 1500, ["198.51.100.2/24"]),
    "tuned": ("macvlan", "bridge", 4200, ["203.0.113.8/24"]),
    "routed-by-source": ("macvlan", "bridge", 9000, ["203.0.113.9/24"]),
    "tagged": ("vlan", None, 9000, ["203.0.113.10/24"]),
    "shared": ("ipvlan", None, 9000, ["203.0.113.11/24"]),
    "named": ("veth", None, 9000, ["203.0.113.12/24"]),
}
# The kernel of the machine that runs the tests may be without these.
OF_KERNEL_MODULES = ("tagged", "shared")


def addresses_of(pod: Observed) -> list[str]:
    """The addresses that a pod got."""
    entries = pod.link.get("addr_info", [])
    return [f"{each['local']}/{each['prefixlen']}" for each in entries if each["scope"] == "global"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_pod_gets_what_its_network_asks_for_and_leaves_nothing_behind(seen: dict[str, Observed], name: str) -> None:
    problem, link, _routes, left = seen[name]
    if name in OF_KERNEL_MODULES and problem:
        # The program has read its configuration when the kernel refuses.
        assert "operation not supported" in problem
        return
    assert problem == ""
    kind = link["linkinfo"]["info_kind"]
    mode = link["linkinfo"].get("info_data", {}).get("mode") if kind == "macvlan" else None
    assert (kind, mode, link["mtu"], addresses_of(seen[name])) == EXPECTED[name]
    # A bridge stays for the pods that come next.
    assert left == (["mybridge"] if name == "bridged" else [])


def test_every_rendered_attachment_is_among_them(seen: dict[str, Observed]) -> None:
    assert set(seen) == set(EXPECTED)


def test_a_chain_hands_its_result_on(seen: dict[str, Observed]) -> None:
    """Routes of sbr are in a table of its own; only what it leaves in the main one is listed."""
    assert seen["routed-by-source"].routes == []
    assert [route["dst"] for route in seen["tuned"].routes] == ["203.0.113.0/24"]


# What is wrong with a configuration, and whether the checks of the input refuse it as the program does. Those that they
# do not refuse depend on the node, which the input does not know.
BROKEN: dict[str, tuple[Json, bool]] = {
    "a mode that there is not": ({**MACVLAN, "mode": "bridged"}, True),
    "a negative MTU": ({**MACVLAN, "mtu": -1}, True),
    "an MTU in quotes": ({**MACVLAN, "mtu": "9000"}, True),
    "a number for a parent": ({**MACVLAN, "master": 7}, True),
    "no program": ({"type": ""}, True),
    "a path for a program": ({"type": "../macvlan"}, True),
    "an address without a length": ({**MACVLAN, "ipam": static("203.0.113.7")}, True),
    "an address that is none": ({**MACVLAN, "ipam": static("203.0.113.300/24")}, True),
    "no address of an IPAM of static ones": (
        {**MACVLAN, "ipam": {"type": "static", "addresses": "203.0.113.7/24"}},
        True,
    ),
    "a subnet that is none": ({**MACVLAN, "ipam": host_local("198.51.100.0")}, True),
    "a range outside of its subnet": ({**MACVLAN, "ipam": host_local("198.51.100.0/24", rangeStart="10.0.0.1")}, True),
    "a range that ends before it starts": (
        {**MACVLAN, "ipam": host_local("198.51.100.0/24", rangeStart="198.51.100.9", rangeEnd="198.51.100.2")},
        True,
    ),
    "a subnet too small": ({**MACVLAN, "ipam": host_local("198.51.100.0/31")}, True),
    "two ranges that overlap": (
        {
            **MACVLAN,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "198.51.100.0/24"}], [{"subnet": "198.51.100.128/25"}]],
            },
        },
        True,
    ),
    "an empty list of ranges": (
        {**MACVLAN, "ipam": {"type": "host-local", "ranges": [[]], "subnet": "198.51.100.0/24"}},
        True,
    ),
    "ranges of both families in one list": (
        {
            **MACVLAN,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.51.100.0/24"}, {"subnet": "fd00:c::/64"}]]},
        },
        True,
    ),
    "a range that ends at the network's address": (
        {**MACVLAN, "ipam": host_local("198.51.100.0/24", rangeEnd="198.51.100.0")},
        True,
    ),
    "a range of the gateway alone": ({**MACVLAN, "ipam": host_local("198.51.100.0/24", rangeEnd="198.51.100.1")}, True),
    "a list of name servers for dns": ({**MACVLAN, "ipam": static("203.0.113.7/24", dns=["203.0.113.1"])}, True),
    "capitals in a pool's name": (
        {**MACVLAN, "ipam": {"type": "whereabouts", "range": "192.0.2.0/28", "network_name": "Rail0"}},
        True,
    ),
    "a gateway that is no address": ({**MACVLAN, "ipam": host_local("198.51.100.0/24", gateway="router")}, True),
    "a pool that is none": ({**MACVLAN, "ipam": {"type": "whereabouts", "range": "192.0.2.0"}}, True),
    "an exclusion that is none": (
        {**MACVLAN, "ipam": {"type": "whereabouts", "range": "192.0.2.0/28", "exclude": ["192.0.2.0/99"]}},
        True,
    ),
    "a pool of which all is excluded": (
        {**MACVLAN, "ipam": {"type": "whereabouts", "range": "192.0.2.0/28", "exclude": ["192.0.2.0/27"]}},
        True,
    ),
    "one pool twice": (
        {**MACVLAN, "ipam": {"type": "whereabouts", "ipRanges": [{"range": "10.8.0.0/24"}, {"range": "10.8.0.0/24"}]}},
        True,
    ),
    "two parts of one pool": (
        {
            **MACVLAN,
            "ipam": {
                "type": "whereabouts",
                "ipRanges": [{"range": "10.9.0.1-10.9.0.5/24"}, {"range": "10.9.0.9-10.9.0.20/24"}],
            },
        },
        True,
    ),
    "a pool of two addresses": ({**MACVLAN, "ipam": {"type": "whereabouts", "range": "192.0.2.0/31"}}, True),
    "a pool's gateway that is none": (
        {**MACVLAN, "ipam": {"type": "whereabouts", "range": "192.0.2.0/28", "gateway": "router"}},
        True,
    ),
    "a route that is none": ({**MACVLAN, "ipam": static("203.0.113.7/24", routes=[{"dst": "x"}])}, True),
    "a version that there is not": ({**MACVLAN, "cniVersion": "9.9.9"}, True),
    "a name with a blank": ({**MACVLAN, "name": "a b"}, True),
    "a parent that the node has not": ({**MACVLAN, "master": "rail9"}, False),
    "an MTU above that of the parent": ({**MACVLAN, "mtu": 9001}, False),
    "a device that the node has not": ({"type": "host-device", "pciBusID": "0000:19:00.0"}, False),
}


# What whereabouts takes and ignores, and the address that the first pod gets.
IGNORED: dict[str, tuple[Json, list[str]]] = {
    "a start outside": ({"range": "10.20.0.0/28", "range_start": "10.0.0.1"}, ["10.20.0.1/28"]),
    "a start of the other family": ({"range": "10.21.0.0/28", "range_start": "fd00::1"}, ["10.21.0.1/28"]),
    "an end outside": ({"range": "10.22.0.0/28", "range_end": "10.0.0.1"}, ["10.22.0.1/28"]),
    "an end before the start": (
        {"range": "10.23.0.0/28", "range_start": "10.23.0.9", "range_end": "10.23.0.3"},
        ["10.23.0.9/28"],
    ),
    "an end before the start, with a dash": ({"range": "10.24.0.9-10.24.0.3/28"}, ["10.24.0.9/28"]),
    "an exclusion outside": ({"range": "10.25.0.0/28", "exclude": ["10.0.0.0/24"]}, ["10.25.0.1/28"]),
    "ranges that overlap": (
        {"ipRanges": [{"range": "10.26.0.0/24"}, {"range": "10.26.0.128/25"}]},
        ["10.26.0.1/24", "10.26.0.129/25"],
    ),
    "a gateway within": ({"range": "10.27.0.0/28", "gateway": "10.27.0.1"}, ["10.27.0.1/28"]),
}


def test_what_a_program_ignores_is_taken_and_told(served: Callable[[dict[str, Json]], dict[str, Observed]]) -> None:
    ipams = {name: {"type": "whereabouts", **ipam} for name, (ipam, _addresses) in IGNORED.items()}
    configs = {name: {"cniVersion": "1.0.0", "name": "odd", **MACVLAN, "ipam": ipam} for name, ipam in ipams.items()}
    found = {name: (seen.problem, addresses_of(seen)) for name, seen in served(configs).items()}
    assert found == {name: ("", addresses) for name, (_ipam, addresses) in IGNORED.items()}
    judged = {name: (check_ipam(ipam), len(ipam_remarks(ipam))) for name, ipam in ipams.items()}
    assert judged == dict.fromkeys(IGNORED, ([], 1))


def test_checks_of_the_input_refuse_what_the_programs_refuse(
    served: Callable[[dict[str, Json]], dict[str, Observed]],
) -> None:
    configs = {name: {"cniVersion": "1.0.0", "name": "broken", **config} for name, (config, _judged) in BROKEN.items()}
    found = {
        name: (seen.problem != "", check_configuration(configs[name]) != []) for name, seen in served(configs).items()
    }
    assert found == {name: (True, judged) for name, (_config, judged) in BROKEN.items()}
