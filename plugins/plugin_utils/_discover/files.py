# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an inventory, as text, from what was found about a fleet. Pure; every line says why it is there."""

from __future__ import annotations

import json
import re
from typing import Iterable, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import MODULE, SHARED, SRIOV, needs_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line

from .policy import offered_twice, policy_file
from .presets import PRESETS
from .rails import INFINIBAND, Fleet, Host, HostClass, LeftOut, Port, Slot

MARKER = "# Written by rdma.fabric.discover"
"""The first line of every file begins with it."""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*\Z", re.ASCII)
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_NAMED = 5
_JUMBO = 9000


POLICY_FILE = "group_vars/all.yml"


def files_of(fleet: Fleet, policy_from: str = "") -> dict[str, str]:
    """Return the text of every file by its path below the folder: hosts.yml, group_vars and host_vars.

    ``policy_from`` names the variable that gives a policy already: the one that is written is a comment then.
    """
    policy = policy_file(fleet)
    if policy_from:
        policy = f"# {_standing_back(policy_from)}:\n{_commented(policy)}"
    planned = "".join(f"# {text}\n" for text in planned_from(fleet))
    files = {"hosts.yml": _inventory(fleet), POLICY_FILE: f"{MARKER}.\n{planned}---\n{policy}"}
    for each in fleet.classes:
        files[f"group_vars/{each.name}.yml"] = _group_file(each, fleet)
        for at in each.differing():
            files[f"host_vars/{each.hosts[at].name}.yml"] = _host_file(each, at, fleet)
    return files


def recap(fleet: Fleet, folder: str, unread: Sequence[str], *, policy_from: str = "") -> list[str]:
    """Return what was found, and what is in no file, line by line."""
    lines = planned_from(fleet)
    for each in fleet.classes:
        rails = [slot for slot in each.slots if slot.rail]
        names = f"{rails[0].name} to {rails[-1].name}" if len(rails) > 1 else rails[0].name
        lines.append(f"{each.name}: {_count(len(each.hosts), 'host')}, {names}, {each.title}")
        lines += [f"  {text}" for text in _remarks(each)]
        differing = [each.hosts[at].name for at in each.differing()]
        lines += [f"  host_vars for other PCI addresses: {_listed(differing)}"] if differing else []
    lines += [f"left out: {_listed(hosts)}, {why}" for why, hosts in _by_reason(fleet.without).items()]
    lines += clashes(fleet)
    lines += [f"not read, so in no file: {_listed(unread)}"] if unread else []
    lines += [f"policy: in {folder}/{POLICY_FILE} as a comment. {_standing_back(policy_from)}"] if policy_from else []
    return lines


def notices_of(fleet: Fleet) -> list[str]:
    """Return what is as no file can ask for: each MTU that is left out, each port that is offered in two ways."""
    mtus = [
        f"{each.name}, {slot.name}: {slot.unset_mtu}; next: "
        f"{'give rdma_fabric_discover_mtu' if slot.rail else 'add an mtu to its entry'}"
        for each in fleet.classes
        for slot in each.slots
        if slot.unset_mtu
    ]
    return [*mtus, *offered_twice(fleet)]


def planned_from(fleet: Fleet) -> list[str]:
    """Return what to know of files that are from a preset, nothing where hosts were read."""
    machine = fleet.classes[0].hosts[0].machine if fleet.classes else ""
    if not machine:
        return []
    return [
        f"Planned from the published layout of {machine}; no host was read.",
        "Once they are delivered, confirm the files: run discover on them with rdma_fabric_discover_overwrite=true.",
    ]


def _standing_back(policy_from: str) -> str:
    return f"Your inventory has {policy_from} and a second policy would not be taken: add there what pods are offered"


def _commented(text: str) -> str:
    return "".join(line if line.startswith("#") else f"# {line}" for line in text.splitlines(keepends=True))


def _inventory(fleet: Fleet) -> str:
    lines = [
        f"{MARKER}: hosts with the same hardware are one group.",
        *(f"# {text}" for text in planned_from(fleet)),
        "# Your own inventory says how to reach them; give both: -i YOURS -i THIS_FILE",
        "---",
        "rdma_fabric:",
        "  children:",
    ]
    for each in fleet.classes:
        lines += [f"    # {each.title}", f"    {_scalar(each.name)}:", "      hosts:"]
        lines += [f"        {_scalar(host.name)}:" for host in each.hosts]
    if fleet.without:
        lines.append("  # Skipped, because none of their ports can be a rail:")
        lines += [f"  #   {one_line(host.name)}: {_reasons(host)}" for host in fleet.without]
    lines += [
        "ungrouped:",
        "  hosts:",
        "    localhost: # the cluster objects run here",
        "      ansible_connection: local",
        '      ansible_python_interpreter: "{{ ansible_playbook_python }}"',
    ]
    return "\n".join(lines) + "\n"


def _group_file(each: HostClass, fleet: Fleet) -> str:
    lines = [f"{MARKER}: what the hosts of this group have in common ({len(each.hosts)}).", f"# {each.title}"]
    sources = {preset.title: preset.source for preset in PRESETS}
    lines += [f"# Source: {source}" for title, source in sources.items() if each.title.endswith(title)]
    lines += [f"# {text}" for text in (*planned_from(fleet), *_order(each), *_not_set(each, fleet))]
    lines += ["---", "rdma_fabric_interfaces:"]
    for slot in each.slots:
        lines += _entry(slot, each.common, each, fleet)
    lines += _left_out(each.left_out, len(each.hosts))
    lines += _kernel_modules(each)
    return "\n".join(lines) + "\n"


def _host_file(each: HostClass, at: int, fleet: Fleet) -> str:
    other = sum(one != two for one, two in zip(each.addresses(at), each.addresses(each.common)))
    lines = [
        f"{MARKER}: the hardware of the group {each.name}, {_count(other, 'port')} at another PCI address.",
        "# A list in host_vars replaces that of the group, so this one is complete.",
        "---",
        "rdma_fabric_interfaces:",
    ]
    for slot in each.slots:
        lines += _entry(slot, at, each, fleet)
    return "\n".join(lines) + "\n"


def _not_set(each: HostClass, fleet: Fleet) -> list[str]:
    """Return what the entries do not set, and why."""
    lines = ["Name, MTU and state apply now and after every boot."]
    infiniband = [port for slot in each.slots if slot.link_layer == INFINIBAND for port in slot.ports]
    partitions = sorted({port.mtu for port in infiniband if port.mtu is not None})
    if partitions:
        lines.append(
            f"No mtu on InfiniBand: {_numbers(partitions)} now, as the partition of the subnet manager has it."
        )
    room = min(
        (slot.ports[each.common].most_vfs or 0 for slot in each.slots if slot.rail and slot.vfs is None), default=0
    )
    if room:
        lines.append(f"No vfs: rails have none now, and room for {room} each; rdma_fabric_discover_vfs sets them.")
    if any(not slot.rail for slot in each.slots):
        lines.append("storage0 and so on: ports that the machine's vendor intends for storage; not offered to pods.")
    return lines


def _order(each: HostClass) -> list[str]:
    if any(port.gpus for slot in each.slots for port in slot.ports):
        return ["Rails are the ports nearest to GPUs, in the order of the GPUs."]
    return ["No GPU is near a port, so every RDMA port with a link is a rail, in the order of PCI addresses."]


def _entry(slot: Slot, at: int, each: HostClass, fleet: Fleet) -> list[str]:
    port = slot.ports[at]
    lines = [f"  # {_describe(port)}"]
    lines += [f"  # {text}" for text in _down(slot, each)]
    lines.append(f'  - pci: "{port.pci}"')
    if fleet.options.rename:
        lines.append(f"    name: {slot.name}")
    lines += _mtu_lines(slot, port, fleet)
    lines += _function_lines(slot, port, fleet)
    return [*lines, "    state: up"]


def _mtu_lines(slot: Slot, port: Port, fleet: Fleet) -> list[str]:
    if slot.mtu is None:
        return [f"    # {slot.unset_mtu}"] if slot.unset_mtu else []
    if slot.rail and fleet.options.mtu is not None:
        now_has = "the same" if port.mtu == slot.mtu else port.mtu
        why = "requested" if port.mtu is None else f"requested; {now_has} now"
    else:
        now = sorted({one.mtu for one in slot.ports if one.mtu is not None})
        why = "as it is now" if now == [slot.mtu] else f"as on most hosts now; {_numbers(now)} are found"
        why += f"; {_JUMBO} if the switches support it" if slot.mtu < _JUMBO and slot.rail else ""
    return [f"    mtu: {slot.mtu} # {why}"]


def _function_lines(slot: Slot, port: Port, fleet: Fleet) -> list[str]:
    if slot.vfs is None:
        return []
    why = "requested" if slot.rail and fleet.options.vfs is not None else "as it is now"
    room = "" if port.most_vfs is None else f"; up to {port.most_vfs}"
    lines = [f"    vfs: {slot.vfs} # {why}{room}"]
    if slot.vfs and why == "requested" and slot.link_layer == INFINIBAND:
        lines.append("    vf_guids: deterministic # without GUIDs, VFs of InfiniBand ports have no link")
    if slot.vfs and slot.mtu and slot.rail and fleet.options.mtu is not None:
        lines.append(f"    vf_mtu: {slot.mtu} # VFs do not follow the port by themselves")
    return lines


def _describe(port: Port) -> str:
    speed = f" {port.speed_gbps} Gb/s" if port.speed_gbps else ""
    words = [f"{port.family}{' VF' if port.function == 'vf' else ''}, {port.link_layer}{speed}"]
    words += [] if port.numa is None else [f"NUMA node {port.numa}"]
    if port.gpus:
        noun = "GPU" if len(port.gpus) == 1 else "GPUs"
        distance = f" ({port.distance})" if port.distance else ""
        words.append(f"beside {noun} {', '.join(map(str, port.gpus))}{distance}")
    return ", ".join(words) + (f"; {port.netdev} now" if port.netdev else "")


def _down(slot: Slot, each: HostClass) -> list[str]:
    down = [host.name for host, port in zip(each.hosts, slot.ports) if not port.up]
    return [f"no link now on {_listed(down)}: a cable or a switch port is missing"] if down else []


def _remarks(each: HostClass) -> list[str]:
    return [f"{slot.name}: {text}" for slot in each.slots for text in _down(slot, each)]


def _left_out(entries: Sequence[tuple[LeftOut, int]], hosts: int) -> list[str]:
    lines = ["  # Skipped:"] if entries else []
    for each, count in entries:
        where = f" (on {count} of {hosts} hosts)" if count < hosts else ""
        lines.append(f"  #   {each.pci} {each.netdev}: {each.why}{where}")
    return lines


def _kernel_modules(each: HostClass) -> list[str]:
    """Return the modules that the device plugins of the policy need, with why; VFs need fewer than shared rails."""
    needs = [*needs_of(SRIOV, {"isRdma": True})]
    needs += needs_of(SHARED, {}) if any(slot.rail and not slot.vfs for slot in each.slots) else []
    modules = {need.want[0]: need.text for need in needs if need.kind == MODULE}
    return ["rdma_fabric_kernel_modules:", *(f"  - {name} # {text}" for name, text in modules.items())]


def clashes(fleet: Fleet) -> list[str]:
    """Return where the name of a rail belongs to another port on some host: a device plugin can't tell them apart."""
    names = {slot.ports[at].netdev for each in fleet.classes for slot in each.slots for at in range(len(each.hosts))}
    if fleet.options.rename:
        names = {slot.name for each in fleet.classes for slot in each.slots if slot.rail}
    hosts = [*fleet.without, *(host for each in fleet.classes for host in each.hosts)]
    return [
        f"look at {host.name}: {left.netdev} is not a rail there ({left.why}), but a rail elsewhere has this name, so "
        "the device plugin would offer it to pods as well"
        for host in hosts
        for left in host.left_out
        if left.netdev in names
    ]


def _by_reason(without: Iterable[Host]) -> dict[str, list[str]]:
    """Return the hosts without a rail by why they have none: hosts of one kind have the same reasons."""
    found: dict[str, list[str]] = {}
    for host in without:
        found.setdefault(_reasons(host), []).append(host.name)
    return found


def _reasons(host: Host) -> str:
    """Return why a host has no rail, in one line."""
    said = [f"{each.pci} {each.netdev}: {each.why}" for each in host.left_out]
    return "; ".join(said) or "no network controller"


def _scalar(text: str) -> str:
    """Return a text as YAML reads it back as text; JSON's quoting is YAML's."""
    return text if _PLAIN.match(text) and text.lower() not in _WORDS else json.dumps(text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(hosts: Sequence[str]) -> str:
    return named([one_line(host) for host in hosts], _NAMED)


def _numbers(values: Iterable[int]) -> str:
    return " and ".join(map(str, values))
