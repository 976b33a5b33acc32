# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in: a CNI meta plugin that brings the node's soft RDMA device into a pod.

A real card's RDMA device works in a pod through the card's own interfaces; rxe belongs to one interface of one network
namespace. ``{"type": "rxe-netns"}`` in a network's chain comes after the plugin that makes the pod's interface: macvlan
on a rail's card, or host-device that moved a virtual function of it. It takes the rail's rxe device from the node and
makes it again, under its own name, on the pod's interface; when the pod goes, the node gets it back. There is one
device for each rail, so one pod of a node has it at a time: a second one is refused with CNI's code for "try again
later".

CNI specification: https://www.cni.dev/docs/spec/ (commands, environment, error codes). It runs on a guest.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

HELD = Path("/run/rxe-netns")
RAILS = Path("/etc/rdma-lab/rails")  # the MAC address of each rail's card, a line each
INTERFACES = Path("/sys/class/net")
PCI_DEVICES = Path("/sys/bus/pci/devices")
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0")
INCOMPATIBLE, ENVIRONMENT, UNDECODABLE, INVALID_NETWORK, TRY_LATER, FAILED = 1, 4, 6, 7, 11, 100


class CniError(Exception):
    """What the runtime is told: a code of the specification (from 100 on: of this plugin) and a text."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class Call(NamedTuple):
    """One call by the runtime: the pod's container ID, interface and network namespace, and the pod's name."""

    container: str
    interface: str
    netns: str
    pod: str


def read_call(environ: Mapping[str, str], needed: Sequence[str]) -> Call:
    """Read the runtime's variables. Raises ``CniError`` naming those of ``needed`` that are not set."""
    absent = [name for name in needed if not environ.get(name)]
    if absent:
        raise CniError(ENVIRONMENT, f"not set: {', '.join(absent)}")
    arguments = dict(part.partition("=")[::2] for part in environ.get("CNI_ARGS", "").split(";"))
    pod = f"{arguments.get('K8S_POD_NAMESPACE', '?')}/{arguments.get('K8S_POD_NAME', '?')}"
    return Call(environ.get("CNI_CONTAINERID", ""), environ.get("CNI_IFNAME", ""), environ.get("CNI_NETNS", ""), pod)


def read_network(text: str) -> dict[str, Any]:
    """Read the network's configuration. Raises ``CniError``."""
    try:
        network = json.loads(text)
    except ValueError as error:
        raise CniError(UNDECODABLE, f"the network configuration is not JSON: {error}") from error
    if not isinstance(network, dict):
        raise CniError(UNDECODABLE, "the network configuration is not an object")
    if network.get("cniVersion") not in VERSIONS:
        raise CniError(INCOMPATIBLE, f"cniVersion {network.get('cniVersion')} is not one of {', '.join(VERSIONS)}")
    return network


def command(*argv: str) -> str:
    """Run a program; give its output. Raises ``CniError`` with what it said."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise CniError(FAILED, f"{' '.join(argv)}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


def in_pod(call: Call) -> tuple[str, str]:
    """Give the words that run a program in the pod's network namespace."""
    return "nsenter", f"--net={call.netns}"


def interface_below(link: Mapping[str, Any], indexes: Mapping[int, str], functions: Mapping[str, str]) -> str:
    """Give the node's interface that a pod's interface stands on. Raises ``CniError`` when it is none of the node's.

    ``link``: what ``ip -d -j link`` says of the pod's interface; ``indexes``: the node's interfaces by index;
    ``functions``: the interface of a card by the PCI address of its virtual function.
    """
    below = indexes.get(link.get("link_index", 0)) or functions.get(link.get("parentdev", ""))
    if below is None:
        kind = link.get("linkinfo", {}).get("info_kind") or link.get("parentdev") or "nothing of the node"
        raise CniError(
            INVALID_NETWORK,
            f"{link.get('ifname')} ({kind}) stands on no card of this node: rxe-netns follows macvlan on a card, or "
            "host-device with a virtual function",
        )
    return below


def node_interfaces() -> dict[int, str]:
    """Give the node's interfaces by index."""
    return {
        int((each / "ifindex").read_text()): each.name for each in INTERFACES.iterdir() if (each / "ifindex").exists()
    }


def card_of_functions() -> dict[str, str]:
    """Give the card's interface for the PCI address of each virtual function."""
    found = {}
    for function in PCI_DEVICES.glob("*/physfn/net/*"):
        found[function.parents[2].name] = function.name
    return found


def device_on(interface: str) -> str:
    """Give the rail's RDMA device on a card: ``rxeN``, N the rail. Raises ``CniError`` when it is no rail's card."""
    rails = RAILS.read_text(encoding="ascii").split()
    mac = (INTERFACES / interface / "address").read_text(encoding="ascii").strip()
    if mac not in rails:
        raise CniError(INVALID_NETWORK, f"{interface} ({mac}) is not the card of a rail")
    return f"rxe{rails.index(mac)}"


def devices(*where: str) -> dict[str, str]:
    """Give the RDMA devices with their interfaces."""
    return {link["ifname"]: link.get("netdev", "") for link in json.loads(command(*where, "rdma", "-j", "link"))}


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keep other calls of this plugin out."""
    HELD.mkdir(exist_ok=True)
    with (HELD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def record_of(device: str) -> Path:
    """Give where it is kept who has a device."""
    return HELD / f"{device}.json"


def restore(device: str, interface: str) -> None:
    """Give the device back to the node."""
    if (INTERFACES / interface).exists() and device not in devices():
        command("rdma", "link", "add", device, "type", "rxe", "netdev", interface)


def refuse_when_taken(device: str, interface: str, call: Call) -> None:
    """Raise ``CniError`` when a pod that still exists has the device."""
    with contextlib.suppress(FileNotFoundError):
        holder = json.loads(record_of(device).read_text(encoding="utf-8"))
        if holder["container"] != call.container and Path(holder["netns"]).exists():
            raise CniError(
                TRY_LATER,
                f"{device} of {interface} is in the pod {holder['pod']}: one pod of a node has a rail's soft RDMA "
                f"device at a time, so {call.pod} cannot",
            )


def add(call: Call, network: Mapping[str, Any]) -> dict[str, Any]:
    """Bring the device into the pod; give the result of the plugins before, unchanged."""
    result = network.get("prevResult")
    if not isinstance(result, dict):
        raise CniError(INVALID_NETWORK, "no prevResult: rxe-netns comes after the plugin that makes the interface")
    (link,) = json.loads(command(*in_pod(call), "ip", "-d", "-j", "link", "show", "dev", call.interface))
    interface = interface_below(link, node_interfaces(), card_of_functions())
    device = device_on(interface)
    with one_at_a_time():
        refuse_when_taken(device, interface, call)
        record = {**call._asdict(), "device": device, "card": interface}
        record_of(device).write_text(json.dumps(record), encoding="utf-8")
        try:
            if device in devices():
                command("rdma", "link", "delete", device)
            command(*in_pod(call), "rdma", "link", "add", device, "type", "rxe", "netdev", call.interface)
        except CniError:
            restore(device, interface)
            record_of(device).unlink()
            raise
    return result


def delete(call: Call) -> None:
    """Give back what the pod has; nothing when it has nothing."""
    with one_at_a_time():
        for path in sorted(HELD.glob("rxe*.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            if (record["container"], record["interface"]) != (call.container, call.interface):
                continue
            held = Call(**{name: record[name] for name in Call._fields})
            # A namespace that is gone took the interface along, and the device with it.
            if Path(held.netns).exists() and devices(*in_pod(held)).get(record["device"]) == held.interface:
                command(*in_pod(held), "rdma", "link", "delete", record["device"])
            restore(record["device"], record["card"])
            path.unlink()


def check(call: Call) -> None:
    """Raise ``CniError`` unless the pod has the device on its interface."""
    if call.interface not in devices(*in_pod(call)).values():
        raise CniError(FAILED, f"no RDMA device is on {call.interface} of the pod {call.pod}")


def answer(environ: Mapping[str, str], text: str) -> dict[str, Any] | None:
    """Do what the runtime asks for; give what it is to be told, if anything."""
    asked = environ.get("CNI_COMMAND")
    if asked == "VERSION":
        return {"cniVersion": VERSIONS[-1], "supportedVersions": list(VERSIONS)}
    if asked not in ("ADD", "DEL", "CHECK"):
        raise CniError(ENVIRONMENT, f"CNI_COMMAND is {asked}, not ADD, DEL, CHECK or VERSION")
    network = read_network(text)
    needed = ["CNI_CONTAINERID", "CNI_IFNAME"] if asked == "DEL" else ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"]
    call = read_call(environ, needed)
    if asked == "ADD":
        return add(call, network)
    if asked == "DEL":
        delete(call)
    else:
        check(call)
    return None


def main() -> int:
    """Answer on standard output as the specification asks; give the exit status."""
    try:
        told = answer(os.environ, sys.stdin.read())
    except CniError as error:
        json.dump({"cniVersion": VERSIONS[-1], "code": error.code, "msg": str(error)}, sys.stdout)
        return 1
    if told is not None:
        json.dump(told, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
