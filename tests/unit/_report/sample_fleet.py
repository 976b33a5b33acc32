# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host documents composed from known values: eight-rail H100 machines, EGX servers, a guest, a plain server."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._report.report import build_report

# GPU, NIC, host bridge, RDMA device, netdev, NUMA node: the numbering of a DGX H100.
RAILS = [
    ("0000:1b:00.0", "0000:18:00.0", "pci0000:15", "mlx5_0", "ibp24s0", 0),
    ("0000:43:00.0", "0000:40:00.0", "pci0000:37", "mlx5_3", "ibp64s0", 0),
    ("0000:52:00.0", "0000:4f:00.0", "pci0000:48", "mlx5_4", "ibp79s0", 0),
    ("0000:61:00.0", "0000:5e:00.0", "pci0000:59", "mlx5_5", "ibp94s0", 0),
    ("0000:9d:00.0", "0000:9a:00.0", "pci0000:97", "mlx5_6", "ibp154s0", 1),
    ("0000:c3:00.0", "0000:c0:00.0", "pci0000:b7", "mlx5_9", "ibp192s0", 1),
    ("0000:d1:00.0", "0000:ce:00.0", "pci0000:c7", "mlx5_10", "ibp206s0", 1),
    ("0000:df:00.0", "0000:dc:00.0", "pci0000:d7", "mlx5_11", "ibp220s0", 1),
]
STORAGE = [
    ("0000:29:00.0", "pci0000:26", "mlx5_1", "enp41s0f0np0", 0),
    ("0000:29:00.1", "pci0000:26", "mlx5_2", "enp41s0f1np1", 0),
    ("0000:aa:00.0", "pci0000:a7", "mlx5_7", "enp170s0f0np0", 1),
    ("0000:aa:00.1", "pci0000:a7", "mlx5_8", "enp170s0f1np1", 1),
]


def pcie(speed: float = 32.0, width: int = 16, best: float = 32.0, widest: int = 16) -> dict[str, Any]:
    return {"speed_gts": speed, "width": width, "max_speed_gts": best, "max_width": widest}


def nic(
    address: str, family: str, rdma: str, netdev: str, *, numa: int | None, path: list[str], layer: str
) -> dict[str, Any]:
    return {
        "address": address,
        "vendor": "15b3",
        "device": "1021",
        "subsystem": "15b3:0041",
        "class": "020700",
        "family": family,
        "function": "pf",
        "pf": None,
        "driver": "mlx5_core",
        "numa_node": numa,
        "link": pcie(),
        "sriov": {"total": 16, "enabled": 0, "vf_device": "101e", "autoprobe": True, "vfs": []},
        "netdevs": [netdev],
        "rdma": [rdma],
        "link_layer": layer,
        "iommu": {"group": 12, "type": "identity"},
        "path": path,
    }


def gpu(address: str, name: str, numa: int | None, path: list[str]) -> dict[str, Any]:
    return {
        "address": address,
        "vendor": "10de",
        "device": "2330",
        "name": name,
        "driver": "nvidia",
        "numa_node": numa,
        "link": pcie(),
        "path": path,
    }


def rdma(name: str, address: str, netdev: str, rate: float, *, layer: str, firmware: str, psid: str) -> dict[str, Any]:
    return {
        "name": name,
        "pci": address,
        "netdev": netdev,
        "node_guid": "a088:c203:00b1:7e26",
        "firmware": firmware,
        "psid": psid,
        "hca_type": "MT4129",
        "ports": [
            {
                "port": 1,
                "state": "ACTIVE",
                "physical": "LinkUp",
                "rate_gbps": rate,
                "link_layer": layer,
                "lid": 42,
                "sm_lid": 1 if layer == "InfiniBand" else 0,
                "rocev2_gid_index": 3 if layer == "Ethernet" else None,
            }
        ],
    }


def netdev(name: str, address: str | None, speed: int, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "mac": "a0:88:c2:47:11:d0",
        "mtu": 4092 if kind == "infiniband" else 1500,
        "up": True,
        "operstate": "up",
        "carrier": True,
        "speed_mbps": speed,
        "link_type": kind,
        "pci": address,
        "port_name": None,
        "switch_id": None,
        "name_origin": "predictable",
        "master": None,
        "kind": "physical",
    }


def facts(hostname: str, os_name: str, kernel: str, stack: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": 1,
        "system": {
            "hostname": hostname,
            "machine": "x86_64",
            "kernel": kernel,
            "os": {"id": "ubuntu", "id_like": ["debian"], "version_id": "22.04", "name": os_name},
            "cmdline": "quiet",
            "secure_boot": False,
            "lockdown": "none",
            "ostree": False,
            "numa_nodes": 2,
        },
        "nics": [],
        "gpus": [],
        "netdevs": [],
        "rdma": [],
        "modules": {},
        "stack": {"gpu_driver_flavour": None, **stack},
        "distances": {},
        "rails": [],
        "uplinks": [{"netdev": "eno1", "pci": "0000:02:00.0", "reasons": ["default route"]}],
        "labels": {"feature.node.kubernetes.io/pci-15b3.present": "true", "kubernetes.io/arch": "amd64"},
        "unreadable": [],
    }


def h100_facts(hostname: str, layer: str = "InfiniBand") -> dict[str, Any]:
    """Facts of an eight-rail machine with two storage cards of two ports each."""
    stack = {
        "flavour": "mlnx-ofed",
        "version": "23.10-1.1.9",
        "gpu_driver": "535.161.08",
        "peer_memory": "nvidia-peermem",
    }
    found = facts(hostname, "Ubuntu 22.04.4 LTS", "5.15.0-1047-nvidia", stack)
    prefix = "ib" if layer == "InfiniBand" else "en"
    for number, (gpu_at, nic_at, bridge, device, ib_name, numa) in enumerate(RAILS):
        name = prefix + ib_name[2:]
        bus = bridge[-2:]
        root, up = f"0000:{bus}:01.0", f"0000:{int(bus, 16) + 1:02x}:00.0"
        down = f"0000:{int(bus, 16) + 2:02x}"
        inner = [f"0000:{int(gpu_at[5:7], 16) - 2:02x}:00.0", f"0000:{int(gpu_at[5:7], 16) - 1:02x}:00.0"]
        found["nics"].append(
            nic(
                nic_at,
                "ConnectX-7",
                device,
                name,
                numa=numa,
                path=[bridge, root, up, f"{down}:00.0", nic_at],
                layer=layer,
            )
        )
        found["gpus"].append(gpu(gpu_at, "H100 SXM5 80GB", numa, [bridge, root, up, f"{down}:02.0", *inner, gpu_at]))
        found["rdma"].append(rdma(device, nic_at, name, 400, layer=layer, firmware="28.39.3560", psid="MT_0000000838"))
        found["netdevs"].append(netdev(name, nic_at, 400000, "infiniband" if layer == "InfiniBand" else "ether"))
        found["rails"].append({"rail": number, "nic": nic_at, "gpu": gpu_at, "distance": "PXB"})
    for address, bridge, device, name, numa in STORAGE:
        path = [bridge, f"0000:{bridge[-2:]}:01.0", address]
        found["nics"].append(nic(address, "BlueField-3", device, name, numa=numa, path=path, layer="Ethernet"))
        found["rdma"].append(
            rdma(device, address, name, 200, layer="Ethernet", firmware="32.39.3560", psid="MT_0000000884")
        )
        found["netdevs"].append(netdev(name, address, 200000, "ether"))
    found["netdevs"].append(netdev("eno1", "0000:02:00.0", 10000, "ether"))
    return found


def egx_facts(hostname: str) -> dict[str, Any]:
    """Facts of a server with four GPUs and one ConnectX-5 of two ports; the second port is not plugged in."""
    stack = {"flavour": "inbox", "version": None, "gpu_driver": "418.87.01", "peer_memory": None}
    found = facts(hostname, "Ubuntu 18.04.6 LTS", "4.15.0-213-generic", stack)
    for index, bus in enumerate(("3b", "5e", "af", "d8")):
        bridge = f"pci0000:{('3a', '5d', 'ae', 'd7')[index]}"
        found["gpus"].append(
            gpu(f"0000:{bus}:00.0", "T4", index // 2, [bridge, f"{bridge[3:]}:00.0", f"0000:{bus}:00.0"])
        )
    for port in (0, 1):
        address, name = f"0000:86:00.{port}", f"ens2f{port}"
        path = ["pci0000:85", "0000:85:00.0", address]
        found["nics"].append(
            {**nic(address, "ConnectX-5", f"mlx5_{port}", name, numa=1, path=path, layer="Ethernet"), "device": "1017"}
        )
        found["nics"][-1]["link"] = pcie(8.0, 16, 8.0, 16)
        found["rdma"].append(
            rdma(f"mlx5_{port}", address, name, 100, layer="Ethernet", firmware="16.27.2008", psid="MT_0000000012")
        )
        found["netdevs"].append(netdev(name, address, 100000, "ether"))
    port_down(found, "0000:86:00.1", "Disabled")
    found["rails"].append({"rail": 0, "nic": "0000:86:00.0", "gpu": "0000:af:00.0", "distance": "NODE"})
    return found


def guest_facts(hostname: str) -> dict[str, Any]:
    """Facts of a guest that sees two VFs and no physical one; one has no GUID."""
    stack = {"flavour": "inbox", "version": None, "gpu_driver": None, "peer_memory": None}
    found = facts(hostname, "Rocky Linux 9.4", "5.14.0-427.el9.x86_64", stack)
    for index in (0, 1):
        address, name = f"0000:00:0{5 + index}.0", f"ens{5 + index}"
        virtual = nic(
            address, "ConnectX-7", f"mlx5_{index}", name, numa=None, path=["pci0000:00", address], layer="Ethernet"
        )
        found["nics"].append({**virtual, "function": "vf", "device": "101e", "sriov": None, "family": None})
        found["rdma"].append(
            rdma(f"mlx5_{index}", address, name, 100, layer="Ethernet", firmware="28.39.3560", psid="MT_0000000838")
        )
    found["rdma"][1]["node_guid"] = "0000:0000:0000:0000"
    return found


def plain_facts(hostname: str) -> dict[str, Any]:
    """Facts of a server without any NVIDIA device."""
    stack = {"flavour": "none", "version": None, "gpu_driver": None, "peer_memory": None}
    return facts(hostname, "Debian GNU/Linux 12 (bookworm)", "6.1.0-18-amd64", stack)


def port_down(found: dict[str, Any], address: str, physical: str = "Polling") -> None:
    """Take the link of the NIC at ``address`` down in facts."""
    for device in found["rdma"]:
        if device["pci"] == address:
            device["ports"][0].update(state="DOWN", physical=physical, rate_gbps=10, lid=0, sm_lid=0)
    for entry in found["netdevs"]:
        if entry["pci"] == address:
            entry.update(carrier=False, operstate="down", speed_mbps=None)


def step(identity: str, action: str, status: str = "planned", **changes: Any) -> dict[str, Any]:
    """One step of a plan; ``identity`` is ``concern:target``."""
    concern, _colon, target = identity.partition(":")
    return {
        "id": identity,
        "concern": concern,
        "target": target,
        "action": action,
        "from": None,
        "to": None,
        "when": "now+boot",
        "reason": "the inventory asks for it",
        "interrupts": "nothing",
        "undo": "restore the earlier value",
        "status": status,
        "consent": None,
        "detail": "",
        **changes,
    }


def h100_steps(virtual_functions: int = 0) -> list[dict[str, Any]]:
    """The steps of a machine that gets modules, a driver, rail names, VFs and jumbo frames."""
    steps = [
        step("modules:rdma_ucm", "load rdma_ucm", reason="rdma_fabric_kernel_modules lists it", undo="unload rdma_ucm"),
        step("modules:ib_umad", "load ib_umad", reason="rdma_fabric_kernel_modules lists it", undo="unload ib_umad"),
        step(
            "driver:mlnx-ofed",
            "bring the driver to DOCA-OFED 24.07-0.6.1.0-0 (now MLNX_OFED 23.10-1.1.9)",
            "needs_reboot",
            reason="NicClusterPolicy/nic-cluster-policy asks for ofedDriver",
            interrupts="traffic on every NIC while the driver reloads",
            undo="install MLNX_OFED 23.10-1.1.9 again",
        ),
    ]
    for number, (_gpu, address, _bridge, _device, name, _numa) in enumerate(RAILS):
        target = f"{address} ({name})"
        steps.append(
            step(
                f"naming:{target}",
                f"name the interface rail{number} (now {name})",
                undo="remove the .link file",
                when="boot",
            )
        )
        if virtual_functions:
            steps.append(
                step(
                    f"vfs:{target}",
                    f"create {virtual_functions} VFs (now 0)",
                    "needs_consent" if number == 3 else "planned",
                    interrupts=f"traffic on the VFs of {name}" if number == 3 else "nothing",
                    undo="set the number of VFs to 0",
                    consent="rdma_fabric_allow_vf_reset" if number == 3 else None,
                )
            )
            steps.append(step(f"mtu:{target}", "set MTU 9000 (now 1500)", undo="set MTU 1500"))
    return steps


def document(name: str, found: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Host document as rdma_host writes it."""
    return {
        "host": name,
        "recorded": True,
        "desired": {},
        "facts": found,
        "plan": {"format": 1, "steps": steps, "notices": [], "digest": f"sha256:{len(steps):064x}"},
    }


def fleet() -> list[dict[str, Any]]:
    """Seven hosts: eight-rail machines, one with a dead rail, one of RoCE; two EGX servers; a guest; a plain server."""
    healthy, broken = h100_facts("dgx01"), h100_facts("dgx02")
    port_down(broken, "0000:5e:00.0")
    broken["rdma"][5]["firmware"] = "28.38.1002"
    roce = h100_facts("roce01", "Ethernet")
    roce["nics"][2]["link"] = pcie(16.0, 16, 32.0, 16)
    egx = [step("modules:rdma_ucm", "load rdma_ucm"), step("mtu:0000:86:00.0 (ens2f0)", "set MTU 9000 (now 1500)")]
    egx.append(
        step(
            "link:0000:86:00.1 (ens2f1)",
            "bring the link up",
            "refused",
            detail="it carries the default route of the host",
        )
    )
    return [
        document("dgx-h100-01", healthy, h100_steps()),
        document("dgx-h100-02", broken, h100_steps()),
        document("roce-h100-01", roce, h100_steps(virtual_functions=4)),
        document("egx-01", egx_facts("egx-01"), egx),
        document("egx-02", egx_facts("egx-02"), copy.deepcopy(egx)),
        document("vm-vf-01", guest_facts("vm-vf-01"), [step("modules:rdma_ucm", "load rdma_ucm")]),
        document("cpu-01", plain_facts("cpu-01"), []),
    ]


def waves() -> list[dict[str, Any]]:
    """Waves as fabric_render returns them."""

    def item(kind: str, name: str, namespace: str | None = None, **parts: Any) -> dict[str, Any]:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}

    def workload(name: str, *images: str) -> dict[str, Any]:
        containers = [{"name": f"c{index}", "image": image} for index, image in enumerate(images)]
        pods = {"template": {"spec": {"containers": containers}}}
        return item("DaemonSet", name, "nvidia-network-operator", spec=pods, apiVersion="apps/v1")

    pinned = "ghcr.io/k8snetworkplumbingwg/whereabouts@sha256:" + "ab" * 32
    return [
        {"name": "namespaces", "objects": [item("Namespace", "nvidia-network-operator")]},
        {"name": "crds", "objects": [item("CustomResourceDefinition", "ippools.whereabouts.cni.cncf.io")]},
        {"name": "rbac", "objects": [item("ClusterRole", "multus"), item("ClusterRoleBinding", "multus")]},
        {"name": "configs", "objects": [item("ConfigMap", "rdma-devices", "nvidia-network-operator")]},
        {
            "name": "workloads",
            "objects": [
                workload("kube-multus-ds", "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.0.2"),
                workload("rdma-shared-dp-ds", "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.1"),
                workload("whereabouts", pinned),
            ],
        },
        {"name": "networks", "objects": [item("NetworkAttachmentDefinition", "rdma-net", "default")]},
    ]


def batch_result() -> dict[str, Any]:
    """Result of k8s_batch for ``waves()``: one object changed, one removed, the others as they were."""
    results = [
        {
            "apiVersion": entry["apiVersion"],
            "kind": entry["kind"],
            "namespace": entry["metadata"].get("namespace"),
            "name": entry["metadata"]["name"],
            "wave": wave["name"],
            "action": "unchanged",
            "fields": [],
        }
        for wave in waves()
        for entry in wave["objects"]
    ]
    results[5].update(action="configured", fields=["spec.template.spec.containers[0].image"])
    results[0].update(action="created")
    gone = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "old",
        "wave": None,
        "action": "deleted",
    }
    return {
        "changed": True,
        "results": [*results, {**gone, "fields": []}],
        "waits": [
            {
                "kind": "DaemonSet",
                "namespace": "nvidia-network-operator",
                "name": name,
                "ready": name != "whereabouts",
                "reason": "2 of 5 pods are not ready: ImagePullBackOff" if name == "whereabouts" else "",
                "desired": 0 if name == "rdma-shared-dp-ds" else 5,
                "available": 3 if name == "whereabouts" else 5,
                "seconds": 3.2,
            }
            for name in ("kube-multus-ds", "rdma-shared-dp-ds", "whereabouts")
        ],
        "requests": {"list": 8, "patch": 2, "get": 0, "delete": 1},
        "notices": [],
        "diff": [],
    }


def spec(hosts: list[str]) -> dict[str, Any]:
    """FabricSpec of the fleet."""
    return {
        "version": 1,
        "namespace": "nvidia-network-operator",
        "cluster_policy": {
            "name": "nic-cluster-policy",
            "spec": {"ofedDriver": {}, "rdmaSharedDevicePlugin": {}, "secondaryNetwork": {}},
            "source": "policy.yaml",
        },
        "node_policies": [],
        "networks": [{"kind": "MacvlanNetwork", "name": "rdma-net", "spec": {}, "source": "networks.yaml"}],
        "attachments": [],
        "objects": [],
        "settings": {},
        "host_requests": [],
        "hosts": {name: {} for name in hosts},
    }


def report_of(hosts: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    hosts = fleet() if hosts is None else hosts
    inputs: dict[str, Any] = {
        "spec": spec([entry["host"] for entry in hosts]),
        "hosts": hosts,
        "cluster": batch_result(),
        "rendered": waves(),
        "notices": ["policy.yaml:7: a retired field was translated"],
        "generated_at": "2026-01-02T03:04:05Z",
        "title": "RDMA fabric report",
    }
    return build_report(**{**inputs, **changes})
