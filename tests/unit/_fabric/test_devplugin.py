# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device-plugin configurations, judged by the rules of the programs that read them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import devplugin
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin import (
    MOST_SHARES,
    check_rdma_shared,
    check_sriov,
    config_text,
    remarks,
    resource_names,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG

ITEM: dict[str, Any] = RDMA_CONFIG["configList"][0]
DEVICE: dict[str, Any] = SRIOV_CONFIG["resourceList"][0]


def rdma(*items: dict[str, Any], **top: Any) -> list[tuple[str, str]]:
    _config, problems = check_rdma_shared({"configList": [{**ITEM, **item} for item in items], **top})
    return [(each.path, each.problem) for each in problems]


def sriov(*items: dict[str, Any], **top: Any) -> list[tuple[str, str]]:
    _config, problems = check_sriov({"resourceList": [{**DEVICE, **item} for item in items], **top})
    return [(each.path, each.problem) for each in problems]


def selected(**selectors: Any) -> list[tuple[str, str]]:
    return sriov({"selectors": selectors})


@pytest.mark.parametrize("given", [RDMA_CONFIG, json.dumps(RDMA_CONFIG), json.dumps(RDMA_CONFIG, indent=3)])
def test_a_right_configuration_passes_in_any_spelling(given: Any) -> None:
    config, problems = check_rdma_shared(given)
    assert problems == []
    assert config == RDMA_CONFIG


def test_the_text_has_the_plugin_s_order_and_no_empty_values() -> None:
    shuffled = {
        "configList": [
            {"selectors": {"ifNames": [], "vendors": ["15b3"]}, "devices": [], "rdmaHcaMax": 63, "resourceName": "a"}
        ],
        "periodicUpdateInterval": 0,
    }
    config, problems = check_rdma_shared(shuffled)
    assert problems == []
    assert (
        config_text(config)
        == json.dumps(
            {
                "periodicUpdateInterval": 0,
                "configList": [{"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}],
            },
            indent=2,
        )
        + "\n"
    )


def test_the_deprecated_device_list_stays_and_is_remarked() -> None:
    given = {"configList": [{"resourceName": "a", "rdmaHcaMax": 1000, "devices": ["ens2f0"]}]}
    config, problems = check_rdma_shared(given)
    assert problems == []
    assert config == given
    assert [each.path for each in remarks("rdma_shared", config)] == ["configList[0].devices"]


@pytest.mark.parametrize("name", ["a-b", "a.b", "a/b", "", "ä", "a b", "_a", "a_", "a" * 64, "a\n", 7])
def test_names_that_the_shared_plugin_or_kubelet_refuses(name: Any) -> None:
    assert [path for path, _problem in rdma({"resourceName": name})] == ["configList[0].resourceName"]


@pytest.mark.parametrize("name", ["a", "hca_shared_devices_a", "A9", "a" * 63])
def test_names_that_the_shared_plugin_takes(name: str) -> None:
    assert rdma({"resourceName": name}) == []


def test_equal_names_stop_the_shared_plugin_even_under_different_prefixes() -> None:
    problems = rdma({"resourcePrefix": "a.io"}, {"resourcePrefix": "b.io"})
    assert problems == [
        ("configList[1].resourceName", "'rdma_shared_device_a' is already the name of entry 0: the plugin stops")
    ]
    assert rdma({}, {"resourceName": "b"}) == []
    assert [path for path, _problem in rdma({"rdmaHcaMax": "x"}, {})] == [
        "configList[0].rdmaHcaMax",
        "configList[1].resourceName",
    ]


@pytest.mark.parametrize("prefix", ["-a", "A.io", "a..b", "a_b", 7, "a" * 64, "kubernetes.io", "x.kubernetes.io"])
def test_prefixes_that_kubelet_refuses(prefix: Any) -> None:
    assert [path for path, _problem in rdma({"resourcePrefix": prefix})] == ["configList[0].resourcePrefix"]
    assert [path for path, _problem in sriov({"resourcePrefix": prefix})] == ["resourceList[0].resourcePrefix"]


@pytest.mark.parametrize("prefix", ["rdma", "nvidia.com", "a.my-org.com", "k8s2.io2", "notkubernetes.io", ""])
def test_prefixes_that_the_plugins_take(prefix: str) -> None:
    assert rdma({"resourcePrefix": prefix}) == sriov({"resourcePrefix": prefix}) == []


@pytest.mark.parametrize("amount", [-1, "63", 63.0, True, [], 2**63])
def test_amounts_that_the_shared_plugin_refuses(amount: Any) -> None:
    assert [path for path, _problem in rdma({"rdmaHcaMax": amount})] == ["configList[0].rdmaHcaMax"]


def test_an_amount_of_zero_is_legal_and_remarked() -> None:
    config, problems = check_rdma_shared({"configList": [{**ITEM, "rdmaHcaMax": 0}]})
    assert problems == []
    assert [each.path for each in remarks("rdma_shared", config)] == ["configList[0].rdmaHcaMax"]


@pytest.mark.parametrize("interval", [-1, "60", 1.5, False, 9_223_372_037])
def test_intervals_that_the_shared_plugin_refuses(interval: Any) -> None:
    assert [path for path, _problem in rdma({}, periodicUpdateInterval=interval)] == ["periodicUpdateInterval"]
    assert rdma({}, periodicUpdateInterval=9_223_372_036) == []


def test_selectors_and_devices_exclude_each_other_and_one_is_needed() -> None:
    assert [path for path, _problem in rdma({"devices": ["ens2f0"]})] == ["configList[0].devices"]
    empty: list[dict[str, Any]] = [{}, {"vendors": []}]
    for selectors in empty:
        assert [path for path, _problem in rdma({"selectors": selectors})] == ["configList[0].selectors"]
        assert rdma({"selectors": selectors, "devices": ["ens2f0"]}) == []


@pytest.mark.parametrize("key", ["vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"])
def test_every_selector_of_the_shared_plugin_is_a_list_of_names(key: str) -> None:
    assert rdma({"selectors": {key: ["x"]}}) == []
    for wrong in ("x", [1], [""], {"x": 1}):
        assert rdma({"selectors": {key: wrong}})[0][0].startswith(f"configList[0].selectors.{key}")


def test_misspelt_keys_are_named_with_the_nearest_known_one() -> None:
    config = {
        "periodicUpdateIntervall": 1,
        "configList": [{**ITEM, "ressourceName": "x", "selectors": {"vendor": ["15b3"], "ifNames": ["a"]}}],
    }
    _config, problems = check_rdma_shared(config)
    assert {(each.path, each.hint) for each in problems} == {
        ("periodicUpdateIntervall", "did you mean periodicUpdateInterval?"),
        ("configList[0].ressourceName", "did you mean resourceName?"),
        ("configList[0].selectors.vendor", "did you mean vendors?"),
    }


@pytest.mark.parametrize("check", [check_rdma_shared, check_sriov])
@pytest.mark.parametrize(
    "given",
    ["", "{", "[]", "null", '"x"', "{}", '{"configList": 1, "resourceList": 1}', [], None, 7, {"configList": []},
     '{"configList": [1], "resourceList": [1]}', '{"configList": [{}], "resourceList": [{}]}', "\x00", "{" * 100_000],
)  # fmt: skip
def test_rubbish_is_a_problem_and_never_an_exception(check: Any, given: Any) -> None:
    _config, problems = check(given)
    assert problems


def test_a_syntax_error_has_its_place() -> None:
    _config, problems = check_rdma_shared('{"configList": [\n  {"resourceName": }\n]}')
    assert problems[0].problem.endswith("at line 2, column 20")


def test_a_right_device_configuration_passes() -> None:
    config, problems = check_sriov(json.dumps(SRIOV_CONFIG))
    assert problems == []
    assert config == SRIOV_CONFIG
    assert resource_names("sriov", config) == ["nvidia.com/hostdev"]
    assert remarks("sriov", config) == []


def test_a_device_resource_without_prefix_is_remarked_with_its_real_name() -> None:
    config, problems = check_sriov({"resourceList": [{"resourceName": "vf", "selectors": {}}]})
    assert problems == []
    assert config["resourceList"][0]["selectors"] == {}
    assert "intel.com/vf" in remarks("sriov", config)[0].problem
    assert resource_names("sriov", config) == ["intel.com/vf"]


@pytest.mark.parametrize("name", ["a.b", "", "a b", "-a", "a-", "a" * 64])
def test_names_that_the_device_plugin_or_kubelet_refuses(name: str) -> None:
    assert [path for path, _problem in sriov({"resourceName": name})] == ["resourceList[0].resourceName"]


def test_a_hyphen_is_right_for_the_device_plugin() -> None:
    assert sriov({"resourceName": "my-vf_0"}) == []


def test_equal_device_names_are_fine_under_different_prefixes_only() -> None:
    assert sriov({"resourcePrefix": "a.io"}, {"resourcePrefix": "b.io"}) == []
    assert [path for path, _problem in sriov({}, {})] == ["resourceList[1].resourceName"]
    unset = {"resourcePrefix": ""}
    assert [path for path, _problem in sriov(unset, {"resourcePrefix": "intel.com"})] == [
        "resourceList[1].resourceName"
    ]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("netDevice", "ddpProfiles", "auxTypes"),
        ("netDevice", "acpiIndexes", "class"),
        ("netDevice", "pciAddresses", "pciAddress"),
        ("accelerator", "pciAddresses", "pfNames"),
        ("auxNetDevice", "pfNames", "pciAddresses"),
        ("", "pfNames", "auxTypes"),
    ],
)
def test_every_type_has_its_own_selectors(kind: str, right: str, wrong: str) -> None:
    base = {"auxTypes": ["sf"]} if kind == "auxNetDevice" else {}
    assert sriov({"deviceType": kind, "selectors": {**base, right: ["x"]}}) == []
    problems = sriov({"deviceType": kind, "selectors": {**base, wrong: ["x"]}})
    assert [path for path, _problem in problems] == [f"resourceList[0].selectors.{wrong}"]


def test_an_unknown_type_is_named_with_the_nearest() -> None:
    _config, problems = check_sriov({"resourceList": [{**DEVICE, "deviceType": "netdevice"}]})
    assert problems[0].hint == "did you mean netDevice?"


@pytest.mark.parametrize("selectors", [None, [], "x", 7, [1]])
def test_selectors_are_needed_as_object_or_list_of_objects(selectors: Any) -> None:
    assert sriov({"selectors": selectors})[0][0].startswith("resourceList[0].selectors")
    assert sriov({"selectors": [{"vendors": ["15b3"]}, {"pfNames": ["a"]}]}) == []


@pytest.mark.parametrize(
    ("selectors", "paths"),
    [
        ({}, ["resourceList[0].selectors"]),
        ({"vendors": [], "needVhostNet": True}, ["resourceList[0].selectors"]),
        ([{"vendors": ["15b3"]}, {}], ["resourceList[0].selectors[1]"]),
        ({"isRdma": True}, []),
        ({"vendors": ["15b3"]}, []),
    ],
)
def test_selectors_that_select_everything_are_told(selectors: Any, paths: list[str]) -> None:
    item = {"resourceName": "vf", "resourcePrefix": "nvidia.com", "selectors": selectors}
    config, problems = check_sriov({"resourceList": [item]})
    assert problems == []
    assert [each.path for each in remarks("sriov", config)] == paths


def test_a_flaw_in_a_list_of_selectors_has_its_index() -> None:
    problems = sriov({"selectors": [{"vendors": ["15b3"]}, {"vendors": "15b3"}]})
    assert [path for path, _problem in problems] == ["resourceList[0].selectors[1].vendors"]


@pytest.mark.parametrize("entry", ["ens1f0", "ens1f0#0", "ens1f0#0-3", "ens1f0#0-3,5,7-8", "0000:18:00.0#1"])
def test_ranges_of_virtual_functions(entry: str) -> None:
    assert selected(pfNames=[entry]) == selected(rootDevices=[entry]) == []


@pytest.mark.parametrize("entry", ["ens1f0#", "ens1f0#a", "ens1f0#0-", "ens1f0#0,,1", "#0", "a b"])
def test_broken_ranges_of_virtual_functions(entry: str) -> None:
    assert [path for path, _problem in selected(pfNames=[entry])] == ["resourceList[0].selectors.pfNames[0]"]


def test_what_excludes_or_needs_each_other() -> None:
    assert selected(vdpaType="virtio") == selected(isRdma=True) == []
    assert [path for path, _problem in selected(vdpaType="virtio", isRdma=True)] == [
        "resourceList[0].selectors.vdpaType"
    ]
    assert [path for path, _problem in selected(vdpaType="other")] == ["resourceList[0].selectors.vdpaType"]
    assert [path for path, _problem in selected(pKeys=["0x1"])] == ["resourceList[0].selectors.pKeys"]
    assert selected(pKeys=["0x1"], linkTypes=["infiniband"]) == []
    flawed: list[dict[str, Any]] = [{}, {"auxTypes": []}, {"auxTypes": ["vf"]}]
    for types in flawed:
        problems = sriov({"deviceType": "auxNetDevice", "selectors": types})
        assert [path for path, _problem in problems] == ["resourceList[0].selectors.auxTypes"]


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"excludeTopology": "yes"}, "resourceList[0].excludeTopology"),
        ({"selectors": {"isRdma": "true"}}, "resourceList[0].selectors.isRdma"),
        ({"selectors": {"needVhostNet": 1}}, "resourceList[0].selectors.needVhostNet"),
        ({"additionalInfo": {"*": {"token": 1}}}, 'resourceList[0].additionalInfo["*"].token'),
        ({"additionalInfo": []}, "resourceList[0].additionalInfo"),
        ({"isRdma": True}, "resourceList[0].isRdma"),
    ],
)
def test_wrong_types_and_places(item: dict[str, Any], path: str) -> None:
    assert [each for each, _problem in sriov(item)] == [path]


def test_additional_info_passes() -> None:
    assert sriov({"additionalInfo": {"*": {"TOKEN": "x"}}, "excludeTopology": True}) == []


@pytest.mark.parametrize("kind", sorted(devplugin.CHECKS))
def test_the_chart_s_defaults_pass_their_own_check(kind: str) -> None:
    default = {"rdma_shared": devplugin.default_rdma_shared, "sriov": devplugin.default_sriov}[kind]()
    before = copy.deepcopy(default)
    config, problems = devplugin.CHECKS[kind](default)
    assert problems == []
    assert config == default == before


def test_names_that_only_alternative_names_can_be_are_remarked() -> None:
    selectors = {"pfNames": ["ens1f0", "rail0-of-the-first-card", "rail1-of-the-first-card#0-3"]}
    item = {"resourceName": "vf", "resourcePrefix": "nvidia.com"}
    for given, prefix in ((selectors, "selectors"), ([{"vendors": ["15b3"]}, selectors], "selectors[1]")):
        config, problems = check_sriov({"resourceList": [{**item, "selectors": given}]})
        assert problems == []
        found = [each.path for each in remarks("sriov", config)]
        assert found == [f"resourceList[0].{prefix}.pfNames[{index}]" for index in (1, 2)]
    shared = {"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["rail0-of-the-first-card", "ens1f0"]}}
    config, problems = check_rdma_shared({"configList": [shared]})
    assert problems == []
    assert [each.path for each in remarks("rdma_shared", config)] == ["configList[0].selectors.ifNames[0]"]


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("vendors", "15b3", ["15B3", "0x15b3", "Mellanox"]),
        ("deviceIDs", "101d", ["101D", "15b3:101d"]),
        ("linkTypes", "ether", ["Ethernet", "IB", "eth"]),
    ],
)
def test_selectors_of_the_shared_plugin_that_meet_no_device_are_remarked(
    key: str, right: str, wrong: list[str]
) -> None:
    config = {"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {key: [right, *wrong]}}]}
    checked, problems = check_rdma_shared(config)
    assert problems == []
    expected = [f"configList[0].selectors.{key}[{index}]" for index in range(1, len(wrong) + 1)]
    assert [each.path for each in remarks("rdma_shared", checked)] == expected


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("vendors", "15b3", "15B3"),
        ("devices", "101e", "101E"),
        ("pciAddresses", "0000:18:00.1", "18:00.1"),
        ("pciAddresses", "0000:d8:00.1", "0000:D8:00.1"),
        ("linkTypes", "infiniband", "IB"),
    ],
)
def test_selectors_of_the_device_plugin_that_meet_nothing_are_remarked(key: str, right: str, wrong: str) -> None:
    groups = [{key: [right]}, {key: [right, wrong]}]
    item = {"resourceName": "a", "resourcePrefix": "nvidia.com", "selectors": groups}
    checked, problems = check_sriov({"resourceList": [item]})
    assert problems == []
    assert [each.path for each in remarks("sriov", checked)] == [f"resourceList[0].selectors[1].{key}[1]"]


def test_more_shares_than_kubelet_reads_are_remarked() -> None:
    def length(shares: int) -> int:
        """Return how long the message with these devices is: number and health of each, as protobuf writes them."""
        return sum(2 + (2 + len(str(number))) + (2 + len("Healthy")) for number in range(shares))

    limit = 4 * 1024 * 1024
    assert length(MOST_SHARES) <= limit < length(MOST_SHARES + 100)
    for shares, said in ((MOST_SHARES, 0), (MOST_SHARES + 1, 1), (2**63 - 1, 1)):
        config = {"configList": [{"resourceName": "a", "rdmaHcaMax": shares, "selectors": {"vendors": ["15b3"]}}]}
        checked, problems = check_rdma_shared(config)
        assert problems == []
        assert len(remarks("rdma_shared", checked)) == said


@pytest.mark.parametrize("key", ["pfNames", "rootDevices"])
@pytest.mark.parametrize(
    ("items", "words"),
    [
        (["a#0-3", "a#4-7"], {1: "only 'a#0-3' is"}),
        (["a", "b", "A#4-7"], {2: "only 'a' is"}),
        (["a#0-3,6-7", "b#0"], {}),
        (["a#7-3"], {0: "ends before it begins"}),
        (["a#0,9-8"], {0: "ends before it begins"}),
    ],
)
def test_functions_that_the_plugin_does_not_read_are_named(key: str, items: list[str], words: dict[int, str]) -> None:
    item = {"resourceName": "vf", "resourcePrefix": "nvidia.com", "selectors": [{"vendors": ["15b3"]}, {key: items}]}
    config, problems = check_sriov({"resourceList": [item]})
    found = remarks("sriov", config)
    assert problems == []
    assert [each.path for each in found] == [f"resourceList[0].selectors[1].{key}[{index}]" for index in words]
    assert all(word in each.problem for each, word in zip(found, words.values()))


CARDS = {"vendors": ["15b3"]}


@pytest.mark.parametrize(
    ("first", "second", "is_left_out"),
    [
        (CARDS, {**CARDS, "pfNames": ["a"]}, True),
        ({**CARDS, "pfNames": ["a"]}, CARDS, False),
        ({**CARDS, "isRdma": True}, {**CARDS, "pfNames": ["a"]}, False),
        ({**CARDS, "isRdma": True}, {**CARDS, "pfNames": ["a"], "isRdma": True}, True),
        ({"pfNames": ["a", "b"]}, {"pfNames": ["b#0-3"]}, True),
        ({"pfNames": ["a#0-3"]}, {"pfNames": ["a"]}, False),
        ({"pfNames": ["a#0-3"]}, {"pfNames": ["a#4-7"]}, False),
        ({**CARDS, "needVhostNet": True}, CARDS, True),
        ([{"pfNames": ["a"]}, CARDS], [{**CARDS, "devices": ["101e"]}, {"pfNames": ["a"]}], True),
        (CARDS, [{**CARDS, "devices": ["101e"]}, {"pfNames": ["a"]}], False),
    ],
)
def test_a_resource_that_an_earlier_one_leaves_no_device_is_named(first: Any, second: Any, is_left_out: bool) -> None:
    items = [
        {"resourceName": name, "resourcePrefix": "nvidia.com", "selectors": selectors}
        for name, selectors in (("wide", first), ("narrow", second))
    ]
    config, problems = check_sriov({"resourceList": items})
    found = [each for each in remarks("sriov", config) if "comes first" in each.problem]
    assert problems == []
    assert [each.path for each in found] == (["resourceList[1].selectors"] if is_left_out else [])
    assert all("that wide leaves" in each.problem for each in found)


def test_a_resource_of_another_type_of_device_takes_none() -> None:
    items = [
        {"resourceName": "cards", "resourcePrefix": "nvidia.com", "selectors": CARDS},
        {
            "resourceName": "parts",
            "resourcePrefix": "nvidia.com",
            "deviceType": "auxNetDevice",
            "selectors": {**CARDS, "auxTypes": ["sf"]},
        },
    ]
    config, problems = check_sriov({"resourceList": items})
    assert (problems, remarks("sriov", config)) == ([], [])
