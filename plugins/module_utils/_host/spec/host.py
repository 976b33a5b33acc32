# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the variables of a host and convert them to its spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, List, Mapping, NamedTuple, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Violation,
    described,
    mismatch,
    one_line,
    shown,
)

from . import syntax
from .arguments import NETNS_MODES, kernel_arguments, name_of, netns_mode
from .parts import driver, firmware_allow, function_request, hugepages, interfaces, limits, peer_memory, qos, sysctls
from .pcie import PcieSpec, pcie
from .peer_memory import MODULE_OF
from .place import (
    Found,
    Keys,
    Place,
    Readers,
    flag,
    known_keys,
    list_of,
    mapping_in,
    one_of,
    optional_number,
    optional_text,
    record_of,
    text_of,
    texts_in,
    within,
)

if TYPE_CHECKING:
    from .driver import DriverSpec, PeerMemorySpec
    from .functions import FunctionRequest
    from .interfaces import InterfaceSpec
    from .memory import Limits
    from .qos import Qos

# A new connection takes seconds; with a bond, or a switch port that comes up slowly, half a minute and more.
LEAST_SECONDS = 20
# A host that is unreachable for longer is lost to its users anyway.
MOST_SECONDS = 3600
DEFAULT_SECONDS = 120
# After a boot, a person must start the run that reaches the host.
LEAST_AFTER_BOOT = 600
_SECONDS = within(
    LEAST_SECONDS,
    MOST_SECONDS,
    f"is less than {LEAST_SECONDS} seconds, in which no controller can be sure to make a new connection",
    f"is more than {MOST_SECONDS} seconds, an hour in which nobody may reach the host",
)
CONSENTS = {
    "vf_reset": "rdma_fabric_allow_vf_reset",
    "uplink_change": "rdma_fabric_allow_uplink_change",
    "reboot": "rdma_fabric_allow_reboot",
    "driver_reload": "rdma_fabric_allow_driver_reload",
    "driver_upgrade": "rdma_fabric_allow_driver_upgrade",
    "firmware": "rdma_fabric_allow_firmware",
    "firmware_burn": "rdma_fabric_allow_firmware_burn",
    "acs_change": "rdma_fabric_allow_acs_change",
    "takeover": "rdma_fabric_allow_takeover",
}


def seconds_after_boot(seconds: int | None) -> int:
    """Return the seconds after boot within which a change that took effect at that boot must be confirmed."""
    return max(seconds or DEFAULT_SECONDS, LEAST_AFTER_BOOT)


class NodeRequirement(TypedDict):
    """A requirement of a node affinity on one label; ``values`` has as many as the operator takes."""

    key: str
    operator: str
    values: list[str]


class HostRequest(TypedDict):
    """The settings of a policy for the hosts that its selector matches: sections of the operator's spec, and ports.

    ``kernel_modules`` are for those of them that have a port of ``link_layer``, if that is given.
    """

    source: str | None
    node_selector: dict[str, str]
    node_terms: list[list[NodeRequirement]]
    driver: dict[str, object] | None
    peer_memory: dict[str, object] | None
    functions: FunctionRequest | None
    netns_mode: str | None
    kernel_modules: list[str]
    link_layer: str | None


class RunSpec(TypedDict, total=True):
    """The part of a spec that is about the run and not about the host's state."""

    consents: dict[str, bool]
    protected_interfaces: list[str]
    firmware_allow: list[str]
    connection_address: str | None
    node_labels: dict[str, str]
    revert_seconds: int | None


class _OfOneRun(TypedDict, total=False):
    """Keys that a run adds: what templates of cards ask for, the controller's address, what a removal finds."""

    template_parameters: list[str]
    controller: str | None
    removing: bool
    unload_modules: list[str]
    peer_memory_before: list[str]


class HostSpec(RunSpec, _OfOneRun):
    """The complete and checked spec of a host; None and empty values mean no requirement. MTUs are in bytes."""

    interfaces: list[InterfaceSpec]
    roce_qos: Qos | None
    kernel_modules: list[str]
    kernel_arguments: list[str]
    netns_mode: str | None
    sysctls: dict[str, str]
    multirail_sysctls: bool
    limits: Limits
    hugepages: dict[str, int | dict[str, int]]
    driver: DriverSpec | None
    peer_memory: PeerMemorySpec | None
    pcie: PcieSpec
    requests: list[HostRequest]


class _Part(NamedTuple):
    """A key of the spec: its host variable and the reader of either."""

    variable: str
    read: Callable[[Place, object], object]


def parse_host_variables(
    host: str, variables: Mapping[str, object], keys: Keys | None = None
) -> tuple[HostSpec, list[Violation], list[Notice]]:
    """Check the variables of an inventory host and return its spec.

    ``variables`` may have any of ``HOST_VARIABLES``; ``None`` means not set. MTUs are in bytes. The result is complete
    even if there are violations, but only one without any may be planned. A hint about a misplaced key finds its level
    in ``keys``, which hosts do not need.
    """
    found = Found(keys=keys or {}, variables=HOST_VARIABLES)

    def place(variable: str) -> Place:
        return Place(found, f"host {one_line(host)}: {variable}")

    recorded = variables.get("rdma_fabric_recording")
    if recorded is not None:
        text_of(place("rdma_fabric_recording"), recorded, "the path of a recorded host on the controller")
    parts = {key: part.read(place(part.variable), variables.get(part.variable)) for key, part in _PARTS.items()}
    consents = {name: _consent(place(variable), variables.get(variable)) for name, variable in CONSENTS.items()}
    desired = cast(HostSpec, {**parts, "consents": consents, "requests": []})
    _check_together(lambda key: place(_PARTS[key].variable), desired)
    return desired, found.violations, found.notices


def check_spec(document: object) -> HostSpec:
    """Check a spec in the form that ``parse_host_variables`` returns and return it completed.

    Raises ``InvalidInput`` with all violations.
    """
    found = Found()
    root = Place(found, "desired")
    if not isinstance(document, Mapping):
        root.violation(mismatch(document, "a mapping"), "give what the preflight role registered")
        raise InvalidInput(found.violations)
    known_keys(root, document, (*_PARTS, "consents", "requests", "template_parameters"))
    consents = document.get("consents")
    if consents is None:
        consents = {}
    if not isinstance(consents, Mapping):
        root.at("consents").violation(mismatch(consents, f"a mapping of {', '.join(CONSENTS)}"))
        consents = {}
    known_keys(root.at("consents"), consents, CONSENTS)
    parts = {key: part.read(root.at(key), document.get(key)) for key, part in _PARTS.items()}
    given = {name: _consent(root.at("consents").at(name), consents.get(name)) for name in CONSENTS}
    requests = _records(root.at("requests"), document.get("requests"), "host requests", _REQUEST)
    desired = cast(HostSpec, {**parts, "consents": given, "requests": requests})
    if "template_parameters" in document:
        desired["template_parameters"] = firmware_allow.read(
            root.at("template_parameters"), document["template_parameters"]
        )
    _check_together(root.at, desired)
    if found.violations:
        raise InvalidInput(found.violations)
    return desired


def of_the_run(desired: HostSpec) -> RunSpec:
    """Return the part of a spec that is about the run."""
    return cast(RunSpec, {key: value for key, value in desired.items() if key in RunSpec.__annotations__})


def _modules(place: Place, value: object) -> list[str]:
    names: list[str] = []
    for here, name in texts_in(place, value, "kernel module names", "a kernel module name", syntax.module_name_problem):
        if name.replace("-", "_") in [known.replace("-", "_") for known in names]:
            here.notice(f"{name} is listed twice", "leave one out")
        else:
            names.append(name)
    return names


def _labels(place: Place, value: object) -> dict[str, str]:
    labels: dict[str, str] = {}
    given = None if value is None else mapping_in(place, value, "label keys to values")
    for key, item in (given or {}).items():
        if not isinstance(key, str):
            place.violation(f"has the key {shown(key)}, which is {described(key)}; a label key is text")
            continue
        problem = syntax.label_key_problem(key)
        if problem:
            place.at(key).violation(problem)
        text = text_of(place.at(key), item, "the text of a label", syntax.label_value_problem)
        if text is not None:
            labels[str(key)] = text
    return labels


def _uplinks(place: Place, value: object) -> list[str]:
    found = texts_in(place, value, "interface names", "an interface name", syntax.interface_name_problem)
    return list(dict.fromkeys(name for _here, name in found))


def _consent(place: Place, value: object) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        return bool(value)
    hint = "write true or false without quotes; on the command line as JSON: -e '{\"NAME\": true}'"
    place.violation(f"{mismatch(value, 'true or false')}: a consent is never text", hint)
    return False


def _check_together(place: Callable[[str], Place], desired: HostSpec) -> None:
    """Note conflicts between parts that are valid by themselves; ``place`` returns the place of a part."""
    _note_two_owners(place, desired)
    if desired["roce_qos"] is None:
        return
    from .qos import note_conflicts

    note_conflicts(place("interfaces"), desired["roce_qos"], [entry["qos"] for entry in desired["interfaces"]])


def _note_two_owners(place: Callable[[str], Place], desired: HostSpec) -> None:
    """Note what two variables would set: some huge pages and the mode of RDMA are kernel arguments.

    Peer memory loads and unloads its modules; two variables would undo each other's changes in every run.
    """
    owners = {}
    if desired["hugepages"]:
        owners = dict.fromkeys(("hugepages", "hugepagesz"), "rdma_fabric_hugepages")
    if desired["netns_mode"]:
        owners[name_of(NETNS_MODES[desired["netns_mode"]])] = "rdma_fabric_netns_mode"
    for argument in desired["kernel_arguments"]:
        if name_of(argument) in owners:
            place("kernel_arguments").violation(f"{argument} is what {owners[name_of(argument)]} sets", "leave it out")
    for module in desired["kernel_modules"] if desired["peer_memory"] is not None else ():
        if module.replace("-", "_") in MODULE_OF.values():
            place("kernel_modules").violation(
                f"{module} is what rdma_fabric_peer_memory loads and unloads", "leave it out"
            )


def _terms(place: Place, value: object) -> list[list[NodeRequirement]]:
    terms = enumerate(list_of(place, value, "terms of a node affinity"))
    found = [_records(place.at(index), term, "requirements on labels", _REQUIREMENT) for index, term in terms]
    return cast(List[List[NodeRequirement]], found)


def _records(place: Place, value: object, what: str, readers: Readers) -> list[dict[str, object]]:
    records = []
    for index, item in enumerate(list_of(place, value, what)):
        here = place.at(index)
        if isinstance(item, Mapping):
            records.append(record_of(here, item, "", readers))
        else:
            here.violation(mismatch(item, "a mapping"))
    return records


def _operator_problem(text: str) -> str:
    return "" if text in _OPERATORS else f"is none of {', '.join(_OPERATORS)}"


def _empty_problem(text: str) -> str:
    return "" if text else "is empty"


def _section(place: Place, value: object) -> dict[str, object] | None:
    """Return a section of an operator's spec: values used for planning are converted to text, others are kept."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        place.violation(mismatch(value, "a mapping"))
        return None
    for key in ("repository", "image", "version"):
        if value.get(key) is not None:
            text_of(place.at(key), value[key], "text")
    return dict(value)


# The keys of the spec, apart from "consents" and "requests".
_PARTS: dict[str, _Part] = {
    "interfaces": _Part("rdma_fabric_interfaces", interfaces.read),
    "roce_qos": _Part("rdma_fabric_roce_qos", qos.read),
    "kernel_modules": _Part("rdma_fabric_kernel_modules", _modules),
    "kernel_arguments": _Part("rdma_fabric_kernel_arguments", kernel_arguments),
    "netns_mode": _Part("rdma_fabric_netns_mode", netns_mode),
    "sysctls": _Part("rdma_fabric_sysctls", sysctls.read),
    "multirail_sysctls": _Part("rdma_fabric_multirail_sysctls", flag()),
    "limits": _Part("rdma_fabric_limits", limits.read),
    "hugepages": _Part("rdma_fabric_hugepages", hugepages.read),
    "driver": _Part("rdma_fabric_driver", driver.read),
    "peer_memory": _Part("rdma_fabric_peer_memory", peer_memory.read),
    "pcie": _Part("rdma_fabric_pcie", pcie),
    "node_labels": _Part("rdma_fabric_node_labels", _labels),
    "protected_interfaces": _Part("rdma_fabric_protected_interfaces", _uplinks),
    "firmware_allow": _Part("rdma_fabric_firmware_allow", firmware_allow.read),
    "revert_seconds": _Part("rdma_fabric_revert_seconds", optional_number(_SECONDS)),
    "connection_address": _Part("ansible_host", optional_text("a host name or address")),
}
_REQUEST: Readers = {
    "source": lambda place, value: text_of(place, value, "the name of the policy"),
    "node_selector": _labels,
    "node_terms": _terms,
    "driver": _section,
    "peer_memory": _section,
    "functions": function_request.read,
    "netns_mode": netns_mode,
    "kernel_modules": _modules,
    "link_layer": one_of(("Ethernet", "InfiniBand"), None),
}
_REQUIREMENT: Readers = {
    "key": lambda place, value: text_of(place, value, "a label key", syntax.label_key_problem) or "",
    "operator": lambda place, value: text_of(place, value, "an operator", _operator_problem) or "",
    "values": lambda place, value: [
        text for _where, text in texts_in(place, value or [], "values", "the text of a label", _empty_problem)
    ],
}
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
HOST_VARIABLES = (*(part.variable for part in _PARTS.values()), *CONSENTS.values(), "rdma_fabric_recording")


def wanted_interface(desired: HostSpec, key: str) -> InterfaceSpec:
    """Return the entry of ``desired`` with this step ``key``; it is added if missing.

    ``key`` is a PCI address, or the name of an interface without one.
    """
    selector = "current_name" if syntax.pci_address_problem(key) else "pci"
    for entry in desired["interfaces"]:
        if entry.get(selector) == key:
            return entry
    # Checked like a user's entry, it has all keys of one.
    added = check_spec({"interfaces": [{selector: key}]})["interfaces"][0]
    desired["interfaces"].append(added)
    return added
