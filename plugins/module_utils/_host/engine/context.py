# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The context in which concerns plan, their results, and the effects of earlier steps on later ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    List,
    Literal,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
    TypeVar,
    cast,
)

from ..facts.eswitch import SWITCHDEV, present_mode
from ..facts.host_state import NETDEV_DRIVER, HostState, Interface, binds_functions
from ..facts.labels import fits
from ..facts.matching import selector_of
from ..facts.owners import nic_daemon, unowned
from ..facts.shapes import Netdev, Nic
from ..machine.host_files import mode_of
from ..spec.host import CONSENTS, HostRequest, HostSpec, wanted_interface
from ..spec.interface_keys import DRIVER, SETTINGS
from . import steps
from .operations import Operation, PutFile, RemoveFile, Run, Work
from .steps import Consent, Step, Value, as_planned

if TYPE_CHECKING:
    from ..spec.interfaces import InterfaceSpec

ConcernPlan = Tuple[List[Step], List[str]]
T = TypeVar("T")
# Among the settings of a function: it must be bound to its driver.
BOUND = "bound"
_MODE = "change of its e-switch mode"


@dataclass(frozen=True)
class Context:
    """The spec and the actual state of a host, and the steps of the concerns planned before."""

    desired: HostSpec
    actual: HostState
    interfaces: tuple[Interface, ...] = ()
    earlier: tuple[Step, ...] = field(default=())
    brings_modules: Callable[[Context], tuple[str, bool]] = lambda _context: ("", False)
    """Returns what this plan sets up that may add missing kernel modules, empty if nothing, and if it is refused."""
    wanted_files: tuple[str, ...] = ()
    """Paths of every file that a concern needs; complete when the last concern is planned."""
    _made: dict[object, object] = field(default_factory=dict, compare=False, repr=False)
    """The values of ``once``, shared by every context of one plan."""

    def once(self, make: Callable[[Context], T]) -> T:
        """Return the value of ``make``, computed once for one reading of the host, its plan and execution.

        All steps that ``make`` reads must be planned before the first call.
        """
        if make not in self._made:
            self._made[make] = make(self)
        return cast(T, self._made[make])

    @property
    def removing(self) -> bool:
        """Return whether this is a removal: no file is needed, and the spec has the original values."""
        return bool(self.desired.get("removing"))

    @property
    def boot_files(self) -> Mapping[str, str]:
        """Return our files on the host: the whole text by path."""
        return self.actual.facts["boot"]["files"]

    @property
    def python(self) -> str:
        """Return the interpreter of the boot unit."""
        return self.actual.facts["boot"]["python"]

    def boot_differs(self, files: Mapping[str, str]) -> bool:
        """Return whether any of the files (text by path) must be written, or in a removal removed."""
        if self.removing:
            return any(path in self.boot_files for path in files)
        return any(self.boot_files.get(path) != text for path, text in files.items())

    def boot_operations(self, files: Mapping[str, str]) -> list[Operation]:
        """Return how these files are written, or in a removal removed."""
        if self.removing:
            return [RemoveFile(path) for path in files]
        return [PutFile(path, text, mode_of(path)) for path, text in files.items()]

    def boot_undo(self, files: Mapping[str, str]) -> list[Operation]:
        """Return how the former state of these files is restored."""
        undo: list[Operation] = []
        for path in reversed(list(files)):
            former = self.boot_files.get(path)
            undo.append(RemoveFile(path) if former is None else PutFile(path, former, mode_of(path)))
        return undo

    def boot_undo_said(self, path: str) -> str:
        """Return how the former state of one of these files is restored, in words."""
        return f"{'write the former' if path in self.boot_files else 'remove'} {path}"

    def udev_reload(self) -> list[Operation]:
        """Return how udev reloads its rules, nothing on a host without udev."""
        return [Run(("udevadm", "control", "--reload"))] if self.actual.facts["naming"]["udev"] else []

    def work_of_files(self, files: Mapping[str, str], after: Sequence[Operation] = ()) -> Work:
        """Return how these files are written or removed, and how that is undone, each followed by ``after``."""
        return Work([*self.boot_operations(files), *after], [*self.boot_undo(files), *after])

    def work_of_removal(self, path: str, after: Sequence[Operation] = ()) -> Work:
        """Return how a file of ours that is no longer needed is removed."""
        return Work([RemoveFile(path), *after], self.boot_undo({path: ""}))

    @property
    def kept_interfaces(self) -> tuple[Interface, ...]:
        """Return the interfaces with the settings to keep for the next boot, without those that operators manage."""
        if self.consents_to("takeover"):
            return self.interfaces
        facts = self.actual.facts
        return tuple(
            replace(interface, wanted=unowned(facts, interface.nic, interface.wanted)) for interface in self.interfaces
        )

    @property
    def entries_without_device(self) -> list[InterfaceSpec]:
        """Return the entries of ``rdma_fabric_interfaces`` that match no device of the host, or more than one."""
        known = {selector_of(interface.wanted) for interface in self.interfaces}
        return [entry for entry in self.desired["interfaces"] if selector_of(entry) not in known]

    @property
    def has_nic_operator(self) -> bool:
        """Return whether NVIDIA's NIC configuration operator manages this host's NICs."""
        return bool(nic_daemon(self.actual.facts)) and not self.consents_to("takeover")

    def consents_to(self, consent: str) -> bool:
        """Return whether the host's variables give ``consent`` (a key of ``CONSENTS``)."""
        return self.desired["consents"][consent]

    def consent(self, consent: str, *, needed: bool = True) -> Consent:
        """Return the status and consent of a step that may need ``consent`` (a key of ``CONSENTS``)."""
        given = not needed or self.consents_to(consent)
        return {
            "status": steps.PLANNED if given else steps.NEEDS_CONSENT,
            "consent": CONSENTS[consent] if needed else None,
        }

    def planned(self, step_id: str) -> Step | None:
        """Return the earlier step with this id if it is executable, else None."""
        return next((step for step in self.earlier if step["id"] == step_id and steps.is_executable(step)), None)

    def nic_of(self, step: Step) -> Nic | None:
        """Return the PCI function in the key of a step, None if there is none or the host lacks it."""
        return self.actual.nics.get(steps.address_of(step))

    def functions_planned(self, address: str) -> int | None:
        """Return how many VFs an earlier step gives a port, None if none does."""
        created = self.planned(f"vfs:{address}")
        return None if created is None else steps.as_planned(created["to"], int)

    def set_again(self, interface: Interface, settings: Iterable[str]) -> list[str]:
        """Return the notice about settings that hold now and that an earlier step loses: see ``makes_forget``.

        ``settings`` is only evaluated if such a step is planned.
        """
        if interface.driver != NETDEV_DRIVER:
            return []
        losses = {"driver:load": "reload of its driver", f"eswitch:{interface.key}": _MODE}
        if present_mode(self.actual, interface) == SWITCHDEV:
            losses[f"vfs:{interface.key}"] = _MODE  # a change of their number ends in legacy mode
        loss = next((loss for step, loss in losses.items() if self.planned(step) is not None), "")
        held = ", ".join(settings) if loss else ""
        text = f"{self.target_of(interface)}: set again after the {loss}, where that takes it away: "
        return [f"{text}{held}"] if held else []

    def destroys(self, nic: Nic | None) -> bool:
        """Return whether an earlier step of a removal destroys this VF with all others of its port."""
        if not self.removing or nic is None or nic["function"] != "vf":
            return False
        return self.planned(f"vfs:{nic['pf']}") is not None

    def name_of(self, netdev: Netdev) -> str:
        """Return the name of ``netdev`` once the planned renames are done."""
        renamed = self.planned(f"naming:{netdev['pci']}")
        if renamed is not None and renamed["when"] != steps.BOOT and renamed["from"] == netdev["name"]:
            return str(renamed["to"])
        return netdev["name"]

    def port_name(self, interface: Interface) -> str:
        """Return the name of the interface in operations: a placeholder if it is the only one of its PCI function."""
        nic, netdev = interface.nic, interface.netdev
        if nic is not None and self.actual.port_of(nic) is not None:
            return f"{{port:{nic['address']}}}"
        return self.name_of(netdev) if netdev is not None else ""

    def interface_of(self, key: str) -> Interface:
        """Return the interface with this key."""
        return next(interface for interface in self.interfaces if interface.key == key)

    def target(self, nic: Nic | None, netdev: Netdev | None) -> str:
        """Return the name of a device in steps: ``0000:18:00.0 (rail0)``."""
        if netdev is None:
            return nic["address"] if nic else ""
        return f"{nic['address']} ({self.name_of(netdev)})" if nic else self.name_of(netdev)

    def target_of(self, interface: Interface) -> str:
        """Return the name of ``interface`` in steps."""
        return self.target(interface.nic, interface.netdev)

    def uplink_refusal(self, nic: Nic | None, netdev: Netdev | None) -> str:
        """Return why a live change of this device is refused because it carries the uplink; empty if it is allowed."""
        reason = self.actual.uplink_reason(nic, netdev)
        if reason is None or self.consents_to("uplink_change"):
            return ""
        return f"it carries the uplink ({reason}); {CONSENTS['uplink_change']}: true allows the change"


def new_functions(context: Context, address: str) -> int | None:
    """Return how many VFs of a port have new interfaces once the earlier steps are done.

    A step creates them or binds some of them again; a new interface lacks the settings of the former one. None if
    no step touches them.
    """
    created = context.functions_planned(address)
    set_up = context.planned(f"vfs:{address}{SETTINGS}")
    bound_again = set_up is not None and any(map(renews, as_planned(set_up["to"], dict).values()))
    others = (f"eswitch:{address}", f"guids:{address}", f"vfs:{address}{DRIVER}")
    if created is None and not bound_again and not any(map(context.planned, others)):
        return None
    nic = context.actual.nics[address]
    if not binds_functions(nic):
        return 0
    return len(context.actual.vf_addresses(nic)) if created is None else created


def renews(settings: Mapping[str, object]) -> bool:
    """Return whether a function gets a new interface with these settings."""
    return not settings.keys().isdisjoint(("mac", "guid", BOUND))


def requests_for(context: Context, section: Literal["driver", "peer_memory"]) -> list[HostRequest]:
    """Return the requests with this section whose node selector matches this host, by source.

    The host's labels are those the node feature discovery and the kubelet would set, then those of its variables.
    """
    labels = {**context.actual.facts["labels"], **context.desired["node_labels"]}
    fitting = [
        request for request in context.desired["requests"] if request[section] is not None and fits(request, labels)
    ]
    return sorted(fitting, key=lambda request: str(request["source"]))


class Handler(NamedTuple):
    """How steps of one concern are executed.

    ``errors`` are causes and next steps (``...; next: ...``) for failures of its operations, by the errno's name or by
    a text that a program prints.
    ``restore`` adds to an empty desired state what brings an original value back: it gets the key of the step that
    first changed it and the step's ``from``. Without it a removal leaves the setting as it is.
    ``parts``: a mapping in ``from`` holds values of their own, so that another step of the same key may add some.
    ``of_card``: a card itself holds the values, so that they are nobody's once it was replaced; others are the host's
    for whatever card is in that place.
    """

    work: Callable[[Context, Step], Work]
    errors: Mapping[str, str] = MappingProxyType({})
    restore: Callable[[HostSpec, str, Value], None] | None = None
    parts: bool = False
    of_card: bool = False


def restores(setting: str, kind: type) -> Callable[[HostSpec, str, Value], None]:
    """Return a ``restore`` that adds the original value of an interface's setting, if of this type, to the spec."""

    def restore(desired: HostSpec, key: str, original: Value) -> None:
        if isinstance(original, kind):
            entry: Any = wanted_interface(desired, key)
            entry[setting] = original

    return restore
