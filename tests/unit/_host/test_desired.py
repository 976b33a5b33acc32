# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import parts
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import (
    check_spec,
    parse_host_variables,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interface_keys import KEYS as INTERFACE_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.keys import KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.place import Found, Place
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation


def on_port(**entry: Any) -> dict[str, Any]:
    return {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", **entry}]}


def violations_of(**variables: Any) -> list[Violation]:
    return parse_host_variables("gpu01", variables, KEYS)[1]


def interface_problem(**entry: Any) -> Violation:
    """The one violation of one interface that is otherwise right."""
    if not {"pci", "mac", "current_name"} & set(entry):
        entry["pci"] = "0000:18:00.0"
    found = violations_of(rdma_fabric_interfaces=[entry])
    assert len(found) == 1, [violation.sentence() for violation in found]
    return found[0]


def test_a_host_without_variables_wants_nothing() -> None:
    desired, violations, notices = parse_host_variables("gpu01", {})
    assert (violations, notices) == ([], [])
    assert not any(desired["consents"].values())
    assert desired["limits"] == {"memlock": None, "nofile": None}
    assert desired["pcie"] == {"acs": None, "max_read_request": None}
    assert [key for key, value in desired.items() if value and key not in ("consents", "limits", "pcie")] == []


def test_everything_given_arrives() -> None:
    desired, violations, notices = parse_host_variables(
        "gpu01",
        {
            "rdma_fabric_interfaces": [
                {"pci": "0000:18:00.0", "name": "rail0", "mtu": 9000, "vf_mtu": 9000, "vfs": 4, "state": "up"},
                {"mac": "A0:88:C2:47:11:D0"},
                {"current_name": "ens2f0", "state": "down"},
            ],
            "rdma_fabric_kernel_modules": ["rdma_ucm", "nvidia-peermem"],
            "rdma_fabric_node_labels": {"example.com/rack": "r12", "gpu": ""},
            "rdma_fabric_protected_interfaces": ["eno1"],
            "rdma_fabric_allow_vf_reset": True,
            "rdma_fabric_recording": "recordings/gpu01.json.gz",
            "ansible_host": "10.0.0.5",
        },
    )
    assert (violations, notices) == ([], [])
    first, second, third = desired["interfaces"]
    given = {"pci": "0000:18:00.0", "name": "rail0", "mtu": 9000, "vf_mtu": 9000, "vfs": 4, "state": "up"}
    assert first == {**dict.fromkeys(INTERFACE_KEYS), **given}
    assert second["mac"] == "a0:88:c2:47:11:d0"
    assert (third["current_name"], third["state"], third["mtu"]) == ("ens2f0", "down", None)
    assert desired["kernel_modules"] == ["rdma_ucm", "nvidia-peermem"]
    assert desired["node_labels"] == {"example.com/rack": "r12", "gpu": ""}
    assert [name for name, given in desired["consents"].items() if given] == ["vf_reset"]
    assert desired["connection_address"] == "10.0.0.5"


def test_what_was_parsed_is_accepted_again() -> None:
    desired = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "mtu": 9000}]})[0]
    assert check_spec(desired) == desired


def test_all_violations_are_reported_at_once_with_their_place() -> None:
    found = violations_of(
        rdma_fabric_interfaces=[{"pci": "0000:18:00.0"}, "ens1", {"pci": "0000:40:00.0", "mtu": 100, "nmae": "rail0"}],
        rdma_fabric_kernel_modules="rdma_ucm",
        rdma_fabric_protected_interfaces=[7],
    )
    assert {(violation.source, violation.path) for violation in found} == {
        ("host gpu01: rdma_fabric_interfaces", "[1]"),
        ("host gpu01: rdma_fabric_interfaces", "[2].mtu"),
        ("host gpu01: rdma_fabric_interfaces", "[2].nmae"),
        ("host gpu01: rdma_fabric_kernel_modules", ""),
        ("host gpu01: rdma_fabric_protected_interfaces", "[0]"),
    }


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("nmae", "name"),
        ("vf-mtu", "vf_mtu"),
        ("VF_MTU", "vf_mtu"),
        ("numvfs", "vfs"),
        ("num_of_vfs", "vfs"),
        ("currentName", "current_name"),
        ("mac_address", "mac"),
        ("vf", "vfs"),
        ("numVfs", "vfs"),
        ("eSwitchMode", "eswitch_mode"),
        ("rdma_device_name", "rdma_name"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(key: str, nearest: str) -> None:
    assert interface_problem(**{key: 1}).hint == f"did you mean {nearest}?"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("trust", "belongs under vf_settings or qos"),
        ("rx_ring", "belongs under queues"),
        ("NUM_OF_VFS", "belongs under firmware"),
        ("table", "belongs under routes or routing-policy"),
        ("kernel_modules", "is a variable of its own: rdma_fabric_kernel_modules"),
        ("rdma_fabric_allow_vf_reset", "is a variable of its own: rdma_fabric_allow_vf_reset"),
        ("allow_vf_reset", "is a variable of its own: rdma_fabric_allow_vf_reset"),
        ("acs", "belongs in rdma_fabric_pcie"),
    ],
)
def test_a_key_of_another_level_is_told_where_it_belongs(key: str, hint: str) -> None:
    assert interface_problem(**{key: 1}).hint == hint


@pytest.mark.parametrize(
    ("variables", "hint"),
    [
        (on_port(vf_settings={"vfs": 4}), "belongs beside vf_settings, not under it"),
        (
            on_port(routes=[{"to": "10.1.0.0/24", "via": "10.0.0.1", "mtu": 9000}]),
            "belongs beside routes, not under it",
        ),
        (
            on_port(queues={"trust": "dscp"}),
            "belongs in rdma_fabric_interfaces[].vf_settings or rdma_fabric_interfaces[].qos or rdma_fabric_roce_qos",
        ),
        ({"rdma_fabric_driver": {"flavour": "inbox", "gpg_check": True}}, "belongs under repository"),
        ({"rdma_fabric_roce_qos": {"mtu": 9000}}, "belongs in rdma_fabric_interfaces[]"),
        ({"rdma_fabric_roce_qos": {"": 9000}}, "known: dcbx, pause"),
    ],
)
def test_a_key_in_a_mapping_of_another_kind_is_told_where_it_belongs(variables: dict[str, object], hint: str) -> None:
    (problem,) = violations_of(**variables)
    assert problem.hint.startswith(hint)


def test_the_keys_of_every_mapping_are_those_that_its_reader_takes() -> None:
    unknown: dict[str, Any] = {"zz": 1}
    entry = {
        "pci": "0000:18:00.0",
        **dict.fromkeys(("vf_settings", "vf_guids", "queues", "qos", "firmware_image"), unknown),
        **unknown,
    }
    of_host = ("roce_qos", "limits", "pcie", "peer_memory")
    found = violations_of(
        rdma_fabric_interfaces=[{**entry, "routes": [unknown], "routing-policy": [unknown]}],
        rdma_fabric_driver={"repository": unknown, **unknown},
        **{f"rdma_fabric_{name}": unknown for name in of_host},
    )
    known = {}
    for problem in found:
        if problem.problem == "unknown field":
            level = Place(Found(), problem.source, problem.path.rpartition("zz")[0].rstrip(".")).level
            known[level] = problem.hint.partition("known: ")[2].split(", ")
    assert set(known) == set(KEYS) - {"rdma_fabric_interfaces[].firmware"}
    for level, names in known.items():
        assert [name for name in names if not KEYS[level](name)] == []


def test_a_key_like_nothing_known_lists_what_is() -> None:
    assert "known: pci, mac, current_name" in interface_problem(zzz=1).hint


@pytest.mark.parametrize("value", [1080.0, 1080])
def test_an_unquoted_address_that_yaml_read_as_a_number_is_explained(value: object) -> None:
    problem = interface_problem(pci=value)
    assert "not a PCI address" in problem.problem
    assert "quote it" in problem.hint


@pytest.mark.parametrize(
    "address", ["18:00.0", "0000:18:00.8", "0000:18:20.0", "0000:18:00", "", "0000:18:00.0\n", "ens1"]
)
def test_what_is_no_pci_address_is_refused(address: str) -> None:
    assert interface_problem(pci=address).path == "[0].pci"


def test_a_pci_address_without_domain_is_completed_in_the_message() -> None:
    assert "0000:18:00.0" in interface_problem(pci="18:00.0").problem


@pytest.mark.parametrize("mac", ["a0:88:c2:47:11", "a0-88-c2-47-11-d0", "a0:88:c2:47:11:dg", "a088.c247.11d0"])
def test_what_is_no_hardware_address_is_refused(mac: str) -> None:
    assert interface_problem(mac=mac).path == "[0].mac"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "sixteencharacter",
        "ra/il0",
        "rail 0",
        "rail\t0",
        "rail0\n",
        "rail:0",
        "rail%d",
        "raíl0",
        "0123",
        ".",
        "..",
        "all",
        "default",
        "lo",
        "bonding_masters",
        "eth0",
        "ib0",
        "enp24s0",
        "wlan0",
        "{{ lookup('file', 'x') }}",
    ],
)
def test_names_that_kernel_or_udev_refuse_or_hand_out_are_refused(name: str) -> None:
    assert interface_problem(name=name).path == "[0].name"


@pytest.mark.parametrize("name", ["rail0", "fifteencharacte", "gpu_nic-1.a"])
def test_legal_names_pass(name: str) -> None:
    assert violations_of(rdma_fabric_interfaces=[{"pci": "0000:18:00.0", "name": name}]) == []


def test_an_interface_may_keep_the_name_that_udev_gave_it() -> None:
    assert violations_of(rdma_fabric_interfaces=[{"current_name": "ens1", "name": "ens1"}]) == []


@pytest.mark.parametrize(
    ("mtu", "why"), [(-1, "IPv4"), (67, "IPv4"), (68, "IPv6"), (1279, "IPv6"), (65536, "65535"), (10**30, "65535")]
)
def test_mtus_that_no_interface_can_have_are_refused(mtu: int, why: str) -> None:
    assert why in interface_problem(mtu=mtu).problem


@pytest.mark.parametrize("mtu", [1280, 1500, 9000, 65535])
def test_legal_mtus_pass(mtu: int) -> None:
    assert violations_of(rdma_fabric_interfaces=[{"pci": "0000:18:00.0", "mtu": mtu}]) == []


@pytest.mark.parametrize("value", ["9000", 9000.0, True, [9000], {"x": 1}])
@pytest.mark.parametrize("key", ["mtu", "vf_mtu", "vfs"])
def test_numbers_must_be_whole_numbers(key: str, value: object) -> None:
    assert "not a whole number" in interface_problem(**{key: value}).problem


def test_a_number_as_text_is_told_what_makes_it_one_with_the_template_that_may_have_given_it() -> None:
    hint = interface_problem(mtu="9000 ").hint
    assert hint.startswith("without quotes: 9000; a template")
    assert "jinja2_native = true" in hint
    assert interface_problem(mtu="nine").hint == ""


def test_a_negative_number_of_functions_is_refused() -> None:
    assert "negative" in interface_problem(vfs=-1).problem


def test_a_number_of_functions_beyond_sriov_is_refused() -> None:
    assert "65535" in interface_problem(vfs=65536).problem


def test_functions_may_not_exceed_the_mtu_of_their_interface() -> None:
    problem = interface_problem(mtu=1500, vf_mtu=9000, vfs=2)
    assert problem.path == "[0].vf_mtu"
    assert "1500" in problem.problem


def test_an_mtu_for_functions_that_are_removed_is_noticed() -> None:
    _desired, violations, notices = parse_host_variables(
        "gpu01", {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "vfs": 0, "vf_mtu": 1500}]}
    )
    assert violations == []
    assert [notice.path for notice in notices] == ["[0].vf_mtu"]


@pytest.mark.parametrize("value", [True, "UP", 1, "", ["up"]])
def test_states_are_up_or_down(value: object) -> None:
    assert "up or down" in interface_problem(state=value).problem


def test_an_interface_needs_a_selector() -> None:
    found = violations_of(rdma_fabric_interfaces=[{"name": "rail0"}])
    assert [violation.hint for violation in found] == ["give exactly one of pci, mac, current_name"]


def test_an_interface_may_not_have_two_selectors() -> None:
    problem = interface_problem(pci="0000:18:00.0", mac="a0:88:c2:47:11:d0")
    assert problem.problem == "has pci and mac"


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        ({"pci": "0000:18:00.0"}, {"pci": "0000:18:00.0"}, "[1].pci"),
        ({"pci": "0000:1A:00.0"}, {"pci": "0000:1a:00.0"}, "[1].pci"),
        ({"mac": "a0:88:c2:47:11:d0"}, {"mac": "A0:88:C2:47:11:D0"}, "[1].mac"),
        ({"pci": "0000:18:00.0", "name": "rail0"}, {"pci": "0000:40:00.0", "name": "rail0"}, "[1].name"),
        ({"current_name": "foo0", "name": "bar0"}, {"current_name": "bar0", "name": "foo0"}, "[0].name"),
    ],
)
def test_two_entries_may_not_mean_or_want_the_same(first: Any, second: Any, path: str) -> None:
    assert path in [violation.path for violation in violations_of(rdma_fabric_interfaces=[first, second])]


@pytest.mark.parametrize(
    "name", ["", "--help", "rdma ucm", "../etc/passwd", "rdma_ucm; reboot", "x" * 56, 7, None, ["a"]]
)
def test_illegal_kernel_modules_are_refused(name: object) -> None:
    assert [violation.path for violation in violations_of(rdma_fabric_kernel_modules=[name])] == ["[0]"]


def test_a_module_listed_twice_is_noticed_and_kept_once() -> None:
    desired, violations, notices = parse_host_variables(
        "gpu01", {"rdma_fabric_kernel_modules": ["nvidia-peermem", "nvidia_peermem"]}
    )
    assert violations == []
    assert desired["kernel_modules"] == ["nvidia-peermem"]
    assert len(notices) == 1


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        ({"a b": "x"}, '"a b"'),
        ({"-a": "x"}, "-a"),
        ({"x" * 64: "x"}, "x" * 64),
        ({"Example.com/rack": "x"}, "Example.com/rack"),
        ({"a/b/c": "x"}, "a/b/c"),
        ({"rack": "r 12"}, "rack"),
        ({"rack": "x" * 64}, "rack"),
        ({"rack": True}, "rack"),
        ({"rack": 12}, "rack"),
        ({12: "x"}, ""),
        (["rack"], ""),
    ],
)
def test_illegal_labels_are_refused(labels: object, path: str) -> None:
    assert [violation.path for violation in violations_of(rdma_fabric_node_labels=labels)] == [path]


def test_a_boolean_label_is_told_to_be_quoted() -> None:
    label = "feature.node.kubernetes.io/pci-15b3.present"
    (problem,) = violations_of(rdma_fabric_node_labels={label: True})
    assert problem.hint == 'quote it: "true"'


@pytest.mark.parametrize("variable", ["rdma_fabric_allow_vf_reset", "rdma_fabric_allow_uplink_change"])
@pytest.mark.parametrize("value", ["true", "yes", 1, "false", [True]])
def test_no_text_passes_for_a_consent(variable: str, value: object) -> None:
    desired, violations, _notices = parse_host_variables("gpu01", {variable: value})
    assert [violation.source for violation in violations] == [f"host gpu01: {variable}"]
    assert not any(desired["consents"].values())


def test_hostile_text_stays_on_its_line_and_is_cut() -> None:
    hostile = "x\n  - fake: violation\x1b[31m" + "A" * 10_000
    found = violations_of(rdma_fabric_interfaces=[{"pci": hostile, hostile: 1}])
    assert len(found) == 2
    for violation in found:
        assert violation.sentence().isprintable()
        assert len(violation.sentence()) < 400


@pytest.mark.parametrize("document", [None, [], "text", 7, {"interfaces": 7}, {"interfaces": [[]]}])
def test_a_desired_state_of_another_type_is_refused(document: object) -> None:
    with pytest.raises(InvalidInput):
        check_spec(document)


def test_an_empty_desired_state_is_complete() -> None:
    assert check_spec({}) == parse_host_variables("gpu01", {})[0]


def test_every_part_of_a_desired_state_is_checked() -> None:
    with pytest.raises(InvalidInput) as raised:
        check_spec(
            {
                "interfaces": {},
                "kernel_moduls": [],
                "consents": {"vf_reset": "yes", "anything": True},
                "node_labels": [],
                "uplinks": "eno1",
                "connection_address": 7,
                "requests": [7, {"source": None, "driver": {"version": 24.07}, "peer_memory": [], "selector": {}}],
            }
        )
    assert {violation.path for violation in raised.value.violations} == {
        "interfaces",
        "kernel_moduls",
        "consents.vf_reset",
        "consents.anything",
        "node_labels",
        "uplinks",
        "connection_address",
        "requests[0]",
        "requests[1].source",
        "requests[1].driver.version",
        "requests[1].peer_memory",
        "requests[1].selector",
    }


@pytest.mark.parametrize("name", sorted(name for name, part in vars(parts).items() if isinstance(part, parts.Part)))
def test_what_is_not_asked_for_is_what_its_reader_makes_of_nothing(name: str) -> None:
    """The reader of a part is imported where something is asked for."""
    part, found = getattr(parts, name), Found()
    for value in (None, part.nothing()):
        place = Place(found, name)
        assert part.read(place, value) == part.load()(place, value) == part.nothing()
    assert found.violations == []
