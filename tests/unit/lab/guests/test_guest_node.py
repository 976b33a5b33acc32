# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import ipaddress
import json
import re
from pathlib import Path

import pytest
import tomllib
import yaml
from cryptography import x509

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import NIC_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components import nfd
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.rollout import Rollout
from ansible_collections.rdma.fabric.tests.lab import pki
from ansible_collections.rdma.fabric.tests.lab.guests.layout import plan_guests, pod_subnet
from ansible_collections.rdma.fabric.tests.lab.guests.node_disk import disk_key
from ansible_collections.rdma.fabric.tests.lab.guests.node_identity import (
    node_files,
    pod_routes,
    primary_network,
    service_rules,
    write_access,
    write_control_plane,
)
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image, Machine, guest_argv
from ansible_collections.rdma.fabric.tests.lab.guests.recipe import FILES
from ansible_collections.rdma.fabric.tests.lab.programs import Programs

GUESTS = plan_guests(3, 1)
IMAGE = Image(Path("/cache/image-1"), Path("/cache/qemu-1"))


@pytest.fixture(scope="module")
def authority() -> pki.Authority:
    return pki.Authority()


def test_a_node_is_known_by_its_own_certificate_and_holds_nobody_elses(authority: pki.Authority) -> None:
    files = node_files(GUESTS[1], GUESTS, authority)
    access = json.loads(files["etc/kubernetes/kubeconfig"])
    assert access["clusters"][0]["cluster"]["server"] == "https://192.168.77.254:6443"
    pem = base64.b64decode(access["users"][0]["user"]["client-certificate-data"])
    subject = x509.load_pem_x509_certificate(pem).subject.rfc4514_string()
    assert "CN=system:node:rdma-2" in subject
    assert "O=system:nodes" in subject
    assert files["etc/kubernetes/ca.crt"].encode() == authority.pair.certificate
    assert authority.pair.key.decode() not in "".join(files.values())


def test_what_the_kubelet_is_told_is_on_the_disk(authority: pki.Authority) -> None:
    files = node_files(GUESTS[0], GUESTS, authority)
    assert files["etc/rdma-lab/node"] == "NODE_NAME=rdma-1\nNODE_ADDRESS=192.168.77.1\n"
    unit = files["etc/systemd/system/kubelet.service"]
    assert "--hostname-override=${NODE_NAME} --node-ip=${NODE_ADDRESS}" in unit
    for option in ("config", "kubeconfig"):
        (path,) = re.findall(rf"--{option}=/(\S+)", unit)
        assert path in files
    settings = yaml.safe_load(files["etc/kubernetes/kubelet.yaml"])
    assert settings["authentication"]["x509"]["clientCAFile"].lstrip("/") in files
    assert settings["cgroupDriver"] == "systemd"
    assert "SystemdCgroup = true" in files["etc/containerd/config.toml"]


def test_every_image_is_pulled_from_the_labs_registry(authority: pki.Authority) -> None:
    files = node_files(GUESTS[0], GUESTS, authority)
    runtime = tomllib.loads(files["etc/containerd/config.toml"])["plugins"]["io.containerd.grpc.v1.cri"]
    path = f"{runtime['registry']['config_path']}/_default/hosts.toml".lstrip("/")
    hosts = tomllib.loads(files[path])
    place = "http://192.168.77.254:5000"
    assert hosts == {"server": place, "host": {place: {"capabilities": ["pull", "resolve"]}}}


def test_nfd_is_told_of_the_card_by_a_file_where_it_looks_for_features(authority: pki.Authority) -> None:
    rendered = nfd.node_feature_discovery(Rollout("any", {}, {}))
    (worker,) = (each for each in rendered if each["kind"] == "DaemonSet")
    volumes = worker["spec"]["template"]["spec"]["volumes"]
    (folder,) = (each["hostPath"]["path"] for each in volumes if each["name"] == "features-d")
    files = node_files(GUESTS[0], GUESTS, authority)
    (given,) = (text for path, text in files.items() if f"/{path}".startswith(folder))
    labels = [line for line in given.splitlines() if not line.startswith("#")]
    assert [f"feature.node.kubernetes.io/{label}" for label in labels] == [f"{NIC_LABEL}=true"]


def test_everything_the_boot_script_takes_from_the_disk_is_there(authority: pki.Authority) -> None:
    script = (FILES / "guest.sh").read_text(encoding="utf-8")
    files = node_files(GUESTS[0], GUESTS, authority)
    named = set(re.findall(r"/run/rdma-lab/([\w.-]+) ", script))
    assert named == {"rdma_overlay.py", "rxe-netns"}
    assert named <= set(files)
    assert files["rxe-netns"].startswith("#!/usr/bin/python3 ")  # the container runtime starts it by itself
    for path in re.findall(r"/(etc/rdma-lab/[\w.]+)", script):
        assert path in files or path == "etc/rdma-lab/rails"


def test_the_pods_of_every_guest_have_a_subnet_of_their_own_that_the_others_reach() -> None:
    subnets = [ipaddress.ip_network(pod_subnet(guest)) for guest in GUESTS]
    assert not any(one.overlaps(other) for one in subnets for other in subnets if one is not other)
    routes = pod_routes(GUESTS[0], GUESTS)
    assert pod_subnet(GUESTS[0]) not in routes
    for other in GUESTS[1:]:
        assert f"Destination={pod_subnet(other)}\nGateway={other.address}\n" in routes
    network = json.loads(json.dumps(primary_network(GUESTS[2])))
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.44.3.0/24"}]]


def test_in_cluster_clients_of_pods_and_host_are_led_to_the_api_server() -> None:
    rules = service_rules()
    assert rules.count("ip daddr 10.96.0.1 tcp dport 443 dnat to 192.168.77.254:6443") == 2
    assert "hook prerouting" in rules
    assert "hook output" in rules


def test_the_control_plane_takes_over_the_authority_and_the_way_in_is_the_forwarders(
    authority: pki.Authority, tmp_path: Path
) -> None:
    programs = Programs(*(Path("/bin") / name for name in Programs._fields))
    write_control_plane(tmp_path / "cluster", authority, programs)
    assert (tmp_path / "cluster").stat().st_mode & 0o077 == 0
    assert (tmp_path / "cluster" / "authority.key").read_bytes() == authority.pair.key
    written = json.loads((tmp_path / "cluster" / "programs.json").read_text(encoding="utf-8"))
    assert written["kube_apiserver"] == "/bin/kube_apiserver"
    write_access(tmp_path / "kubeconfig", authority, 4711)
    access = json.loads((tmp_path / "kubeconfig").read_text(encoding="utf-8"))
    assert access["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:4711"
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0


def test_the_nodes_disk_is_read_by_all_and_written_by_none() -> None:
    argv = guest_argv(IMAGE, GUESTS[0], 3, Machine("tcg"), node=True)
    (drive,) = (each for each in argv if "id=node" in each)
    assert drive.startswith("file=run/rdma-1.node.qcow2,format=qcow2,")
    assert "virtio-blk-pci,drive=node" in argv
    assert "virtio-blk-pci,drive=node" not in guest_argv(IMAGE, GUESTS[0], 3, Machine("tcg"))


def test_another_bundle_guest_or_script_makes_another_disk() -> None:
    keys = {
        disk_key("bundle-1", IMAGE, "script"),
        disk_key("bundle-2", IMAGE, "script"),
        disk_key("bundle-1", IMAGE._replace(guest=Path("/cache/image-2")), "script"),
        disk_key("bundle-1", IMAGE, "script 2"),
    }
    assert len(keys) == 4
    assert all(key.startswith("node-") for key in keys)
