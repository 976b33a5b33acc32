# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read boot entries, including those in files (uapi-group.org, the boot loader specification).

GRUB of Red Hat's family (``blscfg``) and systemd-boot read the same files, but sort them differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cmp_to_key
from typing import Iterable, NamedTuple

from ..machine.probe import Probe
from ..spec.arguments import words_of

GRUB_ENTRIES = "/boot/loader/entries"
# The boot loader interface (systemd.io/BOOT_LOADER_INTERFACE): attributes, then UTF-16.
_VARIABLE = "/sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
# Mount points of systemd-boot's partitions.
BOOT_PARTITIONS = ("/boot", "/efi", "/boot/efi")
_SAVED = "@saved"
_SEGMENT = re.compile(r"\d+|[a-zA-Z]+|~")


@dataclass
class Entry:
    """A boot entry with its kernel command line (without the image) and files as the loader names them, or a submenu.

    ``fields`` are the other lines of an entry's file.
    """

    title: str
    id: str
    line: list[str] | None = None
    image: str = ""
    initrds: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    children: list[Entry] = field(default_factory=list)


class Chosen(NamedTuple):
    """The entry that a boot loader boots, what selects it, and whether only for the next boot."""

    entry: Entry
    named_by: str
    once: bool = False


def parse_entry(name: str, text: str) -> Entry:
    """Return the entry in a file of this name; its boot counter (``+3-1``) is not part of the id."""
    entry = Entry("", re.sub(r"(?:\+\d+(?:-\d+)?)?\.conf$", "", name))
    tries = re.search(r"\+(\d+)(?:-\d+)?\.conf$", name)
    entry.fields["tries"] = tries.group(1) if tries else ""
    for raw in text.splitlines():
        key, *rest = raw.strip().split(None, 1)[:2] or [""]
        value = rest[0].strip() if rest else ""
        if key == "options":
            entry.line = [*(entry.line or []), *words_of(value)]
        elif key == "initrd":
            # GRUB accepts several, and variables that are empty on most hosts ($tuned_initrd).
            entry.initrds += [word for word in value.split() if not word.startswith("$")]
        elif key == "linux":
            entry.image = value
        elif key and not key.startswith("#"):
            entry.fields.setdefault(key, value)
    entry.title = entry.fields.get("title", "")
    return entry


def read_entries(probe: Probe, directory: str) -> list[Entry]:
    """Return the entries in a directory, without those that have no kernel."""
    names = [name for name in probe.names(directory) if name.endswith(".conf") and not name.startswith(".")]
    found = [parse_entry(name, probe.content(f"{directory}/{name}") or "") for name in names]
    return [entry for entry in found if entry.image or entry.line is not None]


def in_order_of_grub(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries in the order of blscfg: by id, compared like a package name, newest first.

    So an entry of another machine id may come before newer kernels (rhboot/grub2, grub-core/commands/blscfg.c, bls_cmp
    and vercmp).
    """
    newer = cmp_to_key(_compared)
    return sorted(entries, key=lambda entry: [newer(part) for part in _parts(entry.id)], reverse=True)


def _parts(text: str) -> list[str]:
    """Return the name, version and release in a package name."""
    parts = text.rsplit("-", 2)
    return [*parts, *[""] * (3 - len(parts))]


def _compared(one: str, other: str) -> int:
    """Compare versions like RPM, and like systemd except for rare characters: 1 if the first is newer, -1 if older."""
    mine, theirs = _SEGMENT.findall(one), _SEGMENT.findall(other)
    for left, right in zip(mine, theirs):
        if left == right:
            continue
        if "~" in (left, right):
            return -1 if left == "~" else 1
        if left.isdecimal() != right.isdecimal():
            return 1 if left.isdecimal() else -1
        if left.isdecimal() and int(left) == int(right):
            continue
        newer = int(left) > int(right) if left.isdecimal() else left > right
        return 1 if newer else -1
    rest = mine[len(theirs) :] or theirs[len(mine) :]
    longer = 1 if len(mine) > len(theirs) else -1
    return 0 if not rest else -longer if rest[0] == "~" else longer


def is_systemd_boot(probe: Probe) -> bool:
    """Return whether systemd-boot booted this host."""
    return _variable(probe, "LoaderInfo").startswith("systemd-boot")


def entry_of_systemd_boot(probe: Probe, *, once: bool) -> Chosen | None:
    """Return the entry that systemd-boot boots; without ``once``, one-time choices are ignored.

    None if unknown, for example if a unified kernel image may sort first (systemd, src/boot/boot.c,
    config_select_default_entry and boot_entry_compare).
    """
    directories = (f"{place}/loader/entries" for place in BOOT_PARTITIONS)
    directory = next((path for path in directories if probe.names(path)), None)
    if directory is None or any(probe.names(f"{place}/EFI/Linux") for place in BOOT_PARTITIONS):
        return None
    newer = cmp_to_key(_compared)
    entries = sorted(read_entries(probe, directory), key=lambda entry: newer(entry.id), reverse=True)
    entries.sort(key=lambda entry: newer(entry.fields.get("version", "") if _is_sorted(entry) else ""), reverse=True)
    entries.sort(key=_place)
    settings = _settings(probe)
    ways = [(_variable(probe, "LoaderEntryOneShot"), "LoaderEntryOneShot", True)] if once else []
    ways += [(_variable(probe, name), name, False) for name in ("LoaderEntryPreferred", "LoaderEntryDefault")]
    ways += [(settings.get(key, ""), f"{key} of loader.conf", False) for key in ("preferred", "default")]
    for pattern, named_by, one_shot in ways:
        chosen = _variable(probe, "LoaderEntryLastBooted") if pattern.lower() == _SAVED else pattern
        found = next((entry for entry in entries if _fits(entry, chosen)), None)
        if found is not None:
            return Chosen(found, named_by, one_shot)
    return Chosen(entries[0], "the order of its entries") if entries else None


def _is_sorted(entry: Entry) -> bool:
    """Return whether an entry has a sort key; entries without one come last, sorted by id alone."""
    return bool(entry.fields.get("sort-key"))


def _place(entry: Entry) -> tuple[bool, bool, str, str]:
    keys = [entry.fields.get(key, "") if _is_sorted(entry) else "" for key in ("sort-key", "machine-id")]
    return entry.fields["tries"] == "0", not _is_sorted(entry), keys[0], keys[1]


def _fits(entry: Entry, pattern: str) -> bool:
    """Return whether a pattern, an id with its suffix, matches an entry."""
    return bool(pattern) and fnmatchcase(f"{entry.id}.conf".lower(), pattern.lower())


def _settings(probe: Probe) -> dict[str, str]:
    """Return the settings in loader.conf, from the partition that has one."""
    texts = (probe.content(f"{place}/loader/loader.conf") for place in BOOT_PARTITIONS)
    lines = [line.split(None, 1) for line in next((text for text in texts if text is not None), "").splitlines()]
    return {words[0]: words[1].strip() for words in lines if len(words) > 1 and not words[0].startswith("#")}


def _variable(probe: Probe, name: str) -> str:
    data = probe.data(_VARIABLE.format(name))
    return data[4:].decode("utf-16-le", "replace").rstrip("\0") if data is not None else ""
