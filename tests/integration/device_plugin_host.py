# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the real SR-IOV device plugin beside the /sys of network functions, in namespaces of its own.

Its files are those that the plugin and its libraries read (ghw, ``pkg/utils`` and ``pkg/netdevice`` of
sriov-network-device-plugin, rdmamap). Interfaces are TAPs with the link type of the function.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

_READY, _POOL, _ADDED, _ADDRESS = "All servers started.", "Creating new ResourcePool: ", "device added: [", "pciAddr: "
_SCRIPT = """
set -e
mount --make-rprivate /
mount --bind "$1/sys" /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/kubelet/plugins_registry /var/lib/kubelet/device-plugins
"$2" -I "$3" "$1/links.json"
shift 3
exec "$@"
"""
# From linux/if_tun.h and linux/if_arp.h.
_TUNSETIFF, _TUNSETPERSIST, _TUNSETLINK, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x400454CB, 0x400454CD, 0x0002, 0x1000
_TYPES = {"infiniband": 32, "ether": 1}


def host_tree(root: Path, functions: Iterable[Any]) -> None:
    """Write what the plugin reads of these functions (``Function`` of the checks) to a folder."""
    devices, bus = root / "sys/devices/pci0000:00", root / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    # Without a database of names where it looks for one, it would be asked of the internet.
    (root / ".cache").mkdir()
    (root / ".cache/pci.ids").write_text("C 02  Network controller\n\t00  Ethernet controller\n")
    every = list(functions)
    for each in every:
        place = devices / each.address
        place.mkdir(parents=True)
        (bus / each.address).symlink_to(f"../../../devices/pci0000:00/{each.address}")
        alias = f"pci:v{int(each.vendor, 16):08X}d{int(each.device or '0', 16):08X}sv{0:08X}sd{0:08X}bc02sc00i00"
        (place / "modalias").write_text(f"{alias}\n")
        (root / "sys/bus/pci/drivers" / each.driver).mkdir(parents=True, exist_ok=True)
        (place / "driver").symlink_to(f"../../../bus/pci/drivers/{each.driver}")
        if each.netdev:
            (place / "net" / each.netdev).mkdir(parents=True)
        if each.is_rdma:
            (place / "infiniband" / f"mlx5_{each.address}").mkdir(parents=True)
        if each.port is None:
            vfs = [one for one in every if one.port and one.port[1] == each.address]
            (place / "sriov_totalvfs").write_text("16\n")
            (place / "sriov_numvfs").write_text(f"{len(vfs)}\n")
            for one in vfs:
                (place / f"virtfn{one.number}").symlink_to(f"../{one.address}")
        else:
            (place / "physfn").symlink_to(f"../{each.port[1]}")
    links = {each.netdev: each.link for each in every if each.netdev}
    (root / "links.json").write_text(json.dumps(links))


def found_by(program: Path, namespaces: Sequence[str], root: Path, resources: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the addresses that the plugin puts into the pool of each resource: selectors by name, in order."""
    items = [{"resourceName": name, "selectors": selectors} for name, selectors in resources.items()]
    (root / "config.json").write_text(json.dumps({"resourceList": items}))
    options = ["-config-file", str(root / "config.json"), "-logtostderr", "-v", "10"]
    script = [str(root), sys.executable, __file__, str(program), *options]
    process = subprocess.Popen(
        [*namespaces, "sh", "-c", _SCRIPT, "sh", *script],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HOME": str(root)},
    )
    found: dict[str, set[str]] = {name: set() for name in resources}
    said, pool = list[str](), ""
    try:
        for line in process.stderr or ():
            said.append(line)
            if _POOL in line:
                pool = line.partition(_POOL)[2].strip()
            elif _ADDED in line:
                found[pool].add(line.partition(_ADDRESS)[2].partition(",")[0])
            if _READY in line:
                return found
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()
    raise AssertionError("".join(said))


def _make(links: Mapping[str, str]) -> None:
    for name, link in links.items():
        with Path("/dev/net/tun").open("rb+", buffering=0) as tap:
            fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI))
            fcntl.ioctl(tap, _TUNSETLINK, _TYPES[link])
            fcntl.ioctl(tap, _TUNSETPERSIST, 1)


if __name__ == "__main__":
    _make(json.loads(Path(sys.argv[1]).read_text()))
