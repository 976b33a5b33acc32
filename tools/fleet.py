# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded fleet of this checkout: the nodes of its hosts, ``make preview`` and ``make demo``.

``python -m tools.fleet preview`` has it validated, planned, rendered and reported, without a cluster. ``python -m
tools.fleet demo`` does the whole job on it and a real API server, twice; the second run changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.lab.__main__ import EXPECTED_FAILURES
from tests.lab.control_plane import ControlPlane
from tests.lab.nodes import kwok_node, register_nodes
from tests.lab.programs import gather_api
from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment
from tools.ending import to_its_end
from tools.environment import only_one
from tools.playbook import PlaybookRun, run_playbook

INVENTORY = CHECKOUT / "inventories" / "recorded" / "hosts.yml"
RECORDINGS = INVENTORY.parent / "recordings"
SUFFIX = ".json.gz"
DEMO, RUN = BUILD / "demo", "run"
NEXT = "look at the report, then begin with your own hosts: ansible-playbook rdma.fabric.discover -i INVENTORY"


def fleet_nodes(collections: Path) -> list[dict[str, Any]]:
    """Return the node of every recorded host in the lab's cluster.

    The labels are those that Node Feature Discovery and the kubelet would set, taken from the host's recorded facts:
    KWOK nodes run neither. ``collections`` is where the collection that reads the recordings is installed.
    """
    sys.path.insert(0, str(collections))
    from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather  # noqa: PLC0415 - just installed
    from ansible_collections.rdma.fabric.plugins.module_utils._host.recording import recorded  # noqa: PLC0415

    nodes = []
    for path in sorted(RECORDINGS.glob(f"*{SUFFIX}")):
        facts = gather(recorded.RecordedHost(recorded.load_recording(path.read_bytes())))
        nodes.append(kwok_node(path.name.removesuffix(SUFFIX), facts["labels"]))
    return nodes


def preview_fleet(folder: Path, collections: Path, *, programs: Path = PROGRAMS) -> PlaybookRun:
    """Preview the recorded fleet into the run directory ``run`` of a folder, which is made anew.

    ``collections`` has this one; ``programs`` are as for ``run_playbook``.
    """
    run_dir = folder / RUN
    # What can't be removed is not writable either, which the playbook refuses by name.
    shutil.rmtree(run_dir, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    variables, environment = {"rdma_fabric_run_dir": str(run_dir)}, own_environment(collections)
    return run_playbook("rdma.fabric.preview", INVENTORY, variables, environment, folder, programs=programs)


def preview() -> int:
    """Run the preview; return the exit status."""
    _artifact, collections = build_and_install()
    run = preview_fleet(BUILD / "preview", collections)
    if run.status == 0:
        hosts = [*(BUILD / "preview" / RUN / "hosts").glob("*.json")]
        print(f"{len(hosts)} recorded hosts previewed in {run.seconds:.0f} s; look at the report, then: make demo")
    return run.status


def demo() -> int:
    """Start an API server with one node per recorded host and run both passes on it; return the exit status."""
    with only_one(BUILD / "demo.lock", "runs the demo of this checkout"):
        shutil.rmtree(DEMO, ignore_errors=True)
        _artifact, collections = build_and_install()
        nodes = fleet_nodes(collections)
        print(
            "Cluster: real etcd and kube-apiserver, without controllers: what is pushed is validated and stored, not "
            f"run.\nStand-in: {len(nodes)} nodes without machines, labelled as Node Feature Discovery would.",
            flush=True,
        )
        with ControlPlane(DEMO / "cluster", programs=gather_api()) as cluster:
            register_nodes(cluster.api, nodes)
            return run_twice(collections, cluster.command_environment(os.environ))


def run_twice(collections: Path, cluster: dict[str, str]) -> int:
    """Run ``site`` twice on a cluster, compare, and say what was shown; return the exit status."""
    first, before = run_site("First run", collections, cluster)
    if first.status:
        return first.status
    second, after = run_site("Second run: nothing may change", collections, cluster)
    if second.status:
        return second.status
    problems = differences(second, before, after)
    if not problems:
        print("\n".join(["", *shown(first, second, after, before["report"]["cluster"]["counts"])]))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def run_site(title: str, collections: Path, cluster: dict[str, str]) -> tuple[PlaybookRun, dict[str, Any]]:
    """Run the site playbook once; return how it went and what its run directory holds."""
    print(f"\n=== {title} ===", flush=True)
    own = {name: cluster[name] for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG")}
    # Nothing makes pods of the workloads, so none would ever be ready.
    variables = {"rdma_fabric_run_dir": str(DEMO / RUN), "rdma_fabric_wait": "false"}
    run = run_playbook("rdma.fabric.site", INVENTORY, variables, {**own_environment(collections), **own}, DEMO)
    if run.status:
        return run, {}
    digests = {
        path.stem: json.loads(path.read_bytes())["plan"]["digest"]
        for path in sorted((DEMO / RUN / "hosts").glob("*.json"))
    }
    return run, {"digests": digests, "report": json.loads((DEMO / RUN / "report.json").read_bytes())}


def differences(second: PlaybookRun, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what changed between two runs that should have found the same; no digest at all is a difference too."""
    problems = [f"the second run reports changes: {line}" for line in second.changed]
    if not after["digests"]:
        problems.append("no host was planned")
    names = sorted({**before["digests"], **after["digests"]})
    problems += [
        f"the plan of {name} differs between the runs"
        for name in names
        if before["digests"].get(name) != after["digests"].get(name)
    ]
    counts = after["report"]["cluster"]["counts"]
    if not counts["unchanged"]:
        problems.append("no object was found unchanged in the cluster")
    problems += [
        f"{counts[action]} objects {action}" for action in ("created", "configured", "deleted") if counts[action]
    ]
    return problems


def shown(first: PlaybookRun, second: PlaybookRun, after: dict[str, Any], created: dict[str, int]) -> list[str]:
    """Return what the demo was about: the fleet, what the first run did and the second found, and the page."""
    report, digests = after["report"], after["digests"]
    return [
        "=== What was shown ===",
        f"fleet:      of recordings: {report['summary']['headline']}",
        f"first run:  {created['created']} objects created on a real API server ({first.seconds:.0f} s)",
        f"second run: nothing changed: {report['cluster']['counts']['unchanged']} objects and the plans "
        f"of {len(digests)} hosts are the same ({second.seconds:.0f} s)",
        f"report:     {DEMO / RUN / 'report.html'}",
        f"next:       {NEXT}",
    ]


if __name__ == "__main__":
    tools, parser = {"preview": preview, "demo": demo}, argparse.ArgumentParser(prog="tools.fleet")
    parser.add_argument("tool", choices=tools)
    sys.exit(to_its_end(tools[parser.parse_args().tool], *EXPECTED_FAILURES))
