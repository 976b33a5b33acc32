# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One input that is wrong in every way a user's input has been: files, Helm values, variables, host variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Planted:
    """One violation that the report must hold.

    ``source`` is the file's name, or the variable or host as the report calls it. ``near`` is a text of the file whose
    line the report must name, or one within ``around`` (lines before, lines after): objects begin above their name, and
    text blocks below their key.
    """

    source: str
    path: str
    problem: str
    hint: str
    near: str = ""
    around: tuple[int, int] = (0, 0)


def network(name: str, addresses: str) -> str:
    """Return a network with a range of addresses as one more document."""
    ipam = f'{{"type": "whereabouts", "range": "{addresses}"}}'
    return f"""\
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: {name}, namespace: default}}
spec:
  config: '{{"cniVersion": "0.3.1", "type": "macvlan", "master": "ens3f0", "ipam": {ipam}}}'
"""


POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata:
  name: nic-cluster-policy
spec:
  ofedDriver:
    image: doca-driver
    repository: nvcr.io/nvidia/mellanox
    versoin: 24.07-0.6.1.0-0
  rdmaSharedDevicePlugin:
    image: k8s-rdma-shared-dev-plugin
    repository: ghcr.io/mellanox
    version: v1.5.1
    useCdi: "yes"
    config: |
      {
        "configList": [
          {"resourceName": "a/b", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}},
          {"resourceName": "shared_a", "rdmaHcaMax": "x", "selectors": {"vendors": ["15b3"]}},
          {"resourceName": "shared_a", "rdmaHcaMax": 5, "selectors": {"vendors": ["15b3"]}}
        ]
      }
  nicConfigurationOperator:
    operator: {}
    configurationDaemon: {}
    logLevel: trace
"""
SECOND_POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata:
  name: nic-cluster-policy
spec:
  secondaryNetwork: {}
"""
BROKEN = """\
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: broken, namespace: default}
spec:
  config: |
    {
      "cniVersion": "0.3.1",
      "type": "macvlan",
      "master": "ens3f0"
      "mode": "bridge"
    }
"""
OBJECTS = f"""\
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwrok
metadata: {{name: a}}
---
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {{name: b, namespace: default}}
spec: {{resourceName: x, numVfs: 4, nodeSelector: {{}}, nicSelector: {{pfName: [ens1f0]}}}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {"long-" * 60}name
  namespace: Default_X
  labels:
    length: {"l" * 64}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: twin, namespace: default}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: twin, namespace: default, labels: {{second: one}}}}
---
- no object
"""
BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]"]
    + [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi")]
)
TEXTS = {
    "policy.yaml": POLICY,
    "second.yaml": SECOND_POLICY,
    "networks.yaml": BROKEN
    + network("cidr", "10.0.0.0/33")
    + network("one", "10.1.0.0/16")
    + network("two", "10.1.8.0/24"),
    "objects.yaml": OBJECTS,
    "bomb.yaml": BOMB,
    "deep.yaml": "a: " + "[" * 100_000,
    "self.yaml": "a: &a\n  b: *a\n",
    "code.yaml": "a: !!python/object/apply:os.system ['true']\n",
    "truncated.yaml": 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: "val',
    "keys.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: keys\n  name: again\n",
    "tabs.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: tabs\n",
    "empty.yaml": "# nothing\n",
    "control.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \0}\n",
}
VALUES = "nfd:\n  enabled: maybe\nsriovNetworkOperatr:\n  enabled: true\n"
ALL_VARIABLES: dict[str, Any] = {
    "rdma_fabric_macvlan_networks": {
        "rail": {"mastre": "rail0", "mtu": "big", "ipam": '{"type": "whereabouts", "range": "x"}'}
    },
    "rdma_fabric_network_attachments": {"tail": {"config": '{"cniVersion": "0.3.1", "type": "macvlan",}'}},
    "rdma_fabric_registry_mirrors": {"ghcr.io": 5},
    "rdma_fabric_image_overrides": {"mutlus": {"version": "v4.1.0"}},
    "rdma_fabric_namespace": "Bad_NS",
    "rdma_fabric_cni_bin_dir": "relative/path",
    "rdma_fabric_join_taint": "joining",
}
HOST_VARIABLES: dict[str, dict[str, Any]] = {
    "one": {
        "rdma_fabric_interfaces": [{"pci": "18:00.0", "naem": "rail0"}, {"current_name": "eth0", "mtu": "9000"}],
        "rdma_fabric_allow_vf_reset": "maybe",
    },
    "two": {"rdma_fabric_kernel_modules": ["rdma ucm"], "rdma_fabric_recording": 5},
}
GROUP_VARIABLES = {"rdma_fabric_kubeconfig": "/somewhere", "rdma_fabric_interface": []}

CONFIG = "spec.rdmaSharedDevicePlugin.config -> configList"
MACVLAN = "rdma_fabric_macvlan_networks"
PLANTED = (
    Planted(
        "policy.yaml",
        "spec.ofedDriver.versoin",
        "unknown field in NicClusterPolicy",
        "did you mean version?",
        "versoin",
    ),
    Planted("policy.yaml", "spec.rdmaSharedDevicePlugin.useCdi", 'the text "yes", not true or', "quotes", "useCdi"),
    Planted("policy.yaml", f"{CONFIG}[0].resourceName", "'a/b'", "letters, digits", "config: |", (0, 7)),
    Planted("policy.yaml", f"{CONFIG}[1].rdmaHcaMax", "whole number", "", "config: |", (0, 7)),
    Planted("policy.yaml", f"{CONFIG}[2].resourceName", "already the name of entry 1", "rename", "config: |", (0, 7)),
    Planted("policy.yaml", "spec.nicConfigurationOperator.logLevel", '"trace", not info or debug', "", "logLevel"),
    Planted("second.yaml", "spec", "second NicClusterPolicy", "policy.yaml:1", "spec:"),
    Planted("networks.yaml", "spec.config", "is not valid JSON", '"mode"', '"mode"'),
    Planted("networks.yaml", "spec.config -> ipam.range", "'10.0.0.0/33' is not a network", "", "10.0.0.0/33"),
    Planted("networks.yaml", "spec.config -> ipam", "10.1.8.0/24 overlaps", "default/one", "10.1.8.0/24"),
    Planted("objects.yaml", "kind", '"MacvlanNetwrok"', "did you mean MacvlanNetwork?", "MacvlanNetwrok"),
    Planted("objects.yaml", "spec.nicSelector.pfName", "unknown field in Sriov", "did you mean pfNames?", "pfName"),
    Planted("objects.yaml", "metadata.name", "304 characters long", "253", "name: long-"),
    Planted("objects.yaml", "metadata.namespace", "not a valid Kubernetes name", "lower case", "Default_X"),
    Planted("objects.yaml", "metadata.labels.length", "64 characters long", "63", "length:"),
    Planted("objects.yaml", "", "ConfigMap twin is given twice", "has it already", "second: one", (2, 0)),
    Planted("objects.yaml", "", "is a list, not a Kubernetes object", "apiVersion", "- no object"),
    Planted("bomb.yaml", "", "more than 100000 values", "aliases"),
    Planted("deep.yaml", "", "deeper than 64 levels", "flatten"),
    Planted("self.yaml", "a.b", "contains itself", "write the value out"),
    Planted("code.yaml", "a", "python/object/apply:os.system", "drop the tag", "a:"),
    Planted("truncated.yaml", "", "is not valid YAML", "", 'key: "val'),
    Planted("keys.yaml", "metadata.name", "given twice", "line 4", "again"),
    Planted("tabs.yaml", "", "is not valid YAML", "no tabs", "\tname"),
    Planted("empty.yaml", "", "holds no document", "at least one"),
    Planted("big.yaml", "", f"is {10 * MEBIBYTE} bytes long", "etcd"),
    Planted("binary.yaml", "", "is a binary file", "UTF-8"),
    Planted("control.yaml", "", "is a binary file", "x00", "name:"),
    Planted("latin.yaml", "", "is not UTF-8 text", "UTF-8"),
    Planted("missing.yaml", "", "No such file", "check the path"),
    Planted("folder.yaml", "", "not a regular file", "not their folder"),
    Planted("pipe.yaml", "", "not a regular file", ""),
    Planted("loop.yaml", "", "cannot be read", "check the path"),
    Planted("values.yaml", "nfd.enabled", 'the text "maybe", not true or false', "", "maybe"),
    Planted(
        "values.yaml",
        "sriovNetworkOperatr",
        "unknown field in",
        "did you mean sriovNetworkOperator?",
        "sriovNetworkOperatr",
    ),
    Planted(MACVLAN, "rail.mastre", "unknown field in MacvlanNetwork", "did you mean master?"),
    Planted(MACVLAN, "rail.mtu", 'the text "big", not a whole number', "bytes"),
    Planted(MACVLAN, "rail.ipam -> range", "'x' is not a network", "192.168.200.0/24"),
    Planted("rdma_fabric_network_attachments", "tail.config", "is not valid JSON", "take out the comma"),
    Planted("rdma_fabric_registry_mirrors", '["ghcr.io"]', "the number 5, not text", 'quote it: "5"'),
    Planted("rdma_fabric_image_overrides", "mutlus", "unknown field in", "did you mean multus?"),
    Planted("rdma_fabric_namespace", "", "not a valid Kubernetes name", "lower case"),
    Planted("rdma_fabric_cni_bin_dir", "", "not an absolute path", "start with /"),
    Planted("rdma_fabric_join_taint", "", "is not a valid taint", "key=value:NoSchedule"),
    Planted("host one: rdma_fabric_interfaces", "[0].pci", "lacks the PCI domain: write 0000:18:00.0", ""),
    Planted("host one: rdma_fabric_interfaces", "[0].naem", "unknown field", "did you mean name?"),
    Planted("host one: rdma_fabric_interfaces", "[1].mtu", 'is the text "9000", not a whole number', ""),
    Planted("host one: rdma_fabric_allow_vf_reset", "", "not true or false", "leave it out"),
    Planted("host two: rdma_fabric_kernel_modules", "[0]", "is not a valid kernel module name", ""),
    Planted("host two: rdma_fabric_recording", "", "is the number 5", "quote it"),
    Planted(
        "variables", "rdma_fabric_kubeconfig", "is set for one, two and is not set for localhost", "group_vars/all"
    ),
    Planted("variables", "rdma_fabric_interface", "not a variable of this collection", "mean rdma_fabric_interfaces"),
)


def plant(folder: Path) -> dict[str, Any]:
    """Write all of it below ``folder``; return the variables that name the files. The inventory is ``inventory``."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (folder / "big.yaml").open("wb") as big:
        big.truncate(10 * MEBIBYTE)
    (folder / "binary.yaml").write_bytes(bytes(range(256)) * 8)
    (folder / "latin.yaml").write_bytes("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: größe}\n".encode("latin-1"))
    (folder / "folder.yaml").mkdir()
    os.mkfifo(folder / "pipe.yaml")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "values.yaml").write_text(VALUES, encoding="utf-8")
    hosts = {"rdma_fabric": {"hosts": dict.fromkeys(HOST_VARIABLES), "vars": GROUP_VARIABLES}}
    inventory = folder / "inventory"
    for name, content in {
        "hosts": hosts,
        "group_vars/all": ALL_VARIABLES,
        **{f"host_vars/{host}": variables for host, variables in HOST_VARIABLES.items()},
    }.items():
        path = inventory / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    files = list(dict.fromkeys(each.source for each in PLANTED if each.source.endswith(".yaml")))
    return {
        "rdma_fabric_manifests": [str(folder / name) for name in files if name != "values.yaml"],
        "rdma_fabric_helm_values_files": [str(folder / "values.yaml")],
    }
