# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the definitions of a run refuse of objects given as such is said before a host is changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import controllers

CARDS = "configuration.net.nvidia.com/v1alpha1"
TEMPLATE: dict[str, Any] = {
    "nodeSelector": {"a": "b"},
    "nicSelector": {"nicType": "1021", "pciAddresses": ["0000:18:00.0"]},
    "template": {"numVfs": 8, "linkType": "Ethernet"},
}
RAILS: dict[str, Any] = {
    "numVfs": 1,
    "maxUnavailable": "50%",
    "railTopology": [{"name": "r", "mtu": 0, "nicSelector": {"pfNames": ["a"]}}],
}
SPECTRUM = "spectrumx.nvidia.com/v1alpha2"


def judged(
    spec: Any, kind: str = "NicConfigurationTemplate", api_version: str = CARDS, release: str = "26.4.1"
) -> list[Violation]:
    given = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}, "spec": spec}
    policy = resource("NicClusterPolicy", "nic-cluster-policy", controllers(release)["cluster_policy"]["spec"])
    return Fabric([policy, Document("card.yaml", given)], []).violations


@pytest.mark.parametrize(
    ("where", "value", "path", "problem", "hint"),
    [
        (
            ("template", "linkTyp"),
            "Ethernet",
            "spec.template.linkTyp",
            "unknown field",
            "did you mean linkType?",
        ),
        (("template", "numVfs"), "8", "spec.template.numVfs", 'is the text "8", not a whole number', ""),
        (("template", "numVfs"), True, "spec.template.numVfs", "is true, not a whole number", ""),
        (("template", "linkType"), "IB", "spec.template.linkType", 'is "IB"', "one of Ethernet, Infiniband"),
        (("template",), {"numVfs": 1}, "spec.template", "lacks `linkType`", ""),
        (("template", "numVfs"), None, "spec.template", "lacks `numVfs`", ""),
        (("nicSelector", "pciAddresses"), ["18:00.0"], "spec.nicSelector.pciAddresses[0]", "18:00.0", "match"),
        (("nicSelector", "pciAddresses"), "a", "spec.nicSelector.pciAddresses", "not a list", ""),
        (("nodeSelector",), {"a": 1}, "spec.nodeSelector.a", "is the number 1, not text", ""),
    ],
)
def test_what_a_definition_refuses_is_said(where: Any, value: Any, path: str, problem: str, hint: str) -> None:
    spec = copy.deepcopy(TEMPLATE)
    *parents, last = where
    part = spec
    for key in parents:
        part = part[key]
    part[last] = value
    (found,) = judged(spec)
    assert (found.source, found.path) == ("card.yaml", path)
    assert problem in found.problem
    assert hint in found.hint


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("force", True),
        ("roceOptimized.roceMode", 2),
        ("roceOptimized.qos.cableLen", 5),
        ("roceOptimized.qos.ecn", {"enabled": True, "priority": 3}),
        ("roceOptimized.qos.pauseFrames", {"enabled": False}),
        ("runtimePerformanceOptimized", {"enabled": True, "combinedChannels": 8, "lro": True, "rxRingSize": 8192}),
    ],
)
def test_fields_of_26_7_are_taken_with_its_images_and_refused_with_older_ones(part: str, value: Any) -> None:
    spec = copy.deepcopy(TEMPLATE)
    spec["template"]["roceOptimized"] = {"enabled": True, "qos": {"trust": "dscp", "pfc": "0,0,0,1,0,0,0,0"}}
    owner = spec["template"]
    *parents, last = part.split(".")
    for key in parents:
        owner = owner[key]
    owner[last] = value
    assert judged(spec, release="26.7.0-rc.2") == judged(spec, release="27.1.0") == []
    (found,) = judged(spec, release="26.4.1")
    assert (found.path, found.problem) == (f"spec.template.{part}", "unknown field")


@pytest.mark.parametrize(
    ("part", "value", "path", "problem", "hint"),
    [
        ("rawNvConfig", [{"name": "A" * 65, "value": "1"}], "rawNvConfig[0].name", "has 65 characters", "at most 64"),
        ("rawNvConfig", [{"name": "A", "value": "1"}] * 129, "rawNvConfig", "has 129 entries", "at most 128"),
        (
            "roceOptimized",
            {"enabled": True, "qos": {"trust": "a", "pfc": "0,0,0,1,0,0,0,0", "ecn": {"enabled": True, "priority": 8}}},
            "roceOptimized.qos.ecn.priority",
            "is 8",
            "at most 7",
        ),
    ],
)
def test_upper_limits_of_a_definition_hold(part: str, value: Any, path: str, problem: str, hint: str) -> None:
    spec = {**TEMPLATE, "template": {**TEMPLATE["template"], part: value}}
    (found,) = judged(spec, release="26.7.0")
    assert (found.path, found.problem, found.hint) == (f"spec.template.{path}", problem, hint)


SPECTRUM_X = {"enabled": True, "version": "RA2.1", "platformType": "gb300"}
BAY = {"conf": "Conf_1"}


@pytest.mark.parametrize(
    ("changes", "nic_type", "path", "message"),
    [
        ({}, "1023", "", ""),
        ({"numVfs": -1}, "1023", ".template", "needs numVfs 1"),
        ({"linkType": "Infiniband"}, "1023", ".template", "no other linkType than Ethernet"),
        ({"linkType": None}, "1023", ".template", "one of linkType and networkBay is needed"),
        ({"linkType": None, "networkBay": BAY}, "1025", ".template", "not for a Network Bay card"),
        ({"linkType": None, "networkBay": BAY, "spectrumXOptimized": None}, "1025", "", ""),
        ({"linkType": None, "networkBay": BAY, "spectrumXOptimized": None}, "1023", "", "networkBay is for ConnectX-9"),
        ({"roceOptimized": {"enabled": True}}, "1023", ".template", "includes RoCE optimizations"),
        ({"roceOptimized": {"enabled": False}}, "1023", "", ""),
        ({"rawNvConfig": [{"name": "A[0..3]", "value": "1"}]}, "1023", ".template", "no range of indexes"),
        ({"rawNvConfig": [{"name": "A[0]", "value": "1"}]}, "1023", "", ""),
        ({}, "101d", "", "spectrumXOptimized is for ConnectX-8"),
        ({}, "1021", "", ""),
        ({"multiplaneMode": "swplb", "numberOfPlanes": 2}, "1021", "", "spectrumXOptimized is for ConnectX-8"),
        ({"multiplaneMode": "swplb", "numberOfPlanes": 2}, "a2dc", "", ""),
        ({"multiplaneMode": "hwplb", "numberOfPlanes": 2}, "a2dc", "", "hwplb MultiplaneMode can only"),
        ({"multiplaneMode": "swplb"}, "1023", ".template.spectrumXOptimized", "numberOfPlanes must not be 1"),
        ({"numberOfPlanes": 2}, "1023", ".template.spectrumXOptimized", "numberOfPlanes must be 1"),
        ({"platformType": None}, "1023", ".template.spectrumXOptimized", "platformType is required"),
    ],
)
def test_what_a_rule_of_a_definition_refuses_is_said(changes: Any, nic_type: str, path: str, message: str) -> None:
    of_section = {key: changes[key] for key in ("multiplaneMode", "numberOfPlanes", "platformType") if key in changes}
    template = {"numVfs": 1, "linkType": "Ethernet", "spectrumXOptimized": {**SPECTRUM_X, **of_section}}
    template.update({key: value for key, value in changes.items() if key not in of_section})
    found = judged({"nicSelector": {"nicType": nic_type}, "template": template}, release="26.10.0")
    assert [(each.path, message in each.problem) for each in found] == ([(f"spec{path}", True)] if message else [])


def test_rules_of_other_kinds_are_asked_as_well() -> None:
    rails = {**RAILS, "railTopology": [{**RAILS["railTopology"][0], "cidrPoolRef": "p", "ipam": "{}"}]}
    (found,) = judged(rails, "SpectrumXRailPoolConfig", SPECTRUM)
    assert (found.path, found.problem[:8]) == ("spec.railTopology[0]", "Only one")
    (none,) = judged({"bfbUrlSource": ""}, "NicFirmwareSource")
    assert "At least one of binUrlSources" in none.problem
    assert judged({"bfbUrlSource": "https://example.com/a.bfb"}, "NicFirmwareSource") == []


def test_what_26_7_made_others_goes_by_the_images() -> None:
    profile = {"enabled": True, "version": "my-profile"}
    cards = {**TEMPLATE, "nicSelector": {"nicType": "1025"}}
    spec = {**cards, "template": {"numVfs": 1, "linkType": "Ethernet", "spectrumXOptimized": profile}}
    assert judged(spec, release="26.7.0") == []
    (found,) = judged(spec)
    assert found.path == "spec.template.spectrumXOptimized.version"
    bay = {**cards, "template": {"numVfs": 1, "networkBay": {"conf": "a"}}}
    assert judged(bay, release="26.7.0") == []
    assert [each.problem for each in judged(bay)] == ["lacks `linkType`", "unknown field"]


def test_what_26_10_made_others_goes_by_the_images() -> None:
    def problems(nic_type: str, release: str, **changed: Any) -> list[str]:
        optimized = {"enabled": True, "version": "RA2.4", "overlay": "none", **changed}
        template = {"numVfs": 1, "linkType": "Ethernet", "spectrumXOptimized": optimized}
        found = judged({**TEMPLATE, "nicSelector": {"nicType": nic_type}, "template": template}, release=release)
        return [each.problem for each in found]

    of_b300 = {"platformType": "b300"}
    assert problems("1023", "26.10.0", **of_b300) == problems("1021", "26.10.0", **of_b300) == []
    assert problems("1023", "26.7.0", **of_b300) == ["unknown field"]
    assert problems("1023", "26.7.0", multiplaneMode="uniplane", numberOfPlanes=2) == []
    assert problems("1023", "26.10.0", **of_b300, multiplaneMode="uniplane", numberOfPlanes=2)
    rail = {**RAILS["railTopology"][0], "swPlane": 1}
    for field, value in {"vfStateFollow": False, "ovsConfig": {"a": "b"}, "railTopology": [rail]}.items():
        changed = {**RAILS, field: value}
        assert judged(changed, "SpectrumXRailPoolConfig", SPECTRUM, "26.10.0") == []
        (found,) = judged(changed, "SpectrumXRailPoolConfig", SPECTRUM, "26.7.0")
        assert found.problem == "unknown field"


@pytest.mark.parametrize(
    ("changed", "path", "problem"),
    [
        ({"maxUnavailable": 1.5}, "spec.maxUnavailable", "neither a whole number nor text"),
        ({"numVfs": 0}, "spec.numVfs", "is 0"),
        ({"railTopology": []}, "spec.railTopology", "is empty"),
        (
            {"railTopology": [{"name": "", "mtu": 0, "nicSelector": {"pfNames": ["a"]}}]},
            "spec.railTopology[0].name",
            "is empty",
        ),
    ],
)
def test_limits_of_a_definition_hold(changed: Any, path: str, problem: str) -> None:
    (found,) = judged({**RAILS, **changed}, "SpectrumXRailPoolConfig", SPECTRUM)
    assert found.path == path
    assert problem in found.problem


def test_what_a_definition_takes_passes() -> None:
    assert judged(TEMPLATE) == []
    assert judged(RAILS, "SpectrumXRailPoolConfig", SPECTRUM) == []
