# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the driver stack of a host: what is installed, on disk, loaded, and at the next boot.

Programs are only run for what no small file has: the package database, ``modinfo`` (modules.dep has no versions),
``stat`` (change times), ``df`` and ``mokutil``.
"""

from __future__ import annotations

import re

from ...machine.probe import Probe, natural, printable
from ...spec.driver import DriverSpec
from ...spec.driver_families import FIRMWARE_UPDATER, Family, family_of, header_patterns, headers_of
from .. import module_graph, openib
from ..driver_shapes import Built, DriverState, Identity, Loaded, OnDisk
from ..host_state import NETDEV_DRIVER
from ..kernel import CONTAINER_BLACKLIST, MODULES, SYS_MODULE, LoadedModule, parse_modules
from ..own_files import JOURNAL
from ..remote_storage import read_mounts
from ..shapes import System
from .blockers import CONTAINER_LOCK, read_open_files
from .modules import LONGEST, beginning_of_module, build_id, read_initrd, read_key

# NVIDIA's driver container creates it when the driver is ready (Mellanox/doca-driver-build). A crash before leaves
# CONTAINER_BLACKLIST behind.
CONTAINER_READY = "/run/mellanox/drivers/.driver-ready"
_OPENIBD = ("/etc/init.d/openibd", "/usr/lib/systemd/system/openibd.service", "/etc/systemd/system/openibd.service")
_DKMS = "/var/lib/dkms"
_APT_INDEXES = "/var/lib/apt/lists"
# A file for each package change that an interrupted dpkg has not merged into its database; apt refuses to work until
# dpkg has (dpkg, lib/dpkg/dbmodify.c; apt, debSystem::CheckUpdates).
_DPKG_UPDATES = "/var/lib/dpkg/updates"
# dpkg-query(1): states of packages that are not installed, or have only configuration left.
_GONE = ("not-installed", "config-files")
# Packaged by Debian (ofed_scripts/generate_dkms_conf.sh of MLNX_OFED), RPM (Mellanox/doca-driver-build, entrypoint.sh,
# discover_dkms_module_info), and Canonical (Azure/azhpc-images, components/install_doca.sh).
_DKMS_SOURCES = re.compile(r"mlnx-ofed-kernel|mlnx-ofa_kernel|doca-ofed-\d+\.\d+(?:-dkms)?")
_SPACE = ("/boot", "/usr", "/var")
_PATTERNS = (
    "doca-*",
    "mlnx-*",
    "mlx-*",
    "ofed-*",
    "mft*",
    "kernel-mft*",
    "kmod-*",
    "iser*",
    "isert*",
    "srp*",
    "knem*",
    "xpmem*",
    "libxpmem*",
    "mlnxofed-*",
    "fwctl*",
    "ucx*",
    "sharp",
    "hcoll",
    "openmpi*",
    "opensm*",
    "libopensm*",
    "rshim",
    "libibverbs1-dbg",
    "ibdump",
    "ibsim*",
    "mpitests",
    "clusterkit",
    "ibarr",
    "ibutils2",
    "ngauge",
    "linux-modules-doca-ofed-*",
)
_MODINFO_FIELDS = ("filename", "version", "srcversion", "depends", "signer")


def read_driver(
    probe: Probe, system: System, next_kernel: str | None, settings: DriverSpec | None = None
) -> DriverState:
    """Return the state of the driver stack as plain JSON data; None if the host does not report a value.

    ``system`` is that part of the facts, ``settings`` the spec of the driver (it names files to check). ``next_kernel``
    is that of the next boot; if the boot loader does not say, the newest one with an image. ``loaded`` has the modules
    of the stack and their users, ``mounts`` what is mounted and may need them, ``on_disk`` those that modprobe would
    load, ``next_on_disk`` the same for the next kernel if it is another. ``packages`` are those of the stack by name,
    ``unfinished`` those that dpkg has only unpacked or half configured. ``database_fails``: the program that lists
    packages exists but failed; a recording may lack its output.
    """
    kernel = system["kernel"]
    following = next_kernel or (_boot_kernels(probe) or [kernel])[-1]
    kernels = list(dict.fromkeys((kernel, following)))
    family = family_of(system["os"])
    archive, signing_key = (settings["archive"], settings["signing_key"]) if settings is not None else (None, None)
    on_disk = read_on_disk(probe, kernel, module_graph.IDENTITY)
    next_on_disk = on_disk if following == kernel else read_on_disk(probe, following, (NETDEV_DRIVER,), False)
    opened = read_open_files(probe)
    packages, unfinished, database_fails = _packages(probe, family)
    initrds = {kernel: read_initrd(probe, family, kernel, on_disk)} if family else {}
    if family and following != kernel:
        initrds[following] = read_initrd(probe, family, following, next_on_disk, content=True)
    return {
        "kernel": kernel,
        "next_kernel": following,
        "family": family.name if family else None,
        "packages": packages,
        "database_fails": database_fails,
        "unfinished": unfinished,
        "dpkg_interrupted": any(name.isdecimal() for name in probe.names(_DPKG_UPDATES)),
        "on_disk": on_disk,
        "next_on_disk": next_on_disk,
        "loaded": _loaded(probe),
        "mounts": read_mounts(probe),
        "built": _built(probe),
        "headers": {name: _has_headers(probe, name) for name in kernels},
        "headers_offered": {name: _headers_offered(probe, family, name) for name in kernels},
        "initrds": {name: initrd for name, initrd in initrds.items() if initrd is not None},
        "users": opened.verbs,
        "locks": opened.locks,
        "container": {
            # A container that was killed leaves both files; a release that takes no lock leaves none.
            "ready": probe.host.exists(CONTAINER_READY) and (opened.container or not probe.host.exists(CONTAINER_LOCK)),
            "lock": opened.container,
            "blacklist": probe.host.exists(CONTAINER_BLACKLIST),
        },
        "key": read_key(probe, system, signing_key) if system["secure_boot"] else None,
        "free_mib": _free_space(probe),
        "openibd": any(probe.host.exists(path) for path in _OPENIBD),
        "openib": openib.parse(probe.content(openib.FILE)),
        "archive": probe.host.exists(archive) if archive else None,
        "journal": probe.content(JOURNAL),
        "snapshot": None,
        "stacked": [],
    }


def read_on_disk(probe: Probe, kernel: str, names: tuple[str, ...], identify: bool = True) -> dict[str, OnDisk] | None:
    """Return what modprobe would load, by module: path, version, srcversion, build id, dependencies, signer.

    Missing modules are left out; a built-in one has the path ``(builtin)``. The result is None if unknown. With
    ``identify``, the build id of modules without srcversion is read too, for which the whole file must be read.
    """
    result = probe.command("modinfo", "-k", kernel, *names) if kernel else None
    if result is None:
        return None
    found: dict[str, OnDisk] = {}
    for fields in map(parse_modinfo, _blocks(result.stdout)):
        path = fields.get("filename")
        if not path:
            continue
        name = re.sub(r"\.ko(\.\w+)?$", "", path.rsplit("/", 1)[-1]).replace("-", "_")
        name = fields.get("name", name).replace("-", "_")
        needs_file = identify and path.startswith("/") and not fields.get("srcversion")
        data = probe.data(path, LONGEST) if needs_file else None
        found[name] = {
            "path": path,
            "version": fields.get("version") or None,
            "srcversion": fields.get("srcversion") or None,
            "build_id": build_id(beginning_of_module(path, data)) if data else None,
            "depends": [item.replace("-", "_") for item in fields.get("depends", "").split(",") if item],
            "signer": fields.get("signer") or None,
        }
    return {name: found[name] for name in names if name in found}


def _blocks(text: str) -> list[str]:
    """Return the modinfo output of each module.

    It begins with ``filename:``, or for a built-in module with ``name:``, which others print later (kmod-project/kmod,
    tools/modinfo.c, modinfo_do).
    """
    blocks: list[str] = []
    seen: set[str] = set()
    for line in text.splitlines(keepends=True):
        key = line.partition(":")[0]
        if not blocks or (key in {"name", "filename"} and key in seen):
            blocks.append("")
            seen = set()
        seen.add(key)
        blocks[-1] += line
    return blocks


def parse_modinfo(text: str) -> dict[str, str]:
    """Return the fields of one module in the output of ``modinfo``; the first of a repeated field is used."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key in {*_MODINFO_FIELDS, "name"}:
            fields.setdefault(key, printable(value.strip()))
    return fields


def _loaded(probe: Probe) -> dict[str, Loaded]:
    """Return the loaded modules of the stack and all that use them, directly or not."""
    present = parse_modules(probe.content(MODULES) or "")
    wanted = [name for name in module_graph.REPLACED if name in present]
    for name in wanted:
        wanted.extend(user for user in present[name].users if user in present and user not in wanted)
    return {name: _module(probe, name, present[name]) for name in sorted(wanted)}


def _module(probe: Probe, name: str, found: LoadedModule) -> Loaded:
    module: Loaded = {"refcount": found.refcount, "users": found.users}
    return {**module, **read_identity(probe, name)} if name in module_graph.IDENTITY else module


def read_identity(probe: Probe, name: str) -> Identity:
    """Return what identifies a loaded module's build: version, srcversion and build id, each None if unknown."""
    base = f"{SYS_MODULE}/{name}"
    note = probe.data(f"{base}/notes/.note.gnu.build-id")
    return {
        "version": probe.text(f"{base}/version", limit=64) or None,
        "srcversion": probe.text(f"{base}/srcversion", limit=64) or None,
        "build_id": build_id(note) if note else None,
    }


def _packages(probe: Probe, family: Family | None) -> tuple[dict[str, str] | None, dict[str, str], bool]:
    """Return the installed packages (None if unknown), those half installed, and whether the database fails."""
    if family is None:
        return None, {}, False
    patterns = (
        *_PATTERNS,
        *family.userspace,
        *family.companions,
        *family.renamed.values(),
        *family.build_tools,
        *header_patterns(family),
        FIRMWARE_UPDATER,
    )
    answers: tuple[int, ...] = (0,)
    if family.manager == "apt":
        columns = "${Package}\t${Version}\t${db:Status-Status}\n"
        result = probe.command("dpkg-query", "--show", f"--showformat={columns}", *patterns)
        # 1: some patterns match nothing (dpkg-query(1)).
        answers = (0, 1)
    else:
        result = probe.command("rpm", "-qa", "--queryformat", "%{NAME}\t%{VERSION}-%{RELEASE}\tinstalled\n", *patterns)
    if result is None:
        return None, {}, probe.failed("dpkg-query" if family.manager == "apt" else "rpm")
    if result.rc not in answers:
        return None, {}, True
    installed: dict[str, str] = {}
    unfinished: dict[str, str] = {}
    for row in (line.split("\t") for line in result.stdout.splitlines()):
        if len(row) == 3 and row[2] not in _GONE:
            place = installed if row[2] == "installed" else unfinished
            place[printable(row[0], 128)] = printable(row[1], 128)
    return installed, unfinished, False


def _boot_kernels(probe: Probe) -> list[str]:
    """Return the kernels that have an image in /boot and modules, oldest first, without rescue images."""
    images = {name[len("vmlinuz-") :] for name in probe.names("/boot") if name.startswith("vmlinuz-")}
    return sorted(
        (name for name in probe.names("/lib/modules") if name in images and "rescue" not in name), key=natural
    )


def _built(probe: Probe) -> list[Built]:
    """Return the kernels for which DKMS has built the driver: /var/lib/dkms/NAME/VERSION/KERNEL/ARCH/module."""
    builds: list[Built] = []
    for name in filter(_DKMS_SOURCES.fullmatch, probe.names(_DKMS)):
        for version in probe.names(f"{_DKMS}/{name}"):
            for kernel in _built_for(probe, f"{_DKMS}/{name}/{version}"):
                builds.append({"name": name, "version": printable(version, 128), "kernel": printable(kernel, 128)})
    return builds


def _built_for(probe: Probe, base: str) -> list[str]:
    kernels = [kernel for kernel in probe.names(base) if kernel not in {"build", "source"}]
    machines = {kernel: probe.names(f"{base}/{kernel}") for kernel in kernels}
    return [
        kernel
        for kernel, found in machines.items()
        if any(probe.names(f"{base}/{kernel}/{machine}/module") for machine in found)
    ]


def _has_headers(probe: Probe, kernel: str) -> bool:
    return probe.host.exists(f"/lib/modules/{kernel}/build/Makefile")


def _headers_offered(probe: Probe, family: Family | None, kernel: str) -> bool | None:
    """Return whether a configured repository has the missing headers, without network access."""
    if family is None or _has_headers(probe, kernel):
        return None
    package = headers_of(family, kernel)[0].partition("=")[0]
    if family.manager == "apt":
        result = probe.command("apt-cache", "policy", package)
        offers = result is not None and bool(re.search(r"(?m)^ +Candidate: (?!\(none\))", result.stdout))
        return offers if offers or (result is not None and _has_apt_indexes(probe)) else None
    if family.manager == "dnf":
        listed = probe.printed("dnf", "--quiet", "--cacheonly", "repoquery", package)
        return None if listed is None else bool(listed.strip())
    result = probe.command("zypper", "--non-interactive", "--no-refresh", "search", "--match-exact", package)
    # zypper exits with 104 if nothing matches.
    return {0: True, 104: False}.get(result.rc) if result is not None else None


def _has_apt_indexes(probe: Probe) -> bool:
    """Return whether apt has any index: images are often built without, and then no package is available."""
    return any("_Packages" in name for name in probe.names(_APT_INDEXES))


def _free_space(probe: Probe) -> dict[str, int]:
    result = probe.command("df", "--portability", "--block-size=1048576", *_SPACE)
    rows = [line.split() for line in (result.stdout if result else "").splitlines()[1:]]
    free = [int(row[3]) for row in rows if len(row) >= 6 and row[3].isdecimal()]
    return dict(zip(_SPACE, free)) if len(free) == len(_SPACE) else {}
