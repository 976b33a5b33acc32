# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files about modules, settings, limits and huge pages, read by kmod, systemd, procps and PAM themselves.

The files are made by the collection's own runs over hosts in memory, never by hand. A tree of the test stands for
/proc/sys and /sys, so what a reader writes is seen there, and nothing of this machine changes.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver import files as driver_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.modules import LOAD_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory.hugepages import TMPFILES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory.limits import unit_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory import modules as peer_memory_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.memory import LOGIN_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.sysctls import FILE as SYSCTLS
from ansible_collections.rdma.fabric.tests.integration.isolated import lay_out, run_over
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._host.driver import test_driver_apply
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import driver_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.peer_memory import test_modules
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import applied, host

MODULES = ["ib_ipoib", "nvme-rdma"]
POOL = "hugepages/hugepages-2048kB/nr_hugepages"
UNPRIVILEGED = 65534
# libpam, as login(1) and sshd(8) use it, without any question to a user; pam_start_confdir(3) takes the directory.
OPEN_SESSION = """
import ctypes, resource, sys
pam, handle = ctypes.CDLL("libpam.so.0"), ctypes.c_void_p()
function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3)
class Conversation(ctypes.Structure):
    _fields_ = [("ask", function), ("data", ctypes.c_void_p)]
nobody_answers = Conversation(function(lambda *asked: 19), None)
directory, user = (word.encode() for word in sys.argv[1:])
start = (b"login", user, ctypes.byref(nobody_answers), directory, ctypes.byref(handle))
print(pam.pam_start_confdir(*start), pam.pam_open_session(handle, 0))
print(*resource.getrlimit(resource.RLIMIT_MEMLOCK), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def wrote(kernel: Kernel, outcome: Mapping[str, Any], *paths: str) -> dict[str, str]:
    """What a run that succeeded wrote to these paths."""
    assert not outcome.get("failed"), outcome["msg"]
    return {path: kernel.read(path) for path in paths}


def of_modules() -> dict[str, str]:
    """Every file that loads modules: the wanted ones, those of the kernel's own driver, and peer memory's."""
    wanted, inbox, gpu = host(), driver_host(), test_modules.gpu_host()
    of_peer_memory = (peer_memory_files.LOAD_FILE, peer_memory_files.ORDER_FILE)
    return {
        **wrote(wanted, applied(wanted, kernel_modules=MODULES), LOAD_FILE),
        **wrote(inbox, test_driver_apply.run(inbox, flavour="inbox"), driver_files.LOAD_FILE),
        **wrote(gpu, test_modules.run(gpu), *of_peer_memory),
    }


def test_systemd_loads_every_module_that_our_files_list(readers: Readers, tmp_path: Path) -> None:
    """No module is on the disk there, so that each is looked for and none is loaded."""
    lay_out(tmp_path, of_modules())
    program = readers.program("usr/lib/systemd/systemd-modules-load", "lib/systemd/systemd-modules-load")
    done = run_over(
        readers,
        tmp_path,
        ["/etc/modules-load.d", "/etc/modprobe.d", "/lib/modules"],
        [program],
        SYSTEMD_LOG_LEVEL="debug",
        SYSTEMD_LOG_TARGET="console",
    )
    names = {name.replace("-", "_") for name in re.findall(r"Failed to find module '([^']+)'", done.stderr)}
    assert names >= {"ib_ipoib", "nvme_rdma", "nvidia_peermem", *driver_files.INBOX_MODULES}, done.stderr


def test_modprobe_takes_the_order_of_peer_memory(readers: Readers, tmp_path: Path) -> None:
    order = peer_memory_files.ORDER_FILE
    lay_out(tmp_path, {order: of_modules()[order]})
    # The packages' modprobe is a link to an absolute path; kmod goes by the name that it is called by.
    modprobe: list[str | Path] = ["bash", "-c", 'exec -a modprobe "$@"', "bash"]
    modprobe.append(readers.program("usr/bin/kmod", "bin/kmod"))
    done = readers.run([*modprobe, "--config", tmp_path / "etc/modprobe.d", "--showconfig"])
    # The kernel's own command line is among what it shows.
    assert [line for line in done.stdout.splitlines() if line.startswith("softdep ")] == [
        "softdep nvidia_peermem pre: ib_core nvidia",
        "softdep nvidia post: nvidia-peermem",
    ]
    assert done.stderr == ""
    with (tmp_path / order[1:]).open("a") as text:
        text.write("softdependency a pre: b\n")
    broken = readers.run([*modprobe, "--config", tmp_path / "etc/modprobe.d", "--showconfig"])
    assert "softdependency" in broken.stderr


SETTINGS = {
    "net.core.rmem_max": 33554432,
    "net.ipv4.tcp_rmem": "4096 87380 33554432",
    "net/ipv4/conf/ens2f0.100/rp_filter": 2,
}


@pytest.mark.parametrize("reader", ["systemd", "procps"])
def test_settings_arrive_in_the_kernel(readers: Readers, tmp_path: Path, reader: str) -> None:
    kernel = host(**{"__proc__sys__net__ipv4__conf__ens2f0.100__rp_filter": "0\n"})
    outcome = applied(kernel, sysctls=SETTINGS)
    assert not outcome.get("failed"), outcome["msg"]
    expected = {
        "net/core/rmem_max": "33554432",
        "net/ipv4/tcp_rmem": "4096 87380 33554432",
        "net/ipv4/conf/ens2f0.100/rp_filter": "2",
    }
    before = {f"/proc/sys/{name}": "0\n" for name in expected}
    lay_out(tmp_path, {**before, SYSCTLS: kernel.read(SYSCTLS)})
    argv: list[str | Path] = [readers.program("usr/lib/systemd/systemd-sysctl", "lib/systemd/systemd-sysctl")]
    if reader == "procps":
        argv = [readers.program("usr/sbin/sysctl", "sbin/sysctl"), "--load", SYSCTLS]
    done = run_over(readers, tmp_path, ["/etc/sysctl.d", "/proc/sys"], argv)
    assert done.returncode == 0, done.stderr
    assert {name: (tmp_path / "proc/sys" / name).read_text().strip() for name in expected} == expected


@pytest.mark.parametrize(
    ("wanted", "pools"),
    [
        (512, {f"/sys/kernel/mm/{POOL}": "512"}),
        ({0: 64, 1: 128}, {f"/sys/devices/system/node/node{node}/{POOL}": n for node, n in ((0, "64"), (1, "128"))}),
    ],
)
def test_huge_pages_are_written_at_boot(readers: Readers, tmp_path: Path, wanted: Any, pools: dict[str, str]) -> None:
    kernel = host()
    ours = wrote(kernel, applied(kernel, hugepages={"2Mi": wanted}), TMPFILES_FILE)
    lay_out(tmp_path, {**ours, **dict.fromkeys(pools, "0\n")})
    tmpfiles = readers.program("usr/bin/systemd-tmpfiles", "bin/systemd-tmpfiles")
    done = readers.run([tmpfiles, "--create", f"--root={tmp_path}"])
    assert (done.returncode, done.stderr) == (0, "")
    assert {path: (tmp_path / path[1:]).read_text().strip() for path in pools} == pools


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_logins_get_the_limits(readers: Readers, tmp_path: Path, user: str) -> None:
    """PAM may lower limits anywhere, so low ones are asked for; root is no part of everybody there."""
    kernel = host()
    ours = wrote(kernel, applied(kernel, limits={"memlock": 4096, "nofile": 4096}), LOGIN_FILE)
    module = next(iter(readers.root.rglob("pam_limits.so")))
    lay_out(tmp_path, {**ours, "/pam/login": f"session required {module}\n"})
    argv = [sys.executable, "-c", OPEN_SESSION, str(tmp_path / "pam"), user]
    done = run_over(readers, tmp_path, ["/etc/security/limits.d"], argv)
    assert done.stdout.splitlines() == ["0 0", "4194304 4194304 4096 4096"], done.stderr


SERVICE = "[Service]\nExecStart=/bin/true\n"
UNITS = "/etc/systemd/system"


def as_systemd_has_it(readers: Readers, place: Path, unit: str, files: dict[str, str]) -> str:
    """What a system manager tells of a unit; one that only tells what it would start does not run as root."""
    tree = place / "tree"
    tree.mkdir()
    # Where workers run beside each other, one folder more lies above those of the test.
    for folder in (place, *place.parents):
        if Path(tempfile.gettempdir()).resolve() in folder.parents:
            folder.chmod(0o755)
    lay_out(tree, {**files, f"{UNITS}/{unit}": SERVICE})
    manager = readers.program("usr/lib/systemd/systemd", "lib/systemd/systemd")
    other_user = ["setpriv", f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups"]
    unprivileged = other_user if os.geteuid() == 0 else []
    variables = {"SYSTEMD_UNIT_PATH": f"{tree}{UNITS}:", "SYSTEMD_LOG_TARGET": "console", "SYSTEMD_LOG_LEVEL": "debug"}
    done = readers.run([*unprivileged, manager, "--test", "--system", f"--unit={unit}"], **variables)
    told = (done.stdout + done.stderr).partition(f"-> Unit {unit}:")[2].partition("-> Unit ")[0]
    assert told, done.stderr[-2000:]
    return told


def test_systemd_gives_what_starts_containers_the_limits(readers: Readers, tmp_path: Path) -> None:
    kernel, drop_in = host(), unit_file("containerd.service")
    ours = wrote(kernel, applied(kernel, limits={"memlock": 65536, "nofile": 65536}), drop_in)
    told = as_systemd_has_it(readers, tmp_path, "containerd.service", ours)
    assert (
        dict(re.findall(r"Limit(\w+): (\d+)", told)).items()
        >= {
            "MEMLOCK": str(65536 * 1024),
            "MEMLOCKSoft": str(65536 * 1024),
            "NOFILE": "65536",
            "NOFILESoft": "65536",
        }.items()
    )


def test_systemd_orders_the_vendors_driver_before_kubelet(readers: Readers, tmp_path: Path) -> None:
    kernel = driver_host()
    ours = wrote(kernel, test_driver_apply.run(kernel), driver_files.ORDER_FILE)
    told = as_systemd_has_it(readers, tmp_path, "openibd.service", ours)
    assert re.search(r"^\s*Before: kubelet\.service", told, re.MULTILINE), told
