# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guides for each kind of network: their inventories, pods and commands, as they are printed and in their order.

The nodes offer what the device plugin of the rendered configuration would: a pod starts where it asks for that.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Sequence

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, run_bounded, stored
from ansible_collections.rdma.fabric.tests.integration.way_out import way_to
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from tools.checkout import PROGRAMS
from tools.fleet import RECORDINGS

Json = dict[str, Any]
NAMESPACE = "nvidia-network-operator"
HOSTS = ("gpu-01", "gpu-02")


@dataclass(frozen=True)
class Guide:
    """A guide: the files that its YAML blocks are, the recorded host, steps that it shows and what is rendered.

    ``plugin`` is the ConfigMap of its device plugin, by a part of the name.
    """

    name: str
    recording: str
    steps: tuple[str, ...]
    networks: tuple[str, ...]
    plugin: str
    files: tuple[str, ...] = ("hosts.yml", "pod.yaml")

    @property
    def text(self) -> str:
        return guide(f"guide-{self.name}.md")

    def commands(self) -> list[list[str]]:
        """Return the commands of the page in their order."""
        blocks = re.findall(r"^```shell\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]


RENAMED = ("rename enp24s0np0 to rail0", "set the MTU to 9000 (now 1500)")
FUNCTIONS = ("rename enp24s0np0 to rail0", "create 8 VFs (now 0)")
GUIDES = {
    found.name: found
    for found in (
        Guide("roce-shared", "roce-h100-01", RENAMED, ("rail0",), "rdma-devices"),
        Guide(
            "sriov",
            "roce-h100-01",
            (*FUNCTIONS, "set mac of VFs 0 to 7"),
            ("rail0-vf",),
            "sriovdp-config",
        ),
        Guide("host-device", "roce-h100-01", FUNCTIONS, ("hostdev",), "sriovdp-config"),
        Guide("ipoib", "dgx-h100-01", ("rename ibp24s0 to rail0",), ("ib0",), "rdma-devices"),
        Guide(
            "multirail",
            "roce-h100-01",
            (*RENAMED, "rename enp64s0np0 to rail1"),
            ("rail0", "rail1"),
            "rdma-devices",
        ),
        Guide("air-gap", "roce-h100-01", RENAMED, ("rail0",), "rdma-devices", ("hosts.yml", "secret.yaml")),
    )
}


@pytest.fixture(scope="module")
def cluster(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the nodes of the guides' hosts."""
    with ControlPlane(tmp_path_factory.mktemp("network-guides"), programs=lab_programs) as running:
        apply_nodes(running.api, [kwok_node(name, NIC_LABEL) for name in HOSTS])
        running.create_namespace(NAMESPACE)
        yield running


class Reader:
    """Somebody who does what a guide prints."""

    def __init__(self, cluster: ControlPlane, page: Guide, folder: Path, alone: Sequence[str] = ()) -> None:
        """``alone`` are words before each command of Ansible."""
        self.cluster, self.page, self.user, self.alone = cluster, page, User(folder), alone
        blocks = blocks_of(page.text)
        assert len(blocks) == len(page.files)
        for name, block in zip(page.files, blocks):
            assert f"`{name}`" in page.text
            (self.user.here / name).write_text(block, encoding="utf-8")
        recording = str(RECORDINGS / f"{page.recording}.json.gz")
        self.recorded = json.dumps({"rdma_fabric_recording": recording, "ansible_become": False})

    def do(self, words: list[str]) -> str:
        """Run one command; a playbook reads the recorded host in the place of each of the guide's."""
        program, *arguments = words
        here = self.user.here
        if program == "kubectl":
            return self.cluster.kubectl(*(str(here / each) if each in self.page.files else each for each in arguments))
        argv = [str(PROGRAMS / program), *arguments]
        if program == "ansible-playbook":
            argv = [*self.alone, *argv, "-e", self.recorded]
        status, output = run_bounded(argv, here, self.user.environment(self.cluster, None))
        assert status == 0, output
        return output

    def offer(self) -> None:
        """Have the nodes offer what the rendered configuration of the device plugin names."""
        maps = json.loads(self.cluster.kubectl("get", "configmaps", "-n", NAMESPACE, "-o", "json"))["items"]
        configs = [each for each in maps if self.page.plugin in each["metadata"]["name"]]
        (text,) = [text for each in configs for text in each["data"].values()]
        config = json.loads(text)
        names = [f"{each.get('resourcePrefix', 'rdma')}/{each['resourceName']}" for each in self.listed(config)]
        amounts = dict.fromkeys(names, "8")
        patch = json.dumps({"status": {"allocatable": amounts, "capacity": amounts}})
        for node in HOSTS:
            self.cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)

    @staticmethod
    def listed(config: Json) -> list[Json]:
        found: list[Json] = config.get("configList") or config.get("resourceList") or []
        return found


@pytest.mark.parametrize("name", GUIDES)
def test_every_command_of_the_guide_does_what_it_says(cluster: ControlPlane, name: str, tmp_path: Path) -> None:
    page = GUIDES[name]
    with ExitStack() as stack:
        alone: list[str] = []
        if name == "air-gap":
            # Nothing but the API server can be reached: whoever asks the internet for anything fails.
            alone = stack.enter_context(way_to(cluster, tmp_path / "socket")).alone()
        follow(Reader(cluster, page, tmp_path / "user", alone), page)


def follow(reader: Reader, page: Guide) -> None:
    """Do what a guide prints, and see what it promises."""
    cluster = reader.cluster
    printed: list[tuple[str, str]] = []
    for words in page.commands():
        if words[:2] == ["kubectl", "get"]:
            reader.offer()
        printed.append((" ".join(words), reader.do(words)))
    planned = next(output for command, output in printed if "site" in command and "--check" in command)
    for step in page.steps:
        assert step in planned
        # The guide names what its reader will see, but for steps that are on the page of the same port.
        assert step in page.text or step in RENAMED
    attachments = [
        each["metadata"]["name"]
        for each in json.loads(cluster.kubectl("get", "net-attach-def", "-n", "default", "-o", "json"))["items"]
    ]
    assert sorted(attachments) == sorted(page.networks)
    shown = [output for command, output in printed if command.startswith("kubectl get")]
    assert shown
    if "pod.yaml" in page.files:
        assert [line.split() for line in shown[0].splitlines()[1:]] == [
            [node, *["8"] * len(resources_of(reader.user.here / "pod.yaml"))] for node in HOSTS
        ]
        assert any(command.startswith("kubectl wait") and "condition met" in output for command, output in printed)

    if page.name == "multirail":
        pools = json.loads(cluster.kubectl("get", "cidrpools", "-n", NAMESPACE, "-o", "json"))["items"]
        cut = {pool["metadata"]["name"]: pool["spec"]["cidr"] for pool in pools}
        assert cut == {"rail0": "192.168.0.0/20", "rail1": "192.168.16.0/20"}
        assert all(cidr in page.text for cidr in cut.values())
    if page.name == "air-gap":
        (listed,) = [output.split() for command, output in printed if command.startswith("python3")]
        assert_from_the_mirror(cluster, listed)


def assert_from_the_mirror(cluster: ControlPlane, listed: list[str]) -> None:
    """Nodes pull what the guide lists, from the mirror and with its Secret."""
    assert {image.partition("/")[0] for image in listed} == {"nvcr.io", "registry.k8s.io"}
    mirrored = {
        image.replace("nvcr.io", "registry.example:5000/nvcr").replace("registry.k8s.io", "registry.example:5000/k8s")
        for image in listed
    }
    pods = json.loads(cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    ours = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    assert {each["image"] for pod in ours for each in pod["spec"]["containers"]} == mirrored
    assert {secret["name"] for pod in ours for secret in pod["spec"]["imagePullSecrets"]} == {"site-registry"}
    assert stored(cluster, "secret", "site-registry", NAMESPACE)["type"] == "kubernetes.io/dockerconfigjson"


def resources_of(pod: Path) -> Json:
    (container,) = yaml.safe_load(pod.read_text(encoding="utf-8"))["spec"]["containers"]
    found: Json = container["resources"]["limits"]
    return found


@pytest.mark.parametrize("name", [name for name, page in GUIDES.items() if "pod.yaml" in page.files])
def test_a_pod_that_asks_for_another_resource_is_not_placed(cluster: ControlPlane, name: str, tmp_path: Path) -> None:
    reader = Reader(cluster, GUIDES[name], tmp_path)
    pod = reader.user.here / "pod.yaml"
    pod.write_text(re.sub(r"(rdma|nvidia\.com)/\w+:", r"\1/another:", pod.read_text(encoding="utf-8")))
    reader.do(["kubectl", "apply", "--filename", "pod.yaml"])
    (wait,) = [words for words in GUIDES[name].commands() if words[:2] == ["kubectl", "wait"]]
    try:
        with pytest.raises(subprocess.CalledProcessError):
            reader.do([*wait[:-2], "--timeout=2s", wait[-1]])
    finally:
        reader.do(["kubectl", "delete", "--filename", "pod.yaml"])
