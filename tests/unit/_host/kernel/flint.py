# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for mstflint(1), the flash of cards and files with images. Only tests use it.

After Mellanox/mstflint, flint/subcommands.cpp and fsctrl_ops.cpp: a burn asks before it writes an older image, takes no
image of another PSID, a card with secure firmware takes signed ones alone and lets nobody read its own. What is burned
runs once the card was reset.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Dict, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import FLINT, image_text
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed, program

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PCI = "/sys/bus/pci/devices"
# Kept beside the device, as only the tool tells it.
FLASH = "image-on-the-flash"
RUNNING = "image-that-runs"
PSID = "MT_0000000838"

Image = Dict[str, str]


def image(version: str, psid: str = PSID, security: str = "N/A") -> Image:
    return {"version": version, "psid": psid, "security": security}


def install(kernel: Kernel, device: str, has: Image) -> None:
    """Put the tool on the host, and an image on the flash of a card that runs it."""
    kernel.tree.add_file(FLINT, "")
    _burn(kernel, device, has)
    reset(kernel, device)


def reset(kernel: Kernel, device: str) -> None:
    """Let the card start with what is on its flash."""
    kernel.tree.add_file(f"{PCI}/{device}/{RUNNING}", on_flash(kernel, device)["version"])


def put(kernel: Kernel, path: str, held: Image) -> str:
    """Put a file with an image on the host."""
    kernel.tree.add_file(path, json.dumps(held))
    return path


def on_flash(kernel: Kernel, device: str) -> Image:
    found: Image = json.loads(kernel.read(f"{PCI}/{device}/{FLASH}"))
    return found


def in_file(kernel: Kernel, path: str) -> Image:
    found: Image = json.loads(kernel.read(path))
    return found


@program("mstflint", only_reads=lambda argv: "query" in argv)
def mstflint(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    words = list(argv)
    device = words[words.index("-d") + 1] if "-d" in words else ""
    path = words[words.index("-i") + 1] if "-i" in words else ""
    if device and not kernel.exists(f"{PCI}/{device}/{FLASH}"):
        return _refused(f"Cannot open Device: {device}. No such file or directory. MFE_CR_ERROR")
    if "query" in words:
        if not device:
            return CommandResult(0, image_text(in_file(kernel, path)), "")
        running = kernel.read(f"{PCI}/{device}/{RUNNING}")
        return CommandResult(0, image_text(on_flash(kernel, device), running), "")
    has = on_flash(kernel, device)
    if "ri" in words:
        if "secure-fw" in has["security"]:
            return _refused("Failed to read image. Read image is not supported")
        put(kernel, words[-1], has)
        return DONE
    wanted = in_file(kernel, path)
    asks = f"Note: The new FW version is {_relation(wanted, has)} the current FW version on flash."
    question = f"    {asks}\n\n Do you want to continue ? (y/n) [n] : "
    if _numbers(wanted) <= _numbers(has) and "-y" not in words:
        return CommandResult(7, f"{question}n\n", "")
    if wanted["psid"] != has["psid"]:
        return _refused(f"PSID mismatch. Device PSID ({has['psid']}) differs from image PSID ({wanted['psid']}).")
    if "secure-fw" in has["security"] and "secure-fw" not in wanted["security"]:
        return _refused("Burning FS4 image failed: Rejected authentication")
    _burn(kernel, device, wanted)
    return CommandResult(0, "-I- To load new FW run mstfwreset or reboot machine.\n", "")


def _refused(what: str) -> CommandResult:
    return failed(1, f"-E- {what}")


def _numbers(held: Image) -> list[int]:
    return [int(part) for part in held["version"].split(".")]


def _relation(wanted: Image, has: Image) -> str:
    return "older than" if _numbers(wanted) < _numbers(has) else "the same as"


def _burn(kernel: Kernel, device: str, held: Image) -> None:
    kernel.tree.add_file(f"{PCI}/{device}/{FLASH}", json.dumps(held))
