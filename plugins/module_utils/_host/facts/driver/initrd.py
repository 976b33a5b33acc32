# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads whether a kernel's initial RAM disk holds another driver than its disk.

The kernel would start with the module in it, and the one on the disk would only be loaded by a later reload.
"""

from __future__ import annotations

import re
from typing import Mapping

from ...machine.probe import Probe
from ...spec.driver_families import Family
from ..driver_shapes import Initrd, OnDisk
from ..host_state import NETDEV_DRIVER
from .status import is_inbox_path

# Of initramfs-tools and of dracut; each unpacks the whole image.
_LISTERS = ("lsinitramfs", "lsinitrd")
_LIST_SECONDS = 120.0


def read_initrd(
    probe: Probe, family: Family, kernel: str, on_disk: Mapping[str, OnDisk] | None, *, content: bool = False
) -> Initrd | None:
    """Tell whether the image is older than the driver's file, so that it can't hold it; None where nothing tells.

    With ``content`` one that is not older is looked into as well, which takes seconds.
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
    """Say whether an image holds only the kernel's own driver where a vendor's is on the disk, or the reverse.

    One without any driver of these NICs leaves them to the disk.
    """
    shown = (probe.printed(lister, image, seconds=_LIST_SECONDS) for lister in _LISTERS)
    text = next((text for text in shown if text is not None), "")
    held = re.findall(rf"(?:^|[\s/])lib/modules/{re.escape(kernel)}/(\S+/{NETDEV_DRIVER}\.ko)", text, re.MULTILINE)
    return {path.startswith("kernel/") for path in held} == {not is_inbox_path(core)}
