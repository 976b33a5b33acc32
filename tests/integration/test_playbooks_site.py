# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``site`` on the recorded fleet: shown first, applied once, unchanged the second time, drift repaired."""

from __future__ import annotations

import json
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


def test_check_on_an_empty_cluster_stores_nothing(shown: Observed) -> None:
    assert shown.stored_writes == []
    assert shown.namespaces == SERVERS_OWN_NAMESPACES


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
    planned = [line for line in said.splitlines() if line.startswith("[roce-h100-01] ")]
    assert "planned: vfs 0000:18:00.0" in "\n".join(planned)
    assert {line.split("]")[0][1:] for line in said.splitlines() if line.startswith("[") and "] " in line} >= {
        host for host in HOSTS if host.startswith(("dgx", "roce", "egx"))
    }

    created = made(first)
    assert f"check mode, nothing was changed; a run would mean for objects: {created} created" in said


def made(observed: Observed) -> int:
    """Return how many objects a run made, its inventory among them."""
    return len({request.uri.split("?")[0] for request in patches(observed)})


def patches(observed: Observed) -> list[Request]:
    return [request for request in observed.requests if request.verb == "patch" and not request.subresource]


def test_the_first_run_creates_and_reports_what_check_mode_announced(shown: Observed, first: Observed) -> None:
    assert first.outcome.changed["localhost"] == shown.outcome.changed["localhost"] == 1
    assert {first.outcome.changed[host] for host in HOSTS} == {0}
    assert {NAMESPACE, "ai-training"} < first.namespaces
    hosts = [f"rdma-fabric-run/hosts/{host}.json" for host in HOSTS]
    assert [name for name in first.files if not name.startswith("rdma-fabric-run/")] == []
    assert {*hosts, "rdma-fabric-run/report.json", "rdma-fabric-run/report.html"} <= set(first.files)


def test_the_second_run_changes_nothing_and_asks_one_list_per_kind(first: Observed, second: Observed) -> None:
    assert writes(second.requests) == []
    lists = [request.uri.split("?")[0] for request in second.requests if request.verb == "list"]
    # The ConfigMaps of the set are read twice: its inventory tells where else to look.
    assert len(lists) - len(set(lists)) <= 1
    assert set(second.outcome.changed.values()) == {0}
    assert second.files == first.files


def test_a_run_costs_one_module_per_host_and_skips_none_of_them(second: Observed) -> None:
    assert set(second.outcome.counts) == {*HOSTS, "localhost"}
    costs = per_host(second.outcome.counts)
    assert costs["site.steady.modules_per_host"] == 1
    assert costs["site.steady.skipped_per_host"] == 0
    # Localhost is in the play of the hosts so that it never ends the run, and has nothing to do there.
    besides = [key for key in second.outcome.counts["localhost"] if not key.startswith("ok ")]
    assert besides == ["skipped ansible.builtin.include_role"]


def test_check_mode_after_it_reports_no_change_at_all(
    fleet_cluster: ControlPlane, user: User, second: Observed
) -> None:
    checked = observe(fleet_cluster, user, "--check", "--diff")
    assert "a run would mean for objects: no change" in checked.outcome.output
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
    # One repaired, one made again, one removed; the inventory is written before and after.
    assert len([line for line in run.stored_writes if "rdma-fabric-rdma-fabric" not in line]) == 3
    counts = user.report()["cluster"]["counts"]
    assert (counts["configured"], counts["created"], counts["deleted"]) == (1 + 1, 1, 1)  # and the inventory


def test_a_run_that_is_given_nothing_does_not_remove_the_cluster_side(
    fleet_cluster: ControlPlane, second: Observed, tmp_path: Path
) -> None:
    forgetful, mark = User(tmp_path), fleet_cluster.audit.mark()
    outcome = forgetful.run("site", cluster=fleet_cluster).succeeded()
    assert "what an earlier run made in one stays" in " ".join(outcome.output.split())
    assert fleet_cluster.audit.requests(mark, user=ADMINISTRATOR) == []
    assert stored(fleet_cluster, "daemonset", "kube-multus-ds", NAMESPACE)


def test_limited_to_a_host_it_says_that_localhost_is_missing_and_touches_nothing(
    fleet_cluster: ControlPlane, tmp_path: Path
) -> None:
    alone, mark = User(tmp_path), fleet_cluster.audit.mark()
    outcome = alone.run("site", "--limit", "egx-01", inventory=INVENTORY, cluster=fleet_cluster).refused()
    assert "took no part: add it, as in --limit egx-01,localhost" in outcome.message
    assert fleet_cluster.audit.requests(mark, user=ADMINISTRATOR) == []
    assert alone.files() == []
    both = alone.run("preview", "--limit", "egx-01,localhost", inventory=INVENTORY).succeeded()
    assert set(both.counts) == {"egx-01", "localhost"}
    assert "A host of the inventory was not read: cpu-01, dgx-h100-01" in both.output
    assert [name for name in alone.files() if "/hosts/" in name] == ["rdma-fabric-run/hosts/egx-01.json"]


def test_the_pattern_of_hosts_counts_wherever_it_is_set(tmp_path: Path) -> None:
    egx = {"rdma_fabric_recorded_host": str(RECORDINGS / f"egx-01{SUFFIX}")}
    inventory = {"all": {"vars": {"rdma_fabric_hosts": "gpus"}, "children": {"gpus": {"hosts": {"one": egx}}}}}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps(inventory))
    outcome = User(tmp_path / "user").run("preview", inventory=path).succeeded()
    assert outcome.counts["one"]["ok rdma.fabric.rdma_host"] == 1


@pytest.mark.parametrize("playbook", ["site", "preview"])
def test_wishes_made_of_variables_that_only_hosts_have_are_no_matter_of_localhost(
    playbook: str, tmp_path: Path
) -> None:
    """They are in group_vars/all, so localhost has them too, and they make no sense there."""
    egx = {"rdma_fabric_recorded_host": str(RECORDINGS / f"egx-01{SUFFIX}"), "my_modules": ["ib_umad"]}
    wishes = {"rdma_fabric_kernel_modules": "{{ my_modules }}"}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": wishes, "children": {"rdma_fabric": {"hosts": {"one": egx}}}}}))
    outcome = User(tmp_path / "user").run(playbook, inventory=path).succeeded()
    assert outcome.failures == {}
    assert "my_modules" not in outcome.output
    assert outcome.counts["one"]["ok rdma.fabric.rdma_host"] == 1
