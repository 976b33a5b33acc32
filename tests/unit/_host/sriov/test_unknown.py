# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can't be read is not zero: functions are not destroyed because a file is unreadable, strange or gone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import (
    UNKNOWN,
    enabled_functions,
    seen_functions,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import PCI
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import nic
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    PF,
    VF0,
    applied,
    functions,
    previewed,
    wish,
    with_functions,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.vfs import SETTINGS
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

EIO, STRANGE, GONE = "EIO", "strange", "gone"


def spoilt(how: str, path: str) -> Kernel:
    """A host with two functions, and one file of it spoilt."""
    kernel = with_functions(2)
    kernel.revive()
    if how == EIO:
        kernel.tree.errors[kernel.tree.resolve(path)] = "EIO"
    elif how == STRANGE:
        kernel.tree.files[kernel.tree.resolve(path)] = b"strange\n"
    else:
        kernel.tree.discard(kernel.tree.resolve(path))
    return kernel


def about_number(outcome: Any) -> list[tuple[str, str]]:
    steps = outcome["plan"]["steps"]
    return [(step["status"], step["detail"]) for step in steps if step["id"] == f"vfs:{PF}"]


@pytest.mark.parametrize("how", [EIO, STRANGE, GONE])
@pytest.mark.parametrize("wanted", [0, 4])
def test_a_number_that_is_not_known_is_not_changed(how: str, wanted: int) -> None:
    kernel = spoilt(how, f"{PCI}/{PF}/sriov_numvfs")
    outcome = applied(kernel, wish({"pci": PF, "vfs": wanted}, rdma_fabric_allow_vf_reset=True))
    ((status, detail),) = about_number(outcome)
    writes = [change for change in kernel.mutations if "sriov_numvfs" in change.what]
    assert (status, outcome["failed"], writes) == ("refused", True, [])
    assert "sriov_numvfs can't be read" in detail and "next: " in detail
    assert about_number(previewed(kernel, wish({"pci": PF, "vfs": 2}))) == []


def test_whichever_file_of_a_port_is_gone_its_functions_are_not_destroyed_without_consent() -> None:
    whole = with_functions(2)
    place = whole.realpath(f"{PCI}/{PF}")
    paths = sorted(
        path for path in whole.tree.files if path.startswith(f"{place}/") and not path.endswith(f"/{SETTINGS}")
    )
    assert len(paths) > 15
    none_of(
        f"{path}: a new number is {status} without consent"
        for path in paths
        for status, _detail in about_number(previewed(spoilt(GONE, path), wish({"pci": PF, "vfs": 4})))
        if status not in ("needs_consent", "refused")
    )


def test_a_link_that_nobody_can_tell_counts_as_up() -> None:
    kernel = spoilt(GONE, f"/sys/class/net/{functions(with_functions(2))[VF0]}/flags")
    desired = wish({"pci": PF, "vfs": 2, "vf_settings": {"mac": "deterministic"}})
    (step,) = [step for step in previewed(kernel, desired)["plan"]["steps"] if step["id"] == f"vfs:{PF}:settings"]
    assert step["status"] == "needs_consent"


def test_an_unknown_number_is_neither_true_nor_false() -> None:
    port = nic(PF, "ens1", sriov={"enabled": None, "total": 7, "vfs": ["0000:01:10.0"]})
    assert (enabled_functions(port), seen_functions(port), enabled_functions(None)) == (UNKNOWN, 1, 0)
    for takes in (bool, lambda unknown: unknown or 0, lambda unknown: not unknown):
        with pytest.raises(TypeError, match="not known"):
            takes(enabled_functions(port))
