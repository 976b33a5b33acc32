# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten faults of a booted guest and its cluster are ten findings of one ``site --check``.

Stand-ins are a file in place of the firmware's variable of Secure Boot, which guests without EFI lack, a proxy before
the API server that tells an older release, and the vendor of the guest's card, without which no driver is missed. All
else is as on any host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator, Mapping

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION, Fleet
from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy, Plan
from ansible_collections.rdma.fabric.tests.integration.test_playbooks_faults import kubeconfig_for
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

FOREIGN_LINK = "/etc/systemd/network/04-storage.link"
EFI = "/sys/firmware/efi/efivars"
SECURE_BOOT = f"{EFI}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ARCHIVE, ARCHIVES, FULL = "/root/archive", "/etc/apt/sources.list.d/findings.list", "/var/full"
LEFT_MIB = 100
LOCK = "/var/lib/dpkg/lock-frontend"
HOLDER = f"import fcntl, time; lock = open('{LOCK}', 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); time.sleep(3600)"
ITS_IDS, IDS = f"/sys/bus/pci/devices/{FUNCTION}/uevent", "/run/findings-ids"
NVIDIA = (
    f"sed s/PCI_ID=8086:/PCI_ID=15B3:/ {ITS_IDS} >{IDS} && mount --bind {IDS} {ITS_IDS}",
    f"umount {ITS_IDS} && rm {IDS}",
)
# How a fault comes and goes, by the step that it refuses.
PLANTED: Mapping[str, tuple[str, str]] = {
    "driver:secure_boot": (
        f"mount -t tmpfs findings /sys/firmware && mkdir -p {EFI} && printf '\\6\\0\\0\\0\\1' >{SECURE_BOOT}",
        "umount /sys/firmware",
    ),
    # An archive without the kernel's headers: apt knows what it can't have.
    "driver:headers": (
        f"mkdir {ARCHIVE} && printf 'Package: nothing\\nVersion: 1\\nArchitecture: all\\nFilename: ./nothing.deb\\n' "
        f">{ARCHIVE}/Packages && echo 'deb [trusted=yes] file:{ARCHIVE} ./' >{ARCHIVES} && "
        f"apt-get update -o Dir::Etc::SourceList={ARCHIVES} -o Dir::Etc::SourceParts=-",
        f"rm -r {ARCHIVE} {ARCHIVES} /var/lib/apt/lists/*",
    ),
    "driver:lock": (
        f'systemd-run --unit=findings python3 -c "{HOLDER}"',
        "systemctl stop findings.service",
    ),
    f"naming:{FUNCTION}": (
        f"printf '[Match]\\nPath=pci-{FUNCTION}\\n[Link]\\nName=storage0\\n' >{FOREIGN_LINK}",
        f"rm {FOREIGN_LINK}",
    ),
    "driver:space": (
        f"fallocate -l $(( $(df --output=avail -BM /var | tr -dc 0-9) - {LEFT_MIB} ))M {FULL}",
        f"rm {FULL}",
    ),
}
# What is asked of the guest that it has not.
LACKING = ("driver:kernel", "sysctl:net.core.no_such_key", "naming:pci=0000:99:00.0", f"vfs:{FUNCTION}")
OLD = "v1.31.4"
VARIABLES = {
    "rdma_fabric_driver": {
        "flavour": "doca-ofed",
        "version": "25.01-0.6.0",
        "source": "repository",
        "repository": {"url": "/root/doca", "gpg_check": False},
    },
    "rdma_fabric_sysctls": {"net.core.no_such_key": 1},
    "rdma_fabric_interfaces": [
        {"pci": FUNCTION, "name": "rail0", "vfs": 64},
        {"pci": "0000:99:00.0", "name": "rail9"},
    ],
}
POLICY = {
    "apiVersion": "mellanox.com/v1alpha1",
    "kind": "NicClusterPolicy",
    "metadata": {"name": "nic-cluster-policy"},
    "spec": {
        "secondaryNetwork": {
            "cniPlugins": {"image": "plugins", "repository": "ghcr.io/k8snetworkplumbingwg", "version": "v1.5.0"}
        }
    },
}


@pytest.fixture
def fleet(lab: Path, cluster: ControlPlane, tmp_path: Path) -> Iterator[Fleet]:
    """The guests, the first of them with the faults."""
    fleet = Fleet(lab, tmp_path, cluster, VARIABLES)
    planted = []
    try:
        for plant, remove in (NVIDIA, *PLANTED.values()):
            planted.append(remove)
            fleet.ssh(fleet.guests[0], plant)
        yield fleet
    finally:
        for remove in reversed(planted):
            fleet.ssh(fleet.guests[0], f"{remove} || true")


def test_ten_faults_are_ten_findings_of_one_run(fleet: Fleet, cluster: ControlPlane, tmp_path: Path) -> None:
    guest = fleet.guests[0]
    policy = tmp_path / "policy.yml"
    policy.write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    version = json.loads(cluster.kubectl("get", "--raw", "/version"))
    with FaultyProxy(cluster) as proxy:
        proxy.follow(Plan(answers={"/version": {**version, "gitVersion": OLD}}))
        kubeconfig = kubeconfig_for(cluster, tmp_path / "kubeconfig", proxy.url)
        outcome = fleet.site(
            *("--check", "--limit", f"{guest},localhost"),
            rdma_fabric_manifests=[str(policy)],
            rdma_fabric_kubeconfig=str(kubeconfig),
        ).refused()
    said = [line for line in outcome.output.splitlines() if "the cluster runs Kubernetes 1.31" in line]
    assert len(said) == 1 and "next: " in said[0]
    document = json.loads((fleet.user.here / "rdma-fabric-run" / "hosts" / f"{guest}.json").read_text(encoding="utf-8"))
    refused = {step["id"]: step["detail"] for step in document["plan"]["steps"] if step["status"] == "refused"}
    assert set(refused) == {*PLANTED, *LACKING}
    findings = [each for each in fleet.user.result()["findings"] if each.startswith(f"refused: {guest}: ")]
    assert len(findings) == len(refused)
    assert [fault for fault, detail in refused.items() if not any(detail in each for each in findings)] == []
