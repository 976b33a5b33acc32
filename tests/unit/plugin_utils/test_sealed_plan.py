# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a sealed plan: one entry per class, the same bytes again, and every change named."""

from __future__ import annotations

import json
from typing import Any, Sequence

import pytest
from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._sealed.plan import (
    SETTINGS,
    HostInput,
    Loaded,
    Run,
    compare,
    digest,
    digests_of,
    document_of,
    host_input_of,
    policies_of,
    read,
    run_of,
)

STEP = {"id": "mtu:a", "line": "planned: mtu a: set the MTU to 9000", "from": "0" * 32, "to": "1" * 32}
FACTS = {"kernel": "6.8.0-1", "nics": {"0000:18:00.0": "15b3:1021 mlx5_core"}, "uplinks": ["eno1"]}
INTERFACES = {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "mtu": 9000}]}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": {"k": "v"}}
ROLLOUT: dict[str, Any] = {
    "source": "NicClusterPolicy/a",
    "node_selector": {},
    "parallel": 1,
    "drain": {"force": True, "timeout": 300},
}
SECRET = {**CONFIG, "kind": "Secret", "stringData": {"password": "hunter2"}}


def host_input(given: dict[str, Any], **of_runs: Any) -> HostInput:
    desired, violations, _notices = parse_host_variables("h", given)
    assert violations == []
    return host_input_of(desired, of_runs)


def sealed(machine: str, *steps: dict[str, str]) -> dict[str, Any]:
    return {"facts": FACTS, "machine": machine, "steps": list(steps)}


def run(*objects: dict[str, Any], rollouts: Sequence[dict[str, Any]] = (ROLLOUT,), **settings: Any) -> Run:
    digests = digests_of([{"name": "all", "objects": list(objects)}])
    return Run({**SETTINGS, **settings}, digests, policies_of(rollouts))


HOSTS = {f"gpu-{number:02}": (host_input(INTERFACES), sealed(f"m{number}", STEP)) for number in (10, 2, 1)}
DOCUMENT = document_of(run(CONFIG, SECRET), {**HOSTS, "cpu-1": (host_input({}), sealed(""))})


def loaded(document: dict[str, Any] = DOCUMENT) -> Loaded:
    return read("plan.json", json.loads(json_text(document)))


def changed(inputs: dict[str, HostInput], now: Run | None = None, limited: bool = False) -> tuple[list[str], list[str]]:
    found, said = compare("plan.json", loaded(), now or run(CONFIG, SECRET), inputs, limited)
    return [each.sentence() for each in found], [each.sentence() for each in said]


SAME = {host: HOSTS[host][0] for host in HOSTS} | {"cpu-1": host_input({})}


def test_hosts_with_the_same_plan_are_one_entry_and_the_order_of_hosts_does_not_matter() -> None:
    assert [list(plan["hosts"]) for plan in DOCUMENT["plans"]] == [["cpu-1"], ["gpu-01", "gpu-02", "gpu-10"]]
    turned = dict(reversed([*HOSTS.items(), ("cpu-1", (host_input({}), sealed("")))]))
    assert json_text(document_of(run(SECRET, CONFIG), turned)) == json_text(DOCUMENT)


def test_a_thousand_equal_hosts_take_a_line_each() -> None:
    many = {f"gpu-{number:04}": (host_input(INTERFACES), sealed(f"m{number}", STEP)) for number in range(1000)}
    text = json_text(document_of(run(), many))
    assert text.count(STEP["line"]) == 1
    assert len(text.splitlines()) < 1100


def test_what_is_read_is_what_was_written() -> None:
    found = loaded()
    assert found.hosts["gpu-02"] == {"plan": 1, "machine": "m2"}
    assert found.plans[1] == {"facts": FACTS, "steps": [STEP]}
    assert changed(SAME) == ([], [])


def test_it_holds_no_secret() -> None:
    asks = {
        "source": "p",
        "node_selector": {},
        "driver": {"env": [{"name": "HTTP_PROXY", "value": "http://u:hunter2@p"}]},
    }
    desired = {**parse_host_variables("h", {"ansible_host": "10.0.0.7"})[0], "requests": [asks]}
    text = json_text(document_of(run(SECRET), {"h": (host_input_of(desired, {}), sealed(""))}))
    assert "hunter2" not in text
    assert "10.0.0.7" not in text
    other = {**SECRET, "stringData": {"password": "other"}}
    assert digests_of([{"objects": [SECRET]}]) == digests_of([{"objects": [other]}])
    renamed = {**SECRET, "stringData": {"passphrase": "other"}}
    assert digests_of([{"objects": [SECRET]}]) != digests_of([{"objects": [renamed]}])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "mtu": 4200}]},
            "host gpu-01: rdma_fabric_interfaces: [0].mtu: is 4200 now, 9000 was sealed",
        ),
        (
            {"rdma_fabric_interfaces": [*INTERFACES["rdma_fabric_interfaces"], {"pci": "0000:19:00.0", "mtu": 9000}]},
            'host gpu-01: rdma_fabric_interfaces: is [{"mtu": 9000, "pci": "0000:18:00.0"}, {"mtu": 9000,',
        ),
        (
            {**INTERFACES, "rdma_fabric_kernel_modules": ["ib_umad"]},
            'host gpu-01: rdma_fabric_kernel_modules: is ["ib_umad"] now, not given was sealed',
        ),
        (
            {**INTERFACES, "rdma_fabric_allow_reboot": True},
            "host gpu-01: rdma_fabric_allow_reboot: is true now, not given was sealed",
        ),
    ],
)
def test_a_changed_variable_is_named(given: dict[str, Any], said: str) -> None:
    (found,) = changed({**SAME, "gpu-01": host_input(given)})[0]
    assert found.startswith(said)
    assert "site --check with rdma_fabric_plan_file" in found


def test_how_a_host_is_reached_is_not_sealed() -> None:
    assert changed({**SAME, "gpu-01": host_input({**INTERFACES, "ansible_host": "10.0.0.9"})}) == ([], [])


def test_a_changed_variable_of_the_run_is_named() -> None:
    (of_host,) = changed({**SAME, "gpu-01": host_input(INTERFACES, host_state="absent")})[0]
    assert of_host.startswith('host gpu-01: rdma_fabric_host_state: is "absent" now, not given was sealed')
    (of_run,) = changed(SAME, run(CONFIG, SECRET, prune=False))[0]
    assert of_run.startswith("variables: rdma_fabric_prune: is false now, true was sealed")


def test_changed_new_and_missing_objects_are_named() -> None:
    other = {**CONFIG, "data": {"k": "w"}}
    new = {**CONFIG, "metadata": {"name": "new", "namespace": "b"}}
    found = changed(SAME, run(other, new))[0]
    assert [line.split(" (")[0] for line in found] == [
        "objects of plan.json: ConfigMap b/a: is not what was sealed",
        "objects of plan.json: ConfigMap b/new: is new",
        "objects of plan.json: Secret b/a: is gone",
    ]


def test_what_a_policy_says_otherwise_of_drains_is_named_by_its_place() -> None:
    unforced = {**ROLLOUT, "parallel": 2, "drain": {**ROLLOUT["drain"], "force": False}}
    found = changed(SAME, run(CONFIG, SECRET, rollouts=[unforced]))[0]
    assert [line.split(" (")[0] for line in found] == [
        "policy NicClusterPolicy/a: ofedDriver.upgradePolicy.drain.force: is false now, true was sealed",
        "policy NicClusterPolicy/a: ofedDriver.upgradePolicy.parallel: is 2 now, 1 was sealed",
    ]
    (gone,) = changed(SAME, run(CONFIG, SECRET, rollouts=[]))[0]
    assert gone.startswith("policy NicClusterPolicy/a: ofedDriver.upgradePolicy: is not given now, ")
    (new,) = changed(SAME, run(CONFIG, SECRET, rollouts=[ROLLOUT, {**ROLLOUT, "source": "NicNodePolicy/b"}]))[0]
    assert new.startswith("policy NicNodePolicy/b: ofedDriver.upgradePolicy: is {")


def test_hosts_without_a_plan_are_refused_and_those_beside_the_run_are_told_unless_it_is_limited() -> None:
    (found,) = changed({**SAME, "gpu-99": host_input(INTERFACES)})[0]
    assert found.startswith("plan.json: plans: has no plan of gpu-99")
    few = {"gpu-01": SAME["gpu-01"]}
    assert changed(few) == (
        [],
        ["plan.json: plans: has plans of hosts that are not in this run: cpu-1, gpu-02, gpu-10"],
    )
    assert changed(few, limited=True) == ([], [])


def refusal(document: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        read("plan.json", document)
    return str(refused.value)


def resealed(**parts: Any) -> dict[str, Any]:
    content = {**DOCUMENT, **parts}
    return {**content, "digest": digest(content)}


def test_a_file_that_was_edited_is_refused() -> None:
    edited = json.loads(json_text(DOCUMENT).replace("9000", "4200"))
    assert "digest: does not fit the content: the file was changed after it was written" in refusal(edited)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "format: is not a sealed plan"),
        ({"format": "rdma.fabric report"}, "format: is not a sealed plan"),
        (resealed(version=2), "version: is 2; this release reads version 1"),
        (resealed(plans={}), "plans: is missing or of another type"),
        (resealed(policies=[]), "policies: is missing or of another type"),
        (resealed(plans=["gpu-01"]), "plans[0]: is not a mapping"),
        (resealed(plans=[{"hosts": {}}]), "plans[0].desired: is missing or of another type"),
        (resealed(plans=[{**DOCUMENT["plans"][0], "steps": [{}]}]), "steps[0]: lacks one of"),
    ],
)
def test_what_is_no_sealed_plan_of_this_release_is_refused(document: Any, said: str) -> None:
    assert said in refusal(document)


@pytest.mark.parametrize(
    ("given", "sealed"),
    [({"max_unavailable": 2}, "2"), ({"prune": "no"}, False), ({"max_unavailable": "{{ undefined }}"}, ""), ({}, True)],
)
def test_the_settings_of_a_run_are_those_of_localhost_and_what_stands_for_the_others(
    given: dict[str, Any], sealed: Any
) -> None:
    def convert(value: Any) -> Any:
        if value == "{{ undefined }}":
            raise AnsibleError("it is undefined")
        return value

    own = {f"rdma_fabric_{name}": value for name, value in given.items()}
    hostvars = {"a": {"rdma_fabric_prune": False, "rdma_fabric_max_unavailable": 9}, "localhost": own}
    settings = run_of({}, {"inventory_hostname": "a", "hostvars": hostvars}, convert).settings
    name = next(iter(given), "prune")
    assert settings == {**SETTINGS, name: sealed}
    assert type(settings[name]) is type(sealed)
