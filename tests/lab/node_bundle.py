# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather everything that makes a booted host a node of the lab's cluster into one directory of the user's cache.

``bin/kubelet``; ``cni/``, the plugins that a distribution's kubernetes-cni has installed before any DaemonSet;
``images/NAME.tar``, docker archives of everything the cluster's pods start, each with all its references.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import Mapping, Sequence

from .gobuild import ProgramsUnavailable, Report, cache_root, go_architecture, make_once
from .guest_root import library_folder, read_disk
from .guests.image import gather_image, remove_unused, require_space
from .guests.recipe import GIB
from .image_set import ImageRecipe, image_entries, image_recipes
from .images import Entry, write_image
from .node_programs import CNI_PLUGINS, KUBELET, gather_node_programs

MAKERS = ("elf", "guest_root", "image_set", "images", "node_bundle")
# The code that makes a bundle of programs and a guest image. It takes seconds, so any change of it counts.
SOURCES = tuple(Path(__file__).with_name(f"{name}.py") for name in MAKERS)
NEEDED_BYTES = 2 * GIB
NODE_PLUGINS = ("bridge", "host-local", "loopback", "portmap", "ptp")
ADVICE = "Free some, or name a larger place in XDG_CACHE_HOME."


def bundle_key(programs: Mapping[str, Path], guest: Path, sources: Sequence[Path] = SOURCES) -> str:
    """Give a name for the bundle that changes with every input: programs and guest image (by their keys), and code."""
    digest = hashlib.sha256(json.dumps([*sorted(path.name for path in programs.values()), guest.name]).encode())
    for source in sources:
        digest.update(source.read_bytes())
    return f"bundle-{digest.hexdigest()[:16]}"


def gather_bundle(environ: Mapping[str, str], report: Report) -> Path:
    """Give the bundle's directory, complete, making what the cache lacks; its name changes with every input.

    Raises ``ProgramsUnavailable`` or ``NoSpace`` with the reason and the next step. A run that was killed leaves only
    what the next one removes.
    """
    programs = gather_node_programs(environ, report)
    image = gather_image(environ, report)
    libraries = library_folder(platform.machine())
    recipes = image_recipes(libraries)
    cache = cache_root(environ) / "node"
    what = "the nodes' programs and images"

    def make(target: Path) -> None:
        require_space(cache, NEEDED_BYTES, f"making {what}", ADVICE)
        copy_programs(target, programs)
        root = target / "root"
        folders = ("usr/bin", "usr/sbin", libraries, "usr/lib64", "usr/share/misc", "etc/libibverbs.d")
        read_disk(image.disk, folders, root, environ)
        contents = {recipe.name: image_entries(recipe, programs, root, libraries) for recipe in recipes}
        write_images(target / "images", recipes, contents, report)
        shutil.rmtree(root)
        for file in target.rglob("*"):
            if file.is_file():
                file.chmod(file.stat().st_mode & 0o555)

    try:
        directory = make_once(cache / bundle_key(programs, image.guest), what, make, report)
        os.utime(directory)  # in use: not to be removed
        remove_unused(cache, time.time())
    except OSError as error:
        advice = f" {ADVICE}" if error.errno == errno.ENOSPC else ""
        raise ProgramsUnavailable(f"cannot make {what} in {cache}: {error}.{advice}") from error
    return directory


def copy_programs(target: Path, programs: Mapping[str, Path]) -> None:
    """Copy what a host has installed before it joins: the kubelet and the plugins every pod needs."""
    wanted = {"bin": (KUBELET, ("kubelet",)), "cni": (CNI_PLUGINS, NODE_PLUGINS)}
    for folder, (recipe, names) in wanted.items():
        (target / folder).mkdir()
        for name in names:
            shutil.copy2(programs[recipe.name] / name, target / folder / name)


def write_images(
    target: Path, recipes: Sequence[ImageRecipe], contents: Mapping[str, Mapping[str, Entry]], report: Report
) -> None:
    """Write the archive of each image into a new directory, with a line about each; ``contents`` is by image name."""
    target.mkdir()
    started = time.monotonic()
    architecture = go_architecture(platform.machine())
    for number, recipe in enumerate(recipes, 1):
        archive = target / f"{recipe.name}.tar"
        write_image(archive, contents[recipe.name], recipe.config, recipe.references, architecture)
        size = archive.stat().st_size / 1e6
        seconds = time.monotonic() - started
        report(f"container image {recipe.name} ({number} of {len(recipes)}): {size:.0f} MB, {seconds:.0f} s")
