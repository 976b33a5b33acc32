# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is asked of a host, and whatever after it: the shown plan is the executed one, line for line, it comes to
rest, and a removal brings everything back."""

from __future__ import annotations

import contextlib
import random
import traceback
from functools import lru_cache
from typing import Any, Callable, Iterator, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import PCI
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.baseline import read_kept
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import smallest, some_of
from ansible_collections.rdma.fabric.tests.unit._host import full_hosts
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
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
    "vf_mtu": [1400, 1500],
    "eswitch_mode": ["legacy", "switchdev"],
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


# What is done to a host between two days, or while a run changes it.
CALM, KILLED, LOST, FOREIGN, UNPLUGGED = "calm", "killed", "lost", "foreign", "unplugged"
DISTURBANCES = (CALM, KILLED, LOST, FOREIGN, UNPLUGGED)
FIRST_DISTURBED = 60
MAINTAINED = {"consents": {"vf_reset": True}}


class Day(NamedTuple):
    """What happens to the host, with the seed of what it hits, and what is asked of it."""

    how: str
    seed: int
    wish: dict[str, Any]


def drawn(dice: random.Random, choices: dict[str, list[Any]]) -> Any:
    return {key: dice.choice(choices[key]) for key in choices if dice.random() < 0.4}


def wishes_in_turn(dice: random.Random) -> Iterator[dict[str, Any]]:
    """What is asked of one host in up to three runs, one after the other."""
    for _run in range(dice.randint(1, 3)):
        entry = {"pci": PF, **drawn(dice, CHOICES)}
        if entry.get("vf_mtu", 0) > entry.get("mtu", 9000):
            del entry["vf_mtu"]
        consents = {"vf_reset": True, "uplink_change": dice.random() < 0.5}
        yield {"interfaces": [entry], "consents": consents, **drawn(dice, OF_HOST)}


def left_traces(kernel: Kernel) -> Any:
    return {
        kind: {path: value for path, value in entries.items() if not path.startswith(NO_TRACE)}
        for kind, entries in settled(kernel).items()
    }


def brought(kernel: Kernel, desired: Any) -> None:
    """Apply on a calm day: what is shown is what is done, and a second run changes nothing.

    What a step makes a port forget is done after all that is shown, and a notice says which settings.
    """
    shown = preview(kernel, desired, CHECK, None)
    assert kernel.mutations == []
    done = apply(kernel, desired, APPLY, None, kernel)
    assert "failed_step" not in done, done["msg"]
    printed = shown.get("diff", {"prepared": ""})["prepared"].splitlines()
    planned = [line for line in printed if line.startswith("planned: ")]
    executed = [step["line"] for step in done["executed"]]
    assert executed[: len(planned)] == planned
    announced = [line for line in printed if " set again after the change of its e-switch mode" in line]
    for line in executed[len(planned) :]:
        assert line in planned or (line.startswith("planned: queues ") and announced), line
    kernel.revive()
    assert (apply(kernel, desired, APPLY, None, kernel)["changed"], kernel.mutations) == (False, [])


def unplugged(kernel: Kernel) -> Callable[[], None]:
    """Take the card with its functions out of the host, and return how it is put back as it was."""
    there = kernel.tree
    slot = f"/{PF[:-1]}"
    away = kernel.tree = there.twin()
    links = [path for path, target in there.links.items() if slot in path or slot in there.resolve(path)]
    for path in [*links, *(path for path in there.dirs if f"{path}/".count(slot) and path.startswith("/sys/devices/"))]:
        away.discard(path)

    def plug_in() -> None:
        tree = kernel.tree
        for path in sorted(there.dirs - away_dirs):
            tree.add_dir(path)
        for path, content in there.files.items():
            if path not in away_files:
                tree.add_file(path, content)
        for path in links:
            tree.add_link(path, there.links[path])
        tree.errors.update(there.errors)

    away_files, away_dirs = set(away.files), set(away.dirs)
    return plug_in


def disturbed(kernel: Kernel, desired: Any, how: str, seed: int) -> None:
    """Apply while, or after, something happens to the host that no run expects."""
    dice = random.Random(seed)  # noqa: S311 - the same in every run, no secret
    if how == KILLED:
        calm = kernel.twin()
        apply(calm, desired, APPLY, None, calm)
        if calm.mutations:
            kernel.disturb(dice.randrange(len(calm.mutations)), KILL)
    if how == LOST:
        # Without the file that lists our kernel arguments nobody knows whose those in grub.cfg are.
        ours = [path for path in kernel.tree.files if path.startswith("/etc/") and "rdma-fabric" in path]
        ours = sorted(path for path in ours if not path.startswith("/etc/default/grub.d/"))
        for path in dice.sample(ours, min(len(ours), 2)):
            kernel.tree.discard(path)
    if how == FOREIGN:
        # What no run has changed is not ours to bring back.
        first: Any = read_kept(kernel).settings
        port = next(name for name in kernel.list(f"{PCI}/{PF}/net") if kernel.exists(f"/sys/class/net/{name}/ecn"))
        if f"mtu:{PF}" in first:
            kernel.run(("ip", "link", "set", "dev", port, "mtu", str(dice.choice([1280, 2000]))), 1.0)
        if "rx_ring" in first.get(f"queues:{PF}", {}):
            kernel.run(("ethtool", "-G", port, "rx", str(dice.choice([512, 8192]))), 1.0)
    plug_in = unplugged(kernel) if how == UNPLUGGED else lambda: None
    with contextlib.suppress(Killed):
        outcome = apply(kernel, desired, APPLY, None, kernel)
        assert "Traceback" not in outcome["msg"] and "internal error" not in outcome["msg"], outcome["msg"]
    plug_in()


FIRST = [*some_of(range(FIRST_DISTURBED), 15), *range(FIRST_DISTURBED, FIRST_DISTURBED + 20)]
FURTHER = [seed for seed in some_of(range(FIRST_DISTURBED, 3000), 300) if seed not in FIRST]


@pytest.mark.parametrize("seed", [*FIRST, *(pytest.param(seed, marks=pytest.mark.slow) for seed in FURTHER)])
def test_whatever_was_asked_for_in_turn_a_removal_brings_everything_back(seed: int) -> None:
    days, said = smallest(days_of(seed), smaller, what_is_left)
    assert not said, f"{said}, after {days}"


def days_of(seed: int) -> list[Day]:
    dice = random.Random(seed)  # noqa: S311 - the same days in every run, no secret
    hows = DISTURBANCES if seed >= FIRST_DISTURBED else (CALM,)
    return [Day(dice.choice(hows), dice.randrange(2**32), wish) for wish in wishes_in_turn(dice)]


def smaller(days: list[Day]) -> Iterator[list[Day]]:
    """Yield the days without one of them, with a calm one, and without one key of what is asked."""
    for number, day in enumerate(days):
        before, after = days[:number], days[number + 1 :]
        yield [*before, *after]
        others = [day._replace(how=CALM)] if day.how != CALM else []
        (entry,) = day.wish["interfaces"]
        for key in [key for key in entry if key != "pci"]:
            others.append(day._replace(wish={**day.wish, "interfaces": [without(entry, key)]}))
        others += [day._replace(wish=without(day.wish, key)) for key in day.wish if key in OF_HOST]
        yield from ([*before, other, *after] for other in others)


def without(wish: dict[str, Any], key: str) -> dict[str, Any]:
    return {each: value for each, value in wish.items() if each != key}


def what_is_left(days: list[Day]) -> str:
    """Return what a removal after these days leaves, or what went wrong before; "" where all is as it was."""
    kernel = full_hosts.HOSTS["mlx5"].host()
    before = left_traces(kernel)
    try:
        for how, seed, wish in days:
            if how == CALM:
                brought(kernel, check_spec(wish))
            else:
                disturbed(kernel, check_spec(wish), how, seed)
            kernel.revive()
        removed = apply(kernel, check_spec(MAINTAINED), REMOVE, None, kernel)
    except Exception:  # it is said for the smallest case
        return traceback.format_exc()
    if removed.get("failed"):
        return str(removed["msg"])
    after = left_traces(kernel)
    left = {path for kind in before for path, _value in before[kind].items() ^ after[kind].items()}
    return f"{sorted(left)} are not as before" if left else ""
