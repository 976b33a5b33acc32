# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a guest and tells, as JSON, everything of it that the host side of the collection may touch.

``python3 -I -S -`` prints an object of: ``files`` (path -> type, mode and content, below ``TREES``), ``sysctls`` (below
``SYSCTLS``), ``links`` (by name), ``routing`` (lines of ``ip``), ``rdma`` (RDMA device -> interface), ``drivers`` (of
PCI devices), ``modules``, ``hugepages`` (size -> number) and ``cmdline``. Two of them are equal when nothing of a run
is left.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator

TREES = ("/etc", "/usr/local", "/boot", "/var/lib/rdma-fabric", "/run/rdma-fabric")
SYSCTLS = ("net", "vm")
# What the kernel works out anew at each start, what counts, and what acts when it is read or written.
VOLATILE = (
    *("stat_refresh", "flush", "netdev_rss_key", "nf_conntrack_count", "reserve_kbytes"),
    *("tcp_mem", "tcp_rmem", "tcp_wmem", "udp_mem"),
)


def entries(tree: Path) -> Iterator[Path]:
    """Give everything below a directory, itself included; nothing where there is none."""
    if tree.exists():
        yield tree
    for directory, names, files in os.walk(tree):
        yield from (Path(directory, name) for name in (*names, *files))


def told(path: Path) -> str:
    """Tell of one file what it is, its mode and its content."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"link to {path.readlink()}"
    if stat.S_ISDIR(found.st_mode):
        return f"directory {found.st_mode:o}"
    return f"file {found.st_mode:o} {digest(path, found.st_ino, found.st_ctime_ns)}"


@lru_cache(maxsize=None)
def digest(path: Path, _inode: int, _changed_at: int) -> str:
    """Give a file's content as a digest; a file that nobody changed is not read again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sysctls() -> Iterator[tuple[str, str]]:
    """Give the name and value of each readable setting below ``SYSCTLS``."""
    top = Path("/proc/sys")
    for part in SYSCTLS:
        for path in entries(top / part):
            if path.is_file() and not path.name.endswith(VOLATILE):
                try:
                    yield str(path.relative_to(top)), path.read_text(encoding="utf-8", errors="replace")
                except OSError:
                    continue


def answer(*argv: str) -> Any:
    """Give what a program prints as JSON."""
    return json.loads("\n".join(lines(*argv)) or "[]")


def lines(*argv: str) -> list[str]:
    """Give the lines that a program prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def links() -> dict[str, Any]:
    """Give of each network interface its MTU, address, whether it is up, other names and VFs."""
    return {
        link["ifname"]: {
            "mtu": link["mtu"],
            "address": link["address"],
            "up": "UP" in link["flags"],
            "other_names": link.get("altnames", []),
            "functions": len(link.get("vfinfo_list", [])),
        }
        for link in answer("ip", "-json", "-details", "link", "show")
    }


def drivers() -> dict[str, list[str]]:
    """Give the driver of each PCI device, where it has one, and the only one that it may have, if there is such."""
    found = {}
    for device in Path("/sys/bus/pci/devices").iterdir():
        driver, override = device / "driver", (device / "driver_override").read_text(encoding="utf-8").strip()
        found[device.name] = [driver.resolve().name if driver.exists() else "", override]
    return found


def routing() -> Iterator[str]:
    """Give the routes that the kernel does not make by itself, and all policy rules, a line each."""
    for family in ("-4", "-6"):
        routes = lines("ip", "-N", family, "route", "show", "table", "all")
        yield from (line.replace(" linkdown", "").strip() for line in routes if " proto 2 " not in f"{line} ")
        yield from lines("ip", "-N", family, "rule", "show")


def snapshot() -> dict[str, Any]:
    """Give the snapshot."""
    pages = Path("/sys/kernel/mm/hugepages").glob("hugepages-*/nr_hugepages")
    return {
        "files": {str(path): told(path) for tree in TREES for path in entries(Path(tree))},
        "sysctls": dict(sysctls()),
        "links": links(),
        "routing": sorted(routing()),
        "rdma": {link["ifname"]: link.get("netdev") for link in answer("rdma", "-j", "link", "show")},
        "drivers": drivers(),
        "modules": sorted(line.split()[0] for line in Path("/proc/modules").read_text(encoding="utf-8").splitlines()),
        "hugepages": {path.parent.name: path.read_text(encoding="utf-8").strip() for path in pages},
        "cmdline": Path("/proc/cmdline").read_text(encoding="utf-8").split(),
    }


if __name__ == "__main__":
    json.dump(snapshot(), sys.stdout)
