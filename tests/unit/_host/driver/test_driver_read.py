# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the driver's state: each part told apart, and nothing fatal on a host that tells nothing."""

from __future__ import annotations

import base64
import struct
from typing import Any, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.blockers import (
    CONTAINER_LOCK,
    read_open_files,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.modules import certificate_of_dkms
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.read import parse_modinfo, read_driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.status import (
    container_owns,
    runs_what_is_installed,
    same_build,
    stale_blacklist,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.kernel import CONTAINER_BLACKLIST
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost

KERNEL = "6.8.0-45-generic"
CORE = f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko"
SYSTEM: Any = {"kernel": KERNEL, "os": {"id": "ubuntu", "version_id": "24.04"}, "secure_boot": False}
MODINFO = f"""filename:       {CORE}
version:        24.10-1.1.4
license:        Dual BSD/GPL
depends:        mlx_compat,mlxdevm,psample
filename:       /lib/modules/{KERNEL}/updates/dkms/ib_core.ko
srcversion:     99
depends:
"""


def note(build: bytes) -> str:
    return base64.b64encode(struct.pack("<III", 4, 20, 3) + b"GNU\0" + build.ljust(20, b"\0")).decode()


def document(**changes: Any) -> Any:
    base: Any = {
        "format": "rdma.fabric/recorded-host/v1",
        "hostname": "node",
        "recorded_by": "rdma.fabric 0.1.0",
        "stand_in": "composed for a test",
        "files": {},
        "binary": {},
        "links": {},
        "dirs": [],
        "errors": {},
        "commands": {},
    }
    return {**base, **changes}


def state(**changes: Any) -> Any:
    return read_driver(Probe(RecordedHost(document(**changes))), SYSTEM, None)


def said(stdout: str, rc: int = 0) -> Any:
    return {"rc": rc, "stdout": stdout, "stderr": ""}


def test_a_host_that_tells_nothing() -> None:
    found = state()
    assert (found["packages"], found["on_disk"], found["initrds"], found["journal"]) == (None, None, {}, None)
    assert (found["loaded"], found["users"], found["free_mib"], found["openibd"]) == ({}, [], {}, False)


def test_the_module_on_the_disk_and_the_loaded_one() -> None:
    line = f"modinfo -k {KERNEL} mlx5_core mlx5_ib ib_core"
    found = state(
        commands={line: said(MODINFO, 1)},
        files={"/proc/modules": "mlx5_core 1 0 - Live 0x0\n", "/sys/module/mlx5_core/version": "24.10-1.1.4\n"},
        binary={CORE: note(b"new"), "/sys/module/mlx5_core/notes/.note.gnu.build-id": note(b"old")},
    )
    core = found["on_disk"]["mlx5_core"]
    assert (core["path"], core["version"]) == (CORE, "24.10-1.1.4")
    assert core["depends"] == ["mlx_compat", "mlxdevm", "psample"]
    assert set(found["on_disk"]) == {"mlx5_core", "ib_core"}
    assert core["build_id"].startswith(b"new".hex())
    assert found["loaded"]["mlx5_core"]["build_id"].startswith(b"old".hex())
    assert runs_what_is_installed(found) is False


def test_packages_that_dpkg_has_not_finished_are_told_apart() -> None:
    """The states are those of dpkg-query(1)."""
    rows = {
        "mlnx-ofed-kernel-dkms": "half-configured",
        "rdma-core": "unpacked",
        "libibmad5": "half-installed",
        "libibverbs1": "triggers-pending",
        "mlnx-tools": "installed",
        "ofed-scripts": "config-files",
        "perftest": "not-installed",
    }
    shown = CommandResult(0, "".join(f"{name}\t1-1\t{status}\n" for name, status in rows.items()), "")

    class Host(RecordedHost):
        def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
            return shown if argv[0] == "dpkg-query" else super().run(argv, timeout)

    found = read_driver(Probe(Host(document())), SYSTEM, None)
    assert found["packages"] == {"mlnx-tools": "1-1"}
    assert sorted(found["unfinished"]) == ["libibmad5", "libibverbs1", "mlnx-ofed-kernel-dkms", "rdma-core"]


@pytest.mark.parametrize(
    ("names", "interrupted"), [([], False), (["tmp.i"], False), (["0000", "tmp.i"], True), (["0082"], True)]
)
def test_a_dpkg_that_was_interrupted_leaves_numbered_changes(names: list[str], interrupted: bool) -> None:
    found = state(files={f"/var/lib/dpkg/updates/{name}": "" for name in names}, dirs=["/var/lib/dpkg/updates"])
    assert found["dpkg_interrupted"] is interrupted


def test_a_build_id_far_behind_the_beginning_is_found() -> None:
    line = f"modinfo -k {KERNEL} mlx5_core mlx5_ib ib_core"
    behind = base64.b64encode(bytes(200_000) + base64.b64decode(note(b"new"))).decode()
    found = state(commands={line: said(MODINFO)}, binary={CORE: behind})
    assert found["on_disk"]["mlx5_core"]["build_id"].startswith(b"new".hex())


def test_everything_that_stands_on_the_stack_is_followed() -> None:
    modules = (
        "ko2iblnd 1 0 - Live 0x0\nrdma_cm 1 1 ko2iblnd, Live 0x0\nib_core 1 1 rdma_cm, Live 0x0\next4 1 3 - Live 0x0\n"
    )
    assert sorted(state(files={"/proc/modules": modules})["loaded"]) == ["ib_core", "ko2iblnd", "rdma_cm"]


@pytest.mark.parametrize(
    ("image", "module", "stale"), [(1700000000, 1700000500, True), (1700000500, 1700000000, False)]
)
def test_an_initial_ram_disk_older_than_the_driver_is_stale(image: int, module: int, stale: bool) -> None:
    path = f"/boot/initrd.img-{KERNEL}"
    found = state(
        commands={
            f"modinfo -k {KERNEL} mlx5_core mlx5_ib ib_core": said(MODINFO),
            f"stat --format=%Z %n {path} {CORE}": said(f"{image} {path}\n{module} {CORE}\n"),
        }
    )
    assert found["initrds"] == {KERNEL: {"image": path, "stale": stale}}


def test_builds_headers_and_kernels() -> None:
    new = "6.8.0-51-generic"
    base = "/var/lib/dkms/mlnx-ofed-kernel/24.10"
    found = state(
        files={
            f"/boot/vmlinuz-{KERNEL}": "",
            f"/boot/vmlinuz-{new}": "",
            "/boot/vmlinuz-0-rescue-ab12": "",
            f"/lib/modules/{KERNEL}/build/Makefile": "",
            f"{base}/{KERNEL}/x86_64/module/mlx5_core.ko": "",
            f"{base}/source/dkms.conf": "",
        },
        dirs=[f"/lib/modules/{new}", "/lib/modules/0-rescue-ab12", f"{base}/{new}/x86_64/module"],
    )
    assert found["next_kernel"] == new
    assert found["headers"] == {KERNEL: True, new: False}
    assert found["built"] == [{"name": "mlnx-ofed-kernel", "version": "24.10", "kernel": KERNEL}]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("mlnx-ofed-kernel", True),
        # Mellanox/doca-driver-build, entrypoint.sh: "/usr/src/mlnx-ofa_kernel-*" on RHEL and SLES.
        ("mlnx-ofa_kernel", True),
        # Azure/azhpc-images, components/install_doca.sh: "/usr/src/doca-ofed-26.01-dkms-*" on Ubuntu 26.04.
        ("doca-ofed-26.01-dkms", True),
        ("mlnx-nvme", False),
        ("nvidia", False),
    ],
)
def test_the_drivers_build_is_found_by_every_name_that_dkms_has_for_it(name: str, known: bool) -> None:
    found = state(files={f"/var/lib/dkms/{name}/25.10/{KERNEL}/x86_64/module/mlx5_core.ko.xz": ""})["built"]
    assert found == ([{"name": name, "version": "25.10", "kernel": KERNEL}] if known else [])


def test_built_in_modules_are_told_apart_from_those_with_files() -> None:
    """kmod-project/kmod, tools/modinfo.c: built-in ones begin with their name, others have it behind (see Mellanox/
    nv_peer_memory, issue 46, for what modinfo prints of a file)."""
    text = (
        f"name:           mlx5_core\nfilename:       (builtin)\nlicense:        Dual BSD/GPL\n"
        f"name:           ib_core\nfilename:       (builtin)\n"
        f"filename:       /lib/modules/{KERNEL}/kernel/mlx5_ib.ko\nsrcversion:     9F372F055FA43FA7440C57D\n"
        f"depends:        ib_core\nretpoline:      Y\nname:           mlx5_ib\nvermagic:       {KERNEL} SMP\n"
    )
    line = f"modinfo -k {KERNEL} mlx5_core mlx5_ib ib_core"
    found = state(commands={line: said(text)})["on_disk"]
    assert {name: module["path"] for name, module in found.items()} == {
        "mlx5_core": "(builtin)",
        "mlx5_ib": f"/lib/modules/{KERNEL}/kernel/mlx5_ib.ko",
        "ib_core": "(builtin)",
    }
    behind = text[text.index("filename:       /lib") :] + text[: text.index("filename:       /lib")]
    assert state(commands={line: said(behind)})["on_disk"].keys() == found.keys()


def test_programs_and_package_managers_are_named_with_their_numbers() -> None:
    opened = read_open_files(
        Probe(
            RecordedHost(
                document(
                    files={"/proc/4711/comm": "ib_write_bw\n", "/proc/812/comm": "apt-get\n", "/proc/self/comm": "x\n"},
                    links={
                        "/proc/4711/fd/3": "/dev/infiniband/uverbs0",
                        "/proc/4711/fd/4": "/dev/infiniband/uverbs0",
                        "/proc/4711/fd/5": "/dev/null",
                        "/proc/812/fd/9": "/var/lib/dpkg/lock-frontend",
                        "/proc/90/fd/1": "socket:[1]",
                        "/proc/self/fd/1": "/dev/infiniband/uverbs1",
                    },
                    errors={"/proc/90/fd": "EACCES"},
                )
            )
        )
    )
    assert opened.verbs == [{"pid": 4711, "program": "ib_write_bw", "path": "/dev/infiniband/uverbs0"}]
    assert opened.locks == [{"pid": 812, "program": "apt-get", "path": "/var/lib/dpkg/lock-frontend"}]


@pytest.mark.parametrize(
    ("paths", "held", "owns", "stale"),
    [
        ([], False, False, False),
        (["/run/mellanox/drivers/.driver-ready"], True, True, False),
        (["/run/mellanox/drivers/.driver-ready", CONTAINER_LOCK], True, True, False),
        # A release that takes no lock.
        (["/run/mellanox/drivers/.driver-ready", CONTAINER_BLACKLIST], False, True, False),
        # The container was killed when it was ready: both files stay until the next boot.
        (["/run/mellanox/drivers/.driver-ready", CONTAINER_LOCK, CONTAINER_BLACKLIST], False, False, True),
        ([CONTAINER_LOCK, CONTAINER_BLACKLIST], True, True, False),
        # The container was killed in the swap of modules: the file of its lock stays until the next boot.
        ([CONTAINER_LOCK, CONTAINER_BLACKLIST], False, False, True),
        ([CONTAINER_BLACKLIST], False, False, True),
        ([CONTAINER_LOCK], True, False, False),
    ],
)
def test_a_driver_container_and_what_it_left(paths: list[str], held: bool, owns: bool, stale: bool) -> None:
    links = {"/proc/4711/fd/7": CONTAINER_LOCK} if held else {}
    found = state(files=dict.fromkeys(paths, ""), links=links)
    assert (container_owns(found), stale_blacklist(found)) == (owns, stale)


@pytest.mark.parametrize(
    ("policy", "indexes", "offered"),
    [
        ("", [], None),
        ("headers:\n  Installed: (none)\n  Candidate: (none)\n", ["lock", "partial/x"], None),
        ("", ["mirror.example_dists_noble_main_binary-amd64_Packages.lz4"], False),
        ("headers:\n  Installed: (none)\n  Candidate: 6.8.0-45.45\n", [], True),
    ],
)
def test_headers_of_an_apt_that_never_read_an_index(policy: str, indexes: list[str], offered: bool | None) -> None:
    """Images come without indexes: the installation reads them, where the plan had refused it."""
    found = state(
        commands={f"apt-cache policy linux-headers-{KERNEL}": said(policy)},
        files={f"/var/lib/apt/lists/{name}": "" for name in indexes},
    )
    assert found["headers_offered"] == {KERNEL: offered}


@pytest.mark.parametrize(
    ("system", "command", "answer", "told", "fails"),
    [
        ("ubuntu", "dpkg-query", 1, {}, False),
        ("ubuntu", "dpkg-query", 2, None, True),
        ("ubuntu", "dpkg-query", "ETIMEDOUT", None, True),
        # A recording does not hold what nobody asked for when it was made.
        ("ubuntu", "dpkg-query", "ENOENT", None, False),
        ("rocky", "rpm", 0, {}, False),
        ("rocky", "rpm", 1, None, True),
        ("rocky", "rpm", "ETIMEDOUT", None, True),
    ],
)
def test_a_package_database_that_fails_tells_nothing(
    system: str, command: str, answer: int | str, told: Any, fails: bool
) -> None:
    """A database that is damaged, or held by somebody who hangs, is not one without packages."""

    class Failing(RecordedHost):
        def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
            if argv[0] == command and isinstance(answer, str):
                raise HostError(answer, command)
            if argv[0] == command and isinstance(answer, int):
                return CommandResult(answer, "", "error: cannot open Packages database in /var/lib/rpm")
            return super().run(argv, timeout)

    release = {"id": system, "version_id": "24.04" if system == "ubuntu" else "9.4"}
    known: Any = {**SYSTEM, "os": release}
    found = read_driver(Probe(Failing(document())), known, None)
    assert (found["packages"], found["database_fails"]) == (told, fails)


OF_UBUNTU, OF_DKMS = "/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"


@pytest.mark.parametrize(
    ("distribution", "there", "settings", "path"),
    [
        ("ubuntu", (OF_UBUNTU, OF_DKMS), "", OF_UBUNTU),
        # DKMS makes a new key for Ubuntu, which nobody has enrolled.
        ("ubuntu", (OF_DKMS,), "", None),
        ("ubuntu", (OF_UBUNTU, OF_DKMS), "mok_certificate=/root/mok.der\n", OF_UBUNTU),
        ("debian", (OF_UBUNTU, OF_DKMS), "", OF_DKMS),
        ("rocky", (OF_UBUNTU,), "", None),
        ("rocky", (OF_DKMS, "/root/mok.der"), "mok_certificate='/root/mok.der'  # ours\n", "/root/mok.der"),
        ("rocky", (OF_DKMS,), "# mok_certificate=/root/mok.der\n", OF_DKMS),
        ("rocky", (OF_DKMS,), "mok_certificate=/root/mok.der\n", None),
    ],
)
@pytest.mark.parametrize("enrolled", [True, False])
def test_the_key_that_modules_are_signed_with(
    distribution: str, there: tuple[str, ...], settings: str, path: str | None, enrolled: bool
) -> None:
    """Any other key may be enrolled and prove nothing: modules of DKMS would not load, and the NICs would be gone."""
    words = "is already enrolled" if enrolled else "is not enrolled"
    answers = {f"mokutil --test-key {each}": said(f"{each} {words}\n") for each in there}
    files = {**dict.fromkeys(there, ""), "/etc/dkms/framework.conf": settings}
    system: Any = {**SYSTEM, "os": {"id": distribution, "version_id": "24.04"}, "secure_boot": True}
    found = read_driver(Probe(RecordedHost(document(files=files, commands=answers))), system, None)
    assert found["key"] == {"path": path, "enrolled": enrolled if path else None}


def test_settings_of_dkms_as_a_shell_reads_them() -> None:
    first = 'mok_signing_key="/root/mok.key"\nmok_certificate="/root/old.der"\n'
    assert certificate_of_dkms("ubuntu", [first, "  mok_certificate=/root/new.der; x=1\n"]) == "/root/new.der"
    assert certificate_of_dkms("ubuntu", ["mok_signing_key=/root/mok.key\n"]) == OF_DKMS
    assert certificate_of_dkms("debian", ["mok_certificate=\n"]) == OF_DKMS


@pytest.mark.parametrize(
    ("loaded", "on_disk", "same"),
    [
        ({"build_id": "a"}, {"build_id": "a"}, True),
        ({"build_id": "a", "version": "1"}, {"build_id": "b", "version": "1"}, False),
        ({"srcversion": "A"}, {"srcversion": "A"}, True),
        ({"srcversion": None}, {"srcversion": None}, None),
        ({"srcversion": ""}, {"srcversion": ""}, None),
        ({"version": "1"}, {"version": "1"}, None),
        ({"version": "1"}, {"version": "2"}, False),
        (None, {"build_id": "a"}, None),
    ],
)
def test_only_builds_prove_that_two_modules_are_one(loaded: Any, on_disk: Any, same: bool | None) -> None:
    untold: Any = dict.fromkeys(("build_id", "srcversion", "version"))
    running: Any = loaded and {**untold, **loaded}
    installed: Any = {**untold, **on_disk}
    assert same_build(running, installed) is same


def test_modinfo_of_a_hostile_module() -> None:
    fields = parse_modinfo("filename: /m.ko\nversion: \x1b[31m1\nversion: 2\nno colon\n: empty\n" + "x" * 100_000)
    assert fields == {"filename": "/m.ko", "version": "\\x1b[31m1"}
