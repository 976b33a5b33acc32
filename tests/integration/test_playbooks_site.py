# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``site`` on the recorded fleet: shown first, applied once, unchanged the second time, drift repaired."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.bench.site import per_host
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Outcome,
    User,
    stored,
    stored_writes,
    writes,
)
from ansible_collections.rdma.fabric.tests.lab.audit import Request
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.fleet import INVENTORY, RECORDINGS, SUFFIX

HOSTS = sorted(path.name[: -len(SUFFIX)] for path in RECORDINGS.glob(f"*{SUFFIX}"))
MANIFESTS = sorted((INVENTORY.parent / "manifests").glob("*.yaml"))
NAMESPACE = "nvidia-network-operator"
NAD = "network-attachment-definitions.k8s.cni.cncf.io"
SERVERS_OWN_NAMESPACES = {"default", "kube-node-lease", "kube-public", "kube-system"}


@dataclass(frozen=True)
class Observed:
    """One run with what it asked of the API server, what was there afterwards, and what lay in the user's folder."""

    outcome: Outcome
    requests: list[Request]
    stored_writes: list[str]
    namespaces: set[str]
    files: list[str]


def observe(cluster: ControlPlane, user: User, *arguments: str) -> Observed:
    mark = cluster.audit.mark()
    outcome = user.run("site", *arguments, inventory=INVENTORY, cluster=cluster).succeeded()
    names = cluster.kubectl("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split()
    requests = cluster.audit.requests(mark, user=ADMINISTRATOR)
    return Observed(outcome, requests, stored_writes(cluster.audit, mark), set(names), user.files())


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def shown(fleet_cluster: ControlPlane, user: User) -> Observed:
    """``--check --diff`` while the cluster is empty."""
    return observe(fleet_cluster, user, "--check", "--diff")


@pytest.fixture(scope="module")
def first(fleet_cluster: ControlPlane, user: User, shown: Observed) -> Observed:
    return observe(fleet_cluster, user)


@pytest.fixture(scope="module")
def second(fleet_cluster: ControlPlane, user: User, first: Observed) -> Observed:
    return observe(fleet_cluster, user)


@pytest.mark.repeated
def test_check_on_an_empty_cluster_stores_nothing(shown: Observed) -> None:
    assert shown.stored_writes == []
    assert shown.namespaces == SERVERS_OWN_NAMESPACES


@pytest.mark.repeated
def test_check_with_diff_shows_every_object_and_the_plan_of_every_host(shown: Observed, first: Observed) -> None:
    said = shown.outcome.output
    for kind, name in [
        ("Namespace", NAMESPACE),
        ("CustomResourceDefinition", NAD),
        ("ClusterRole", "multus"),
        ("DaemonSet", f"{NAMESPACE}/kube-multus-ds"),
        ("NetworkAttachmentDefinition", "ai-training/rdma-macvlan"),
    ]:
        assert f"+++ after: {kind} {name}" in said
    assert said.count("+++ after: ") == sum(request.code in (200, 201) for request in patches(first))
    plans = dict(
        re.findall(r"^(\S+(?: \(\d+ hosts\))?): (?:\d+ steps|nothing to do)\n((?:  .*\n)*)", said, re.MULTILINE)
    )
    assert set(plans) >= {"dgx-h100-01,dgx-h100-02 (2 hosts)", "egx-01,egx-02 (2 hosts)", "roce-h100-01", "cpu-01"}
    assert "\n  planned: vfs 0000:18:00.0" in plans["roce-h100-01"]
    assert plans["cpu-01"] == ""

    created = made(first)
    assert f"{created} objects to create, " in said
    assert "in the cluster" not in said.partition("RUN RESULT")[2]


def made(observed: Observed) -> int:
    """Return how many objects a run made, its inventory among them."""
    return len({request.uri.split("?")[0] for request in patches(observed)})


def patches(observed: Observed) -> list[Request]:
    """Return the applies of a run, without the dry runs that it makes before it touches a host."""
    applied = [request for request in observed.requests if request.verb == "patch" and not request.subresource]
    return [request for request in applied if not request.dry_run]


@pytest.mark.repeated
def test_the_first_run_creates_and_reports_what_check_mode_announced(shown: Observed, first: Observed) -> None:
    assert first.outcome.changed["localhost"] == shown.outcome.changed["localhost"] == 1
    assert {first.outcome.changed[host] for host in HOSTS} == {0}
    assert {NAMESPACE, "ai-training"} < first.namespaces
    hosts = [f"rdma-fabric-run/hosts/{host}.json" for host in HOSTS]
    assert [name for name in first.files if not name.startswith("rdma-fabric-run/")] == []
    assert {*hosts, "rdma-fabric-run/report.json", "rdma-fabric-run/report.html"} <= set(first.files)


@pytest.mark.repeated
def test_the_second_run_changes_nothing_and_asks_one_list_per_kind(first: Observed, second: Observed) -> None:
    assert writes(second.requests) == []
    lists = [request.uri.split("?")[0] for request in second.requests if request.verb == "list"]
    # One look before the hosts and one at the push; each reads the ConfigMaps of the set twice, as its inventory
    # tells where else to look.
    assert len(lists) <= 2 * (len(set(lists)) + 1)
    # What is around the set is asked for once: the user and his rights, the server's groups and release, nodes,
    # networks of services (2), workloads of others (2), webhooks (2), and the namespaces of this test.
    around = [
        request.uri.split("?")[0] for request in second.requests if "labelSelector=rdma.fabric" not in request.uri
    ]
    assert len(around) == len(set(around)) <= 12
    assert set(second.outcome.changed.values()) == {0}
    assert second.files == first.files


def test_a_run_costs_one_task_per_host_and_skips_none_of_them(second: Observed) -> None:
    assert set(second.outcome.counts) == {*HOSTS, "localhost"}
    costs = per_host(second.outcome.counts)
    assert costs["site.steady.tasks_per_host"] == 1
    assert costs["site.steady.modules_per_host"] == 1
    assert costs["site.steady.skipped_per_host"] == 0
    # Localhost is in the play of the hosts so that it never ends the run, and has nothing to do there; only check mode
    # seals a plan and fails at its end.
    besides = {key: count for key, count in second.outcome.counts["localhost"].items() if not key.startswith("ok ")}
    assert besides == {
        "skipped rdma.fabric.rdma_host": 1,
        "skipped rdma.fabric.fabric_hosts": 1,
        "skipped rdma.fabric.fabric_seal": 1,
        # Of a run that goes no further than what it looks at first.
        "skipped rdma.fabric.fabric_result": 1,
        # The engine is direct.
        "skipped rdma.fabric.fabric_chart": 1,
        # NFD labels the nodes, and hosts bring their drivers: nothing is to be said of containers, nor waited for.
        "skipped rdma.fabric.node_labels": 2,
        "skipped rdma.fabric.k8s_batch": 1,
        # No host has other VFs than before.
        "skipped rdma.fabric.node_devices": 1,
        # No node is drained, so none is looked for that an earlier run has left cordoned.
        "skipped rdma.fabric.node_slot_info": 1,
        # What a play for localhost has validated is there for other plays.
        "skipped ansible.builtin.set_fact": 1,
    }
    assert "End here" not in second.outcome.output
    assert second.outcome.output.count("TASK [") <= 22


@pytest.mark.repeated
def test_check_mode_after_it_reports_no_change_at_all(
    fleet_cluster: ControlPlane, user: User, second: Observed
) -> None:
    checked = observe(fleet_cluster, user, "--check", "--diff")
    assert "objects in the cluster, " in checked.outcome.result["counts"]
    assert " to create" not in checked.outcome.result["counts"]
    assert set(checked.outcome.changed.values()) == {0}
    assert writes(checked.requests) == []
    assert "+++ after: " not in checked.outcome.output


def test_drift_is_repaired_a_foreign_field_stays_and_a_dropped_network_goes(
    fleet_cluster: ControlPlane, user: User, second: Observed
) -> None:
    multus = ("daemonset", "kube-multus-ds", NAMESPACE)
    wanted = stored(fleet_cluster, *multus)["spec"]["template"]["spec"]
    drift = {
        "metadata": {"labels": {"somebody": "else"}},
        "spec": {"template": {"spec": {"hostNetwork": not wanted["hostNetwork"]}}},
    }
    fleet_cluster.kubectl("patch", *multus[:2], "-n", NAMESPACE, "--type=merge", "-p", json.dumps(drift))
    fleet_cluster.kubectl("delete", "configmap", "rdma-devices", "-n", NAMESPACE)
    kept = [str(path) for path in MANIFESTS if path.stem != "rdma-storage"]
    run = observe(fleet_cluster, user, "-e", json.dumps({"rdma_fabric_manifests": kept}))
    live = stored(fleet_cluster, *multus)
    assert live["spec"]["template"]["spec"] == wanted
    assert live["metadata"]["labels"]["somebody"] == "else"
    assert stored(fleet_cluster, "configmap", "rdma-devices", NAMESPACE)["data"]
    with pytest.raises(subprocess.CalledProcessError, match="non-zero") as gone:
        stored(fleet_cluster, NAD, "rdma-storage", "ai-training")
    assert "NotFound" in gone.value.stderr
    # One repaired, one made again, one removed; inventory and Lease of the set are written before and after.
    of_the_set = ("rdma-fabric-rdma-fabric", "/leases")
    assert len([line for line in run.stored_writes if not any(name in line for name in of_the_set)]) == 3
    counts = user.report()["cluster"]["counts"]
    assert (counts["configured"], counts["created"], counts["deleted"]) == (1 + 1, 1, 1)  # and the inventory


def test_a_run_that_is_given_nothing_fails_and_does_not_remove_the_cluster_side(
    fleet_cluster: ControlPlane, second: Observed, tmp_path: Path
) -> None:
    forgetful, mark = User(tmp_path), fleet_cluster.audit.mark()
    outcome = forgetful.run("site", cluster=fleet_cluster).refused()
    assert "there is nothing to do: the inventory has no host in the group rdma_fabric" in outcome.message
    assert fleet_cluster.audit.requests(mark, user=ADMINISTRATOR) == []
    assert stored(fleet_cluster, "daemonset", "kube-multus-ds", NAMESPACE)


def test_limited_to_a_host_it_brings_that_host_and_the_whole_cluster_side(
    fleet_cluster: ControlPlane, second: Observed, tmp_path: Path
) -> None:
    """Objects come from the input, which is read for every host: what a limit leaves out keeps what belongs to it."""
    alone, mark = User(tmp_path), fleet_cluster.audit.mark()
    outcome = alone.run("site", "--limit", "egx-01", inventory=INVENTORY, cluster=fleet_cluster).succeeded()
    assert set(outcome.counts) == {"egx-01"}
    assert outcome.counts["egx-01"]["ok rdma.fabric.rdma_host"] == 1
    deleted = [line for line in stored_writes(fleet_cluster.audit, mark) if line.startswith("delete")]
    assert [line for line in deleted if "/leases/" not in line] == []
    objects = alone.report()["cluster"]["counts"]
    assert (objects["deleted"], objects["total"]) == (
        0,
        objects["created"] + objects["configured"] + objects["unchanged"],
    )
    assert stored(fleet_cluster, NAD, "rdma-storage", "ai-training")
    assert [name for name in alone.files() if "/hosts/" in name] == ["rdma-fabric-run/hosts/egx-01.json"]


@pytest.mark.repeated
def test_a_limit_counts_whether_it_names_localhost_or_not(tmp_path: Path) -> None:
    outcome = User(tmp_path).run("preview", "--limit", "egx*,!egx-02,localhost", inventory=INVENTORY).succeeded()
    assert set(outcome.counts) == {"egx-01", "localhost"}
    assert "not in this report: 6 hosts, which the limit leaves out" in " ".join(outcome.output.split())


def test_hosts_outside_of_a_limit_are_validated_all_the_same(tmp_path: Path) -> None:
    lost = {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "mut": 9000}]}
    fine = {"rdma_fabric_recording": str(RECORDINGS / f"egx-01{SUFFIX}")}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"rdma_fabric": {"hosts": {"one": fine, "two": lost}}}))
    user = User(tmp_path / "user")
    (violation,) = user.run("site", "--limit", "one", inventory=path).refused().violations()
    assert violation["source"].startswith("host two: ")
    assert user.files() == []


def test_variables_of_localhost_count_where_a_limit_leaves_it_out(tmp_path: Path) -> None:
    """As the README writes an inventory: the cluster objects are localhost's, by the inventory's own folder."""
    (tmp_path / "policy.yaml").write_text(MANIFESTS[0].read_text(encoding="utf-8"), encoding="utf-8")
    egx = {"rdma_fabric_recording": str(RECORDINGS / f"egx-01{SUFFIX}")}
    of_localhost = {"rdma_fabric_manifests": ["{{ inventory_dir }}/policy.yaml"], "rdma_fabric_run_dir": "its-own"}
    hosts = {"rdma_fabric": {"hosts": {"one": egx}}, "ungrouped": {"hosts": {"localhost": of_localhost}}}
    (tmp_path / "hosts.json").write_text(json.dumps(hosts), encoding="utf-8")
    user = User(tmp_path / "user")
    user.run("preview", "--limit", "one", inventory=tmp_path / "hosts.json").succeeded()
    report = json.loads((user.here / "its-own" / "report.json").read_text(encoding="utf-8"))
    assert report["cluster"]["counts"]["rendered"] > 10
    assert [host["name"] for host in report["hosts"]] == ["one"]


@dataclass(frozen=True)
class Reported:
    """A user with the report of an earlier run, and an inventory with a tab."""

    user: User
    kept: dict[str, bytes]
    tabbed: Path

    def files(self) -> dict[str, bytes]:
        return {name: (self.user.here / name).read_bytes() for name in self.user.files()}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    user = User(tmp_path_factory.mktemp("reported"))
    user.run("preview", inventory=INVENTORY).succeeded()
    tabbed = user.home / "tabbed.yml"
    tabbed.write_text("rdma_fabric:\n\thosts: {gpu-01: }\n", encoding="utf-8")
    found = Reported(user, {}, tabbed)
    found.kept.update(found.files())
    return found


@pytest.mark.parametrize("given", ["its hosts", "a tag"])
@pytest.mark.parametrize("playbook", ["site", "record", "support"])
def test_a_run_that_leaves_out_what_it_was_asked_for_fails_and_keeps_the_report(
    playbook: str, given: str, reported: Reported
) -> None:
    """By one playbook of each file that looks (tests/unit/test_first_plays.py)."""
    if given == "a tag":
        arguments, inventory = ["--tags", "cluster"], INVENTORY
        said = "--tags cluster would leave out what this playbook is for"
    else:
        arguments, inventory = [], reported.tabbed
        said = "tabbed.yml: cannot be read from line 2 on"
        if playbook == "record":
            said = f"no host of the inventory {inventory} matches rdma_fabric"
    outcome = reported.user.run(playbook, *arguments, inventory=inventory).refused()
    assert said in outcome.message, outcome.output
    assert outcome.result["result"] == "refused"
    assert reported.files() == reported.kept


TAGGED = """\
- name: Test something else
  hosts: localhost
  gather_facts: false
  tags: smoke
  tasks:
    - ansible.builtin.debug: {msg: tested something else}
- name: See to the fabric
  ansible.builtin.import_playbook: rdma.fabric.preflight
  tags: [fabric]
"""


def test_a_playbook_that_is_imported_with_tags_runs_with_them_and_is_left_out_with_others(tmp_path: Path) -> None:
    user = User(tmp_path)
    own = user.here / "own.yml"
    own.write_text(TAGGED)
    outcome = user.run(str(own), "--tags", "fabric", inventory=INVENTORY)
    assert outcome.status == 0, outcome.output
    assert "tested something else" not in outcome.output
    assert "would leave out" in user.run(str(own), "--tags", "smoke", inventory=INVENTORY).refused().message
    left_out = user.run(str(own), "--tags", "smoke", "--skip-tags", "fabric", inventory=INVENTORY)
    assert left_out.status == 0, left_out.output
    assert "tested something else" in left_out.output


@pytest.mark.repeated
def test_the_pattern_of_hosts_counts_wherever_it_is_set(tmp_path: Path) -> None:
    """It is in group_vars/all, as are wishes of variables that only hosts have, which are no matter of localhost."""
    egx = {"rdma_fabric_recording": str(RECORDINGS / f"egx-01{SUFFIX}"), "my_modules": ["ib_umad"]}
    wishes = {"rdma_fabric_hosts_pattern": "gpus", "rdma_fabric_kernel_modules": "{{ my_modules }}"}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": wishes, "children": {"gpus": {"hosts": {"one": egx}}}}}))
    outcome = User(tmp_path / "user").run("site", inventory=path).succeeded()
    assert outcome.failures == {}
    assert "my_modules" not in outcome.output
    assert outcome.counts["one"]["ok rdma.fabric.rdma_host"] == 1
