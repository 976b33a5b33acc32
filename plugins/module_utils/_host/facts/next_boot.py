# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which kernel the next boot starts, by the boot loader's own files, and whether it would come up."""

from __future__ import annotations

import posixpath
import re
from typing import Iterable, NamedTuple, Sequence

from ..machine.probe import Probe, printable
from .boot_entries import (
    BOOT_PARTITIONS,
    GRUB_ENTRIES,
    Chosen,
    Entry,
    entry_of_systemd_boot,
    in_order_of_grub,
    is_systemd_boot,
    read_entries,
)
from .devices import VFIO_DRIVERS
from .gpus import container_runs
from .kernel import SYS_MODULE, built_in, is_loaded, missing_modules
from .shapes import Facts, NextBoot

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
_IMAGE = re.compile(r"(?:vmlinu[xz]|[zZ]?Image|kernel)-(\d.*)")
# They hand functions on, and make no interface of them.
_OF_GUESTS = (*VFIO_DRIVERS, "pci-stub")
RDMA_DRIVER = "mlx5_ib"
GPU_DRIVER = "nvidia"
OSTREE_BOOTED = "/run/ostree-booted"


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
    place = probe.first(places) or ""
    files = in_order_of_grub(read_entries(probe, GRUB_ENTRIES)) if _BLS.search(text) else []
    return Menu(text, _environment(probe, place) if place else "", place, files)


def _environment(probe: Probe, place: str) -> str:
    """Return the variables that GRUB keeps; on Btrfs some are outside of the file, and a program of GRUB reads them."""
    text = probe.content(place) or ""
    if not _variable("env_block", text):
        return text
    shown = (probe.printed(editor, place, "list") for editor in _EDITORS)
    return next((printed for printed in shown if printed is not None), text)


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


def next_boot_of(probe: Probe, facts: Facts) -> NextBoot:
    """Return what the next boot of this host starts.

    Distributions have mlx5_ib in another package than mlx5_core (Ubuntu's linux-modules-extra), and the GPUs' driver is
    built for each kernel; a container brings its own after the boot.
    """
    devices = [*facts["nics"], *facts["gpus"]]
    drivers = {device["driver"] for device in devices if device["driver"] and device["driver"] not in _OF_GUESTS}
    if container_runs(probe):
        drivers.discard(GPU_DRIVER)
    if is_loaded(facts["modules"], RDMA_DRIVER):
        drivers.add(RDMA_DRIVER)
    return read_next_boot(probe, facts["system"]["kernel"], drivers)


def read_next_boot(probe: Probe, running: str, drivers: Iterable[str]) -> NextBoot:
    """Return what the next boot starts; ``kernel`` is None where the boot loader's files do not tell.

    ``drivers`` are those of the host's devices: ``lacks`` are those of them that another kernel than the ``running``
    one has no module of. ``absent`` are files of the entry that are not there, ``modules`` tells that it has modules
    where the running kernel has any.
    """
    chosen = chosen_entry(probe, once=True)
    if chosen is None:
        return {**UNTOLD}
    entry, named_by, once = chosen
    kernel = _release(entry)
    files = {path: _on_this_host(probe, path) for path in (entry.image, *entry.initrds) if path}
    initrds = [place for path, place in files.items() if place and path in entry.initrds]
    lacks: list[str] = []
    if kernel is not None and kernel != running:
        names = sorted({name.replace("-", "_") for name in drivers} - built_in(probe, kernel))
        # One that does not show under its name now is none that could be looked for by it.
        lacks = missing_modules(probe, kernel, [name for name in names if probe.host.exists(f"{SYS_MODULE}/{name}")])
    return {
        "kernel": kernel,
        "entry": printable(entry.title or entry.id),
        "named_by": printable(named_by),
        "once": once,
        "absent": [printable(path) for path, place in files.items() if place is None],
        "initrd": printable(initrds[-1]) if initrds else None,
        "modules": _has_modules(probe, kernel or running) or not _has_modules(probe, running),
        "lacks": lacks,
    }


UNTOLD: NextBoot = {
    "kernel": None,
    "entry": "",
    "named_by": "",
    "once": False,
    "absent": [],
    "initrd": None,
    "modules": False,
    "lacks": [],
}


def chosen_entry(probe: Probe, *, once: bool) -> Chosen | None:
    """Return the entry that the boot loader takes; without ``once`` what counts for one boot is left aside."""
    if probe.host.exists(OSTREE_BOOTED):
        return None
    if is_systemd_boot(probe):
        return entry_of_systemd_boot(probe, once=once)
    menu = read_menu(probe)
    return entry_of_grub(menu, once=once) if menu is not None else None


def _has_modules(probe: Probe, kernel: str) -> bool:
    return probe.host.exists(f"/lib/modules/{kernel}/modules.dep")


def _release(entry: Entry) -> str | None:
    """Return the release of an entry's kernel: by its image's name, else by its version (systemd-boot's kernel-install
    puts the image as ``linux`` into a directory of that name)."""
    found = _IMAGE.fullmatch(posixpath.basename(entry.image))
    release = found.group(1) if found is not None else entry.fields.get("version", "") if entry.image else ""
    return printable(release, 128) if release and "/" not in release else None


def _on_this_host(probe: Probe, path: str) -> str | None:
    """Return where a file of an entry is; the loader counts from its partition's root, or from a subvolume's."""
    places = [f"{root}{path}" for root in ("", *BOOT_PARTITIONS)] + [f"/boot/{posixpath.basename(path)}"]
    return next((place for place in places if place.startswith("/") and probe.host.exists(place)), None)
