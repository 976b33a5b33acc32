# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Frees a name that is an alternative one of the interface which gets it.

To the kernel a name is in use whatever kind it is of, also by the same interface: EEXIST (dev_prep_valid_name and
netdev_name_in_use, net/core/dev.c). udev gives some itself (AlternativeNamesPolicy= of systemd.link(5)).
"""

from __future__ import annotations

from typing import Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Found, Operation, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe, objects, parsed


def freed(current: str, wanted: str, place: str) -> tuple[Operation, Operation]:
    """Return how the interface ``current`` loses the alternative name ``wanted``, and how it gets it back.

    ``place`` is what operations call the interface whatever its name is then. One that has no such name keeps all.
    """
    lost: list[str] = []

    def free(host: Host) -> Sequence[Operation]:
        if wanted not in _alternative_names(host, current):
            return []
        lost.append(wanted)
        return [Run(("ip", "link", "property", "del", "dev", current, "altname", wanted))]

    def give_back(_host: Host) -> Sequence[Operation]:
        return [Run(("ip", "link", "property", "add", "dev", place, "altname", name)) for name in lost]

    return (
        Found(f"take the alternative name {wanted} from {current}", free),
        Found(f"give {current} its alternative name {wanted} back", give_back),
    )


def _alternative_names(host: Host, name: str) -> list[str]:
    result = Probe(host).command("ip", "-json", "link", "show", "dev", name)
    links = objects(parsed(result.stdout)) if result is not None and result.rc == 0 else []
    return [str(each) for link in links for each in link.get("altnames") or []]
