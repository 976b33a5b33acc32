# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel module that the host's kernel does not have is refused by name; what a host does not tell stays planned."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import check_desired
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods.files import LOAD_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import Run
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False, strict=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
NOT_FOUND = "modinfo: ERROR: Module ib_umd not found.\n"


def host(answer: dict[str, Any] | None, listed: str | None = None) -> Kernel:
    """Return a host whose modinfo gives ``answer`` about the modules ib_umd and rdma_ucm; None: it has no modinfo."""
    document = FLEET["egx-01"]().document()
    release = document["files"]["/proc/sys/kernel/osrelease"].strip()
    if answer is not None:
        for names in ("ib_umd", "ib_umd rdma_ucm"):
            document["commands"][f"modinfo -k {release} {names}"] = answer
    if listed is not None:
        document["files"][LOAD_FILE] = listed
    return Kernel(document)


def run(kernel: Kernel, **wish: Any) -> dict[str, Any]:
    return apply(kernel, check_desired({"kernel_modules": ["rdma_ucm", "ib-umd"], **wish}), APPLY, None, kernel)


def answer(stderr: str, status: int = 1) -> dict[str, Any]:
    return {"rc": status, "stdout": "filename: /lib/modules/x/rdma_ucm.ko\n", "stderr": stderr}


def test_a_misspelt_name_is_refused_and_the_others_are_loaded() -> None:
    kernel = host(answer(NOT_FOUND))
    outcome = run(kernel)
    assert [step["id"] for step in outcome["executed"]] == ["modules:rdma_ucm"]
    (left,) = outcome["plan"]["steps"]
    assert (left["id"], left["status"]) == ("modules:ib_umd", "refused")
    assert "has no module of this name (modinfo); next: correct the name" in left["detail"]
    assert "ib_umd" not in kernel.read(LOAD_FILE)
    kernel.revive()
    assert not run(kernel)["changed"]
    assert kernel.mutations == []


@pytest.mark.parametrize("told", [None, answer("modinfo: ERROR: could not read the index\n"), answer("", 0)])
def test_what_a_host_does_not_tell_stays_planned(told: dict[str, Any] | None) -> None:
    assert {step["id"] for step in run(host(told))["executed"]} >= {"modules:ib_umd", "modules:rdma_ucm"}


def test_what_a_driver_may_bring_is_not_refused() -> None:
    kernel = host(answer(NOT_FOUND))
    wish = check_desired({"kernel_modules": ["rdma_ucm", "ib-umd"], "driver": {"flavour": "inbox"}})
    plan = preview(kernel, wish, CHECK, None)["plan"]
    assert {step["status"] for step in plan["steps"] if step["id"] == "modules:ib_umd"} == {"planned"}


def test_a_name_that_another_kernel_had_stays_in_the_file_of_the_boot() -> None:
    first = host(None)
    run(first)
    text = first.read(LOAD_FILE)
    kernel = host(answer(NOT_FOUND), listed=text)
    outcome = run(kernel)
    assert [step["status"] for step in outcome["plan"]["steps"]] == ["refused"]
    assert kernel.read(LOAD_FILE) == text
