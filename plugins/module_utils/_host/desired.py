# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's variables ask for, checked and brought into one shape. Private to this collection: it may change."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host import syntax
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation

HostDesired = Dict[str, Any]
Check = Callable[[str], str]

SELECTORS = ("pci", "mac", "current_name")
INTERFACE_KEYS = (*SELECTORS, "name", "mtu", "vf_mtu", "state", "vfs")
STATES = ("up", "down")
CONSENTS = {"vf_reset": "rdma_fabric_allow_vf_reset", "uplink_change": "rdma_fabric_allow_uplink_change"}
HOST_VARIABLES = (
    "rdma_fabric_interfaces",
    "rdma_fabric_kernel_modules",
    "rdma_fabric_node_labels",
    "rdma_fabric_uplinks",
    *CONSENTS.values(),
    "rdma_fabric_recorded_host",
    "ansible_host",
)
_DESIRED_KEYS = ("interfaces", "kernel_modules", "node_labels", "uplinks", "connection_address", "consents", "requests")
_REQUEST_KEYS = ("source", "node_selector", "driver", "peer_memory")
_TYPE_NAMES = {bool: "a boolean", int: "a whole number", float: "a number", str: "text", type(None): "nothing"}
_MAX_SHOWN = 60


@dataclass
class _Found:
    """What the reading of one host came across."""

    violations: list[Violation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    """One place of the input; problems are noted where they are."""

    found: _Found
    source: str
    path: str = ""

    def at(self, key: str | int) -> _Place:
        """Return the place of one member."""
        if isinstance(key, int):
            return _Place(self.found, self.source, f"{self.path}[{key}]")
        shown = key if re.fullmatch(r"[\w./-]{1,80}", key, re.ASCII) else _shown(key)
        return _Place(self.found, self.source, f"{self.path}.{shown}" if self.path else shown)

    def violation(self, problem: str, hint: str = "") -> None:
        """Note what forbids the run."""
        self.found.violations.append(Violation(self.source, self.path, problem, hint))

    def notice(self, problem: str, hint: str = "") -> None:
        """Note what deserves a look."""
        self.found.notices.append(Notice(self.source, self.path, problem, hint))


def parse_host_variables(host: str, variables: Mapping[str, Any]) -> tuple[HostDesired, list[Violation], list[Notice]]:
    """Check the variables of one inventory host and return what they ask for.

    ``variables`` may hold any of ``HOST_VARIABLES``; an absent one or ``None`` means not given. MTUs are bytes.
    The result is complete even when there are violations, but only a result without any may be planned.
    """
    found = _Found()

    def place(variable: str) -> _Place:
        return _Place(found, f"host {syntax.one_line(host)}: {variable}")

    def given(variable: str) -> Any:
        return variables.get(variable)

    recorded = given("rdma_fabric_recorded_host")
    if recorded is not None:
        _text(place("rdma_fabric_recorded_host"), recorded, "the path of a recorded host on the controller")
    desired = {
        "interfaces": _interfaces(place("rdma_fabric_interfaces"), given("rdma_fabric_interfaces")),
        "kernel_modules": _modules(place("rdma_fabric_kernel_modules"), given("rdma_fabric_kernel_modules")),
        "node_labels": _labels(place("rdma_fabric_node_labels"), given("rdma_fabric_node_labels")),
        "uplinks": _uplinks(place("rdma_fabric_uplinks"), given("rdma_fabric_uplinks")),
        "connection_address": _address(place("ansible_host"), given("ansible_host")),
        "consents": {name: _consent(place(var), given(var)) for name, var in CONSENTS.items()},
        "requests": [],
    }
    return desired, found.violations, found.notices


def check_desired(document: Any) -> HostDesired:
    """Check a desired state in the shape that ``parse_host_variables`` returns and return it complete.

    Raises ``InvalidInput`` with every violation.
    """
    found = _Found()
    root = _Place(found, "desired")
    if not isinstance(document, Mapping):
        root.violation(f"is {_kind(document)}, a mapping is needed", "give what the preflight role registered")
        raise InvalidInput(found.violations)
    _known_keys(root, document, _DESIRED_KEYS)
    consents = document.get("consents")
    if consents is None:
        consents = {}
    if not isinstance(consents, Mapping):
        root.at("consents").violation(f"is {_kind(consents)}, a mapping of {', '.join(CONSENTS)} is needed")
        consents = {}
    _known_keys(root.at("consents"), consents, CONSENTS)
    desired = {
        "interfaces": _interfaces(root.at("interfaces"), document.get("interfaces")),
        "kernel_modules": _modules(root.at("kernel_modules"), document.get("kernel_modules")),
        "node_labels": _labels(root.at("node_labels"), document.get("node_labels")),
        "uplinks": _uplinks(root.at("uplinks"), document.get("uplinks")),
        "connection_address": _address(root.at("connection_address"), document.get("connection_address")),
        "consents": {name: _consent(root.at("consents").at(name), consents.get(name)) for name in CONSENTS},
        "requests": _requests(root.at("requests"), document.get("requests")),
    }
    if found.violations:
        raise InvalidInput(found.violations)
    return desired


def _shown(value: Any) -> str:
    """Return ``value`` as it may stand in a message: one line, not longer than a person reads."""
    text = syntax.one_line(repr(value))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _kind(value: Any) -> str:
    for known, name in _TYPE_NAMES.items():
        if isinstance(value, known):
            return name
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else type(value).__name__


def _known_keys(place: _Place, mapping: Mapping[Any, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in mapping:
        if not isinstance(key, str):
            place.violation(f"has the key {_shown(key)}, which is {_kind(key)}; a key is text")
        elif key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
            place.at(key).violation("is not a known key", hint)


def _text(place: _Place, value: Any, what: str, check: Check | None = None, *, lower: bool = False) -> str | None:
    """Return text that passes ``check``; ``None`` after noting what is wrong."""
    if not isinstance(value, str):
        place.violation(f"is {_kind(value)} ({_shown(value)}), {what} is needed", _quoting_hint(value))
        return None
    text = value.lower() if lower else str(value)
    problem = check(text) if check else ("" if text else "is empty")
    if problem:
        place.violation(f"{_shown(text)} {problem}")
        return None
    return text


def _quoting_hint(value: Any) -> str:
    if isinstance(value, bool):
        return f'quote it: "{str(value).lower()}"'
    if isinstance(value, (int, float)):
        return "quote it: YAML reads digits and colons without quotes as a number"
    return ""


def _list(place: _Place, value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        place.violation(f"is {_kind(value)} ({_shown(value)}), a list of {what} is needed")
        return []
    return list(value)


def _whole_number(place: _Place, value: Any, low_problem: Callable[[int], str]) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        place.violation(f"is {_kind(value)} ({_shown(value)}), a whole number is needed")
        return None
    problem = low_problem(value)
    if problem:
        place.violation(f"{value} {problem}")
        return None
    return int(value)


def _vfs_problem(count: int) -> str:
    if count < 0:
        return "is negative; 0 removes the virtual functions"
    return f"is above {syntax.MAX_VFS}, the most SR-IOV can number" if count > syntax.MAX_VFS else ""


def _interfaces(place: _Place, value: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    places: list[_Place] = []
    for index, item in enumerate(_list(place, value, "interfaces")):
        here = place.at(index)
        if not isinstance(item, Mapping):
            here.violation(f"is {_kind(item)} ({_shown(item)}), a mapping with one of {', '.join(SELECTORS)} is needed")
            continue
        entries.append(_interface(here, item))
        places.append(here)
    _no_duplicates(places, entries)
    return entries


def _interface(place: _Place, item: Mapping[Any, Any]) -> dict[str, Any]:
    _known_keys(place, item, INTERFACE_KEYS)
    selectors = [key for key in SELECTORS if item.get(key) is not None]
    if len(selectors) != 1:
        given = f"has {' and '.join(selectors)}" if selectors else "does not say which interface it means"
        place.violation(given, f"give exactly one of {', '.join(SELECTORS)}")
    entry: dict[str, Any] = {}
    checks = {
        "pci": ("a PCI address", syntax.pci_address_problem, True),
        "mac": ("a hardware address", syntax.hardware_address_problem, True),
        "current_name": ("an interface name", syntax.interface_name_problem, False),
    }
    for key in selectors:
        what, check, lower = checks[key]
        text = _text(place.at(key), item[key], what, check, lower=lower)
        if text is not None:
            entry[key] = text
    entry["name"] = _new_name(place.at("name"), item.get("name"), item.get("current_name"))
    for key in ("mtu", "vf_mtu"):
        value = item.get(key)
        entry[key] = None if value is None else _whole_number(place.at(key), value, syntax.mtu_problem)
    vfs = item.get("vfs")
    entry["vfs"] = None if vfs is None else _whole_number(place.at("vfs"), vfs, _vfs_problem)
    entry["state"] = _state(place.at("state"), item.get("state"))
    _check_vf_mtu(place.at("vf_mtu"), entry)
    return entry


def _new_name(place: _Place, value: Any, current: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value == current:
        return _text(place, value, "an interface name", syntax.interface_name_problem)
    return _text(place, value, "an interface name", syntax.new_name_problem)


def _state(place: _Place, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value in STATES:
        return str(value)
    hint = 'quote it: YAML reads on, off, yes and no as booleans; "up" or "down"' if isinstance(value, bool) else ""
    place.violation(f"is {_shown(value)}, {' or '.join(STATES)} is needed", hint)
    return None


def _check_vf_mtu(place: _Place, entry: Mapping[str, Any]) -> None:
    if entry["vf_mtu"] is None:
        return
    if entry["mtu"] is not None and entry["vf_mtu"] > entry["mtu"]:
        place.violation(
            f"{entry['vf_mtu']} is above the MTU {entry['mtu']} of the interface, so the NIC would drop larger frames",
            "raise mtu or lower vf_mtu",
        )
    if entry["vfs"] == 0:
        place.notice("has no effect: vfs is 0", "leave it out")


def _no_duplicates(places: list[_Place], entries: list[dict[str, Any]]) -> None:
    """Note interfaces that are given twice, names wanted twice, and names that would make a second run differ."""
    seen: dict[tuple[str, str], str] = {}
    for place, entry in zip(places, entries):
        for key in (*SELECTORS, "name"):
            value = entry.get(key)
            if value is None:
                continue
            first = seen.setdefault((key, value), place.path)
            if first != place.path:
                place.at(key).violation(f"{_shown(value)} is given by {first} already", "each interface needs its own")
    by_current = {entry["current_name"]: place for place, entry in zip(places, entries) if "current_name" in entry}
    for place, entry in zip(places, entries):
        other = by_current.get(entry["name"])
        if other is not None and other is not place:
            place.at("name").violation(
                f"{_shown(entry['name'])} is how {other.path} finds its interface, so the next run would take this one",
                f"select {other.path} by pci or mac",
            )


def _modules(place: _Place, value: Any) -> list[str]:
    names: list[str] = []
    for index, item in enumerate(_list(place, value, "kernel module names")):
        name = _text(place.at(index), item, "a kernel module name", syntax.module_name_problem)
        if name is None:
            continue
        if name.replace("-", "_") in [known.replace("-", "_") for known in names]:
            place.at(index).notice(f"{name} is listed twice", "leave one out")
        else:
            names.append(name)
    return names


def _labels(place: _Place, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        place.violation(f"is {_kind(value)} ({_shown(value)}), a mapping of label keys to values is needed")
        return {}
    labels: dict[str, str] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            place.violation(f"has the key {_shown(key)}, which is {_kind(key)}; a label key is text")
            continue
        problem = syntax.label_key_problem(key)
        if problem:
            place.at(key).violation(problem)
        text = _label_value(place.at(key), item)
        if text is not None:
            labels[str(key)] = text
    return labels


def _label_value(place: _Place, value: Any) -> str | None:
    return _text(place, value, "the text of a label", syntax.label_value_problem)


def _uplinks(place: _Place, value: Any) -> list[str]:
    texts = (
        _text(place.at(index), item, "an interface name", syntax.interface_name_problem)
        for index, item in enumerate(_list(place, value, "interface names"))
    )
    return list(dict.fromkeys(text for text in texts if text is not None))


def _address(place: _Place, value: Any) -> str | None:
    return None if value is None else _text(place, value, "a host name or address")


def _consent(place: _Place, value: Any) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        return bool(value)
    hint = "write true or false without quotes; on the command line as JSON: -e '{\"NAME\": true}'"
    place.violation(
        f"is {_kind(value)} ({_shown(value)}): a consent is a boolean, so that no text passes for one", hint
    )
    return False


def _requests(place: _Place, value: Any) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = []
    for index, item in enumerate(_list(place, value, "host requests")):
        here = place.at(index)
        if not isinstance(item, Mapping):
            here.violation(f"is {_kind(item)} ({_shown(item)}), a mapping is needed")
            continue
        _known_keys(here, item, _REQUEST_KEYS)
        request: dict[str, Any] = {
            "source": _text(here.at("source"), item.get("source"), "the name of what asks"),
            "node_selector": _labels(here.at("node_selector"), item.get("node_selector")),
        }
        for key in ("driver", "peer_memory"):
            request[key] = _section(here.at(key), item.get(key))
        requests.append(request)
    return requests


def _section(place: _Place, value: Any) -> dict[str, Any] | None:
    """Return a section of an operator's spec: the parts a host is planned with are text, the rest is kept."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        place.violation(f"is {_kind(value)} ({_shown(value)}), a mapping is needed")
        return None
    for key in ("repository", "image", "version"):
        if value.get(key) is not None:
            _text(place.at(key), value[key], "text")
    return dict(value)
