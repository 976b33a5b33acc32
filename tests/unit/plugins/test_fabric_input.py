# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_input gathers files, values, variables, extra variables and hosts, and reports all of them together."""

from __future__ import annotations

import json
import time
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecret

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import SEEDS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

POLICY = SEEDS / "guide" / "nic-cluster-policy.yaml"


def load(task_vars: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    return run_action("fabric_input", arguments, task_vars=task_vars)


def test_files_values_variables_and_hosts_become_one_spec(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("nfd:\n  enabled: true\noperator:\n  cniBinDirectory: /a\n")
    result = load(
        manifests=[str(POLICY), str(SEEDS / "guide" / "rdma-macvlan.yaml")],
        helm_values_files=[str(tmp_path / "values.yaml")],
        helm_values={"operator": {"cniBinDirectory": "/b", "cniNetworkDirectory": "/c"}},
        helm_set=["nfd.enabled=false", "operator.cniNetworkDirectory=/d"],
        macvlan_networks={"m": {"master": "ens1f0"}},
        hosts=["node1"],
        task_vars={"hostvars": {"node1": {"rdma_fabric_protected_interfaces": ["eno1"], "ansible_host": "10.0.0.5"}}},
    )
    spec = result["spec"]
    assert result["changed"] is False
    assert spec["cluster_policy"]["name"] == "nic-cluster-policy"
    assert [entry["name"] for entry in spec["networks"] + spec["attachments"]] == ["m", "rdma-macvlan"]
    assert (spec["settings"]["nfd"], spec["settings"]["cni_bin_dir"], spec["settings"]["cni_conf_dir"]) == (
        False,
        "/b",
        "/d",
    )
    assert spec["hosts"]["node1"]["protected_interfaces"] == ["eno1"]
    assert spec["hosts"]["node1"]["connection_address"] == "10.0.0.5"
    assert spec["hosts"]["node1"]["requests"][0]["driver"]["image"] == "doca-driver"
    assert any("ipamPlugin" in notice for notice in result["notices"])
    json.dumps(result)


def test_what_no_pod_starts_with_is_told_apart_from_the_other_notices(tmp_path: Path) -> None:
    metadata = {"name": "n", "namespace": "nvidia-network-operator"}
    network = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata}
    network["spec"] = {"config": json.dumps({"cniVersion": "0.3.1", "name": "n", "type": "sriov"})}
    taken = {"startIP": "10.0.0.1", "endIP": "10.0.0.31"}
    pool = {"subnet": "10.0.0.0/24", "perNodeBlockSize": 8, "gateway": "10.0.0.1", "exclusions": [taken]}
    manifest = tmp_path / "n.yaml"
    manifest.write_text(json.dumps(network))
    policy = {"nvIpam": {"version": "v0.3.7"}}
    result = load(manifests=[str(manifest)], nic_cluster_policy=policy, ip_pools={"p": pool})
    of_network, of_pool = sorted(result["unmet"])
    assert "gets no device" in of_network and "holds whole blocks" in of_pool
    assert {of_network, of_pool} < {*result["notices"]}


def test_a_resource_given_as_extra_variables_is_one_more_document() -> None:
    extra = yaml.safe_load(POLICY.read_text())
    spec = load(task_vars=extra)["spec"]
    assert spec["cluster_policy"]["source"] == "extra vars"
    assert spec["cluster_policy"]["spec"] == extra["spec"]
    assert load(task_vars={"kind": "NicClusterPolicy", "apiVersion": "x"})["spec"]["cluster_policy"] is None
    twice = load(task_vars=extra, manifests=[str(POLICY)])
    assert "second NicClusterPolicy" in twice["msg"]


def test_the_mode_of_a_host_is_held_against_the_policy_of_files() -> None:
    hostvars = {"node1": {"rdma_fabric_netns_mode": "exclusive"}, "node2": {"rdma_fabric_netns_mode": "shared"}}
    given: dict[str, Any] = {"hosts": ["node1", "node2"], "task_vars": {"hostvars": hostvars}}
    (violation,) = load(manifests=[str(POLICY)], **given)["violations"]
    assert violation["source"] == "host node1: rdma_fabric_netns_mode"
    assert load(**given)["spec"]["hosts"]["node1"]["netns_mode"] == "exclusive"


def test_everything_wrong_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "values.yaml").write_text("nfd: {enable: true}\n")
    result = load(
        manifests=[
            str(tmp_path / "broken.yaml"),
            str(tmp_path / "missing.yaml"),
            str(SEEDS / "slides" / "rdma-pod.yaml"),
        ],
        helm_values_files=[str(tmp_path / "values.yaml")],
        helm_set=["x"],
        nic_cluster_policy={"spectrumXOperater": {}},
        hosts=["node1", "node2"],
        task_vars={"hostvars": {"node1": {"rdma_fabric_interfaces": "all"}}},
    )
    assert result["failed"]
    assert "spec" not in result
    sources = [violation["source"] for violation in result["violations"]]
    assert len(sources) == 8
    assert {Path(source).name for source in sources} == {
        "broken.yaml",
        "missing.yaml",
        "rdma-pod.yaml",
        "values.yaml",
        "helm_set",
        "rdma_fabric_nic_cluster_policy",
        "hosts",
        "host node1: rdma_fabric_interfaces",
    }
    assert "8 problems in the input; nothing was changed" in result["msg"]


class Templated(UserDict[str, Any]):
    """Variables of a host as Ansible shows them: some templates have no value there."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, Exception):
            raise value
        return value


def test_a_file_of_variables_that_cannot_be_read_is_named_where_ansible_names_none(tmp_path: Path) -> None:
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "node1.yml").write_text("a:\n\t- b\n", encoding="utf-8")
    hostvars = Templated({"node1": AnsibleError("YAML parsing failed: Tabs are usually invalid in YAML.")})
    inventory = {"groups": {"all": ["node1"]}, "ansible_inventory_sources": [str(tmp_path / "hosts.yml")]}
    loader = DataLoader()
    loader.set_vault_secrets([("default", VaultSecret(b"right"))])
    result = run_action(
        "fabric_input", {"hosts": ["node1"]}, task_vars={"hostvars": hostvars, **inventory}, loader=loader
    )
    (violation,) = result["violations"]
    assert violation["source"] == f"variables {tmp_path}/host_vars/node1.yml"
    with pytest.raises(AnsibleError, match="Tabs"):
        load(hosts=["node1"], task_vars={"hostvars": hostvars, "groups": inventory["groups"]})


def test_a_template_without_a_value_is_told_with_its_host_and_everything_else() -> None:
    group = {"rdma_fabric_roce_qos": {"trst": "dscp"}}
    broken = {
        "rdma_fabric_interfaces": AnsibleUndefinedVariable("'nic_pci' is undefined"),
        "rdma_fabric_protected_interfaces": AnsibleError("division\nby zero"),
    }
    result = load(hosts=["a", "b"], task_vars={"hostvars": {"a": group, "b": Templated({**group, **broken})}})
    assert [(found["source"], found["path"], found["problem"]) for found in result["violations"]] == [
        ("hosts a, b: rdma_fabric_roce_qos", "trst", "unknown field"),
        ("host b: rdma_fabric_interfaces", "", "has no value: 'nic_pci' is undefined"),
        ("host b: rdma_fabric_protected_interfaces", "", "has no value: division\\nby zero"),
    ]
    assert result["violations"][1]["hint"] == "define it for this host, in the inventory, group_vars or host_vars"


@pytest.mark.parametrize(
    "message",
    [
        "Attempting to decrypt but no vault secrets found.",
        "Decryption failed (no vault secrets were found that could decrypt).",
    ],
)
def test_the_secret_of_an_encrypted_variable_is_asked_for(message: str) -> None:
    variables = Templated({"rdma_fabric_interfaces": AnsibleError(message)})
    (found,) = load(hosts=["a"], task_vars={"hostvars": {"a": variables}})["violations"]
    assert found["problem"] == f"has no value: {message}"
    assert "--vault-password-file" in found["hint"]


@pytest.mark.parametrize("name", ["gpu 7", "gpu-01 ansible_host=192.0.2.1", "a,b", "a:b", "rack1/gpu-01"])
def test_a_name_that_no_play_finds_and_no_file_can_have_is_refused(name: str) -> None:
    (found,) = load(hosts=[name, "gpu-02"], task_vars={"hostvars": {name: {}, "gpu-02": {}}})["violations"]
    assert (found["source"], found["path"]) == (f"host {name}", "")
    assert "ansible_host" in found["hint"]


@pytest.mark.parametrize("name", ["gpu-01.example.org", "192.0.2.1", "2001:db8::1", "GPU_1", "gpu-01:22"])
def test_a_name_that_a_play_finds_is_taken(name: str) -> None:
    assert not load(hosts=[name], task_vars={"hostvars": {name: {}}}).get("failed")


def test_a_notice_of_many_hosts_is_said_once() -> None:
    twice = {"rdma_fabric_kernel_modules": ["rdma_ucm", "rdma_ucm"]}
    (notice,) = load(hosts=["a", "b"], task_vars={"hostvars": {"a": twice, "b": twice}})["notices"]
    assert notice.startswith("hosts a, b: rdma_fabric_kernel_modules: [1]: ")


def test_hosts_beside_the_fabric_are_looked_at_when_the_pattern_is_given() -> None:
    hostvars: dict[str, Any] = {"gpu01": {"rdma_fabric_interfaces": []}, "new": {}}
    result = load(hosts_pattern="rdma_fabric", task_vars={"hostvars": hostvars})
    assert [found["path"] for found in result["violations"]] == ["rdma_fabric_hosts_pattern"]
    (notice,) = load(hosts_pattern="new", hosts=["new"], task_vars={"hostvars": hostvars})["notices"]
    assert "nothing reads rdma_fabric_interfaces of gpu01" in notice
    assert load(task_vars={"hostvars": hostvars})["spec"]["hosts"] == {}


def test_recordings_that_are_not_there_are_told_together_and_refused_where_no_host_is_left(tmp_path: Path) -> None:
    (tmp_path / "here.json.gz").write_bytes(b"")
    names = {"a": "here", **{f"gpu-{number}": f"gone-{number}" for number in range(1, 5)}}
    recorded = {host: {"rdma_fabric_recording": str(tmp_path / f"{name}.json.gz")} for host, name in names.items()}
    words = f"(gpu-[1:4]), such as {tmp_path}/gone-1.json.gz"
    notices = load(hosts=list(recorded), task_vars={"hostvars": recorded})["notices"]
    assert [each for each in notices if f"rdma_fabric_recording: names no file on 4 of 5 hosts {words}" in each]
    (violation,) = load(hosts=list(recorded)[1:], task_vars={"hostvars": recorded})["violations"]
    assert violation["problem"] == f"names no file on 4 of 4 hosts {words}"


def test_a_policy_of_the_gpu_operator_without_one_of_the_network_operator_is_told(tmp_path: Path) -> None:
    (tmp_path / "gpu.yaml").write_text(
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec: {}\n"
    )
    alone = load(manifests=[str(tmp_path / "gpu.yaml")])["notices"]
    assert [notice for notice in alone if "NicClusterPolicy" in notice]
    beside = load(manifests=[str(tmp_path / "gpu.yaml"), str(POLICY)])["notices"]
    assert not [notice for notice in beside if "the policy of the GPU Operator" in notice]


def test_guids_that_two_hosts_would_give_are_told_with_both_hosts() -> None:
    guids = {"first": "02:00:00:00:00:00:00:01", "last": "02:00:00:00:00:00:00:08"}
    same = {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "vfs": 8, "vf_guids": guids}]}
    result = load(hosts=["node1", "node2"], task_vars={"hostvars": {"node1": same, "node2": same}})
    assert result["failed"]
    assert "host node2: rdma_fabric_interfaces" in result["msg"]
    assert "which host node1 gives to VFs of its own" in result["msg"]


def test_a_name_that_no_set_can_have_is_told_with_the_rest_of_the_input() -> None:
    result = load(set="My Set", nic_cluster_policy={"unknownField": 1})
    assert [each["source"] for each in result["violations"]] == ["rdma_fabric_nic_cluster_policy", "rdma_fabric_set"]
    assert "rdma_fabric_set: 'My Set' is not a valid name for a set" in result["msg"]
    assert not load(set="blue").get("failed")


def test_a_file_in_place_of_the_run_directory_is_told_with_the_rest_of_the_input(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    refused = run_action("fabric_input", {"set": "Rails!", "run_dir": str(tmp_path / "run")})
    assert (
        f"rdma_fabric_run_dir: {tmp_path / 'run'}: Not a directory (make it writable, or give another" in refused["msg"]
    )
    assert "rdma_fabric_set" in refused["msg"]
    assert not run_action("fabric_input", {"run_dir": str(tmp_path / "new")}).get("failed")
    assert not (tmp_path / "new").exists()


def test_a_hostile_file_costs_no_time(tmp_path: Path) -> None:
    with (tmp_path / "big.yaml").open("wb") as stream:
        stream.truncate(10_000_000)
    (tmp_path / "bomb.yaml").write_text("a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(50_000)))
    started = time.process_time()
    result = load(manifests=[str(tmp_path / "big.yaml"), str(tmp_path / "bomb.yaml")])
    assert time.process_time() - started < 10
    assert "10000000 bytes" in result["msg"]
    assert result["failed"]


def test_jinja_from_hosts_and_files_stays_plain_text(tmp_path: Path) -> None:
    text = "{{ lookup('pipe', 'id') }}"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": text}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(config))
    result = load(manifests=[str(tmp_path / "a.yaml")])
    value = result["spec"]["objects"][0]["data"]["x"]
    assert value == text
    assert [type(value)] == [str]


@pytest.mark.parametrize("given", [0, "0%", "all", "-1", "1.5"])
def test_a_number_of_hosts_that_ansible_would_take_for_all_or_not_at_all_is_refused(given: Any) -> None:
    (violation,) = load(reboot_parallel=given)["violations"]
    assert violation["source"] == "rdma_fabric_reboot_parallel"
    assert "10%" in violation["hint"]


@pytest.mark.parametrize("given", [1, "4", "25%", "100%"])
def test_a_number_or_a_share_of_hosts_is_taken(given: Any) -> None:
    assert not load(reboot_parallel=given).get("failed")


@pytest.mark.parametrize("given", ["0%", "101%", "all", "-1", "1.5"])
def test_a_number_of_nodes_that_is_none_is_refused(given: Any) -> None:
    (violation,) = load(max_unavailable=given)["violations"]
    assert violation["source"] == "rdma_fabric_max_unavailable"
    assert given in violation["problem"]


@pytest.mark.parametrize("given", ["0", "4", " 25% ", "100%", ""])
def test_a_number_or_a_share_of_nodes_is_taken(given: str) -> None:
    assert not load(max_unavailable=given).get("failed")
    assert not load(failure_domain="topology.kubernetes.io/zone", max_unavailable_per_domain=given).get("failed")


def test_what_is_wrong_with_failure_domains_is_refused_together() -> None:
    key, limit = load(failure_domain="zone of ours", max_unavailable_per_domain="half")["violations"]
    assert (limit["source"], key["source"]) == (
        "rdma_fabric_max_unavailable_per_domain",
        "rdma_fabric_failure_domain",
    )
    assert "'half' is neither a number of nodes nor a percentage" in limit["problem"]
    assert "'zone of ours' is not a valid label key" in key["problem"]


def test_a_limit_per_domain_without_the_label_of_domains_is_refused() -> None:
    (violation,) = load(max_unavailable_per_domain="2")["violations"]
    assert violation["source"] == "rdma_fabric_max_unavailable_per_domain"
    assert "give rdma_fabric_failure_domain as well" in violation["hint"]


def test_variables_of_reboots_and_drains_are_held_to_what_the_role_documents_before_anything_is_done() -> None:
    fine = {
        "rdma_fabric_drain": "yes",
        "rdma_fabric_drain_timeout": "600",
        "rdma_fabric_drain_wait_for": "app=train,!legacy",
        "rdma_fabric_drain_pod_selector": " tier in (a, b)",
        "rdma_fabric_reboot_timeout": 1800,
    }
    wrong = {
        "rdma_fabric_drain": "maybe",
        "rdma_fabric_drain_timeout": "soon",
        "rdma_fabric_drain_pods": "some",
        "rdma_fabric_drain_pod_selector": "tier in a",
        "rdma_fabric_drain_resources": {"rdma": 1},
        "rdma_fabric_drain_wait_for": "app in train",
        "rdma_fabric_reboot_timeout": "30 min",
        "rdma_fabric_node_name": None,
    }
    assert not load(hosts=["a"], task_vars={"hostvars": {"a": fine}}).get("failed")
    result = load(hosts=["a", "b", "c"], task_vars={"hostvars": {"a": fine, "b": wrong, "c": wrong}})
    assert result["failed"]
    found = {violation["path"]: violation["problem"] for violation in result["violations"]}
    assert set(found) == set(wrong) - {"rdma_fabric_node_name"}
    assert all("(on b, c)" in problem for problem in found.values())
    assert 'is the text "some", not devices or all' in found["rdma_fabric_drain_pods"]
    assert found["rdma_fabric_drain_wait_for"].startswith("'app in train' selects no labels (write app=x,tier!=y")


@pytest.mark.parametrize(("given", "refused"), [(True, True), ("yes", True), (False, False), ("", False)])
def test_a_wire_test_without_a_network_is_refused(given: Any, refused: bool) -> None:
    arguments: dict[str, Any] = {"hosts": ["gpu01"]}
    task_vars = {"hostvars": {"gpu01": {"rdma_fabric_wire_test": given}}}
    result = run_action("fabric_input", arguments, task_vars=task_vars)
    if refused:
        (violation,) = result["violations"]
        assert violation["source"] == "rdma_fabric_wire_test"
        assert "has no secondary network to test (on gpu01)" in violation["problem"]
    else:
        assert not result.get("failed"), result
    arguments["macvlan_networks"] = {"rail0": {"master": "rail0", "mode": "bridge", "ipam": "{}"}}
    assert not run_action("fabric_input", arguments, task_vars=task_vars).get("failed")


def test_names_that_no_node_can_have_are_refused_where_given_and_told_where_the_cluster_counts() -> None:
    hostvars = {"GPU_01": {}, "gpu-02.example": {}, "192.0.2.1": {}, "gpu-03": {"rdma_fabric_node_name": "GPU-03"}}
    task_vars = {"hostvars": hostvars}
    (violation,) = load(hosts=list(hostvars), task_vars=task_vars)["violations"]
    assert violation["source"] == "host gpu-03: rdma_fabric_node_name"
    assert "'GPU-03' cannot be the name of a Kubernetes node" in violation["problem"]
    hostvars["gpu-03"] = {"rdma_fabric_node_name": "gpu-03"}
    assert not any("node of Kubernetes" in said for said in load(hosts=list(hostvars), task_vars=task_vars)["notices"])
    network = {"m": {"master": "ens1f0"}}
    notices = load(hosts=list(hostvars), macvlan_networks=network, task_vars=task_vars)["notices"]
    (said,) = (each for each in notices if "node of Kubernetes" in each)
    assert said.startswith("hosts: no node of Kubernetes can be called GPU_01 (")
    assert "rdma_fabric_node_name" in said


@pytest.mark.parametrize(("of_second", "shared"), [("gpu01", True), (" gpu01 ", True), ("gpu02", False), ("", False)])
def test_two_hosts_with_one_node_are_refused(of_second: str, shared: bool) -> None:
    hostvars = {"gpu01": {}, "gpu02": {"rdma_fabric_node_name": of_second}, "gpu03": {"rdma_fabric_node_name": "n3"}}
    result = run_action("fabric_input", {"hosts": list(hostvars)}, task_vars={"hostvars": hostvars})
    if not shared:
        assert not result.get("failed"), result
        return
    (violation,) = result["violations"]
    assert (violation["source"], violation["problem"]) == (
        "rdma_fabric_node_name",
        "gpu01, gpu02 have the same node, gpu01",
    )


def test_tags_that_leave_nothing_out_are_refused_of_our_own_playbooks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, skipped = {"args": ("rdma.fabric.site",)}, {"skip_tags": ("host", "slow")}
    monkeypatch.setattr("ansible.constants.TAGS_SKIP", ["slow"])
    for cli, refused in (
        ({**ours, **skipped}, True),
        ({**ours, "skip_tags": ("slow",)}, False),
        ({**skipped, "args": ("mine.yml",)}, False),
        (ours, False),
    ):
        monkeypatch.setattr("ansible.context.CLIARGS", cli)
        result = load(set="blue")
        assert ("--skip-tags host leaves nothing out" in str(result.get("msg"))) == refused, cli
