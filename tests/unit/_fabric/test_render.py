# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendering of whole specs: which objects, in which wave, in which form."""

from __future__ import annotations

import copy
import json
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import COMPONENTS, material
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import containers_of, pod_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.quantities import canonical_quantity
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import WAVES, objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import (
    RDMA_CONFIG,
    SPECS,
    attachment,
    everything,
    first_release,
    network,
    node_groups,
    spec_of,
    training_cluster,
)

Object = dict[str, Any]


@pytest.fixture(params=sorted(SPECS))
def waves(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return render(SPECS[request.param]())


def find(waves: list[dict[str, Any]], kind: str, name: str, namespace: str = "") -> Object:
    for each in objects_of(waves):
        metadata = each["metadata"]
        if (each["kind"], metadata["name"]) == (kind, name) and namespace in ("", metadata.get("namespace", "")):
            return each
    raise AssertionError(f"no {kind} {name} among {[each['metadata']['name'] for each in objects_of(waves)]}")


def pod(waves: list[dict[str, Any]], kind: str, name: str) -> Object:
    found = pod_of(find(waves, kind, name))
    assert found is not None
    return found


def values(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, node
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        yield from values(item, (*path, key))


def problems_of(spec: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        render(spec)
    return [f"{each.path}: {each.problem}" for each in caught.value.violations]


def test_waves_come_in_the_order_in_which_objects_need_each_other(waves: list[dict[str, Any]]) -> None:
    names = [wave["name"] for wave in waves]
    assert names == [name for name in WAVES if name in names]
    assert all(wave["objects"] for wave in waves)
    kinds = {wave["name"]: {each["kind"] for each in wave["objects"]} for wave in waves}
    assert kinds["namespaces"] == {"Namespace"}
    assert kinds["crds"] == {"CustomResourceDefinition"}
    assert kinds["workloads"] <= {"DaemonSet", "Deployment", "CronJob", "ValidatingWebhookConfiguration"}
    configs = {"ConfigMap", "NodeFeatureRule", "PersistentVolumeClaim"}
    assert kinds["configs"] <= configs | {"Certificate", "Issuer", "Service"}


@pytest.mark.parametrize("name", sorted(SPECS))
def test_the_same_spec_gives_the_same_waves_and_is_left_as_it_was(name: str) -> None:
    spec = SPECS[name]()
    before = copy.deepcopy(spec)
    assert render(spec) == render(SPECS[name]())
    assert spec == before


def test_every_object_carries_the_labels_of_the_collection(waves: list[dict[str, Any]]) -> None:
    for each in objects_of(waves):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "rdma-fabric"
        assert labels["app.kubernetes.io/part-of"] == "rdma-fabric"
        assert labels["app.kubernetes.io/component"]


def test_nothing_empty_or_null_is_sent(waves: list[dict[str, Any]]) -> None:
    for each in objects_of(waves):
        for path, value in values(each):
            if path[-2:] in (("subresources", "status"), ("spec", "selfSigned")):
                continue  # an empty map switches the subresource, and the kind of issuer, on
            assert value is not None and value not in ({}, []), (each["kind"], each["metadata"]["name"], path)
            assert path[:1] != ("status",) and path != ("metadata", "creationTimestamp")


def test_forms_the_server_would_rewrite_are_already_rewritten(waves: list[dict[str, Any]]) -> None:
    for each in objects_of(waves):
        for path, value in values(each):
            if path[-1:] == ("fieldRef",):
                assert value["apiVersion"] == "v1"
            if path[-1:] in (("limits",), ("requests",)):
                assert value == {name: canonical_quantity(amount) for name, amount in value.items()}
            if path[-1:] == ("ports",) and isinstance(value, list):
                assert all(port["protocol"] for port in value)


def test_names_of_workloads_and_their_pods_fit_together(waves: list[dict[str, Any]]) -> None:
    for each in objects_of(waves):
        found = pod_of(each)
        if each["kind"] not in ("DaemonSet", "Deployment") or found is None:
            continue
        assert each["spec"]["selector"]["matchLabels"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
        volumes = {volume["name"] for volume in found.get("volumes", [])}
        for container in containers_of(found):
            mounted = {entry["name"] for entry in container.get("volumeMounts", [])}
            assert mounted <= volumes, (each["metadata"]["name"], container["name"])


def test_what_pods_refer_to_is_rendered_too(waves: list[dict[str, Any]]) -> None:
    objects = objects_of(waves)
    known = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects}
    for each in objects:
        found = pod_of(each)
        if found is None or each["metadata"]["labels"]["app.kubernetes.io/component"] == "given":
            continue
        namespace = each["metadata"]["namespace"]
        account = found.get("serviceAccountName")
        assert account is None or ("ServiceAccount", namespace, account) in known
        for volume in found.get("volumes", []):
            if "configMap" in volume:
                assert ("ConfigMap", namespace, volume["configMap"]["name"]) in known


def test_a_binding_names_a_role_and_an_account_that_are_rendered(waves: list[dict[str, Any]]) -> None:
    objects = objects_of(waves)
    known = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in objects}
    for each in objects:
        if not each["kind"].endswith("Binding"):
            continue
        assert (each["roleRef"]["kind"], each["metadata"].get("namespace", ""), each["roleRef"]["name"]) in known
        for subject in each["subjects"]:
            assert ("ServiceAccount", subject["namespace"], subject["name"]) in known


def test_no_right_is_given_with_a_star(waves: list[dict[str, Any]]) -> None:
    for each in objects_of(waves):
        for entry in each.get("rules", []):
            assert "*" not in [*entry["apiGroups"], *entry["resources"], *entry["verbs"]]


def test_every_namespace_used_exists_and_the_cluster_s_own_are_left_alone(waves: list[dict[str, Any]]) -> None:
    objects = objects_of(waves)
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
    used = {each["metadata"].get("namespace") for each in objects} - {None, "default"}
    assert made == used


def test_the_training_cluster_renders_what_its_policy_asks_for() -> None:
    waves = render(training_cluster())
    names = {(each["kind"], each["metadata"]["name"]) for each in objects_of(waves)}
    assert {
        ("DaemonSet", "cni-plugins-ds"),
        ("DaemonSet", "kube-multus-ds"),
        ("DaemonSet", "nfd-worker"),
        ("DaemonSet", "rdma-shared-dp-ds"),
        ("DaemonSet", "whereabouts"),
        ("Deployment", "nfd-master"),
        ("Job", "distributed-training"),
        ("NodeFeatureRule", "nvidia-nics-rules"),
        ("NetworkAttachmentDefinition", "rdma-macvlan"),
        ("CustomResourceDefinition", "ippools.whereabouts.cni.cncf.io"),
    } <= names
    assert not [name for _kind, name in names if "sriov" in name or "ipoib" in name or "ofed" in name]
    config = json.loads(find(waves, "ConfigMap", "rdma-devices")["data"]["config.json"])
    assert config == RDMA_CONFIG
    images = {c["image"] for c in containers_of(pod(waves, "DaemonSet", "rdma-shared-dp-ds"))}
    assert images == {"ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.1"}


def test_the_first_release_keeps_its_namespace_and_its_device_list() -> None:
    waves = render(first_release())
    daemon_set = find(waves, "DaemonSet", "rdma-shared-dp-ds", "mlnx-network-operator")
    assert (
        daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] == "mellanox/k8s-rdma-shared-dev-plugin:v1.0.0"
    )
    config = json.loads(find(waves, "ConfigMap", "rdma-devices")["data"]["config.json"])
    # Release 1.0.0 of the plugin knows no selectors: the list must not be translated.
    assert config["configList"][0]["devices"] == ["ens2f0"] and "selectors" not in config["configList"][0]


def test_a_policy_without_a_section_renders_nothing_of_it() -> None:
    kinds = {each["kind"] for each in objects_of(render(spec_of({}, settings={"nfd": False})))}
    assert kinds == set()
    assert "DaemonSet" not in {
        each["kind"] for each in objects_of(render(spec_of(networks=[network("MacvlanNetwork", "a")])))
    }


def test_networks_bring_their_definition_without_a_policy() -> None:
    waves = render(spec_of(networks=[network("MacvlanNetwork", "a", networkNamespace="x")]))
    assert [wave["name"] for wave in waves] == ["namespaces", "crds", "networks"]


def test_nfd_is_left_out_where_the_cluster_has_one() -> None:
    spec = training_cluster()
    spec["settings"]["nfd"] = False
    names = [each["metadata"]["name"] for each in objects_of(render(spec))]
    assert not [name for name in names if "nfd" in name or "nic-rules" in name]


def test_device_plugins_wait_for_the_nic_label_only() -> None:
    for name in ("rdma-shared-dp-ds", "network-operator-sriov-device-plugin"):
        selector = pod(render(everything()), "DaemonSet", name)["nodeSelector"]
        assert selector == {"feature.node.kubernetes.io/pci-15b3.present": "true"}


def test_the_plugins_see_what_they_need_of_the_host() -> None:
    waves = render(everything())
    expected = {
        "rdma-shared-dp-ds": {"/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry", "/dev/"},
        "network-operator-sriov-device-plugin": {"/var/lib/kubelet/device-plugins", "/var/log"},
        "kube-multus-ds": {"/etc/cni/net.d", "/opt/cni/bin"},
        "whereabouts": {"/etc/cni/net.d", "/opt/cni/bin"},
        "cni-plugins-ds": {"/opt/cni/bin"},
        "nfd-worker": {"/sys", "/boot", "/etc/os-release"},
    }
    for name, paths in expected.items():
        volumes = pod(waves, "DaemonSet", name)["volumes"]
        assert paths <= {volume["hostPath"]["path"] for volume in volumes if "hostPath" in volume}
    mounts = pod(waves, "DaemonSet", "rdma-shared-dp-ds")["containers"][0]["volumeMounts"]
    assert {"name": "config", "mountPath": "/k8s-rdma-shared-dev-plugin"} in mounts
    assert {"name": "devs", "mountPath": "/dev/"} in mounts


def test_cdi_is_switched_on_by_flag_and_mounts() -> None:
    for use, expected in ((True, True), (False, False)):
        spec = everything()
        for section in ("rdmaSharedDevicePlugin", "sriovDevicePlugin"):
            spec["cluster_policy"]["spec"][section]["useCdi"] = use
        waves = render(spec)
        for name in ("rdma-shared-dp-ds", "network-operator-sriov-device-plugin"):
            found = pod(waves, "DaemonSet", name)
            assert ("--use-cdi" in found["containers"][0].get("args", [])) is expected
            assert any(volume["name"] == "dynamic-cdi" for volume in found["volumes"]) is expected


def test_cni_folders_of_the_cluster_reach_every_mount() -> None:
    spec = everything()
    spec["settings"].update(cni_bin_dir="/var/lib/cni/bin", cni_conf_dir="/var/lib/rancher/net.d")
    waves = render(spec)
    for name in ("kube-multus-ds", "cni-plugins-ds", "kube-ipoib-cni-ds", "whereabouts"):
        paths = {v["hostPath"]["path"] for v in pod(waves, "DaemonSet", name)["volumes"] if "hostPath" in v}
        assert "/var/lib/cni/bin" in paths and "/opt/cni/bin" not in paths
    multus = pod(waves, "DaemonSet", "kube-multus-ds")
    assert (
        "--multus-kubeconfig-file-host=/var/lib/rancher/net.d/multus.d/multus.kubeconfig"
        in multus["containers"][0]["args"]
    )
    # Whereabouts reads /etc/cni/net.d whatever the runtime reads.
    paths = {v["hostPath"]["path"] for v in pod(waves, "DaemonSet", "whereabouts")["volumes"] if "hostPath" in v}
    assert "/etc/cni/net.d" in paths


def test_a_changed_configuration_changes_the_pods_and_nothing_else_does() -> None:
    def hash_of(spec: dict[str, Any], name: str) -> Any:
        annotations = find(render(spec), "DaemonSet", name)["spec"]["template"]["metadata"]["annotations"]
        return annotations["rdma.fabric/config-hash"]

    base, other = everything(), everything()
    changed = copy.deepcopy(RDMA_CONFIG)
    changed["configList"][0]["rdmaHcaMax"] = 64
    other["cluster_policy"]["spec"]["rdmaSharedDevicePlugin"]["config"] = json.dumps(changed)
    assert hash_of(base, "rdma-shared-dp-ds") != hash_of(other, "rdma-shared-dp-ds")
    assert hash_of(base, "network-operator-sriov-device-plugin") == hash_of(
        other, "network-operator-sriov-device-plugin"
    )
    respelt = everything()
    respelt["cluster_policy"]["spec"]["rdmaSharedDevicePlugin"]["config"] = json.dumps(RDMA_CONFIG, indent=7)
    assert hash_of(base, "rdma-shared-dp-ds") == hash_of(respelt, "rdma-shared-dp-ds")


def test_an_apostrophe_in_a_configuration_is_stored_as_it_is() -> None:
    config = copy.deepcopy(RDMA_CONFIG)
    config["configList"][0]["selectors"]["ifNames"] = ['it\'s-a-"name": \n{{ x }}']
    waves = render(spec_of({"rdmaSharedDevicePlugin": {"config": json.dumps(config)}}))
    assert json.loads(find(waves, "ConfigMap", "rdma-devices")["data"]["config.json"]) == config


def test_policy_placing_reaches_every_daemon_set_of_the_policy() -> None:
    waves = render(everything())
    for each in objects_of(waves):
        found = pod_of(each)
        if each["kind"] != "DaemonSet" or found is None or each["metadata"]["name"] == "nfd-worker":
            continue
        assert {"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"} in found["tolerations"]
        assert {"key": "dedicated", "operator": "Equal", "value": "ai", "effect": "NoSchedule"} in found["tolerations"]
        assert found["affinity"]["nodeAffinity"] == everything()["cluster_policy"]["spec"]["nodeAffinity"]
    master = pod(waves, "Deployment", "nfd-master")["affinity"]["nodeAffinity"]
    assert len(master["preferredDuringSchedulingIgnoredDuringExecution"]) == 2
    assert master["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def test_container_resources_override_the_defaults_in_canonical_form() -> None:
    container = pod(render(everything()), "DaemonSet", "rdma-shared-dp-ds")["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}}


def test_pull_secrets_of_policy_and_settings_reach_every_pod() -> None:
    for each in objects_of(render(everything())):
        found = pod_of(each)
        if found is not None:
            assert found["imagePullSecrets"] == [{"name": "ngc"}, {"name": "local"}], each["metadata"]["name"]


def test_every_image_comes_from_the_bill_through_the_mirrors() -> None:
    allowed = ("registry.local/nvcr/", "registry.local/k8s/", "ghcr.io/k8snetworkplumbingwg/")
    names = {material(component, {}).image for component in COMPONENTS}
    for each in objects_of(render(everything())):
        found = pod_of(each)
        for container in containers_of(found) if found else []:
            assert container["image"].startswith(allowed), container["image"]
            assert container["image"].rsplit("/", 1)[1].split(":")[0] in names


def test_node_policies_get_objects_of_their_own() -> None:
    waves = render(node_groups())
    sets = [each for each in objects_of(waves) if each["kind"] == "DaemonSet" and "dp" in each["metadata"]["name"]]
    selectors = [each["spec"]["template"]["spec"]["nodeSelector"] for each in sets]
    assert {selector["pool"] for selector in selectors} == {"hopper", "ampere"}
    labels = [tuple(each["spec"]["selector"]["matchLabels"].items()) for each in sets]
    assert len(set(labels)) == len(labels)
    for each in sets:
        own = each["spec"]["template"]["spec"]["nodeSelector"]["pool"]
        config = [v["configMap"]["name"] for v in each["spec"]["template"]["spec"]["volumes"] if "configMap" in v]
        assert config == [f"rdma-devices-{own}"]
        assert {"key": own, "operator": "Exists"} in each["spec"]["template"]["spec"]["tolerations"]


def test_the_name_of_a_node_policy_s_daemon_set_is_the_vendor_s() -> None:
    names = {each["metadata"]["name"] for each in objects_of(render(node_groups()))}
    assert {"rdma-shared-dp-ds-ampere", "rdma-shared-dp-ds-hopper"} <= names


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v0.3", set()),
        ("v0.4.2-amd64", set()),
        ("v0.5.1", {"CronJob/ip-reconciler"}),
        ("v0.5.4-amd64", {"CronJob/ip-reconciler"}),
        ("v0.6.1", set()),
        ("v0.7.0", set()),
        ("v0.8.0", set()),
        ("v0.9.4", {"Deployment/whereabouts-reconciler"}),
        ("sha256:" + "a" * 64, set()),
    ],
)
def test_whereabouts_gets_the_reconciler_of_its_release(version: str, expected: set[str]) -> None:
    waves = render(spec_of({"secondaryNetwork": {"ipamPlugin": {"version": version}}}, settings={"nfd": False}))
    found = {f"{each['kind']}/{each['metadata']['name']}" for each in objects_of(waves) if pod_of(each)}
    assert found == {"DaemonSet/whereabouts"} | expected


@pytest.mark.parametrize(("version", "has_loop"), [("v0.5.2-amd64", False), ("v0.5.3", True), ("latest", True)])
def test_whereabouts_starts_the_control_loop_where_its_release_has_one(version: str, has_loop: bool) -> None:
    waves = render(spec_of({"secondaryNetwork": {"ipamPlugin": {"version": version}}}))
    script = pod(waves, "DaemonSet", "whereabouts")["containers"][0]["command"][-1]
    assert "/install-cni.sh || exit 1\n" in script
    assert ("ip-control-loop" in script) == has_loop


def test_node_slices_bring_their_controller_and_definition() -> None:
    waves = render(everything())
    assert find(waves, "Deployment", "whereabouts-controller")
    assert find(waves, "CustomResourceDefinition", "nodeslicepools.whereabouts.cni.cncf.io")


def test_two_inputs_may_not_make_one_object() -> None:
    spec = spec_of(
        networks=[network("MacvlanNetwork", "net", networkNamespace="a")],
        attachments=[attachment("net", {"type": "macvlan"}, "a")],
    )
    assert problems_of(spec) == [
        "NetworkAttachmentDefinition/a/net: is rendered twice: two inputs ask for an object of this name"
    ]


def test_an_object_that_is_made_anyway_need_not_be_given() -> None:
    spec = spec_of(networks=[network("MacvlanNetwork", "net")])
    made = find(render(spec), "CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io")
    (problem,) = problems_of({**spec, "objects": [made]})
    assert problem.endswith("is given, and this collection makes it itself")


def test_ranges_that_overlap_on_one_wire_are_refused_across_networks() -> None:
    def rail(name: str, master: str, range_: str) -> dict[str, Any]:
        return network("MacvlanNetwork", name, master=master, ipam=json.dumps({"type": "whereabouts", "range": range_}))

    clash = spec_of(networks=[rail("a", "rail0", "10.0.0.0/16"), rail("b", "rail0", "10.0.1.0/24")])
    assert problems_of(clash) == [
        "MacvlanNetwork/b config.ipam: 10.0.1.0/24 overlaps another range of the same network"
    ]
    render(spec_of(networks=[rail("a", "rail0", "10.0.0.0/16"), rail("b", "rail1", "10.0.1.0/24")]))
    render(spec_of(networks=[rail("a", "rail0", "10.0.0.0/24"), rail("b", "rail0", "10.0.0.0/24")]))


def test_objects_given_as_such_come_last_and_unchanged_in_meaning() -> None:
    waves = render(training_cluster())
    job = waves[-1]["objects"][0]
    given = training_cluster()["objects"][0]
    assert waves[-1]["name"] == "objects"
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": "8",
        "rdma/rdma_shared_device_a": "1",
    }
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = given["spec"]["template"]["spec"]["containers"][0][
        "resources"
    ]
    assert job["spec"] == given["spec"]


def test_a_namespace_given_as_such_replaces_the_one_that_would_be_made() -> None:
    given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ai-training", "labels": {"team": "ml"}}}
    spec = training_cluster()
    spec["objects"].append(given)
    waves = render(spec)
    found = [each for each in objects_of(waves) if each["metadata"]["name"] == "ai-training"]
    assert len(found) == 1 and found[0] in waves[0]["objects"]
    assert found[0]["metadata"]["labels"]["team"] == "ml"


def test_the_namespace_of_the_components_admits_privileged_pods() -> None:
    waves = render(training_cluster())
    own = find(waves, "Namespace", "nvidia-network-operator")["metadata"]["labels"]
    other = find(waves, "Namespace", "ai-training")["metadata"]["labels"]
    assert own["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "pod-security.kubernetes.io/enforce" not in other


def own_namespace(**labels: str) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia-network-operator", "labels": labels}}


def test_a_given_namespace_of_the_components_admits_them_too() -> None:
    spec = training_cluster()
    spec["objects"].append(own_namespace(team="net"))
    labels = find(render(spec), "Namespace", "nvidia-network-operator")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert labels["team"] == "net"


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_namespace_that_keeps_out_the_components_is_refused(level: str) -> None:
    spec = training_cluster()
    spec["objects"].append(own_namespace(**{"pod-security.kubernetes.io/enforce": level}))
    with pytest.raises(InvalidInput) as refused:
        render(spec)
    (found,) = refused.value.violations
    assert found.path == "Namespace nvidia-network-operator"
    assert f"its level is {level}" in found.problem
    assert "pod-security.kubernetes.io/enforce: privileged" in found.hint
    render(spec_of(objects=spec["objects"], networks=[network("MacvlanNetwork", "a")]))


# Adopted from the Network Operator, their pods would be made anew for a token alone (docs/guide-adopt.md).
AS_THE_OPERATOR_HAS_THEM = {"cni-plugins-ds", "kube-ipoib-cni-ds", "nic-feature-discovery-ds"}


@pytest.mark.parametrize("name", sorted(SPECS))
def test_only_pods_with_rights_in_the_cluster_have_a_token(name: str) -> None:
    spec = SPECS[name]()
    networks = {"SriovNetwork": {"resourceName": "a"}, "OVSNetwork": {"bridge": "br", "resourceName": "b"}}
    given = [
        {"kind": kind, "name": kind.lower(), "namespace": "default", "spec": fields, "source": "n.yaml"}
        for kind, fields in networks.items()
    ]
    objects = objects_of(render({**spec, "networks": [*spec["networks"], *given]}))
    granted = {
        subject["name"]
        for body in objects
        if body["kind"] in ("RoleBinding", "ClusterRoleBinding")
        for subject in body["subjects"]
        if not only_admits(body["roleRef"], objects)
    }
    told = {}
    for body in objects:
        if body["kind"] in ("DaemonSet", "Deployment"):
            pod = body["spec"]["template"]["spec"]
            kept = body["metadata"]["name"] in AS_THE_OPERATOR_HAS_THEM
            wanted = kept or pod.get("serviceAccountName") in granted
            told[body["metadata"]["name"]] = (pod.get("automountServiceAccountToken", True), wanted)
    assert {workload: found for workload, found in told.items() if found[0] != found[1]} == {}
    assert told["sriov-cni-ds"] == (False, False)


def only_admits(reference: dict[str, Any], objects: list[dict[str, Any]]) -> bool:
    """Tell whether a role only has OpenShift admit its pods."""
    (role,) = (
        body for body in objects if (body["kind"], body["metadata"]["name"]) == (reference["kind"], reference["name"])
    )
    return all(rule["resources"] == ["securitycontextconstraints"] for rule in role["rules"])
