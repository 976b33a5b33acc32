# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task's environment is there while the task runs, and only then; its progress spoils no JSON."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible import constants

from ansible_collections.rdma.fabric.plugins.plugin_utils._cluster_action import ClusterAction, task_environment


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
