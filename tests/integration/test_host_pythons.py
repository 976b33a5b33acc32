# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with every Python of this machine that the ansible-core in use, and this collection, take on a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants

from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from tools.environment import pythons, text_of
from tools.releases import host_versions

pytestmark = pytest.mark.repeated
LIMITS_FILE = "/etc/security/limits.d/90-rdma-fabric.conf"


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, OwnFiles]:
    sought = constants.config.get_config_value("INTERPRETER_PYTHON_FALLBACK")
    chosen = [version for version in host_versions() if f"python{text_of(version)}" in sought]
    assert chosen, "no Python that ansible-core takes on a host"
    return {
        f"python-{text_of(version)}": OwnFiles(tmp_path / text_of(version), pythons()[version]) for version in chosen
    }


def test_every_host_is_read_changed_once_and_recorded(hosts: dict[str, OwnFiles], tmp_path: Path) -> None:
    user = User(tmp_path / "user")
    inventory = inventory_of(tmp_path, hosts, rdma_fabric_limits={"memlock": "unlimited"})
    first = user.run("site", inventory=inventory).succeeded()
    assert [name for name, host in hosts.items() if not host.has(LIMITS_FILE)] == []
    assert {name: first.changed[name] for name in hosts} == dict.fromkeys(hosts, 1)
    again = user.run("site", inventory=inventory).succeeded()
    assert {name: again.changed[name] for name in hosts} == dict.fromkeys(hosts, 0)
    user.run("record", inventory=inventory).succeeded()
    assert [name for name in hosts if f"rdma-fabric-recordings/{name}.json.gz" not in user.files()] == []
