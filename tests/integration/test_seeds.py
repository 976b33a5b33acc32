# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files as users of the vendor's operator have them go through the playbooks unchanged and are stored as given."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    SEEDS,
    Json,
    Outcome,
    User,
    line_of,
    stored,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.lab.audit import Request
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

GUIDE, EGX, SLIDES = SEEDS / "guide", SEEDS / "egx-v0.1.0", SEEDS / "slides"
POLICY = GUIDE / "nic-cluster-policy.yaml"
NETWORKS = (GUIDE / "rdma-macvlan.yaml", GUIDE / "ib-network.yaml")
JOB = GUIDE / "distributed-training.yaml"
PODS = sorted(EGX.glob("*pod*.yml"))
EGX_NETWORK = EGX / "rdma-net-cr-whereabouts-ipam.yml"
NAD = "network-attachment-definitions.k8s.cni.cncf.io"


@dataclass(frozen=True)
class Applied:
    """What one run of ``site`` said and asked of the API server."""

    outcome: Outcome
    requests: list[Request]
    user: User
    variables: Json


def apply(cluster: ControlPlane, folder: Path, variables: Json) -> Applied:
    user, mark = User(folder), cluster.audit.mark()
    outcome = user.run("site", variables=variables, cluster=cluster).succeeded()
    return Applied(outcome, cluster.audit.requests(mark, user=ADMINISTRATOR), user, variables)


@pytest.fixture(scope="module")
def guide(fleet_cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """The article on the operator with Helm and Ansible: policy, both networks, the job, values file and --set."""
    variables = {
        "rdma_fabric_manifests": [str(path) for path in (POLICY, *NETWORKS, JOB)],
        "rdma_fabric_helm_values_files": [str(GUIDE / "playbook-values.yaml")],
        "rdma_fabric_helm_set": (GUIDE / "helm-set.txt").read_text().split(),
    }
    return apply(fleet_cluster, tmp_path_factory.mktemp("guide"), variables)


@pytest.fixture(scope="module")
def egx(fleet_cluster: ControlPlane, guide: Applied, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """The article on GPUDirect RDMA with release v0.1.0, in place of the other: policy, network and test pods."""
    variables = {"rdma_fabric_manifests": [str(path) for path in (EGX / "nic-cluster-policy.yaml", EGX_NETWORK, *PODS)]}
    return apply(fleet_cluster, tmp_path_factory.mktemp("egx"), variables)


def document(path: Path) -> Json:
    content: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def missing(given: Any, found: Any, path: str = "") -> Iterator[str]:
    """Name every place of ``given`` that ``found`` lacks or has another value at; amounts become text at the server."""
    if isinstance(given, dict) and isinstance(found, dict):
        for key, value in given.items():
            yield from missing(value, found.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(found, list) and len(given) == len(found):
        for index, value in enumerate(given):
            yield from missing(value, found[index], f"{path}[{index}]")
    elif given != found and not (".resources." in path and str(given) == found):
        yield f"{path}: {given!r} became {found!r}"


@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: str(path.stem))
def test_a_network_of_the_guide_is_stored_with_its_config_byte_by_byte(
    fleet_cluster: ControlPlane, guide: Applied, path: Path
) -> None:
    given = document(path)
    found = stored(fleet_cluster, NAD, given["metadata"]["name"], "ai-training")
    assert found["spec"] == given["spec"]


def test_the_job_of_the_guide_is_stored_with_every_field_that_was_given(
    fleet_cluster: ControlPlane, guide: Applied
) -> None:
    found = stored(fleet_cluster, "job", "distributed-training", "ai-training")
    assert list(missing(document(JOB), found)) == []


def test_every_object_of_the_guide_was_judged_strictly_and_is_what_a_client_would_write(
    fleet_cluster: ControlPlane, guide: Applied
) -> None:
    patches = [request for request in guide.requests if request.verb == "patch"]
    assert len(patches) > 30
    assert {request.parameters["fieldValidation"] for request in patches} == {"Strict"}
    assert {request.code for request in patches} <= {200, 201}
    workloads = json.loads(fleet_cluster.kubectl("get", "daemonsets,deployments", "-A", "-o", "json"))["items"]
    ready = {each["metadata"]["name"] for each in workloads if each["metadata"]["namespace"] != "kube-system"}
    assert {"kube-multus-ds", "cni-plugins-ds", "whereabouts", "rdma-shared-dp-ds", "nfd-worker"} <= ready


def test_the_device_plugin_reads_the_configuration_that_the_guide_gives(
    fleet_cluster: ControlPlane, guide: Applied
) -> None:
    given = document(POLICY)["spec"]["rdmaSharedDevicePlugin"]["config"]
    data = stored(fleet_cluster, "configmap", "rdma-devices", "nvidia-network-operator")["data"]
    assert [json.loads(text) for text in data.values()] == [json.loads(given)]


def test_what_deserves_a_look_in_the_guide_is_said_with_file_and_line_and_stored_all_the_same(guide: Applied) -> None:
    network, values = GUIDE / "ib-network.yaml", GUIDE / "playbook-values.yaml"
    said = guide.outcome.output
    config = line_of(network, "config: |")
    for text in ("gets no device", "has UFM put them into no partition"):
        (line,) = [line for line in said.splitlines() if text in line and line.startswith("[WARNING]")]
        number = int(line.split(f"{network}:")[1].split(":")[0])
        assert config <= number <= len(network.read_text().splitlines())
    assert f"{POLICY}:{line_of(POLICY, 'ipamPlugin:')}: spec.secondaryNetwork.ipamPlugin: is retired" in said
    for section in ("ofedDriver", "rdmaSharedDevicePlugin"):
        assert f"{values}:{line_of(values, f'{section}:')}: {section}: is retired" in said
    assert "helm_set: sriovNetworkOperator.enabled: the SR-IOV operator is not deployed" in said
    assert f"{JOB}:{line_of(JOB, 'rdma/rdma_shared_device_a:')}: spec.template.spec.containers[0].resources" in said


def test_the_guide_applied_again_changes_nothing(fleet_cluster: ControlPlane, guide: Applied) -> None:
    mark = fleet_cluster.audit.mark()
    guide.user.run("site", variables=guide.variables, cluster=fleet_cluster).succeeded()
    assert stored_writes(fleet_cluster.audit, mark) == []


def test_render_needs_no_cluster_and_writes_what_site_applies(
    fleet_cluster: ControlPlane, guide: Applied, tmp_path: Path
) -> None:
    user = User(tmp_path)
    output = {"rdma_fabric_render_dir": "out"}
    assert user.run("render", variables={**guide.variables, **output}).succeeded().changed == {"localhost": 1}
    files = user.files()
    assert "out/kustomization.yaml" in files
    assert [name for name in files if not name.startswith("out/")] == []
    # kubectl exits with 1 when the server, asked for a dry run of an apply, would change anything.
    folder = str(user.here / "out")
    options = ["--server-side", "--force-conflicts", "--field-manager=somebody-else"]
    assert fleet_cluster.kubectl("diff", *options, "--kustomize", folder) == ""
    (user.here / "out" / "05-networks" / "networkattachmentdefinition-ai-training-rdma-macvlan.yaml").unlink()
    (edited,) = (user.here / "out").glob("*/*kube-multus-ds.yaml")
    edited.write_text(edited.read_text().replace("hostNetwork: true", "hostNetwork: false"))
    with pytest.raises(subprocess.CalledProcessError) as differs:
        fleet_cluster.kubectl("diff", *options, "--filename", str(edited))
    assert "hostNetwork" in differs.value.stdout
    assert user.run("render", variables={**guide.variables, **output}).succeeded().changed == {"localhost": 1}
    assert user.files() == files


@pytest.mark.first
def test_a_policy_can_be_given_as_extra_variables_and_in_a_list_on_the_command_line(tmp_path: Path) -> None:
    ways = {
        "resource": ("-e", f"@{POLICY}"),
        "list": ("-e", f"rdma_fabric_manifests=[{POLICY},{NETWORKS[0]}]"),
    }
    user = User(tmp_path)
    rendered = {}
    for name, arguments in ways.items():
        user.run("render", *arguments, "-e", f"rdma_fabric_render_dir={name}").succeeded()
        rendered[name] = {
            str(path.relative_to(user.here / name)): path.read_text()
            for path in (user.here / name).rglob("*.yaml")
            if path.name != "kustomization.yaml"
        }
    network = {name for name in rendered["list"] if name not in rendered["resource"]}
    assert {name.split("/")[0] for name in network} == {"00-namespaces", "05-networks"}
    assert {name: text for name, text in rendered["list"].items() if name not in network} == rendered["resource"]


def test_the_network_of_the_first_release_is_stored_with_config_and_annotations(
    fleet_cluster: ControlPlane, egx: Applied
) -> None:
    given = document(EGX_NETWORK)
    found = stored(fleet_cluster, NAD, "rdma-net-ipam", "default")
    assert found["spec"] == given["spec"]
    assert found["metadata"]["annotations"] == given["metadata"]["annotations"]


@pytest.mark.parametrize("path", PODS, ids=lambda path: str(path.stem))
def test_a_test_pod_of_the_first_release_is_stored_with_every_field_that_was_given(
    fleet_cluster: ControlPlane, egx: Applied, path: Path
) -> None:
    given = document(path)
    found = stored(fleet_cluster, "pod", given["metadata"]["name"], "default")
    assert list(missing(given, found)) == []


def test_the_policy_of_the_first_release_is_translated_and_every_retired_field_is_named(
    fleet_cluster: ControlPlane, egx: Applied
) -> None:
    data = stored(fleet_cluster, "configmap", "rdma-devices", "mlnx-network-operator")["data"]
    assert [json.loads(text) for text in data.values()] == [json.loads((EGX / "device-plugin.json").read_text())]
    policy = EGX / "nic-cluster-policy.yaml"
    for retired in ("devicePlugin", "nvPeerDriver"):
        assert f"{policy}:{line_of(policy, f'  {retired}:')}: spec.{retired}: is retired" in egx.outcome.output
    plugin = stored(fleet_cluster, "daemonset", "rdma-shared-dp-ds", "mlnx-network-operator")
    images = [each["image"] for each in plugin["spec"]["template"]["spec"]["containers"]]
    assert images == ["mellanox/k8s-rdma-shared-dev-plugin:v1.0.0"]


def test_what_the_policy_before_had_put_into_another_namespace_is_gone(
    fleet_cluster: ControlPlane, egx: Applied
) -> None:
    kinds = "daemonsets,deployments,configmaps,serviceaccounts,jobs,pods"
    for namespace in ("nvidia-network-operator", "ai-training"):
        fleet_cluster.kubectl("wait", "--for=delete", "pods", "--all", "-n", namespace, "--timeout=90s")
        left = fleet_cluster.kubectl("get", kinds, "-n", namespace, "-l", "rdma.fabric/set", "-o", "name")
        assert left == ""


def test_the_two_flawed_pods_stop_the_run_with_file_and_line_before_anything_is_touched(
    fleet_cluster: ControlPlane, tmp_path: Path
) -> None:
    user, mark = User(tmp_path), fleet_cluster.audit.mark()
    flawed = [SLIDES / "gpu-example.yaml", SLIDES / "rdma-pod.yaml"]
    variables = {"rdma_fabric_manifests": [str(path) for path in (POLICY, *flawed)]}
    outcome = user.run("site", variables=variables, cluster=fleet_cluster).refused()
    number, annotation = outcome.violations()
    assert (number["source"], number["line"]) == (str(flawed[0]), line_of(flawed[0], "cuda.runtime: 11.0"))
    assert number["path"] == 'spec.nodeSelector["nvidia.com/cuda.runtime"]'
    assert number["hint"] == 'quote it: "11.0"'
    assert (annotation["source"], annotation["line"]) == (str(flawed[1]), line_of(flawed[1], "networks:rdma-net-ipam"))
    assert annotation["path"] == "metadata.annotations"
    assert "put a space after the colon" in annotation["hint"]
    assert fleet_cluster.audit.requests(mark, user=ADMINISTRATOR) == []
    assert user.files() == []
