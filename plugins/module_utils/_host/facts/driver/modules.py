# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of a driver's modules: their builds, the key that signs them, and the copy in the initial RAM disk.

Builds: a module's file is an ELF object, whose note of type NT_GNU_BUILD_ID (elf(5)) the kernel shows in
/sys/module/NAME/notes/.note.gnu.build-id. Equal ids mean the same build, whatever the versions.

Key: only the signing key itself matters. Modules signed with a key that is not enrolled do not load, even if another
key is.

Initial RAM disk: the kernel boots with the module in it, and would only load the installed one in a later reload.
"""

from __future__ import annotations

import lzma
import re
import struct
import zlib
from typing import Iterable, Mapping

from ...machine.probe import Probe, texts_of
from ...spec.driver_families import Family
from ..driver_shapes import Initrd, OnDisk, SigningKey
from ..host_state import NETDEV_DRIVER
from ..shapes import System
from .status import is_inbox_path

# An ELF note: length of the name, length of the content, type 3 (NT_GNU_BUILD_ID), the name padded to four bytes.
_NAME = b"GNU\0"
_TYPE = 3
_HEADER = 16
_LENGTHS = (20, 16, 8)
# The note may follow the code, for example at 1.5 of the 6.6 MB of Debian's mlx5_core. No more than this is unpacked.
LONGEST = 32 * 1024 * 1024

OF_UBUNTU = "/var/lib/shim-signed/mok/MOK.der"
OF_DKMS = "/var/lib/dkms/mok.pub"
_SETTINGS = ("/etc/dkms/framework.conf", "/etc/dkms/framework.conf.d/")
_SETTING = re.compile(r"""(?m)^[ \t]*(mok_signing_key|mok_certificate)=(["']?)([^"'\s#;]*)\2""")
# The programs of initramfs-tools and dracut; each unpacks the whole image.
_LISTERS = ("lsinitramfs", "lsinitrd")
_LIST_SECONDS = 120.0


def build_id(data: bytes) -> str | None:
    """Return the first build id in ``data`` (a note, or the beginning of an ELF object) as hex; None without one."""
    for length in _LENGTHS:
        little = struct.pack("<III", len(_NAME), length, _TYPE) + _NAME
        big = struct.pack(">III", len(_NAME), length, _TYPE) + _NAME
        for pattern in (little, big):
            start = data.find(pattern)
            if start >= 0 and len(data) >= start + _HEADER + length:
                return data[start + _HEADER : start + _HEADER + length].hex()
    return None


def beginning_of_module(path: str, data: bytes) -> bytes:
    """Return the beginning of the module whose file ``path`` begins with ``data``, uncompressed.

    The standard library has no zstd: such a file, like a damaged one, yields nothing.
    """
    try:
        if path.endswith(".xz"):
            return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data, LONGEST)
        if path.endswith(".gz"):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, LONGEST)
    except (lzma.LZMAError, zlib.error):
        return b""
    return data if path.endswith(".ko") else b""


def read_key(probe: Probe, system: System, given: str | None) -> SigningKey:
    """Return whether the firmware trusts the key of local builds, or the ``given`` one; only read with Secure Boot."""
    path = given or certificate_of_dkms(
        system["os"]["id"], (text for _path, text in texts_of(probe, _SETTINGS, (".conf",)))
    )
    if not probe.host.exists(path):
        return {"path": None, "enrolled": None}
    result = probe.command("mokutil", "--test-key", path)
    return {"path": path, "enrolled": "already enrolled" in result.stdout if result is not None else None}


def certificate_of_dkms(distribution: str, settings: Iterable[str]) -> str:
    """Return the path of the certificate with which DKMS signs; ``settings`` are its files, of which the last one wins.

    On Ubuntu it is Ubuntu's own unless the settings name a key, whatever certificate they name (dell/dkms, dkms.in,
    read_framework_conf and prepare_mok).
    """
    assigned = {match[1]: match[3] for text in settings for match in _SETTING.finditer(text)}
    if distribution == "ubuntu" and not assigned.get("mok_signing_key"):
        return OF_UBUNTU
    return assigned.get("mok_certificate") or OF_DKMS


def read_initrd(
    probe: Probe, family: Family, kernel: str, on_disk: Mapping[str, OnDisk] | None, *, content: bool = False
) -> Initrd | None:
    """Return whether the image is older than the driver's file, and so can't contain it; None if unknown.

    With ``content``, an image that is not older is searched too, which takes seconds.
    """
    core = on_disk[NETDEV_DRIVER]["path"] if on_disk is not None and NETDEV_DRIVER in on_disk else ""
    if not core.startswith("/"):
        return None
    image = family.initrd.format(kernel=kernel)
    result = probe.command("stat", "--format=%Z %n", image, core)
    rows = (line.partition(" ") for line in (result.stdout if result else "").splitlines())
    changed = {path: int(seconds) for seconds, _space, path in rows if seconds.isdecimal()}
    if image not in changed or core not in changed:
        return None
    stale = changed[image] < changed[core] or (content and holds_another(probe, image, kernel, core))
    return {"image": image, "stale": stale}


def holds_another(probe: Probe, image: str, kernel: str, core: str) -> bool:
    """Return whether an image only contains the kernel's own driver although a vendor's is installed, or the reverse.

    An image without any driver of these NICs leaves them to the root file system.
    """
    shown = (probe.printed(lister, image, seconds=_LIST_SECONDS) for lister in _LISTERS)
    text = next((text for text in shown if text is not None), "")
    held = re.findall(rf"(?:^|[\s/])lib/modules/{re.escape(kernel)}/(\S+/{NETDEV_DRIVER}\.ko)", text, re.MULTILINE)
    return {path.startswith("kernel/") for path in held} == {not is_inbox_path(core)}
