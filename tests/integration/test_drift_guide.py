# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide to drift: its commands, its systemd units and its CronJob, as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.drifting import Pushed
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from tools.checkout import CHECKOUT, PROGRAMS

TEXT = guide("guide-drift.md")
KUBECONFIG, MANIFEST = blocks_of(TEXT)
FILES = ("hosts.yml", "nic-cluster-policy.yaml", "id_ed25519", "known_hosts")


def commands(program: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in TEXT.splitlines() if line.startswith(f"{program} ")]


def test_its_playbook_runs_as_printed(pushed: Pushed) -> None:
    """The one without options is what other tests run."""
    printed = commands("ansible-playbook")
    assert [words[:4] for words in printed] == [["ansible-playbook", "rdma.fabric.drift", "-i", "hosts.yml"]] * 3
    for words in printed[1:]:
        pushed.drift(*(word.replace("gpu-01", "one") for word in words[4:])).succeeded()
    assert {"drift/drift.json", "drift/drift.xml"} <= set(pushed.user.files())


def test_systemd_finds_nothing_wrong_with_its_units(readers: Readers, tmp_path: Path) -> None:
    units = re.findall(r"`/etc/systemd/system/(\S+)`:\n\n```ini\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert [name for name, _text in units] == ["rdma-fabric-drift.service", "rdma-fabric-drift.timer"]
    for name, text in units:
        # The program is where this checkout has it; what it is told is as printed.
        given = text.replace("/usr/bin/ansible-playbook", str(PROGRAMS / "ansible-playbook"))
        (tmp_path / name).write_text(given, encoding="utf-8")
        (tmp_path / name).chmod(0o644)
    analyze = readers.program("usr/bin/systemd-analyze")
    done = readers.run(
        [analyze, "verify", "--man=no", "--recursive-errors=one", *(tmp_path / name for name, _text in units)],
        SYSTEMD_UNIT_PATH=f"{tmp_path}:",
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = {word for words in [*commands("systemctl"), *commands("journalctl")] for word in words}
    assert {name for name, _text in units} <= told
    (tmp_path / units[1][0]).write_text(units[1][1].replace("OnCalendar=", "OnCalendars="), encoding="utf-8")
    broken = readers.run([analyze, "verify", "--man=no", tmp_path / units[1][0]], SYSTEMD_UNIT_PATH=f"{tmp_path}:")
    assert "OnCalendars" in broken.stderr


class InTheCluster:
    """What the guide has an administrator make, in a namespace of the test's own, and a user who did it."""

    def __init__(self, pushed: Pushed) -> None:
        self.pushed, self.namespace = pushed, pushed.namespace
        self.here = pushed.user.here
        for name in FILES:
            (self.here / name).write_text("a: file\n", encoding="utf-8")
        (self.here / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
        (self.here / "drift.yaml").write_text(MANIFEST, encoding="utf-8")
        for words in commands("kubectl"):
            self.pushed.cluster.kubectl(*map(self.placed, self.within(words[1:])))

    def within(self, words: list[str]) -> list[str]:
        """Return a command for the namespace of the test, which is there already."""
        if words[:2] == ["create", "namespace"]:
            return ["get", "namespace", self.namespace]
        told = [word.replace("fabric-drift:", f"{self.namespace}:") for word in words]
        return [self.namespace if word == "fabric-drift" else word for word in told]

    def placed(self, word: str) -> str:
        """Return a word with the place of the file that it names."""
        option, equals, name = word.rpartition("=")
        known = {*FILES, "kubeconfig", "drift.yaml"}
        if name in known:
            return f"{option}{equals}{self.here / name}"
        return str(CHECKOUT / name) if name.startswith("playbooks/") else word

    def cron_job(self) -> Any:
        path = f"/apis/batch/v1/namespaces/{self.namespace}/cronjobs/drift"
        return self.pushed.cluster.api.call("GET", path)["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.fixture
def made(pushed: Pushed, control_plane: ControlPlane) -> Iterator[InTheCluster]:
    yield InTheCluster(pushed)
    control_plane.kubectl("delete", "clusterrolebinding", pushed.namespace)
    control_plane.kubectl("delete", "--filename", str(CHECKOUT / "playbooks" / "files" / "cluster-roles.yaml"))


def test_a_strict_server_takes_its_manifest(pushed: Pushed) -> None:
    where = ("--namespace", pushed.namespace, "--filename", "-", "--dry-run=server")
    pushed.cluster.kubectl("apply", *where, "--validate=strict", stdin=MANIFEST)


def test_its_cron_job_has_the_files_that_it_names_and_runs_with_its_account_and_nothing_else(
    made: InTheCluster, tmp_path: Path
) -> None:
    spec = made.cron_job()
    (container,) = spec["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    read = {item["name"]: item for item in spec["volumes"]}
    core = f"/api/v1/namespaces/{made.namespace}"
    api = made.pushed.cluster.api
    files = {
        f"{mounted[name]}/{key}"
        for name, path in (
            ("input", f"configmaps/{read['input']['configMap']['name']}"),
            ("ssh", f"secrets/{read['ssh']['secret']['secretName']}"),
        )
        for key in api.call("GET", f"{core}/{path}")["data"]
    }
    variables = {each["name"]: each["value"] for each in container["env"]}
    named = {
        variables["KUBECONFIG"],
        variables["ANSIBLE_PRIVATE_KEY_FILE"],
        variables["ANSIBLE_SSH_ARGS"].split("=")[1],
    }
    assert {*named, f"{container['workingDir']}/hosts.yml"} <= files

    words = container["command"]
    assert words[:4] == ["ansible-playbook", "rdma.fabric.drift", "-i", "hosts.yml"]
    run_dir = words[-1].partition("=")[2]
    assert run_dir in mounted.values()
    # In the pod kubelet writes address, certificate and token; here they are those of this server.
    account = f"{core}/serviceaccounts/{spec['serviceAccountName']}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    (tmp_path / "token").write_text(api.call("POST", account, request)["status"]["token"], encoding="utf-8")
    given = yaml.safe_load(KUBECONFIG)
    admin = yaml.safe_load(made.pushed.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    given["clusters"][0]["cluster"] = {**admin}
    given["users"][0]["user"]["tokenFile"] = str(tmp_path / "token")
    (tmp_path / "kubeconfig").write_text(json.dumps(given), encoding="utf-8")
    mine = [*words[4:-1], words[-1].replace(run_dir, str(tmp_path / "run"))]
    made.pushed.drift(*mine, kubeconfig=tmp_path / "kubeconfig").succeeded()
    assert (tmp_path / "run" / "drift.xml").is_file()
    made.pushed.delete("configmap", "deleted")
    outcome = made.pushed.drift(*mine, kubeconfig=tmp_path / "kubeconfig")
    assert "ConfigMap" in outcome.failures["localhost"]["msg"], outcome.output
