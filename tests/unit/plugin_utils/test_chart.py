# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kubernetes.core.helm is asked, what its answers mean, and what of a chart is sealed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.chart import ChartAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents import charts
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import located
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.shown import shown_difference
from ansible_collections.rdma.fabric.plugins.plugin_utils._sealed.plan import run_of

CHART: dict[str, Any] = {
    "reference": "network-operator",
    "repository": "https://charts.example",
    "version": "26.4.1",
    "release": "ours",
    "namespace": "operators",
    "values": {"nfd": {"enabled": False}},
}
LIVE = {"name": "ours", "chart": "network-operator-26.1.0", "status": "deployed", "values": {"old": 1}}


def test_a_chart_on_the_controller_is_found_and_others_are_left_to_helm(tmp_path: Path) -> None:
    archive, folder = tmp_path / "chart.tgz", tmp_path / "chart"
    archive.touch()
    folder.mkdir()
    (folder / "Chart.yaml").touch()

    def find(name: str) -> Path:
        return tmp_path / name

    assert located("chart.tgz", find) == (str(archive), [])
    assert located("chart", find) == (str(folder), [])
    for reference in ("network-operator", "known/network-operator", "oci://r.example/c", "https://c.example/c.tgz", ""):
        assert located(reference, find) == (reference, [])


@pytest.mark.parametrize(
    ("reference", "why"), [("./gone", "is not on the"), ("gone.tgz", "is not on"), (".", "folder")]
)
def test_a_chart_that_is_not_there_is_named_with_where_it_was_looked_for(
    reference: str, why: str, tmp_path: Path
) -> None:
    _same, (wrong,) = located(reference, lambda name: tmp_path / name)
    assert why in wrong.problem
    assert str(tmp_path) in wrong.hint


def test_helm_gets_the_options_of_a_connection_that_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    action = ChartAction(SimpleNamespace(action="a"), SimpleNamespace(), SimpleNamespace(), DataLoader(), None, None)
    none = dict.fromkeys(("kubeconfig", "context", "host", "api_key", "ca_cert", "validate_certs"))
    assert action.access({**none, "username": "me"}) == {}
    given = {"context": "c", "host": "https://h", "api_key": "k", "ca_cert": "/ca", "validate_certs": False}
    assert action.access({**none, **given}) == given
    for written, path in (("~/k", "/home/me/k"), ("k", f"{tmp_path}/k"), ("/k", "/k")):
        assert action.access({**none, "kubeconfig": written}) == {"kubeconfig": path}
    data: dict[str, Any] = {"clusters": [], "users": []}
    assert action.access({**none, "kubeconfig": data}) == {"kubeconfig": data}


class Unsafe(str):
    """Stands for what ansible-core before 2.19 makes of the text of answers."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


class Answered(ChartAction):
    """An action whose Helm has a release."""

    def _execute_module(self, **_asked: Any) -> dict[str, Any]:
        assert self._task.no_log, "or the module writes values of the chart to the controller's log"
        values = {Unsafe("old"): Unsafe("value")}
        return {
            "status": {"values": {"declared": {**LIVE, "chart": Unsafe("network-operator-26.1.0"), "values": values}}}
        }


def test_the_answer_of_helm_is_plain_data_that_a_difference_can_be_written_of() -> None:
    task = SimpleNamespace(action="a", check_mode=False, no_log=False)
    action = Answered(task, SimpleNamespace(), SimpleNamespace(), None, None, None)
    live = charts.release_of(action.helm("helm", {}, {}, check=True))
    before = charts.difference(CHART, live)["before"]
    assert before == "chart: network-operator-26.1.0\nvalues:\n  old: value\n"
    assert (task.check_mode, task.no_log) == (False, False)


def test_the_module_is_asked_for_the_release_and_told_nothing_that_is_not_given() -> None:
    access = {"kubeconfig": "/k"}
    asked = charts.install_arguments(CHART, access)
    assert asked == {
        "chart_ref": "network-operator",
        "chart_repo_url": "https://charts.example",
        "chart_version": "26.4.1",
        "release_values": {"nfd": {"enabled": False}},
        "release_name": "ours",
        "release_namespace": "operators",
        "kubeconfig": "/k",
    }
    alone = charts.install_arguments({**CHART, "reference": "/c.tgz", "repository": "", "version": ""}, {})
    assert not {"chart_repo_url", "chart_version", "kubeconfig"} & set(alone)


def test_the_difference_is_that_of_chart_and_values() -> None:
    shown = charts.difference(CHART, LIVE)
    assert shown["before"] == "chart: network-operator-26.1.0\nvalues:\n  old: 1\n"
    assert shown["after"] == "chart: network-operator-26.4.1\nvalues:\n  nfd:\n    enabled: false\n"
    assert charts.difference(CHART, {})["before"] == ""


@pytest.mark.parametrize(
    ("reference", "version", "name"),
    [
        ("/a/network-operator-26.1.0.tgz", "", "network-operator-26.1.0"),
        ("https://c.example/network-operator-26.1.0.tgz?x=/y", "", "network-operator-26.1.0"),
        ("oci://r.example:5000/c/network-operator:26.1.0", "", "network-operator-26.1.0"),
        ("oci://r.example:5000/c/network-operator:26.1.0@sha256:0", "", "network-operator-26.1.0"),
        ("oci://r.example:5000/c/network-operator:26.1.0_b1", "", "network-operator-26.1.0+b1"),
        ("oci://r.example:5000/c/network-operator", "26.1.0", "network-operator-26.1.0"),
        ("known/network-operator", "26.1.0", "network-operator-26.1.0"),
        ("/a/network-operator", "", "network-operator"),
        ("/a/other-26.4.1.tgz", "", "other-26.4.1"),
    ],
)
def test_the_difference_names_a_chart_as_its_release_does(reference: str, version: str, name: str) -> None:
    shown = charts.difference({**CHART, "reference": reference, "version": version, "repository": ""}, LIVE)
    assert shown["after"].splitlines()[0] == f"chart: {name}"


def test_the_difference_hides_what_may_be_secret_and_says_where_it_changes() -> None:
    def values(key: str, proxy: str) -> dict[str, Any]:
        controller = {"certificate": {"tlsCrt": "public", "tlsKey": key}}
        return {"operator": {"admissionController": controller}, "proxy": proxy, "password": "kept-one"}

    old = {**LIVE, "values": values("old-one", "http://u:old-two@p.example")}
    difference = charts.difference({**CHART, "values": values("new-one", "http://u:new-two@p.example")}, old)
    shown = shown_difference(difference)
    text = shown["before"] + shown["after"]
    assert not [secret for secret in ("old-one", "old-two", "new-one", "new-two", "kept-one") if secret in text]
    assert "tlsCrt: public" in text
    changed = [line for line in shown["after"].splitlines() if line not in shown["before"].splitlines()]
    assert [line.strip() for line in changed[1:]] == ['tlsKey: "(hidden, changed)"', 'proxy: "(hidden, changed)"']


def test_a_release_is_read_from_an_answer_in_check_mode() -> None:
    answer = {"status": {"values": {"current": {}, "declared": {**LIVE, "status": "failed"}}}}
    assert charts.is_failed(answer)
    assert not charts.is_failed({"status": {"values": {"current": {}, "declared": {}}}})
    assert charts.release_of({"status": None}) == {}


@pytest.mark.parametrize(
    ("stderr", "said", "step"),
    [
        ('W: old\nError: chart "x" version "9" not found in r\n', 'helm: chart "x" version "9" not found', "_version"),
        (
            "Error: UPGRADE FAILED: another operation (install/upgrade) is in progress\n",
            "another operation",
            "rollback",
        ),
        ("Error: INSTALLATION FAILED: timed out waiting for the condition\n", "timed out", "pods of the release"),
        ('Error: roles "x" is forbidden: y\n', "is forbidden", "administrator"),
        ("something else", "helm: something else", "run again"),
    ],
)
def test_what_helm_says_comes_with_the_next_step(stderr: str, said: str, step: str) -> None:
    text = charts.failure({"msg": "Failure when executing Helm command", "stderr": stderr})
    assert said in text
    assert step in text.partition("(next: ")[2] or step in text


def test_a_sealed_plan_holds_the_chart_and_not_where_its_file_lies() -> None:
    def objects(**other: Any) -> dict[str, str]:
        spec = {"chart": {**CHART, "reference": "/a/chart.tgz", **other}, "resources": [], "attachments": []}
        return run_of(spec, {}, plain).objects

    assert objects(reference="/b/chart.tgz") == objects()
    others: list[dict[str, Any]] = [{"values": {}}, {"version": "26.1.0"}, {"reference": "/a/other.tgz"}]
    for other in others:
        changed = {name for name, digest in objects(**other).items() if digest != objects()[name]}
        assert changed == {"Helm release operators/ours"}
