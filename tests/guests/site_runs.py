# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of ``site`` on the booted guests, and what their nodes and cluster show of them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Protocol

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.quantities import canonical_quantity
from ansible_collections.rdma.fabric.tests.guests.pods import Json, items, name_of, until
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.speed import known_slowness, pace

FUNCTIONS = 2  # VFs of each card, as the lab's inventory asks for
CARD = "$(dirname /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs)"
# Again and again: the kernel refuses to change a number other than 0.
MAKE_FUNCTIONS = (
    f"{{ [ $(cat {CARD}/sriov_numvfs) = {FUNCTIONS} ] || echo {FUNCTIONS} >{CARD}/sriov_numvfs; }} && udevadm settle"
)
MANAGED = "app.kubernetes.io/managed-by=rdma-fabric"
SITE_SECONDS = 1200.0
ROLLOUT_SECONDS = 600  # for programs that start all at once on emulated guests
WATCH_SECONDS = 60.0
WATCHER = Path(__file__).with_name("write_watch.py")


class Place(Protocol):
    """A running lab, with or without a cluster."""

    directory: Path


def run_site(lab: Lab, user: User, *, inventory: Path | None = None, **variables: Any) -> Outcome:
    """Run ``site`` on the guests; it has to succeed."""
    given = {"rdma_fabric_wait_timeout": round(ROLLOUT_SECONDS * pace(os.environ)), **variables}
    seconds = SITE_SECONDS * known_slowness(os.environ)
    return user.run("site", inventory=inventory or lab.inventory, variables=given, seconds=seconds).succeeded()


def functions(lab: Lab, guest: str) -> dict[str, str]:
    """Give the interface of each VF that is in a guest's own network namespace, by MAC address."""
    command = f"for each in {CARD}/virtfn*/net/*; do cat $each/address && basename $each; done"
    words = lab.ssh(guest, command).stdout.split()
    return dict(zip(words[::2], words[1::2]))


def rollouts(lab: Lab) -> dict[str, tuple[int, int]]:
    """Give (ready, wanted) pods of every workload that the collection made, by ``Kind/namespace/name``."""
    found = {}
    for each in items(lab, "daemonsets,deployments", "--all-namespaces", f"--selector={MANAGED}"):
        status = each["status"]
        if each["kind"] == "DaemonSet":
            numbers = status["numberReady"], status["desiredNumberScheduled"]
        else:
            numbers = status.get("readyReplicas", 0), each["spec"]["replicas"]
        found[f"{each['kind']}/{each['metadata']['namespace']}/{name_of(each)}"] = numbers
    return found


def allocatable(lab: Lab, resource: str) -> dict[str, str]:
    """Give how much of a resource kubelet offers, by node."""
    return {name_of(each): each["status"]["allocatable"].get(resource, "none") for each in items(lab, "nodes")}


def await_offer(lab: Lab, resource: str, amount: int) -> None:
    """Wait until every node offers an amount of a resource."""
    wanted = dict.fromkeys(lab.guests, canonical_quantity(amount))
    until(
        lambda: allocatable(lab, resource) == wanted,
        ROLLOUT_SECONDS,
        lambda: f"{resource}: {allocatable(lab, resource)}",
    )


@contextmanager
def watched(lab: Place, guest: str) -> Iterator[list[Json]]:
    """Watch what ssh sessions change on a guest; the list is filled at the end."""
    program = f"exec python3 -I -S -c {shlex.quote(WATCHER.read_text(encoding='utf-8'))}"
    argv = ["ssh", "-F", str(lab.directory / "ssh_config"), guest, program]
    changes: list[Json] = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        if watcher.stdin is None or watcher.stdout is None:
            raise RuntimeError("the watcher's pipes were asked for")
        try:
            said = watcher.stdout.readline()
            assert said == "watching\n", f"{guest}: the watcher says {said!r}"
            yield changes
            output, _nothing = watcher.communicate(timeout=WATCH_SECONDS)  # ends the watcher's standard input
        except BaseException:
            watcher.kill()
            raise
    assert watcher.returncode == 0, f"{guest}: the watcher ended with status {watcher.returncode}"
    changes += [json.loads(line) for line in output.splitlines()]
