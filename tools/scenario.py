# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The molecule scenarios: ``python -m tools.scenario [default|roce-shared|quick-starts|NAME]``.

``default`` runs on the recorded fleet and a real API server, the quick starts on two hosts of one recording and such a
server: each by its NAME, or one after the other. ``roce-shared`` runs on the hosts of the inventory that
RDMA_FABRIC_INVENTORY names; otherwise on the running lab whose directory RDMA_FABRIC_LAB names; otherwise on a lab of
its own.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any, Mapping

from tests.lab import __main__ as lab
from tests.lab.control_plane import ControlPlane
from tests.lab.guests import __main__ as guests
from tests.lab.guests.cluster import Lab
from tests.lab.nodes import apply_nodes
from tests.lab.programs import gather
from tools.artifact import build_and_install
from tools.booted import end_lab, own_lab
from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment
from tools.ending import run_command, to_its_end
from tools.fleet import fleet_nodes

FOLDER = BUILD / "molecule"
DEFAULT, ROCE_SHARED, ALL_QUICK_STARTS = "default", "roce-shared", "quick-starts"
QUICK_STARTS = ("sriov", "host-device", "ipoib", "multirail")
NAMES = (DEFAULT, ROCE_SHARED, ALL_QUICK_STARTS, *QUICK_STARTS)
CLUSTER_VARIABLES = ("KUBECONFIG", "K8S_AUTH_KUBECONFIG")
INVENTORY = "RDMA_FABRIC_INVENTORY"
RUNNING_LAB = "RDMA_FABRIC_LAB"


def main(arguments: list[str]) -> int:
    """Run ``molecule test`` for one scenario in a folder of its own; return the exit status."""
    (name,) = arguments or [DEFAULT]
    if name not in NAMES:
        print(f"no scenario is called {name}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    folder = FOLDER / name
    end_lab(folder / "lab")  # of a run that was killed
    if folder.exists():
        shutil.rmtree(folder)
    _artifact, collections = build_and_install()
    environment = scenario_environment(folder, collections)
    if name == ROCE_SHARED:
        return run_roce_shared(folder, environment)
    return run_recorded(name, folder, fleet_nodes(collections), environment)


def scenario_environment(folder: Path, collections: Path) -> dict[str, str]:
    """Return what molecule finds in its environment, whatever it runs on."""
    return {
        **own_environment(collections),
        "NO_COLOR": "1",
        "PYTEST_ADDOPTS": "",  # a gate's, which are not for the tests of a scenario
        "HOME": os.environ.get("HOME", str(BUILD / "home")),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(folder / "ephemeral"),
    }


def molecule_argv(*names: str) -> list[str]:
    """Return the command that runs scenarios, one after the other."""
    return [str(PROGRAMS / "molecule"), "test", *(word for name in names for word in ("--scenario-name", name))]


def run_recorded(name: str, folder: Path, nodes: list[dict[str, Any]], environment: Mapping[str, str]) -> int:
    """Run one scenario, or all quick starts, on a control plane of its own with the recorded hosts as nodes."""
    names = QUICK_STARTS if name == ALL_QUICK_STARTS else (name,)
    with ControlPlane(folder / "cluster") as cluster:
        apply_nodes(cluster.api, nodes)
        return run_command(molecule_argv(*names), CHECKOUT, cluster.command_environment(environment))


def run_roce_shared(folder: Path, environment: Mapping[str, str]) -> int:
    """Run the scenario on the user's own hosts, a running lab, or a lab of its own, which ends with it."""
    argv = molecule_argv(ROCE_SHARED)
    if os.environ.get(INVENTORY):
        return run_command(argv, CHECKOUT, on_own_hosts(environment, os.environ))
    if os.environ.get(RUNNING_LAB):
        return run_command(argv, CHECKOUT, on_lab(environment, Lab(Path(os.environ[RUNNING_LAB]))))
    with own_lab(folder / "lab") as own:
        return run_command(argv, CHECKOUT, on_lab(environment, own))


def on_own_hosts(environment: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the hosts of the user's inventory and the cluster that their kubeconfig names."""
    inventory = {INVENTORY: str(Path(user[INVENTORY]).resolve())}
    return {**environment, **{name: user[name] for name in CLUSTER_VARIABLES if name in user}, **inventory}


def on_lab(environment: Mapping[str, str], running: Lab) -> dict[str, str]:
    """Return the environment for a running lab, with its kubectl on PATH."""
    found = running.environment(environment)
    programs = gather(os.environ).kubectl.parent
    return {**found, INVENTORY: str(running.inventory), "PATH": f"{programs}{os.pathsep}{found['PATH']}"}


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:]), *lab.EXPECTED_FAILURES, *guests.EXPECTED_FAILURES))
