# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task's environment is there while the task runs, and only then; its progress spoils no JSON."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import cluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeTime


def test_variables_of_a_task_are_gone_after_it_even_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/mine")
    monkeypatch.delenv("K8S_AUTH_HOST", raising=False)
    with pytest.raises(ValueError, match="failed"), task_environment({"KUBECONFIG": "/task", "K8S_AUTH_HOST": "h"}):
        assert (os.environ["KUBECONFIG"], os.environ["K8S_AUTH_HOST"]) == ("/task", "h")
        raise ValueError("failed")
    assert os.environ["KUBECONFIG"] == "/mine"
    assert "K8S_AUTH_HOST" not in os.environ


@pytest.mark.parametrize(("callback", "stream"), [("default", "out"), ("ansible.posix.json", "err")])
def test_progress_goes_where_it_spoils_no_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], callback: str, stream: str
) -> None:
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", callback)
    task = SimpleNamespace(action="rdma.fabric.k8s_batch", async_val=0)
    ClusterAction(task, SimpleNamespace(), SimpleNamespace(), None, None, None).progress("waits for multus")
    printed = capsys.readouterr()
    assert {"out": printed.out, "err": printed.err} == {
        "out": "",
        "err": "",
        stream: "rdma.fabric.k8s_batch: waits for multus\n",
    }


def test_progress_has_no_escape_sequence_of_a_pod(capsys: pytest.CaptureFixture[str]) -> None:
    task = SimpleNamespace(action="rdma.fabric.k8s_batch", async_val=0)
    ClusterAction(task, SimpleNamespace(), SimpleNamespace(), None, None, None).progress("multus said \x1b[2Jok\rready")
    assert capsys.readouterr().out == "rdma.fabric.k8s_batch: multus said \\x1b[2Jok\\rready\n"


@pytest.mark.parametrize(("turn_file", "outlasted"), [(None, 60), ("turns/a.json", 600)])
def test_an_api_server_that_is_away_is_outlasted_longer_in_the_turn_of_a_host(
    monkeypatch: pytest.MonkeyPatch, turn_file: str | None, outlasted: float
) -> None:
    time = FakeTime()

    class Away:
        def send(self, *_request: Any) -> Reply:
            if time.seconds < outlasted:
                raise ApiFault(Fault.UNREACHABLE, "connection refused")
            return Reply(200, {}, b"{}")

    monkeypatch.setattr(ClusterAction, "client", lambda _self, _arguments: Away())
    monkeypatch.setattr(cluster, "sleep_while_it_runs", lambda _play: time.clock().sleep)
    monkeypatch.setattr(cluster, "Clock", lambda **_given: time.clock())
    task = SimpleNamespace(action="rdma.fabric.node_drain", async_val=0)
    connection = ClusterAction(task, SimpleNamespace(), SimpleNamespace(), None, None, None).waiting_connection(
        {"turn_file": turn_file}
    )
    assert connection.request("get", "/x", what="Thing a") == (200, {})
