# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No secret of the user is in what runs print at ``-vvvv`` with ``--diff``, nor in a file that they leave anywhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import quote

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, Outcome, User
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.fleet import RECORDINGS

# Where each is given, or lies in the cluster before the run.
PLACES = (
    "password of the drivers' proxy",
    "password of a proxy, from a vault",
    "environment of the drivers' container",
    "environment of the drivers' container before",
    "environment in values of the chart",
    "Secret, as text",
    "Secret, as text, before",
    "Secret, in Base64",
    "login of a registry in a pull secret",
    "token in a ConfigMap",
    "token of another user in the kubeconfig",
    "password to become root",
    "password of the connection",
    "password of a proxy that is no mapping",
    "credentials in the URL of a repository",
    "environment that is refused",
    "value of a Secret that is refused",
    "value of the chart that is refused",
)
CANARIES = {place: f"Canary{number:02d}q7Zk" for number, place in enumerate(PLACES)}
GROUP = {"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-41-generic", "arch": "amd64"}
HOST = "cpu-01"
LOUD = ("-vvvv", "--diff")


class Watched(User):
    """A user all of whose temporary files, and whose log, lie in their own folder. ``given`` is what they wrote."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder, self.given = folder, folder.with_name(f"{folder.name}-given")
        for each in (self.given, folder / "tmp"):
            each.mkdir()

    def environment(self, cluster: ControlPlane | None, kubeconfig: Path | None) -> dict[str, str]:
        """Return that of a user, with a log and a place for temporary files."""
        # Ansible's own screen output begins with all that the command was given.
        own = {
            "TMPDIR": str(self.folder / "tmp"),
            "ANSIBLE_LOG_PATH": str(self.folder / "ansible.log"),
            "ANSIBLE_STDOUT_CALLBACK": "rdma.fabric.fleet" if cluster else "default",
        }
        return {**super().environment(cluster, kubeconfig), **own}

    def give(self, name: str, text: str) -> str:
        """Write a file of the user; return its path."""
        path = self.given / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def told(self, outcome: Outcome) -> Iterator[str]:
        """Yield the secrets that a run has printed, or that lie in a file after it."""
        sources = {"what is printed": outcome.output.encode()}
        sources.update((str(path), path.read_bytes()) for path in self.folder.rglob("*") if path.is_file())
        for where, data in sources.items():
            yield from (f"{place}: in {where}" for place, text in CANARIES.items() if holds(data, text))


def holds(data: bytes, text: str) -> bool:
    """Tell whether data has a text as it is, or in Base64 whatever stands before it."""
    coded = (base64.b64encode(b"\0" * before + text.encode())[4 if before else 0 : -4] for before in range(3))
    return any(form in data for form in (text.encode(), *coded))


def proxy(canary: str) -> str:
    return f"http://somebody:{quote('p@ss/' + canary, safe='')}@proxy.example:3128"


def policy(canary: str) -> Json:
    return {"ofedDriver": {"env": [{"name": "SITE_MIRROR", "value": canary}, {"name": "DEBUG", "value": "true"}]}}


def variables_of(canary_of_environment: str, manifests: list[str]) -> Json:
    return {
        "rdma_fabric_nic_cluster_policy": policy(canary_of_environment),
        "rdma_fabric_driver_source": "container",
        "rdma_fabric_driver_nodes": [GROUP],
        "rdma_fabric_manifests": manifests,
    }


def inventory(user: Watched, variables: Json, host: Json, vaulted: str = "") -> str:
    """Return the path of an inventory with one recorded host; ``vaulted`` is encrypted with the user's password."""
    everything = {"hosts": {HOST: host}, "vars": variables}
    text = yaml.safe_dump({"all": {"children": {"rdma_fabric": everything}}})
    text += yaml.safe_dump({"ungrouped": {"hosts": {"localhost": {**variables, "ansible_connection": "local"}}}})
    if vaulted:
        cipher = VaultLib([("default", VaultSecret(b"right"))]).encrypt(vaulted).decode()
        lines = "".join(f"          {line}\n" for line in cipher.splitlines())
        text = text.replace("vaulted: ''", f"vaulted: !vault |\n{lines.rstrip()}")
    return user.give("hosts.yml", text)


def secret(namespace: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, **fields}


def kubeconfig(user: Watched, cluster: ControlPlane) -> Path:
    """Return the path of a kubeconfig that holds a token beside what is used."""
    content = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    token = CANARIES["token of another user in the kubeconfig"]
    content["users"].append({"name": "other", "user": {"token": token}})
    return Path(user.give("kubeconfig", yaml.safe_dump(content)))


@pytest.fixture
def user(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "user")


def test_a_push_with_differences_tells_none(control_plane: ControlPlane, namespace: str, user: Watched) -> None:
    def objects(text: str) -> list[str]:
        login = {"username": "nodes", "password": CANARIES["login of a registry in a pull secret"]}
        docker = {".dockerconfigjson": json.dumps({"auths": {"registry.example": login}})}
        encoded = base64.b64encode(CANARIES["Secret, in Base64"].encode()).decode()
        user_of_ci = f"users:\n- name: ci\n  user:\n    token: {CANARIES['token in a ConfigMap']}\n"
        found = [
            secret(namespace, "plain", stringData={"UFM_PASSWORD": text, "other": "unchanged"}),
            secret(namespace, "encoded", data={"harmless": encoded}),
            secret(namespace, "registry", type="kubernetes.io/dockerconfigjson", stringData=docker),
            {**secret(namespace, "ci"), "kind": "ConfigMap", "data": {"kubeconfig": user_of_ci}},
        ]
        return [user.give("objects.yaml", yaml.safe_dump_all(found))]

    before = CANARIES["environment of the drivers' container before"]
    driven = variables_of(before, objects(CANARIES["Secret, as text, before"]))
    push(control_plane, namespace, driven, wait=False)
    variables: Json = {
        **variables_of(CANARIES["environment of the drivers' container"], objects(CANARIES["Secret, as text"])),
        "vaulted": "",
        "rdma_fabric_proxy": {
            "httpProxy": proxy(CANARIES["password of the drivers' proxy"]),
            "httpsProxy": "http://somebody:{{ vaulted }}@proxy.example:3128",
        },
        "rdma_fabric_helm_values": {
            "node-feature-discovery": {
                "worker": {"extraEnvs": [{"name": "A", "value": CANARIES["environment in values of the chart"]}]}
            }
        },
        "rdma_fabric_namespace": namespace,
        "rdma_fabric_wait": False,
    }
    host = {
        "rdma_fabric_recording": f"{RECORDINGS}/{HOST}.json.gz",
        "ansible_become_password": CANARIES["password to become root"],
        "ansible_password": CANARIES["password of the connection"],
    }
    hosts = inventory(user, variables, host, vaulted=CANARIES["password of a proxy, from a vault"])
    # What is given there is not repeated in the command of the next step.
    given = json.dumps({name: variables[name] for name in ("rdma_fabric_nic_cluster_policy", "rdma_fabric_proxy")})
    password = user.give("password", "right")
    outcome = user.run(
        "site",
        *(*LOUD, "--vault-password-file", password, "-e", given),
        inventory=hosts,
        cluster=control_plane,
        kubeconfig=kubeconfig(user, control_plane),
    ).succeeded()
    none_of(user.told(outcome))
    assert '"UFM_PASSWORD": "(hidden, changed)"' in outcome.output
    assert '"value": "(hidden, changed)"' in outcome.output


def test_a_preflight_that_refuses_what_holds_them_tells_none(user: Watched) -> None:
    wrong = secret("default", "wrong", data={"password": CANARIES["value of a Secret that is refused"] + "!"})
    environment = {"name": "A B", "value": CANARIES["environment that is refused"], "valueFrom": {}}
    url = f"https://somebody:{CANARIES['credentials in the URL of a repository']}@mirror.example/doca"
    variables: Json = {
        "rdma_fabric_nic_cluster_policy": {"ofedDriver": {"env": [environment]}},
        "rdma_fabric_manifests": [user.give("wrong.yaml", yaml.safe_dump(wrong))],
        "rdma_fabric_proxy": proxy(CANARIES["password of a proxy that is no mapping"]),
        "rdma_fabric_helm_set": [f"nfd.token={CANARIES['value of the chart that is refused']}"],
    }
    driver = {"flavour": "doca-ofed", "source": "repository", "repository": {"url": url}}
    hosts = inventory(user, variables, {"rdma_fabric_driver": driver})
    outcome = user.run("preflight", *LOUD, inventory=hosts)
    assert "in the input; nothing was changed" in outcome.output
    none_of(user.told(outcome))
