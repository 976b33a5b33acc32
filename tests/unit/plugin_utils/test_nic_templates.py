# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates of the NIC configuration operator on a recorded host with ConnectX-7: its cards, its plan, its guide."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nic_configuration import FIELDS
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import assess
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run, plan_lines
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import nic_templates
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import add_firmware, connectx7
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_text
from tools.checkout import CHECKOUT

Object = dict[str, Any]
ROCE, INFINIBAND = "roce-h100-01", "dgx-h100-01"
CHECK = Run(check=True, diff=False, mode="preview", recorded=True)
FIRST, SECOND = "0000:18:00.0", "0000:40:00.0"
PAGE = (CHECKOUT / "docs" / "guide-nic.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
API = "configuration.net.nvidia.com/v1alpha1"
HOSTS: Object = {"hosts": {"one": ({"interfaces": []}, [], [])}}
CONFIGURATION, SOURCE, FIRMWARE, NAMES = FIELDS
PLAIN: Object = {"nicSelector": {"nicType": "1021", "pciAddresses": [FIRST]}, "template": {"numVfs": 16}}
DEVICES: Object = {}


def host_of(name: str) -> RecordedHost:
    """Return a recorded host whose cards show what ConnectX-5 and later do on Ethernet.

    Values: ironcore-dev/dpservice, issue 26.
    """
    if name not in DEVICES:
        tree = FLEET[name]()
        document = tree.document()
        shown = {"CNP_DSCP_P1": ("48", "48", "48"), "CNP_802P_PRIO_P1": ("6", "6", "6")}
        for address in (FIRST, SECOND) if name == ROCE else ():
            add_firmware(document["commands"], address, {**connectx7("ETH(2)"), **shown}, "ConnectX-7")
        DEVICES[name] = document, gather(RecordedHost(document))
    return RecordedHost(DEVICES[name][0])


def template(kind: str, spec: Object, name: str = "x") -> Object:
    body = {"linkType": "Ethernet", **spec["template"]} if kind == CONFIGURATION else None
    whole = {**spec, "template": body} if body else spec
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": whole}


def resolved(
    *templates: Object, host: str = ROCE, own: Object | None = None, identities: Object | None = None
) -> tuple[Any, list[str]]:
    """Return the desired state of a host with its own variables and templates, and notices."""
    requests = of_text(yaml.safe_dump_all(templates), **HOSTS).accepted().spec["host_requests"]
    desired, of_cards = nic_templates.split({**(own or {}), "requests": requests})
    host_of(host)
    return nic_templates.with_templates(check_spec(desired), of_cards, DEVICES[host][1], identities or {})


def refused(*templates: Object, **given: Any) -> str:
    with pytest.raises(InvalidInput) as invalid:
        resolved(*templates, **given)
    return str(invalid.value)


def entry_of(desired: Any, address: str) -> Object:
    found: Object = next(each for each in desired["interfaces"] if each.get("pci") == address)
    return {key: value for key, value in found.items() if value not in (None, False)}


def lines_of(desired: Any, host: str = ROCE) -> list[str]:
    return plan_lines(assess(host_of(host), desired, CHECK, None).plan)


def test_the_guide_plans_upstreams_example_on_a_recorded_host_and_names_each_field() -> None:
    """The template is the operator's example (docs/examples, ConnectX-6 Dx) with the addresses of this host."""
    requests = of_text(BLOCKS[0], **HOSTS).accepted().spec["host_requests"]
    host_of(ROCE)
    consent = {"consents": {"firmware": yaml.safe_load(BLOCKS[1])["rdma_fabric_allow_firmware"]}}
    desired, notices = nic_templates.with_templates(check_spec(consent), requests, DEVICES[ROCE][1], {})
    assert len(notices) == 1 and "maxReadRequest is set for all cards of a host" in notices[0]
    found = [line for line in lines_of(desired) if re.match(r"\w+: (?:firmware|qos|naming) ", line) and FIRST in line]
    assert [line.split(" - ")[0].split(" [")[0] for line in found] == [
        f"planned: firmware {FIRST} (enp24s0np0): set NUM_OF_VFS=8 (now 16) in its firmware for the next boot",
        f"planned: naming {FIRST} (enp24s0np0): rename enp24s0np0 to rail0",
        f"refused: naming {FIRST} (enp24s0np0): rename the RDMA device rocep24s0 to rdma_rail0",
        f"planned: qos {FIRST} (rail0): set global pause to rx off tx off (now rx on tx on)",
        f"planned: qos {FIRST} (rail0): set trust to dscp (now pcp)",
        f"planned: qos {FIRST} (rail0): set priority flow control to 3 (now off)",
    ]
    assert any("28.43.1014" in line for line in lines_of(desired))


def test_back_at_the_operator_the_templates_of_the_guide_are_applied_as_they_are() -> None:
    found = of_text("---\n".join([BLOCKS[0], BLOCKS[2]]), **HOSTS).accepted().spec
    assert [each["kind"] for each in found["objects"]] == [CONFIGURATION, NAMES, SOURCE, FIRMWARE]
    assert not [each for each in found["host_requests"] if each.get("cards")]


def test_the_guide_has_every_field_of_the_templates() -> None:
    rows = ["| Field | Host variable | Effect | Refused; next step |", "|---|---|---|---|"]
    for kind, fields in FIELDS.items():
        rows.append(f"| **{kind}** | | | |")
        for path, field in fields.items():
            taken = ", ".join("false" if each is False else str(each) for each in field.taken)
            why = f"{f'all but {taken}' if taken else 'always'}: {field.refused}" if field.refused else ""
            rows.append(f"| `{path}` | {f'`{field.variable}`' if field.variable else ''} | {field.effect} | {why} |")
    table = "\n".join(re.sub(" +", " ", row) for row in rows)
    assert table in PAGE, table


def test_cards_are_found_by_type_address_serial_and_part_number() -> None:
    known = {FIRST: nic_templates.Identity("MT1", "MCX-A"), SECOND: nic_templates.Identity("MT2", "MCX-B")}
    for selector, found in (
        ({"serialNumbers": ["MT2", "MT9"]}, [SECOND]),
        ({"partNumbers": ["MCX-A", "MCX-B"], "pciAddresses": [FIRST]}, [FIRST]),
        ({"serialNumbers": ["MT1"], "partNumbers": ["MCX-B"]}, []),
        ({"pciAddresses": ["0000:18:00.1", SECOND]}, [SECOND]),
    ):
        spec = {**PLAIN, "nicSelector": {"nicType": "1021", **selector}}
        desired, notices = resolved(template(CONFIGURATION, spec), identities=known)
        assert [entry["pci"] for entry in desired["interfaces"]] == found
        assert any("none of its cards (nicType 1021)" in notice for notice in notices) is not bool(found)
    other = {**PLAIN, "nodeSelector": {"pool": "gpu"}}
    assert resolved(template(CONFIGURATION, other)) == (check_spec({}), [])
    desired, _notices = resolved(template(CONFIGURATION, other), own={"node_labels": {"pool": "gpu"}})
    assert [entry["pci"] for entry in desired["interfaces"]] == [FIRST]


def test_where_no_serial_number_is_known_it_is_said() -> None:
    spec = {**PLAIN, "nicSelector": {"nicType": "1021", "serialNumbers": ["MT1"]}}
    _desired, notices = resolved(template(CONFIGURATION, spec))
    assert "recordings have none" in notices[0]


def test_two_templates_for_one_card_are_refused() -> None:
    other = {**PLAIN, "nicSelector": {"nicType": "1021"}}
    text = refused(template(CONFIGURATION, PLAIN), template(CONFIGURATION, other, "y"))
    assert f"{CONFIGURATION}/y: selects the card 0000:18:00, which {CONFIGURATION}/x selects as well" in text


def test_what_the_host_says_itself_counts_and_is_named() -> None:
    roce = {"enabled": True, "qos": {"trust": "dscp", "pfc": "0,0,0,1,0,0,0,0", "tos": 104}}
    spec = {**PLAIN, "template": {"numVfs": 16, "roceOptimized": roce, "pciPerformanceOptimized": {"enabled": True}}}
    own = {
        "interfaces": [{"current_name": "enp24s0np0", "firmware": {"NUM_OF_VFS": 4, "SRIOV_EN": True}, "mtu": 9000}],
        "roce_qos": {"trust": "dscp", "tos": 96},
        "pcie": {"max_read_request": 512},
    }
    desired, notices = resolved(template(CONFIGURATION, spec), own=own)
    (entry,) = desired["interfaces"]
    assert (entry["mtu"], entry["firmware"]["NUM_OF_VFS"], entry["firmware"]["CNP_DSCP_P1"]) == (9000, "4", "48")
    assert (entry["qos"], desired["pcie"]["max_read_request"]) == ({"pfc": [3]}, 512)
    assert notices == [
        f"{FIRST}: firmware.NUM_OF_VFS is 4 by this host's variables, {CONFIGURATION}/x asks for 16",
        f"{FIRST}: qos.tos is 96 by this host's variables, {CONFIGURATION}/x asks for 104",
        f"rdma_fabric_pcie has max_read_request 512, {CONFIGURATION}/x asks for 4096",
    ]
    exempt = {"interfaces": [{"pci": FIRST, "qos": False}]}
    desired, notices = resolved(template(CONFIGURATION, spec), own=exempt)
    assert desired["interfaces"][0]["qos"] is False
    assert any(": qos is False by this host's variables" in notice for notice in notices)


def test_an_infiniband_port_is_turned_and_gets_the_rest_as_ethernet() -> None:
    spec = {**PLAIN, "template": {"numVfs": 16, "roceOptimized": {"enabled": True}}}
    desired, notices = resolved(template(CONFIGURATION, spec), host=INFINIBAND)
    assert entry_of(desired, FIRST)["firmware"] == {"LINK_TYPE_P1": "ETH", "SRIOV_EN": "1", "NUM_OF_VFS": "16"}
    assert "qos" not in entry_of(desired, FIRST)
    assert [notice for notice in notices if "follows in the first run" in notice]


def test_parameters_are_set_for_each_port_that_the_card_has() -> None:
    card = {"nicType": "a2dc", "pciAddresses": ["0000:29:00.1"]}
    raw = [{"name": f"KEEP_ETH_LINK_UP_P{port}", "value": "1"} for port in (1, 2, 3)]
    spec = {"nicSelector": card, "template": {"numVfs": 8, "roceOptimized": {"enabled": True}, "rawNvConfig": raw}}
    desired, _notices = resolved(template(CONFIGURATION, spec))
    firmware = entry_of(desired, "0000:29:00.0")["firmware"]
    assert {name for name in firmware if "_P" in name} == {
        *(f"{name}_P{port}" for name in ("ROCE_CC_PRIO_MASK", "CNP_DSCP", "CNP_802P_PRIO") for port in (1, 2)),
        "KEEP_ETH_LINK_UP_P1",
        "KEEP_ETH_LINK_UP_P2",
    }
    assert entry_of(desired, "0000:29:00.1") == {"pci": "0000:29:00.1", "qos": {"trust": "dscp", "pfc": [3]}}


def test_what_a_card_lacks_is_skipped_with_a_notice_and_the_rest_is_set() -> None:
    raw = [{"name": "NO_SUCH_PARAMETER", "value": "1"}, {"name": "MAX_ACC_OUT_READ", "value": "44"}]
    asked = template(CONFIGURATION, {**PLAIN, "template": {"numVfs": 8, "rawNvConfig": raw}})
    desired, _notices = resolved(asked, own={"consents": {"firmware": True}})
    plan = assess(host_of(ROCE), check_spec(desired), CHECK, None).plan
    (step,) = [each for each in plan["steps"] if each["concern"] == "firmware"]
    assert (step["status"], step["to"]) == ("planned", {"NUM_OF_VFS": "8"})
    assert [notice for notice in plan["notices"] if "has no NO_SUCH_PARAMETER, MAX_ACC_OUT_READ: skipped" in notice]


def test_a_host_has_one_size_of_read_requests() -> None:
    sizes = [
        template(
            CONFIGURATION,
            {
                "nicSelector": {"nicType": "1021", "pciAddresses": [address]},
                "template": {"numVfs": 1, "pciPerformanceOptimized": {"enabled": True, "maxReadRequest": size}},
            },
            f"x{size}",
        )
        for address, size in ((FIRST, 512), (SECOND, 1024))
    ]
    assert "asks for maxReadRequest 1024, and NicConfigurationTemplate/x512 for 512" in refused(*sizes)


def firmware_of(*versions: str) -> tuple[Object, Object]:
    urls = [f"https://example.com/fw-x-rel-{version.replace('.', '_')}-y.bin.zip" for version in versions]
    spec = {"nicSelector": PLAIN["nicSelector"], "template": {"nicFirmwareSourceRef": "s", "updatePolicy": "Validate"}}
    return template(SOURCE, {"binUrlSources": urls}, "s"), template(FIRMWARE, spec)


def test_the_image_of_the_cards_generation_is_the_one_that_counts() -> None:
    desired, _notices = resolved(*firmware_of("22.44.1036", "28.43.1014"))
    assert desired["interfaces"][0]["firmware_image"]["version"] == "28.43.1014"
    own = {"interfaces": [{"pci": FIRST, "firmware_image": {"file": "/srv/fw.bin"}}]}
    desired, _notices = resolved(*firmware_of("28.43.1014"), own=own)
    image = desired["interfaces"][0]["firmware_image"]
    assert (image["file"], image["version"]) == ("/srv/fw.bin", "28.43.1014")
    assert "of 22.44.1036 none may be for it" in refused(*firmware_of("22.44.1036"))
    assert "2 may be for it" in refused(*firmware_of("28.43.1014", "28.44.1036"))


def names(rails: list[list[str]], name: str = "x", ports: int = 1, **prefixes: str) -> Object:
    spec = {"netDevicePrefix": "net_%nic_id%_%plane_id%_%rail_id%", "pfsPerNic": ports, **prefixes}
    return template(NAMES, {**spec, "railPciAddresses": rails}, name)


def test_ports_are_named_by_card_plane_and_rail() -> None:
    rails = [[FIRST, "0000:29:00.0"], ["0000:99:00.0"], ["0000:aa:00.1"]]
    desired, notices = resolved(names(rails, ports=2, rdmaDevicePrefix="rdma_%nic_id%"))
    assert {entry["pci"]: (entry["name"], entry["rdma_name"]) for entry in desired["interfaces"]} == {
        FIRST: ("net_0_0_0", "rdma_0"),
        "0000:29:00.0": ("net_1_2_0", "rdma_1"),
        "0000:29:00.1": ("net_1_3_0", None),
        "0000:aa:00.0": ("net_3_0_2", "rdma_3"),
        "0000:aa:00.1": ("net_3_1_2", None),
    }
    assert notices == [
        f"{NAMES}/x names 2 ports of the card 0000:18:00, which has 1",
        f"{NAMES}/x names cards that this host lacks: 0000:99:00.0",
    ]


def test_names_that_no_host_can_have_are_refused_by_port_and_template() -> None:
    text = refused(names([[FIRST]], netDevicePrefix="eth_%rail_id%"))
    assert f'{NAMES}/x: {FIRST}.name: "eth_0" starts with eth' in text
    assert f"{NAMES}/y: selects the card 0000:18:00" in refused(names([[FIRST]]), names([[SECOND], [FIRST]], "y"))
    own = {"interfaces": [{"pci": FIRST, "name": "rail0"}]}
    desired, notices = resolved(names([[FIRST]]), own=own)
    assert desired["interfaces"][0]["name"] == "rail0"
    assert notices == [f"{FIRST}: name is rail0 by this host's variables, {NAMES}/x asks for net_0_0_0"]


def test_vfs_beside_a_template_that_switches_them_off_are_refused() -> None:
    own = {"interfaces": [{"pci": FIRST, "vfs": 4}]}
    text = refused(template(CONFIGURATION, {**PLAIN, "template": {"numVfs": 0}}), own=own)
    assert f"{CONFIGURATION}/x: {FIRST}.firmware.SRIOV_EN: switches SR-IOV off" in text


def vpd(**fields: str) -> bytes:
    content = b"".join(key.encode() + bytes([len(value)]) + value.encode() for key, value in fields.items())
    name = b"NVIDIA ConnectX-7"
    return bytes([0x82, len(name), 0]) + name + bytes([0x90, len(content), 0]) + content + b"\x78"


def test_the_command_that_reads_identities_prints_those_of_nvidias_cards_alone(tmp_path: Path) -> None:
    for address, vendor, data in (
        (FIRST, "0x15b3", vpd(PN="MCX75310AAS-NEAT ", SN="MT2311X01234", V0="x")),
        ("0000:0b:00.0", "0x8086", vpd(PN="X550")),
        ("0000:40:00.0", "0x15b3", None),
    ):
        folder = tmp_path / address
        folder.mkdir()
        (folder / "vendor").write_text(f"{vendor}\n")
        if data is not None:
            (folder / "vpd").write_bytes(data)
    (tmp_path / SECOND / "physfn").mkdir()
    command = nic_templates.READ_IDENTITIES.replace("/sys/bus/pci/devices", str(tmp_path))
    printed = subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, text=True).stdout
    assert nic_templates.identities_of(printed) == {FIRST: ("MT2311X01234", "MCX75310AAS-NEAT")}
    assert nic_templates.identities_of("x\n0000:18:00.0 %%%\n") == {"x": ("", "")}


def test_a_state_without_templates_is_passed_on_as_it_is() -> None:
    for desired in (None, {}, {"requests": "x"}, {"requests": [{"source": "a"}]}):
        assert nic_templates.split(desired) == (desired, [])


def test_without_a_template_nothing_is_asked_of_cards() -> None:
    fabric: Fabric = of_text("", **HOSTS)
    assert not [each for each in fabric.accepted().spec["host_requests"] if each.get("cards")]
