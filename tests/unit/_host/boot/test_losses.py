# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a dropped key, a dropped entry or a removal takes away with the next boot is planned, and asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.boot.test_boot_functions import rebooted
from ansible_collections.rdma.fabric.tests.unit._host.igb import ALLOWED, PF, VF0, booted, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

APPLY = replace(igb.APPLY, concerns=ORDER)
REMOVE = replace(igb.REMOVE, concerns=ORDER)
ASKED: dict[str, Any] = {"pci": PF, "vfs": 2, "mtu": 9000, "state": "up", "vf_settings": {"trust": True}}
NOTHING: list[dict[str, Any]] = []


def prepared() -> Kernel:
    kernel = booted()
    done(kernel, wish(ASKED))
    return kernel


def done(kernel: Kernel, desired: HostSpec, run: Any = APPLY) -> Mapping[str, Any]:
    outcome = igb.applied(kernel, desired, run)
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return outcome


def lines(kernel: Kernel, *entries: dict[str, Any], **variables: Any) -> dict[str, str]:
    plan = preview(kernel, wish(*entries, **variables), replace(igb.CHECK, concerns=ORDER), None)["plan"]
    return {step["id"]: describe(step) for step in plan["steps"]}


def kept(kernel: Kernel) -> list[dict[str, Any]]:
    if not kernel.exists(BOOT_SPEC_FILE):
        return []
    found: list[dict[str, Any]] = json.loads(kernel.read(BOOT_SPEC_FILE))["interfaces"]
    return found


@pytest.mark.parametrize("entries", [[{"pci": PF}], NOTHING])
def test_what_nothing_asks_for_any_more_is_a_step_with_what_goes(entries: list[dict[str, Any]]) -> None:
    found = lines(prepared(), *entries)
    assert list(found) == [f"boot:{UNIT_FILE}", *(f"boot:{PF}:{key}" for key in ("mtu", "state", "vfs"))]
    assert found[f"boot:{PF}:vfs"] == (
        f"needs consent: boot {PF} (enp1s0f0): drop the VFs at the next boot [boot; interrupts its 2 "
        f"VFs, which no boot creates any longer: {VF0}, 0000:01:10.2, from the next boot on] allow it "
        "with rdma_fabric_allow_vf_reset: true"
    )
    of_mtu = "interrupts its MTU of 9000, which returns to the driver's default (Ethernet: 1500)"
    assert of_mtu in found[f"boot:{PF}:mtu"]


@pytest.mark.parametrize("entries", [[{"pci": PF}], NOTHING])
def test_functions_come_back_at_boot_until_their_loss_is_allowed(entries: list[dict[str, Any]]) -> None:
    kernel = prepared()
    done(kernel, wish(*entries))
    (left,) = kept(kernel)
    assert (left["pci"], left["vfs"], left["vf_settings"]["trust"], "mtu" in left) == (PF, 2, True, False)
    assert list(lines(kernel, *entries)) == [f"boot:{PF}:vfs"]
    fresh = rebooted(kernel)
    start(fresh, fresh)
    assert fresh.exists(f"/sys/bus/pci/devices/{VF0}")

    done(kernel, wish(*entries, **ALLOWED))
    assert (kept(kernel), kernel.exists(UNIT_FILE), lines(kernel, *entries)) == ([], False, {})
    assert kernel.exists(f"/sys/bus/pci/devices/{VF0}")


def test_functions_keep_the_mtu_of_their_port_until_they_go() -> None:
    kernel = booted()
    done(kernel, wish({**ASKED, "vf_mtu": 9000}))
    done(kernel, wish())
    (left,) = kept(kernel)
    assert (left["mtu"], left["vf_mtu"], left["vfs"]) == (9000, 9000, 2)
    assert list(lines(kernel)) == [f"boot:{PF}:mtu", f"boot:{PF}:vfs"]
    done(kernel, wish(**ALLOWED))
    assert (kept(kernel), lines(kernel)) == ([], {})


def test_a_function_that_stays_keeps_what_its_own_entry_asked_for() -> None:
    kernel = prepared()
    done(kernel, wish(ASKED, {"pci": VF0, "mtu": 4200}))
    done(kernel, wish())
    port, function = kept(kernel)
    assert (port["pci"], port["vfs"], function["pci"], function["mtu"]) == (PF, 2, VF0, 4200)
    done(kernel, wish(**ALLOWED))
    assert kept(kernel) == []


def test_another_number_that_waits_for_its_consent_loses_nothing() -> None:
    kernel = prepared()
    found = lines(kernel, {**ASKED, "vfs": 4})
    assert list(found) == [f"vfs:{PF}"]


def test_what_is_not_there_any_more_is_not_lost() -> None:
    kernel = prepared()
    kernel.set_attribute(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", "0", 30.0)
    kernel.revive()
    assert f"boot:{PF}:vfs" not in lines(kernel)


def test_a_removal_leaves_the_boot_unit_what_it_may_not_take_away() -> None:
    kernel = prepared()
    outcome = done(kernel, wish(), replace(REMOVE, strict=False))
    assert [step["id"] for step in outcome["plan"]["steps"] if step["consent"]] == [f"vfs:{PF}"]
    assert [wish["vfs"] for wish in kept(kernel)] == [2]
    fresh = rebooted(kernel)
    start(fresh, fresh)
    assert fresh.exists(f"/sys/bus/pci/devices/{VF0}")
    done(kernel, wish(**ALLOWED), REMOVE)
    assert not kernel.exists(f"/sys/bus/pci/devices/{VF0}")
    assert not [path for path in kernel.tree.files if "rdma-fabric" in path and not path.startswith("/run/")]


@pytest.mark.parametrize("variables", first_of([{}, ALLOWED]))
def test_whatever_disturbs_the_run_the_next_one_gets_there(variables: dict[str, Any]) -> None:
    assert sweep(prepared, lambda kernel: igb.applied(kernel, wish(**variables), APPLY)) > 2
