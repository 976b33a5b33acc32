# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads that never fail: a value that can't be read is None, and the reason is recorded."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any, Callable, Iterable, Pattern, TypeVar, Union

from .access import READ_LIMIT, CommandResult, Host, HostError
from .host_files import BOOT_ID

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
# Directories of PCI functions, network interfaces and RDMA devices, by name.
PCI = "/sys/bus/pci/devices"
NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
# An address written to it binds the function to the matching driver.
DRIVERS_PROBE = "/sys/bus/pci/drivers_probe"
TEXT_LIMIT = 256
# A process may end while it is read.
ENDED = ("ESRCH",)
# The failure of what was read and makes no sense.
GARBAGE = "EBADMSG"
# In seconds; modinfo has taken more than 10 on a host whose cores were all busy.
_COMMAND_TIMEOUT = 30.0
_AROUND = " \t\r\n\0"
_T = TypeVar("_T")
_MEANINGS = {
    "EACCES": "needs root",
    "EPERM": "needs root, or the kernel's lockdown forbids it",
    "EINVAL": "the kernel has no value in this state",
    "EOPNOTSUPP": "the driver does not support it",
    "ENODEV": "the device went away while it was read",
    "ENXIO": "the device went away while it was read",
    "EIO": "the device does not answer",
    "ETIMEDOUT": "no answer in time",
    "ELOOP": "symbolic links form a loop",
    "EFBIG": "it is longer than any file of ours",
    GARBAGE: "it has another form than expected",
    "EISDIR": "a directory stands where a file is expected",
    "ENOTDIR": "a file stands where a directory is expected",
}
# The path of a device in /sys/devices: its last PCI address is that of its function.
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


def printable(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return text of a host as one bounded line; unprintable characters are escaped, so names stay distinct."""
    cut = text[:limit]
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)[:limit]


def in_one_line(text: str) -> str:
    """Return lines joined to one sentence: devlink and dcb print the driver's reason first, then the kernel's."""
    return "; ".join(line.strip().rstrip(".;") for line in text.splitlines() if line.strip())


def last_words(result: CommandResult) -> str:
    """Return the last line that a program printed, of its error output if there is any."""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return printable(lines[-1]) if lines else "it printed nothing"


def pci_address_in(path: str) -> str | None:
    """Return the last PCI address among the parts of a path in /sys/devices."""
    found = [part for part in path.split("/") if _PCI_ADDRESS.fullmatch(part)]
    return found[-1] if found else None


def is_pci_address(text: str) -> bool:
    """Return whether text is a complete PCI address with its domain."""
    return _PCI_ADDRESS.fullmatch(text) is not None


def first_pci_address(text: str) -> str:
    """Return the first PCI address in a text, empty if there is none."""
    found = _PCI_ADDRESS.search(text)
    return found.group() if found else ""


def natural(text: str) -> tuple[Any, ...]:
    """Return a key that sorts ``mlx5_2`` before ``mlx5_10``."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text))


def address_of(text: object) -> Address | None:
    """Return the IP address in a text, None if it is none."""
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None


def network_of(text: object) -> Network | None:
    """Return the network in a text, which may be an address with prefix; None if it is none."""
    try:
        return ipaddress.ip_network(text, strict=False) if isinstance(text, str) else None
    except ValueError:
        return None


def parsed(text: str) -> Any:
    """Return the JSON in a program's output, None if it is invalid or truncated."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON list; none if it is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


class Probe:
    """Read a host attribute by attribute.

    Every failure is classified. ENOENT always means "not supported here" and returns None without a record, and so does
    ENODATA, which a recorded host raises for what was left out of it; ``states`` names errors that are states of an
    attribute (``carrier`` of a down interface gives EINVAL). All others are recorded. A directory is listed once.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._failures: dict[tuple[str, str], None] = {}
        self._listed: dict[str, list[str]] = {}

    def unreadable(self) -> list[dict[str, str]]:
        """Return the unexpected failures, each with its meaning."""
        return [
            {"path": printable(path), "error": code, "meaning": _MEANINGS.get(code, "unexpected")}
            for path, code in self._failures
        ]

    def text(
        self, path: str, states: tuple[str, ...] = (), limit: int = TEXT_LIMIT, form: Pattern[str] | None = None
    ) -> str | None:
        """Return an attribute as one clean line of at most ``limit`` characters.

        None if it can't be read, or does not have the ``form`` that the kernel gives it.
        """
        content = self.content(path, states)
        text = None if content is None else printable(content.strip(_AROUND), limit)
        if text is not None and form is not None and form.fullmatch(text) is None:
            self.note(path, GARBAGE)
            return None
        return text

    def content(self, path: str, states: tuple[str, ...] = ()) -> str | None:
        """Return a file's unmodified text, for a parser; None if it can't be read."""
        return self._tried(path, states, lambda: self.host.read(path))

    def data(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        """Return a file's bytes, at most ``limit`` of them, None if it can't be read."""
        return self._tried(path, (), lambda: self.host.read_bytes(path, limit))

    def value(self, path: str, parse: Callable[[str], _T | None], states: tuple[str, ...] = ()) -> _T | None:
        """Return what ``parse`` makes of a file's text; None if it can't be read, or ``parse`` makes nothing of it."""
        content = self.content(path, states)
        found = None if content is None else parse(content.strip(_AROUND))
        if found is None and content is not None:
            self.note(path, GARBAGE)
        return found

    def number(self, path: str, states: tuple[str, ...] = (), base: int = 10) -> int | None:
        """Return an attribute as an integer (base 16 accepts a 0x prefix), None if it is not a number."""
        return self.value(path, lambda text: parse_int(text, base), states)

    def names(self, path: str, states: tuple[str, ...] = ()) -> list[str]:
        """Return the names in a directory, none if it can't be listed."""
        if path not in self._listed:
            self._listed[path] = self._tried(path, states, lambda: self.host.list(path)) or []
        return list(self._listed[path])

    def target(self, path: str, states: tuple[str, ...] = ()) -> str | None:
        """Return the raw target of a link, None if there is no link."""
        return self._tried(path, ("EINVAL", *states), lambda: self.host.link(path))

    def target_name(self, path: str) -> str | None:
        """Return the last part of a link's target (a driver, a group, a device), None if there is no link."""
        target = self.target(path)
        return printable(target.rstrip("/").rsplit("/", 1)[-1]) if target else None

    def command(self, *argv: str, seconds: float = _COMMAND_TIMEOUT) -> CommandResult | None:
        """Return the result of a program, None if it can't be run."""
        return self._tried(" ".join(argv), ("ENOSYS",), lambda: self.host.run(argv, seconds))

    def lacks(self, program: str) -> bool:
        """Return whether the host lacks a program; always false for recordings, which do not contain this."""
        try:
            self.host.run((program, "--version"), _COMMAND_TIMEOUT)
        except HostError as error:
            return error.code == "ENOENT"
        return False

    def output(self, *argv: str, seconds: float = _COMMAND_TIMEOUT) -> str:
        """Return the output of a program that succeeded, empty otherwise."""
        return self.printed(*argv, seconds=seconds) or ""

    def printed(self, *argv: str, seconds: float = _COMMAND_TIMEOUT) -> str | None:
        """Return the output of a program that succeeded, None otherwise."""
        result = self.command(*argv, seconds=seconds)
        return result.stdout if result is not None and result.rc == 0 else None

    def json(self, *argv: str) -> str | None:
        """Return the JSON that a program prints, a list if it prints nothing, None if it fails or prints other text."""
        # A program that fails says that there is no such device, or has not the option: nothing to know.
        printed = self.printed(*argv)
        if printed is None:
            return None
        text = printed.strip() or "[]"
        if parsed(text) is None:
            self.note(" ".join(argv), GARBAGE)
            return None
        return text

    def first(self, paths: Iterable[str]) -> str | None:
        """Return the first of these paths that exists, None if none does."""
        return next((path for path in paths if self.host.exists(path)), None)

    def failed(self, path: str) -> bool:
        """Return whether a file or program exists but could not be read or run."""
        return any(path == each.split(" ")[0] for each, _code in self._failures)

    def note(self, path: str, code: str) -> None:
        """Record that a file, or what a command printed, is there and is not known."""
        self._failures[(path, code)] = None

    def _tried(self, path: str, states: tuple[str, ...], read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except HostError as error:
            if error.code not in {"ENOENT", "ENODATA", *states}:
                self.note(path, error.code)
            return None


def files_by_name(probe: Probe, directories: Iterable[str], ending: str) -> list[str]:
    """Return the files in directories with this suffix, in the order of their names.

    A file masks those of the same name in later directories, as for systemd and udev.
    """
    places: dict[str, str] = {}
    for directory in directories:
        for name in probe.names(directory):
            if name.endswith(ending):
                places.setdefault(name, f"{directory}/{name}")
    return [places[name] for name in sorted(places)]


def texts_of(probe: Probe, paths: Iterable[str], endings: tuple[str, ...] = ("",)) -> list[tuple[str, str]]:
    """Return files, and those in directories (paths that end with a slash), each with its text."""
    places = []
    for path in paths:
        names = probe.names(path.rstrip("/"), ("ENOTDIR",)) if path.endswith("/") else []
        places += [f"{path}{name}" for name in names if name.endswith(endings)] if path.endswith("/") else [path]
    texts = [(place, probe.content(place, ("EISDIR",))) for place in places]
    return [(place, text) for place, text in texts if text is not None]


def text_at(host: Host, path: str) -> str:
    """Return a file's text, empty if it can't be read; not recorded as a failure, as processes end meanwhile."""
    return Probe(host).content(path) or ""


def names_at(host: Host, path: str) -> list[str]:
    """Return the names in a directory, none if it can't be listed; this is not recorded as a failure."""
    return Probe(host).names(path)


def target_at(host: Host, path: str) -> str:
    """Return the raw target of a link, empty if it can't be read; this is not recorded as a failure."""
    return Probe(host).target(path) or ""


def boot_id(host: Host) -> str:
    """Return the id of the current boot, empty if the kernel has none."""
    return text_at(host, BOOT_ID).strip()


def parse_int(text: str, base: int = 10) -> int | None:
    """Return the integer in a text, None if it is none or has more than 64 bits."""
    try:
        value = int(text, base)
    except ValueError:
        return None
    return value if -(2**63) <= value < 2**64 else None
