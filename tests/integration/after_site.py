# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and clusters as ``site`` leaves them, for tests of what comes after it, for less than a run of it each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, User
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


class States:
    """States of a host: ``site`` brings one to each, once; the others are given what it has written there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[str, OwnFiles] = {}

    def give(self, hosts: Iterable[OwnFiles], **variables: Any) -> None:
        """Have new hosts be as ``site`` leaves one with these variables."""
        key = json.dumps(variables, sort_keys=True)
        if key not in self._models:
            folder = self._folder / str(len(self._models))
            model = OwnFiles(folder / "host")
            inventory = inventory_of(folder, {"model": model}, **variables)
            User(folder / "user").run("site", inventory=inventory).succeeded()
            self._models[key] = model
        for host in hosts:
            host.become(self._models[key])


def push(cluster: ControlPlane, namespace: str, variables: Mapping[str, Any], **options_of_batch: Any) -> None:
    """Apply what ``site`` applies with these variables of the cluster; it does so by the same actions."""
    options: Json = {name.removeprefix("rdma_fabric_"): value for name, value in variables.items()}
    spec = run_action("fabric_input", {**options, "namespace": namespace})["spec"]
    waves = run_action("fabric_render", {"spec": spec})["waves"]
    batch = {"waves": waves, "inventory_namespace": namespace, "kubeconfig": str(cluster.kubeconfig)}
    result = run_action("k8s_batch", {**batch, **options_of_batch})
    assert result["changed"], result
