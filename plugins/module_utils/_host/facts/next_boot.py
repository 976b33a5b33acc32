# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which kernel the next boot starts, by the boot loader's own files, and whether it would come up."""

from __future__ import annotations

import posixpath
import re
from typing import Iterable

from ..machine.probe import Probe, printable
from .boot_entries import BOOT_PARTITIONS, Chosen, Entry, entry_of_systemd_boot, is_systemd_boot
from .devices import VFIO_DRIVERS
from .gpus import container_runs
from .grub import entry_of_grub, read_menu
from .kernel import SYS_MODULE, built_in, is_loaded, missing_modules
from .shapes import Facts, NextBoot

_IMAGE = re.compile(r"(?:vmlinu[xz]|[zZ]?Image|kernel)-(\d.*)")
# They hand functions on, and make no interface of them.
_OF_GUESTS = (*VFIO_DRIVERS, "pci-stub")
RDMA_DRIVER = "mlx5_ib"
GPU_DRIVER = "nvidia"
OSTREE_BOOTED = "/run/ostree-booted"


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
