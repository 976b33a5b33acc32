# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in: show soft RDMA devices where containers look for those of a real card, below the PCI device.

The kernel gives a real card's RDMA device the card's PCI device as its parent; rxe has none, and so device plugins find
nothing below /sys/bus/pci/devices/ADDRESS/infiniband. For every rxe device on a PCI card this program lays a read-only
overlay over a copy of the card's folder, adding ``infiniband/NAME``, and writes containerd's base specification, by
which every container sees that overlay in place of the folder. The host's own /sys stays as it is.

``rdma_overlay.py DEFAULT SPECIFICATION`` reads the default specification (what ``ctr oci spec`` prints) from the first
file and writes the second one. It runs on a guest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PLACE = Path("/run/rdma-overlay")


def soft_devices(links: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Give device and interface of every RDMA link that ``rdma -j link`` lists."""
    return [(link["ifname"], link["netdev"]) for link in links if "netdev" in link]


def bind_mount(source: str, destination: str) -> dict[str, Any]:
    """Give a mount of an OCI runtime specification."""
    return {"destination": destination, "type": "bind", "source": source, "options": ["rbind", "ro"]}


def lay_overlay(device: str, folder: Path) -> Path:
    """Mount the overlay for one device over a copy of its PCI folder; give where it is."""
    place = PLACE / device
    added, below, merged = place / "added", place / "below", place / "merged"
    (added / "infiniband" / device).mkdir(parents=True, exist_ok=True)
    below.mkdir(exist_ok=True)
    merged.mkdir(exist_ok=True)
    # An overlay's option separates paths by colons, which PCI addresses hold: the folder needs a path without them.
    subprocess.run(["mount", "--bind", str(folder), str(below)], check=True)
    option = f"ro,lowerdir={added}:{below}"
    subprocess.run(["mount", "-t", "overlay", "rdma-overlay", "-o", option, str(merged)], check=True)
    return merged


def main(default: Path, specification: Path) -> None:
    """Write the specification with a mount for every soft device."""
    spec = json.loads(default.read_text(encoding="utf-8"))
    listed = subprocess.run(["rdma", "-j", "link"], check=True, capture_output=True, text=True).stdout
    for device, interface in soft_devices(json.loads(listed)):
        folder = Path("/sys/class/net", interface, "device").resolve(strict=True)
        spec["mounts"].append(bind_mount(str(lay_overlay(device, folder)), str(folder)))
    specification.write_text(json.dumps(spec), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
