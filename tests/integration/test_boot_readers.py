# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the next boot starts, as GRUB, systemd, initramfs-tools, dracut and DKMS write and read it themselves.

Their programs run over directories of the test in place of the machine's own; what a plan runs is run as it is.
"""

from __future__ import annotations

import base64
import gzip
import re
import shutil
import struct
from pathlib import Path
from typing import Any, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.apply import work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.modules import holds_another
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.read import read_driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.next_boot import read_next_boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.integration.isolated import apart, lay_out, run_over
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import two_ports

OLD, NEW = "6.1.0-31-amd64", "6.1.0-37-amd64"
DIRECTORIES = ("/boot", "/lib/modules", "/usr/src", "/var/lib/dkms", "/etc/dkms")
HEADERS = ("build/Makefile", "build/.config", "build/include/linux/kernel.h")
KMOD = ("modinfo", "depmod", "modprobe")
# Stands in for the disks of a host, which GRUB asks for by these programs.
PROBE = """#!/bin/sh
case "$*" in
*target=fs_uuid*) echo 4c1f7c52-0000-4000-8000-000000000000 ;;
*target=device*) echo /dev/sda1 ;;
*target=fs*) echo ext2 ;;
esac
"""
RELATIVE = '#!/bin/sh\necho "${1#%s}"\n'


class Tree(LiveHost):
    """A host whose files are below a directory, and whose programs are those of the packages."""

    def __init__(self, readers: Readers, place: Path) -> None:
        super().__init__(str(place))
        self._readers = readers
        self._place = place
        self.programs = place / "programs"
        self.programs.mkdir()
        for name in KMOD:
            # kmod goes by the name that it is called by.
            (self.programs / name).symlink_to(readers.program("usr/bin/kmod", "bin/kmod"))

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        root = self._readers.root
        path = ":".join(str(each) for each in (self.programs, root / "usr/bin", root / "bin", root / "usr/sbin"))
        done = run_over(
            self._readers,
            self._place,
            DIRECTORIES,
            argv,
            PATH=f"{path}:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin",
            dracutbasedir=str(root / "usr/lib/dracut"),
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def tree(readers: Readers, tmp_path: Path) -> Tree:
    return Tree(readers, tmp_path)


def two_kernels(place: Path) -> None:
    lay_out(place, {f"/boot/{name}-{each}": "" for each in (OLD, NEW) for name in ("vmlinuz", "initrd.img", "config")})


def make_menu(readers: Readers, place: Path, default: str, prefix: str = "") -> None:
    """Have the scripts of grub-mkconfig write grub.cfg; ``prefix`` is what a partition of its own takes off paths."""
    lay_out(place, {"/bin/probe": PROBE, "/bin/relative": RELATIVE % prefix})
    for name in ("probe", "relative"):
        (place / "bin" / name).chmod(0o755)
    scripts = [readers.root / "etc/grub.d" / name for name in ("00_header", "10_linux")]
    variables = {
        "pkgdatadir": str(readers.root / "usr/share/grub"),
        "grub_probe": str(place / "bin/probe"),
        "grub_mkrelpath": str(place / "bin/relative"),
        "grub_file": str(readers.program("usr/bin/grub-file")),
        "GRUB_DEVICE": "/dev/sda1",
        "GRUB_DEVICE_BOOT": "/dev/sda1",
        "GRUB_FS": "ext2",
        "GRUB_DISTRIBUTOR": "Debian",
        "GRUB_DEFAULT": default,
    }
    written = [run_over(readers, place, ["/boot"], ["sh", script], **variables) for script in scripts]
    assert [done.returncode for done in written] == [0, 0], written[-1].stderr
    lay_out(place, {"/boot/grub/grub.cfg": "".join(done.stdout for done in written)})


def set_variable(readers: Readers, place: Path, name: str, value: str) -> None:
    done = readers.run([readers.program("usr/bin/grub-editenv"), place / "boot/grub/grubenv", "set", f"{name}={value}"])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("prefix", ["", "/boot"], ids=["root", "own-partition"])
def test_the_kernel_that_grub_takes(readers: Readers, tree: Tree, tmp_path: Path, prefix: str) -> None:
    two_kernels(tmp_path)
    make_menu(readers, tmp_path, "0", prefix)
    assert told(tree) == (NEW, False, [], f"/boot/initrd.img-{NEW}")
    make_menu(readers, tmp_path, "saved", prefix)
    (old,) = re.findall(rf"'(gnulinux-{OLD}-advanced-\S+)'", (tmp_path / "boot/grub/grub.cfg").read_text())
    (advanced,) = re.findall(r"'(gnulinux-advanced-\S+)'", (tmp_path / "boot/grub/grub.cfg").read_text())
    set_variable(readers, tmp_path, "saved_entry", f"{advanced}>{old}")
    assert told(tree) == (OLD, False, [], f"/boot/initrd.img-{OLD}")
    set_variable(
        readers, tmp_path, "next_entry", f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {NEW}"
    )
    assert told(tree) == (NEW, True, [], f"/boot/initrd.img-{NEW}")
    set_variable(readers, tmp_path, "next_entry", "")
    (tmp_path / f"boot/vmlinuz-{OLD}").unlink()
    assert told(tree)[0::2] == (OLD, [f"{'' if prefix else '/boot'}/vmlinuz-{OLD}"])


def test_grub_writes_an_entry_without_a_ram_disk_that_was_not_made(
    readers: Readers, tree: Tree, tmp_path: Path
) -> None:
    """A full /boot leaves a kernel so, and the menu has no word of it."""
    two_kernels(tmp_path)
    (tmp_path / f"boot/initrd.img-{NEW}").unlink()
    make_menu(readers, tmp_path, "0")
    assert told(tree) == (NEW, False, [], None)


def told(tree: Tree) -> tuple[Any, ...]:
    found = read_next_boot(Probe(tree), OLD, ())
    return found["kernel"], found["once"], found["absent"], found["initrd"]


LOADER = """title Debian
version {kernel}
machine-id 4c1f
{sort_key}options root=/dev/sda1
linux /4c1f/{kernel}/linux
initrd /4c1f/{kernel}/initrd
"""


@pytest.mark.parametrize(
    ("entries", "conf"),
    [
        (["6.1.2", "6.1.10", "6.12.9"], ""),
        (["6.1.2", "6.1.10", "6.12.9"], "default 4c1f-6.1.*\n"),
        (["6.1.2", "6.1.10", "6.12.9"], "# default x\ntimeout 3\ndefault 4C1F-6.1.2.conf\n"),
        (["6.1.2", "-6.12.9"], ""),
        (["-6.1.10", "-6.1.9"], ""),
        (["6.1.2~rc1", "6.1.2"], ""),
        (["6.1.2", "6.12.9+2-1"], ""),
    ],
)
def test_systemd_and_we_take_the_same_entry(
    readers: Readers, tree: Tree, tmp_path: Path, entries: list[str], conf: str
) -> None:
    """A minus stands before entries without a sort key. bootctl wants a file system of its own."""
    for name in entries:
        kernel = name.lstrip("-").partition("+")[0]
        text = LOADER.format(kernel=kernel, sort_key="" if name.startswith("-") else "sort-key debian\n")
        files = {f"/boot/4c1f/{kernel}/{each}": "" for each in ("linux", "initrd")}
        lay_out(tmp_path, {f"/boot/loader/entries/4c1f-{name.lstrip('-')}.conf": text, **files})
    lay_out(tmp_path, {"/boot/loader/loader.conf": conf})
    binary = b"\6\0\0\0" + "systemd-boot 252\0".encode("utf-16-le")
    variable = tmp_path / "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
    variable.parent.mkdir(parents=True)
    variable.write_bytes(binary)
    script = 'mount -t tmpfs none "$1" && cp -a "$2/." "$1" && exec "$3" list --no-pager --esp-path="$1"'
    (tmp_path / "esp").mkdir()
    words = [tmp_path / "esp", tmp_path / "boot", readers.program("usr/bin/bootctl")]
    done = readers.run([*apart("mount"), "bash", "-c", script, "bash", *words], SYSTEMD_RELAX_ESP_CHECKS="1")
    assert done.returncode == 0, done.stderr
    (taken,) = [block for block in done.stdout.split("\n\n") if "(default)" in block]
    assert re.search(r"version: (\S+)", taken), taken
    assert read_next_boot(Probe(tree), "5.10", ())["kernel"] == re.findall(r"version: (\S+)", taken)[0]


def archive(tree: Tree, place: Path, *members: str) -> bytes:
    """An archive with these members, made by cpio itself."""
    lay_out(place, {f"/{name}": "x" for name in members})
    script = 'cd "$1" && find . -type f | cpio --quiet -o -H newc'
    done = tree.run(["bash", "-c", f"{script} | base64", "bash", str(place)], 60)
    assert done.rc == 0, done.stderr
    return base64.b64decode(done.stdout)


@pytest.mark.parametrize("lister", ["lsinitramfs", "lsinitrd"])
def test_what_a_ram_disk_holds(readers: Readers, tree: Tree, tmp_path: Path, lister: str) -> None:
    """As initramfs-tools and dracut make it: microcode first, then what is packed."""
    other = {"lsinitramfs": "lsinitrd", "lsinitrd": "lsinitramfs"}[lister]
    (tree.programs / other).write_text("#!/bin/sh\nexit 127\n")
    (tree.programs / other).chmod(0o755)
    vendors = f"/lib/modules/{NEW}/updates/dkms/mlx5_core.ko.zst"
    early = archive(tree, tmp_path / "early", "kernel/x86/microcode/GenuineIntel.bin")
    for held, differs in (
        ("kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst", True),
        ("updates/dkms/mlx5_core.ko.zst", False),
        ("kernel/fs/ext4/ext4.ko.zst", False),
    ):
        part = archive(tree, tmp_path / held.replace("/", "-"), f"usr/lib/modules/{NEW}/{held}")
        image = tmp_path / f"boot/initrd.img-{NEW}"
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(early + gzip.compress(part))
        assert holds_another(Probe(tree), f"/boot/{image.name}", NEW, vendors) is differs, held


DKMS = """PACKAGE_NAME="mlnx-ofed-kernel"
PACKAGE_VERSION="24.10.OFED.24.10.1.1.4.1"
MAKE[0]="cp built mlx5_core.ko"
CLEAN="true"
BUILT_MODULE_NAME[0]="mlx5_core"
DEST_MODULE_LOCATION[0]="/updates/dkms"
STRIP[0]="no"
AUTOINSTALL="yes"
"""


def module(version: str) -> bytes:
    """An ELF object with nothing but what modinfo(8) tells."""
    names = b"\0.modinfo\0.shstrtab\0"
    fields = {"name": "mlx5_core", "version": version, "license": "GPL", "depends": ""}
    info = b"".join(f"{key}={value}\0".encode() for key, value in fields.items())
    start = 64
    headers = (start + len(info) + len(names) + 7) // 8 * 8
    elf = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, headers, 0, 64, 0, 0, 64, 3, 2)

    def section(name: int, kind: int, flags: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, 0, 0, 1, 0)

    table = [bytes(64), section(1, 1, 2, start, len(info)), section(10, 3, 0, start + len(info), len(names))]
    return (elf + info + names).ljust(headers, b"\0") + b"".join(table)


@pytest.fixture
def driver_tree(readers: Readers, tree: Tree, tmp_path: Path) -> Tree:
    """A host that runs the vendor's driver by DKMS; another kernel, with its headers, is next."""
    source = "/usr/src/mlnx-ofed-kernel-24.10.OFED.24.10.1.1.4.1"
    files = {f"{source}/dkms.conf": DKMS, f"{source}/built": ""}
    for each in (OLD, NEW):
        for name in ("modules.order", "modules.builtin", "kernel/mlx5_core.ko", *HEADERS):
            files[f"/lib/modules/{each}/{name}"] = ""
    lay_out(tmp_path, {**files, "/etc/dkms/framework.conf": (readers.root / "etc/dkms/framework.conf").read_text()})
    (tmp_path / source[1:] / "built").write_bytes(module("24.10-1.1.4"))
    for each in (OLD, NEW):
        (tmp_path / f"lib/modules/{each}/kernel/mlx5_core.ko").write_bytes(module("6.1"))
        assert tree.run(["depmod", "-a", each], 60).rc == 0
    words = ["mlnx-ofed-kernel/24.10.OFED.24.10.1.1.4.1", "-k", OLD]
    done = tree.run(["bash", "-c", 'dkms add "$1" && dkms install "$@"', "bash", *words], 60)
    assert done.rc == 0, done.stderr
    return tree


def driver_of(tree: Tree) -> Any:
    system: Any = {"kernel": OLD, "os": {"id": "debian", "version_id": "12"}, "secure_boot": False}
    state = read_driver(Probe(tree), system, NEW)
    packages = {"mlnx-ofed-kernel-dkms": "24.10.OFED.24.10.1.1.4.1-1", "doca-ofed": "2.9"}
    # What this machine's own package manager knows is no part of it.
    return {**state, "packages": packages, "headers_offered": {}, "loaded": {}, "locks": [], "free_mib": {}}


def build_step(tree: Tree, key: str) -> list[Run]:
    """The commands of the step that builds for the next kernel, none where there is no such step."""
    made = two_ports(driver=driver_of(tree), stack={"flavour": "doca-ofed", "version": "24.10-1.1.4"})
    made["system"]["os"] = {"id": "debian", "version_id": "12", "id_like": [], "name": "Debian 12"}
    wish = {"driver": {"flavour": "doca-ofed", "version": "24.10-1.1.4.0"}}
    plan, context = plan_with_context(check_spec(wish), made, ("driver",))
    steps = [step for step in plan["steps"] if step["id"] == f"driver:{key}"]
    work_of = [work(context, step) for step in steps]
    return [run for each in work_of for run in each.do if isinstance(run, Run)]


def test_dkms_builds_for_the_next_kernel_what_the_plan_asks_it_to(driver_tree: Tree) -> None:
    state = driver_of(driver_tree)
    assert state["built"] == [{"name": "mlnx-ofed-kernel", "version": "24.10.OFED.24.10.1.1.4.1", "kernel": OLD}]
    assert state["on_disk"]["mlx5_core"]["path"] == f"/lib/modules/{OLD}/updates/dkms/mlx5_core.ko"
    assert state["next_on_disk"]["mlx5_core"]["path"] == f"/lib/modules/{NEW}/kernel/mlx5_core.ko"
    (build,) = build_step(driver_tree, f"build:{NEW}")
    for _again in range(2):
        assert driver_tree.run(build.argv, build.timeout).rc in build.accepted
    state = driver_of(driver_tree)
    assert sorted(entry["kernel"] for entry in state["built"]) == [OLD, NEW]
    assert state["next_on_disk"]["mlx5_core"]["path"] == f"/lib/modules/{NEW}/updates/dkms/mlx5_core.ko"
    assert build_step(driver_tree, f"build:{NEW}") == []


def test_dkms_builds_nothing_without_headers_and_the_plan_knows(driver_tree: Tree, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / f"lib/modules/{NEW}/build")
    failed = driver_tree.run(["dkms", "install", "mlnx-ofed-kernel/24.10.OFED.24.10.1.1.4.1", "-k", NEW], 60)
    assert failed.rc != 0 and "Error! Your kernel headers" in failed.stderr
    headers, build = build_step(driver_tree, f"build:{NEW}")[-2:]
    assert headers.argv[-1] == f"linux-headers-{NEW}" and build.argv[0] == "dkms"


def test_modinfo_tells_what_drives_no_nic_in_the_next_kernel(driver_tree: Tree, tmp_path: Path) -> None:
    two_kernels(tmp_path)
    lay_out(tmp_path, {"/boot/grub/grub.cfg": f"menuentry 'x' {{\n\tlinux /boot/vmlinuz-{NEW}\n}}\n"})
    for name in ("mlx5_core", "igb"):
        lay_out(tmp_path, {f"/sys/module/{name}/refcnt": "1\n"})
    assert read_next_boot(Probe(driver_tree), OLD, ["mlx5_core", "igb"])["lacks"] == ["igb"]
