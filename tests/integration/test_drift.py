# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma.fabric.drift`` on hosts with files of their own and a real API server: what differs, by whom, no change."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Iterator
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Json,
    Outcome,
    User,
    stored_writes,
    writes,
)
from ansible_collections.rdma.fabric.tests.integration.test_rights import ROLES, person
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.checkout import CHECKOUT

SCHEMA = json.loads((CHECKOUT / "docs" / "drift.schema.json").read_text(encoding="utf-8"))
DIFFERS = 2  # what Ansible ends with when a host failed
NAMES = ("one", "two")


class Place:
    """Two hosts and some objects of one set in a namespace, to which ``site`` was run."""

    def __init__(self, cluster: ControlPlane, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.user = User(folder / "user")
        self.hosts = {name: OwnFiles(folder / name) for name in NAMES}
        self.inventory = inventory_of(folder, self.hosts, rdma_fabric_limits={"memlock": "unlimited"})
        self.manifest = folder / "objects.yaml"
        self.objects(*(self.config(name) for name in ("edited", "deleted", "kept", "dropped")), self.daemons())
        self.user.run("site", **self.given()).succeeded()

    def given(self, **variables: Any) -> Json:
        own = {"rdma_fabric_namespace": self.namespace, "rdma_fabric_set": self.namespace, "rdma_fabric_wait": False}
        manifests = {"rdma_fabric_manifests": [str(self.manifest)]}
        return {
            "inventory": self.inventory,
            "variables": {**own, **manifests, **variables},
            "cluster": self.cluster,
            "kubeconfig": self.cluster.kubeconfig,
        }

    def objects(self, *bodies: Json) -> None:
        self.manifest.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")

    def config(self, name: str, value: str = "ours") -> Json:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}

    def daemons(self) -> Json:
        metadata = {"name": "agent", "namespace": self.namespace}
        container = {"name": "c", "image": "registry.example/agent:1", "env": [{"name": "LEVEL", "value": "info"}]}
        template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}

    def kubectl(self, *words: str) -> None:
        self.cluster.kubectl(*words, "--namespace", self.namespace)

    def patch(self, kind: str, name: str, body: Json, manager: str = "kubectl-edit") -> None:
        """Change an object as somebody else: without force, as kubectl's own commands do."""
        self.kubectl("patch", kind, name, "--patch", json.dumps(body), f"--field-manager={manager}")

    def drift(self, *arguments: str, **changes: Any) -> Outcome:
        """Run the playbook; nothing may be written to a host or to the cluster."""
        mark, before = self.cluster.audit.mark(), self.content()
        outcome = self.user.run("drift", *arguments, **{**self.given(), **changes})
        assert self.content() == before, "a host was written to"
        assert stored_writes(self.cluster.audit, mark) == []
        return outcome

    def content(self) -> dict[str, str]:
        """Return every file that a host has of its own, with a digest and what tells a file that was written anew."""
        found = {}
        for root, _folders, files in os.walk(self.inventory.parent):
            for path in (Path(root, name) for name in files):
                if any(path.is_relative_to(host.folder) for host in self.hosts.values()):
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    found[str(path)] = f"{digest} {path.stat().st_mtime_ns}"
        return found

    def document(self) -> Json:
        path = self.user.here / "rdma-fabric-run" / "drift.json"
        found: Json = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(found, SCHEMA)
        return found

    def junit(self) -> dict[str, str]:
        """Return what became of each test case: nothing, or the element in it with its type."""
        tree = ElementTree.parse(self.user.here / "rdma-fabric-run" / "drift.xml")  # noqa: S314 - our own file
        return {
            str(case.get("name")): " ".join(f"{child.tag} {child.get('type')}" for child in case)
            for case in tree.iter("testcase")
        }

    def states(self) -> dict[str, str]:
        """Return the state of each object and host that is not as wanted."""
        found = self.document()
        rows = [(row["host"], row["state"]) for row in found["hosts"]]
        rows += [(f"{row['kind']} {row['name']}", row["state"]) for row in found["cluster"]["objects"]]
        return {name: state for name, state in rows if state != "same"}

    def fields(self, name: str) -> list[Json]:
        (row,) = [row for row in self.document()["cluster"]["objects"] if row["name"] == name]
        found: list[Json] = row["differences"]
        return found


@pytest.fixture
def place(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Place]:
    yield Place(control_plane, namespace, tmp_path)
    definitions = [f"clusterrole/{namespace}", f"clusterrolebinding/{namespace}"]
    control_plane.kubectl("delete", "--ignore-not-found", *definitions)


def screen(outcome: Outcome) -> str:
    """Return what is printed from the number of hosts to the next task."""
    return f"hosts: {outcome.output.partition(chr(10) + 'hosts: ')[2]}".partition("\n\n")[0]


def test_after_a_run_nothing_differs_and_nothing_is_sent(place: Place) -> None:
    mark = place.cluster.audit.mark()
    outcome = place.drift().succeeded()
    assert writes(place.cluster.audit.requests(mark, user=ADMINISTRATOR)) == [], "not even a dry run"
    assert set(outcome.changed.values()) == {0}
    assert "result: nothing differs; next: nothing to do" in screen(outcome)
    found = place.document()
    assert (found["outcome"], place.states()) == ("same", {})
    assert found["summary"]["hosts"] == {"total": 2, "same": 2, "different": 0, "not_compared": 0}
    assert set(place.junit().values()) == {""}
    assert set(NAMES) < set(place.junit())


def test_what_was_changed_by_hand_is_listed_with_who_did_it(place: Place) -> None:
    place.patch("configmap", "edited", {"data": {"key": "theirs"}})
    place.patch("daemonset", "agent", {"metadata": {"labels": {"rdma.fabric/set": None}}}, "label-eater")
    image = {"containers": [{"name": "c", "image": "registry.example/agent:evil", "env": None}]}
    place.patch("daemonset", "agent", {"spec": {"template": {"spec": image}}}, "set-image")
    place.kubectl("delete", "configmap", "deleted")
    place.objects(*(place.config(name) for name in ("edited", "deleted", "kept")), place.daemons())
    limits = place.hosts["two"].folder / "etc" / "upper" / LIMITS[len("/etc/") :]
    limits.write_text(limits.read_text().replace("unlimited", "64"))

    outcome = place.drift()
    assert outcome.status == DIFFERS, outcome.output
    assert place.states() == {
        "two": "differs",
        "ConfigMap edited": "differs",
        "ConfigMap deleted": "missing",
        "ConfigMap dropped": "left_over",
        "DaemonSet agent": "differs",
        f"ConfigMap rdma-fabric-{place.namespace}": "differs",
    }
    (edited,) = place.fields("edited")
    assert (edited["path"], edited["found"], edited["wanted"]) == ("data.key", "theirs", "ours")
    (owner,) = edited["managers"]
    assert (owner["manager"], owner["operation"], owner["ours"]) == ("kubectl-edit", "Update", False)
    agent = {field["path"]: field for field in place.fields("agent")}
    container = "spec.template.spec.containers[0]"
    assert set(agent) == {"metadata.labels.rdma.fabric/set", f"{container}.env", f"{container}.image"}
    assert [owner["manager"] for owner in agent[f"{container}.image"]["managers"]] == ["set-image"]
    assert "found" not in agent[f"{container}.env"]
    printed = screen(outcome)
    assert f'data.key: "theirs", wanted "ours"; kubectl-edit, Update, {owner["time"]}' in printed
    assert (
        f"ConfigMap {place.namespace}/deleted: missing: an earlier run applied it, so it was deleted since" in printed
    )
    assert f"ConfigMap {place.namespace}/dropped: left over: an earlier run applied it" in printed
    assert "  two: 1 step" in printed
    assert LIMITS in printed
    assert outcome.failures["localhost"]["msg"].startswith("1 host different: two; next: ")
    junit = place.junit()
    assert (junit["two"], junit["one"]) == ("failure differs", "")
    assert junit[f"{place.namespace}/deleted"] == "failure missing"
    assert junit[f"{place.namespace}/kept"] == ""

    again = place.drift("--check")
    assert (again.status, screen(again)) == (DIFFERS, printed)
    place.user.run("site", **place.given()).succeeded()
    place.drift().succeeded()


def test_equal_differences_of_hosts_are_one_class(place: Place) -> None:
    outcome = place.drift(**place.given(rdma_fabric_limits={"memlock": 65536}))
    assert outcome.status == DIFFERS
    assert "  one,two (2 hosts): 2 steps" in screen(outcome)
    reasons = {row["host"]: row["differences"] for row in place.document()["hosts"]}
    assert reasons["one"] == reasons["two"]


def test_the_input_of_a_host_that_is_to_be_given_back_counts(place: Place) -> None:
    outcome = place.drift("--limit", "one", **place.given(rdma_fabric_host_state="absent"))
    assert outcome.status == DIFFERS
    assert place.states() == {"one": "differs"}
    assert f"remove {LIMITS}" in screen(outcome)


def test_a_host_that_can_not_be_read_is_no_difference(place: Place) -> None:
    content = json.loads(place.inventory.read_text())
    content["rdma_fabric"]["hosts"]["gone"] = {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    content["rdma_fabric"]["hosts"]["one"]["ansible_python_interpreter"] = "/bin/false"
    place.inventory.write_text(json.dumps(content))
    outcome = place.drift()
    assert outcome.status == DIFFERS, outcome.output
    assert place.document()["outcome"] == "error"
    assert place.states() == {"one": "failed", "gone": "unreachable"}
    assert place.document()["summary"]["objects"]["not_compared"] == 0, "the cluster is compared all the same"
    junit = place.junit()
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


def test_an_api_server_that_can_not_be_reached_is_no_difference(place: Place, tmp_path: Path) -> None:
    outcome = place.drift(kubeconfig=kubeconfig_of(tmp_path / "nowhere", "https://127.0.0.1:1"))
    assert outcome.status == DIFFERS, outcome.output
    found = place.document()
    (error,) = found["cluster"]["errors"]
    assert (found["outcome"], error["fault"]) == ("error", "unreachable")
    assert found["summary"]["objects"]["different"] == 0
    junit = place.junit()
    assert junit["https://127.0.0.1:1"] == "error unreachable"
    assert {junit[name] for name in NAMES} == {""}
    assert {state for name, state in junit.items() if "/" in name and "https" not in name} == {"skipped None"}
    assert "the cluster was not compared" in outcome.failures["localhost"]["msg"]


def test_the_shipped_role_is_enough_and_its_user_finds_what_an_administrator_does(place: Place) -> None:
    reader = person(place.cluster, *ROLES["rdma-fabric-drift"]["rules"])
    place.drift(kubeconfig=reader).succeeded()
    place.patch("configmap", "edited", {"data": {"key": "theirs"}})
    place.kubectl("delete", "configmap", "deleted")
    place.objects(*(place.config(name) for name in ("edited", "deleted", "kept")), place.daemons())
    assert place.drift().status == DIFFERS
    by_administrator = place.document()
    outcome = place.drift(kubeconfig=reader)
    assert outcome.status == DIFFERS, outcome.output
    by_reader = place.document()
    assert by_reader["cluster"]["objects"] == by_administrator["cluster"]["objects"]
    assert "the user has no right to send it" in " ".join(by_reader["notices"])


def test_who_may_not_even_read_is_told_so_and_finds_no_difference(place: Place) -> None:
    outcome = place.drift(kubeconfig=place.cluster.client_kubeconfig("nobody-of-drift"))
    assert outcome.status == DIFFERS, outcome.output
    (error,) = place.document()["cluster"]["errors"]
    assert error["fault"] == "forbidden"
    assert 'User "nobody-of-drift" cannot' in error["message"]


def test_a_limit_compares_its_hosts_only_and_the_whole_cluster(place: Place) -> None:
    place.drift("--limit", "two").succeeded()
    found = place.document()
    assert [row["host"] for row in found["hosts"]] == ["two"]
    assert {row["name"] for row in found["cluster"]["objects"]} >= {"edited", "agent"}


def test_input_that_is_wrong_ends_the_run_before_anything_is_compared(place: Place) -> None:
    outcome = place.drift(**place.given(rdma_fabric_limits={"memlock": ["much"]}))
    assert outcome.status == DIFFERS
    assert any("limits" in str(violation) for violation in outcome.violations())
    assert "rdma-fabric-run/drift.json" not in place.user.files()


def test_a_run_directory_that_can_not_be_written_is_named(place: Place) -> None:
    (place.user.here / "file").write_text("")
    outcome = place.drift("-e", "rdma_fabric_run_dir=file/run")
    assert outcome.status == DIFFERS
    assert "the run directory" in outcome.message and "give another one" in outcome.message
