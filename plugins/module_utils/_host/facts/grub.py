# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the entry that GRUB boots in a grub.cfg that grub-mkconfig wrote."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from ..machine.probe import Probe
from .boot_entries import GRUB_ENTRIES, Chosen, Entry, in_order_of_grub, read_entries

DIRECTORIES = ("/boot/grub", "/boot/grub2")
_EFI = "/sys/firmware/efi"
_ON_EFI_PARTITION = "/boot/efi/EFI"
_EDITORS = ("grub2-editenv", "grub-editenv")
_ENTRY = re.compile(r"(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\")")
_ID = re.compile(r"(?:\$menuentry_id_option|--id[ =])\s*'?([^'\s{]+)'?")
_DEFAULT = re.compile(r'set default="([^"]*)"')
_VARIABLE = r"^{}=(.*)$"
_BLS = re.compile(r"^\s*blscfg\b", re.MULTILINE)
_LINUX = ("linux", "linuxefi", "linux16")
_INITRD = ("initrd", "initrdefi", "initrd16")
_ONE_TIME, _KEPT = "${next_entry}", "${saved_entry}"


class Menu(NamedTuple):
    """What GRUB reads: the text of grub.cfg and of grubenv, the latter's path, and entries that are files."""

    text: str
    environment: str
    place: str
    files: Sequence[Entry] = ()


def read_menu(probe: Probe) -> Menu | None:
    """Return the menu of this host, None where there is none, or several that GRUB may read.

    On the EFI partition Red Hat's older installations have the whole menu, others a few lines that lead to /boot.
    """
    found = [directory for directory in DIRECTORIES if probe.host.exists(f"{directory}/grub.cfg")][:1]
    if probe.host.exists(_EFI):
        vendors = [f"{_ON_EFI_PARTITION}/{name}" for name in probe.names(_ON_EFI_PARTITION)]
        found = [path for path in vendors if "menuentry" in (probe.content(f"{path}/grub.cfg") or "")] or found
    text = probe.content(f"{found[0]}/grub.cfg") if len(found) == 1 else None
    if text is None:
        return None
    places = (f"{directory}/grubenv" for directory in (found[0], *DIRECTORIES))
    place = next((path for path in places if probe.host.exists(path)), "")
    files = in_order_of_grub(read_entries(probe, GRUB_ENTRIES)) if _BLS.search(text) else []
    return Menu(text, _environment(probe, place) if place else "", place, files)


def _environment(probe: Probe, place: str) -> str:
    """Return the variables that GRUB keeps; on Btrfs some are outside of the file, and a program of GRUB reads them."""
    text = probe.content(place) or ""
    if not _variable("env_block", text):
        return text
    shown = (probe.command(editor, place, "list") for editor in _EDITORS)
    return next((result.stdout for result in shown if result is not None and result.rc == 0), text)


def entry_of_grub(menu: Menu, *, once: bool) -> Chosen | None:
    """Return the entry that GRUB takes; without ``once`` what counts for one boot is left aside.

    The way to an entry is written like ``1>0`` or with titles or ids; what leads nowhere means the first entry, as in
    GRUB.
    """
    entries = parse(menu.text, menu.files)
    defaults = _DEFAULT.findall(menu.text)
    one_time = _variable("next_entry", menu.environment) if once and _ONE_TIME in defaults else ""
    if one_time:
        way, named_by = one_time, f"next_entry of {menu.place}"
    else:
        way, named_by = next((value for value in defaults if value != _ONE_TIME), ""), "the default of grub.cfg"
    if way == _KEPT:
        way, named_by = _variable("saved_entry", menu.environment), f"saved_entry of {menu.place}"
    found = _resolve(entries, (way or "0").split(">"))
    if found is not None and way:
        return Chosen(found, named_by, bool(one_time))
    first = found or _first(entries)
    return Chosen(first, f"its place, as {named_by} names none", bool(one_time)) if first is not None else None


def parse(text: str, files: Sequence[Entry] = ()) -> list[Entry]:
    """Return the menu as a tree; ``files`` stand where it has blscfg."""
    root = Entry("", "")
    stack: list[Entry | None] = [root]
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            continue
        found = _ENTRY.match(line)
        if found is not None:
            identity = _ID.search(line)
            entry = Entry(found.group(2) or found.group(3) or "", identity.group(1) if identity else "")
            parent = next(known for known in reversed(stack) if known is not None)
            parent.children.append(entry)
            stack.append(entry)
        elif line.endswith("{") and not line.startswith("$"):
            # A function's body: nothing in it is an entry.
            stack.append(None)
        elif line == "}" and len(stack) > 1:
            stack.pop()
        elif _BLS.match(line):
            root.children += files
        else:
            _take_files(stack[-1], line.split())
    return root.children


def _take_files(entry: Entry | None, words: Sequence[str]) -> None:
    if entry is None or len(words) < 2:
        return
    if entry.line is None and words[0] in _LINUX:
        entry.image, entry.line = words[1], list(words[2:])
    elif words[0] in _INITRD:
        entry.initrds += [word for word in words[1:] if not word.startswith("$")]


def _variable(name: str, environment: str) -> str:
    found = re.search(_VARIABLE.format(name), environment, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _resolve(entries: Sequence[Entry], way: Sequence[str]) -> Entry | None:
    step = way[0].strip()
    chosen = next((entry for entry in entries if step in (entry.title, entry.id)), None)
    if chosen is None and step.isdecimal() and int(step) < len(entries):
        chosen = entries[int(step)]
    if chosen is None or not chosen.children:
        return chosen
    return _resolve(chosen.children, way[1:] or ["0"])


def _first(entries: Sequence[Entry]) -> Entry | None:
    for entry in entries:
        found = entry if entry.line is not None else _first(entry.children)
        if found is not None:
            return found
    return None
