# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates of the NIC configuration operator without it: each field of their definitions is consumed or refused."""

from __future__ import annotations

import copy
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.crds_controllers import nic_configuration
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nic_configuration import FIELDS, Field
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.versions import R26_4, R26_7, R26_10
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.firmware import RELEASES
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric

Object = dict[str, Any]
API = "configuration.net.nvidia.com/v1alpha1"
CONFIGURATION, SOURCE, FIRMWARE, NAMES = FIELDS
URL = "https://example.com/fw-ConnectX7-rel-28_43_1014-MCX75310AAS-NEA_Ax-UEFI-14.36.16.signed.bin.zip"
HOSTS: Object = {"hosts": {"one": ({"interfaces": []}, [], [])}}
SPECS: Object = {
    CONFIGURATION: {
        "nicSelector": {"nicType": "1021"},
        "template": {
            "numVfs": 1,
            "linkType": "Ethernet",
            "pciPerformanceOptimized": {"enabled": True},
            "runtimePerformanceOptimized": {"enabled": True},
        },
    },
    SOURCE: {"binUrlSources": [URL]},
    FIRMWARE: {
        "nicSelector": {"nicType": "1021"},
        "template": {"nicFirmwareSourceRef": "x", "updatePolicy": "Validate"},
    },
    NAMES: {"netDevicePrefix": "rail%rail_id%", "pfsPerNic": 1, "railPciAddresses": [["0000:18:00.0"]]},
}
ROCE = {"enabled": True, "qos": {"trust": "dscp", "pfc": "0,0,0,1,0,0,0,0"}}
X = "template.spectrumXOptimized"
SPECTRUM_X: Object = {"enabled": True, "version": "RA2.1"}
# A value of each field that is another than that of the base, and what it needs beside it.
VALUES: Object = {
    "nodeSelector": {"pool": "gpu"},
    "nicSelector.nicType": "1023",
    "nicSelector.pciAddresses": ["0000:18:00.0"],
    "nicSelector.serialNumbers": ["MT2116X09299"],
    "nicSelector.partNumbers": ["MCX75310AAS-NEA"],
    "resetToDefault": True,
    "template.force": True,
    "template.gpuDirectOptimized.enabled": True,
    "template.gpuDirectOptimized.env": "Virtual",
    "template.linkType": "Infiniband",
    "template.networkBay.conf": "Conf_1",
    "template.numVfs": 0,
    "template.pciPerformanceOptimized.enabled": False,
    "template.pciPerformanceOptimized.maxAccOutRead": 44,
    "template.pciPerformanceOptimized.maxReadRequest": 512,
    "template.rawNvConfig[].name": "PCI_WR_ORDERING",
    "template.rawNvConfig[].value": "1",
    "template.roceOptimized.enabled": True,
    "template.roceOptimized.qos.cableLen": 30,
    "template.roceOptimized.qos.ecn.enabled": True,
    "template.roceOptimized.qos.ecn.priority": 5,
    "template.roceOptimized.qos.pauseFrames.enabled": False,
    "template.roceOptimized.qos.pfc": "0,0,0,0,1,0,0,0",
    "template.roceOptimized.qos.tos": 104,
    "template.roceOptimized.qos.trust": "pfc",
    "template.roceOptimized.roceMode": 1,
    "template.runtimePerformanceOptimized.combinedChannels": 8,
    "template.runtimePerformanceOptimized.enabled": False,
    "template.runtimePerformanceOptimized.lro": False,
    "template.runtimePerformanceOptimized.rxRingSize": 8192,
    "template.runtimePerformanceOptimized.txRingSize": 4096,
    "template.spectrumXOptimized.enabled": False,
    "template.spectrumXOptimized.multiplaneMode": "swplb",
    "template.spectrumXOptimized.numberOfPlanes": 2,
    "template.spectrumXOptimized.overlay": "l3",
    "template.spectrumXOptimized.platformType": "HGX",
    "template.spectrumXOptimized.version": "RA2.2",
    "bfbUrlSource": "https://example.com/a.bfb",
    "binUrlSources[]": URL.replace("28_43_1014", "28_44_1036"),
    "docaSpcXCCUrlSource": "https://example.com/a.deb",
    "template.nicFirmwareSourceRef": "y",
    "template.updatePolicy": "Update",
    "netDevicePrefix": "net%nic_id%",
    "pfsPerNic": 2,
    "railPciAddresses[][]": "0000:40:00.0",
    "rdmaDevicePrefix": "rdma%nic_id%",
}
# Fields that only say what need not be done here.
IDLE = ("overlay", "platformType")
ALL = [(kind, path) for kind, fields in FIELDS.items() for path in fields]


def leaves(schema: Object, path: str = "") -> Iterator[str]:
    """Yield the path of each field of a schema that holds a value."""
    if "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif "items" in schema and not path.startswith("nicSelector"):
        yield from leaves(schema["items"], f"{path}[]")
    else:
        yield path


def base_for(kind: str, path: str) -> Object:
    """Return a spec in which a field may be given: its section is on."""
    spec: Object = copy.deepcopy(SPECS[kind])
    template = spec.get("template", {})
    if ".roceOptimized." in path and not path.endswith("roceOptimized.enabled"):
        template["roceOptimized"] = copy.deepcopy(ROCE)
    if ".ecn." in path:
        template["roceOptimized"]["qos"]["ecn"] = {"enabled": False, "priority": 3}
    if "rawNvConfig" in path:
        template["rawNvConfig"] = [{"name": "ROCE_NEXT_PROTOCOL", "value": "254"}]
    if "gpuDirect" in path:
        template["gpuDirectOptimized"] = {"enabled": path.endswith("env"), "env": "Baremetal"}
    if "spectrumX" in path:
        spec["nicSelector"]["nicType"] = "1023"
        template["spectrumXOptimized"] = copy.deepcopy(SPECTRUM_X)
        template["spectrumXOptimized"].update({"numberOfPlanes": 2} if path.endswith("multiplaneMode") else {})
        template["spectrumXOptimized"].update({"multiplaneMode": "swplb"} if path.endswith("numberOfPlanes") else {})
    if path.endswith("runtimePerformanceOptimized.enabled"):
        template["runtimePerformanceOptimized"]["rxRingSize"] = 512
    if "networkBay" in path:
        spec["nicSelector"]["nicType"] = "1025"
        del template["linkType"]
    if path == "bfbUrlSource":
        spec["bfbUrlSource"] = "x"
    return spec


def put(spec: Object, path: str, value: Any) -> Object:
    """Return a spec with the value of a field."""
    changed: Any = copy.deepcopy(spec)
    here, keys = changed, path.replace("[]", ".0").split(".")
    for key in keys[:-1]:
        here = here[int(key)] if key == "0" else here.setdefault(key, {})
    here[int(keys[-1]) if keys[-1] == "0" else keys[-1]] = value
    return changed  # type: ignore[no-any-return]  # a mapping as it was


def written(path: str) -> str:
    return "spec." + path.replace("[]", "[0]")


def fabric(kind: str, spec: Object, *others: tuple[str, str, Object]) -> Fabric:
    """Return what comes of a template called x and of what it needs, for one host."""
    other = {"binUrlSources": [VALUES["binUrlSources[]"]]}
    needed = [(SOURCE, "x", SPECS[SOURCE]), (SOURCE, "y", other)] if kind == FIRMWARE else []
    needed += [(FIRMWARE, "x", SPECS[FIRMWARE])] if kind == SOURCE else []
    return Fabric([resource(kind, "x", spec), *(resource(*each) for each in (*needed, *others))], [], **HOSTS)


def resource(kind: str, name: str, spec: Object) -> Document:
    return Document(f"{kind}.yaml", {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec})


def asked(kind: str, spec: Object, *others: tuple[str, str, Object]) -> list[Object]:
    found: list[Object] = fabric(kind, spec, *others).accepted().spec["host_requests"]
    return found


@pytest.mark.parametrize("release", [R26_4, R26_7, R26_10])
def test_every_field_of_the_definitions_is_in_the_table(release: tuple[int, int]) -> None:
    for each in nic_configuration(release):
        kind, properties = each["spec"]["names"]["kind"], each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        if kind in FIELDS:
            assert set(leaves(properties["properties"]["spec"])) - {*FIELDS[kind]} == set(), kind
            if release == R26_10:
                assert {*FIELDS[kind]} - set(leaves(properties["properties"]["spec"])) == set(), kind


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_each_field_changes_what_hosts_are_asked_for_or_is_refused(kind: str, path: str) -> None:
    field, base = FIELDS[kind][path], base_for(kind, path)
    given = put(base, path, VALUES[path])
    if field.refuses(VALUES[path]):
        found = fabric(kind, given).wrong(written(path))
        assert found.hint == field.refused
        assert found.problem.endswith("which hosts can't do without the operator")
        for taken in field.taken:
            assert asked(kind, put(base_for(kind, ""), path, taken) if "." not in path else SPECS[kind])
    else:
        before = asked(kind, base)
        assert (asked(kind, given) != before) is not path.endswith(IDLE)


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_one_typo_in_each_field_is_found(kind: str, path: str) -> None:
    base = put(base_for(kind, path), path, VALUES[path])
    name = path.replace("[]", "").rpartition(".")[2]
    wrong = f"{name[:-2]}{name[-1]}{name[-2]}" if name[-1] != name[-2] else name[:-1]
    parent, _dot, _name = path.replace("[]", ".0").rstrip(".0").rpartition(".")
    here: Any = base
    for key in filter(None, parent.split(".")):
        here = here[int(key) if key == "0" else key]
    here[wrong] = here.pop(name)
    found = {each.path: each.hint for each in fabric(kind, base).violations}
    place = ".".join(filter(None, ["spec", parent.replace(".0", "[0]"), wrong]))
    assert place in found
    assert name in found[place]


@pytest.mark.parametrize(
    ("kind", "changes", "path", "words"),
    [
        (CONFIGURATION, {"template.linkType": "Etherent"}, "template.linkType", "one of Ethernet, Infiniband"),
        (CONFIGURATION, {"template.numVfs": "8"}, "template.numVfs", "not a whole number"),
        (CONFIGURATION, {"template.numVfs": -1}, "template.numVfs", "is below 0"),
        (
            CONFIGURATION,
            {"template.roceOptimized": {**ROCE, "qos": {**ROCE["qos"], "tos": -1}}},  # type: ignore[dict-item]  # the mapping above
            "template.roceOptimized.qos.tos",
            "is below 0",
        ),
        (CONFIGURATION, {"template.linkType": None}, "template", "one of linkType and networkBay is needed"),
        (
            CONFIGURATION,
            {"template.linkType": "Infiniband", "template.roceOptimized": ROCE},
            "template.roceOptimized",
            "Ethernet alone",
        ),
        (
            CONFIGURATION,
            {
                "template.gpuDirectOptimized": {"enabled": True, "env": "Baremetal"},
                "template.pciPerformanceOptimized": {"enabled": False},
            },
            "template.gpuDirectOptimized",
            "needs pciPerformanceOptimized",
        ),
        (
            CONFIGURATION,
            {"template.roceOptimized": {**ROCE, "qos": {**ROCE["qos"], "pauseFrames": {"enabled": True}}}},  # type: ignore[dict-item]  # the mapping above
            "template.roceOptimized.qos.pauseFrames",
            "excludes pfc",
        ),
        (CONFIGURATION, {"nicSelector.nicType": "101D"}, "nicSelector.nicType", "lower case"),
        (
            CONFIGURATION,
            {"nicSelector.pciAddresses": ["0000:1A:00.0"]},
            "nicSelector.pciAddresses[0]",
            "in lower case",
        ),
        (
            CONFIGURATION,
            {"template.rawNvConfig": [{"name": "MODULE_SPLIT_M0[3]", "value": "1"}]},
            "template.rawNvConfig[0].name",
            "no name of a parameter",
        ),
        (CONFIGURATION, {X: SPECTRUM_X, "nicSelector.nicType": "101d"}, "", "spectrumXOptimized is for ConnectX-8"),
        (CONFIGURATION, {X: SPECTRUM_X, "nicSelector.nicType": "1023", "template.numVfs": 2}, "template", "numVfs 1"),
        (NAMES, {"pfsPerNic": 0}, "pfsPerNic", "names no port"),
        (NAMES, {"railPciAddresses": [["18:00.0"]]}, "railPciAddresses[0][0]", "0000:18:00.0"),
        (FIRMWARE, {"template.nicFirmwareSourceRef": "z"}, "template.nicFirmwareSourceRef", "add it"),
        (SOURCE, {"binUrlSources": ["https://a/fw.bin"]}, "binUrlSources[0]", "does not tell the version"),
    ],
)
def test_what_the_operators_daemon_refuses_or_never_matches_is_refused(
    kind: str, changes: Object, path: str, words: str
) -> None:
    spec = SPECS[kind]
    for place, value in changes.items():
        spec = put(spec, place, value)
    assert words in fabric(kind, spec).wrong(".".join(filter(None, ["spec", path]))).sentence()


def test_a_section_that_is_off_asks_for_nothing_and_is_not_refused() -> None:
    off = {"enabled": False, "version": "RA3.1", "multiplaneMode": "hwplb", "numberOfPlanes": 2}
    spec = put(put(SPECS[CONFIGURATION], "template.spectrumXOptimized", off), "nicSelector.nicType", "1023")
    (request,) = asked(CONFIGURATION, spec)
    assert request["cards"]["firmware"] == {"SRIOV_EN": "1", "NUM_OF_VFS": "1"}


def test_a_field_that_is_null_is_one_that_is_not_given() -> None:
    spec = put(SPECS[CONFIGURATION], "template.roceOptimized", None)
    spec = put(put(spec, "template.runtimePerformanceOptimized.rxRingSize", None), "nicSelector.serialNumbers", None)
    assert asked(CONFIGURATION, spec) == asked(CONFIGURATION, SPECS[CONFIGURATION])


def test_what_is_implied_is_what_the_page_says() -> None:
    (request,) = asked(
        CONFIGURATION, put(put(SPECS[CONFIGURATION], "template.numVfs", 0), "template.roceOptimized", ROCE)
    )
    of_each_port = {"ROCE_CC_PRIO_MASK_P*": "255", "CNP_DSCP_P*": "48", "CNP_802P_PRIO_P*": "6"}
    assert request["cards"]["firmware"] == {"SRIOV_EN": "0", "NUM_OF_VFS": "0", **of_each_port}
    assert request["cards"]["ports"] == {"qos": {"trust": "dscp", "pfc": [3]}}
    assert request["cards"]["max_read_request"] == 4096
    enabled = put(SPECS[CONFIGURATION], "template.roceOptimized", {"enabled": True})
    assert asked(CONFIGURATION, enabled)[0]["cards"]["ports"] == request["cards"]["ports"]


def test_a_parameter_of_raw_configuration_is_before_one_of_another_field() -> None:
    raw = [{"name": "NUM_OF_VFS", "value": "127"}]
    (request,) = asked(CONFIGURATION, put(SPECS[CONFIGURATION], "template.rawNvConfig", raw))
    assert request["cards"]["firmware"]["NUM_OF_VFS"] == "127"


def test_an_infiniband_port_gets_no_rings_which_is_said() -> None:
    spec = put(SPECS[CONFIGURATION], "template.linkType", "Infiniband")
    found = fabric(CONFIGURATION, put(spec, "template.runtimePerformanceOptimized.rxRingSize", 512))
    assert found.accepted().spec["host_requests"][0]["cards"]["ports"] == {}
    assert found.said("has no effect with linkType Infiniband")


def test_a_source_without_an_image_or_a_template_and_hosts_that_no_selector_finds_are_said() -> None:
    assert "At least one of binUrlSources" in fabric(SOURCE, {}).wrong("spec").problem
    fabric(SOURCE, {**SPECS[SOURCE], "bfbUrlSource": "", "docaSpcXCCUrlSource": ""}).accepted()
    document = resource(SOURCE, "x", SPECS[SOURCE])
    assert Fabric([document], [], **HOSTS).accepted().said("no NicFirmwareTemplate names it")
    assert Fabric([resource(NAMES, "x", SPECS[NAMES])], []).accepted().said("changes no card: the inventory has no")
    unknown = fabric(NAMES, {**SPECS[NAMES], "nodeSelector": {"pool": "gpu"}}).accepted()
    assert unknown.said("known to have: it changes no card").path == "spec.nodeSelector.pool"
    said = fabric(NAMES, SPECS[NAMES]).accepted().said("is done by hosts without a controller")
    assert "nicConfigurationOperator" in said.hint and "maintenance operator" in said.hint


def test_the_releases_of_spectrum_x_are_those_of_hosts() -> None:
    assert FIELDS[CONFIGURATION]["template.spectrumXOptimized.version"].taken == tuple(RELEASES)


def test_no_field_is_without_an_effect_or_a_next_step() -> None:
    for kind, path in ALL:
        field: Field = FIELDS[kind][path]
        assert field.effect or field.refused, path
