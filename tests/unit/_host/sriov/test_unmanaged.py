# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs that managers of interfaces are told to leave alone, and those that the host uses itself.

tests/integration/test_udev_reads_names.py has udev read the rule, tests/guests/test_network_managers.py the managers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions.unmanaged import RULES
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    OTHER,
    PF,
    VF0,
    VF1,
    applied,
    booted,
    wish,
    with_functions,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

NETWORK_MANAGER = "/etc/systemd/system/multi-user.target.wants/NetworkManager.service"
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
NETWORK = "/etc/systemd/network/50-all.network"
BY_PATTERN = {NETWORKD: "", NETWORK: "[Match]\nName=en*\n[Network]\nDHCP=yes\n"}
STEP = f"unmanaged_vfs:{RULES}"
CONCERNS = ("naming", "unmanaged_vfs", "vfs", "mtu", "link", "leftovers")
APPLY: Run = replace(igb.APPLY, concerns=CONCERNS)
REMOVE: Run = replace(igb.REMOVE, concerns=CONCERNS)
WISH = wish({"pci": PF, "vfs": 2})


def managed(kernel: Kernel, files: dict[str, str] | None = None) -> Kernel:
    """The guest with NetworkManager, or with these files."""
    for path, text in ({NETWORK_MANAGER: ""} if files is None else files).items():
        kernel.tree.add_file(path, text)
    return kernel


def rule(kernel: Kernel) -> str:
    return kernel.read(RULES).splitlines()[1] if kernel.exists(RULES) else ""


def taken(kernel: Kernel, name: str, index: int) -> None:
    """Let NetworkManager tell that it manages an interface."""
    kernel.tree.add_file(f"/sys/class/net/{name}/ifindex", f"{index}\n")
    kernel.tree.add_file(f"/run/NetworkManager/devices/{index}", "[device]\nmanaged=true\n")


@pytest.mark.parametrize("files", [None, BY_PATTERN], ids=["NetworkManager", "networkd, by a pattern"])
def test_the_rule_is_there_before_the_functions_and_a_second_run_writes_nothing(files: Any) -> None:
    kernel = managed(booted(), files)
    outcome = applied(kernel, WISH, APPLY)
    assert not outcome.get("failed"), outcome["msg"]
    changed = igb.what_changed(kernel)
    written = next(place for place, line in enumerate(changed) if RULES in line)
    assert written < next(place for place, line in enumerate(changed) if "sriov_numvfs" in line)
    assert rule(kernel) == (
        'SUBSYSTEM=="net", ACTION!="remove", TEST=="device/physfn", '
        f'PROGRAM=="/usr/bin/readlink $sys$devpath/device/physfn", RESULT=="*/{PF}", '
        'ENV{NM_UNMANAGED}="1", ENV{ID_NET_MANAGED_BY}="rdma.fabric"'
    )
    kernel.revive()
    assert (applied(kernel, WISH, APPLY)["plan"]["steps"], kernel.mutations) == ([], [])


@pytest.mark.parametrize(
    "files",
    [{}, {NETWORKD: "", NETWORK: "[Match]\nName=enp2s0\n[Network]\nDHCP=yes\n"}],
    ids=["nobody", "networkd, by names"],
)
def test_where_nobody_would_take_them_there_is_no_rule(files: dict[str, str]) -> None:
    kernel = managed(booted(), files)
    applied(kernel, WISH, APPLY)
    assert (len(igb.functions(kernel)), rule(kernel)) == (2, "")


def test_ports_share_one_rule_which_starts_one_program_for_each_function() -> None:
    kernel = managed(booted())
    applied(kernel, wish({"pci": OTHER, "vfs": 1}, {"pci": PF, "vfs": 2}), APPLY)
    assert f'RESULT=="*/{PF}|*/{OTHER}"' in rule(kernel)
    assert rule(kernel).count("PROGRAM") == 1


def test_functions_that_the_host_uses_itself_stay_with_their_manager() -> None:
    kernel = managed(with_functions(3))
    names = igb.functions(kernel)
    profile = f"[connection]\ninterface-name={names[VF1]}\n"
    kernel.tree.add_file("/etc/NetworkManager/system-connections/storage.nmconnection", profile)
    applied(kernel, wish({"pci": PF, "vfs": 3}, {"pci": VF0, "mtu": 1400}), APPLY)
    assert f'DEVPATH!="*/{VF0}/net/*|*/{VF1}/net/*"' in rule(kernel)


def test_functions_that_a_manager_has_already_are_named_until_the_next_boot() -> None:
    kernel = managed(with_functions(7))
    for index, name in enumerate(igb.functions(kernel).values(), 20):
        taken(kernel, name, index)
    step = mlx5.the_step(preview(kernel, wish({"pci": PF, "vfs": 7}), replace(APPLY, check=True), None), STEP)
    assert step["interrupts"].endswith("enp1s0f0v4 and 2 more, from the next boot on")
    (said,) = preview(kernel, wish({"pci": PF, "vfs": 7}), replace(APPLY, check=True), None)["plan"]["notices"]
    assert "enp1s0f0v4 and 2 more: a network manager has taken these VFs" in said
    assert "nmcli device set NAME managed no" in remedy_of(said, {})


def test_what_nothing_asks_for_any_more_goes() -> None:
    kernel = managed(booted())
    applied(kernel, WISH, APPLY)
    applied(kernel, wish({"pci": PF, "mtu": 1500}), APPLY)
    assert rule(kernel) == ""


def test_a_removal_takes_it_with_the_functions() -> None:
    kernel = managed(booted())
    applied(kernel, WISH, APPLY)
    outcome = applied(kernel, wish(**igb.ALLOWED), REMOVE)
    assert not outcome.get("failed"), outcome["msg"]
    assert (igb.functions(kernel), rule(kernel)) == ({}, "")


def test_every_disturbed_write_is_made_good_by_the_next_run() -> None:
    def start() -> Kernel:
        return managed(booted())

    assert sweep(start, lambda kernel: applied(kernel, WISH, APPLY)) >= 2
