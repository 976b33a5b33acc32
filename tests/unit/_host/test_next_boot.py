# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel the next boot starts, by each boot loader's own files, and what of it is not there."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.boot_entries import Entry, in_order_of_grub
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gpus import OPERATOR_FILES
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.next_boot import (
    UNKNOWN,
    next_boot_of,
    read_next_boot,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import FORMAT, RecordedHost
from ansible_collections.rdma.fabric.tests.unit._host import printed

OLD, NEW = "6.8.0-45-generic", "6.8.0-51-generic"
KERNELS = {NEW: f"/boot/initrd.img-{NEW}", OLD: f"/boot/initrd.img-{OLD}"}
TITLES = ("Advanced options for Ubuntu", "Ubuntu, with Linux {}")
VARIABLE = "/sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


def host(files: dict[str, str], variables: dict[str, str] | None = None, **sections: Any) -> RecordedHost:
    binary = {
        VARIABLE.format(name): base64.b64encode(b"\6\0\0\0" + f"{value}\0".encode("utf-16-le")).decode()
        for name, value in (variables or {}).items()
    }
    empty: dict[str, Any] = {"links": {}, "dirs": [], "errors": {}, "commands": {}}
    return RecordedHost({"format": FORMAT, "files": files, "binary": binary, **empty, **sections})


def grub(
    default: str = "0", environment: dict[str, str] | None = None, without: tuple[str, ...] = ()
) -> dict[str, str]:
    """The files of an Ubuntu host with two kernels."""
    files = {
        "/boot/grub/grub.cfg": printed.grub_menu(default, printed.grub_entries(TITLES, KERNELS)),
        "/boot/grub/grubenv": printed.grub_environment(environment or {}),
        **{f"/boot/vmlinuz-{kernel}": "" for kernel in KERNELS},
        **dict.fromkeys(KERNELS.values(), ""),
        **{f"/lib/modules/{kernel}/modules.dep": "" for kernel in KERNELS},
    }
    return {path: text for path, text in files.items() if path not in without}


def read(files: dict[str, str], variables: dict[str, str] | None = None, **sections: Any) -> dict[str, Any]:
    return {**read_next_boot(Probe(host(files, variables, **sections)), OLD, ["mlx5_core"])}


class TestGrub:
    @pytest.mark.parametrize(
        ("default", "environment", "kernel", "named_by", "once"),
        [
            ("0", {}, NEW, "the default of grub.cfg", False),
            (f"gnulinux-advanced>gnulinux-{OLD}", {}, OLD, "the default of grub.cfg", False),
            ("${saved_entry}", {"saved_entry": f"gnulinux-advanced>gnulinux-{OLD}"}, OLD, "saved_entry of", False),
            ("${saved_entry}", {}, NEW, "its place, as saved_entry of /boot/grub/grubenv names none", False),
            ("${saved_entry}", {"saved_entry": "gone"}, NEW, "its place, as saved_entry of", False),
            ("0", {"next_entry": "1>1"}, OLD, "next_entry of /boot/grub/grubenv", True),
            ("0", {"next_entry": ""}, NEW, "the default of grub.cfg", False),
        ],
    )
    def test_the_entry_that_it_takes(
        self, default: str, environment: dict[str, str], kernel: str, named_by: str, once: bool
    ) -> None:
        found = read(grub(default, environment))
        assert (found["kernel"], found["once"]) == (kernel, once)
        assert found["named_by"].startswith(named_by)
        assert (found["absent"], found["initrd"], found["modules"]) == ([], KERNELS[kernel], True)

    @pytest.mark.parametrize("path", [f"/boot/vmlinuz-{NEW}", KERNELS[NEW]])
    def test_a_file_of_the_entry_that_is_not_there(self, path: str) -> None:
        found = read(grub(without=(path,)))
        assert (found["kernel"], found["absent"]) == (NEW, [path])

    def test_a_kernel_without_modules(self) -> None:
        assert read(grub(without=(f"/lib/modules/{NEW}/modules.dep",)))["modules"] is False
        nowhere = tuple(f"/lib/modules/{kernel}/modules.dep" for kernel in KERNELS)
        assert read(grub(without=nowhere))["modules"] is True, "the running kernel has none either"

    @pytest.mark.parametrize("prefix", ["", "/@/boot", "($root)"])
    def test_paths_count_from_the_root_that_the_loader_sees(self, prefix: str) -> None:
        files = grub()
        files["/boot/grub/grub.cfg"] = files["/boot/grub/grub.cfg"].replace("/boot/", f"{prefix}/")
        found = read(files)
        assert (found["kernel"], found["absent"], found["initrd"]) == (NEW, [], KERNELS[NEW])

    def test_variables_outside_of_the_file_are_asked_of_grub(self) -> None:
        """On Btrfs (SUSE) GRUB writes into the file system's header, and notes so in the file."""
        place = "/boot/grub2/grubenv"
        files = {path.replace("/grub/", "/grub2/"): text for path, text in grub("${saved_entry}").items()}
        files[place] = printed.grub_environment({"env_block": "512+1"})
        shown = {"rc": 0, "stdout": f"env_block=512+1\nsaved_entry=gnulinux-advanced>gnulinux-{OLD}\n", "stderr": ""}
        assert read(files)["kernel"] == NEW
        assert read(files, commands={f"grub2-editenv {place} list": shown})["kernel"] == OLD

    def test_a_whole_menu_on_the_efi_partition_goes_before_that_of_boot(self) -> None:
        """Red Hat's installations before 9.3 have it there, newer ones a few lines that lead to /boot/grub2."""
        stub = "search --fs-uuid --set=dev 1234\nset prefix=($dev)/boot/grub2\nconfigfile $prefix/grub.cfg\n"
        files = {**grub(), "/sys/firmware/efi/fw_platform_size": "64\n"}
        whole = grub(f"gnulinux-advanced>gnulinux-{OLD}")["/boot/grub/grub.cfg"]
        assert read({**files, "/boot/efi/EFI/rocky/grub.cfg": stub})["kernel"] == NEW
        assert read({**files, "/boot/efi/EFI/rocky/grub.cfg": whole})["kernel"] == OLD
        assert read({**files, "/boot/efi/EFI/rocky/grub.cfg": whole, "/boot/efi/EFI/a/grub.cfg": whole}) == UNKNOWN
        del files["/sys/firmware/efi/fw_platform_size"]
        assert read({**files, "/boot/efi/EFI/rocky/grub.cfg": whole})["kernel"] == NEW

    def test_drivers_of_nics_that_the_next_kernel_lacks(self) -> None:
        """linux-modules-extra of the new kernel is missing."""
        files = {**grub(), "/sys/module/mlx5_core/version": ""}
        said = {"rc": 1, "stdout": "", "stderr": "modinfo: ERROR: Module mlx5_core not found.\n"}
        commands = {f"modinfo -k {NEW} mlx5_core": said}
        assert read(files, commands=commands)["lacks"] == ["mlx5_core"]
        builtin = {f"/lib/modules/{NEW}/modules.builtin": "kernel/drivers/net/mlx5_core.ko\n"}
        assert read({**files, **builtin}, commands=commands)["lacks"] == []
        assert read({**files, "/boot/grub/grub.cfg": grub(f"1>gnulinux-{OLD}")["/boot/grub/grub.cfg"]})["lacks"] == []

    @pytest.mark.parametrize(("container", "lacks"), [(False, ["mlx5_ib", "nvidia"]), (True, ["mlx5_ib"])])
    def test_rdma_and_gpus_need_modules_of_their_own(self, container: bool, lacks: list[str]) -> None:
        """DKMS has not built the GPUs' driver, and mlx5_ib is in linux-modules-extra; guests have their own."""
        loaded = {f"/sys/module/{name}/version": "" for name in ("mlx5_core", "mlx5_ib", "nvidia")}
        said = "".join(f"modinfo: ERROR: Module {name} not found.\n" for name in ("mlx5_ib", "nvidia"))
        names = "mlx5_core mlx5_ib" if container else "mlx5_core mlx5_ib nvidia"
        commands = {f"modinfo -k {NEW} {names}": {"rc": 1, "stdout": "", "stderr": said}}
        ready = {OPERATOR_FILES[0]: ""} if container else {}
        facts: Any = {
            "nics": [{"driver": "mlx5_core"}, {"driver": "mlx5_vfio_pci"}],
            "gpus": [{"driver": "nvidia"}, {"driver": "nvgrace_gpu_vfio_pci"}],
            "modules": {"mlx5_ib": {"loaded": True}},
            "system": {"kernel": OLD},
        }
        found = next_boot_of(Probe(host({**grub(), **loaded, **ready}, commands=commands)), facts)
        assert found["lacks"] == lacks

    @pytest.mark.parametrize(
        "files",
        [
            {},
            {"/boot/grub/grub.cfg": "menuentry 'Windows' {\n\tchainloader +1\n}\n"},
            {"/boot/grub/grub.cfg": "menuentry 'x' {\n\tlinux /vmlinuz root=/dev/sda\n}\n"},
            {**grub(), "/run/ostree-booted": ""},
        ],
    )
    def test_what_nobody_tells_is_none(self, files: dict[str, str]) -> None:
        assert read(files)["kernel"] is None

    def test_entries_are_in_the_order_of_package_names(self) -> None:
        """rhboot/grub2, grub-core/commands/blscfg.c: numbers before words, more parts before fewer, ~ last of all."""
        ids = ["m-0-rescue", "m-6.1-9", "m-6.1-10", "m-6.1-10~rc1", "m-6.1-10.1", "m-6.1-a", "9m-0-1", "m-06.1-10+64k"]
        ordered = [entry.id for entry in in_order_of_grub(Entry("", name) for name in reversed(ids))]
        assert ordered == [
            "9m-0-1",
            "m-06.1-10+64k",
            "m-6.1-10.1",
            "m-6.1-10",
            "m-6.1-10~rc1",
            "m-6.1-9",
            "m-6.1-a",
            "m-0-rescue",
        ]


ENTRIES = "/boot/loader/entries"
SYSTEMD = {"LoaderInfo": "systemd-boot 257.7"}
DEFAULT = {"LoaderEntryDefault": "4c1f-6.1.2.conf"}


def loader(*kernels: str, directory: str = ENTRIES, sort_key: str | None = "debian", **conf: str) -> dict[str, str]:
    """The files of a host that systemd-boot starts, as kernel-install writes them."""
    files: dict[str, str] = {}
    key = {"sort-key": sort_key} if sort_key else {}
    for name in kernels:
        kernel = name.partition("+")[0]
        place = f"/4c1f/{kernel}"
        more = {"machine-id": "4c1f", **key, "linux": f"{place}/linux"}
        text = printed.loader_entry("Debian", kernel, [f"{place}/initrd"], **more)
        files[f"{directory}/4c1f-{name}.conf"] = text
        root = directory[: -len("/loader/entries")]
        files.update(dict.fromkeys((f"{root}{place}/linux", f"{root}{place}/initrd"), ""))
    if conf:
        root = directory[: -len("/loader/entries")]
        files[f"{root}/loader/loader.conf"] = "".join(f"{key} {value}\n" for key, value in conf.items())
    return files


class TestSystemdBoot:
    @pytest.mark.parametrize("directory", [ENTRIES, "/efi/loader/entries", "/boot/efi/loader/entries"])
    @pytest.mark.parametrize(
        ("variables", "conf", "kernel", "named_by"),
        [
            ({}, {}, "6.12.9", "the order of its entries"),
            ({}, {"default": "4c1f-6.1.*"}, "6.1.10", "default of loader.conf"),
            ({}, {"default": "4C1F-6.1.2.conf"}, "6.1.2", "default of loader.conf"),
            ({}, {"default": "gone*"}, "6.12.9", "the order of its entries"),
            ({"LoaderEntryLastBooted": "4c1f-6.1.2.conf"}, {"default": "@saved"}, "6.1.2", "default of loader.conf"),
            ({"LoaderEntryDefault": "4c1f-6.1.2.conf"}, {"default": "4c1f-6.1.10*"}, "6.1.2", "LoaderEntryDefault"),
            ({"LoaderEntryPreferred": "4c1f-6.1.10.conf", **DEFAULT}, {}, "6.1.10", "LoaderEntryPreferred"),
            ({"LoaderEntryOneShot": "4c1f-6.1.10.conf", **DEFAULT}, {}, "6.1.10", "LoaderEntryOneShot"),
        ],
    )
    def test_the_entry_that_it_takes(
        self, directory: str, variables: Any, conf: Any, kernel: str, named_by: str
    ) -> None:
        found = read(loader("6.1.2", "6.1.10", "6.12.9", directory=directory, **conf), {**SYSTEMD, **variables})
        assert (found["kernel"], found["named_by"], found["absent"]) == (kernel, named_by, [])
        assert found["once"] is ("LoaderEntryOneShot" in variables)

    def test_entries_without_a_sort_key_are_in_the_order_of_their_ids_and_after_those_with_one(self) -> None:
        old_style = loader("6.1.2", "6.1.10", sort_key=None)
        assert read(old_style, SYSTEMD)["kernel"] == "6.1.10"
        assert read({**loader("5.10.1"), **old_style}, SYSTEMD)["kernel"] == "5.10.1"

    def test_an_entry_without_tries_left_is_the_last_one(self) -> None:
        assert read(loader("6.1.2", "6.12.9+2-1"), SYSTEMD)["kernel"] == "6.12.9"
        assert read(loader("6.1.2", "6.12.9+0-3"), SYSTEMD)["kernel"] == "6.1.2"

    def test_an_image_that_is_not_there(self) -> None:
        files = loader("6.12.9")
        del files["/boot/4c1f/6.12.9/linux"]
        assert read(files, SYSTEMD)["absent"] == ["/4c1f/6.12.9/linux"]

    def test_beside_unified_kernel_images_nothing_tells(self) -> None:
        assert read({**loader("6.12.9"), "/boot/EFI/Linux/debian-6.12.9.efi": ""}, SYSTEMD) == UNKNOWN


@pytest.mark.parametrize(
    "text",
    ["", "linux", "linux /vmlinuz-\n", "version 1\nlinux /x\n", "\0\n#\n   \noptions\n", "linux /" + "a" * 70_000],
)
def test_any_entry_can_be_read(text: str) -> None:
    files = {"/boot/grub2/grub.cfg": "blscfg\n", f"{ENTRIES}/x.conf": text}
    found = read(files)
    assert found["kernel"] in (None, "1")
