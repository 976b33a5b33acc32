# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the scenario left on each host: RDMA in the kernel, and what the pods of the DaemonSets installed there."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

# Through Ansible's own connection, whatever the inventory says of it.
testinfra_hosts = ["ansible://rdma_fabric?force_ansible=True"]

COMMANDS = {
    "links": "rdma --json link",
    "devices": "ls /dev/infiniband",
    "plugins": "find /opt/cni/bin -maxdepth 1 -type f -perm -u+x -printf '%f\\n'",
    "first network": "cat $(ls /etc/cni/net.d/*.conf /etc/cni/net.d/*.conflist 2>/dev/null | sort | head -n 1)",
}
END = "=== end ==="


@pytest.fixture(scope="module")
def seen(host: Host) -> dict[str, str]:
    """What each command prints on a host: all in one go, as Ansible starts Python there each time."""
    script = "\n".join(f"{command}\necho '{END}'" for command in COMMANDS.values())
    return dict(zip(COMMANDS, host.check_output(f"set -e\n{script}").split(END)))


def test_a_port_of_an_rdma_device_is_active(seen: dict[str, str]) -> None:
    """The kernel has an RDMA device on an interface, and its port is up."""
    links = json.loads(seen["links"])
    assert [link for link in links if link.get("state") == "ACTIVE" and link.get("netdev")], links


def test_programs_can_reach_the_rdma_device(seen: dict[str, str]) -> None:
    """The devices that the shared device plugin hands to pods are there."""
    assert {"rdma_cm", "uverbs0"} <= set(seen["devices"].split())


@pytest.mark.parametrize("plugin", ["macvlan", "multus"])
def test_the_plugins_of_the_networks_are_installed(seen: dict[str, str], plugin: str) -> None:
    """The DaemonSets put the CNI plugins where the container runtime finds them."""
    assert plugin in seen["plugins"].split()


def test_multus_is_asked_first(seen: dict[str, str]) -> None:
    """The first network configuration, which is the one that the container runtime takes, is that of Multus."""
    configuration = json.loads(seen["first network"])
    assert "multus" in configuration.get("plugins", [configuration])[0]["type"], configuration
