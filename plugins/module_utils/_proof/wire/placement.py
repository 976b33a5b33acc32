# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which CPUs a pod's measuring programs run: those of the NIC's NUMA node, where the pod may use some of them. Pure.

A program of perftest touches its buffer first on the CPU that it runs on, so on another socket than the NIC's its data
cross the link between sockets. Up to 26.01 perftest runs where the scheduler puts it. 26.04 binds itself to the node of
the NIC, unless some CPU that is online is kept from it, as in many pods, and leaves an affinity that it finds as it is
(linux-rdma/perftest, ``set_process_affinity`` in src/perftest_resources.c, ``disable_numa`` in perftest_parameters.c).
NVIDIA has programs bound by hand: by the device's ``local_cpulist`` (Vera Performance Tuning Guide, Optimizing IO
Performance), with ``taskset -c`` (XLIO documentation, Basic Performance Tuning). ``numactl --membind`` would not do
here: runtimes keep ``set_mempolicy`` from containers without CAP_SYS_NICE, but not ``sched_setaffinity`` (default.json
of moby's profiles/seccomp).
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._cpu_lists import cpus_of, list_of_cpus
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

NO_TASKSET = "the image has no taskset that works"
NOT_ALLOWED = "the pod may use none of these CPUs"
_NEXT: Mapping[str, str] = {
    NO_TASKSET: "use an image that has it, rdma_fabric_verify_image",
    NOT_ALLOWED: "look at the kubelet's CPU manager, and at reserved and isolated CPUs of these nodes",
}
_LIST = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*", re.ASCII)
_LONGEST_LIST = 4096
_MOST_NODES = 5


class Placement(NamedTuple):
    """The CPUs that programs are held to, as the kernel writes a list; empty where they run as they are started.

    ``why`` is then one of NO_TASKSET and NOT_ALLOWED, or empty where there is nothing to choose: the device has no
    NUMA node, or the pod may use the CPUs of that node only.
    """

    cpus: str = ""
    why: str = ""

    @property
    def prefix(self) -> list[str]:
        """The words before a program that hold it to these CPUs."""
        return ["taskset", "-c", self.cpus] if self.cpus else []


def place(local: str, allowed: str, *, online: str, isolated: str, taskset: bool) -> Placement:
    """Return where the programs of a pod run, by lists of CPUs as the kernel writes them; one may be empty.

    ``local`` is the device's ``local_cpulist``: all CPUs that are ``online`` where it has no NUMA node (pci-sysfs.c of
    the kernel). ``allowed`` are those that the pod may use (``Cpus_allowed_list``), which may count some that are not
    online. Nothing is moved onto ``isolated`` ones: whoever isolates CPUs has programs that poll on them.
    """
    near, usable = _cpus(local), (_cpus(allowed) & _cpus(online)) - _cpus(isolated)
    kept = near & usable
    if not near or not usable or kept == usable:
        return Placement()
    if not kept:
        return Placement(why=NOT_ALLOWED)
    return Placement(cpus=list_of_cpus(kept)) if taskset else Placement(why=NO_TASKSET)


def words_of(sides: Sequence[tuple[str, str]]) -> str:
    """Return whose programs are held to no CPUs and why, one phrase for each reason; empty when there are none.

    A side is its node and the ``why`` of its placement.
    """
    told = []
    for why in (NO_TASKSET, NOT_ALLOWED):
        nodes = sorted({node for node, found in sides if found == why})
        if nodes:
            told.append(f"{named(nodes, _MOST_NODES)}: {why} ({_NEXT[why]})")
    if not told:
        return ""
    return f"not held to the CPUs of the NIC's NUMA node, so rates may be lower and vary: {'; '.join(told)}"


def _cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list that a pod printed; none where the text is no such list."""
    return frozenset(cpus_of(text) if len(text) <= _LONGEST_LIST and _LIST.fullmatch(text) else ())
