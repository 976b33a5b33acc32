# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task as a playbook runs it: environment, differences, failures, and no secret in anything it prints."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.batch_objects import Json, config_map, daemon_set, wave
from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.checkout import COLLECTIONS, PROGRAMS, own_environment

pytestmark = pytest.mark.repeated
CANARY = "canary-8d1f"


class Playbook:
    """Runs one playbook of several tasks and gives back what each registered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = ""

    def run(self, *tasks: Json, environment: dict[str, str], arguments: tuple[str, ...] = ()) -> list[Json]:
        results = self.folder / "results.json"
        registered = [
            {"name": f"task {number}", **task, "register": f"r{number}", "ignore_errors": True}
            for number, task in enumerate(tasks)
        ]
        content = "{{ [" + ", ".join(f"r{number}" for number in range(len(tasks))) + "] | to_json }}"
        keep = {"ansible.builtin.copy": {"content": content, "dest": str(results), "mode": "0600"}}
        variables = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        keeping = {**keep, "check_mode": False, "diff": False, "no_log": True}
        play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [*registered, keeping]}
        path = self.folder / "playbook.json"
        path.write_text(json.dumps([play]), encoding="utf-8")
        done = subprocess.run(
            [str(PROGRAMS / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(path), *arguments],
            env={**own_environment(COLLECTIONS), **LEAN, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.output = done.stdout
        assert done.returncode == 0, done.stdout
        found: list[Json] = json.loads(results.read_text(encoding="utf-8"))
        return found


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    return Playbook(tmp_path)


def batch(namespace: str, *waves: Json, **options: Any) -> Json:
    given = {"waves": list(waves), "set": namespace, "inventory_namespace": namespace, "wait": False, **options}
    return {"rdma.fabric.k8s_batch": given}


def test_the_environment_of_the_task_names_the_cluster(
    control_plane: ControlPlane, namespace: str, playbook: Playbook
) -> None:
    one = batch(namespace, wave(config_map(namespace, "a")))
    variables = {"K8S_AUTH_KUBECONFIG": str(control_plane.kubeconfig)}
    outside, inside, given = playbook.run(
        one,
        {**one, "environment": variables},
        batch(namespace, wave(config_map(namespace, "a")), kubeconfig=str(control_plane.kubeconfig)),
        environment={"HOME": str(playbook.folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert outside["failed"]
    assert f"there is no kubeconfig {playbook.folder}/.kube/config" in outside["msg"]
    assert (inside["failed"], inside["changed"]) == (False, True)
    assert (given["failed"], given["changed"]) == (False, False)
    assert given["requests"] == {"list": 1, "patch": 0, "get": 0, "delete": 0}


def test_results_and_failures_are_plain_data(control_plane: ControlPlane, namespace: str, playbook: Playbook) -> None:
    misspelt = config_map(namespace, "misspelt")
    misspelt["daata"] = {}
    fine = config_map(namespace, "a")
    refused, wrong = playbook.run(
        batch(namespace, wave(fine, misspelt), wave(daemon_set(namespace, "plugin"), name="workloads")),
        batch("Wrong Name", wave({"kind": "ConfigMap", "metadata": {"name": "a"}})),
        environment=control_plane.command_environment({}),
    )
    assert refused["failed"]
    assert f"ConfigMap {namespace}/misspelt" in refused["msg"]
    assert "daata" in refused["msg"]
    assert f"ConfigMap {namespace}/a" in refused["applied"]
    assert refused["not_applied"] == [f"ConfigMap {namespace}/misspelt", f"DaemonSet {namespace}/plugin"]
    assert refused["failures"][0]["object"]["name"] == "misspelt"
    assert wrong["msg"].startswith("2 problems in the input; nothing was changed")
    assert len(wrong["violations"]) == 2


@pytest.mark.first
def test_differences_show_what_changes_and_no_secret_anywhere(
    control_plane: ControlPlane, namespace: str, playbook: Playbook
) -> None:
    def secret(value: str) -> Json:
        data = {"password": base64.b64encode(value.encode()).decode()}
        return {**config_map(namespace, "secret"), "kind": "Secret", "data": data}

    def task(value: str, key: str) -> Json:
        return {**batch(namespace, wave(secret(value), config_map(namespace, "a", key=key))), "no_log": False}

    first, second = playbook.run(
        task(f"{CANARY}-1", "old-value"),
        task(f"{CANARY}-2", "new-value"),
        environment={**control_plane.command_environment({}), "ANSIBLE_NOCOLOR": "1"},
        arguments=("--diff",),
    )
    assert [row["action"] for row in second["results"] if row["kind"] == "Secret"] == ["configured"]
    assert "old-value" in playbook.output
    assert "new-value" in playbook.output
    assert "(hidden, changed)" in playbook.output
    everything = playbook.output + json.dumps([first, second])
    for number in (1, 2):
        value = f"{CANARY}-{number}"
        assert value not in everything
        assert base64.b64encode(value.encode()).decode() not in everything


def test_no_task_leaves_a_file_in_the_temporary_directory(
    control_plane: ControlPlane, namespace: str, playbook: Playbook
) -> None:
    good, bad = config_map(namespace, "a"), {**config_map(namespace, "b"), "spec": {}}
    options = {"kubeconfig": str(control_plane.kubeconfig)}
    # ansible-core 2.21 has a socket there, whose path may have 107 bytes.
    with tempfile.TemporaryDirectory() as temporary:
        fine, failed = playbook.run(
            batch(namespace, wave(good), **options),
            batch(namespace, wave(bad), **options),
            environment={"HOME": str(playbook.folder), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": temporary},
        )
        assert (fine["failed"], failed["failed"]) == (False, True)
        assert [path.name for path in Path(temporary).rglob("*")] == []


def test_objects_of_files_are_applied_in_order_as_they_are_written(
    control_plane: ControlPlane, namespace: str, playbook: Playbook
) -> None:
    other = f"{namespace}-files"
    made_here = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    # The namespace is last in its file, and its object is first.
    needs_it = config_map(other, "needs-it", text="{{ 1 + 1 }}")
    (playbook.folder / "first.yaml").write_text(yaml.safe_dump_all([needs_it, made_here]), encoding="utf-8")
    listed = {"apiVersion": "v1", "kind": "List", "items": [config_map(other, name) for name in "bc"]}
    (playbook.folder / "second.json").write_text(json.dumps(listed), encoding="utf-8")
    task = batch(namespace, wave(config_map(namespace, "a")), src=["first.yaml", "second.json"])
    gone = batch(namespace, state="absent", delete_definitions=True)
    first, second, *_removed = playbook.run(task, task, gone, environment=control_plane.command_environment({}))
    assert [(row["wave"], row["kind"], row["name"]) for row in first["results"][1:]] == [
        ("w", "ConfigMap", "a"),
        ("first.yaml", "Namespace", other),
        ("first.yaml", "ConfigMap", "needs-it"),
        ("second.json", "ConfigMap", "b"),
        ("second.json", "ConfigMap", "c"),
    ]
    assert (first["changed"], second["changed"], second["requests"]["patch"]) == (True, False, 0)


def test_the_text_of_a_file_is_no_template(control_plane: ControlPlane, namespace: str, playbook: Playbook) -> None:
    text = "{{ 1 + 1 }}"
    (playbook.folder / "objects.yaml").write_text(yaml.safe_dump(config_map(namespace, "a", text=text)), "utf-8")
    (applied,) = playbook.run(batch(namespace, src=["objects.yaml"]), environment=control_plane.command_environment({}))
    assert applied["changed"]
    live = control_plane.api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/a")
    assert live["data"] == {"text": text}


def test_every_flaw_of_every_file_is_told_and_nothing_is_applied(
    control_plane: ControlPlane, namespace: str, playbook: Playbook
) -> None:
    wrong = {"kind": "ConfigMap", "metadata": {"name": "a/b"}}
    (playbook.folder / "wrong.yaml").write_text(yaml.safe_dump_all([config_map(namespace, "a"), wrong]), "utf-8")
    listed = {"apiVersion": "v1", "kind": "List", "items": [config_map(namespace, "c"), "text"]}
    (playbook.folder / "listed.json").write_text(json.dumps(listed, indent=1), encoding="utf-8")
    task = batch(namespace, src=["wrong.yaml", "listed.json", "missing.yaml"])
    (refused,) = playbook.run(task, environment=control_plane.command_environment({}))
    found = {(each["source"], each["line"], each["path"]) for each in refused["violations"]}
    listed_lines, lines = (
        (playbook.folder / name).read_text(encoding="utf-8").splitlines() for name in ("listed.json", "wrong.yaml")
    )
    second = lines.index("---") + 2
    assert found == {
        ("wrong.yaml", second, "apiVersion"),
        ("wrong.yaml", second, "metadata.name"),
        ("listed.json", listed_lines.index('  "text"') + 1, "items[1]"),
        ("missing.yaml", None, ""),
    }
    live = control_plane.api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps")
    assert [each["metadata"]["name"] for each in live["items"]] == ["kube-root-ca.crt"]
