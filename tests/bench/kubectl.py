# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the CPU of a client that applies objects which stay as they are, beside ``kubectl apply --server-side``.

Both are whole programs, with all that they do before their first request. They run in turn.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Mapping

from ansible_collections.rdma.fabric.tests.bench.apply import batch_task
from ansible_collections.rdma.fabric.tests.bench.site import run_measured
from ansible_collections.rdma.fabric.tests.integration.batch_objects import delete_cluster_roles, eight_kinds
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.programs import gather
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment

OBJECTS = 1000
ROUNDS = 5
NAMESPACES = {"batch": "bench-batch", "kubectl": "bench-kubectl"}


def measure(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Return the CPU seconds of both and their ratio; ``folder`` gets what they apply, and their logs."""
    _artifact, collections = build_and_install()
    folder.mkdir(parents=True, exist_ok=True)
    environment = control_plane.command_environment(own_environment(collections))
    programs = commands(folder, gather().kubectl)
    for namespace in NAMESPACES.values():
        control_plane.create_namespace(namespace)
    try:
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(ROUNDS + 1):
            for name, argv in programs.items():
                what = f"{name} of {OBJECTS} objects"
                cost = run_measured(argv, folder, environment, folder / f"{name}-{number}.log", what)
                seconds[name].append(cost.cpu_seconds)
        # The first round has created them. What else the machine does adds to both, never takes away: the least is
        # what each of them needs.
        return figures({name: min(found[1:]) for name, found in seconds.items()})
    finally:
        for namespace in NAMESPACES.values():
            delete_cluster_roles(control_plane.api, namespace, OBJECTS)
            control_plane.delete_namespace(namespace)


def commands(folder: Path, kubectl: Path) -> dict[str, list[str]]:
    """Write what both programs apply; return how they are called."""
    for name, namespace in NAMESPACES.items():
        items = [body for wave in eight_kinds(namespace, OBJECTS) for body in wave["objects"]]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (folder / f"{name}-objects.json").write_text(json.dumps(listed), encoding="utf-8")
    task = batch_task("batch", [])
    task["rdma.fabric.k8s_batch"]["src"] = ["batch-objects.json"]
    variables = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}
    (folder / "batch.json").write_text(json.dumps([play]), encoding="utf-8")
    return {
        "batch": [str(PROGRAMS / "ansible-playbook"), "-i", "localhost,", "-c", "local", "batch.json"],
        "kubectl": [str(kubectl), "apply", "--server-side", "-f", "kubectl-objects.json"],
    }


def figures(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the figures of the CPU seconds of both programs."""
    return {
        "kubectl.batch.cpu_seconds": round(seconds["batch"], 2),
        "kubectl.apply.cpu_seconds": round(seconds["kubectl"], 2),
        "kubectl.batch.cpu_ratio": round(seconds["batch"] / seconds["kubectl"], 2),
    }
