# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the host side on a guest whose card is the kernel's netdevsim, in the place of a ConnectX at a PCI address.

A stand-in for PCI only, as netdevsim has a bus of its own: folders of PCI functions with the ids of a ConnectX-6 Dx,
links between them, the place of soft RDMA that is on the port, and drivers of VFs, whose interfaces are dummies. The
number of functions, the e-switch, the port, the representors, udev and all errors are the kernel's: paths, handles of
devlink and rules of udev that have the card's address are passed on with the simulated device's name.

``python3 -m ansible_collections.rdma.fabric.tests.guests.pci_standin < ORDER`` prints the result of one run. An order
has ``desired`` and may have ``state`` and ``faults``: the shell command to run before a step, by its id.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.functions import NO_ADDRESS, read_port_settings
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    READ_LIMIT,
    CommandResult,
    HostError,
    LiveMachine,
    Names,
    SystemClock,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import APPLY, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec

DEVICE = "netdevsim1"
CARD = "0000:3b:00.0"
# More functions than netdevsim can make (NSIM_BUS_DEV_MAX_VFS), so that its refusal is seen.
MOST_FUNCTIONS = 8
_IDS = {"vendor": "0x15b3", "device": "0x101d", "class": "0x020000"}
_SRIOV = {"sriov_totalvfs": str(MOST_FUNCTIONS), "sriov_drivers_autoprobe": "1", "sriov_vf_device": "101e"}
_DRIVER = "mlx5_core"
_BUS = "/sys/bus/pci/devices"
_BRIDGE = "/sys/devices/pci0000:3a"
_SIMULATED = f"/sys/bus/netdevsim/devices/{DEVICE}"
_NET = "/sys/class/net"
_PORT_NAME = "p1\n"  # A port that a fault adds has another number.
_PROBE = "/sys/bus/pci/drivers_probe"
_RULES = re.compile(r"/etc/udev/rules\.d/\d+-rdma-fabric-[^/]+")
_PATH = re.compile(
    rf"(?:{_BUS}|{_BRIDGE})/0000:3b:00\.(?P<function>[0-7])"
    r"(?P<link>/(?:virtfn(?P<number>\d+)|physfn)(?=/))?(?:/(?P<rest>.+))?"
)
_INTERFACE = re.compile(rf"{_NET}/(?P<name>[^/]+)")
_RDMA_CLASS = "/sys/class/infiniband"
_RDMA = re.compile(rf"{_RDMA_CLASS}/(?P<name>[^/]+)(?P<parent>/parent)?")
_DUMMY = re.compile(r"sim1v(?P<number>\d)")
_FIRST = 2  # The PCI function that VF 0 is.
_COMMAND_SECONDS = 30.0


class _Place(NamedTuple):
    """A path below a PCI function of the stand-in: ``number`` of the VF, None for the card itself."""

    number: int | None
    rest: str

    @property
    def is_card(self) -> bool:
        """Say whether it is below the card itself."""
        return self.number is None


def address_of(number: int) -> str:
    """Return the PCI address of a VF."""
    return f"{CARD[:-1]}{number + _FIRST}"


class PciStandIn(LiveMachine):
    """This machine, with a ConnectX in the place of its simulated device."""

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return a file's bytes: recorded ones of PCI functions, those of the simulated device otherwise."""
        place, found = self._place(path), _RDMA.fullmatch(path)
        if found and found["parent"] and self._is_of_port(found["name"]):
            raise HostError("ENOENT", path)
        if place is None:
            return _as_pci(super().read_bytes(path, limit), path)
        text = self._recorded(place)
        return super().read_bytes(self._real(place, path), limit) if text is None else text.encode()[:limit]

    def exists(self, path: str) -> bool:
        """Say whether the path leads somewhere."""
        try:
            place = self._place(path)
            if place is None:
                return super().exists(path)
            if not place.rest or self._recorded(place) is not None or self._own_link(place) is not None:
                return True
            return super().exists(self._real(place, path))
        except HostError:
            return False

    def list(self, path: str) -> Names:
        """Return the names in a directory, sorted."""
        if path == _BUS:
            return sorted([*super().list(path), CARD, *map(address_of, range(self._functions()))])
        place = self._place(path)
        if place is None:
            return super().list(path)
        if place.rest:
            if not place.is_card and place.rest == "net":
                return [_dummy(place.number)] if self._is_bound(place.number) else []
            if place.is_card and place.rest == "infiniband":
                return [name for name in super().list(_RDMA_CLASS) if self._is_of_port(name)]
            return super().list(self._real(place, path))
        links = [f"virtfn{number}" for number in range(self._functions())] if place.is_card else ["physfn"]
        files = [*_IDS, "uevent", "net", *([*_SRIOV, "sriov_numvfs"] if place.is_card else [])]
        return sorted([*files, *links, *(["driver"] if self._driver(place) else [])])

    def link(self, path: str) -> str:
        """Return the raw target of a symbolic link."""
        place = self._place(path)
        if place is not None:
            target = self._own_link(place)
            return super().link(self._real(place, path)) if target is None else target
        found = _RDMA.fullmatch(path)
        if found and self._is_of_port(found["name"]):
            return f"../..{_BRIDGE.removeprefix('/sys')}/{CARD}/infiniband/{found['name']}"
        found = _INTERFACE.fullmatch(path)
        return _as_place(super().link(path), found["name"]) if found else super().link(path)

    def realpath(self, path: str) -> str:
        """Return the path with every link followed."""
        place = self._place(path)
        if place is None:
            return super().realpath(path)
        if place.rest:
            return super().realpath(self._real(place, path))
        return f"{_BRIDGE}/{CARD if place.number is None else address_of(place.number)}"

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program; devlink gets the simulated device's handle, and what it prints has the card's."""
        handles = (f"pci/{CARD}", f"netdevsim/{DEVICE}")
        result = super().run([word.replace(*handles) for word in argv], timeout)
        return CommandResult(result.rc, *(text.replace(*handles[::-1]) for text in result[1:]))

    def replace(self, path: str, text: str, mode: int) -> None:
        """Write a file; a rule of udev gets the simulated device's place."""
        super().replace(path, text.replace(f"/{CARD}/", f"/{DEVICE}/") if _RULES.fullmatch(path) else text, mode)

    def set_attribute(self, path: str, text: str, timeout: float) -> None:
        """Write to an attribute; functions get their drivers as they do from the PCI bus."""
        place = self._place(path)
        if path == _PROBE and text.startswith(CARD[:-1]):
            self._bind(int(text[-1]) - _FIRST)
        elif place is None:
            super().set_attribute(path, text, timeout)
        elif place.rest == "driver/unbind" and place.number is not None:
            if not self._is_bound(place.number):
                raise HostError("ENOENT", path)
            self._ip("link", "delete", _dummy(place.number))
        else:
            try:
                super().set_attribute(self._real(place, path), text, timeout)
            except HostError as error:
                raise HostError(error.code, path) from error
            if place.rest == "sriov_numvfs":
                self._follow(int(text))

    def _place(self, path: str) -> _Place | None:
        """Return what a path is below a function that is there, None for paths of others."""
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        number = int(found["function"]) - _FIRST
        if found["link"]:
            number = -_FIRST if found["number"] is None else int(found["number"])
        if number != -_FIRST and not 0 <= number < self._functions():
            raise HostError("ENOENT", path)
        return _Place(None if number == -_FIRST else number, found["rest"] or "")

    def _port(self) -> str | None:
        """Return the name of the card's own port; udev may be renaming representors meanwhile."""
        with contextlib.suppress(HostError):
            for name in super().list(f"{_SIMULATED}/net"):
                with contextlib.suppress(HostError):
                    if super().read(f"{_NET}/{name}/phys_port_name") == _PORT_NAME:
                        return name
        return None

    def _is_of_port(self, rdma: str) -> bool:
        """Say whether an RDMA device is soft RDMA on the card's own port."""
        with contextlib.suppress(HostError):
            return super().read_bytes(f"{_RDMA_CLASS}/{rdma}/parent").decode().strip() == self._port()
        return False

    def _functions(self) -> int:
        return int(super().read(f"{_SIMULATED}/sriov_numvfs"))

    def _recorded(self, place: _Place) -> str | None:
        ids = _IDS if place.is_card else {**_IDS, "device": "0x101e"}
        values = {**ids, **(_SRIOV if place.is_card else {})}
        if place.rest == "uevent":
            driver = self._driver(place)
            pci_id = f"PCI_ID={ids['vendor'][2:].upper()}:{ids['device'][2:].upper()}"
            lines = [*([f"DRIVER={driver}"] if driver else []), "PCI_CLASS=20000", pci_id]
            return "".join(f"{line}\n" for line in lines)
        return f"{values[place.rest]}\n" if place.rest in values else None

    def _own_link(self, place: _Place) -> str | None:
        """Return the target of a link of the stand-in's own."""
        if place.rest == "driver" and self._driver(place):
            return f"../../../bus/pci/drivers/{_DRIVER}"
        if place.rest == "physfn" and not place.is_card:
            return f"../{CARD}"
        number = place.rest[len("virtfn") :]
        if place.is_card and place.rest.startswith("virtfn") and number.isdecimal() and int(number) < self._functions():
            return f"../{address_of(int(number))}"
        return None

    def _real(self, place: _Place, path: str) -> str:
        """Return where the kernel has what is below a function. Raises ``HostError`` where it has nothing."""
        if place.is_card and place.rest.split("/")[0] in {"net", "sriov_numvfs"}:
            return f"{_SIMULATED}/{place.rest}"
        if not place.is_card and place.rest.startswith("net/"):
            return f"{_NET}/{place.rest[len('net/') :]}"
        raise HostError("ENOENT", path)

    def _driver(self, place: _Place) -> str:
        """Return the driver of a function: that of the card makes way when the simulated device's does."""
        bound = super().exists(f"{_SIMULATED}/driver") if place.number is None else self._is_bound(place.number)
        return _DRIVER if bound else ""

    def _is_bound(self, number: int | None) -> bool:
        return super().exists(f"{_NET}/{_dummy(number)}")

    def _bind(self, number: int) -> None:
        """Give a function its interface, with the address that the port has for it, as a driver takes it."""
        if self._is_bound(number):
            return
        port = self._port()
        functions = (read_port_settings(Probe(self), port).functions if port is not None else None) or []
        mac = functions[number]["mac"] if number < len(functions) else None
        address = ["address", mac] if mac and mac != NO_ADDRESS else []
        self._ip("link", "add", _dummy(number), *address, "type", "dummy")

    def _follow(self, functions: int) -> None:
        for number in range(MOST_FUNCTIONS):
            if number < functions:
                self._bind(number)
            elif self._is_bound(number):
                self._ip("link", "delete", _dummy(number))

    def _ip(self, *words: str) -> None:
        result = super().run(["ip", *words], _COMMAND_SECONDS)
        if result.rc:
            raise HostError("EIO", f"ip {' '.join(words)}: {result.stderr}")


def _dummy(number: int | None) -> str:
    return f"sim1v{number}"


def _as_place(target: str, name: str) -> str:
    """Return where an interface has its place: below the function that it belongs to."""
    found = _DUMMY.fullmatch(name)
    if found:
        return f"../..{_BRIDGE.removeprefix('/sys')}/{address_of(int(found['number']))}/net/{name}"
    return target.replace(f"/{DEVICE}/", f"{_BRIDGE.removeprefix('/sys/devices')}/{CARD}/")


def _as_pci(data: bytes, path: str) -> bytes:
    """Return a file as it was given to be written."""
    return data.replace(f"/{DEVICE}/".encode(), f"/{CARD}/".encode()) if _RULES.fullmatch(path) else data


class Faults:
    """Runs a shell command right before a step, by the step's id: what befalls a host between a plan and its step."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = dict(commands)

    def before(self, _context: Context, step: Step, _work: Work) -> None:
        """Have the fault of a step."""
        command = self._commands.pop(step["id"], None)
        if command is not None:
            subprocess.run(["sh", "-ec", command], check=True)

    def during(self, seconds: float) -> None:
        """Nothing is prepared for an operation."""


def result_of(order: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of one run, made as the module does it."""
    state = order.get("state", "present")
    run = Run(check=False, diff=False, mode=APPLY, recorded=False, state=state)
    watch = Faults(order.get("faults", {}))
    return apply(PciStandIn(), check_spec(order["desired"]), run, None, SystemClock(), watch=watch)


if __name__ == "__main__":
    json.dump(result_of(json.load(sys.stdin)), sys.stdout)
