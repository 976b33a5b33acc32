# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo``: the whole job on the recorded fleet and a real API server, twice; the second run changes nothing.

Then, where a lab can be had, the same on two booted hosts, whose pods pass RDMA (``tools/booted.py``); ``--no-lab``
leaves that out.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Mapping

from tools.artifact import build_and_install
from tools.booted import LAB, end_lab, left_out, run_booted, what_is_cached
from tools.checkout import BUILD, CHECKOUT, own_environment
from tools.ending import run_command, to_its_end
from tools.fleet import INVENTORY, write_nodes
from tools.last_block import last_block
from tools.playbook import PlaybookRun, run_playbook

FOLDER = BUILD / "demo"
RUN = FOLDER / "run"
# What its first half found, for the picture of it in the documentation.
FOUND = FOLDER / "passes.json"
PASSES = "passes"
NEXT = "look at the report, then begin with your own hosts: ansible-playbook rdma.fabric.discover -i INVENTORY"
AGAIN = "fix what is named above and run make demo again; make demo DEMO_LAB=no leaves the booted hosts out"
NO_LAB = "--no-lab"


def main(arguments: list[str]) -> int:
    """Prepare, start the control plane and run ourselves on it; or be the run on it."""
    if arguments[:1] == [PASSES]:
        return run_twice(Path(arguments[1]))
    if arguments not in ([], [NO_LAB]):
        print(f"usage: python -m tools.demo [{NO_LAB}]", file=sys.stderr)
        return 2
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another demo of this checkout is running; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return run_all(with_lab=not arguments)


def run_all(*, with_lab: bool) -> int:
    """Run the recorded fleet, and after it the booted hosts; return the exit status of the first that fails, or 0."""
    start = time.monotonic()
    end_lab(FOLDER / LAB)  # of a demo that was killed
    shutil.rmtree(FOLDER, ignore_errors=True)
    _artifact, collections = build_and_install()
    status = run_on_cluster(collections)
    if status:
        return status
    counts, step = f"two runs in {time.monotonic() - start:.0f} s, and the second one changed nothing", NEXT
    if with_lab:
        status = run_booted(FOLDER, collections)
    else:
        print("\n".join(["", *left_out([f"{NO_LAB} was given (make demo DEMO_LAB=no)"])]))
    if status:
        # What the first half came to stays, whatever becomes of the second.
        counts += "; the booted hosts were not brought to their end"
        step = f"{what_is_cached()}; {AGAIN}"
    print("\n".join(last_block(collections, RUN, counts, step)))
    return status


def run_on_cluster(collections: Path) -> int:
    """Start an API server with one node per recorded host and run both passes on it."""
    nodes = FOLDER / "nodes.json"
    count = write_nodes(nodes, collections)
    print(
        "Cluster: real etcd and kube-apiserver, without controllers: what is pushed is validated and stored, not run.\n"
        f"Stand-in: {count} nodes without machines, with the labels that Node Feature Discovery would set.",
        flush=True,
    )
    lab = [
        sys.executable,
        "-m",
        "tests.lab",
        "up",
        "--api-only",
        "--dir",
        str(FOLDER / "cluster"),
        "--nodes",
        str(nodes),
    ]
    passes = [sys.executable, "-m", "tools.demo", PASSES, str(collections)]
    return run_command([*lab, "--", *passes], CHECKOUT)


def run_twice(collections: Path) -> int:
    """Run ``site`` twice on the cluster that the environment names, compare, and sum up; return the exit status."""
    first, before = run_site("First run", collections)
    if first.status:
        return first.status
    second, after = run_site("Second run: nothing may change", collections)
    if second.status:
        return second.status
    problems = differences(second, before, after)
    found = passes(first, second, before, after)
    FOUND.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(["", *summary(found)]))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def run_site(title: str, collections: Path) -> tuple[PlaybookRun, dict[str, Any]]:
    """Run the site playbook once; return how it went and what its run directory holds."""
    print(f"\n=== {title} ===", flush=True)
    cluster = {name: os.environ[name] for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG") if name in os.environ}
    environment = {**own_environment(collections), **cluster}
    # Nothing makes pods of the workloads, so none would ever be ready.
    variables = {"rdma_fabric_run_dir": str(RUN), "rdma_fabric_wait": "false"}
    run = run_playbook("rdma.fabric.site", INVENTORY, variables, environment, FOLDER)
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


def passes(first: PlaybookRun, second: PlaybookRun, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what both runs did to the cluster, how long they took in seconds, and what the second one reported."""
    runs = ((first, before), (second, after))
    return {
        "passes": [{"seconds": run.seconds, "counts": found["report"]["cluster"]["counts"]} for run, found in runs],
        "plans": len(after["digests"]),
        "summary": after["report"]["summary"],
    }


def summary(found: Mapping[str, Any]) -> list[str]:
    """Return what was done, what was not, and where to look, from ``passes``."""
    lines = ["=== Summary ===", found["summary"]["headline"]]
    for title, run in zip(("First run", "Second run"), found["passes"]):
        counts = run["counts"]
        spoken = ", ".join(f"{counts[key]} {key}" for key in ("created", "configured", "deleted", "unchanged"))
        lines.append(f"{title}: {spoken} ({run['seconds']:.0f} s)")
    lines.append(f"Host plans: {found['plans']} digests, equal in both runs")
    lines.append("Not done:")
    lines += [f"  - {item['what']}: {item['why']}" for item in found["summary"]["not_done"]]
    return lines


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
