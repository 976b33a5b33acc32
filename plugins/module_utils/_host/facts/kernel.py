# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the loaded kernel modules, and from them which driver stack runs."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, NamedTuple

from ..machine.probe import Probe, printable, texts_of
from ..spec.driver_version import FIRST_DOCA, FIRST_DOCA_ONLY
from .module_graph import CLIENT_MODULES, THIRD_PARTY
from .shapes import Module, Stack

MODULES = "/proc/modules"
SYS_MODULE = "/sys/module"
# NVIDIA's driver container (Mellanox/doca-driver-build) writes it while it swaps modules, which it loads itself.
CONTAINER_BLACKLIST = "/etc/modprobe.d/blacklist-ofed-modules.conf"
_DENIED = re.compile(r"^\s*blacklist\s+(\S+)", re.MULTILINE)
_OFED_INFO = "/usr/bin/ofed_info"
_MLX = ("mlx5_core", "mlx5_ib", "mlx5_vdpa", "mlx5_fwctl", "mlx5_dpll", "mlx_compat", "mlx4_core", "mlx4_ib")
_RDMA = ("ib_core", "ib_ipoib", "ib_umad", "ib_uverbs", "rdma_cm", "rdma_ucm", "vfio_pci")
_GPU = ("nvidia", "nvidia_peermem", "nv_peer_mem", "nvidia_fs", "gdrdrv")
# Modules that would keep ib_core in use during a driver change: storage over RDMA, other users, other vendors' drivers.
_HOLDERS = (*CLIENT_MODULES, "knem", "xpmem")
_OF_INTEREST = frozenset((*_MLX, *_RDMA, *_GPU, *_HOLDERS, *THIRD_PARTY))
# kmod's tools/modinfo.c; the message is not translated.
_NOT_FOUND = re.compile(r"^modinfo: ERROR: Module (\S+) not found\.$", re.MULTILINE)
_DRIVER_VERSION = re.compile(r"(MLNX_OFED_LINUX|OFED-internal|MLNX_EN|mlnx-en)-(\d+\.\d+-[\d.]*\d)")
_VENDOR_VERSION = re.compile(r"\d+\.\d+-\d+(\.\d+)+")
_GPU_DRIVER = re.compile(r"NVRM version:\s+(.*?)\s(\d{3,4}\.\d+(?:\.\d+)*)\s")


class LoadedModule(NamedTuple):
    """One line of /proc/modules: reference count and the modules that use it.

    A kernel that cannot unload modules counts neither (kernel/module/procfs.c, print_unload_info without
    CONFIG_MODULE_UNLOAD): 0 and none.
    """

    refcount: int
    users: list[str]


# Since commit bd039b5ea2a9 the kernel can rename an interface that is up.
_RENAMES_LIVE = (6, 2)


def read_modules(probe: Probe, kernel: str, also: Iterable[str]) -> dict[str, Module]:
    """Return the modules of RDMA and GPUs that are loaded or built in, and those in ``also`` in any state.

    Names have ``_`` as in /proc/modules; ``also`` may be written with ``-``. A module of ``also`` that is not loaded
    has ``missing`` if modinfo(8) reports that the running kernel has no such module, and ``denied``, the file of
    modprobe.d(5) with a ``blacklist`` of it.
    """
    wanted = {name.replace("-", "_") for name in also}
    loaded = parse_modules(probe.content(MODULES) or "")
    present = frozenset(probe.names(SYS_MODULE))
    builtin = built_in(probe, kernel)
    result: dict[str, Module] = {}
    for name in sorted(_OF_INTEREST | wanted):
        is_builtin = name in builtin or (name in present and name not in loaded)
        if name in loaded or is_builtin or name in wanted:
            result[name] = _entry(probe, name, loaded.get(name), is_builtin and name not in loaded)
    for name in missing_modules(probe, kernel, sorted(name for name in wanted if not result[name]["loaded"])):
        result[name]["missing"] = True
    denying = texts_of(probe, ("/etc/modprobe.d/",), (".conf",)) if wanted else ()
    for path, text in [each for each in denying if each[0] != CONTAINER_BLACKLIST]:
        for name in wanted & {given.replace("-", "_") for given in _DENIED.findall(text)}:
            result[name]["denied"] = printable(path)
    return result


def is_loaded(modules: Mapping[str, Module], name: str) -> bool:
    """Return whether a module is loaded or built in."""
    return name in modules and modules[name]["loaded"]


def missing_modules(probe: Probe, kernel: str, names: list[str]) -> list[str]:
    """Return those of ``names`` for which the kernel has no module; none on a host without modinfo."""
    result = probe.command("modinfo", "-k", kernel, *names) if kernel and names else None
    missing = set(_NOT_FOUND.findall(result.stderr)) if result is not None else set()
    return [name for name in names if name in missing]


def parse_modules(text: str) -> dict[str, LoadedModule]:
    """Parse /proc/modules (``name size refcnt users, state address``); other lines are ignored."""
    loaded = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4 and (fields[2].isdecimal() or fields[2:4] == ["-", "-"]):
            users = [] if fields[3] == "-" else [printable(user) for user in fields[3].split(",") if user]
            count = 0 if fields[2] == "-" else int(fields[2][:9])
            loaded[printable(fields[0], 64)] = LoadedModule(count, users)
    return loaded


def built_in(probe: Probe, kernel: str) -> frozenset[str]:
    """Return the modules built into the kernel, with their names in /proc/modules."""
    if not kernel or "/" in kernel:
        return frozenset()
    content = probe.content(f"/lib/modules/{kernel}/modules.builtin") or ""
    stems = (line.rsplit("/", 1)[-1].split(".", 1)[0] for line in content.splitlines())
    return frozenset(stem.replace("-", "_") for stem in stems if stem)


def _entry(probe: Probe, name: str, loaded: LoadedModule | None, builtin: bool) -> Module:
    base = f"{SYS_MODULE}/{name}"
    there = loaded is not None
    return {
        "loaded": there or builtin,
        "builtin": builtin,
        "refcount": loaded.refcount if loaded else 0,
        "users": loaded.users if loaded else [],
        "version": (probe.text(f"{base}/version", limit=64) or None) if there else None,
        "srcversion": (probe.text(f"{base}/srcversion", limit=64) or None) if there else None,
        "out_of_tree": there and "O" in (probe.text(f"{base}/taint", limit=16) or ""),
    }


def read_stack(probe: Probe, modules: dict[str, Module]) -> Stack:
    """Return which driver runs the NICs and the GPUs, and how they peer.

    ``flavour`` and ``version`` are those of the loaded driver; ``installed`` is the output of ``ofed_info -s``. The two
    differ after an installation without a reload.
    """
    has_info = probe.host.exists(_OFED_INFO)
    installed = _installed(probe) if has_info else None
    flavour, version = _loaded_stack(modules, installed, FIRST_DOCA_ONLY if has_info else FIRST_DOCA)
    gpu_driver, gpu_flavour = _gpu_driver(probe)
    peers = {"nvidia_peermem": "nvidia-peermem", "nv_peer_mem": "nv_peer_mem"}
    return {
        "flavour": flavour,
        "version": version,
        "installed": "-".join(installed) if installed else None,
        "gpu_driver": gpu_driver,
        "gpu_driver_flavour": gpu_flavour,
        "peer_memory": next((text for name, text in peers.items() if is_loaded(modules, name)), None),
    }


def _loaded_stack(
    modules: dict[str, Module], installed: tuple[str, str] | None, first_doca: tuple[int, int]
) -> tuple[str, str | None]:
    """Return the loaded driver; the vendor's has taint O, a version in the vendor's format, or its mlx_compat.

    Without a driver of NVIDIA's NICs, the RDMA core is examined, which software devices and other vendors' NICs use.
    Kernels before 5.x set a version on their own mlx5_core too (``5.0-0``), so having one proves nothing.

    Both of the vendor's stacks have the same modules. ``ofed_info`` distinguishes them: its package says OFED-internal,
    and the installer of MLNX_OFED, which always installs it, writes MLNX_OFED_LINUX into it (mlnxofedinstall, "Update
    ofed_info"). A host without it has its modules from a package manager or NVIDIA's driver container. ``first_doca``
    is the first release that counts as DOCA-OFED if ``ofed_info`` says nothing.
    """
    core = next((modules[name] for name in ("mlx5_core", "ib_core") if is_loaded(modules, name)), None)
    if core is None:
        return "none", None
    compat = is_loaded(modules, "mlx_compat")
    if not (core["out_of_tree"] or compat or _VENDOR_VERSION.fullmatch(core["version"] or "")):
        return "inbox", None
    version = core["version"] or (installed[1] if installed else None)
    if installed is not None:
        return ("doca-ofed" if installed[0] == "OFED-internal" else "mlnx-ofed"), version
    numbers = tuple(int(number) for number in re.findall(r"\d+", version or "")[:2])
    return ("doca-ofed" if numbers >= first_doca else "mlnx-ofed"), version


def _installed(probe: Probe) -> tuple[str, str] | None:
    """Return the name and version of the installed vendor stack."""
    result = probe.command(_OFED_INFO, "-s")
    found = _DRIVER_VERSION.search(result.stdout) if result is not None else None
    return (found.group(1), found.group(2)) if found else None


def _gpu_driver(probe: Probe) -> tuple[str | None, str | None]:
    content = probe.content("/proc/driver/nvidia/version") or ""
    found = _GPU_DRIVER.search(content)
    if not found:
        return None, None
    return found.group(2), "open" if "Open Kernel Module" in found.group(1) else "proprietary"


def renames_live(kernel: str) -> bool:
    """Return whether a kernel of this release (``6.8.0-45-generic``) can rename interfaces that are up."""
    found = re.match(r"(\d+)\.(\d+)", kernel)
    return found is not None and (int(found.group(1)), int(found.group(2))) >= _RENAMES_LIVE
