# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebooks under the real ansible-rulebook: notifications and nodes start the playbooks that they are for, once.

One process runs the rules of all rulebooks, with shorter throttles. The source of nodes, which Galaxy alone has, has a
stand-in that watches the API server: its events have the form that sabre1041.eda.k8s 1.0.3 gives them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.joining import TAINT, TEXT, Joining
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.integration.playbooks import stored_writes
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

RULEBOOKS = CHECKOUT / "extensions" / "eda" / "rulebooks"
TOKEN = "of-the-test"
SECONDS = 240.0
SOURCE = """
import asyncio
import threading

from kubernetes import client, config, watch


async def main(queue, args):
    api, loop = client.CoreV1Api(config.new_client_from_config(args["kubeconfig"])), asyncio.get_running_loop()
    since = api.list_node().metadata.resource_version

    def look():
        for event in watch.Watch().stream(api.list_node, resource_version=since):
            told = {"type": event["type"], "resource": event["raw_object"]}
            asyncio.run_coroutine_threadsafe(queue.put(told), loop).result()

    threading.Thread(target=look, daemon=True).start()
    await asyncio.Event().wait()
"""

# It writes down which playbook has ended: the output of one that fails is logged twice.
WRAPPER = """#!/bin/sh
{program} "$@"
status=$?
for last; do :; done
echo "$last" >>{ended}
exit $status
"""


class Rules:
    """A running ansible-rulebook for a fleet."""

    def __init__(self, fleet: Joining, folder: Path, stack: ExitStack) -> None:
        self.log, self.ended = folder / "rulebook.log", folder / "ended"
        self.ended.touch()
        self.ports = {name: free_port() for name in ("alerts", "new_nodes")}
        text = "".join(
            path.read_text(encoding="utf-8").partition("---\n")[2] for path in sorted(RULEBOOKS.glob("*.yml"))
        )
        for before, after in (("5000", "alerts"), ("5001", "new_nodes")):
            text = text.replace(f"default({before})", f"default({self.ports[after]})")
        (folder / "rules.yml").write_text(re.sub(r"\d minutes?", "10 seconds", text), encoding="utf-8")
        variables = {
            "fabric_events_token": TOKEN,
            "fabric_events_kubeconfig": str(fleet.cluster.kubeconfig),
            "fabric_events_taint": TAINT["key"],
        }
        variables_of_runs = {"rdma_fabric_namespace": fleet.namespace, "rdma_fabric_join_taint": TEXT}
        (folder / "inventory" / "group_vars").mkdir(parents=True)
        (folder / "inventory" / "group_vars" / "all.yml").write_text(
            json.dumps({**variables_of_runs, "rdma_fabric_run_dir": str(folder / "run")}), encoding="utf-8"
        )
        shutil.copy(fleet.inventory, folder / "inventory")
        (folder / "vars.yml").write_text(json.dumps(variables), encoding="utf-8")
        place = folder / "collections" / "ansible_collections" / "sabre1041" / "eda" / "plugins" / "event_source"
        place.mkdir(parents=True)
        (place / "k8s.py").write_text(SOURCE, encoding="utf-8")
        environment = fleet.user.environment(fleet.cluster, None)
        environment["ANSIBLE_COLLECTIONS_PATH"] = f"{COLLECTIONS}{os.pathsep}{folder / 'collections'}"
        program = folder / "ansible-playbook"
        program.write_text(WRAPPER.format(program=PROGRAMS / program.name, ended=self.ended), encoding="utf-8")
        program.chmod(0o755)
        environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
        argv = [str(PROGRAMS / "ansible-rulebook"), "--rulebook", "rules.yml", "--vars", "vars.yml", "-i", "inventory"]
        with self.log.open("wb") as log:
            process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=log, stderr=log)
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        until(lambda: all(map(listens, self.ports.values())), SECONDS, "it does not listen")

    def notify(self, rulebook: str, *kinds: str, status: str = "firing", token: str = TOKEN) -> int:
        """Send what Alertmanager sends; return the status of the answer."""
        alerts = [{"status": status, "labels": {"rdma_fabric": kind, "node": "{{ 1 / 0 }}"}} for kind in kinds]
        body = json.dumps({"version": "4", "status": status, "alerts": alerts}).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", self.ports[rulebook], timeout=30)) as connection:
            connection.request("POST", "/alertmanager", body, headers)
            return connection.getresponse().status

    def text(self) -> str:
        """Return what it has printed, with the output of playbooks."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def expect(self, *runs: str) -> None:
        """Wait until these playbooks have ended, and no other."""

        def ended() -> list[str]:
            return sorted(self.ended.read_text(encoding="utf-8").split())

        until(lambda: len(ended()) >= len(runs), SECONDS, f"it ran {ended()}")
        assert ended() == sorted(runs), self.text()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def rules(fleet_of_new: Joining, tmp_path: Path) -> Iterator[Rules]:
    """Rules that run, for a host that is in service and one whose node is not registered yet."""
    if shutil.which("java") is None:
        do_without("no java, by which ansible-rulebook judges rules: install a runtime of Java 17")
    fleet_of_new.register("two")
    fleet_of_new.pod(fleet_of_new.nodes["two"])
    folder = tmp_path / "rules"
    folder.mkdir()
    with ExitStack() as stack:
        yield Rules(fleet_of_new, folder, stack)


@pytest.mark.hosts("one", "two")
def test_each_event_starts_its_playbook_once_for_the_hosts_that_it_is_about(
    fleet_of_new: Joining, rules: Rules
) -> None:
    reading = ("rdma.fabric.status", "rdma.fabric.drift")
    assert rules.notify("alerts", "link", token="of-somebody-else") == 401
    for _repeated in range(3):
        assert rules.notify("alerts", "link", "driver") == 200
    rules.expect(*reading)
    assert rules.notify("alerts", "link", "driver", status="resolved") == 200

    mark = fleet_of_new.cluster.audit.mark()
    fleet_of_new.register("one", taints=(TAINT,))
    rules.expect(*reading, "rdma.fabric.join")
    assert fleet_of_new.joined() == ["one"]
    assert set(fleet_of_new.writes_to_nodes(mark)) == {fleet_of_new.nodes["one"]}

    # What is said again of a node that has joined changes nothing.
    mark = fleet_of_new.cluster.audit.mark()
    for _repeated in range(3):
        assert rules.notify("new_nodes", "node") == 200
    rules.expect(*reading, "rdma.fabric.join", "rdma.fabric.join")
    assert stored_writes(fleet_of_new.cluster.audit, mark) == []
    # Text of an event is never a template that Ansible executes.
    assert "division by zero" not in rules.text()
