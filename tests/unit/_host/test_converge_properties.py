# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is asked of a host, and whatever after it: the shown plan is the executed one, line for line, it comes to
rest, and a removal brings everything back."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of, some_of
from ansible_collections.rdma.fabric.tests.unit._host import full_hosts
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import settled
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import LOSSLESS

CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
HOSTS = ("egx-01", "roce-h100-01", "dgx-h100-02", "vm-vf-01", "cpu-01")
REPEATABLE = settings(max_examples=25, derandomize=True, database=None)


@lru_cache(maxsize=None)
def ports(name: str) -> list[tuple[str, str]]:
    """The PCI address and link layer of every interface of a recorded host."""
    facts = gather(Kernel(FLEET[name]().document()))
    return [(nic["address"], nic["link_layer"] or "") for nic in facts["nics"] if nic["netdevs"]]


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


@pytest.mark.slow
@given(wishes())
@REPEATABLE
def test_what_is_shown_is_what_is_done_and_then_there_is_nothing_left_to_do(asked: tuple[str, dict[str, Any]]) -> None:
    name, wish = asked
    kernel, desired = Kernel(FLEET[name]().document()), check_spec(wish)
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


# What an entry for a ConnectX-7 may hold; functions in user space are left to their tests, as they have users.
CHOICES: dict[str, list[Any]] = {
    "name": ["rail0", "rail1"],
    "rdma_name": ["mlx5_rail0", "mlx5_rail1"],
    "mtu": [1500, 4200, 9000],
    "state": ["up", "down"],
    "vfs": [0, 1, 3, 4],
    "vf_settings": [{"mac": "deterministic"}, {"mac": "deterministic", "link_state": "enable"}, {"max_tx_rate": 100}],
    "eswitch_mode": ["legacy"],
    "queues": [{"rx_ring": 4096}, {"channels": 16}, {"rx_ring": 2048, "channels": 8}],
    "irq_affinity": ["local_node", "4-7,12"],
    "qos": [LOSSLESS, {"pfc": [3]}, {"trust": "dscp"}, False],
}
OF_HOST: dict[str, list[Any]] = {
    "kernel_modules": [["ib_umad"], ["ib_umad", "rdma_ucm"]],
    "kernel_arguments": [["iommu=pt"], ["iommu=pt", "pci=realloc"]],
    "sysctls": [{"net.core.rmem_max": "33554432"}, {"net.core.rmem_max": "1048576"}],
    "limits": [{"memlock": "unlimited"}, {"memlock": 65536, "nofile": 65536}],
    "hugepages": [{"2Mi": 8}, {"1Gi": {"0": 1}}],
    "pcie": [{"max_read_request": 4096}],
}
# Directories of drivers that were loaded, and what a driver remembers of functions and ports that are gone.
NO_TRACE = ("/sys/bus/pci/drivers", "/sys/kernel/iommu_groups", "/sys/module/", "/proc/modules", "/stand-in/")


def drawn(dice: random.Random, choices: dict[str, list[Any]]) -> Any:
    return {key: dice.choice(choices[key]) for key in choices if dice.random() < 0.4}


def wishes_in_turn(seed: int) -> Iterator[dict[str, Any]]:
    """What is asked of one host in up to three runs, one after the other."""
    dice = random.Random(seed)  # noqa: S311 - the same wishes in every run, no secret
    for _run in range(dice.randint(1, 3)):
        entry = {"pci": PF, **drawn(dice, CHOICES)}
        consents = {"vf_reset": True, "uplink_change": dice.random() < 0.5}
        yield {"interfaces": [entry], "consents": consents, **drawn(dice, OF_HOST)}


def left_traces(kernel: Kernel) -> Any:
    return {
        kind: {path: value for path, value in entries.items() if not path.startswith(NO_TRACE)}
        for kind, entries in settled(kernel).items()
    }


@pytest.mark.parametrize("seed", first_of(some_of(range(60), 15)))
def test_whatever_was_asked_for_in_turn_a_removal_brings_everything_back(seed: int) -> None:
    kernel = full_hosts.HOSTS["mlx5"].host()
    before = left_traces(kernel)
    for wish in wishes_in_turn(seed):
        desired = check_spec(wish)
        shown = preview(kernel, desired, CHECK, None)
        assert kernel.mutations == []
        done = apply(kernel, desired, APPLY, None, kernel)
        assert "failed_step" not in done, done["msg"]
        printed = shown.get("diff", {"prepared": ""})["prepared"].splitlines()
        assert [step["line"] for step in done["executed"]] == [line for line in printed if line.startswith("planned: ")]
        kernel.revive()
        assert (apply(kernel, desired, APPLY, None, kernel)["changed"], kernel.mutations) == (False, [])
    removed = apply(kernel, check_spec({"consents": {"vf_reset": True}}), REMOVE, None, kernel)
    assert not removed.get("failed"), removed["msg"]
    assert left_traces(kernel) == before
