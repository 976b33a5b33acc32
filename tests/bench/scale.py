# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how the controller's work grows with the fleet, beside a play whose one task does nothing.

Nothing is wanted of a cluster, so that every request and every object is left out.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Mapping, Sequence

import yaml

from ansible_collections.rdma.fabric.tests.bench.site import Cost, fleet_inventory, run_measured, slope
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment
from tools.environment import say
from tools.fleet import RECORDINGS, SUFFIX

# The largest takes about eight minutes on two cores, with the play that does nothing.
SIZES = (100, 1000, 5000)
ACTIONS = Path(__file__).parent / "action_plugins"
CALLBACKS = Path(__file__).parent / "callback_plugins"
NOTHING = [
    {
        "name": "Do nothing",
        "hosts": "rdma_fabric",
        "gather_facts": False,
        "tasks": [{"name": "Return", "rdma_fabric_noop": {}}],
    }
]

NO_OP, SITE = "nothing.yml", "rdma.fabric.site"


def measure(folder: Path) -> dict[str, float]:
    """Return all figures of fleets of all sizes; ``folder`` gets the inventories, logs and run directories."""
    _artifact, collections = build_and_install()
    environment = {
        **own_environment(collections),
        "ANSIBLE_ACTION_PLUGINS": str(ACTIONS),
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "rdma_fabric_rss",
    }
    nothing: dict[int, Cost] = {}
    site: dict[int, Cost] = {}
    main: dict[int, int] = {}
    for size in SIZES:
        here = folder / str(size)
        here.mkdir(parents=True)
        inventory = fleet_inventory(size, sorted(RECORDINGS.glob(f"*{SUFFIX}")))
        (here / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        (here / NO_OP).write_text(yaml.safe_dump(NOTHING, sort_keys=False), encoding="utf-8")
        taken: dict[str, list[Cost]] = {NO_OP: [], SITE: []}
        # The speed of a machine drifts within minutes: what site is held against runs before it and after it.
        for playbook in (NO_OP, SITE, NO_OP):
            variables = json.dumps({"rdma_fabric_run_dir": str(here / "run")})
            argv = [str(PROGRAMS / "ansible-playbook"), playbook, "-i", "hosts.json", "-e", variables]
            what = f"{playbook} on {size} of up to {max(SIZES)} hosts"
            rss = here / f"{playbook}.rss"
            told = {**environment, "RDMA_FABRIC_RSS": str(rss)}
            cost = run_measured(argv, here, told, here / f"{playbook}.log", what)
            taken[playbook].append(cost)
            say(f"  {what}: {cost.cpu_seconds:.1f} s of CPU, {cost.rss_kib} KiB, {cost.seconds:.0f} s")
        nothing[size], site[size] = mean(taken[NO_OP]), mean(taken[SITE])
        main[size] = int((here / f"{SITE}.rss").read_text(encoding="ascii"))
    return figures(nothing, site, main)


def mean(costs: Sequence[Cost]) -> Cost:
    """Return what runs took on average, and the largest process of any."""
    cpu, seconds = (sum(each[field] for each in costs) / len(costs) for field in (0, 1))
    return Cost(cpu, seconds, max(each.rss_kib for each in costs))


def figures(nothing: Mapping[int, Cost], site: Mapping[int, Cost], main: Mapping[int, int]) -> dict[str, float]:
    """Return the figures of runs by the number of their hosts; ``main`` is the largest of site's main process, in KiB.

    The largest process of a run is a worker that looks at all hosts. It is a copy of the main process that grows.
    """
    ours, theirs = (slope({size: cost.cpu_seconds for size, cost in runs.items()}, 5) for runs in (site, nothing))
    smallest, largest = min(site), max(site)
    growth = math.log(site[largest].cpu_seconds / site[smallest].cpu_seconds) / math.log(largest / smallest)
    return {
        "scale.cpu_seconds_per_host": ours,
        "scale.cpu_ratio_to_noop": round(ours / theirs, 2),
        "scale.noop.cpu_seconds_per_host": theirs,
        "scale.exponent": round(growth, 3),
        "scale.rss_kib_per_host": slope({size: float(kib) for size, kib in main.items()}),
        "scale.largest_process.rss_kib_per_host": slope({size: float(cost.rss_kib) for size, cost in site.items()}),
        **{f"scale.rss_kib.{size}": kib for size, kib in main.items()},
        **{f"scale.cpu_seconds.{size}": round(cost.cpu_seconds, 1) for size, cost in site.items()},
        **{f"scale.seconds.{size}": round(cost.seconds, 1) for size, cost in site.items()},
    }
