# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``nccl`` on the guests, from its Job to the verdict: a good run passes, what is wrong fails by name.

Job, Secret, Service and endpoints, pods with their networks on both nodes, sshd and ssh in them and Open MPI are real.
Not real are the GPUs (amounts in the status of nodes), ``all_reduce_perf``, which prints what real runs have printed
(``nccl_image``), the cluster's DNS (``cluster_dns``), and the second rail: a VF of the one card.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.guests.cluster_dns import cluster_dns
from ansible_collections.rdma.fabric.tests.guests.nccl_image import FIRST, IMAGE, SECOND, run_of, write_nccl_image
from ansible_collections.rdma.fabric.tests.guests.pods import (
    GONE_SECONDS,
    Json,
    items,
    kubectl,
    name_of,
    on_guest,
    until,
)
from ansible_collections.rdma.fabric.tests.guests.site_runs import CARD, MAKE_FUNCTIONS, await_offer, run_site
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.lab import POLICY
from ansible_collections.rdma.fabric.tests.lab.guests.speed import pace
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from ansible_collections.rdma.fabric.tests.unit._fabric.nccl_launch import OUTPUTS
from ansible_collections.rdma.fabric.tests.unit._proof.test_nccl_run import with_both_logs

RAILS = {"rxe0": "default/rdma-shared", "rxe1": "default/rail1"}
GPU, GPUS = "nvidia.com/gpu", 8
RUN_SECONDS = 1800.0
IMPORT_SECONDS = 300.0
ONE, BOTH = "[0]rxe0:1/RoCE", "[0]rxe0:1/RoCE [1]rxe1:1/RoCE"
DEVICES = re.compile(r"(?<=NET/IB : Using )\[0\].*(?= \[RO\])")
HOSTS = re.compile(r"\b(?:(node-a|dgx-01)|node-b|dgx-02)\b")
TOLD = re.compile(r"-([01]):\d+:\d+ \[0\] NCCL INFO NCCL_IB_HCA set to (\S+)")


def outputs() -> dict[str, str]:
    """Return outputs by name: captured ones of two GPUs, and composed ones of sixteen, with the rails of the guests."""
    texts = {name: (OUTPUTS / "captured" / f"{name}.txt").read_text() for name in ("two-hosts", "two-hosts-sockets")}
    wrong = (OUTPUTS / "broken" / "wrong-results.txt").read_text()
    whole = DEVICES.sub(BOTH, with_both_logs())
    one = next(line for line in whole.splitlines() if line.startswith("dgx-02") and BOTH in line)
    texts |= {"wrong-results": DEVICES.sub(BOTH, wrong), "missing-rail": whole.replace(one, one.replace(BOTH, ONE))}
    return {name: HOSTS.sub(lambda host: FIRST if host[1] else SECOND, text) for name, text in texts.items()}


def bring(lab: Lab, folder: Path) -> None:
    """Bring the image to every guest."""
    archive = folder / "image.tar"
    write_nccl_image(archive, outputs(), folder)

    def on(guest: str) -> None:
        argv = ssh_argv(lab.directory, guest, ["ctr --namespace k8s.io images import -"])
        with archive.open("rb") as content:
            subprocess.run(argv, check=True, stdin=content, timeout=IMPORT_SECONDS * pace(os.environ))

    with ThreadPoolExecutor() as pool:
        list(pool.map(on, lab.guests))


def second_rail(lab: Lab) -> str:
    """Have a VF of each guest's card with soft RDMA; return its name."""
    add = "ip link set $name up && rdma link add rxe1 type rxe netdev $name && echo $name"
    command = f"{MAKE_FUNCTIONS} && name=$(basename {CARD}/virtfn0/net/*) && {add}"
    (name,) = {on_guest(lab, guest, command).strip() for guest in lab.guests}
    return name


def offer_gpus(lab: Lab, amount: str | None) -> None:
    """Have every node offer GPUs, as a device plugin does."""
    status = json.dumps({"status": {"capacity": {GPU: amount}, "allocatable": {GPU: amount}}})
    kubectl(lab, "patch", "node", *lab.guests, "--subresource=status", "--type=merge", f"--patch={status}")


@pytest.fixture(scope="module")
def networks(cluster_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    """Networks of two rails, which ``site`` has pushed to a lab that can run NCCL tests."""
    folder = tmp_path_factory.mktemp("nccl")
    bring(cluster_lab, folder)
    with cluster_dns(cluster_lab):
        try:
            networks = yaml.safe_load((POLICY / "all.yml").read_text(encoding="utf-8"))["rdma_fabric_macvlan_networks"]
            second = {"networkNamespace": "default", "mode": "bridge", "master": second_rail(cluster_lab)}
            networks["rail1"] = {**second, "ipam": '{"type": "whereabouts", "range": "192.168.230.0/24"}'}
            run_site(cluster_lab, User(folder / "user"), rdma_fabric_macvlan_networks=networks)
            await_offer(cluster_lab, "rdma/rdma_shared_device_a", 63)
            offer_gpus(cluster_lab, str(GPUS))
            yield networks
        finally:
            offer_gpus(cluster_lab, None)
            for guest in cluster_lab.guests:
                cluster_lab.ssh(guest, "rdma link delete rxe1")


def left(lab: Lab) -> list[str]:
    """Return what of NCCL tests is in the cluster."""
    found = items(lab, "jobs,pods,secrets,services", "--all-namespaces")
    return [name_of(each) for each in found if name_of(each).startswith("rdma-nccl-")]


def nccl(lab: Lab, folder: Path, networks: dict[str, Json], *names: str, gpus: int) -> tuple[Outcome, list[Json]]:
    """Run the playbook over both rails at once, where programs print outputs one after another.

    Return its outcome and the rows of its document. Both pods must have been told the rails, and nothing may be left.
    """
    variables = {
        "rdma_fabric_macvlan_networks": networks,
        "rdma_fabric_verify_networks": list(RAILS.values()),
        "rdma_fabric_verify_timeout": 900,
        "rdma_fabric_nccl_image": IMAGE,
        "rdma_fabric_nccl_programs": [run_of(name) for name in names],
        "rdma_fabric_nccl_scope": "whole",
        "rdma_fabric_nccl_gpus": gpus,
    }
    user = User(folder / "user")
    outcome = user.run("nccl", inventory=lab.inventory, variables=variables, seconds=RUN_SECONDS)
    run = user.here / "rdma-fabric-run"
    assert (run / "nccl.json").exists(), outcome.output
    log = (run / "nccl" / "0.log").read_text(encoding="utf-8")
    assert sorted(TOLD.findall(log)) == sorted([("0", "=rxe0,rxe1"), ("1", "=rxe0,rxe1")] * len(names)), log
    until(lambda: left(lab) == [], GONE_SECONDS, lambda: f"left are {left(lab)}")
    document = json.loads((run / "nccl.json").read_text(encoding="utf-8"))
    assert (document["launcher"], document["nodes"]) == ("Job", sorted(lab.guests))
    return outcome, document["tests"]


def test_a_good_run_passes(cluster_lab: Lab, networks: dict[str, Json], tmp_path: Path) -> None:
    outcome, (row,) = nccl(cluster_lab, tmp_path, networks, "two-hosts", gpus=1)
    outcome.succeeded()
    assert (row["verdict"], row["ranks"], row["busbw_gbytes"], row["problems"]) == ("pass", 2, 1.86, [])


def test_what_is_wrong_fails_by_name(cluster_lab: Lab, networks: dict[str, Json], tmp_path: Path) -> None:
    names = ("two-hosts-sockets", "wrong-results", "missing-rail")
    outcome, rows = nccl(cluster_lab, tmp_path, networks, *names, gpus=GPUS)
    message = outcome.refused().message
    assert [row["line"] for row in rows if row["line"] not in message] == []
    sockets, wrong, missing = ({each["problem"]: each["where"] for each in row["problems"]} for row in rows)
    # The scheduler puts the first pod on any of the nodes.
    told = {f"rank 0 on node {one}, rank 1 on node {other}" for one, other in permutations(cluster_lab.guests)}
    assert sockets["the data went over sockets, not over RDMA"] in told
    assert any(each.startswith("4194304 elements of the results are wrong") for each in wrong), wrong
    (rail,) = missing
    assert rail in {
        f"ranks 8 to 15 on node {guest}: NCCL does not use rxe1 ({RAILS['rxe1']})" for guest in cluster_lab.guests
    }
