# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan stands on is worked out once for each reading of the host: devices, names, representors, ownership."""

from __future__ import annotations

from collections import Counter
from functools import partial
from types import FrameType
from typing import Any, Callable

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.losses import kept_routes
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persistence import persistence
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.names import Names
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.representors import Representors
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.routing.reach import kept_keys
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import read_host
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.ini import settings
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import match_interfaces, match_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.names import read_references
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, check_spec
from ansible_collections.rdma.fabric.tests.unit._host import large_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit.profiled import profiled

RAILS = 8
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
ONCE: dict[Any, str] = {
    read_host.__code__: "readings",
    match_interfaces.__code__: "matched",
    Names.__init__.__code__: "names",
    Representors.__init__.__code__: "representors",
    persistence.__code__: "ownership",
    kept_routes.__code__: "ownership of routes",
    kept_keys.__code__: "routes in files",
}


def counted(run: Callable[[], Any], named: dict[Any, str] = ONCE) -> Counter[str]:
    """Return how often a run works each of these out."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code in named:
            found[named[frame.f_code]] += 1

    with profiled(count):
        run()
    return found


def wish() -> HostSpec:
    entries = [
        {
            "pci": large_host.address(rail),
            "name": f"rail{rail}",
            "mtu": 9000,
            "vfs": 2,
            "queues": {"channels": 8},
            "representor_prefix": f"rail{rail}v",
            "routes": [{"to": "default", "via": f"10.1.{rail}.1", "table": 100 + rail}],
        }
        for rail in range(RAILS)
    ]
    return check_spec({"interfaces": entries})


def test_each_reading_of_the_host_works_them_out_once() -> None:
    kernel, desired = large_host.booted(RAILS), wish()
    looked = counted(lambda: preview(kernel, desired, CHECK, None))
    assert looked == dict.fromkeys(ONCE.values(), 1)
    # A run that changes the host reads it again, to tell what is left.
    changed = counted(lambda: apply(kernel, desired, APPLY, None, kernel))
    assert kernel.mutations
    assert changed == dict.fromkeys(ONCE.values(), 2)
    kernel.revive()
    assert counted(lambda: apply(kernel, desired, APPLY, None, kernel)) == dict.fromkeys(ONCE.values(), 1)


def test_files_of_network_managers_are_taken_apart_once_however_many_names_the_host_has() -> None:
    probe = Probe(large_host.booted(RAILS))
    counts = [
        counted(partial(read_references, probe, names), {settings.__code__: "files"})["files"]
        for names in (["rail0"], [f"rail0v{number}" for number in range(100)])
    ]
    assert counts[0] == counts[1] > 0


def test_devices_matched_while_the_host_is_read_are_those_of_its_facts() -> None:
    kernel: Kernel = large_host.booted(RAILS)
    facts, matched = read_host(kernel, desired=wish())
    assert matched == match_spec(wish(), HostState(facts))
    assert len(matched.interfaces) == RAILS
