# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo``: the whole job on the recorded fleet and a real API server, twice; the second run changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.lab.__main__ import EXPECTED_FAILURES
from tests.lab.control_plane import ControlPlane
from tests.lab.nodes import register_nodes
from tests.lab.programs import gather_api
from tools.artifact import build_and_install
from tools.checkout import BUILD, own_environment
from tools.ending import to_its_end
from tools.environment import only_one
from tools.fleet import INVENTORY, fleet_nodes
from tools.playbook import PlaybookRun, run_playbook

FOLDER = BUILD / "demo"
RUN = FOLDER / "run"
NEXT = "look at the report, then begin with your own hosts: ansible-playbook rdma.fabric.discover -i INVENTORY"


def main() -> int:
    """Start an API server with one node per recorded host and run both passes on it; return the exit status."""
    with only_one(BUILD / "demo.lock", "runs the demo of this checkout"):
        shutil.rmtree(FOLDER, ignore_errors=True)
        _artifact, collections = build_and_install()
        nodes = fleet_nodes(collections)
        print(
            "Cluster: real etcd and kube-apiserver, without controllers: what is pushed is validated and stored, not "
            f"run.\nStand-in: {len(nodes)} nodes without machines, labelled as Node Feature Discovery would.",
            flush=True,
        )
        with ControlPlane(FOLDER / "cluster", programs=gather_api()) as cluster:
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
    variables = {"rdma_fabric_run_dir": str(RUN), "rdma_fabric_wait": "false"}
    run = run_playbook("rdma.fabric.site", INVENTORY, variables, {**own_environment(collections), **own}, FOLDER)
    if run.status:
        return run, {}
    digests = {path.stem: read_json(path)["plan"]["digest"] for path in sorted((RUN / "hosts").glob("*.json"))}
    return run, {"digests": digests, "report": read_json(RUN / "report.json")}


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def differences(second: PlaybookRun, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what changed between two runs that should have found the same; no digest at all is a difference too."""
    problems = [f"the second run reports {count} changes on {host}" for host, count in second.changed.items() if count]
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
        f"report:     {RUN / 'report.html'}",
        f"next:       {NEXT}",
    ]


if __name__ == "__main__":
    sys.exit(to_its_end(main, *EXPECTED_FAILURES))
