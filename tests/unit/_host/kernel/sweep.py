# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The standard test of a concern: after any disturbance the next run ends where an undisturbed one does.

Every mutation is killed once and fails once, with the errors in turn; ``RDMA_FABRIC_SWEEPS=whole`` in the environment
has each fail with every error.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ansible_collections.rdma.fabric.tests.sweeps import whole
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed

ERRORS = ("EIO", "ENOSPC", "EROFS", "EBUSY")

# Where stand-ins for programs keep what real ones have in memory.
MEMORY = "/run/"

Start = Callable[[], Kernel]
Run = Callable[[Kernel], Mapping[str, Any]]


def settled(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """Return the files and links of a host once all late events have happened. An empty directory means nothing."""
    state = kernel.state()
    return {
        kind: {path: value for path, value in state[kind].items() if not path.startswith(MEMORY)}
        for kind in ("files", "links")
    }


def changed_devices(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the files of devices that differ between two states of a host."""
    files = before["files"], after["files"]
    paths = (path for path in {**files[0], **files[1]} if path.startswith("/sys/devices"))
    return sorted(path for path in paths if files[0].get(path) != files[1].get(path))


def sweep(start: Start, run: Run, errors: tuple[str, ...] = ERRORS) -> int:
    """Disturb every mutation of ``run`` and return how many mutations an undisturbed run has.

    ``start`` returns the host in its state before, ``run`` applies to it and returns the outcome: ``failed`` is only
    set when a step failed, and then ``msg`` says what, where, why, and what to do.
    """
    begun = start()
    calm = begun.twin()
    outcome = run(calm)
    assert not outcome.get("failed"), outcome["msg"]
    count, wanted = len(calm.mutations), settled(calm)
    calm.revive()
    assert not run(calm).get("failed")
    assert calm.mutations == [], "a second run changes something"
    assert settled(calm) == wanted
    for number in range(count):
        for fault in faults(number, errors):
            _disturbed(begun.twin(), run, number, fault, wanted)
    return count


def faults(number: int, errors: tuple[str, ...]) -> tuple[str, ...]:
    """Return how the mutation with this number is disturbed."""
    return (*(errors if whole() else errors[number % len(errors) :][:1]), KILL)


def _disturbed(kernel: Kernel, run: Run, number: int, fault: str, wanted: Any) -> None:
    kernel.disturb(number, fault)
    try:
        outcome = run(kernel)
    except Killed:
        assert fault == KILL
    else:
        where = f"{fault} at mutation {number} ({kernel.mutations[number]})"
        assert fault != KILL, where
        if not outcome.get("failed"):
            assert settled(kernel) == wanted, f"{where} was passed over in silence"
        else:
            assert "Traceback" not in outcome["msg"], where
            assert "next:" in outcome["msg"], f"{where}: no next step in: {outcome['msg']}"
    kernel.revive()
    again = run(kernel)
    assert not again.get("failed"), f"after {fault} at mutation {number}: {again.get('msg')}"
    assert settled(kernel) == wanted, f"after {fault} at mutation {number}"
