# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multus: the flags its entrypoint needs to follow its token, and what a configuration of the user's own changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.multus import multus
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.rollout import Rollout
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import MULTUS_CONFIG

OWN = '{"cniVersion": "0.3.1", "name": "it\'s", "type": "multus"}'


def objects(**section: Any) -> dict[str, dict[str, Any]]:
    found = multus(Rollout("ns", {}, {}), section)
    return {each["kind"]: each for each in found}


def pod(**section: Any) -> Any:
    return objects(**section)["DaemonSet"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", ["", "v4.0.2", "v4.2.3", "network-operator-v26.4.1", "sha256:" + "a" * 64])
def test_the_entrypoint_watches_its_token(version: str) -> None:
    (main,) = pod(version=version)["containers"]
    assert main["command"] == ["/thin_entrypoint"]
    assert "--multus-conf-file=auto" in main["args"]
    assert "--cleanup-config-on-exit=true" in main["args"]
    assert not [argument for argument in main["args"] if "skip-config-watch" in argument]
    # 4.0 ends at a flag it does not know.
    assert not [argument for argument in main["args"] if argument.startswith("--multus-cni-conf-dir")]


def test_the_program_is_installed_before_the_entrypoint_starts() -> None:
    (installer,) = pod()["initContainers"]
    assert installer["command"] + installer["args"] == ["/install_multus", "--type", "thin"]
    assert {"name": "cnibin", "mountPath": "/host/opt/cni/bin", "mountPropagation": "Bidirectional"} in installer[
        "volumeMounts"
    ]


def test_a_configuration_of_one_s_own_is_mounted_and_a_second_container_renews_the_kubeconfig() -> None:
    found = objects(config=OWN)
    assert found["ConfigMap"]["data"] == {"cni-conf.json": OWN}
    main, refresher = pod(config=OWN)["containers"]
    assert "--multus-conf-file=/multus-conf/00-multus.conf" in main["args"]
    assert {"--multus-conf-file=auto", "--cleanup-config-on-exit=true", "--skip-multus-binary-copy=true"} <= set(
        refresher["args"]
    )
    assert "--cni-conf-dir=/refresh" in refresher["args"]
    mounts = {entry["mountPath"]: entry for entry in refresher["volumeMounts"]}
    assert mounts["/host/etc/cni/net.d"]["readOnly"] is True
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod(config=OWN)["volumes"]}
    assert paths[mounts["/refresh/multus.d"]["name"]] == "/etc/cni/net.d/multus.d"
    assert paths[mounts["/refresh"]["name"]] is None


def test_without_a_configuration_there_is_neither_a_map_nor_a_second_container() -> None:
    assert "ConfigMap" not in objects()
    assert objects()["DaemonSet"]["spec"]["template"]["metadata"].get("annotations") is None
    assert objects(config=OWN)["DaemonSet"]["spec"]["template"]["metadata"]["annotations"]


@pytest.mark.parametrize("config", ["", OWN])
def test_releases_before_the_thin_entrypoint_start_their_script(config: str) -> None:
    found = pod(version="v3.9.3", config=config)
    (main,) = found["containers"]
    assert main["command"] == ["/entrypoint.sh"]
    assert "initContainers" not in found


def test_resources_can_be_replaced() -> None:
    assert pod()["containers"][0]["resources"]["limits"] == {"cpu": "100m", "memory": "50Mi"}
    override = [{"name": "kube-multus", "limits": {"memory": "200Mi"}}]
    assert pod(containerResources=override)["containers"][0]["resources"] == {"limits": {"memory": "200Mi"}}


def test_rights_are_what_a_thin_plugin_uses() -> None:
    rules = {
        (group, resource): set(rule["verbs"])
        for rule in objects()["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert rules[("k8s.cni.cncf.io", "network-attachment-definitions")] == {"get"}
    assert rules[("", "pods")] == {"get"}
    assert rules[("", "pods/status")] == {"get", "patch", "update"}
    assert not {"delete", "deletecollection", "escalate", "bind", "impersonate"} & set().union(*rules.values())


class TestOwnConfiguration:
    """The entrypoint copies a configuration to every node unread, so that it is judged before."""

    PLACE = "spec.secondaryNetwork.multus.config"

    def given(self, text: str, **settings: Any) -> Fabric:
        return of_policy({"secondaryNetwork": {"multus": {"config": text}}}, settings=settings)

    @pytest.mark.parametrize(
        ("text", "path", "words"),
        [
            ('{"cniVersion": }', "", "is not valid JSON"),
            ("[]", "", "is not a JSON object"),
            (json.dumps({**MULTUS_CONFIG, "type": "macvlan"}), " -> type", "network of another program"),
            (json.dumps({"cniVersion": "0.3.1", "name": "m", "plugins": [MULTUS_CONFIG]}), " -> type", "is None"),
            (json.dumps({**MULTUS_CONFIG, "name": ""}), " -> name", "the container runtime refuses it"),
            (json.dumps({**MULTUS_CONFIG, "clusterNetwork": ""}), " -> clusterNetwork", "refuses every pod"),
        ],
    )
    def test_one_that_takes_the_network_from_nodes_is_refused(self, text: str, path: str, words: str) -> None:
        found = [each for each in self.given(text).violations if each.path == f"{self.PLACE}{path}"]
        assert len(found) == 1 and words in found[0].problem

    @pytest.mark.parametrize(
        "config",
        [
            MULTUS_CONFIG,
            {**MULTUS_CONFIG, "clusterNetwork": "", "delegates": [{"type": "flannel"}, {"plugins": [{"type": "a"}]}]},
            {**MULTUS_CONFIG, "namespaceIsolation": True, "globalNamespaces": "a,b", "logOptions": {"maxAge": 5}},
            {**MULTUS_CONFIG, "logToStderr": None, "systemNamespaces": ["a"], "delegates": [{}], "of-others": 7},
        ],
    )
    def test_a_right_one_is_taken_as_it_is(self, config: dict[str, Any]) -> None:
        fabric = self.given(json.dumps(config)).accepted()
        assert [each for each in fabric.notices if each.path.startswith(self.PLACE)] == []

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"namespaceIsolation": "true"}, "namespaceIsolation"),
            ({"logtostderr": 1}, "logToStderr"),
            ({"globalNamespaces": ["a"]}, "globalNamespaces"),
            ({"defaultNetworks": "a"}, "defaultNetworks"),
            ({"systemNamespaces": ["a", 7]}, "systemNamespaces[1]"),
            ({"logOptions": []}, "logOptions"),
            ({"capabilities": {"portMappings": "yes"}}, "capabilities.portMappings"),
            ({"clusterNetwork": "", "delegates": {"type": "a"}}, "delegates"),
            ({"clusterNetwork": "", "delegates": [{"type": "a"}, {"name": "b"}]}, "delegates[1]"),
        ],
    )
    def test_a_field_that_multus_can_t_read_is_refused_as_it_would_refuse_every_pod(
        self, fields: dict[str, Any], path: str
    ) -> None:
        found = self.given(json.dumps({**MULTUS_CONFIG, **fields})).wrong(f"{self.PLACE} -> {path}")
        assert "Multus refuses every pod of a node" in found.problem

    @pytest.mark.parametrize(
        ("kubeconfig", "folder", "words"),
        [
            ("", "/etc/cni/net.d", "ignores the networks that pods ask for"),
            ("/root/.kube/config", "/etc/cni/net.d", "with a fresh token is written to /etc/cni/net.d/multus.d/"),
            (MULTUS_CONFIG["kubeconfig"], "/k3s/net.d", "is written to /k3s/net.d/multus.d/multus.kubeconfig"),
        ],
    )
    def test_another_kubeconfig_than_the_one_that_is_renewed_is_told(
        self, kubeconfig: str, folder: str, words: str
    ) -> None:
        fabric = self.given(json.dumps({**MULTUS_CONFIG, "kubeconfig": kubeconfig}), cni_conf_dir=folder).accepted()
        assert words in fabric.said(" -> kubeconfig: ").problem


@pytest.mark.parametrize("version", ["v4.2.3-thick", "snapshot-thick", "stable-thick"])
def test_the_image_of_the_daemon_is_refused(version: str) -> None:
    fabric = of_policy({"secondaryNetwork": {"multus": {"version": version}}})
    assert "lacks the programs of a thin plugin" in fabric.wrong("spec.secondaryNetwork.multus.version").problem
