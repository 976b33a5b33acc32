# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each component of the cluster needs of a host: one table. Pure, standard library.

Requests for modules, notices about hosts and ports, the meaning of errors of pods and ``docs/needs.md`` are made of it.
Without these rules the API server accepts an object, and pods fail or wait in silence.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple, Tuple

Release = Tuple[int, int, int]

SHARED, SRIOV = "rdma-shared-device-plugin", "sriov-device-plugin"
MODULE, LINK, FREE, MTU, PCI, VF, NETNS, VLAN = "module", "link", "free", "mtu", "pci", "vf", "netns", "vlan"
ESWITCH, LEGACY, SWITCHDEV, BRIDGED = "eswitch", "legacy", "switchdev", "bridged switchdev"
DRIVER, PART, NOT_KERNEL, PROGRAM, PODS = "driver", "part", "not kernel", "program", "pods"
"""Kinds of needs. Those of a ``program`` are held against the input, of the driver for a ``part`` of the traffic by the
report, and those of ``pods`` are said by the page alone."""
_INBOX = "inbox"
# They bring drivers of later kernels under the number of an old one, so that it tells nothing.
_BACKPORTING = frozenset({"rhel", "fedora", "centos", "suse", "sles", "opensuse"})
_CNI_PLUGINS = "secondaryNetwork.cniPlugins"


class Need(NamedTuple):
    """One row: components (a device plugin, or types of CNI plugins) need ``want`` of ``kind``, said as ``text``.

    ``when`` is a key of the selectors or of the CNI configuration that has to be set, ``key=value`` one with a value.
    ``since`` and ``until`` bound the releases of the component, the second not included. ``seen`` is what reasons of
    pods say where it is not met, ``link`` the link layer of hosts that a module is loaded on (empty: all).
    """

    components: tuple[str, ...]
    kind: str
    want: tuple[str, ...]
    text: str
    step: str
    source: str
    when: str = ""
    since: Release | None = None
    until: Release | None = None
    seen: str = ""
    link: str = ""


ISOLATE = (
    'set "rdmaIsolation": true of ib-sriov, without the rdma plugin, in a NetworkAttachmentDefinition: a '
    "SriovIBNetwork has no field for it, and brings ib-sriov to the nodes"
)
_ON_MASTER = ("macvlan", "ipvlan", "vlan")
_MODULES = "load it (rdma_fabric_kernel_modules)"
_SPEC_GO = "k8s-rdma-shared-dev-plugin: pkg/resources/rdma_device_spec.go; rdma-core: kernel-boot/modules"
_PCI_GO = "k8s-rdma-shared-dev-plugin: pkg/resources/pci_net_device.go"
_MACVLAN_C = "Linux: macvlan_port_create in drivers/net/macvlan.c"
_SRIOV_DOCS = "sriov-network-device-plugin: docs"

NEEDS: tuple[Need, ...] = (
    Need((SHARED,), MODULE, ("rdma_ucm",), "the device file rdma_cm, of the module rdma_ucm", _MODULES, _SPEC_GO),
    Need(
        (SHARED,),
        MODULE,
        ("ib_umad",),
        "the device files umad*, of the module ib_umad, which nothing else loads for Ethernet",
        _MODULES,
        _SPEC_GO,
    ),
    Need(
        (SHARED,),
        LINK,
        ("InfiniBand",),
        "the device files issm*, which InfiniBand ports alone have",
        "use v1.5.2 or newer for Ethernet ports",
        "k8s-rdma-shared-dev-plugin#116",
        since=(1, 1, 0),
        until=(1, 5, 2),
    ),
    Need(
        (SHARED,),
        PCI,
        (),
        "a PCI function with an RDMA device: no bond, VLAN or IPoIB child",
        "name the port below it that has the RDMA device",
        _PCI_GO,
    ),
    Need(
        (SHARED,),
        NETNS,
        ("shared",),
        "RDMA devices that all network namespaces share",
        "set rdma_fabric_netns_mode: shared, or use the SR-IOV device plugin",
        "k8s-rdma-shared-dev-plugin: pkg/resources/resources_manager.go",
        since=(1, 2, 0),
    ),
    Need(
        (SRIOV,),
        MODULE,
        ("rdma_ucm",),
        "the device file rdma_cm, of the module rdma_ucm: pods silently lack it",
        _MODULES,
        "sriov-network-device-plugin: pkg/devices/rdma.go",
        when="isRdma",
    ),
    *(
        Need((SRIOV,), MODULE, (module,), f"the device file of the module {module}", _MODULES, _SRIOV_DOCS, when=when)
        for when, module in (
            ("needVhostNet", "tun"),
            ("needVhostNet", "vhost_net"),
            ("vdpaType=vhost", "vhost_vdpa"),
            ("vdpaType=virtio", "virtio_vdpa"),
        )
    ),
    Need(
        (SRIOV,),
        PCI,
        (),
        "a PCI or auxiliary function: no bond or VLAN",
        "name the port below it",
        "sriov-network-device-plugin: pkg/netdevice/netDeviceProvider.go",
    ),
    Need(
        (SRIOV,),
        PODS,
        (),
        "for VFs bound to vfio-pci: an IOMMU group, and hugepages for DPDK",
        "set rdma_fabric_hugepages",
        f"{_SRIOV_DOCS}/dpdk",
    ),
    Need(
        _ON_MASTER,
        LINK,
        ("Ethernet",),
        "an Ethernet port as the master",
        "use an IPoIBNetwork there",
        _MACVLAN_C,
        seen=r"failed to create (?:macvlan|ipvlan): invalid argument",
    ),
    Need(
        _ON_MASTER,
        FREE,
        (),
        "a master that belongs to no bond or bridge, and carries no macvlan beside ipvlan",
        "name the bond as the master, or another port",
        _MACVLAN_C,
        seen=r"failed to create (?:macvlan|ipvlan): device or resource busy",
    ),
    Need(
        ("macvlan", "vlan"),
        MTU,
        (),
        "a master with an MTU of at least the network's",
        "set mtu for the port in rdma_fabric_interfaces, or a smaller one for the network",
        "containernetworking/plugins: plugins/main/macvlan, vlan",
        seen="invalid MTU",
    ),
    Need(
        ("ipoib",),
        LINK,
        ("InfiniBand",),
        "an IPoIB interface as the master",
        "name an InfiniBand port, or use a MacvlanNetwork",
        "ipoib-cni: main.go",
        seen="not of type ipoib",
    ),
    Need(
        ("ipoib",),
        MODULE,
        ("ib_ipoib",),
        "the module ib_ipoib",
        _MODULES,
        "ipoib-cni: pkg/ipoib",
        link="InfiniBand",
    ),
    Need(
        ("ipoib",),
        NOT_KERNEL,
        ("4.18.0-477.", "5.14.0-284."),
        "another kernel than RHEL 8.8's and 9.2's, which makes no IPoIB children",
        "update the kernel",
        "network-operator-docs: release notes 23.10.0",
    ),
    Need(
        ("ipoib",),
        PART,
        ("5.8", "5.1"),
        "Linux 5.8 or MLNX_OFED 5.1, or newer, where pods of one host talk to each other",
        "update the driver",
        "ipoib-cni: README, Limitations",
    ),
    Need(
        ("sriov",),
        LINK,
        ("Ethernet",),
        "VFs of Ethernet ports, whose MAC addresses and VLANs it sets",
        "use a SriovIBNetwork there",
        "sriov-cni: README",
    ),
    Need(
        ("sriov", "ib-sriov"),
        VF,
        (),
        "VFs whose port is on the node: it looks that up by physfn",
        "make VFs (vfs, numVfs), or use a HostDeviceNetwork",
        "sriov-cni#206; sriov-cni, ib-sriov-cni: getVfInfo of pkg/config",
        seen=r"failed to get VF information",
    ),
    Need(
        ("sriov",),
        ESWITCH,
        (LEGACY, BRIDGED),
        "VFs of a port in legacy mode: in switchdev mode nothing arrives that the host does not forward",
        "use an OVSNetwork, or bridge the port with the representors of its VFs",
        "Linux: Documentation/networking/representors.rst",
    ),
    *(
        Need(
            ("sriov",),
            ESWITCH,
            (LEGACY,),
            f"VFs of a port in legacy mode to set {key}: in switchdev mode pods do not start",
            "leave it out of the network, or set eswitch_mode: legacy",
            "Linux: esw/legacy.c and eswitch.c of mlx5; sriov-cni: ApplyVFConfig of pkg/sriov",
            when=key,
        )
        for key in ("vlan", "trust", "spoofchk")
    ),
    Need(
        ("ovs",),
        ESWITCH,
        (SWITCHDEV, BRIDGED),
        "VFs of a port in switchdev mode, whose representors it puts on the bridge: in legacy mode pods do not start",
        "give eSwitchMode: switchdev in the policy (eswitch_mode of the port), or use a SriovNetwork",
        "ovs-cni: GetNetRepresentor of pkg/sriov; sriovnet: GetUplinkRepresentor",
        seen="uplink for .* not found",
    ),
    Need(
        ("sriov",),
        VLAN,
        (),
        "the VLAN of its VFs in the network: a SriovNetwork without one sets 0, whatever the host has set",
        "give the network the vlan, or leave it out of vf_settings",
        "sriov-network-operator: sriov-cni-config.yaml; sriov-cni: ApplyVFConfig of pkg/sriov",
        when="vlan=0",
    ),
    Need(
        ("ib-sriov",),
        LINK,
        ("InfiniBand",),
        "VFs of InfiniBand ports",
        "use a SriovNetwork there",
        "ib-sriov-cni: README",
    ),
    Need(
        ("ib-sriov",),
        MODULE,
        ("ib_ipoib",),
        "the module ib_ipoib, of the VFs' interfaces",
        _MODULES,
        "ib-sriov-cni: main.go",
        link="InfiniBand",
    ),
    *(
        Need(
            (program,),
            NETNS,
            ("exclusive",),
            "exclusive RDMA devices, which alone move into a pod's network namespace",
            "set rdma_fabric_netns_mode: exclusive on the node, or leave it out of the network",
            "rdma-cni: README; rdma-system(8)",
            when=when,
            seen=seen,
        )
        for program, when, seen in (
            ("rdma", "", "awareness mode is set to shared|failed to move RDMA device"),
            ("ib-sriov", "rdmaIsolation", ""),
        )
    ),
    Need(
        ("rdma",),
        LINK,
        ("Ethernet",),
        "VFs of Ethernet ports: the kernel deletes the IPoIB interface of an RDMA device that is moved",
        ISOLATE,
        "rdma-cni#21; ib-sriov-cni: README",
    ),
    Need(
        ("rdma",),
        DRIVER,
        ("5.3", "4.7"),
        "Linux 5.3 or MLNX_OFED 4.7, or newer",
        "update the driver",
        "rdma-cni: README",
    ),
    Need(
        ("host-device",),
        PCI,
        (),
        "a PCI function: what is none has no RDMA device that goes along",
        "name a port or a VF",
        "containernetworking/plugins: plugins/main/host-device",
    ),
    *(
        Need(
            (program,),
            MODULE,
            ("nf_tables",),
            "the module nf_tables, and the program nft",
            _MODULES,
            "containernetworking/plugins: pkg/link/spoofcheck.go, pkg/ip, plugins/meta/portmap",
            when=when,
        )
        for program, when in (
            ("bridge", "macspoofchk"),
            ("bridge", "ipMasqBackend=nftables"),
            ("ptp", "ipMasqBackend=nftables"),
            ("portmap", "backend=nftables"),
        )
    ),
    *(
        Need(names, PROGRAM, (section,), f"its program on the nodes ({section})", "add the section", source)
        for names, section, source in (
            (
                (
                    *("bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan"),
                    *("loopback", "macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"),
                ),
                _CNI_PLUGINS,
                "containernetworking/plugins: plugins",
            ),
            (("ipoib",), "secondaryNetwork.ipoib", "ipoib-cni: README"),
            (("nv-ipam",), "nvIpam", "nvidia-k8s-ipam: README"),
            (("whereabouts",), "secondaryNetwork.ipamPlugin", "whereabouts: README"),
        )
    ),
)


def needs_of(component: str, given: Mapping[str, Any], release: Release | None = None) -> Iterator[Need]:
    """Yield the rows of a component with these selectors or this configuration, of a release: None is a current one."""
    for need in NEEDS:
        if component in need.components and _is_set(need.when, given) and of_release(need, release):
            yield need


def _is_set(when: str, given: Mapping[str, Any]) -> bool:
    key, _equal, value = when.partition("=")
    return not when or (str(given.get(key)) == value if value else bool(given.get(key)))


def of_release(need: Need, release: Release | None) -> bool:
    """Return whether a row is about a release of its component, a current one without numbers."""
    if release is None:
        return need.until is None
    return (need.since is None or need.since <= release) and (need.until is None or release < need.until)


def modules_of(component: str, given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the kernel modules that a component needs, by the link layer of the hosts (empty: all)."""
    found: dict[str, list[str]] = {}
    for need in needs_of(component, given):
        if need.kind == MODULE:
            found.setdefault(need.link, []).extend(need.want)
    return found


def too_old(facts: Mapping[str, Any], need: Need) -> str:
    """Return the driver of a host that is older than kernel or MLNX_OFED of a row about it; empty if it is not."""
    kernel, ofed = map(_numbers, need.want)
    stack, system = facts["stack"], facts["system"]
    if stack["flavour"] != _INBOX:
        version = _numbers(stack["version"])
        return f"{stack['flavour']} {stack['version']}" if version and ofed and version < ofed else ""
    names = {system["os"]["id"], *system["os"]["id_like"]}
    own = _numbers(system["kernel"])
    return f"kernel {system['kernel']}" if own and kernel and own < kernel and not names & _BACKPORTING else ""


def _numbers(version: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(found.group(1)), int(found.group(2))) if found else None
