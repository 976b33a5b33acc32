# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controllers of a policy: what the operator makes of their sections, and what is said and refused beside them.

What the operator made is recorded in ``tests/fixtures/operator``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, Fabric, of_policy, of_text, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import controllers, spec_of

Object = dict[str, Any]
RECORDED = FIXTURES / "operator"
NAMESPACE = "nvidia-network-operator"
CARDS, FLOWS = "nicConfigurationOperator", "spectrumXOperator"
STATES = ("state-nic-configuration-operator", "state-spectrum-x-operator")
IMAGES: Object = {"operator": {}, "configurationDaemon": {}}
CARDS_API, FLOWS_API = "configuration.net.nvidia.com/v1alpha1", "spectrumx.nvidia.com/v1alpha2"
KINDS = {
    **dict.fromkeys(
        ("NicConfigurationTemplate", "NicFirmwareSource", "NicFirmwareTemplate", "NicInterfaceNameTemplate"),
        (CARDS_API, CARDS),
    ),
    "SpectrumXRailPoolConfig": (FLOWS_API, FLOWS),
}

CARD: Object = {"nicType": "1021"}
SPECS: Object = {
    "NicConfigurationTemplate": {"nicSelector": CARD, "template": {"numVfs": 8, "linkType": "Ethernet"}},
    "NicFirmwareSource": {"binUrlSources": ["http://a/b.bin"]},
    "NicFirmwareTemplate": {
        "nicSelector": CARD,
        "template": {"nicFirmwareSourceRef": "x", "updatePolicy": "Update"},
    },
    "NicInterfaceNameTemplate": {
        "netDevicePrefix": "eth_%rail_id%",
        "pfsPerNic": 1,
        "railPciAddresses": [["0000:18:00.0"]],
    },
    "SpectrumXRailPoolConfig": {
        "numVfs": 1,
        "railTopology": [{"name": "r", "mtu": 0, "nicSelector": {"pfNames": ["a"]}}],
    },
}


def recorded() -> dict[tuple[str, str], Object]:
    bodies: list[Object] = [
        body
        for name in ("objects.json", "definitions.json")
        for body in json.loads((RECORDED / name).read_text(encoding="utf-8"))
    ]
    return {
        (body["kind"], body["metadata"]["name"]): body
        for body in bodies
        if body["metadata"]["labels"].get("nvidia.network-operator.state") in STATES
    }


def rendered(policy: Object, **parts: Any) -> dict[tuple[str, str], Object]:
    spec = spec_of(policy, settings={"nfd": False, **parts})
    return {(each["kind"], each["metadata"]["name"]): each for each in objects_of(render(spec))}


def operators_policy() -> Object:
    for body in yaml.safe_load_all((RECORDED / "policy.yaml").read_text(encoding="utf-8")):
        if body["kind"] == "NicClusterPolicy":
            return {name: body["spec"][name] for name in (CARDS, FLOWS)}
    raise AssertionError("no policy")


def pod_of(found: dict[tuple[str, str], Object], kind: str, name: str) -> Object:
    pod: Object = found[kind, name]["spec"]["template"]["spec"]
    return pod


def variables_of(pod: Object) -> Object:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in pod["containers"][0]["env"]}


def given(kind: str, api_version: str, **fields: Any) -> Document:
    found = resource(kind, "x", {}, f"{kind}.yaml", namespace=NAMESPACE)
    found.content.update(apiVersion=api_version, **fields)
    return found


def fabric(policy: Object, *documents: Document, **parts: Any) -> Fabric:
    return Fabric([resource("NicClusterPolicy", "nic-cluster-policy", policy), *documents], [], **parts)


def test_the_objects_are_those_that_the_operator_makes() -> None:
    ours, theirs = rendered(operators_policy()), recorded()
    assert len(theirs) == 17
    assert set(ours) == {*theirs, ("Namespace", NAMESPACE)}


def rights_on(body: Object, group: str, resource_name: str) -> list[str]:
    return [
        verb
        for rule in body["rules"]
        if group in rule["apiGroups"] and resource_name in rule["resources"]
        for verb in rule["verbs"]
    ]


def images(version: str) -> Object:
    return {CARDS: {part: {"version": version} for part in IMAGES}, FLOWS: {"version": version}}


@pytest.mark.parametrize(
    ("policy", "of_26_7"),
    [
        (images("network-operator-v26.4.1"), False),
        (images("network-operator-v26.1.2"), False),
        ({CARDS: IMAGES, FLOWS: {}}, True),
        (images("v1.3.1"), True),
        (images("network-operator-v26.7.0-rc.2"), True),
        (images("network-operator-v26.7.0-rc.2-stig-fips-rhel"), True),
        (images("network-operator-v27.1.0"), True),
        ({CARDS: IMAGES, FLOWS: {}, "global": {"version": "network-operator-v26.7.0"}}, True),
    ],
)
def test_images_of_26_7_get_the_rights_and_folders_that_they_need(policy: Object, of_26_7: bool) -> None:
    found = rendered(policy)
    card = found["ClusterRole", "nic-configuration-operator"]
    assert rights_on(card, "", "configmaps") == (["get", "list", "watch"] if of_26_7 else ["get"])
    flow = found["ClusterRole", "spectrum-x-operator"]
    assert rights_on(flow, "nv-ipam.nvidia.com", "cidrpools") == (["get", "list", "watch"] if of_26_7 else [])
    pod = pod_of(found, "DaemonSet", "spectrum-x-flowcontroller")
    folders = ["/etc/systemd/system/ovs-vswitchd.service.d", "/var/lib/spectrum-x"] if of_26_7 else []
    usual = {"/proc", "/sys", "/var/run/openvswitch/", "/etc/default/openvswitch-switch"}
    mounted = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert sorted({*mounted} - usual) == folders
    volumes = {each["name"]: each["hostPath"] for each in pod["volumes"]}
    assert [volumes[mounted[each]] for each in folders] == [
        {"path": each, "type": "DirectoryOrCreate"} for each in folders
    ]


@pytest.mark.parametrize("newer", IMAGES)
def test_the_newer_of_the_two_images_counts_for_what_both_share(newer: str) -> None:
    section = {**IMAGES, newer: {"version": "network-operator-v26.7.0"}}
    found = rendered({CARDS: section})
    assert "watch" in rights_on(found["ClusterRole", "nic-configuration-operator"], "", "configmaps")


@pytest.mark.parametrize(("chosen", "taken"), [("26.4.1", "26.4"), ("26.10.0-beta.3", "26.10")])
def test_an_image_that_names_no_release_is_taken_for_the_chosen_one_which_is_said(chosen: str, taken: str) -> None:
    digest = f"sha256:{'a' * 64}"
    policy = {CARDS: {**IMAGES, "configurationDaemon": {"version": digest}}, FLOWS: {"version": "v1.2.0"}}
    notices = of_policy(policy, settings={"operator_release": chosen}).accepted().notices
    said = {each.path: each.problem for each in notices if "says no release" in each.problem}
    assert set(said) == {f"spec.{CARDS}.configurationDaemon.version", f"spec.{FLOWS}.version"}
    assert (
        said[f"spec.{FLOWS}.version"]
        == f"v1.2.0 says no release of the vendor's: definitions and rights are those of {taken}"
    )
    flow = rendered(policy, operator_release=chosen)["ClusterRole", "spectrum-x-operator"]
    assert bool(rights_on(flow, "nv-ipam.nvidia.com", "cidrpools")) is (taken != "26.4")
    for named in ({CARDS: IMAGES, FLOWS: {}}, images("network-operator-v26.7.0-rc.2")):
        assert not [each for each in of_policy(named).accepted().notices if "says no release" in each.problem]


PROFILE_LABEL = "network.nvidia.com/operator.nic-configuration.spectrum-x-profile"


@pytest.mark.parametrize(
    ("version", "labels", "data", "enabled", "named"),
    [
        ("network-operator-v26.7.0", None, None, True, True),
        ("network-operator-v26.7.0", {PROFILE_LABEL: ""}, {"profile": "a"}, True, False),
        ("network-operator-v26.7.0", {"other": "x"}, {"profile": "a"}, True, True),
        ("network-operator-v26.7.0", {PROFILE_LABEL: ""}, {"other": "a"}, True, True),
        ("network-operator-v26.7.0", None, None, False, False),
        ("network-operator-v26.4.1", None, None, True, False),
    ],
)
def test_a_profile_that_the_daemon_would_not_find_is_named(
    version: str, labels: Any, data: Any, enabled: bool, named: bool
) -> None:
    template = {"numVfs": 1, "linkType": "Ethernet", "spectrumXOptimized": {"enabled": enabled, "version": "RA2.1"}}
    asking = given(
        "NicConfigurationTemplate", CARDS_API, spec={"nicSelector": {"nicType": "1023"}, "template": template}
    )
    documents = [asking]
    if labels is not None:
        profile = given("ConfigMap", "v1", data=data)
        profile.content["metadata"].update(name="ra2.1", labels=labels)
        template["spectrumXOptimized"] = {"enabled": enabled, "version": "ra2.1"}
        documents.append(profile)
    policy = {CARDS: {part: {"version": version} for part in IMAGES}}
    notices = fabric(policy, *documents).accepted().notices
    found = [each.path for each in notices if "asks for the profile" in each.problem]
    assert found == (["spec.template.spectrumXOptimized.version"] if named else [])


@pytest.mark.parametrize(
    ("name", "namespace", "named"),
    [("a", NAMESPACE, False), ("a", "network-operator", True), ("a", "", True), ("b", NAMESPACE, True)],
)
def test_a_source_of_firmware_that_the_daemon_would_not_find_is_named(name: str, namespace: str, named: bool) -> None:
    reference = {"nicFirmwareSourceRef": "a", "updatePolicy": "Validate"}
    template = given("NicFirmwareTemplate", CARDS_API, spec={"nicSelector": CARD, "template": reference})
    source = given("NicFirmwareSource", CARDS_API, spec={"binUrlSources": ["https://example.com/a.zip"]})
    source.content["metadata"] = {"name": name, "namespace": namespace}
    notices = fabric({CARDS: IMAGES}, template, source).accepted().notices
    found = [each.path for each in notices if "names the NicFirmwareSource" in each.problem]
    assert found == (["spec.template.nicFirmwareSourceRef"] if named else [])


def test_their_daemons_run_where_there_is_a_nic_and_wait_for_no_operators_label() -> None:
    found = rendered({CARDS: IMAGES, FLOWS: {}})
    for name in ("nic-configuration-daemon", "spectrum-x-flowcontroller"):
        selector = pod_of(found, "DaemonSet", name)["nodeSelector"]
        assert selector == {"feature.node.kubernetes.io/pci-15b3.present": "true"}


def test_without_storage_no_claim_is_made_and_none_is_mounted() -> None:
    found = rendered({CARDS: IMAGES})
    assert not [name for kind, name in found if kind == "PersistentVolumeClaim"]
    for kind, name in (("Deployment", "nic-configuration-operator"), ("DaemonSet", "nic-configuration-daemon")):
        assert not [each for each in pod_of(found, kind, name).get("volumes", []) if "persistentVolumeClaim" in each]


def test_a_claim_of_somebody_else_is_mounted_and_not_made() -> None:
    section = {**IMAGES, "nicFirmwareStorage": {"create": False, "pvcName": "shared"}}
    found = rendered({CARDS: section})
    assert not [name for kind, name in found if kind == "PersistentVolumeClaim"]
    (volume,) = pod_of(found, "Deployment", "nic-configuration-operator")["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "shared"}
    notice = fabric({CARDS: section}).accepted().said("names the PersistentVolumeClaim shared")
    assert notice.path == f"spec.{CARDS}.nicFirmwareStorage.pvcName"
    claim = given("PersistentVolumeClaim", "v1")
    claim.content["metadata"]["name"] = "shared"
    said = [each.problem for each in fabric({CARDS: section}, claim).accepted().notices]
    assert not [problem for problem in said if "PersistentVolumeClaim" in problem]


def test_size_and_class_of_a_claim_that_is_not_made_are_named() -> None:
    storage = {"create": False, "storageClassName": "nfs", "availableStorageSize": "2Gi"}
    notices = fabric({CARDS: {**IMAGES, "nicFirmwareStorage": storage}}).accepted().notices
    paths = {each.path.rpartition(".")[2] for each in notices if each.problem == "has no effect here"}
    assert paths == {"storageClassName", "availableStorageSize"}


def test_variables_placing_secrets_and_resources_of_the_policy_reach_both_pods() -> None:
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects_of(render(controllers()))}
    for kind, name in (("Deployment", "nic-configuration-operator"), ("DaemonSet", "nic-configuration-daemon")):
        pod = pod_of(found, kind, name)
        variables = variables_of(pod)
        assert variables["LOG_LEVEL"] == "debug"
        assert variables["EMPTY"] is None
        assert variables["NODE_IP"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.hostIP"}}
        assert variables["CORES"] == {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}}
        assert pod["imagePullSecrets"] == [{"name": "ngc"}]
        assert {"key": "dedicated", "operator": "Exists"} in pod["tolerations"]
        assert pod["containers"][0]["resources"] == {"limits": {"cpu": "500m", "memory": "1Gi"}}
    claim = found["PersistentVolumeClaim", "nic-fw-storage-pvc"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


def test_the_service_of_spectrum_x_comes_from_a_mirror_with_its_own_secrets() -> None:
    service = {"imagePullSecrets": ["doca"], "version": "doca-3.4.0"}
    policy: Object = {FLOWS: {"xPlane": service}, "global": {"repository": "nvcr.io/other/path"}}
    found = rendered(policy, registry_mirrors={"nvcr.io": "mirror.local:5000"}, image_pull_secrets=["local"])
    variables = variables_of(pod_of(found, "DaemonSet", "spectrum-x-flowcontroller"))
    assert variables["XPLANE_REPOSITORY"] == "mirror.local:5000/nvidia/doca"
    assert (variables["XPLANE_IMAGE"], variables["XPLANE_VERSION"]) == ("xplane", "doca-3.4.0")
    assert variables["IMAGE_PULL_SECRETS"] == "doca,local"
    digest = f"sha256:{'a' * 64}"
    found = rendered({FLOWS: {"xPlane": {"version": digest}}})
    assert variables_of(pod_of(found, "DaemonSet", "spectrum-x-flowcontroller"))["XPLANE_VERSION"] == digest
    of_26_4 = {"version": "network-operator-v26.4.1", "repository": "r.example/g"}
    for policy in ({FLOWS: {}}, {FLOWS: {"xPlane": {}}}, {FLOWS: {"xPlane": {}}, "global": of_26_4}):
        without = variables_of(pod_of(rendered(policy), "DaemonSet", "spectrum-x-flowcontroller"))
        assert set(without) == {"POD_NAMESPACE", "NODE_NAME"}
    assert fabric({FLOWS: {"xPlane": {}}}).accepted().said("has no version").path == f"spec.{FLOWS}.xPlane"
    notice = fabric({FLOWS: {"xPlane": service}}).accepted().said("in no list of this collection")
    assert notice.path == f"spec.{FLOWS}.xPlane"
    assert "nvcr.io/nvidia/doca/xplane:doca-3.4.0" in notice.problem


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        ("NicConfigurationTemplate", "linkType, numVfs: firmware"),
        ("NicFirmwareSource", "binUrlSources[]: firmware_image"),
        ("NicFirmwareTemplate", "nicFirmwareSourceRef: firmware_image; updatePolicy: nothing"),
        ("NicInterfaceNameTemplate", "netDevicePrefix, pfsPerNic, railPciAddresses[][]: name"),
        ("SpectrumXRailPoolConfig", ""),
    ],
)
def test_an_object_for_a_controller_is_applied_beside_it_and_not_without(kind: str, done: str) -> None:
    api_version, section = KINDS[kind]
    document = given(kind, api_version, spec=SPECS[kind])
    document.content["metadata"]["labels"] = {"a": "b"}
    policy = {CARDS: IMAGES} if section == CARDS else {section: {}}
    accepted = fabric(policy, document).accepted()
    assert [each["kind"] for each in accepted.spec["objects"]] == [kind]
    assert not [each for each in accepted.notices if each.path.startswith("metadata")]
    said = [each.hint for each in accepted.notices if each.path == "kind"]
    assert [done in each for each in said] == [True] * bool(done)
    wave = render(accepted.spec)[-1]
    assert (wave["name"], [each["kind"] for each in wave["objects"]]) == ("objects", [kind])
    if section == CARDS:
        assert Fabric([document], []).spec.get("objects", []) == []
    else:
        found = Fabric([document], []).wrong("kind")
        assert section in found.problem and section in found.hint
    elsewhere = fabric(policy, given(kind, "mellanox.com/v1alpha1")).wrong("apiVersion")
    assert elsewhere.hint == f"a {kind} is of {api_version}"


def test_a_misspelt_word_is_found_with_the_controller_and_without_one() -> None:
    template = {"numVfs": 8, "linkType": "Etherent"}
    document = given("NicConfigurationTemplate", CARDS_API, spec={"nicSelector": CARD, "template": template})
    for documents in (fabric({CARDS: IMAGES}, document), Fabric([document], [])):
        assert documents.wrong("spec.template.linkType").hint == "one of Ethernet, Infiniband"


def test_the_maintenance_operator_is_set_up_where_a_controller_waits_for_it() -> None:
    kind, api_version = "MaintenanceOperatorConfig", "maintenance.nvidia.com/v1alpha1"
    accepted = fabric({CARDS: IMAGES}, given(kind, api_version)).accepted()
    assert [each["kind"] for each in accepted.spec["objects"]] == [kind]
    assert "install its chart before this run" in accepted.said("sets up the maintenance operator").hint
    wrong = fabric({CARDS: IMAGES}, given(kind, api_version, spec={"maxParallelOperation": 2})).wrong
    assert wrong("spec.maxParallelOperation").hint == "did you mean maxParallelOperations?"
    found = fabric({FLOWS: {}}, given(kind, api_version)).wrong("kind")
    assert "nothing of the input asks it for a node" in found.problem
    assert "rdma.fabric.upgrade" in found.hint


@pytest.mark.parametrize("kind", ["SriovResourcePolicy", "DeviceAttributes"])
def test_it_is_said_who_reads_what_offers_functions_to_resource_claims(kind: str) -> None:
    accepted = fabric({}, given(kind, "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1")).accepted()
    assert [each["kind"] for each in accepted.spec["objects"]] == [kind]
    said = accepted.said("DRA driver for SR-IOV")
    assert said.path == "kind"
    assert "install the driver before this run" in said.hint


def test_a_card_as_its_controller_sees_it_is_no_input() -> None:
    found = fabric({CARDS: IMAGES}, given("NicDevice", CARDS_API)).violations
    assert [each.problem for each in found] == ["is the NIC configuration operator's own record of a card"]


def test_it_is_said_what_the_controllers_do_to_hosts_and_what_they_wait_for() -> None:
    notice = of_policy({CARDS: IMAGES}).accepted().said("changes hosts on its own")
    assert notice.path == f"spec.{CARDS}"
    assert "reboots nodes" in notice.problem and "maintenance operator" in notice.hint
    notice = of_policy({FLOWS: {}}).accepted().said("SR-IOV Network Operator")
    assert notice.path == f"spec.{FLOWS}"


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ({CARDS: IMAGES}, True),
        ({FLOWS: {}}, False),
        ({CARDS: IMAGES, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, True),
        (
            {
                CARDS: IMAGES,
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
                    }
                },
            },
            False,
        ),
    ],
)
def test_firmware_of_a_host_is_refused_beside_the_controller_that_sets_it(policy: Object, refused: bool) -> None:
    entries = [{"firmware": None}, {"firmware": {"NUM_OF_VFS": 8}, "firmware_image": {"version": "28.43.1014"}}]
    hosts: Object = {"node-0": ({"interfaces": entries}, [], []), "node-1": ({"interfaces": [{"vfs": 8}]}, [], [])}
    found = [(each.source, each.path) for each in fabric(policy, hosts=hosts).violations]
    keys = ("firmware", "firmware_image") if refused else ()
    assert found == [("host node-0: rdma_fabric_interfaces", f"[1].{key}") for key in keys]


@pytest.mark.parametrize(
    ("section", "path", "words"),
    [
        ({"operator": {}}, f"spec.{CARDS}", "configurationDaemon"),
        ({**IMAGES, "logLevel": "trace"}, f"spec.{CARDS}.logLevel", "trace"),
        ({**IMAGES, "env": [{"name": "LOG_LEVEL", "value": "x"}]}, f"spec.{CARDS}.env[0].name", "set twice"),
        (
            {**IMAGES, "env": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]},
            f"spec.{CARDS}.env[1].name",
            "A is set twice",
        ),
        (
            {**IMAGES, "nicFirmwareStorage": {"availableStorageSize": "5G"}},
            f"spec.{CARDS}.nicFirmwareStorage.availableStorageSize",
            "'5G' is not a valid size",
        ),
        (
            {**IMAGES, "nicFirmwareStorage": {"pvcName": "a.b"}},
            f"spec.{CARDS}.nicFirmwareStorage.pvcName",
            "is not a valid Kubernetes name",
        ),
        (
            {**IMAGES, "operator": {"containerResources": [{"name": "manager"}]}},
            f"spec.{CARDS}.operator.containerResources[0].name",
            "manager",
        ),
    ],
)
def test_what_the_operator_refuses_or_pods_would_not_start_with_is_refused(
    section: Object, path: str, words: str
) -> None:
    found = of_policy({CARDS: section}).wrong(path)
    assert words in found.problem


def test_fields_of_the_first_release_are_named_with_what_became_of_them() -> None:
    section = {"sriovObjNamespace": "x", "spectrumXConfig": {"name": "y"}}
    notices = of_policy({FLOWS: section}).accepted().notices
    retired = {each.path: each.sentence() for each in notices if "v25.4.0" in each.sentence()}
    assert set(retired) == {f"spec.{FLOWS}.{name}" for name in section}


def test_the_charts_switch_deploys_the_controller_whatever_the_chart_makes_of_sections() -> None:
    for switch in ({}, {"deployCR": False}):
        values = {"nicConfigurationOperator": {"enabled": True}, **switch}
        found = of_text(values=values).accepted()
        section = found.spec["cluster_policy"]["spec"][CARDS]
        assert section == {"operator": {}, "configurationDaemon": {}}
        assert "v25.10.0" in found.said("nicConfigurationOperator of the NicClusterPolicy").sentence()
    off = of_text(values={"nicConfigurationOperator": {"enabled": False}}).accepted()
    assert off.spec["cluster_policy"] is None
    maintenance = of_text(values={"maintenanceOperator": {"enabled": True}}).accepted()
    assert "rdma.fabric.upgrade" in maintenance.said("maintenance operator is not deployed").problem
