# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive for whoever helps: what is in it, what its manifest says of the rest, and that it holds no secret."""

from __future__ import annotations

import gzip
import io
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import fabric_support
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.inspection import Inspection, Scope
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.plugins.plugin_utils._endings import Run, ending_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._support import attention_of, gap
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer
from ansible_collections.rdma.fabric.tests.unit._k8s.test_inspection import OURS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

HOST = "dgx-h100-01"
RECORDING = RECORDINGS / f"{HOST}.json.gz"
SECRET = "hunter2"
GIVEN: dict[str, Any] = {"spec": Fabric([], []).accepted().spec}


class Server(FakeServer):
    """A server with an address."""

    server = "https://fabric.example"


def pack(folder: Path, *, check: bool = False, hosts: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """Return the result of a run whose hosts have registered or been given these variables."""
    variables = {"localhost": {}, **(hosts or {})}
    names = list(hosts or {})
    given = {"hosts": names, "run_dir": str(folder / "run"), "dest": str(folder / "out" / "support.tar.gz")}
    return run_action(
        "fabric_support",
        {**given, **GIVEN, **arguments},
        check=check,
        task_vars={"hostvars": variables, "groups": {"all": names}},
    )


def contents(result: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of the archive by their path below its folder."""
    found = {}
    with tarfile.open(result["dest"]) as archive:
        for entry in archive:
            stream = archive.extractfile(entry)
            assert stream is not None
            folder, _slash, name = entry.name.partition("/")
            assert folder == "rdma-fabric-support"
            found[name] = stream.read()
    return found


def recorded(path: Path = RECORDING) -> dict[str, Any]:
    return {"rdma_fabric_support_recorded": {"dest": str(path), "changed": False}}


def write_runs(folder: Path) -> None:
    """Write what earlier runs leave."""
    run = folder / "run"
    for name in ("hosts", "turns", "wire", "support"):
        (run / name).mkdir(parents=True)
    (run / "report.json").write_text(json.dumps({"note": f"password={SECRET}", "spec": {"token": SECRET}, "total": 7}))
    (run / "report.html").write_text(f'<script type="application/json">{{"token": "{SECRET}", "a": 1}}</script>')
    (run / "hosts" / f"{HOST}.json").write_text("{}")
    (run / "turns" / f"{HOST}.json").write_text(f"half a document, token: {SECRET}")
    (run / "verify.json").write_text("{}")
    (run / "drift.xml").write_text("<testsuites/>")
    (run / "kubeconfig").write_text(f"token: {SECRET}")


def test_recordings_and_documents_of_runs_are_in_it_with_their_origin(tmp_path: Path) -> None:
    write_runs(tmp_path)
    result = pack(tmp_path, hosts={HOST: recorded()})
    files = contents(result)
    assert list(files) == [
        "manifest.json",
        f"hosts/{HOST}.json.gz",
        "input.json",
        "run/drift.xml",
        f"run/hosts/{HOST}.json",
        "run/report.html",
        "run/report.json",
        f"run/turns/{HOST}.json",
        "run/verify.json",
    ]
    assert files[f"hosts/{HOST}.json.gz"] == RECORDING.read_bytes()
    assert json.loads(files["run/report.json"])["total"] == 7
    manifest = json.loads(files["manifest.json"])
    assert manifest == result["manifest"]
    assert {row["path"]: row["source"] for row in manifest["files"]}["run/verify.json"].endswith("run/verify.json")
    assert (manifest["outcome"], result["outcome"], manifest["unread"]) == ("complete", "complete", [])
    assert set(manifest["versions"]) > {"rdma.fabric", "ansible-core", "python", "kubernetes", "kubernetes.core"}
    assert result["summary"] == "1 host recorded, 6 files of earlier runs, no cluster"


def test_no_secret_is_in_it(tmp_path: Path) -> None:
    write_runs(tmp_path)
    spec = {**GIVEN["spec"], "hosts": {HOST: {"note": f"token={SECRET}"}}}
    result = pack(tmp_path, hosts={HOST: recorded()}, spec=spec)
    assert not [name for name, data in contents(result).items() if SECRET.encode() in data]
    assert SECRET not in str(result)


def test_the_same_gives_the_same_bytes_and_is_no_change(tmp_path: Path) -> None:
    write_runs(tmp_path)
    first = pack(tmp_path, hosts={HOST: recorded()})
    data = Path(first["dest"]).read_bytes()
    assert pack(tmp_path, hosts={HOST: recorded()})["changed"] is False
    other = pack(tmp_path, hosts={HOST: recorded()}, dest=str(tmp_path / "other.tar.gz"))
    assert (first["changed"], other["changed"]) == (True, True)
    assert Path(other["dest"]).read_bytes() == data
    assert stat.S_IMODE(Path(first["dest"]).stat().st_mode) == 0o600
    assert data[4:8] == bytes(4), "gzip keeps a time there"
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        assert {(entry.mtime, entry.uid, entry.uname) for entry in archive} == {(0, 0, "")}


def test_check_mode_packs_and_writes_nothing(tmp_path: Path) -> None:
    result = pack(tmp_path, check=True, hosts={HOST: recorded()})
    assert result["changed"] and not Path(result["dest"]).parent.exists()


def test_hosts_that_were_not_recorded_are_named_and_keep_nothing_out(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(b"nothing")
    hosts = {
        "gone": {"rdma_fabric_support_recorded": {"unreachable": True, "msg": f"no route, token={SECRET}"}},
        "failed": {"rdma_fabric_support_recorded": {"failed": True, "msg": "no Python"}},
        "never": {},
        "damaged": recorded(broken),
        "given": {"rdma_fabric_recording": str(RECORDING)},
        HOST: recorded(),
    }
    result = pack(tmp_path, hosts=hosts)
    assert {name for name in contents(result) if name.startswith("hosts/")} == {
        f"hosts/{HOST}.json.gz",
        "hosts/given.json.gz",
    }
    unread = {row["what"]: row["why"] for row in result["manifest"]["unread"]}
    assert unread["host gone"].startswith("unreachable: no route, token=***")
    assert unread["host failed"] == "failed: no Python"
    assert set(unread) == {"host gone", "host failed", "host never", "host damaged"}
    assert result["outcome"] == "partial"
    assert any(text.startswith("host gone: unreachable") for text in result["attention"])


def test_an_input_that_is_not_valid_is_told_and_the_cluster_is_looked_at(tmp_path: Path) -> None:
    result = pack(
        tmp_path, spec=None, problem=f"rdma_fabric_set: token={SECRET} is not a valid name", kubeconfig="/nowhere"
    )
    text = contents(result)["input-problems.txt"].decode()
    assert text.startswith("rdma_fabric_set: token=***") and SECRET not in text
    assert [row["what"] for row in result["manifest"]["unread"]] == ["the input", "the cluster"]
    assert "there is no kubeconfig /nowhere" in result["manifest"]["unread"][1]["why"]


@pytest.mark.parametrize(("size", "kept"), [(8, True), (9, False)])
def test_a_file_of_a_run_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, kept: bool) -> None:
    monkeypatch.setattr(fabric_support, "MOST_FILE_BYTES", 8)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report.html").write_text("x" * size)
    result = pack(tmp_path)
    assert ("run/report.html" in contents(result)) is kept
    assert [row["what"] for row in result["manifest"]["unread"]] == ([] if kept else ["run/report.html"])


def test_what_the_cluster_shows_is_in_it_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(("default", "nvidia-network-operator"))
    place = {"namespace": "nvidia-network-operator", "labels": {**OURS, "rdma.fabric/set": "rdma-fabric"}}
    metadata = {**place, "name": "agent", "annotations": {"example.com/token": SECRET}}
    server.put("configmaps", {"metadata": metadata, "data": {"config": f"password: {SECRET}"}})
    monkeypatch.setattr(fabric_support.ActionModule, "client", lambda _action, _arguments: server)
    spec = Fabric([resource("NicClusterPolicy", "nic-cluster-policy", {"secondaryNetwork": {"multus": {}}})], [])
    result = pack(tmp_path, spec=spec.accepted().spec)
    files = contents(result)
    names = {name for name in files if name.startswith("cluster/")}
    assert names >= {
        f"cluster/{name}.json" for name in ("version", "definitions", "objects", "pods", "events", "nodes")
    }
    (body,) = json.loads(files["cluster/objects.json"])
    assert body["metadata"]["name"] == "agent"
    assert not [name for name, data in files.items() if SECRET.encode() in data]
    assert {row["source"] for row in result["manifest"]["files"] if row["path"] in names} == {server.server}
    assert result["summary"].endswith("the cluster with 0 logs")


def test_what_is_looked_for_in_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scopes: list[Scope] = []

    def inspected(_connection: object, scope: Scope) -> Inspection:
        scopes.append(scope)
        return Inspection()

    monkeypatch.setattr(fabric_support.ActionModule, "client", lambda _action, _arguments: Server())
    monkeypatch.setattr(fabric_support, "inspect", inspected)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}}
    spec = {**GIVEN["spec"], "objects": [body], "namespace": "ns"}
    hosts = {HOST: {**recorded(), "rdma_fabric_node_name": "gpu-01"}}
    pack(tmp_path, hosts=hosts, spec=spec, set="mine", logs=3, log_lines=7)
    pack(tmp_path, spec=None, namespace="theirs")
    first, second = scopes
    assert Key("v1", "ConfigMap", "ns", "x") in first.wanted
    assert (first.set_name, first.namespace, first.nodes) == ("mine", "ns", frozenset(["gpu-01"]))
    assert (first.whole_namespace, first.logs, first.lines) == (False, 3, 7)
    assert (second.wanted, second.namespace, second.set_name) == ([], "theirs", "rdma-fabric")
    assert (second.logs, second.lines) == (20, 500)
    monkeypatch.setattr(fabric_support, "render", lambda _spec: [])
    monkeypatch.setattr(fabric_support, "objects_of", lambda _waves: [body])
    monkeypatch.setattr(fabric_support, "spec_violations", lambda _spec: [])
    pack(tmp_path, spec={**spec, "engine": "helm"})
    assert scopes[-1].whole_namespace, "an operator makes the pods"


def test_hosts_outside_the_limit_are_none_of_it(tmp_path: Path) -> None:
    names = [HOST, "other"]
    result = run_action(
        "fabric_support",
        {**GIVEN, "hosts": names, "run_dir": str(tmp_path), "dest": str(tmp_path / "support.tar.gz")},
        task_vars={
            "hostvars": {"localhost": {}, HOST: recorded(), "other": {}},
            "groups": {"all": names, "ungrouped": names},
            "ansible_limit": HOST,
        },
    )
    assert result["outcome"] == "complete" and result["summary"].startswith("1 host recorded")


def test_with_hosts_only_no_cluster_is_contacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_support.ActionModule, "client", None, raising=False)
    assert pack(tmp_path)["outcome"] == "complete"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"dest": "bundle.zip"}, "does not end with .tar.gz"),
        ({"logs": -1}, "logs: -1 is not a valid number"),
        ({"log_lines": -1}, "log_lines: -1 is not a valid number"),
    ],
)
def test_what_can_not_be_is_refused(tmp_path: Path, arguments: dict[str, Any], problem: str) -> None:
    result = pack(tmp_path, **arguments)
    assert result["failed"] and problem in result["msg"]
    assert not (tmp_path / "out").exists()


def test_how_a_run_ends() -> None:
    result = {"summary": "7 hosts recorded", "dest": "/run/support.tar.gz", "attention": []}
    whole = ending_of("support", result, Run("support", False))
    assert (whole.result, whole.paths) == ("unchanged", {"archive": "/run/support.tar.gz"})
    assert whole.step.text == "review it, then send it to those who help you"
    partly = ending_of("support", {**result, "attention": ["host gone: unreachable"]}, Run("support", False))
    assert (partly.result, partly.counts) == ("failed", "7 hosts recorded, 1 thing not read")
    assert partly.step.playbook == ""


def test_reasons_that_name_each_host_are_not_a_line_for_each() -> None:
    unread = [gap(f"host gpu-{number}", f"unreachable: no route to 10.0.0.{number}") for number in range(500)]
    found = attention_of(unread)
    assert len(found) == 21
    assert found[-1] == "and 480 more reasons, in the manifest of the archive"
