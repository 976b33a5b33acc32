# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_ready: what would keep a run from its end is told before it changes a host."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.modules import fabric_ready
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import SEEDS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

POLICY = SEEDS / "guide" / "nic-cluster-policy.yaml"
SMALL = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own leads to a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST"):
        monkeypatch.delenv(name, raising=False)


def spec(*objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run_action("fabric_spec", {})["spec"]
    return {**found, "objects": list(objects)}


def kubeconfig(path: Path, server: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[int, bytes]], list[str]]]:
    """An address, the answers that it gives in turn (the last one for ever), and the paths that were asked for."""
    answers: list[tuple[int, bytes]] = [(200, b'{"gitVersion": "v1.35.0"}')]
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            code, body = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_what: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}", answers, asked
        listening.shutdown()
        thread.join()


def test_hosts_alone_need_no_cluster_and_that_is_said(tmp_path: Path) -> None:
    result = run_action("fabric_ready", {"spec": spec(), "run_dir": str(tmp_path / "run")})
    assert (result.get("failed"), result["changed"], result["objects"], result["server"]) == (None, False, 0, "")
    assert "nothing is wanted of a cluster, so none is asked" in result["notices"][0]
    assert (tmp_path / "run").is_dir()


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no kubeconfig"), ("{", "makes no connection"), ("", "makes no connection")],
)
def test_a_kubeconfig_that_is_missing_or_broken_is_told(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    result = run_action("fabric_ready", {"spec": spec(SMALL), "kubeconfig": str(path)})
    assert result["failed"]
    assert result["msg"].startswith("this run would not reach its end, so no host was changed:\n  - the cluster: ")
    assert said in result["msg"]
    assert str(path) in result["msg"]


def test_a_context_that_the_kubeconfig_does_not_have_is_told(tmp_path: Path) -> None:
    arguments = {
        "spec": spec(SMALL),
        "kubeconfig": kubeconfig(tmp_path / "k", "http://127.0.0.1:9"),
        "context": "there",
    }
    result = run_action("fabric_ready", arguments)
    assert result["failed"]
    assert "there" in result["msg"]
    assert "check kubeconfig, context" in result["msg"]


def test_the_server_is_asked_once_and_named(tmp_path: Path, server: Any) -> None:
    address, _answers, asked = server
    result = run_action("fabric_ready", {"spec": spec(SMALL), "kubeconfig": kubeconfig(tmp_path / "k", address)})
    assert not result.get("failed"), result
    # The namespace of the object is wanted as well.
    assert (result["server"], result["objects"], asked) == (address, 2, ["/version"])


@pytest.mark.parametrize(("code", "fails"), [(401, True), (403, False)])
def test_a_user_that_the_server_does_not_know_is_told_and_one_with_few_rights_goes_on(
    tmp_path: Path, server: Any, code: int, fails: bool
) -> None:
    address, answers, _asked = server
    answers[:] = [(code, b'{"kind": "Status", "message": "no"}')]
    result = run_action("fabric_ready", {"spec": spec(SMALL), "kubeconfig": kubeconfig(tmp_path / "k", address)})
    assert bool(result.get("failed")) is fails
    if fails:
        assert "renew the token or client certificate" in result["msg"]


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    arguments = {"spec": spec(SMALL), "run_dir": str(tmp_path / "file" / "run"), "kubeconfig": str(tmp_path / "none")}
    message = run_action("fabric_ready", arguments)["msg"]
    assert f"the run directory {tmp_path / 'file'}" in message
    assert "there is no kubeconfig" in message


def test_what_can_not_be_rendered_is_told_before_the_hosts(tmp_path: Path) -> None:
    result = run_action("fabric_ready", {"spec": spec(SMALL, SMALL)})
    assert result["failed"]
    assert result["violations"]


def test_the_examples_run(tmp_path: Path, server: Any) -> None:
    _load, ready = (task for task in yaml.safe_load(fabric_ready.EXAMPLES))
    arguments = ready["rdma.fabric.fabric_ready"]
    arguments["spec"] = run_action("fabric_spec", {"manifests": [str(POLICY)]})["spec"]
    arguments["run_dir"] = str(tmp_path / arguments["run_dir"])
    arguments["kubeconfig"] = kubeconfig(tmp_path / "k", server[0])
    assert run_action("fabric_ready", arguments)["objects"] > 10
