# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is asked of a recorded host: the shown plan is the executed one, line for line, and it comes to rest."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._host.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import check_desired
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import Run
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
HOSTS = ("egx-01", "roce-h100-01", "dgx-h100-02", "vm-vf-01", "cpu-01")
REPEATABLE = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@lru_cache(maxsize=None)
def ports(name: str) -> list[tuple[str, str]]:
    """The PCI address and link layer of every interface of a recorded host."""
    facts = gather(Kernel(FLEET[name]().document()))
    return [(nic["address"], nic["link_layer"]) for nic in facts["nics"] if nic["netdevs"]]


@st.composite
def wishes(draw: Any) -> tuple[str, dict[str, Any]]:
    """A recorded host and what is asked of it, the uplinks included."""
    name = draw(st.sampled_from(HOSTS))
    interfaces = []
    for address, layer in draw(st.lists(st.sampled_from(ports(name)), max_size=4, unique=True)):
        mtus = [None, 1500, 4200, 9000] if layer == "Ethernet" else [None, 2044, 4092]
        entry = {
            "pci": address,
            "mtu": draw(st.sampled_from(mtus)),
            "state": draw(st.sampled_from([None, "up", "down"])),
        }
        interfaces.append({key: value for key, value in entry.items() if value is not None})
    modules = draw(st.lists(st.sampled_from(["ib_umad", "rdma_ucm", "nvme-rdma"]), unique=True))
    consents = {"uplink_change": draw(st.booleans())}
    return name, {"interfaces": interfaces, "kernel_modules": modules, "consents": consents}


@given(wishes())
@REPEATABLE
def test_what_is_shown_is_what_is_done_and_then_there_is_nothing_left_to_do(asked: tuple[str, dict[str, Any]]) -> None:
    name, wish = asked
    kernel, desired = Kernel(FLEET[name]().document()), check_desired(wish)
    shown = preview(kernel, desired, CHECK, None)
    assert kernel.mutations == []
    done = apply(kernel, desired, APPLY, None, kernel)
    assert "failed_step" not in done, done["msg"]
    assert done.get("diff") == shown.get("diff")
    printed = shown.get("diff", {"prepared": ""})["prepared"].splitlines()
    assert [step["line"] for step in done["executed"]] == [line for line in printed if line.startswith("planned: ")]
    assert (done["changed"], done["summary"]["planned"]) == (shown["changed"], 0)
    kernel.revive()
    again = apply(kernel, desired, APPLY, None, kernel)
    assert (again["changed"], kernel.mutations) == (False, [])
