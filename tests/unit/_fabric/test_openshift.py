# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenShift: what the operator makes there, what the platform brings itself, and objects of its own kinds.

What the operator made is recorded in ``tests/fixtures/operator/openshift.json``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS

Object = dict[str, Any]
RECORDED = FIXTURES / "operator"
OPENSHIFT = {"openshift": True}
# DaemonSets that OpenShift brings itself: the operator makes them, without the right to a single pod.
BROUGHT = {("DaemonSet", "cni-plugins-ds"), ("DaemonSet", "kube-multus-ds")}
MULTUS = {("ServiceAccount", "multus"), ("ClusterRole", "multus"), ("ClusterRoleBinding", "multus")}
SECONDARY = {"multus": {}, "cniPlugins": {}, "ipoib": {}, "ipamPlugin": {"version": "v0.9.4"}}
MACHINES = "machineconfiguration.openshift.io/v1"


def recorded() -> dict[tuple[str, str], Object]:
    bodies: list[Object] = json.loads((RECORDED / "openshift.json").read_text(encoding="utf-8"))
    return {(each["kind"], each["metadata"]["name"]): each for each in bodies}


def operators_policy() -> Document:
    for body in yaml.safe_load_all((RECORDED / "policy.yaml").read_text(encoding="utf-8")):
        if body["kind"] == "NicClusterPolicy":
            spec = {name: section for name, section in body["spec"].items() if name != "ofedDriver"}
            return resource(body["kind"], body["metadata"]["name"], {**spec, "nvIpam": {"enableWebhook": True}})
    raise AssertionError("no policy")


def rendered(*documents: Document, **settings: Any) -> dict[tuple[str, str], Object]:
    spec = Fabric(list(documents), [], settings={"nfd": False, **settings}).accepted().spec
    return {(each["kind"], each["metadata"]["name"]): each for each in objects_of(render(spec))}


def policy(**spec: Any) -> Document:
    return resource("NicClusterPolicy", "nic-cluster-policy", spec)


def given(api_version: str, kind: str) -> Document:
    content = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}
    return Document("o.yaml", content)


def test_the_objects_are_those_that_the_operator_makes_there() -> None:
    ours, theirs = rendered(operators_policy(), **OPENSHIFT), recorded()
    assert len(theirs) == 31
    assert set(theirs) - set(ours) == BROUGHT


def test_no_other_object_is_there_than_elsewhere() -> None:
    there, elsewhere = rendered(operators_policy(), **OPENSHIFT), rendered(operators_policy())
    certificates = {("Issuer", "nv-ipam-selfsigned-issuer"), ("Certificate", "nv-ipam-serving-cert")}
    definition = {("CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io")}
    assert set(elsewhere) - set(there) == {*BROUGHT, *MULTUS, *certificates, *definition}
    assert set(there) - set(elsewhere) <= set(recorded())


# The nodes of one spec are not those of OpenShift.
@pytest.mark.parametrize("name", sorted({*SPECS} - {"driver_container"}))
def test_every_privileged_pod_acts_as_an_account_that_may_be_so(name: str) -> None:
    spec = SPECS[name]()
    spec["settings"] = {**spec["settings"], **OPENSHIFT}
    objects = objects_of(render(spec))
    allowed = {
        each["metadata"]["name"]
        for each in objects
        if each["kind"] == "Role" and any("privileged" in rule.get("resourceNames", []) for rule in each["rules"])
    }
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    bound = {each["roleRef"]["name"]: each["subjects"] for each in objects if each["kind"] == "RoleBinding"}
    restricted = {"nv-ipam-controller", "nfd-master", "nfd-gc"}
    acting = set()
    for each in objects:
        if each["kind"] in ("DaemonSet", "Deployment"):
            account = each["spec"]["template"]["spec"]["serviceAccountName"]
            assert (account in allowed) != (account in restricted), account
            acting.add(account)
    assert acting - restricted == allowed <= accounts
    for account in allowed:
        assert [(each["kind"], each["name"]) for each in bound[account]] == [("ServiceAccount", account)]


def test_a_program_keeps_the_rights_that_it_has_elsewhere() -> None:
    there, elsewhere = (rendered(operators_policy(), **{**parts, "nfd": True}) for parts in (OPENSHIFT, {}))
    worker = ("Role", "nfd-worker")
    assert there[worker]["rules"][:-1] == elsewhere[worker]["rules"]
    assert there[worker]["rules"][-1]["resources"] == ["securitycontextconstraints"]


def test_what_the_platform_brings_is_named_and_programs_of_it_are_not_missed() -> None:
    addresses = json.dumps({"type": "whereabouts", "range": "10.0.0.0/24"})
    net = resource("MacvlanNetwork", "net", {"master": "rail0", "ipam": addresses})
    fabric = Fabric([policy(secondaryNetwork=SECONDARY), net], [], settings=OPENSHIFT).accepted()
    idle = [each.path for each in fabric.notices if "OpenShift brings it" in each.hint]
    assert idle == [f"spec.secondaryNetwork.{name}" for name in ("multus", "cniPlugins", "ipamPlugin")]
    bare = Fabric([policy(secondaryNetwork={"ipoib": {}}), net], [], settings=OPENSHIFT).accepted()
    assert [each for each in bare.notices if "does not deploy" in each.problem] == []


def test_programs_go_where_its_nodes_have_them_unless_given() -> None:
    def folder(**settings: Any) -> str:
        found = rendered(policy(secondaryNetwork={"ipoib": {}}), **settings)
        volumes = found["DaemonSet", "kube-ipoib-cni-ds"]["spec"]["template"]["spec"]["volumes"]
        return next(str(each["hostPath"]["path"]) for each in volumes if each["name"] == "cnibin")

    assert folder() == "/opt/cni/bin"
    assert folder(openshift=False) == "/opt/cni/bin"
    assert folder(**OPENSHIFT) == "/var/lib/cni/bin"
    assert folder(cni_bin_dir="/opt/own", **OPENSHIFT) == "/opt/own"


def test_the_webhook_needs_no_cert_manager_there() -> None:
    pools = policy(nvIpam={"enableWebhook": True})
    assert Fabric([pools], []).accepted().said("needs cert-manager")
    found = Fabric([pools], [], settings=OPENSHIFT).accepted()
    assert [each for each in found.notices if "cert-manager" in each.problem] == []


def test_objects_of_its_kinds_are_applied_there() -> None:
    found = rendered(given("security.openshift.io/v1", "SecurityContextConstraints"), **OPENSHIFT)
    assert ("SecurityContextConstraints", "x") in found


def test_what_reboots_nodes_outside_of_a_run_is_named() -> None:
    fabric = Fabric([given(MACHINES, "MachineConfig")], [], settings=OPENSHIFT).accepted()
    assert "reboot nodes on its own" in fabric.said("machine config operator").problem
