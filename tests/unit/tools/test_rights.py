# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped ClusterRoles are those that what is rendered needs."""

from __future__ import annotations

from tools.rights import BESIDE, DRIFT, JOIN, PROOF, PUSH, ROLLOUT, roles


def test_nobody_is_given_everything_nor_the_right_to_give_more() -> None:
    for role in roles():
        for rule in role["rules"]:
            assert not {"escalate", "bind", "impersonate", "*"} & set(rule["verbs"])
            assert "*" not in [*rule["apiGroups"], *rule["resources"]]
            assert "secrets" not in rule["resources"]


def test_commands_in_pods_are_for_the_proof_alone() -> None:
    runs = {role["metadata"]["name"] for role in roles() if "pods/exec" in str(role["rules"])}
    others = {PUSH, *BESIDE.values(), ROLLOUT, JOIN, DRIFT}
    assert {*others, PROOF} - runs == others


def test_evicting_and_deleting_pods_is_for_those_who_deploy_controllers_and_for_drains() -> None:
    rules = {role["metadata"]["name"]: role["rules"] for role in roles()}
    takes = {name for name, each in rules.items() for rule in each if "pods/eviction" in rule["resources"]}
    assert takes == {BESIDE["controllers"], ROLLOUT}
    deletes = [rule for rule in rules[PUSH] if "pods" in rule["resources"] and "delete" in rule["verbs"]]
    assert deletes == []


def test_making_webhooks_is_for_those_who_push_one() -> None:
    makes = {
        (role["metadata"]["name"], verb)
        for role in roles()
        for rule in role["rules"]
        for verb in rule["verbs"]
        if "admissionregistration.k8s.io" in rule["apiGroups"]
    }
    assert {name for name, verb in makes if verb not in {"get", "list"}} == {BESIDE["nv_ipam_webhook"]}


def test_who_compares_may_only_read() -> None:
    rules = {role["metadata"]["name"]: role["rules"] for role in roles()}
    assert {verb for rule in rules[DRIFT] for verb in rule["verbs"]} == {"get", "list"}
