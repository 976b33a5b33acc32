# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_discover writes what the collection accepts: its own validation and planner read it on the recorded fleet."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.action.fabric_discover import nothing_found
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.files import recap
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.presets import MACHINES, rows
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.rails import Fleet, Host, LeftOut, preset_of
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

FLEET = ["dgx-h100-01", "dgx-h100-02", "roce-h100-01", "egx-01", "egx-02", "vm-vf-01", "cpu-01"]
IN_CLASSES = FLEET[:-1]


@cache
def facts_of(host: str) -> dict[str, Any]:
    path = str(RECORDINGS / f"{host}.json.gz")
    facts: dict[str, Any] = run_action("rdma_info", {"recording": path})["facts"]
    return facts


def discover(
    dest: Path,
    *,
    check: bool = False,
    diff: bool = False,
    controller: dict[str, Any] | None = None,
    hosts: list[str] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    variables = {host: {"rdma_fabric_discover_facts": {"facts": facts_of(host)}} for host in FLEET}
    variables["localhost"] = controller or {}
    return run_action(
        "fabric_discover",
        {"hosts": FLEET if hosts is None else hosts, "dest": str(dest), **arguments},
        check=check,
        diff=diff,
        task_vars={"hostvars": variables, "groups": {"rdma_fabric": FLEET, "all": FLEET}},
    )


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def variables_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the variables of every host of a written inventory, as Ansible merges them."""
    common = read(folder / "group_vars" / "all.yml")
    found = {"localhost": common}
    for group, content in read(folder / "hosts.yml")["rdma_fabric"]["children"].items():
        for host in content["hosts"]:
            own = folder / "host_vars" / f"{host}.yml"
            of_group = read(folder / "group_vars" / f"{group}.yml")
            found[host] = {**common, **of_group, **(read(own) if own.exists() else {})}
    return found


def validated(folder: Path, networks: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what the collection's own validation makes of a written inventory."""
    variables = variables_of(folder)
    given = {name.replace("rdma_fabric_", ""): value for name, value in variables["localhost"].items()}
    hosts = [host for host in variables if host != "localhost"]
    arguments = {**given, "hosts": hosts, "hosts_pattern": "rdma_fabric"}
    for name, value in (networks or {}).items():
        arguments[name.replace("rdma_fabric_", "")] = value
    result = run_action("fabric_input", arguments, task_vars={"hostvars": variables})
    assert not result.get("failed"), result["msg"]
    return result


def steps_of(host: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the planner of hosts makes of a validated inventory on the facts that it was written from."""
    recording = str(RECORDINGS / f"{host}.json.gz")
    arguments = {"desired": spec["hosts"][host], "recording": recording, "mode": "preview"}
    result = run_action("rdma_host", arguments, task_vars={"inventory_hostname": host})
    assert not result.get("failed"), result["msg"]
    steps: list[dict[str, Any]] = result["plan"]["steps"]
    return steps


BILL_OF_MATERIALS = "the bill of materials says"
KEPT = {"boot", "modules"}  # what is there is kept over a reboot, and the modules that pods need are loaded


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ({}, {"naming"}),
        ({"rename": False}, set()),
        ({"rename": False, "mtu": 9000}, {"mtu"}),
        ({"mtu": 9000, "vfs": 4}, {"naming", "mtu", "vfs", "guids"}),
    ],
)
def test_a_written_inventory_is_valid_and_asks_hosts_for_nothing_but_what_was_chosen(
    tmp_path: Path, arguments: dict[str, Any], more: set[str]
) -> None:
    assert discover(tmp_path, **arguments)["changed"] is True
    result = validated(tmp_path)
    assert not [notice for notice in result["notices"] if BILL_OF_MATERIALS not in notice]
    concerns = set()
    for host in IN_CLASSES:
        steps = steps_of(host, result["spec"])
        assert {step["status"] for step in steps} <= {"planned"}, host
        concerns |= {step["concern"] for step in steps}
    assert concerns == KEPT | more


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("arguments", [{}, {"mtu": 9000, "vfs": 4}])
def test_a_planned_inventory_is_valid_and_names_its_source(
    tmp_path: Path, machine: str, arguments: dict[str, Any]
) -> None:
    preset = MACHINES[machine]
    (found,) = discover(tmp_path, machine=machine, count=2, **arguments)["classes"]
    assert found["hosts"] == [f"{machine}-01", f"{machine}-02"]
    spec = validated(tmp_path)["spec"]
    for host in found["hosts"]:
        assert tuple(each["pci"] for each in spec["hosts"][host]["interfaces"]) == preset.rails
    offered = resources_of(run_action("fabric_render", {"spec": spec})["waves"])
    link = {"ib": "infiniband", "roce": "ether"}[preset.fabric]
    assert offered == [(f"rail{at}", [f"rail{at}"], link) for at in range(len(preset.rails))]
    group = (tmp_path / "group_vars" / f"{machine.replace('-', '_')}.yml").read_text()
    assert f"# Source: {preset.source}\n" in group
    assert all(f"the published layout of {machine};" in path.read_text() for path in tmp_path.rglob("*.yml"))


def test_what_was_planned_of_the_hosts_of_an_inventory_is_confirmed_once_they_are_there(tmp_path: Path) -> None:
    hosts = ["dgx-h100-01", "dgx-h100-02"]
    (planned,) = discover(tmp_path, machine="DGX H100", hosts=hosts)["classes"]
    (found,) = discover(tmp_path, hosts=hosts, overwrite=True)["classes"]
    assert found == planned
    assert found["hosts"] == hosts
    assert [path for path in tmp_path.rglob("*.yml") if "Planned" in path.read_text()] == []


def test_machines_are_listed_with_their_sources_as_the_guide_has_them(tmp_path: Path) -> None:
    result = discover(tmp_path, machine="list")
    assert (result["changed"], list(tmp_path.iterdir())) == (False, [])
    assert [line.split()[0] for line in result["recap"]] == list(MACHINES)
    assert all(line.endswith(f"  {row[2]}") for line, row in zip(result["recap"], rows()))
    guide = Path(__file__).parents[3] / "docs" / "guide-discover.md"
    table = [
        line for line in guide.read_text(encoding="utf-8").splitlines() if re.match(r"\| `[a-z0-9-]+` \| \d", line)
    ]
    assert table == [f"| `{machine}` | {hardware} | {source} |" for machine, hardware, source in rows()]


def test_a_number_of_hosts_that_is_none_is_refused_by_the_name_that_the_user_gave_it() -> None:
    given = {"rdma_fabric_discover_hosts": "many", "rdma_fabric_discover_machine": "dgx-h100"}
    result = run_action("fabric_discover", {"role_variables": True}, task_vars={**given, "groups": {}, "hostvars": {}})
    assert "argument 'count' (rdma_fabric_discover_hosts)" in result["msg"]


@pytest.mark.parametrize(
    ("gpu", "group"), [("A100 SXM4 40GB", "nd_a100_v4"), ("H100", "nd_h100_v5"), ("", "nd_h100_v5"), ("MI300X", "")]
)
def test_of_machines_with_the_same_addresses_the_gpu_tells(gpu: str, group: str) -> None:
    preset = preset_of(MACHINES["nd-a100-v4"].rails, gpu)
    assert (preset.group(gpu) if preset else "") == group


def test_an_inventory_of_hosts_with_a_small_mtu_is_valid(tmp_path: Path) -> None:
    small = {
        host: {**facts_of(host), "netdevs": [{**each, "mtu": 1000} for each in facts_of(host)["netdevs"]]}
        for host in FLEET
    }
    (notice, *_more) = discover(tmp_path, facts=small)["notices"]
    assert "no mtu: 1000, as most have it now, is below 1280" in notice
    validated(tmp_path)


@pytest.mark.parametrize("vfs", [0, 4])
def test_the_networks_shown_in_comments_are_valid_with_the_policy(tmp_path: Path, vfs: int) -> None:
    discover(tmp_path, vfs=vfs)
    _before, _mark, example = (tmp_path / "group_vars" / "all.yml").read_text().partition("for example:\n")
    networks = yaml.safe_load(re.sub(r"^# ", "", example, flags=re.MULTILINE))
    assert set(networks) >= {"rdma_fabric_ip_pools"}
    result = validated(tmp_path, networks)
    assert not [notice for notice in result["notices"] if BILL_OF_MATERIALS not in notice]
    assert sorted(each["name"] for each in result["spec"]["networks"]) == ["rail0-ib", "rail0-roce"]


@pytest.mark.parametrize("arguments", [{}, {"rename": False}, {"vfs": 4}])
def test_plugins_get_one_resource_for_each_rail_of_a_node(tmp_path: Path, arguments: dict[str, Any]) -> None:
    rails = {"dgx-h100-01": 8, "roce-h100-01": 8, "egx-01": 1}
    discover(tmp_path, hosts=sorted(rails), **arguments)
    spec = validated(tmp_path)["spec"]
    offered = resources_of(run_action("fabric_render", {"spec": spec})["waves"])
    for host, count in rails.items():
        now = {each["pci"]: each["name"] for each in facts_of(host)["netdevs"] if each.get("pci")}
        links = link_layers_of(host)
        near = {each["nic"] for each in facts_of(host)["rails"]}
        wanted = [each for each in spec["hosts"][host]["interfaces"] if each["pci"] in near]
        found = [
            name
            for each in wanted
            for name, interfaces, link in offered
            if (each["name"] or now[each["pci"]]) in interfaces and link == LINKS[links[now[each["pci"]]]]
        ]
        assert (len(wanted), len(found), len(set(found))) == (count, count, count), host


def test_a_port_that_is_shared_beside_virtual_functions_of_its_name_elsewhere_is_told(tmp_path: Path) -> None:
    """The VF of the guest has none of its own, the cards of the others have."""
    told = discover(tmp_path, vfs=4)["notices"]
    assert [notice.split(":")[0] for notice in told] == ["rail0"]
    assert "drop rdma/rail0_roce" in told[0]
    assert discover(tmp_path / "apart", hosts=["dgx-h100-01", "vm-vf-01"], vfs=4)["notices"] == []


LINKS = {"Ethernet": "ether", "InfiniBand": "infiniband"}


def resources_of(waves: list[dict[str, Any]]) -> list[tuple[str, list[str], str]]:
    """Return name, interfaces and link layer of each resource that the configuration of a device plugin holds."""
    maps = [each for wave in waves for each in wave["objects"] if each["kind"] == "ConfigMap"]
    texts = [text for each in maps for text in each["data"].values() if '"resourceName"' in text]
    lists = [entries for text in texts for entries in json.loads(text).values()]
    found = []
    for entry in (entry for entries in lists for entry in entries):
        selectors = entry["selectors"]
        interfaces = selectors.get("ifNames", []) + selectors.get("pfNames", [])
        (link,) = selectors["linkTypes"]
        found.append((entry["resourceName"], interfaces, link))
    return found


def link_layers_of(host: str) -> dict[str, str]:
    """Return the link layer of the port of each interface that has RDMA."""
    return {each["netdev"]: each["ports"][0]["link_layer"] for each in facts_of(host)["rdma"] if each.get("netdev")}


OWN_POLICY = {"sriovDevicePlugin": {"config": "{}"}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rdma_fabric_manifests", ["policy.yaml"]),
        ("rdma_fabric_helm_values", {"deployCR": True}),
        ("rdma_fabric_helm_values_files", ["values.yaml"]),
        ("rdma_fabric_helm_set", ["deployCR=true"]),
        ("rdma_fabric_nic_cluster_policy", OWN_POLICY),
    ],
)
def test_a_policy_of_the_inventory_counts_and_the_found_one_is_a_comment(tmp_path: Path, name: str, value: Any) -> None:
    discover(tmp_path / "plain")
    result = discover(tmp_path / "given", controller={name: value})
    assert [line for line in result["recap"] if line.startswith("policy: ") and name in line]
    written = tmp_path / "given" / "group_vars" / "all.yml"
    assert yaml.safe_load(written.read_text()) is None
    _marker, _start, plain = (tmp_path / "plain" / "group_vars" / "all.yml").read_text().split("\n", 2)
    lines = re.sub(r"^# ", "", written.read_text(), flags=re.MULTILINE).splitlines()
    assert "rdma_fabric_nic_cluster_policy:" in lines
    assert len(lines) == len(plain.splitlines()) + 3
    assert discover(tmp_path / "given", controller={name: value})["changed"] is False


def test_the_policy_of_an_earlier_discovery_is_none_of_the_inventorys_own(tmp_path: Path) -> None:
    discover(tmp_path)
    found = {
        "rdma_fabric_nic_cluster_policy": read(tmp_path / "group_vars" / "all.yml")["rdma_fabric_nic_cluster_policy"]
    }
    again = discover(tmp_path, controller=found)
    assert again["changed"] is False
    assert [line for line in again["recap"] if line.startswith("policy: ")] == []


@pytest.mark.parametrize("text", ["{", "- a list", ""])
def test_a_file_that_holds_no_policy_is_none_of_an_earlier_discovery(tmp_path: Path, text: str) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(text)
    result = discover(tmp_path, controller={"rdma_fabric_nic_cluster_policy": OWN_POLICY}, overwrite=True)
    assert [line for line in result["recap"] if line.startswith("policy: ")]


def test_a_second_run_changes_nothing_and_files_that_differ_stay_unless_asked(tmp_path: Path) -> None:
    assert discover(tmp_path)["changed"] is True
    assert discover(tmp_path)["changed"] is False
    before = {path: path.read_text() for path in tmp_path.rglob("*.yml")}
    refused = discover(tmp_path, mtu=9000, diff=True)
    assert refused["failed"] is True
    assert "roce" in refused["msg"]
    assert "rdma_fabric_discover_overwrite=true" in refused["msg"]
    assert len(refused["files"]) == len(refused["diff"]) == 3, "the files without an Ethernet rail are as they were"
    assert {path: path.read_text() for path in tmp_path.rglob("*.yml")} == before
    assert discover(tmp_path, mtu=9000, overwrite=True)["changed"] is True
    assert "mtu: 9000 # requested; 1500 now" in (tmp_path / "group_vars" / "connectx7_vf.yml").read_text()


def test_hosts_that_are_as_written_are_no_reason_to_refuse_and_comments_stay(tmp_path: Path) -> None:
    """When names and MTU were applied the comments that tell how it was are outdated, and nothing else."""
    discover(tmp_path, mtu=9000)
    applied = {}
    for host, variables in variables_of(tmp_path).items():
        if host == "localhost":
            continue
        wanted = {each["pci"]: each for each in variables["rdma_fabric_interfaces"]}
        netdevs = [dict(each) for each in facts_of(host)["netdevs"]]
        for each in netdevs:
            entry = wanted.get(each["pci"], {}) if "kind" not in each else {}
            each.update({key: entry[key] for key in ("name", "mtu") if key in entry})
        applied[host] = {**facts_of(host), "netdevs": netdevs}
    before = {path: path.read_text() for path in tmp_path.rglob("*.yml")}
    again = discover(tmp_path, mtu=9000, facts=applied)
    assert (again["changed"], again.get("failed", False)) == (False, False), again
    assert {path: path.read_text() for path in tmp_path.rglob("*.yml")} == before
    assert discover(tmp_path, mtu=9000, facts=applied, overwrite=True)["changed"] is True
    assert "mtu: 9000 # requested; the same now" in (tmp_path / "group_vars" / "connectx7_vf.yml").read_text()


@pytest.mark.parametrize("more", ["mine: 1\n", "mine: !vault x\n", "mine: [\n"])
def test_a_file_that_says_more_than_was_found_stays_unless_asked(tmp_path: Path, more: str) -> None:
    discover(tmp_path)
    path = tmp_path / "group_vars" / "all.yml"
    path.write_text(path.read_text() + more)
    assert discover(tmp_path)["files"] == [str(path)]
    assert path.read_text().endswith(more)


def test_a_policy_in_comments_counts_as_it_is_written(tmp_path: Path) -> None:
    given = {"rdma_fabric_manifests": ["policy.yaml"]}
    discover(tmp_path, controller=given)
    path = tmp_path / "group_vars" / "all.yml"
    path.write_text(path.read_text().replace("rail1", "rail9"))
    assert discover(tmp_path, controller=given)["files"] == [str(path)]


def test_a_class_keeps_its_group_when_a_host_of_it_is_not_read(tmp_path: Path) -> None:
    hosts = ["roce-a", "roce-b", "roce-c"]
    facts = {"rdma_fabric_discover_facts": {"facts": facts_of("roce-h100-01")}}

    def again(read_now: list[str], groups: dict[str, list[str]]) -> dict[str, Any]:
        variables = {host: facts if host in read_now else {} for host in hosts}
        arguments = {"hosts": hosts, "dest": str(tmp_path), "overwrite": True}
        return run_action("fabric_discover", arguments, task_vars={"hostvars": variables, "groups": groups})

    (found,) = again(hosts, {})["classes"]
    result = again(hosts[:2], {found["group"]: hosts})
    assert [each["group"] for each in result["classes"]] == [found["group"]]
    assert (result["unread"], result["notices"]) == (["roce-c"], [])


def test_check_mode_shows_every_file_and_writes_none(tmp_path: Path) -> None:
    result = discover(tmp_path / "made", check=True, diff=True)
    assert result["changed"] is True
    assert [each["after_header"] for each in result["diff"]] == result["files"]
    assert "rdma_fabric:" in result["diff"][0]["after"]
    assert not (tmp_path / "made").exists()


def test_a_file_of_an_earlier_discovery_that_ansible_would_still_read_is_named(tmp_path: Path) -> None:
    discover(tmp_path)
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "gone.yml").write_text("# Written by rdma.fabric.discover: gone.\n---\n")
    (tmp_path / "host_vars" / "own.yml").write_text("---\nmine: 1\n")
    (notice,) = discover(tmp_path)["notices"]
    assert "gone.yml" in notice


def test_hosts_that_were_not_read_are_named_and_without_any_rail_nothing_is_written(tmp_path: Path) -> None:
    variables = {
        "cpu-01": {"rdma_fabric_discover_facts": {"facts": facts_of("cpu-01")}},
        "gone": {"rdma_fabric_discover_facts": {}},
    }
    result = run_action(
        "fabric_discover",
        {"hosts": ["cpu-01", "gone"], "dest": str(tmp_path)},
        task_vars={"hostvars": variables, "groups": {}},
    )
    assert result["failed"] is True
    assert "cpu-01: 0000:00:03.0 ens3: the uplink" in result["msg"]
    assert "gone: was not read" in result["msg"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"mtu": 900}, "900 is not a valid MTU"),
        ({"vfs": -1}, "-1 is not a valid number"),
        ({"vfs": 9}, "has room for 8"),
        ({"machine": "dgx-h10"}, "no layout of dgx-h10 is known: did you mean dgx-h100?"),
        ({"machine": "abacus"}, "rdma_fabric_discover_machine=list prints those that are"),
        ({"machine": "dgx-h100", "hosts": []}, "no host to plan: give their number"),
        ({"machine": "dgx-h100", "rename": False}, "rename: false needs the names of interfaces"),
        ({"machine": "dgx-h100", "count": 0}, "count: give 1 or more hosts"),
        ({"count": 4}, "what they are as rdma_fabric_discover_machine"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    result = discover(tmp_path, **arguments)
    assert result["failed"] is True
    assert problem in result["msg"]
    assert list(tmp_path.iterdir()) == []


def test_where_no_host_has_a_rail_those_with_the_same_reason_are_one_line() -> None:
    """A fleet whose switches are off has thousands of ports without a link."""
    why = LeftOut("0000:18:00.0", "ens2f0", "no link")
    without = [Host(f"gpu-{number:03}", (), (why,), "", 0) for number in range(500)]
    without += [Host(f"cpu-{number:03}", (), (), "", 0) for number in range(500)]
    lost = [f"lost-{number:03}" for number in range(500)]
    lines = nothing_found(Fleet((), tuple(without)), lost).splitlines()
    assert lines[1:-1] == [
        "  - gpu-[000:499]: 0000:18:00.0 ens2f0: no link",
        "  - cpu-[000:499]: no network controller",
        "  - lost-[000:499]: was not read; its own error says why",
    ]


def test_hosts_without_a_rail_for_the_same_reason_are_one_line_of_the_recap() -> None:
    why = LeftOut("0000:00:03.0", "ens3", "the uplink")
    without = tuple(Host(f"vm-{number:03}", (), (why,), "", 0) for number in range(500))
    lines = [line for line in recap(Fleet((), without), "found", []) if line.startswith("left out")]
    assert len(lines) == 1
    assert lines[0].startswith("left out: vm-000, vm-001, ")
    assert "more, 0000:00:03.0 ens3: the uplink" in lines[0]
