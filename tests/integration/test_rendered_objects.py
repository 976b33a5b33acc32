# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is rendered, put to a real API server: strictly accepted, and provably unchanged the second time."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import crds_controllers
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.versions import R26_10
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import crds
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.tests.integration.cert_manager import cert_manager_kinds
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import QUICK_STARTS, SEEDS, of_files
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import (
    SPECS,
    controllers,
    nv_ipam,
    nv_ipam_webhook,
    spec_of,
)

Json = dict[str, Any]

EXPRESSIONS: Json = {
    "vendor": {"op": "In", "value": ["15b3"]},
    "class": {"op": "Exists"},
    "version": {"op": "GeLe", "value": ["1.0", "2.0"], "type": "version"},
}
TERM: Json = {
    "feature": "pci.device",
    "matchExpressions": EXPRESSIONS,
    "matchName": {"op": "InRegexp", "value": ["^a"]},
}
MATCHERS: Json = {"matchFeatures": [TERM], "matchAny": [{"matchFeatures": [TERM]}]}
TAINT: Json = {"effect": "NoSchedule", "key": "a/b", "value": "c"}
CARDS = "configuration.net.nvidia.com/v1alpha1"
ETHERNET: Json = {"linkType": "Ethernet"}
PLANES: Json = {"enabled": True, "version": "RA2.4", "platformType": "b300"}
CARD: Json = {"nicType": "1021", "pciAddresses": ["0000:18:00.0"], "serialNumbers": ["a"], "partNumbers": ["b"]}
CONFIGURATION: Json = {
    "numVfs": 8,
    "linkType": "Ethernet",
    "force": True,
    "pciPerformanceOptimized": {"enabled": True, "maxAccOutRead": 44, "maxReadRequest": 4096},
    "roceOptimized": {
        "enabled": True,
        "roceMode": 2,
        "qos": {
            "trust": "dscp",
            "pfc": "0,0,0,1,0,0,0,0",
            "tos": 96,
            "cableLen": 5,
            "ecn": {"enabled": True, "priority": 3},
            "pauseFrames": {"enabled": False},
        },
    },
    "runtimePerformanceOptimized": {
        "enabled": True,
        "combinedChannels": 8,
        "lro": True,
        "rxRingSize": 8192,
        "txRingSize": 8192,
    },
    "gpuDirectOptimized": {"enabled": True, "env": "Baremetal"},
    "rawNvConfig": [{"name": "A_B", "value": "1"}],
}
FIRMWARE: Json = {"nicFirmwareSourceRef": "a", "updatePolicy": "Update"}
# What the programs themselves write, in every field their API types have.
WRITTEN: list[Json] = [
    {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "spec": {
            "range": "192.168.200.0/24",
            "allocations": {"1": {"id": "c0ffee", "ifname": "net1", "podref": "ai/pod-0"}, "2": {"id": "old"}},
        },
    },
    {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "spec": {"containerid": "c0ffee", "ifname": "net1", "podref": "ai/pod-0"},
    },
    {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "spec": {"range": "10.0.0.0/16", "sliceSize": "/26"},
        "status": {"allocations": [{"nodeName": "", "sliceRange": "10.0.0.0/26"}]},
    },
    *(
        {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": each["kind"], "spec": each["spec"]}
        for each in nv_ipam()["pools"]
    ),
    *(
        {"apiVersion": each["apiVersion"], "kind": each["kind"], "spec": each["spec"]}
        for each in controllers("26.10.0")["objects"]
    ),
    {
        "apiVersion": CARDS,
        "kind": "NicDevice",
        "spec": {
            "configuration": {"resetToDefault": False, "template": CONFIGURATION},
            "firmware": FIRMWARE,
            "interfaceNameTemplate": {"netDevicePrefix": "r", "nicIndex": 0, "planeIndices": [0], "railIndex": 1},
        },
    },
    {
        "apiVersion": CARDS,
        "kind": "NicFirmwareSource",
        "spec": {
            "binUrlSources": ["https://a/b.zip"],
            "bfbUrlSource": "https://a/b.bfb",
            "docaSpcXCCUrlSource": "https://a",
        },
    },
    {
        "apiVersion": CARDS,
        "kind": "NicFirmwareTemplate",
        "spec": {"nodeSelector": {"a": "b"}, "nicSelector": CARD, "template": FIRMWARE},
    },
    {
        "apiVersion": CARDS,
        "kind": "NicInterfaceNameTemplate",
        "spec": {
            "nodeSelector": {"a": "b"},
            "pfsPerNic": 1,
            "netDevicePrefix": "rail%rail_id%",
            "rdmaDevicePrefix": "rdma%rail_id%",
            "railPciAddresses": [["0000:18:00.0"]],
        },
    },
    {
        "apiVersion": "spectrumx.nvidia.com/v1alpha2",
        "kind": "SpectrumXRailPoolConfig",
        "spec": {
            "draEnabled": False,
            "maxUnavailable": "50%",
            "networkNamespace": "ai",
            "nodeSelector": {"a": "b"},
            "numVfs": 1,
            "vfStateFollow": False,
            "ovsConfig": {"hw-offload": "true"},
            "railTopology": [
                {"name": "rail-0", "mtu": 9000, "nicSelector": {"pfNames": ["rail0"]}, "cidrPoolRef": "rail-0"},
                {"name": "rail-1", "mtu": 0, "nicSelector": {"pfNames": ["rail1"]}, "ipam": "{}", "swPlane": 0},
            ],
        },
    },
    {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "spec": {
            "features": {
                "attributes": {"kernel.version": {"elements": {"full": "6.8.0"}}},
                "flags": {"kernel.loadedmodule": {"elements": {"mlx5_core": {}}}},
                "instances": {"pci.device": {"elements": [{"attributes": {"vendor": "15b3"}}]}},
            },
            "labels": {"feature.node.kubernetes.io/pci-15b3.present": "true"},
        },
    },
    {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeatureGroup",
        "spec": {"featureGroupRules": [{"name": "nics", "vars": {"a": "b"}, "varsTemplate": "c=d", **MATCHERS}]},
    },
    {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeatureRule",
        "spec": {
            "rules": [
                {
                    "name": "everything",
                    "labels": {"a": "b"},
                    "labelsTemplate": "x={{ .y }}",
                    "vars": {"c": "d"},
                    "varsTemplate": "e=f",
                    "annotations": {"g": "h"},
                    "extendedResources": {"i": "1"},
                    "taints": [TAINT],
                    **MATCHERS,
                }
            ]
        },
    },
    {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "spec": {"config": "{}"},
    },
]


def of_seed(folder: str) -> Json:
    """Return the spec of everything a walkthrough tells its reader to apply."""
    names = sorted(path.name for path in (SEEDS / folder).iterdir() if path.suffix in (".yaml", ".yml"))
    return of_files(SEEDS / folder, *(name for name in names if name != "playbook-values.yaml")).accepted().spec


def of_quick_start(name: str) -> Callable[[], Json]:
    """Return a function that reads the spec of one of the documentation's quick starts."""
    return lambda: of_files(QUICK_STARTS, f"{name}.yaml").accepted().spec


CASES: dict[str, Callable[[], Json]] = {
    # The webhook has a test of its own: with it, the server would ask a controller that is not there about pools.
    **{name: make for name, make in SPECS.items() if make is not nv_ipam_webhook},
    "feature discovery of 0.19": lambda: spec_of(
        {}, settings={"nfd": True, "image_overrides": {"nfd": {"version": "v0.19.0"}}}
    ),
    "controllers of 26.4": lambda: controllers("26.4.1"),
    "controllers of 26.10": lambda: controllers("26.10.0"),
    "seed guide": lambda: of_seed("guide"),
    "seed egx-v0.1.0": lambda: of_seed("egx-v0.1.0"),
    **{
        f"quick start {name}": of_quick_start(name)
        for name in (
            "macvlan-rdma-shared",
            "host-device-rdma",
            "ipoib-rdma-shared",
            "sriov-network-rdma",
            "sriov-ib-rdma",
        )
    },
}


def apply(control_plane: ControlPlane, waves: list[Json], set_name: str = "rendered") -> Any:
    connection = Connection(Client({"kubeconfig": str(control_plane.kubeconfig)}))
    request = BatchRequest(waves=waves, set_name=set_name, inventory_namespace="default", wait=False)
    return run(connection, request).as_dict()


def applied(control_plane: ControlPlane, waves: list[Json]) -> Any:
    """Apply until what an earlier spec had and this one has not is gone: a claim stays as long as pods have it."""
    found = [apply(control_plane, waves)]

    def is_settled() -> bool:
        going = any("as soon as their finalizers are done" in notice for notice in found[0]["notices"])
        found[0] = apply(control_plane, waves) if going else found[0]
        return not going

    until(is_settled)
    return found[0]


@pytest.fixture(scope="module", autouse=True)
def removed(control_plane: ControlPlane) -> Iterator[None]:
    """Leave no definition behind that belongs to this module's set: other tests' sets bring the same ones."""
    yield
    connection = Connection(Client({"kubeconfig": str(control_plane.kubeconfig)}))
    options: Json = {"absent": True, "remove_kept": True, "wait": True, "wait_timeout": 120.0}
    run(connection, BatchRequest(waves=[], set_name="rendered", inventory_namespace="default", **options))


@pytest.mark.parametrize("name", list(CASES))
def test_every_rendered_object_is_stored_and_provably_equal_the_second_time(
    control_plane: ControlPlane, name: str
) -> None:
    waves = render(CASES[name]())
    first = applied(control_plane, waves)
    stored = [entry for entry in first["results"] if entry["action"] in ("created", "configured", "unchanged")]
    assert len([entry for entry in stored if entry["wave"] != "inventory"]) == len(objects_of(waves))
    second = apply(control_plane, waves)
    assert second["changed"] is False
    # Namespaces and definitions of the spec before this one are kept, never pruned.
    actions = {entry["action"] for entry in second["results"]}
    assert actions <= {"unchanged", "kept"}
    unchanged = [entry for entry in second["results"] if entry["action"] == "unchanged"]
    assert len([entry for entry in unchanged if entry["wave"] != "inventory"]) == len(objects_of(waves))
    assert second["requests"]["patch"] == 0


@pytest.fixture(scope="module")
def definitions(control_plane: ControlPlane) -> None:
    objects = [
        crds.network_attachment_definition(),
        *crds.whereabouts(True),
        *crds.node_feature_discovery(of_0_18=True),
    ]
    objects += [*crds.nv_ipam(), *crds_controllers.nic_configuration(R26_10)]
    objects += crds_controllers.spectrum_x(R26_10)
    # The last spec above may have left some of them: the set is the same, so they are simply completed.
    apply(control_plane, [{"name": "crds", "objects": objects}])
    names = [f"crd/{each['metadata']['name']}" for each in objects]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=90s", *names)


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("written", WRITTEN, ids=lambda each: str(each["kind"]))
def test_definitions_keep_every_field_their_program_writes(
    control_plane: ControlPlane, module_namespace: str, written: Json
) -> None:
    metadata = {"name": "written", "namespace": module_namespace}
    command = ["create", "--validate=strict", "-o", "json", "-f", "-"]
    stored = json.loads(control_plane.kubectl(*command, stdin=json.dumps({**written, "metadata": metadata})))
    assert stored["spec"] == written["spec"]
    assert stored.get("status") == written.get("status")


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("written", WRITTEN, ids=lambda each: str(each["kind"]))
def test_definitions_refuse_a_field_their_program_would_not_read(
    control_plane: ControlPlane, module_namespace: str, written: Json
) -> None:
    wrong = {**written, "spec": {**written["spec"], "rnage": "x"}}
    body = {**wrong, "metadata": {"name": "wrong", "namespace": module_namespace}}
    with pytest.raises(subprocess.CalledProcessError) as refused:
        control_plane.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(body))
    assert 'unknown field "spec.rnage"' in refused.value.stderr


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize(
    ("kind_of_card", "template", "words"),
    [
        ("1025", {"networkBay": {"conf": "a"}}, ""),
        ("1025", {"linkType": "Ethernet", "networkBay": {"conf": "a"}}, "one of linkType and networkBay"),
        ("1025", {}, "one of linkType and networkBay"),
        ("1021", {"networkBay": {"conf": "a"}}, "ConnectX-9"),
        ("1021", {"linkType": "Ethernet", "rawNvConfig": [{"name": "A[0]", "value": "1"}]}, ""),
        ("1021", {"linkType": "Ethernet", "rawNvConfig": [{"name": "A[0..3]", "value": "1"}]}, "no range of indexes"),
        ("1023", {"linkType": "Infiniband", "spectrumXOptimized": PLANES}, "linkType"),
        ("1023", {**ETHERNET, "spectrumXOptimized": {"enabled": True, "version": "RA2.4"}}, "platformType is required"),
        ("1023", {**ETHERNET, "spectrumXOptimized": PLANES}, ""),
        ("1021", {**ETHERNET, "spectrumXOptimized": PLANES}, ""),
        (
            "1021",
            {**ETHERNET, "spectrumXOptimized": {**PLANES, "multiplaneMode": "swplb", "numberOfPlanes": 2}},
            "ConnectX-7 (1021) without planes",
        ),
        ("1023", {**ETHERNET, "numVfs": 2, "spectrumXOptimized": PLANES}, "numVfs 1"),
        ("1023", {**ETHERNET, "spectrumXOptimized": {**PLANES, "numberOfPlanes": 2}}, "must be 1"),
        ("1023", {**ETHERNET, "spectrumXOptimized": {**PLANES, "multiplaneMode": "swplb"}}, "must not be 1"),
        ("1023", {**ETHERNET, "spectrumXOptimized": {**PLANES, "multiplaneMode": "swplb", "numberOfPlanes": 4}}, ""),
    ],
)
def test_rules_of_a_cards_configuration_hold(
    control_plane: ControlPlane, module_namespace: str, kind_of_card: str, template: Json, words: str
) -> None:
    body = {
        "apiVersion": CARDS,
        "kind": "NicConfigurationTemplate",
        "metadata": {"name": "judged", "namespace": module_namespace},
        "spec": {"nicSelector": {"nicType": kind_of_card}, "template": {"numVfs": 1, **template}},
    }
    command = ["create", "--validate=strict", "--dry-run=server", "-f", "-"]
    if not words:
        control_plane.kubectl(*command, stdin=json.dumps(body))
        return
    with pytest.raises(subprocess.CalledProcessError) as refused:
        control_plane.kubectl(*command, stdin=json.dumps(body))
    assert words in refused.value.stderr


@pytest.mark.usefixtures("definitions")
def test_only_the_controller_writes_the_allocations_of_a_pool(
    control_plane: ControlPlane, module_namespace: str
) -> None:
    allocations = [{"nodeName": "node-0", "startIP": "192.168.4.1", "endIP": "192.168.4.50"}]
    body = {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "allocated", "namespace": module_namespace},
        "spec": {"subnet": "192.168.4.0/24", "perNodeBlockSize": 50},
        "status": {"allocations": allocations},
    }
    stored = json.loads(control_plane.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(body)))
    assert "status" not in stored
    target = ["ippools.nv-ipam.nvidia.com/allocated", "--namespace", module_namespace]
    patch = json.dumps({"status": {"allocations": allocations}})
    written = control_plane.kubectl("patch", *target, "--subresource=status", "--type=merge", "-p", patch, "-o", "json")
    assert json.loads(written)["status"]["allocations"] == allocations


@pytest.fixture
def cert_manager(control_plane: ControlPlane) -> Iterator[None]:
    with cert_manager_kinds(control_plane):
        yield


@pytest.mark.usefixtures("cert_manager")
def test_the_webhook_of_nv_ipam_is_stored_and_provably_equal_the_second_time(control_plane: ControlPlane) -> None:
    waves = render(nv_ipam_webhook())
    try:
        apply(control_plane, waves)
        second = apply(control_plane, waves)
    finally:
        # Without its controller it would refuse every pool of the other tests.
        name = "nv-ipam-validating-webhook-configuration"
        control_plane.kubectl("delete", "validatingwebhookconfigurations", name, "--ignore-not-found")
    assert {entry["action"] for entry in second["results"]} <= {"unchanged", "kept"}
    assert second["requests"]["patch"] == 0
