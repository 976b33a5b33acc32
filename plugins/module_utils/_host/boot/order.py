# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks whether the boot unit fits into the order of the host's units, before it is enabled.

Where units wait for one another in a cycle, systemd leaves one of them out at boot: ours, the network or the kubelet.
``systemd-analyze verify`` makes the jobs of a boot without running them, and tells cycles. The unit comes first: it is
not enabled yet, so the boot's own target does not bring it.
"""

from __future__ import annotations

import re
from typing import Sequence

from ..engine.failures import Fault
from ..engine.operations import Found, Operation
from ..machine.access import Host, HostError
from ..machine.paths import UNIT, UNIT_FILE

VERIFY = ("systemd-analyze", "verify", "--man=no", UNIT_FILE, "default.target")
SECONDS = 60.0
_STARTS, _GOES_ON = "Found ordering cycle", "Found dependency on"
_UNIT_NAME = re.compile(r"([^\s/]+?\.[a-z]+)(?:/[a-z-]+\b|: )")


def cycle_with(unit: str, text: str) -> list[str]:
    """Return the units of the first cycle that ``unit`` is in, of what ``systemd-analyze verify`` prints; else none.

    A cycle begins with a line of its own, and others of it follow. Those that ``unit`` has no part in are the host's.
    """
    found: list[list[str]] = []
    for line in text.splitlines():
        if _STARTS in line:
            found.append([])
        if found and (_STARTS in line or _GOES_ON in line):
            found[-1] += [name for name in _UNIT_NAME.findall(line) if name not in found[-1]]
    return next((names for names in found if unit in names), [])


def _refuse_cycle(host: Host) -> Sequence[Operation]:
    try:
        text = host.run(VERIFY, SECONDS).stderr
    except HostError:
        # A host without the program, or on which it takes too long, is not judged.
        return ()
    names = cycle_with(UNIT, text)
    if names:
        raise Fault(
            f"{', '.join(names)} would be in an ordering cycle at boot, which systemd breaks by leaving one out; next: "
            f"see their Before= and After= (systemctl cat), take one away that is not of {UNIT}, and run again"
        )
    return ()


FITS = Found("fit the boot unit into the order of the host's units", _refuse_cycle, SECONDS)
