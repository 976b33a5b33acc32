# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's container: what the operator made of the same section and nodes, and what is refused beforehand.

What the operator made is recorded in ``tests/fixtures/operator/driver.json``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import (
    WAIT_LABEL,
    groups_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import NIC_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.on_node import drivers_of, waits
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import left_out, placed, why_unplaced
from ansible_collections.rdma.fabric.tests.recorded_operator import leaves
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, Fabric, of_policy, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG

Object = dict[str, Any]

NAMESPACE = "nvidia-network-operator"
CASES: list[Object] = json.loads((FIXTURES / "operator" / "driver.json").read_text(encoding="utf-8"))
UBUNTU: Object = {"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-41-generic", "arch": "amd64"}
CERTIFICATES, REPOSITORIES = {"b.crt": "x", "a.crt": "y"}, {"mirror.list": "deb"}
PLUGINS: Object = {
    "rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)},
    "sriovDevicePlugin": {"config": json.dumps(SRIOV_CONFIG)},
    "docaTelemetryService": {},
}
TOOLKIT = {"ostree_version": "414.92", "toolkit_image": "quay.io/dtk:414"}
# What the operator's objects have that ours need not, as docs/differences.md says of all objects.
OF_THE_OPERATOR = ("metadata.labels.", "spec.template.metadata.labels.ds-owner")
# What the API server fills in, and is written out here.
FILLED_IN = "valueFrom.fieldRef.apiVersion"


def config_map(name: str, data: Object) -> Document:
    content = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": data,
    }
    return Document(f"{name}.yaml", content)


def fabric(section: Object, *more: Document, **settings: Any) -> Fabric:
    given = {"driver_source": "container", "driver_nodes": [UBUNTU], "nfd": False, **settings}
    return Fabric(
        [resource("NicClusterPolicy", "nic-cluster-policy", {"ofedDriver": section}), *more], [], settings=given
    )


def objects(found: Fabric) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects_of(render(found.accepted().spec))}


def daemon_sets(found: Fabric) -> list[Object]:
    return [body for (kind, name), body in objects(found).items() if kind == "DaemonSet" and name.startswith("mofed-")]


def pod_of(body: Object) -> Object:
    pod: Object = body["spec"]["template"]["spec"]
    return pod


def of_case(case: Object) -> Fabric:
    groups = groups_of(case["labels"])
    for group in groups:
        group.update({"precompiled": True} if case["precompiled"] else {}, runtime=case["runtime"])
        group.update(TOOLKIT if case["openshift"] else {})
    settings = {"driver_source": "container", "driver_nodes": groups, "nfd": False, "openshift": case["openshift"]}
    settings["operator_release"] = "26.4.1"
    documents = [resource(case["kind"], case["policy"], case["spec"])]
    documents += [config_map("certs", CERTIFICATES), config_map("repos", REPOSITORIES)]
    return Fabric(documents, [], settings=settings)


def apart(ours: Object, theirs: Object) -> dict[str, tuple[Any, Any]]:
    """Return the fields that differ, without those that are the operator's own."""
    fields = [dict(leaves({**body, **parsed(body)})) for body in (ours, theirs)]
    return {
        field: (fields[0].get(field), fields[1].get(field))
        for field in sorted({*fields[0], *fields[1]})
        if fields[0].get(field) != fields[1].get(field)
        and not (field.startswith(OF_THE_OPERATOR) or field.endswith(FILLED_IN))
    }


def parsed(body: Object) -> Object:
    """Return the data of a ConfigMap by what its JSON says."""
    return {"data": {name: json.loads(text) for name, text in body["data"].items()}} if "data" in body else {}


def test_the_objects_are_those_that_the_operator_makes() -> None:
    found: dict[str, set[str]] = {}
    for case in CASES:
        ours = objects(of_case(case))
        for body in case["objects"]:
            name = body["metadata"]["name"]
            if body["kind"] == "ConfigMap" and case["kind"] == "NicNodePolicy":
                name = f"{name}-{case['policy']}"
            fields = {field.partition(".{")[0] for field in apart(ours[body["kind"], name], body)}
            found[case["name"]] = found.get(case["name"], set()) | fields
    # The operator writes one of two keys `affinity` and loses the other; here a node policy has a configuration of its
    # own.
    init = "spec.template.spec.initContainers.network-operator-init-container.args"
    script = "spec.template.spec.containers.openshift-driver-toolkit-ctr.args"
    assert found == {
        "defaults": set(),
        "every field": set(),
        "affinity": {"spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"},
        "precompiled": {init},
        "digest": set(),
        "toolkit": {script, "spec.template.spec.volumes"},
    }


def test_without_the_setting_hosts_get_packages_and_the_cluster_no_container() -> None:
    found = of_policy({"ofedDriver": {}, **PLUGINS}, settings={"nfd": False}).accepted()
    assert found.spec["host_requests"][0]["driver"].get("source") is None
    assert not drivers_of(objects_of(render(found.spec)))
    assert WAIT_LABEL not in json.dumps(render(found.spec))


def test_hosts_are_told_that_a_container_brings_the_driver() -> None:
    (request,) = fabric({}).accepted().spec["host_requests"]
    assert request["driver"]["source"] == "container"


def test_what_uses_the_driver_waits_for_the_label_only_where_it_is_a_container() -> None:
    policy = resource("NicClusterPolicy", "nic-cluster-policy", {"ofedDriver": {}, **PLUGINS})
    given = {"driver_source": "container", "driver_nodes": [UBUNTU], "nfd": False}
    found = objects(Fabric([policy], [], settings=given))
    selectors = {name: pod_of(body)["nodeSelector"] for (kind, name), body in found.items() if kind == "DaemonSet"}
    waiting = {name for name, selector in selectors.items() if selector.get(WAIT_LABEL) == "false"}
    assert waiting == {"rdma-shared-dp-ds", "network-operator-sriov-device-plugin", "doca-telemetry-service"}


def test_groups_are_the_nodes_with_a_nic_of_one_system_and_kernel() -> None:
    labels = CASES[0]["labels"][0]
    other = {**labels, "feature.node.kubernetes.io/kernel-version.full": "6.8.0-45-generic"}
    without_nic = {name: value for name, value in other.items() if name != NIC_LABEL}
    assert groups_of([labels, labels, without_nic]) == [UBUNTU]
    assert [group["kernel"] for group in groups_of([other, labels])] == ["6.8.0-41-generic", "6.8.0-45-generic"]
    assert groups_of([{NIC_LABEL: "true"}]) == []


def test_architectures_of_one_kernel_have_daemon_sets_of_their_own() -> None:
    found = daemon_sets(fabric({}, driver_nodes=[UBUNTU, {**UBUNTU, "arch": "arm64"}]))
    assert [body["metadata"]["name"][-9:] for body in found] == ["-amd64-ds", "-arm64-ds"]
    assert [pod_of(body)["nodeSelector"]["kubernetes.io/arch"] for body in found] == ["amd64", "arm64"]
    assert [pod_of(body)["containers"][0]["image"].rpartition("-")[2] for body in found] == ["amd64", "arm64"]


@pytest.mark.parametrize(
    ("section", "group", "tag"),
    [
        ({}, {}, "24.10-0.7.0.0-0-ubuntu24.04-amd64"),
        ({}, {"precompiled": True}, "24.10-0.7.0.0-0-6.8.0-41-generic-ubuntu24.04-amd64"),
        ({"forcePrecompiled": True}, {}, "24.10-0.7.0.0-0-6.8.0-41-generic-ubuntu24.04-amd64"),
    ],
)
def test_the_tag_of_the_image(section: Object, group: Object, tag: str) -> None:
    (body,) = daemon_sets(fabric({"version": "24.10-0.7.0.0-0", **section}, driver_nodes=[{**UBUNTU, **group}]))
    assert pod_of(body)["containers"][0]["image"] == f"nvcr.io/nvidia/mellanox/doca-driver:{tag}"


def test_mirrors_and_proxies_reach_the_container_and_its_own_variables_win() -> None:
    section = {"env": [{"name": "http_proxy", "value": "http://own"}]}
    (body,) = daemon_sets(
        fabric(
            section,
            registry_mirrors={"nvcr.io": "mirror.local"},
            proxy={"httpProxy": "http://p", "httpsProxy": "http://q"},
        )
    )
    driver = pod_of(body)["containers"][0]
    assert driver["image"].startswith("mirror.local/nvidia/mellanox/doca-driver:")
    assert pod_of(body)["initContainers"][0]["image"].startswith("mirror.local/")
    assert {each["name"]: each["value"] for each in driver["env"]} == {
        "http_proxy": "http://own",
        "HTTPS_PROXY": "http://q",
        "https_proxy": "http://q",
        "CREATE_IFNAMES_UDEV": "true",
        "NVIDIA_NIC_DRIVERS_INVENTORY_PATH": "/mnt/drivers-inventory",
    }


def test_no_run_restarts_a_driver() -> None:
    assert {body["spec"]["updateStrategy"]["type"] for body in daemon_sets(fabric({}))} == {"OnDelete"}
    assert fabric({"upgradePolicy": {"autoUpgrade": True}}).said("replaces no pod of the driver")


def test_a_driver_that_waits_for_its_node_is_told_with_the_next_step() -> None:
    found = fabric({"upgradePolicy": {"autoUpgrade": True, "safeLoad": True}})
    assert (
        "kubectl annotate node NODE nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load-"
        in found.said("has each driver wait").sentence()
    )
    config = json.loads(objects(found)["ConfigMap", "ofed-init-container-config"]["data"]["config.json"])
    assert config["safeDriverLoad"]["enable"] is True


@pytest.mark.parametrize(
    ("section", "settings", "path", "words"),
    [
        ({"certConfig": {"name": "certs"}}, {}, "spec.ofedDriver.certConfig.name", "add the ConfigMap"),
        ({"repoConfig": {"name": "empty"}}, {}, "spec.ofedDriver.repoConfig.name", "without data"),
        (
            {"certConfig": {"name": "repos"}, "repoConfig": {"name": "repos"}},
            {},
            "spec.ofedDriver.repoConfig.name",
            "is the ConfigMap of certConfig too",
        ),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            {},
            "spec.ofedDriver.env[1].name",
            "is set twice",
        ),
        ({"env": [{"name": "NODE_NAME", "value": "1"}]}, {}, "spec.ofedDriver.env[0].name", "init container"),
        ({}, {"driver_nodes": [UBUNTU, UBUNTU]}, "", "is given twice"),
        ({}, {"driver_nodes": [{**UBUNTU, "kernel": "6.8 generic"}]}, "", "is not a valid label name"),
        ({}, {"driver_nodes": [{"os": "ubuntu"}]}, "[0]", "lacks `os_version`"),
        ({}, {"driver_source": "containers"}, "", "not packages or container"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_changes(
    section: Object, settings: Object, path: str, words: str
) -> None:
    found = fabric(section, config_map("repos", REPOSITORIES), config_map("empty", {}), **settings)
    assert any(words in each.sentence() and each.path.startswith(path) for each in found.violations), [
        each.sentence() for each in found.violations
    ]


@pytest.mark.parametrize(
    ("section", "group", "settings", "words"),
    [
        ({"repoConfig": {"name": "repos"}}, {"os": "debian"}, {}, "has no folder on debian"),
        ({"forcePrecompiled": True}, {"precompiled": False}, {}, "there is no precompiled image"),
        ({}, {"os": "rhcos"}, {"openshift": True}, "oc get imagestream driver-toolkit"),
    ],
)
def test_what_does_not_fit_a_group_of_nodes_is_refused(
    section: Object, group: Object, settings: Object, words: str
) -> None:
    found = fabric(section, config_map("repos", REPOSITORIES), driver_nodes=[{**UBUNTU, **group}], **settings)
    with pytest.raises(Exception, match=words):
        render(found.accepted().spec)


def test_hosts_that_install_packages_as_well_are_refused() -> None:
    def host(source: str) -> tuple[Object, list[Any], list[Any]]:
        return ({"driver": {"source": source}, "interfaces": []}, [], [])

    policy = resource("NicClusterPolicy", "nic-cluster-policy", {"ofedDriver": {}})
    settings = {"driver_source": "container", "driver_nodes": [UBUNTU]}
    hosts = {"gpu01": host("repository"), "gpu02": host("container")}
    (violation,) = Fabric([policy], [], settings=settings, hosts=hosts).violations
    assert violation.source == "host gpu01: rdma_fabric_driver" and "driver_source: packages" in violation.hint


def test_settings_that_nothing_reads_are_named() -> None:
    assert (
        "packages"
        in of_policy({"ofedDriver": {}}, settings={"driver_nodes": [UBUNTU]})
        .said("no effect here (rdma_fabric_driver_source")
        .sentence()
    )
    found = of_policy({"nicFeatureDiscovery": {}}, settings={"driver_source": "container"}).accepted()
    assert [each.source for each in found.notices if "no policy has an ofedDriver" in each.sentence()] == [
        "rdma_fabric_driver_source"
    ]


class TestNodesThatWereRead:
    def spec(self) -> Object:
        found = fabric({}, driver_nodes=None).accepted().spec
        return {**found, "hosts": {name: {"node_labels": {}} for name in ("gpu01", "gpu02")}}

    def variables(self, *hosts: str) -> Object:
        labels = {**CASES[0]["labels"][0]}
        return {host: {"rdma_fabric_host_result": {"summary": {"labels": labels}}} for host in hosts}

    def test_their_groups_are_rendered(self) -> None:
        found = placed(self.spec(), self.variables("gpu01", "gpu02"))
        assert found.unread == []
        names = [body["metadata"]["name"] for body in drivers_of(objects_of(render(found.spec)))]
        assert names == ["mofed-ubuntu24.04-848bf4b879-ds"]

    def test_a_host_that_was_not_read_is_named_with_what_to_do(self) -> None:
        found = placed(self.spec(), self.variables("gpu02"))
        why = why_unplaced(self.spec(), found.unread)
        assert "were not read: gpu01" in why and "rdma_fabric_driver_nodes" in why

    def test_given_groups_need_no_host(self) -> None:
        given = fabric({}).accepted().spec
        for spec in (given, {**given, "hosts": self.spec()["hosts"]}):
            assert placed(spec, {}) == (spec, [])
            assert why_unplaced(spec, ["gpu01"]) == ""

    def test_without_a_host_the_groups_are_asked_for(self) -> None:
        why = why_unplaced({**self.spec(), "hosts": {}}, [])
        assert "the input has no host" in why and "rdma_fabric_driver_nodes" in why

    def test_hosts_of_no_given_group_are_named_and_others_are_not(self) -> None:
        spec = {**fabric({}).accepted().spec, "hosts": self.spec()["hosts"]}
        variables = self.variables("gpu01", "gpu02")
        assert left_out(spec, variables) == []
        # The labels of the input win over those that were read.
        spec["hosts"]["gpu02"] = {"node_labels": {"feature.node.kubernetes.io/kernel-version.full": "6.8.0-45-generic"}}
        (notice,) = left_out(spec, variables)
        assert notice.startswith("no group of rdma_fabric_driver_nodes is for the nodes of gpu02: ")
        assert left_out(spec, self.variables("gpu01")) == [], "one that was not read"
        packages = {**spec, "settings": {**spec["settings"], "driver_source": None}}
        assert left_out(packages, variables) == []


class TestTheLabelOfNodes:
    def node(self, name: str, **labels: str) -> Object:
        return {"metadata": {"name": name, "labels": {**CASES[0]["labels"][0], **labels}}}

    def pod(self, node: str, *, ready: bool) -> Object:
        statuses = [{"name": "mofed-container", "ready": ready}, {"name": "other", "ready": True}]
        return {"spec": {"nodeName": node}, "status": {"containerStatuses": statuses}}

    def test_it_follows_the_container_of_the_driver(self) -> None:
        drivers = daemon_sets(fabric({}))
        nodes = [self.node("a"), self.node("b"), self.node("new")]
        other = self.node("other-kernel", **{"feature.node.kubernetes.io/kernel-version.full": "5.15.0-1"})
        no_nic = self.node("no-nic", **{NIC_LABEL: "false"})
        pods = [self.pod("a", ready=True), self.pod("b", ready=False), {"spec": {}, "status": {}}]
        found = waits(drivers, [*nodes, other, no_nic], pods)
        assert found == {"a": "false", "b": "true", "other-kernel": "false"}
