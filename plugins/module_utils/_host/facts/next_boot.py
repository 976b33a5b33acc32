# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from the boot loader's files which kernel the next boot starts, and whether its files and drivers exist."""

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
from .gpus import FABRIC_MANAGER, container_runs
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
_ONE_TIME, _SAVED = "${next_entry}", "${saved_entry}"
_IMAGE = re.compile(r"(?:vmlinu[xz]|[zZ]?Image|kernel)-(\d.*)")
_MANAGER_VERSION = re.compile(r"Fabric Manager version is\s*:\s*([\d.]{1,32})")
# These pass functions through to guests and make no interface.
_PASSTHROUGH = (*VFIO_DRIVERS, "pci-stub")
RDMA_DRIVER = "mlx5_ib"
GPU_DRIVER = "nvidia"
OSTREE_BOOTED = "/run/ostree-booted"
# The partitions from which a Proxmox host starts, with boot loader and entries. Nothing mounts them.
PROXMOX_PARTITIONS = "/etc/kernel/proxmox-boot-uuids"
UNKNOWN: NextBoot = {
    "kernel": None,
    "entry": "",
    "named_by": "",
    "once": False,
    "absent": [],
    "initrd": None,
    "modules": False,
    "lacks": [],
    "fabric_manager": [],
    "kexec": False,
}


class Menu(NamedTuple):
    """GRUB's input: the text of grub.cfg and of grubenv, the path of grubenv, and the entries in files."""

    text: str
    environment: str
    path: str
    files: Sequence[Entry] = ()


def read_menu(probe: Probe) -> Menu | None:
    """Return the GRUB menu of this host; None if there is none, or if GRUB may read one of several.

    Older installations of Red Hat have the whole menu on the EFI partition, others a few lines there that load the one
    in /boot.
    """
    directories = [directory for directory in DIRECTORIES if probe.host.exists(f"{directory}/grub.cfg")][:1]
    if probe.host.exists(_EFI):
        vendors = [f"{_ON_EFI_PARTITION}/{name}" for name in probe.names(_ON_EFI_PARTITION)]
        directories = [
            path for path in vendors if "menuentry" in (probe.content(f"{path}/grub.cfg") or "")
        ] or directories
    text = probe.content(f"{directories[0]}/grub.cfg") if len(directories) == 1 else None
    if text is None:
        return None
    environments = (f"{directory}/grubenv" for directory in (directories[0], *DIRECTORIES))
    environment = probe.first(environments) or ""
    files = in_order_of_grub(read_entries(probe, GRUB_ENTRIES)) if _BLS.search(text) else []
    return Menu(text, _grub_variables(probe, environment) if environment else "", environment, files)


def entry_of_grub(menu: Menu, *, once: bool) -> Chosen | None:
    """Return the entry that GRUB boots; without ``once``, one-time choices are ignored.

    An entry is given by its path (``1>0``), title or id; as in GRUB, one that does not exist means the first entry.
    """
    entries = parse(menu.text, menu.files)
    defaults = _DEFAULT.findall(menu.text)
    one_time = _variable("next_entry", menu.environment) if once and _ONE_TIME in defaults else ""
    if one_time:
        choice, named_by = one_time, f"next_entry of {menu.path}"
    else:
        choice, named_by = next((value for value in defaults if value != _ONE_TIME), ""), "the default of grub.cfg"
    if choice == _SAVED:
        choice, named_by = _variable("saved_entry", menu.environment), f"saved_entry of {menu.path}"
    chosen = _resolve(entries, (choice or "0").split(">"))
    if chosen is not None and choice:
        return Chosen(chosen, named_by, bool(one_time))
    entry = chosen or _first(entries)
    return Chosen(entry, f"its place, as {named_by} names none", bool(one_time)) if entry is not None else None


def parse(text: str, files: Sequence[Entry] = ()) -> list[Entry]:
    """Return the menu as a tree, with ``files`` in place of blscfg."""
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
            # The body of a function contains no entries.
            stack.append(None)
        elif line == "}" and len(stack) > 1:
            stack.pop()
        elif _BLS.match(line):
            root.children += files
        else:
            _take_files(stack[-1], line.split())
    return root.children


def next_boot_of(probe: Probe, facts: Facts) -> NextBoot:
    """Return what the next boot of this host starts.

    Distributions may package mlx5_ib apart from mlx5_core (Ubuntu's linux-modules-extra), and the GPU driver is built
    per kernel; a driver container brings its own after the boot.
    """
    devices = [*facts["nics"], *facts["gpus"]]
    drivers = {device["driver"] for device in devices if device["driver"] and device["driver"] not in _PASSTHROUGH}
    if container_runs(probe):
        drivers.discard(GPU_DRIVER)
    if is_loaded(facts["modules"], RDMA_DRIVER):
        drivers.add(RDMA_DRIVER)
    running = facts["system"]["kernel"]
    found = read_next_boot(probe, running, drivers)
    # For shutdown -r this is a request for kexec (systemd, src/systemctl/systemctl-compat-shutdown.c).
    found["kexec"] = probe.text("/sys/kernel/kexec_loaded") == "1"
    nvlink = facts.get("nvlink")
    if nvlink is not None and nvlink["service"] == FABRIC_MANAGER and nvlink["state"]["active"]:
        found["fabric_manager"] = _other_release(probe, found["kernel"] or running)
    return found


def _other_release(probe: Probe, kernel: str) -> list[str]:
    """Return the versions of the fabric manager and of a kernel's GPU driver, nothing if they are equal or unknown.

    The fabric manager ends at its start if they differ (NVIDIA/gpu-operator issue 544; NVIDIA/nvtrust issue 55).
    """
    shown = _MANAGER_VERSION.search(probe.output("nv-fabricmanager", "--version"))
    driver = printable(probe.output("modinfo", "-k", kernel, "-F", "version", GPU_DRIVER).strip(), 32)
    return [shown[1], driver] if shown is not None and driver not in ("", shown[1]) else []


def read_next_boot(probe: Probe, running: str, drivers: Iterable[str]) -> NextBoot:
    """Return what the next boot starts; ``kernel`` is None if the boot loader's files do not say.

    ``drivers`` are those of the host's devices; ``lacks`` are those of them for which a kernel other than the
    ``running`` one has no module. ``absent`` are missing files of the entry. ``modules`` says whether the kernel has a
    module directory, and is true if the running kernel has none either.
    """
    chosen = chosen_entry(probe, once=True)
    if chosen is None:
        return {**UNKNOWN}
    entry, named_by, once = chosen
    kernel = _release(entry)
    files = {path: _host_path(probe, path) for path in (entry.image, *entry.initrds) if path}
    initrds = [host_path for path, host_path in files.items() if host_path and path in entry.initrds]
    lacks: list[str] = []
    if kernel is not None and kernel != running:
        names = sorted({name.replace("-", "_") for name in drivers} - built_in(probe, kernel))
        # A driver that is not in /sys/module has another module name, so there is nothing to look for.
        lacks = missing_modules(probe, kernel, [name for name in names if probe.host.exists(f"{SYS_MODULE}/{name}")])
    return {
        "kernel": kernel,
        "entry": printable(entry.title or entry.id),
        "named_by": printable(named_by),
        "once": once,
        "absent": [printable(path) for path, host_path in files.items() if host_path is None],
        "initrd": printable(initrds[-1]) if initrds else None,
        "modules": _has_modules(probe, kernel or running) or not _has_modules(probe, running),
        "lacks": lacks,
        "fabric_manager": [],
        "kexec": False,
    }


def chosen_entry(probe: Probe, *, once: bool) -> Chosen | None:
    """Return the entry that the boot loader boots; without ``once``, one-time choices are ignored."""
    if probe.host.exists(OSTREE_BOOTED) or probe.text(PROXMOX_PARTITIONS):
        return None
    if is_systemd_boot(probe):
        return entry_of_systemd_boot(probe, once=once)
    menu = read_menu(probe)
    return entry_of_grub(menu, once=once) if menu is not None else None


def _grub_variables(probe: Probe, path: str) -> str:
    """Return GRUB's variables; on Btrfs some are stored outside the file, so GRUB's own program reads them."""
    text = probe.content(path) or ""
    if not _variable("env_block", text):
        return text
    shown = (probe.printed(editor, path, "list") for editor in _EDITORS)
    return next((printed for printed in shown if printed is not None), text)


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


def _resolve(entries: Sequence[Entry], path: Sequence[str]) -> Entry | None:
    name = path[0].strip()
    chosen = next((entry for entry in entries if name in (entry.title, entry.id)), None)
    if chosen is None and name.isdecimal() and int(name) < len(entries):
        chosen = entries[int(name)]
    if chosen is None or not chosen.children:
        return chosen
    return _resolve(chosen.children, path[1:] or ["0"])


def _first(entries: Sequence[Entry]) -> Entry | None:
    for entry in entries:
        found = entry if entry.line is not None else _first(entry.children)
        if found is not None:
            return found
    return None


def _has_modules(probe: Probe, kernel: str) -> bool:
    return probe.host.exists(f"/lib/modules/{kernel}/modules.dep")


def _release(entry: Entry) -> str | None:
    """Return the kernel release of an entry: from the image's name, else from its version.

    kernel-install of systemd-boot stores the image as ``linux`` in a directory named after the release.
    """
    found = _IMAGE.fullmatch(posixpath.basename(entry.image))
    release = found.group(1) if found is not None else entry.fields.get("version", "") if entry.image else ""
    return printable(release, 128) if release and "/" not in release else None


def _host_path(probe: Probe, path: str) -> str | None:
    """Return the path on this host of an entry's file; the loader starts at the root of a partition or subvolume."""
    places = [f"{root}{path}" for root in ("", *BOOT_PARTITIONS)] + [f"/boot/{posixpath.basename(path)}"]
    return next((place for place in places if place.startswith("/") and probe.host.exists(place)), None)
