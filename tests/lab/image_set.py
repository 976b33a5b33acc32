# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of the lab's nodes: what lies in each, what it starts, and the references it answers to.

Each holds the real programs of a component where upstream's image has them. An image has one release of them, whatever
the tag says: the references are those of the bill of materials and of the policies under tests/fixtures/seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple

from . import node_programs
from .gobuild import Recipe
from .guest_root import MERGED_LINKS, taken
from .images import Config, Directory, Entry, File, Link

VENDOR = "nvcr.io/nvidia/mellanox"
VENDOR_TAG = "network-operator-v26.7.0"
UPSTREAM = "ghcr.io/k8snetworkplumbingwg"
PAUSE_REFERENCE = "registry.k8s.io/pause:3.10"
TEST_REFERENCE = "docker.io/mellanox/rping-test:latest"
BUSYBOX = "usr/bin/busybox"
PCI_IDS = "usr/share/misc/pci.ids"
# What a shell in an image finds, as links to busybox.
APPLETS = (
    *(
        "[",
        "ash",
        "awk",
        "base64",
        "basename",
        "cat",
        "chmod",
        "chown",
        "clear",
        "cmp",
        "cp",
        "cut",
        "date",
        "dd",
        "df",
    ),
    *("dirname", "dmesg", "du", "echo", "env", "expr", "false", "find", "free", "grep", "head", "hexdump"),
    *("hostname", "id", "kill", "killall", "ln", "ls", "md5sum", "mkdir", "mktemp", "mount", "mv", "nc", "netstat"),
    *(
        "nslookup",
        "od",
        "pidof",
        "printf",
        "ps",
        "pwd",
        "readlink",
        "realpath",
        "rm",
        "rmdir",
        "sed",
        "seq",
        "sh",
        "sha256sum",
    ),
    *("sleep", "sort", "stat", "stty", "sync", "tail", "tar", "tee", "test", "timeout", "top", "touch", "tr"),
    *("true", "umount", "uname", "uniq", "vi", "watch", "wc", "wget", "which", "xargs", "yes"),
)
# The vendor's image copies its plugins to the node when it starts, since 26.4 by a rename (cmd/entrypoint of
# Mellanox/k8snetworkplumbingwg-plugins). A plugin may be running while it is replaced.
INSTALL_PLUGINS = """\
#!/bin/sh
set -eu
trap 'exit 0' TERM INT
target=${CNI_BIN_DIR:-/host/opt/cni/bin}
for plugin in /usr/src/cni/bin/*; do
  name=${plugin##*/}
  cp -f "$plugin" "$target/.$name.new"
  mv -f "$target/.$name.new" "$target/$name"
done
echo "CNI plugins installed in $target"
sleep infinity &
wait
"""
# Older ones, and the project's own, write over those of the node (entrypoint.sh of k8snetworkplumbingwg/plugins).
WRITE_PLUGINS = """\
#!/bin/sh
cp /usr/src/cni/bin/* /host/opt/cni/bin/
sleep 2147483647
"""
PLUGIN_INSTALLERS = {
    "install_plugins.sh": File(INSTALL_PLUGINS.encode()),
    "entrypoint.sh": File(WRITE_PLUGINS.encode()),
}
OPERATIONS = ("atomic", "read", "send", "write")
PERFTEST = tuple(f"usr/bin/ib_{operation}_{measure}" for operation in OPERATIONS for measure in ("bw", "lat"))
ACCOUNTS = {
    "etc/passwd": File(b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", 0o644),
    "etc/group": File(b"root:x:0:\nnobody:x:65534:\n", 0o644),
}
EVERYWHERE: Mapping[str, Entry] = {
    **{name: Directory() for name in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib")},
    **{name: Directory() for name in ("usr/lib64", "usr/sbin", "var/lib", "var/log", "var/tmp")},
    **MERGED_LINKS,
    "var/run": Link("../run"),
    **ACCOUNTS,
}


class ImageRecipe(NamedTuple):
    """What an image is made of; paths have no leading slash."""

    name: str
    references: tuple[str, ...]
    config: Config
    recipe: Recipe | None = None
    programs: Mapping[str, str] = {}  # path in the image -> name beside the recipe's programs
    guest_files: tuple[str, ...] = ()  # from the guest image's root, with all that is needed to run them
    entries: Mapping[str, Entry] = {}
    busybox: bool = False  # a shell and its usual programs


def _copied(recipe: Recipe, folder: str) -> dict[str, str]:
    return {f"{folder}/{name}": name for name in recipe.packages}


def image_recipes(libraries: str) -> tuple[ImageRecipe, ...]:
    """Give the image set; ``libraries`` is the folder of the guest's libraries."""
    hwdata: dict[str, Entry] = {"usr/share/hwdata/pci.ids": Link("../misc/pci.ids")}
    return (
        ImageRecipe(
            "pause",
            (PAUSE_REFERENCE,),
            Config(entrypoint=("/pause",), user="65535:65535"),
            node_programs.PAUSE,
            {"pause": "pause"},
        ),
        *(
            ImageRecipe(
                name,
                (reference,),
                Config(entrypoint=(f"/{installer}",)),
                node_programs.CNI_PLUGINS,
                _copied(node_programs.CNI_PLUGINS, "usr/src/cni/bin"),
                entries=PLUGIN_INSTALLERS,  # in both: they have their layer in common
                busybox=True,
            )
            for name, reference, installer in (
                ("cni-plugins", f"{VENDOR}/plugins:{VENDOR_TAG}", "install_plugins.sh"),
                ("cni-plugins-upstream", f"{UPSTREAM}/plugins:v1.5.0", "entrypoint.sh"),
            )
        ),
        ImageRecipe(
            "multus",
            (f"{VENDOR}/multus-cni:{VENDOR_TAG}", f"{UPSTREAM}/multus-cni:v4.0.2"),
            Config(entrypoint=("/thin_entrypoint",)),
            node_programs.MULTUS,
            {
                "thin_entrypoint": "thin_entrypoint",
                "install_multus": "install_multus",
                "usr/src/multus-cni/bin/multus": "multus",
                "usr/src/multus-cni/bin/passthru": "passthru",
            },
        ),
        ImageRecipe(
            "whereabouts",
            (f"{UPSTREAM}/whereabouts:v0.8.0", f"{UPSTREAM}/whereabouts:v0.7.0"),
            Config(command=("/install-cni.sh",)),
            node_programs.WHEREABOUTS,
            {name: name for name in ("whereabouts", "ip-control-loop", "install-cni.sh")},
            busybox=True,
        ),
        ImageRecipe(
            "rdma-shared-device-plugin",
            (
                f"{VENDOR}/k8s-rdma-shared-dev-plugin:{VENDOR_TAG}",
                "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.1",
                "docker.io/mellanox/k8s-rdma-shared-dev-plugin:v1.0.0",
            ),
            Config(command=("/bin/k8s-rdma-shared-dp",)),
            node_programs.RDMA_SHARED_DEVICE_PLUGIN,
            _copied(node_programs.RDMA_SHARED_DEVICE_PLUGIN, "usr/bin"),
            (PCI_IDS,),
            hwdata,
        ),
        ImageRecipe(
            "sriov-network-device-plugin",
            (f"{VENDOR}/sriov-network-device-plugin:{VENDOR_TAG}",),
            Config(entrypoint=("/entrypoint.sh",)),
            node_programs.SRIOV_DEVICE_PLUGIN,
            {"usr/bin/sriovdp": "sriovdp", "entrypoint.sh": "entrypoint.sh"},
            (PCI_IDS,),
            hwdata,
            busybox=True,
        ),
        ImageRecipe(
            "node-feature-discovery",
            ("registry.k8s.io/nfd/node-feature-discovery:v0.17.3",),
            Config(user="65534:65534"),
            node_programs.NODE_FEATURE_DISCOVERY,
            _copied(node_programs.NODE_FEATURE_DISCOVERY, "usr/bin"),
        ),
        ImageRecipe(
            "rping-test",
            (TEST_REFERENCE,),
            Config(command=("sh",)),
            guest_files=(
                *PERFTEST,
                *(f"usr/bin/{name}" for name in ("bash", "ibv_devices", "ibv_devinfo", "ip", "ping", "rdma", "rping")),
                # The C library loads the last one where a thread is cancelled, as rping does at its end.
                *("etc/libibverbs.d", f"{libraries}/libibverbs", f"{libraries}/libgcc_s.so.1"),
            ),
            busybox=True,
        ),
    )


def image_entries(recipe: ImageRecipe, programs: Mapping[str, Path], root: Path, libraries: str) -> dict[str, Entry]:
    """Give everything that lies in an image.

    ``programs`` maps the names of Go recipes to their directories, ``root`` has the folders of the guest's disk. Raises
    ``ProgramsUnavailable`` when the guest lacks a file.
    """
    applets = {f"usr/bin/{name}": Link("busybox") for name in APPLETS} if recipe.busybox else {}
    guest_files = (*recipe.guest_files, BUSYBOX) if recipe.busybox else recipe.guest_files
    # The programs themselves come after their short forms in busybox.
    entries = {**EVERYWHERE, **applets, **taken(root, guest_files, libraries)}
    entries.update(recipe.entries)
    if recipe.recipe is not None:
        directory = programs[recipe.recipe.name]
        entries.update({path: File(directory / name) for path, name in recipe.programs.items()})
    return entries
