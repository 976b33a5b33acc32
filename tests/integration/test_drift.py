# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma.fabric.drift`` on hosts with files of their own and a real API server: what differs, by whom, no change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration.drifting import NAMES, Pushed
from ansible_collections.rdma.fabric.tests.integration.playbooks import ADMINISTRATOR, Json, Outcome, writes
from ansible_collections.rdma.fabric.tests.integration.test_rights import ROLES, person
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

DIFFERS = 2  # what Ansible ends with when a host failed


def screen(outcome: Outcome) -> str:
    """Return what is printed from the number of hosts to the next task."""
    return f"hosts: {outcome.output.partition(chr(10) + 'hosts: ')[2]}".partition("\n\n")[0]


@pytest.mark.repeated
@pytest.mark.first
def test_what_was_changed_by_hand_is_listed_with_who_did_it(pushed: Pushed) -> None:
    pushed.patch("configmap", "edited", {"data": {"key": "theirs"}})
    pushed.patch("daemonset", "agent", {"metadata": {"labels": {"rdma.fabric/set": None}}}, "label-eater")
    image = {"containers": [{"name": "c", "image": "registry.example/agent:evil", "env": None}]}
    pushed.patch("daemonset", "agent", {"spec": {"template": {"spec": image}}}, "set-image")
    pushed.delete("configmap", "deleted")
    pushed.objects(*(pushed.config(name) for name in ("edited", "deleted", "kept")), pushed.daemons())
    limits = pushed.hosts["two"].folder / "etc" / "upper" / LIMITS[len("/etc/") :]
    limits.write_text(limits.read_text().replace("unlimited", "64"))

    outcome = pushed.drift()
    assert outcome.status == DIFFERS, outcome.output
    assert pushed.states() == {
        "two": "differs",
        "ConfigMap edited": "differs",
        "ConfigMap deleted": "missing",
        "ConfigMap dropped": "left_over",
        "DaemonSet agent": "differs",
        f"ConfigMap rdma-fabric-{pushed.namespace}": "differs",
    }
    (edited,) = pushed.fields("edited")
    assert (edited["path"], edited["found"], edited["wanted"]) == ("data.key", "theirs", "ours")
    (owner,) = edited["managers"]
    assert (owner["manager"], owner["operation"], owner["ours"]) == ("kubectl-edit", "Update", False)
    agent = {field["path"]: field for field in pushed.fields("agent")}
    container = "spec.template.spec.containers[0]"
    assert set(agent) == {"metadata.labels.rdma.fabric/set", f"{container}.env", f"{container}.image"}
    assert [owner["manager"] for owner in agent[f"{container}.image"]["managers"]] == ["set-image"]
    assert "found" not in agent[f"{container}.env"]
    printed = screen(outcome)
    assert f'data.key: "theirs", expected "ours"; kubectl-edit, Update, {owner["time"]}' in printed
    assert (
        f"ConfigMap {pushed.namespace}/deleted: missing: an earlier run applied it, so it was deleted since" in printed
    )
    assert f"ConfigMap {pushed.namespace}/dropped: left over: an earlier run applied it" in printed
    assert "  two: 1 step" in printed
    assert LIMITS in printed
    assert outcome.failures["localhost"]["msg"].startswith("1 host different: two; next: ")
    junit = pushed.junit()
    assert (junit["two"], junit["one"]) == ("failure differs", "")
    assert junit[f"{pushed.namespace}/deleted"] == "failure missing"
    assert junit[f"{pushed.namespace}/kept"] == ""

    (pushed.user.here / "rdma-fabric-run" / "drift.json").unlink()
    again = pushed.drift("--check")
    assert pushed.document()["outcome"] == "drift"
    assert (again.status, screen(again)) == (DIFFERS, printed)
    pushed.user.run("site", **pushed.given()).succeeded()
    mark = pushed.cluster.audit.mark()
    outcome = pushed.drift().succeeded()
    assert writes(pushed.cluster.audit.requests(mark, user=ADMINISTRATOR)) == [], "not even a dry run"
    assert set(outcome.changed.values()) == {0}
    assert "result: nothing differs; next: nothing to do" in screen(outcome)
    found = pushed.document()
    assert (found["outcome"], pushed.states()) == ("same", {})
    assert found["summary"]["hosts"] == {"total": 2, "same": 2, "different": 0, "not_compared": 0}
    assert set(pushed.junit().values()) == {""}
    assert set(NAMES) < set(pushed.junit())


def test_a_limit_compares_its_hosts_only_with_what_is_to_be_given_back_and_the_whole_cluster(pushed: Pushed) -> None:
    outcome = pushed.drift("--limit", "one", **pushed.given(rdma_fabric_host_state="absent"))
    assert outcome.status == DIFFERS
    assert pushed.states() == {"one": "differs"}
    assert f"remove {LIMITS}" in screen(outcome)
    found = pushed.document()
    assert [row["host"] for row in found["hosts"]] == ["one"]
    assert {row["name"] for row in found["cluster"]["objects"]} >= {"edited", "agent"}


@pytest.mark.repeated
def test_a_host_that_can_not_be_read_is_no_difference(pushed: Pushed) -> None:
    content = json.loads(pushed.inventory.read_text())
    content["rdma_fabric"]["hosts"]["gone"] = {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    content["rdma_fabric"]["hosts"]["one"]["ansible_python_interpreter"] = "/bin/false"
    pushed.inventory.write_text(json.dumps(content))
    outcome = pushed.drift()
    assert outcome.status == DIFFERS, outcome.output
    assert pushed.document()["outcome"] == "error"
    assert pushed.states() == {"one": "failed", "gone": "unreachable"}
    assert pushed.document()["summary"]["objects"]["not_compared"] == 0, "the cluster is compared all the same"
    junit = pushed.junit()
    assert (junit["one"], junit["gone"], junit["two"]) == ("error failed", "error unreachable", "")
    assert "gone: unreachable: " in screen(outcome)
    assert outcome.failures["localhost"]["msg"].startswith("2 hosts not read: gone,one; next: ")


def kubeconfig_of(path: Path, server: str) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def compared(pushed: Pushed, kubeconfig: Path) -> Json:
    """Return the document of a comparison of the cluster by the action alone."""
    given = {"manifests": [str(pushed.manifest)], "namespace": pushed.namespace}
    spec = run_action("fabric_input", given)["spec"]
    run_dir = pushed.user.here / "compared"
    asked = {"set": pushed.namespace, "run_dir": str(run_dir), "kubeconfig": str(kubeconfig)}
    run_action("fabric_drift", {"spec": spec, **asked})
    found: Json = json.loads((run_dir / "drift.json").read_text(encoding="utf-8"))
    return found


def test_an_api_server_that_can_not_be_reached_is_no_difference(pushed: Pushed, tmp_path: Path) -> None:
    found = compared(pushed, kubeconfig_of(tmp_path / "nowhere", "https://127.0.0.1:1"))
    (error,) = found["cluster"]["errors"]
    assert (found["outcome"], error["fault"]) == ("error", "unreachable")
    assert found["summary"]["objects"]["different"] == 0


def test_the_shipped_role_is_enough_and_its_user_finds_what_an_administrator_does(pushed: Pushed) -> None:
    reader = person(pushed.cluster, *ROLES["rdma-fabric-drift"]["rules"])
    assert compared(pushed, reader)["outcome"] == "same"
    pushed.patch("configmap", "edited", {"data": {"key": "theirs"}})
    pushed.delete("configmap", "deleted")
    pushed.objects(*(pushed.config(name) for name in ("edited", "deleted", "kept")), pushed.daemons())
    by_administrator, by_reader = (compared(pushed, each) for each in (pushed.cluster.kubeconfig, reader))
    assert by_reader["outcome"] == "drift"
    assert by_reader["cluster"]["objects"] == by_administrator["cluster"]["objects"]
    assert "the user has no right to send it" in " ".join(by_reader["notices"])


def test_who_may_not_even_read_is_told_so_and_finds_no_difference(pushed: Pushed) -> None:
    (error,) = compared(pushed, pushed.cluster.client_kubeconfig("nobody-of-drift"))["cluster"]["errors"]
    assert error["fault"] == "forbidden"
    assert 'User "nobody-of-drift" cannot' in error["message"]
