# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the requests of the batch apply, and of kubernetes.core's module once and in a loop, for the same objects.

Requests are read from the API server's audit log. Times are task durations of one playbook that runs both ways in turn,
so that a busy machine slows both.
"""

from __future__ import annotations

import copy
import json
import statistics
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping

from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.integration.batch_objects import delete_cluster_roles, eight_kinds
from ansible_collections.rdma.fabric.tests.lab.audit import ADMIN_USER
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment
from tools.ending import run_command, ticking

OBJECTS = 200
ROUNDS = 3
CALLBACKS = Path(__file__).parent / "callback_plugins"
BATCH, MODULE, LOOP = "bench-batch", "bench-module", "bench-loop"

Json = dict[str, Any]


def measure(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Return the figures of the batch apply; ``folder`` gets the playbooks and their logs."""
    with prepared(control_plane, folder) as bench:
        return {**bench.requests(), **bench.times()}


def measure_modules(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Return how many requests kubernetes.core's module sends for the same objects, at once and in a loop."""
    with prepared(control_plane, folder) as bench:
        return bench.requests_of_modules()


@contextmanager
def prepared(control_plane: ControlPlane, folder: Path) -> Iterator[Bench]:
    """Give a bench whose namespaces go with it."""
    bench = Bench(control_plane, folder)
    for namespace in (BATCH, MODULE, LOOP):
        control_plane.create_namespace(namespace)
    try:
        yield bench
    finally:
        for namespace in (BATCH, MODULE, LOOP):
            delete_cluster_roles(control_plane.api, namespace, OBJECTS)
            control_plane.delete_namespace(namespace)


class Bench:
    """Runs playbooks against one control plane and looks at what they cost."""

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        self._audit = control_plane.audit
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        _artifact, collections = build_and_install()
        self._environment = control_plane.command_environment(own_environment(collections))

    def requests(self) -> dict[str, float]:
        """Return how many requests the batch sends, whatever there is to be done."""
        batch = eight_kinds(BATCH, OBJECTS)
        changed = copy.deepcopy(batch)
        changed[1]["objects"][0]["data"]["a"] = "changed"
        return {
            "apply.created.requests": self._count("apply-created", [batch_task("batch", batch)]),
            "apply.unchanged.requests": self._count("apply-unchanged", [batch_task("batch", batch)]),
            "apply.check.requests": self._count("apply-check", [batch_task("batch", changed)], check=True),
            "apply.one_changed.requests": self._count("apply-one-changed", [batch_task("batch", changed)]),
        }

    def requests_of_modules(self) -> dict[str, float]:
        """Return how many requests the usual ways send for the same objects."""
        module, loop = (eight_kinds(namespace, OBJECTS) for namespace in (MODULE, LOOP))
        return {
            "k8s_module.created.requests": self._count("module-created", [module_task("module", module)]),
            "k8s_module.unchanged.requests": self._count("module-unchanged", [module_task("module", module)]),
            "k8s_loop.unchanged.requests": self._loop(loop),
        }

    def _loop(self, waves: list[Json]) -> float:
        self._play("loop-created", [module_task("module", waves)])
        return self._count("loop-unchanged", [loop_task("loop", waves)])

    def times(self) -> dict[str, float]:
        """Return the median task duration of both ways on unchanged objects, taken in turn, and their ratio."""
        batch, module = (eight_kinds(namespace, OBJECTS) for namespace in (BATCH, MODULE))
        self._play("created", [batch_task("batch", batch), module_task("module", module)])
        tasks = [
            task for _round in range(ROUNDS) for task in (batch_task("batch", batch), module_task("module", module))
        ]
        seconds = self._play("times", tasks)
        ours = statistics.median(seconds["batch"])
        theirs = statistics.median(seconds["module"])
        return {
            "apply.unchanged.seconds": round(ours, 3),
            "k8s_module.unchanged.seconds": round(theirs, 3),
            "apply.unchanged.time_ratio_to_k8s_module": round(ours / theirs, 4),
        }

    def _count(self, name: str, tasks: list[Json], *, check: bool = False) -> float:
        start = self._audit.mark()
        self._play(name, tasks, check=check)
        return len(self._audit.requests(start, user=ADMIN_USER))

    def _play(self, name: str, tasks: list[Json], *, check: bool = False) -> Mapping[str, list[float]]:
        """Run a playbook of these tasks; return the durations of each task name in seconds."""
        playbook, log, seconds = (self._folder / f"{name}.{suffix}" for suffix in ("json", "log", "seconds"))
        variables = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
        playbook.write_text(json.dumps([play]), encoding="utf-8")
        argv = [str(PROGRAMS / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(playbook)]
        environment = {
            **self._environment,
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "rdma_fabric_seconds",
            "RDMA_FABRIC_SECONDS": str(seconds),
        }
        with ticking(lambda: f"benchmark {name}"), log.open("wb") as output:
            argv += ["--check"] if check else []
            status = run_command(argv, self._folder, environment, log=output)
        if status:
            raise BenchmarkFailed(f"{name} ended with {status}: see {log}")
        durations: dict[str, list[float]] = {}
        for task, duration in json.loads(seconds.read_text(encoding="utf-8")):
            durations.setdefault(task, []).append(duration)
        return durations


def batch_task(name: str, waves: list[Json]) -> Json:
    """Return a task of the batch apply; the set is named after the namespace of the objects."""
    options = {"waves": waves, "set": BATCH, "inventory_namespace": BATCH, "wait": False}
    return {"name": name, "rdma.fabric.k8s_batch": options}


def module_task(name: str, waves: list[Json]) -> Json:
    """Return a task of kubernetes.core's module for all objects at once."""
    return {"name": name, "kubernetes.core.k8s": module_options([body for wave in waves for body in wave["objects"]])}


def loop_task(name: str, waves: list[Json]) -> Json:
    """Return a task of kubernetes.core's module for each object in a loop."""
    objects = [body for wave in waves for body in wave["objects"]]
    options = module_options("{{ item }}")
    return {"name": name, "kubernetes.core.k8s": options, "loop": objects, "loop_control": {"label": ""}}


def module_options(definition: Any) -> Json:
    """Return the options that make kubernetes.core's module apply server-side, as the batch does."""
    return {"resource_definition": definition, "apply": True, "server_side_apply": {"field_manager": "bench"}}
