# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the table of needs, held against a host that does not meet it, and what plugins find on hosts."""

from __future__ import annotations

import json
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils import _needs as table
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.components import PROVIDERS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import giving_objects
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import needs
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import compared, held, ports_behind
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import spec_of
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

PCI, VF = "0000:18:00.0", "0000:18:00.2"
LABELS = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
ETHER: dict[str, Any] = {}
IB = {"link": "InfiniBand"}
OLD: dict[str, Any] = {"kernel": "4.15.0-20-generic"}


def document(host: str = "a", *, link: str = "Ethernet", mtu: int = 1500, **more: Any) -> Any:
    """Return what a run knows of a host with one port, ``rail0``, and ``vfs`` of it.

    ``lacking`` are modules that are not loaded, ``planned`` those that the plan loads, ``bond`` is what the port
    belongs to, ``makes`` how many VFs the plan gives it.
    """
    nic: dict[str, Any] = {"vendor": "15b3", "driver": "mlx5_core", "link_layer": link, "pf": None, "sriov": None}
    count = more.get("vfs", 0)
    vfs = [f"0000:18:00.{2 + number}" for number in range(count)]
    port = {**nic, "address": PCI, "device": "1021", "function": "pf", "netdevs": ["rail0"], "rdma": ["mlx5_0"]}
    port["sriov"] = {"enabled": count, "vfs": vfs}
    functions = [
        {**nic, "address": vf, "device": "101e", "function": "vf", "netdevs": [f"rail0v{n}"], "rdma": [vf], "pf": PCI}
        for n, vf in enumerate(vfs)
    ]
    netdevs = [{"name": "rail0", "pci": PCI, "mtu": mtu, "master": more.get("bond"), "kind": ""}]
    netdevs += [{"name": "bond9", "pci": None, "mtu": 1500, "master": None, "kind": "bond"}]
    steps: list[dict[str, Any]] = [
        {"concern": "modules", "status": "planned", "target": name, "to": "loaded"} for name in more.get("planned", ())
    ]
    if "planned_mode" in more:
        steps.append({"concern": "eswitch", "status": "planned", "id": f"eswitch:{PCI}", "to": more["planned_mode"]})
    if "makes" in more:
        steps.append({"concern": "vfs", "status": "planned", "id": f"vfs:{PCI}", "to": more["makes"]})
    return {
        "host": host,
        "desired": {
            "interfaces": [{"pci": PCI, "vf_settings": more.get("vf_settings")}],
            "netns_mode": more.get("netns"),
        },
        "facts": {
            "netdevs": netdevs,
            "nics": [port, *functions],
            "labels": LABELS,
            "uplinks": [],
            "eswitch": {PCI: {"mode": more["mode"]}} if "mode" in more else {},
            "modules": {name: {"loaded": False} for name in more.get("lacking", ())},
            "stack": {"flavour": "inbox", "version": None},
            "system": {"kernel": more.get("kernel", "6.8.0-60-generic"), "os": {"id": "ubuntu", "id_like": []}},
        },
        "plan": {"steps": steps},
    }


def network(config: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    text = json.dumps({"cniVersion": "0.3.1", "name": "net", **config})
    attachment = {"name": "net", "namespace": "ai", "annotations": annotations or {}, "config": text, "source": "s"}
    return {"attachments": [attachment]}


def image(version: str) -> dict[str, str]:
    return {"repository": "r", "image": "i", "version": version}


def shared(selectors: dict[str, Any] | None = None, version: str = "v1.5.3") -> dict[str, Any]:
    config = {"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": selectors or {"vendors": ["15b3"]}}]}
    return {"policy": {"rdmaSharedDevicePlugin": {**image(version), "config": json.dumps(config)}}}


def sriov(**selectors: Any) -> dict[str, Any]:
    item = {"resourcePrefix": "nvidia.com", "resourceName": "vf", "selectors": {"vendors": ["15b3"], **selectors}}
    return {"policy": {"sriovDevicePlugin": {**image("v3.9.0"), "config": json.dumps({"resourceList": [item]})}}}


def judge(parts: dict[str, Any], *documents: Any) -> Any:
    return held(spec_of(**{"hosts": {each["host"]: {} for each in documents}, **parts}), documents)


def macvlan(**more: Any) -> dict[str, Any]:
    return network({"type": "macvlan", "master": "rail0", **more})


def chained(**plugin: Any) -> dict[str, Any]:
    return network({"plugins": [{"type": "macvlan", "master": "rail0"}, plugin]})


OF_VF = {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/vf"}
UNMET: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (shared(), {"lacking": ["rdma_ucm"]}, "of the module rdma_ucm: rdma_ucm is not loaded on b"),
    (shared(), {"lacking": ["ib_umad"]}, "ib_umad is not loaded on b; next: load it (rdma_fabric_kernel_modules)"),
    (
        shared(version="v1.5.1"),
        ETHER,
        "issm*, which InfiniBand ports alone have: it is Ethernet on b; next: use v1.5.2",
    ),
    (shared({"ifNames": ["bond9"]}), ETHER, "no bond, VLAN or IPoIB child: it is bond on b; next: name the port below"),
    (shared(), {"netns": "exclusive"}, "network namespaces share: they are exclusive on b"),
    (shared(version="v1.2.0"), {**IB, "netns": "exclusive"}, "network namespaces share: they are exclusive on b"),
    (sriov(isRdma=True), {"vfs": 1, "lacking": ["rdma_ucm"]}, "rdma_ucm is not loaded on b"),
    (sriov(needVhostNet=True), {"vfs": 1, "lacking": ["tun"]}, "module tun: tun is not loaded on b"),
    (sriov(needVhostNet=True), {"vfs": 1, "lacking": ["vhost_net"]}, "vhost_net is not loaded on b"),
    (sriov(pfNames=["bond9"]), ETHER, "needs a PCI or auxiliary function: no bond or VLAN: it is bond on b"),
    *(
        (macvlan(type=each), IB, f"{each} needs an Ethernet port as the master: it is InfiniBand on b; next: use")
        for each in ("macvlan", "ipvlan", "vlan")
    ),
    (macvlan(), {"bond": "bond9"}, "it belongs to bond9 on b; next: name the bond as the master"),
    (macvlan(mtu=9000), ETHER, "it is 1500, the network's 9000 on b; next: set mtu for the port"),
    (macvlan(type="vlan", mtu=9000), ETHER, "vlan needs a master with an MTU of at least the network's"),
    (network({"type": "ipoib", "master": "rail0"}), ETHER, "it is Ethernet on b; next: name an InfiniBand port"),
    (network({"type": "ipoib", "master": "rail0"}), {**IB, "lacking": ["ib_ipoib"]}, "ib_ipoib is not loaded on b"),
    *(
        (network({"type": "ipoib", "master": "rail0"}), {**IB, "kernel": kernel}, f"{kernel} on b; next: update")
        for kernel in ("4.18.0-477.10.1.el8_8", "5.14.0-284.11.1.el9_2")
    ),
    ({**sriov(), **network({"type": "sriov"}, OF_VF)}, {**IB, "vfs": 1}, "sriov needs VFs of Ethernet ports"),
    ({**sriov(), **network({"type": "sriov"}, OF_VF)}, ETHER, "by physfn: pods get a port itself, or a VF that a"),
    ({**sriov(), **network({"type": "ib-sriov"}, OF_VF)}, IB, "ib-sriov needs VFs whose port is on the node"),
    *(
        (
            {**sriov(), **network({"type": "sriov"}, OF_VF)},
            host,
            "does not forward: it is in switchdev mode on b; next:",
        )
        for host in ({"vfs": 1, "mode": "switchdev"}, {"makes": 1, "mode": "legacy", "planned_mode": "switchdev"})
    ),
    *(
        (
            {**sriov(), **network({"type": "sriov", key: value}, OF_VF)},
            {"vfs": 1, **host},
            f"to set {key}: {words} on b;",
        )
        for key, value in (("vlan", 100), ("trust", "off"), ("spoofchk", "on"))
        for host, words in (
            ({"mode": "switchdev"}, "in switchdev mode pods do not start: it is in switchdev mode"),
            (
                {"mode": "switchdev", "bond": "br0"},
                "in switchdev mode pods do not start: it is in bridged switchdev mode",
            ),
        )
    ),
    *(
        (
            {**sriov(), **network({"type": "ovs", "bridge": "br0"}, OF_VF)},
            host,
            "ovs needs VFs of a port in switchdev mode, whose representors it puts on the bridge: in legacy mode pods "
            "do not start: it is in legacy mode on b; next: give eSwitchMode: switchdev",
        )
        for host in ({"vfs": 1}, {"makes": 1, "mode": "switchdev", "planned_mode": "legacy"})
    ),
    *(
        (
            {**sriov(), **network({"type": "sriov", "vlan": 0}, OF_VF)},
            {"makes": 2, "vf_settings": settings},
            "whatever the host has set: vf_settings set VLAN 100 on b; next: give the network the vlan",
        )
        for settings in ({"vlan": 100}, {"1-7": {"vlan": 100}})
    ),
    ({**sriov(), **network({"type": "ib-sriov"}, OF_VF)}, {"vfs": 1}, "ib-sriov needs VFs of InfiniBand ports"),
    (
        {**sriov(), **network({"type": "ib-sriov"}, OF_VF)},
        {**IB, "vfs": 1, "lacking": ["ib_ipoib"]},
        "of the VFs' interfaces: ib_ipoib is not loaded on b",
    ),
    (
        {**sriov(), **network({"type": "ib-sriov", "rdmaIsolation": True}, OF_VF)},
        {**IB, "vfs": 1, "netns": "shared"},
        "they are shared on b; next: set rdma_fabric_netns_mode: exclusive",
    ),
    (chained(type="rdma"), {"netns": "shared"}, "rdma needs exclusive RDMA devices, which alone move into a pod's"),
    *(
        (
            {**sriov(isRdma=True), **network({"type": program}, OF_VF)},
            {**link, "vfs": 1, "netns": "exclusive"},
            f"ai/net: pods get no usable RDMA device: RDMA is exclusive on b; next: {step}",
        )
        for program, link, step in (
            ("sriov", ETHER, "chain the rdma plugin"),
            ("host-device", ETHER, "chain the rdma plugin"),
            ("ib-sriov", IB, 'set "rdmaIsolation": true'),
        )
    ),
    (
        chained(type="rdma"),
        {**IB, "netns": "exclusive"},
        "rdma needs VFs of Ethernet ports: the kernel deletes the IPoIB interface of an RDMA device that is moved: "
        'it is InfiniBand on b; next: set "rdmaIsolation": true of ib-sriov',
    ),
    (chained(type="rdma"), {**OLD, "netns": "exclusive"}, "or newer: kernel 4.15.0-20-generic on b"),
    (network({"type": "host-device", "device": "bond9"}), ETHER, "has no RDMA device that goes along: it is bond on b"),
    (
        network({"type": "host-device", "pciBusID": "0000:ff:00.0"}),
        ETHER,
        "pciBusID 0000:ff:00.0: no port of 1 host has ",
    ),
    (network({"type": "bridge", "macspoofchk": True}), {"lacking": ["nf_tables"]}, "nf_tables is not loaded on b"),
]


@pytest.mark.parametrize(("parts", "host", "words"), UNMET, ids=range(len(UNMET)))
def test_what_a_host_does_not_meet_is_told_with_the_host_and_the_way_out(
    parts: dict[str, Any], host: dict[str, Any], words: str
) -> None:
    found = judge(parts, document("b", **host)).unmet
    assert any(words in text for text in found), found


@pytest.mark.parametrize(
    ("parts", "ports"),
    [
        (macvlan(), {"b": ["rail0"], "c": ["rail0"]}),
        (network({"type": "host-device", "pciBusID": PCI}), {"b": [PCI], "c": [PCI]}),
        ({**sriov(isRdma=True), **network({"type": "sriov"}, OF_VF)}, {"b": [VF], "c": []}),
        (network({"type": "sriov"}, OF_VF), {"b": [], "c": []}),
    ],
    ids=["master", "device", "resource", "of others"],
)
def test_the_ports_of_a_network_are_its_master_or_what_its_resource_offers(
    parts: dict[str, Any], ports: dict[str, list[str]]
) -> None:
    documents = [document("b", vfs=1), document("c", link="InfiniBand")]
    documents[1]["facts"]["nics"][0]["rdma"] = []
    assert ports_behind(spec_of(hosts={"b": {}, "c": {}}, **parts), documents) == {"ai/net": ports}


FITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (macvlan(), ETHER),
    (macvlan(mtu=1500), ETHER),
    (macvlan(master="rail9"), ETHER),
    (network({"type": "host-device"}), ETHER),
    (network({"type": "host-device", "pciBusID": PCI}), ETHER),
    (shared(), {"lacking": ["ib_umad", "rdma_ucm"], "planned": ["ib_umad", "rdma_ucm"]}),
    (shared(version="v1.5.1"), IB),
    (shared(version="v1.5.2"), ETHER),
    (shared(version="v1.0.0"), ETHER),
    (shared(version="v1.1.9"), {**IB, "netns": "exclusive"}),
    (sriov(pfNames=["rail9"]), ETHER),
    ({**sriov(), **network({"type": "sriov"}, OF_VF)}, {"vfs": 1}),
    *(
        ({**sriov(), **network({"type": kind, **settings}, OF_VF)}, {"vfs": 1, **host})
        for kind, settings, host in (
            ("sriov", {"vlan": 100, "trust": "on", "spoofchk": "on"}, {"mode": "legacy"}),
            ("sriov", {"vlan": 100}, {"mode": "switchdev", "planned_mode": "legacy"}),
            ("sriov", {"vlan": 100}, {"mode": None}),
            ("sriov", {"vlan": 0}, {"mode": "switchdev", "bond": "br0"}),
            ("ovs", {"vlan": 100}, {"mode": "switchdev"}),
            ("ovs", {}, {"mode": "legacy", "planned_mode": "switchdev", "bond": "br0"}),
            ("sriov", {"vlan": 0}, {"vf_settings": {"0": {"vlan": 0}, "1-7": {"vlan": 100}}}),
            ("sriov", {"vlan": 100}, {"vf_settings": {"vlan": 100}}),
            ("sriov", {}, {"vf_settings": {"vlan": 100}}),
        )
    ),
    (sriov(pfNames=["rail0#0-3"], isRdma=True, devices=["101e"]), {"makes": 4}),
    (shared(), {"netns": "shared"}),
    (
        {**sriov(isRdma=True), **network({"type": "ib-sriov", "rdmaIsolation": True}, OF_VF)},
        {**IB, "vfs": 1, "netns": "exclusive"},
    ),
    (
        {**sriov(isRdma=True), **network({"plugins": [{"type": "sriov"}, {"type": "rdma"}]}, OF_VF)},
        {"vfs": 1, "netns": "exclusive"},
    ),
    ({**sriov(), **network({"type": "sriov"}, OF_VF)}, {"vfs": 1, "netns": "exclusive"}),
    ({**sriov(isRdma=True), **network({"type": "sriov"}, OF_VF)}, {"vfs": 1, "netns": "shared"}),
]


GIVEN: list[tuple[str, dict[str, Any]]] = [
    *((program, {key: value}) for program in ("bridge", "ptp", "portmap") for key, value in (
        ("macspoofchk", True), ("ipMasqBackend", "nftables"), ("backend", "nftables"),
    )),
    *((table.SRIOV, {"vdpaType": word}) for word in ("vhost", "virtio")),
    (table.SHARED, {}),
]  # fmt: skip


def outcome() -> Any:
    """Return everything that is made of the table, on hosts that meet nothing and on one that is asked for nothing."""
    cases = [
        *((parts, host) for parts, host, _words in UNMET),
        *FITS,
        (shared(version="v1.0.0"), {"netns": "exclusive"}),
    ]
    said = [judge(parts, document("b", **host)).unmet for parts, host in cases]
    facts = [document(**each)["facts"] for each in (OLD, {})]
    parts = [need for need in table.needs_of("ipoib", {}) if need.kind == table.PART]
    old = [table.too_old(each, need) for need in parts for each in facts]
    programs = [(need.components, need.want) for need in table.NEEDS if need.kind == table.PROGRAM]
    return said, [table.modules_of(*each) for each in GIVEN], old, programs


def mutants(row: table.Need) -> Iterator[tuple[table.Need, ...]]:
    """Yield what may become of a row: nothing, another value, and releases that it is not about or about alone."""
    yield ()
    if row.want:
        yield (row._replace(want=tuple("9.9" for _each in row.want)),)
    if row.when:
        yield (row._replace(when="other"),)
    if row.since:
        yield (row._replace(since=None),)
    if row.until:
        yield (row._replace(until=None),)


def test_a_row_that_is_taken_out_or_changed_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: dict[str, Any] = {}
    render = giving_objects

    def once(spec: Any) -> Any:
        key = json.dumps(spec, sort_keys=True)
        rendered[key] = rendered.get(key) or render(spec)
        return rendered[key]

    monkeypatch.setattr(needs, "giving_objects", once)
    rows, whole = table.NEEDS, outcome()
    unmissed = []
    for place, row in enumerate(rows):
        for mutant in mutants(row) if row.kind != table.PODS else ():
            monkeypatch.setattr(table, "NEEDS", (*rows[:place], *mutant, *rows[place + 1 :]))
            if outcome() == whole:
                unmissed.append(f"{row.components} {row.kind} {row.want} {row.when} became {mutant}")
    none_of(unmissed)


def test_every_row_says_what_to_do_and_where_it_comes_from() -> None:
    none_of(f"{need.components} {need.kind}" for need in table.NEEDS if not (need.text and need.step and need.source))
    own = {"ipoib": "secondaryNetwork.ipoib", "nv-ipam": "nvIpam", "whereabouts": "secondaryNetwork.ipamPlugin"}
    assert own.items() <= PROVIDERS.items()
    assert PROVIDERS["macvlan"] == "secondaryNetwork.cniPlugins"


@pytest.mark.parametrize(
    ("component", "given", "modules"),
    [
        (table.SHARED, {}, {"": ["rdma_ucm", "ib_umad"]}),
        (table.SRIOV, {"needVhostNet": True}, {"": ["tun", "vhost_net"]}),
        (table.SRIOV, {"vdpaType": "vhost"}, {"": ["vhost_vdpa"]}),
        (table.SRIOV, {"vdpaType": "virtio"}, {"": ["virtio_vdpa"]}),
        ("ipoib", {}, {"InfiniBand": ["ib_ipoib"]}),
        ("ib-sriov", {}, {"InfiniBand": ["ib_ipoib"]}),
        ("portmap", {"backend": "nftables"}, {"": ["nf_tables"]}),
    ],
)
def test_modules_are_asked_for_on_the_hosts_that_they_serve(
    component: str, given: dict[str, Any], modules: dict[str, list[str]]
) -> None:
    assert table.modules_of(component, given) == modules


@pytest.mark.parametrize(
    ("component", "kind", "kernels", "stacks"),
    [
        ("rdma", table.DRIVER, ("5.2", "5.3"), ("4.6", "4.7")),
        ("ipoib", table.PART, ("5.7", "5.8"), ("5.0", "5.1")),
    ],
)
def test_a_driver_is_old_before_the_release_of_its_row(
    component: str, kind: str, kernels: tuple[str, str], stacks: tuple[str, str]
) -> None:
    (need,) = (each for each in table.needs_of(component, {}) if each.kind == kind)

    def is_old(kernel: str, stack: str = "", system: str = "ubuntu") -> bool:
        facts = {"flavour": "mlnx-ofed" if stack else "inbox", "version": stack or None}
        os = {"id": system, "id_like": []}
        return bool(table.too_old({"stack": facts, "system": {"kernel": f"{kernel}.0-1", "os": os}}, need))

    assert [is_old(each) for each in kernels] == [True, False]
    assert [is_old("3.10", each) for each in stacks] == [True, False]
    assert not any(is_old(kernels[0], system=each) for each in ("rhel", "fedora", "centos", "suse", "sles", "opensuse"))


@pytest.mark.parametrize(("parts", "host"), FITS, ids=range(len(FITS)))
def test_what_fits_or_is_told_elsewhere_is_passed_over(parts: dict[str, Any], host: dict[str, Any]) -> None:
    assert judge(parts, document(**host)).unmet == []


def test_the_mtu_that_the_run_sets_counts() -> None:
    planned = document()
    planned["desired"]["interfaces"][0]["mtu"] = 9000
    assert judge(macvlan(mtu=9000), planned).unmet == []


@pytest.mark.parametrize(
    ("selectors", "asked"),
    [
        ({"vendors": ["15b3"], "deviceIDs": ["1021"], "ifNames": ["rail0"], "linkTypes": ["ether"]}, ""),
        ({"deviceIDs": ["1017"]}, "deviceIDs 1017"),
        ({"linkTypes": ["infiniband"]}, "linkTypes infiniband"),
        ({"drivers": ["mlx5_ib"], "vendors": ["15b3"]}, "drivers mlx5_ib"),
        ({"ifNames": ["rail9"]}, ""),
    ],
    ids=["all", "another card", "another link", "no driver of PCI", "a name, which is told elsewhere"],
)
def test_a_shared_resource_without_a_port_is_told_with_what_there_is(selectors: dict[str, Any], asked: str) -> None:
    found = judge(shared(selectors), document()).unmet
    assert [asked in text and text.endswith("ports with RDMA are 1021 (mlx5_core, ether)") for text in found] == (
        [True] if asked else []
    )


def test_a_resource_of_the_other_plugin_without_a_device_is_told_as_well() -> None:
    (text,) = judge(sriov(devices=["101e"], isRdma=True), document()).unmet
    assert text.startswith("resource nvidia.com/vf: ") and "devices 101e" in text and "isRdma True" in text


POLICY: dict[str, Any] = {"resourceName": "vfs", "nodeSelector": LABELS, "numVfs": 4}
LOST: list[tuple[list[Any], dict[str, Any], str]] = [
    ([{"pfNames": ["rail0#2-3"]}], {"vfs": 2}, "rail0 has 2 VFs, none of rail0#2-3; next: raise vfs"),
    ([{"rootDevices": [PCI]}], ETHER, f"{PCI} has 0 VFs, none of {PCI}"),
    ([{"isRdma": True}], {"vfs": 2, "vfio": True}, "2 devices would fit but for isRdma (15b3:101e, vfio-pci, "),
    ([{"drivers": ["ice"]}], {"vfs": 2}, "2 devices would fit but for drivers (15b3:101e, mlx5_core, ether)"),
    ([{"linkTypes": ["infiniband"]}], ETHER, "1 device would fit but for linkTypes (15b3:1021, mlx5_core, ether)"),
    ([{"pfNames": ["rail0"], "devices": ["1018"]}], {"vfs": 1}, "1 device would fit but for devices (15b3:101e,"),
    (
        [{}, {"pfNames": ["rail0"]}],
        {"vfs": 2},
        "what would fit (2 devices) is taken before by nvidia.com/r0; next: give",
    ),
    ([{"devices": ["1021"]}], {"vfs": 1}, "rail0 has VFs, so it is not offered itself; next: select other ports"),
    ([{"devices": ["1021"]}], {"routed": True}, "rail0 has the IPv4 default route"),
    ([{"devices": ["1018"]}], {"vfs": 1}, ""),
    ([{"pfNames": ["rail0"], "vdpaType": "vhost"}], {"vfs": 1}, ""),
    ([[{"pfNames": ["rail9"]}, {"pfNames": ["rail0"]}]], {"vfs": 1}, ""),
]


@pytest.mark.parametrize(("sets", "host", "words"), LOST, ids=range(len(LOST)))
def test_a_node_whose_pods_get_no_device_is_told_with_what_keeps_it(
    sets: list[Any], host: dict[str, Any], words: str
) -> None:
    """Each of ``sets`` are the selectors of a resource of one plugin, in order; the last one is judged."""
    items = [
        {"resourceName": f"r{n}", "resourcePrefix": "nvidia.com", "selectors": each} for n, each in enumerate(sets)
    ]
    one, other = document("a", **host), document("b")
    for nic in one["facts"]["nics"][1:] if host.get("vfio") else ():
        nic.update(rdma=[], driver="vfio-pci")
    if host.get("routed"):
        one["facts"]["uplinks"] = [{"pci": PCI, "reasons": ["default route", "ipv4"]}]
    config = {"policy": {"sriovDevicePlugin": {**image("v3.9.0"), "config": json.dumps({"resourceList": items})}}}
    found = held(spec_of(hosts={"a": {}, "b": {}}, **config), [one, other][: 1 if words else 2]).unmet
    last = f"resource nvidia.com/r{len(sets) - 1}: no device for pods on a: "
    assert [text[len(last) :].startswith(words) for text in found if text.startswith(last)] == [True] * bool(words)


@pytest.mark.parametrize(
    ("device", "own", "told"),
    [
        ("1007", None, True),
        ("1021", None, False),
        ("1007", {"pci": PCI, "vfs": 4}, False),
        ("1007", {"name": "rail0"}, True),
    ],
)
def test_a_card_that_the_operator_would_leave_alone_is_told(device: str, own: Any, told: bool) -> None:
    host = document("a", makes=4)
    host["facts"]["nics"][0]["device"] = device
    host["desired"]["interfaces"] = [own] if own else []
    policies = [{"name": "p", "source": "p.yaml", "spec": {**POLICY, "nicSelector": {"vendor": "15b3"}}}]
    found = judge({"function_policies": policies}, host).unmet
    assert any(text.startswith("cards 15b3:1007 on a get VFs") for text in found) is told
    assert not any("get VFs by a Sriov" in text for text in judge({}, host).unmet)


def test_devices_that_two_resources_of_policies_select_are_told_of_the_later_one() -> None:
    policies: list[dict[str, Any]] = [
        {"name": name, "source": f"{name}.yaml", "spec": {**POLICY, "resourceName": name, "nicSelector": nic}}
        for name, nic in (("a", {"vendor": "15b3"}), ("b", {"pfNames": ["rail0#2-3"]}))
    ]
    (told,) = [
        text for text in judge({"function_policies": policies}, document("h", vfs=4)).unmet if "pods get" in text
    ]
    assert told.startswith("resource nvidia.com/a: on h pods get rail0v2, rail0v3 by nvidia.com/b; next: give each its")
    policies[0]["spec"]["nicSelector"] = {"pfNames": ["rail0#0-1"]}
    assert not any("pods get" in text for text in judge({"function_policies": policies}, document("h", vfs=4)).unmet)


def test_a_node_that_two_pools_select_is_told() -> None:
    pools = [
        {"source": f"SriovNetworkPoolConfig/{name}", "node_selector": labels}
        for name, labels in (("p", LABELS), ("q", {}), ("r", {"other": "x"}))
    ]
    host = document("a")
    for count, told in ((1, False), (3, True)):
        host["desired"]["requests"] = pools[:count]
        found = judge({}, host).unmet
        assert any("SriovNetworkPoolConfig/p, SriovNetworkPoolConfig/q select a:" in text for text in found) is told


PORT = {"pci": PCI, "name": "rail0", "vfs": 4, "mtu": 1500, "vfio": list[str]()}
STATE: dict[str, Any] = {"node": "a", "sync": "Succeeded", "error": "", "ports": [PORT]}


@pytest.mark.parametrize(
    ("state", "host", "words"),
    [
        ({}, {"makes": 4}, ""),
        ({}, {"vfs": 2}, f"the plan leaves {PCI} (rail0) of a with 2 VFs, the operator's are 4; next"),
        (
            {"ports": [{**PORT, "mtu": 9000}]},
            {"vfs": 4},
            "(rail0) of a with MTU 1500, the operator's is 9000;",
        ),
        ({"ports": [{**PORT, "vfio": ["2-3"]}]}, {"vfs": 4}, "with VFs 2, 3 of another driver than the operator's;"),
        (
            {"ports": [{**PORT, "pci": VF, "name": "x", "vfs": 0, "mtu": 0}]},
            ETHER,
            f"leaves {VF} (x) of a with no such port;",
        ),
        ({"sync": "Failed", "error": "no memory"}, {"vfs": 4}, "the operator is not done there: Failed: no memory"),
        ({"sync": "InProgress"}, {"vfs": 4}, "not done there: InProgress"),
        ({"node": "node-7"}, {"vfs": 2, "node": "node-7"}, "with 2 VFs"),
        ({"node": "other"}, {"vfs": 2}, ""),
    ],
)
def test_the_operators_record_of_a_node_is_compared_with_the_plan(
    state: dict[str, Any], host: dict[str, Any], words: str
) -> None:
    known = document("a", **host)
    known["facts"]["labels"] = {**LABELS, "kubernetes.io/hostname": host.get("node", "a")}
    spec = {**spec_of(hosts={"a": {}}), "node_states": [{**STATE, **state}]}
    found = [text for text in held(spec, [known]).unmet if text.startswith("SriovNetworkNodeState")]
    assert [words in text for text in found] == [True] * bool(words)


def test_nothing_is_said_of_a_resource_while_a_host_was_not_read() -> None:
    parts = {**shared({"deviceIDs": ["1017"]}), "hosts": {"a": {}, "b": {}}}
    assert judge(parts, document("a")).unmet == []


def test_devices_are_counted_by_host_as_the_plan_leaves_them() -> None:
    hosts = [document("a", makes=8), document("b", vfs=8), document("c"), document("d", vfs=2, makes=0)]
    assert judge(sriov(pfNames=["rail0"]), *hosts).devices == [
        "resource nvidia.com/vf: 8 devices on 2 hosts, 0 on c, d"
    ]


def test_a_port_that_a_plugin_leaves_out_for_a_need_is_not_counted() -> None:
    hosts = [document("a"), document("b", lacking=["ib_umad"]), document("c", vfs=2)]
    assert judge(shared({"ifNames": ["rail0"]}), *hosts).devices == ["resource rdma/a: 1 device on 2 hosts, 0 on b"]


def manifests(selectors: dict[str, Any], reader: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a device plugin's ConfigMap as a user has it, and the DaemonSet that mounts it."""
    item = {"resourcePrefix": "mellanox.com", "resourceName": "vf", "selectors": {"vendors": ["15b3"], **selectors}}
    data = {"config.json": json.dumps({"resourceList": [item]})}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sriovdp-config"}, "data": data}
    volumes = [{"name": "config-volume", "configMap": {"name": "sriovdp-config"}}]
    template = {"spec": {"containers": [{"image": "x/y:latest"}], "volumes": volumes, **(reader or {})}}
    plugin = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "p"}, "spec": {"template": template}}
    return {"objects": [config, *([] if reader is None else [plugin])]}


@pytest.mark.parametrize(
    ("selectors", "reader", "unmet", "devices"),
    [
        # k8snetworkplumbingwg/sriov-network-device-plugin, issues 223 and 386
        ({"drivers": ["mlx5_ib"]}, {}, "no device for pods on ", "0 on a, b"),
        ({"devices": ["1018"]}, None, "vendors 15b3, devices 1018: no port of 2 hosts fits", "0 on a, b"),
        ({"pfNames": ["rail0#0-1"]}, {}, "no device for pods on b: rail0 has 0 VFs", "2 devices on 1 host, 0 on b"),
        # Without what reads it, its nodes are not known; a node affinity of others is not read.
        ({"pfNames": ["rail0#0-1"]}, None, "", "2 devices on 1 host, 0 on b"),
        ({"pfNames": ["rail0#0-1"]}, {"affinity": {"x": [1]}}, "", "2 devices on 1 host, 0 on b"),
        ({}, {"nodeSelector": {"gpu": "yes"}}, "", "no host has the labels of its plugin"),
    ],
)
def test_configurations_that_are_given_as_they_are_count_as_well(
    selectors: dict[str, Any], reader: dict[str, Any] | None, unmet: str, devices: str
) -> None:
    found = judge(manifests(selectors, reader), document("a", vfs=2), document("b"))
    assert found.devices == [f"resource mellanox.com/vf: {devices}"]
    assert {text.startswith(f"resource mellanox.com/vf: {unmet}") for text in found.unmet} == {True for _ in unmet}


def test_resources_with_as_many_devices_share_a_line_and_a_device_is_of_the_first() -> None:
    items = [
        {"resourceName": name, "resourcePrefix": "nvidia.com", "selectors": {"vendors": ["15b3"], "pfNames": names}}
        for name, names in (("one", ["rail0#0"]), ("rest", ["rail0#0-1"]), ("none", ["rail0#1"]))
    ]
    config = json.dumps({"resourceList": items})
    found = judge({"policy": {"sriovDevicePlugin": {**image("v3.9.0"), "config": config}}}, document("a", vfs=2))
    assert found.devices == [
        "resources nvidia.com/one, nvidia.com/rest: 1 device on 1 host",
        "resource nvidia.com/none: 0 on a",
    ]


def test_records_of_nodes_whose_hosts_were_not_read_are_named() -> None:
    ports = [{"pciAddress": PCI, "name": "rail0", "numVfs": 2}]
    records = [{"metadata": {"name": name}, "spec": {"interfaces": ports}} for name in ("a", "b")]
    (differs, unread) = compared(records, [document("a", vfs=4)])
    assert f"the plan leaves {PCI} (rail0) of a with 4 VFs, the operator's are 2" in differs
    assert unread.endswith("no host was read: b")
