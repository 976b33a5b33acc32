# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo-lab``: two booted hosts as a cluster, ``site`` on them, and the proof that their pods pass RDMA."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from tests.lab.guests.__main__ import EXPECTED_FAILURES
from tests.lab.guests.cluster import Lab
from tests.lab.guests.lab import Options, down, is_held, up
from tests.lab.guests.outlook import Part, cached_parts, reasons_against, unmade
from tests.lab.guests.speed import describe_pace, pace
from tools.artifact import build_and_install
from tools.checkout import BUILD, own_environment
from tools.ending import to_its_end
from tools.playbook import run_playbook

# Minutes on two cores of which nothing else takes any: boot, `site` and `verify` on two guests.
MINUTES = "about 4 min where KVM boots them, and 12 min with emulated processors"
FOLDER = BUILD / "demo-lab"
LAB, RUN = "lab", "run"  # folders below it: of the lab, of the runs on it
say = partial(print, "lab:", flush=True)
# Limits for the same: how long the lab lives, and what the playbooks wait for.
LAB_MINUTES = 60
SECONDS: Mapping[str, int] = {
    "rdma_fabric_wait_timeout": 900,
    "rdma_fabric_verify_timeout": 600,
    "rdma_fabric_verify_test_timeout": 600,
}


def main() -> int:
    """Install the collection and run the demo; return the exit status."""
    end_lab(FOLDER / LAB)  # of a demo that was killed
    shutil.rmtree(FOLDER, ignore_errors=True)
    _artifact, collections = build_and_install()
    return run_booted(FOLDER, collections)


def run_booted(folder: Path, collections: Path) -> int:
    """Boot the lab in ``folder``, run ``site`` and ``verify`` on it, and take it down; return the exit status."""
    directory = folder / LAB
    reasons = reasons_against(directory)
    if reasons:
        print("\n".join(["error: no hosts can be booted here:", *reasons]), file=sys.stderr)
        return 1
    said = announcement(unmade(cached_parts(os.environ)))
    print("\n".join([*said, *filter(None, [describe_pace(os.environ)])]), flush=True)
    started = time.monotonic()
    with own_lab(directory, seconds=round(LAB_MINUTES * 60 * pace(os.environ))) as lab:
        status = converge_and_prove(lab, folder, collections)
    print(f"The booted hosts took {time.monotonic() - started:.0f} s.", flush=True)
    return status


@contextmanager
def own_lab(directory: Path, seconds: int = 7200) -> Iterator[Lab]:
    """Boot a lab in a directory; it goes down with what runs on it, and with this process if that is killed."""
    try:
        up(Options(directory, seconds=seconds, owner=os.getpid()), os.environ, say)
        yield Lab(directory)
    finally:
        end_lab(directory)


def limits(slower: float) -> dict[str, int]:
    """Return what the playbooks wait for at most, on a machine that is so many times slower than an idle one."""
    return {name: round(seconds * slower) for name, seconds in SECONDS.items()}


def end_lab(directory: Path) -> None:
    """Take down the lab in a directory, if one is up there or still ending."""
    if is_held(directory):
        down(directory, say)


def converge_and_prove(lab: Lab, folder: Path, collections: Path) -> int:
    """Run ``site`` and then ``verify`` on a lab; return the status of the first that fails, or 0."""
    run_dir = folder / RUN
    environment = lab.environment(own_environment(collections))
    variables = {"rdma_fabric_run_dir": str(run_dir), **limits(pace(os.environ))}
    for playbook in ("rdma.fabric.site", "rdma.fabric.verify"):
        print(f"\n=== {playbook} on {', '.join(lab.guests)} ===", flush=True)
        status = run_playbook(playbook, lab.inventory, variables, environment, folder).status
        if status:
            break
    print("\n=== Summary of the booted hosts ===")
    proof = run_dir / "verify.json"
    if proof.exists():
        print("\n".join(verdict_lines(json.loads(proof.read_text(encoding="utf-8")))))
    print(f"Report: {run_dir / 'report.html'}", flush=True)
    return status


def announcement(parts: Sequence[Part]) -> list[str]:
    """Say what is going to be built and run, and about how long that takes; ``parts`` are what is not there yet."""
    lines = ["Two hosts boot with SR-IOV and soft RDMA, join a cluster, and two pods on them pass RDMA."]
    if parts:
        making = sum(part.minutes for part in parts)
        lines.append(f"First, once on this machine, about {making:.0f} min on two cores:")
        lines += [f"  - {part.name}: {part.place}" for part in parts]
    return [*lines, f"Then {MINUTES}. Nothing outside build/ and the cache is changed."]


def label_of(test: Mapping[str, Any]) -> str:
    """Return the name of a test, with its direction where something was sent."""
    sent = test["test"] in ("ping", "rping", "bandwidth", "latency")
    return f"{test['test']} from {test['from']} to {test['to']}" if sent else str(test["test"])


def verdict_lines(proof: Mapping[str, Any]) -> list[str]:
    """Return the verdict of each pair and of each of its tests, from ``verify.json``."""
    lines = []
    for pair in proof["pairs"]:
        lines.append(f"{pair['a']} - {pair['b']} on {pair['network']}: {pair['verdict']}")
        lines += [f"  {label_of(test)}: {test['verdict']} ({test['summary']})" for test in pair["tests"]]
    lines += [f"left out: {each['host']}: {each['why']}" for each in proof["left_out"]]
    return [*lines, f"Verdict: {proof['verdict']}"]


if __name__ == "__main__":
    sys.exit(to_its_end(main, *EXPECTED_FAILURES))
