# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of a host means beyond the host itself: said on the controller, as no step depends on it. Pure.

What programs read once, when they start: containers inherit the limits of their runtime, the kubelet counts huge pages
(kubernetes/kubernetes, issue 72307), the SR-IOV device plugin looks for VFs (sriov-network-device-plugin, issue 276),
and a container has the device files that there were. mlx5 makes the GUID of a VF's RDMA device from the MAC address
that the port sets, and RDMA-CM finds devices by it (sriov-network-operator, issue 267; rdma-core, pull request 1547).
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Callable, Iterable, Iterator, Mapping, Pattern, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import BOOT, REFUSED, describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.devices import MELLANOX
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import NO_SUCH
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.owners import MACHINES
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.by_range import VFIO, per_vf
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.memory import UNLIMITED
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line

from .meanings import meaning_of, nearest_to

Document = Mapping[str, Any]

_ZERO = "0000:0000:0000:0000"
_OTHER_PYTHON = (
    "install Python 3.8 or newer of the distribution, or one on a local file system outside of homes, and set "
    "ansible_python_interpreter of the host to it"
)
# What to do about a refusal or notice, by a part of its text that stands in the sources of the host, with what is now
# and what is wanted; a mapping is by the distribution's ID, "" for others. Socket Direct: torvalds/linux,
# drivers/net/ethernet/mellanox/mlx5/core/lib/sd.c, mlx5_sd_get_adev.
_REMEDIES: Mapping[str, str | Mapping[str, str]] = {
    "which is mounted ro": "mount it writable, or leave out here what its image sets",
    "which is mounted noexec": _OTHER_PYTHON,
    "which is on the network": f"keep it on a local file system; of a Python, {_OTHER_PYTHON}",
    "SELinux lets systemd start nothing there": _OTHER_PYTHON,
    "fapolicyd does not let Python open what is in": (
        "echo 'allow perm=open uid=0 : dir=/var/lib/rdma-fabric/program/' > /etc/fapolicyd/rules.d/19-rdma.rules && "
        "fagenrules --load on the host"
    ),
    "renamed, it has no address and no route after the next boot": (
        "configure {to} there as well, run again, and remove {now} there once the host has started with the new name"
    ),
    "has a program name it at each boot, after ours": (
        "see whether it gives another name (udevadm test /sys/class/net/NAME), and then keep it from this port"
    ),
    "the BIOS left no memory for its VFs": (
        "switch SR-IOV and Above 4G Decoding on in the BIOS, or add rdma_fabric_kernel_arguments: [pci=realloc], and "
        "reboot; until then the kernel refuses each number"
    ),
    "if no VF is bound while it is made, at each boot as well, and the boot unit binds them before it": (
        "leave vfs and eswitch_mode out here and have netplan do both for these ports (virtual-function-count, "
        "embedded-switch-mode: switchdev, delay-virtual-functions-rebind: true), or take them out of the bond"
    ),
    "its driver is loaded, and no interface is here": (
        "look for it in another network namespace, load ib_ipoib, or, of a Socket Direct card, select the first half, "
        "which has the interface"
    ),
    "it has neither an interface nor an RDMA device, and nothing tells which flash is behind it": (
        "of a Socket Direct card ask for the image in the entry of the half that has them, else load its driver"
    ),
    "the fabric manager manages this host's NVSwitches through it": (
        "remove the entry: it is not a NIC of the fabric, and without it GPUs have no NVLink"
    ),
    "a network manager has taken these VFs, and keeps them until the next boot": (
        "take them from it (nmcli device set NAME managed no), or give those that the host itself uses entries in "
        "rdma_fabric_interfaces"
    ),
    "the driver answers no DCB request": (
        "look for another owner of the port in its firmware (DPU mode, multi-host), and at the kernel's "
        "CONFIG_MLX5_CORE_EN_DCB"
    ),
    "no run sets these registers, and each start of the card loses them": (
        "a NicConfigurationTemplate with spectrumXOptimized for NVIDIA's NIC configuration operator, which also runs "
        "the congestion control (doca_spcx_cc), or a unit of your own with mlxreg and doca_spcx_cc"
    ),
    "no supported boot loader was found": {
        "flatcar": "add it to linux_append in /oem/grub.cfg, reboot, and run again",
        "nixos": "add it to boot.kernelParams, rebuild, reboot, and run again",
        "": "have the boot loader of this host pass it to the kernel, reboot, and run again",
    },
}
# By the files that it writes again: who does, and its own switch, as an edit is gone with the next boot or update.
# cloud-init: cloudinit/net/*.py; netplan(5); systemd-network-generator.service(8); nm-initrd-generator(8);
# Mellanox/mlnx-tools, udev/rules.d; k8snetworkplumbingwg/sriov-network-operator, pkg/host/internal/udev.
_WRITERS: tuple[tuple[Pattern[str], str], ...] = (
    (
        re.compile(
            r"/etc/netplan/50-cloud-init\.yaml|/etc/network/interfaces\.d/50-cloud-init(?:\.cfg)?|"
            r"/etc/systemd/network/10-cloud-init-[^\s,]+|/etc/NetworkManager/system-connections/cloud-init-[^\s,]+"
        ),
        "before that keep cloud-init from {file}, which it writes again at a boot, and from naming interfaces by MAC "
        "address itself: network: {{config: disabled}} in /etc/cloud/cloud.cfg.d/99-disable-network-config.cfg, or "
        "change the source of it (user data, MAAS, the cloud)",
    ),
    (
        re.compile(r"/run/systemd/network/10-netplan-[^\s,]+|/run/NetworkManager/system-connections/netplan-[^\s,]+"),
        "netplan makes {file} anew at each boot: change its definition in /etc/netplan, and run netplan generate",
    ),
    (
        re.compile(r"/etc/netplan/90-NM-[^\s,]+"),
        "NetworkManager writes {file} whenever its profile changes: change that by nmcli connection modify",
    ),
    (
        re.compile(
            r"/run/systemd/network/(?:7[01]|91)-[^\s,]+|/run/NetworkManager/system-connections/(?!netplan-)[^\s,]+"
        ),
        "{file} is made anew at each boot from kernel arguments (ip=, ifname=): change those",
    ),
    (
        re.compile(r"(?:/etc|/usr/lib)/tuned/[^\s,]+/tuned\.conf"),
        "TuneD sets what {file} has at each start: change it in a profile of your own in /etc/tuned that includes that "
        "one (tuned-adm profile), of sysctls also by reapply_sysctl = 1 in /etc/tuned/tuned-main.conf",
    ),
    (
        re.compile(r"/etc/udev/rules\.d/(?:10-pf-name|20-switchdev)-[^\s,]+"),
        "the SR-IOV operator writes {file} by its policies: ask for that name here, or take the port out of them",
    ),
    (
        re.compile(
            r"(?:/usr)?/lib/udev/rules\.d/[^\s,]+|/etc/udev/rules\.d/8[2-6]-(?:net-setup-link|mlnx|BF4|ASTRA)[^\s,]*"
        ),
        "a package writes {file} again: mask it by a link of its name to /dev/null in /etc/udev/rules.d",
    ),
)
_OF_MACHINES = (
    "the machine config daemon keeps {file} as its MachineConfig has it, and marks a node that differs as degraded: "
    "change it there"
)
# The step about an entry whose selector no interface has, and the notice about a policy that selects by name.
_SELECTOR = re.compile(r"naming:(pci|mac|current_name)=(.*)\Z")
_SELECTED_BY = re.compile(r"none of its ports \((?:.*; )?by name: ([^;)]+)")
# Modules that make a file in /dev/infiniband for programs.
_DEVICE_FILES = ("ib_umad", "ib_uverbs", "rdma_ucm")


def explained(result: dict[str, Any], desired: Mapping[str, Any], said: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answer of a host, with what was ``said`` before it, and what its plan means for the cluster."""
    if not result.get("plan") or not result.get("facts"):
        return result
    facts = completed(result["facts"])
    result = _with_remedies(result, facts)
    plan = result["plan"]
    steps = [step for step in plan["steps"] if step["status"] == "planned" and step["when"] != BOOT]
    # Of a step that was executed its line is known, which says when it acts.
    done = {each["id"] for each in result.get("executed") or () if f" [{BOOT}; " not in each["line"]}
    ids = {*done, *(step["id"] for step in steps)}
    document = {"desired": desired, "facts": facts, "ids": ids, "steps": steps}
    found = [*said, *(notice for judge in _NOTICES for notice in judge(document))]
    return {**result, "plan": {**plan, "notices": [*plan["notices"], *found]}} if found else result


def _with_remedies(result: dict[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer in which each refusal and notice ends with what to do about it, wherever the answer has it."""
    plan = result["plan"]
    steps = [_with_remedy(step, facts) if step["status"] == REFUSED else step for step in plan["steps"]]
    notices = [f"{text}{_of_policy(text, facts)}{remedy_of(text, facts)}" for text in plan["notices"]]
    notices = [f"{text}{_writers_of(text, facts)}" for text in notices]
    told = {describe(former): describe(now) for former, now in zip(plan["steps"], steps) if now is not former}
    told.update({one_line(former): one_line(now) for former, now in zip(plan["notices"], notices) if now != former})
    if not told:
        return result
    found = {**result, "plan": {**plan, "steps": steps, "notices": notices}}
    for former, text in told.items():
        found["msg"] = str(found.get("msg", "")).replace(former, text)
        if "diff" in found:
            found["diff"] = {key: whole.replace(former, text) for key, whole in found["diff"].items()}
    return found


def _with_remedy(step: Any, facts: Mapping[str, Any]) -> Any:
    selector = _SELECTOR.match(step["id"])
    detail = step["detail"]
    if selector and detail.startswith(NO_SUCH):
        detail += _meaning(selector[1], selector[2], facts)
    else:
        detail += f"{remedy_of(detail, facts, step)}{_writers_of(detail, facts)}"
    return step if detail == step["detail"] else {**step, "detail": detail}


def _meaning(key: str, value: str, facts: Mapping[str, Any]) -> str:
    """Return what the selector of an entry without an interface means on this host, else what is nearest to it."""
    meaning = _here(value, facts) if key == "current_name" else ""
    unknown = (nearest_to(key, value, facts), "next: correct the entry, or look for the card on the host (lspci -D)")
    return "".join(f"; {text}" for text in ([meaning] if meaning else unknown) if text)


def _here(name: str, facts: Mapping[str, Any]) -> str:
    return meaning_of(name, [{"facts": facts, "plan": {"steps": []}}])


def _of_policy(notice: str, facts: Mapping[str, Any]) -> str:
    """Return what the names mean by which a policy selects none of the ports of a host."""
    found = _SELECTED_BY.search(notice)
    names = found[1].split(", ") if found else []
    meanings = {name: _here(name, facts) for name in names}
    return "".join(f"; {name}: {meaning}" for name, meaning in meanings.items() if meaning)


def _writers_of(text: str, facts: Mapping[str, Any]) -> str:
    """Return who writes files again that a text names, each with its own switch."""
    found = [(pattern.search(text), switch) for pattern, switch in _WRITERS]
    switches = [switch.format(file=match.group()) for match, switch in found if match]
    kept = _kept_by_machines(facts).intersection(word.strip(":;,") for word in text.split())
    switches += [_OF_MACHINES.format(file=", ".join(sorted(kept)))] if kept else []
    return "".join(f"; {switch}" for switch in switches)


def _kept_by_machines(facts: Mapping[str, Any]) -> set[str]:
    """Return the files that OpenShift's machine config daemon, which runs here, compares with its configuration."""
    owner = (facts.get("owners") or {}).get(MACHINES) or {}
    return set(owner.get("files") or ()) if owner.get("daemon") else set()


def remedy_of(refusal: str, facts: Mapping[str, Any], step: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return what to do about a refusal of a host, empty where the refusal says it or nothing is known."""
    system = facts.get("system", {}).get("os", {}).get("id", "")
    remedies = (remedy for part, remedy in _REMEDIES.items() if part in refusal)
    text = next((each if isinstance(each, str) else each.get(system, each.get("", "")) for each in remedies), "")
    return f"; next: {text.format(now=step.get('from'), to=step.get('to'))}" if text else ""


def _runtimes(document: Document) -> Iterator[str]:
    """Yield a notice for each container runtime that runs with lower limits than those of the spec."""
    limits, units = (
        document["desired"].get("limits") or {},
        (_settings(document).get("limits") or {}).get("units") or {},
    )
    for unit, state in units.items():
        running = state["running"] or {}
        lower = [
            f"{key} {f'{running[key] >> 10} KiB' if key == 'memlock' else running[key]}"
            for key, value in limits.items()
            if value is not None and isinstance(running.get(key), int) and _is_less(key, running[key], value)
        ]
        if lower:
            yield f"{unit} runs with {', '.join(lower)} until it is started again: {_restart(unit)}"


def _is_less(key: str, now: int, wanted: int | str) -> bool:
    return wanted == UNLIMITED or now < int(wanted) * (1024 if key == "memlock" else 1)


def _kubelets(document: Document) -> Iterator[str]:
    """Yield a notice for each kubelet of a host whose huge pages change while it runs."""
    if any(each.startswith("hugepages:") and "/" not in each for each in document["ids"]):
        for unit in (_settings(document).get("hugepages") or {}).get("kubelets") or ():
            yield f"{unit} counts huge pages when it starts: pods are offered the former ones until {_restart(unit)}"


def _device_files(document: Document) -> Iterator[str]:
    """Yield a notice about modules whose device files running containers lack."""
    names = [name for name in _DEVICE_FILES if f"modules:{name}" in document["ids"]]
    if names:
        yield f"pods that run have no device file of {', '.join(names)} yet: start those that need it again"


def _device_plugins(document: Document) -> Iterator[str]:
    """Yield a notice about VFs that an SR-IOV device plugin knows as they were."""
    changed = [step["target"] for step in document["steps"] if step["id"].startswith("vfs:") and _count(step["from"])]
    if changed:
        yield (
            f"an SR-IOV device plugin that runs here keeps offering the former VFs of {', '.join(changed)} until its "
            "pod on the node is deleted"
        )


def _count(value: object) -> bool:
    return isinstance(value, int) and value > 0


def _files_of_machines(document: Document) -> Iterator[str]:
    """Yield a notice about files of the plan that OpenShift keeps as well."""
    files = {each.partition(":")[2] for each in document["ids"]} & _kept_by_machines(document["facts"])
    if files:
        yield _OF_MACHINES.format(file=", ".join(sorted(files)))


def _without_guid(document: Document) -> Iterator[str]:
    """Yield a notice about VFs of mlx5 on Ethernet that RDMA-CM does not find, whether they are there or made."""
    guids = {each["pci"]: each["node_guid"] for each in document["facts"]["rdma"]}
    ports = []
    for nic in document["facts"]["nics"]:
        if nic["vendor"] != MELLANOX or nic["link_layer"] != "Ethernet" or not nic["rdma"] or nic["function"] != "pf":
            continue
        there = (nic["sriov"] or {}).get("vfs") or []
        for entry in _entries_of(document, nic):
            wanted = entry.get("vfs") or 0
            lacking = wanted > len(there) or any(guids.get(vf, "") == _ZERO for vf in there)
            vfs = zip(per_vf(entry.get("vf_settings"), wanted), per_vf(entry.get("vf_driver"), wanted))
            if lacking and any(driver != VFIO and not (settings or {}).get("mac") for settings, driver in vfs):
                ports.append(nic["address"])
    if ports:
        yield (
            f"{named(ports)}: VFs whose MAC address the port does not set have node GUID 0, and RDMA-CM does not find "
            "them (rping, ib_write_bw -R, NVMe and NFS over RDMA); next: vf_settings: {mac: deterministic} in the "
            f"{'entry of each' if len(ports) > 1 else 'entry'} (rdma_fabric_interfaces)"
        )


def _entries_of(document: Document, nic: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the entries of a port, by its address, name or MAC address."""
    macs = {each["mac"] for each in document["facts"]["netdevs"] if each["pci"] == nic["address"]}
    for entry in document["desired"].get("interfaces") or ():
        selected = (entry.get("pci"), entry.get("current_name"), entry.get("name"), entry.get("mac"))
        if {nic["address"], *nic["netdevs"], *macs}.intersection(filter(None, selected)):
            yield entry


def _settings(document: Document) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document["facts"].get("settings") or {}
    return found


def _restart(unit: str) -> str:
    return f"systemctl restart {unit}"


_NOTICES: tuple[Callable[[Document], Iterable[str]], ...] = (
    _runtimes,
    _kubelets,
    _device_files,
    _device_plugins,
    _files_of_machines,
    _without_guid,
)
