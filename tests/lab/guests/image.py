# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the guest image and QEMU's root from Debian packages, once per machine, into the user's cache.

Nothing is mounted outside the builder's own mount namespace, and the builder ends with the process that asked for it:
a killed build leaves an unfinished directory only, which the next one removes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Mapping, NamedTuple

from ..gobuild import Report, cache_root, make_once, run_logged
from .qemu import Image
from .recipe import (
    DISABLED_UNITS,
    DISK_SIZE,
    ENABLED_UNITS,
    FILES,
    GIB,
    GRUB_PACKAGES,
    GUEST,
    INITRD_MODULES,
    INSTALL_GRUB,
    INSTALLED_FILES,
    KERNEL_PACKAGE,
    KERNEL_SUITE,
    MASKED_UNITS,
    QEMU,
    ROOT_DISK,
    ROOT_UUID,
    SUITE,
    Recipe,
    carried_apt_settings,
    debian_mirror,
    recipe_key,
    root_mirror,
)

UNUSED_DAYS = 14
ADVICE = (
    "The packages come through this machine's apt configuration: `apt-get update` has to work and to know Debian, "
    f"whose suites {SUITE} and {KERNEL_SUITE} are used. What was built so far is removed by the next try."
)
# A mount and process namespace of its own: with its first process everything the builder started and mounted is gone.
ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
WITH_PROC = ("sh", "-ec", 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"')
BOUND = ("sh", "-ec", 'mount --bind "$0" "$1"; shift; exec "$@"')
AUTOMATIC_FILES = ("etc/hostname", "etc/resolv.conf", "usr/sbin/policy-rc.d", "etc/apt/apt.conf.d/90lab")


class NoSpace(Exception):
    """A file system is too full for the lab; the text says which, what is needed and what is free."""


class Builder(NamedTuple):
    """What the steps of one build share: where they log, whom they tell, and their environment."""

    log: Path
    report: Report
    env: dict[str, str]

    def run(self, argv: list[str], what: str) -> None:
        """Run one step. Raises ``ProgramsUnavailable`` with the log's end."""
        run_logged(argv, self.log, what, self.report, env=self.env, advice=ADVICE)


def builder_for(log: Path, environ: Mapping[str, str], report: Report) -> Builder:
    """Give what the steps of one build share; no package asks a question in its environment."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return Builder(log, report, {**environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "PATH": path})


def require_space(directory: Path, needed: int, what: str, next_step: str) -> None:
    """Raise ``NoSpace`` unless ``needed`` bytes are free where ``directory`` is."""
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise NoSpace(
            f"{what} needs {needed / GIB:.1f} GiB in {directory}, where {free / GIB:.1f} GiB are free. {next_step}"
        )


def gather_image(environ: Mapping[str, str], report: Report) -> Image:
    """Give the guest image and QEMU, building what the cache lacks."""
    cache = cache_root(environ) / "guests"
    cache.mkdir(parents=True, exist_ok=True)
    image = Image(
        guest=_gathered(GUEST, cache, environ, report),
        qemu=_gathered(QEMU, cache, environ, report),
    )
    remove_unused(cache, time.time())
    return image


def remove_unused(cache: Path, now: float) -> None:
    """Remove what older recipes left and no lab has used for 14 days."""
    for directory in cache.glob("[!.]*-*"):
        if directory.is_dir() and directory.stat().st_mtime < now - UNUSED_DAYS * 86400:
            shutil.rmtree(directory)


def _gathered(recipe: Recipe, cache: Path, environ: Mapping[str, str], report: Report) -> Path:
    key = recipe_key(recipe)
    log = cache / f"{key}.log"
    what = "the guest image" if recipe.bootable else "QEMU"

    def make(target: Path) -> None:
        require_space(
            cache, recipe.needed_bytes, f"building {what}", "Free some, or name a larger place in XDG_CACHE_HOME."
        )
        report(f"building {what} from Debian packages: some minutes, once per machine ({log})")
        started = time.monotonic()
        log.unlink(missing_ok=True)
        (_make_guest if recipe.bootable else _make_qemu)(target, builder)
        report(f"{what} built in {time.monotonic() - started:.0f} s")

    builder = builder_for(log, environ, report)
    directory = make_once(cache / key, what, make, report)
    os.utime(directory)  # in use: not to be removed
    return directory


def _make_qemu(target: Path, builder: Builder) -> None:
    scratch = target / "scratch"
    debootstrap(QEMU, target, scratch, builder)
    shutil.rmtree(scratch)
    shutil.rmtree(target / "var")


def _make_guest(target: Path, builder: Builder) -> None:
    scratch, root = target / "scratch", target / "root"
    debootstrap(GUEST, root, scratch, builder)
    _configure(root)
    in_root = [*ISOLATED, *WITH_PROC, str(root)]
    builder.run([*in_root, "apt-get", "update"], "reading the kernel's suite")
    install = [*in_root, "apt-get", "install", "--yes", "--no-install-recommends"]
    builder.run([*install, "-t", KERNEL_SUITE, KERNEL_PACKAGE], "installing the kernel")
    builder.run([*install, *GRUB_PACKAGES], "installing the boot loader's programs")
    builder.run([*in_root, "systemctl", "enable", *ENABLED_UNITS], "enabling units")
    builder.run([*in_root, "systemctl", "disable", *DISABLED_UNITS], "disabling units")
    builder.run([*in_root, "systemctl", "mask", *MASKED_UNITS], "masking units")
    grub = ["bash", str(FILES / INSTALL_GRUB), str(root), str(target), ROOT_UUID, ROOT_DISK]
    builder.run([*ISOLATED, *grub], "making the boot loader")
    _clean(root)
    for name, link in (("vmlinuz", "vmlinuz"), ("initrd.img", "initrd.img")):
        shutil.copyfile((root / link).resolve(), target / name)
    packages = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show"]
    (target / "packages.txt").write_bytes(subprocess.run(packages, check=True, capture_output=True).stdout)
    options = ["-U", ROOT_UUID, "-O", "^has_journal,^metadata_csum", "-d", str(root)]
    disk = ["mke2fs", "-q", "-F", "-t", "ext4", *options, str(target / "disk.img"), DISK_SIZE]
    builder.run(disk, "writing the guest's disk")
    shutil.rmtree(root)
    shutil.rmtree(scratch)


def debootstrap(recipe: Recipe, root: Path, scratch: Path, builder: Builder) -> None:
    """Make a root of the recipe's suite and packages; ``scratch`` is for what apt reads and fetches meanwhile.

    In its own mount namespace debootstrap has the root at a place without white space: of any other it reads no
    dependencies (GETDEPS in its functions), as in the cache of a user whose home has a space.
    """
    apt = _private_apt(scratch)
    builder.run([*apt, "update"], "reading apt's archives")
    program, variables = _debootstrap_program(apt, scratch, builder)
    ask = [*apt, "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(CODENAME)", "Identifier: Packages"]
    mirror = debian_mirror(subprocess.run(ask, check=True, capture_output=True, text=True).stdout)
    options = ["--variant=minbase", "--force-check-gpg", f"--include={','.join(recipe.packages)}"]
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="debootstrap-", dir="/tmp") as point:
        made = [*program, *options, SUITE, point, *([mirror] if mirror else [])]
        argv = ["env", *variables, *ISOLATED, *BOUND, str(root), point, *made]
        builder.run(argv, f"debootstrap for {recipe.name}")


def _private_apt(scratch: Path) -> list[str]:
    """Give apt-get with lists and caches of its own: the machine's are neither needed nor changed."""
    for name in ("lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    options = (f"Dir::State::Lists={scratch}/lists", f"Dir::Cache={scratch}/cache", "APT::Sandbox::User=root")
    return ["apt-get", "--quiet", *(part for option in options for part in ("-o", option))]


def _debootstrap_program(apt: list[str], scratch: Path, builder: Builder) -> tuple[list[str], list[str]]:
    """Give debootstrap's command and variables: the installed one, or its package unpacked beside the build."""
    installed = shutil.which("debootstrap", path=builder.env["PATH"])
    if installed:
        return [installed], []
    download = ["env", "-C", str(scratch), *apt, "download", "debootstrap"]
    builder.run(download, "fetching debootstrap")
    (package,) = scratch.glob("debootstrap_*.deb")
    unpacked = scratch / "debootstrap"
    builder.run(["dpkg-deb", "-x", str(package), str(unpacked)], "unpacking debootstrap")
    return ["sh", str(unpacked / "usr/sbin/debootstrap")], [f"DEBOOTSTRAP_DIR={unpacked}/usr/share/debootstrap"]


def kernel_archive(root: Path) -> dict[str, str]:
    """Give the files, by path, that tell a fresh root where the kernel's packages are and how apt reaches them."""
    settings = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    mirror = root_mirror((root / "etc/apt/sources.list").read_text(encoding="utf-8"))
    return {
        "etc/apt/apt.conf.d/90lab": carried_apt_settings(settings),
        "etc/apt/sources.list.d/kernel.list": f"deb {mirror} {KERNEL_SUITE} main\n",
    }


def _configure(root: Path) -> None:
    """Write into a fresh root what its own apt, its initial RAM disk and its boot need."""
    files = {
        **kernel_archive(root),
        "etc/initramfs-tools/conf.d/lab": "MODULES=list\nBUSYBOX=n\n",
        "usr/share/initramfs-tools/modules.d/lab": "".join(f"{name}\n" for name in INITRD_MODULES),
        **{path: (FILES / name).read_text(encoding="utf-8") for name, path in INSTALLED_FILES.items()},
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def _clean(root: Path) -> None:
    """Take out what came from this machine, what every guest has of its own, and what apt downloaded."""
    for path in AUTOMATIC_FILES:
        (root / path).unlink(missing_ok=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    # systemd would take that of dbus before it asks what the guest was started with.
    (root / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    for folder in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / folder)
        (root / folder).mkdir()
