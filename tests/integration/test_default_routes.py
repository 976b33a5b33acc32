# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every next hop of a default route is found in what this machine's kernel and its ip(8) tell of it."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.uplink import (
    DEFAULT_ROUTES,
    IPV6_ROUTE,
    ROUTE,
    read_tables,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.integration.isolated import apart

PORTS = """
for n in 0 1; do
    ip link add port$n type veth peer name far$n
    ip link set port$n up
    ip link set far$n up
    ip address add 10.0.$n.2/24 dev port$n
    ip address add fd00:$n::2/64 dev port$n nodad
done
"""
HOPS = """
ip route add default nexthop via 10.0.0.1 dev port0 nexthop via 10.0.1.1 dev port1
ip -6 route add default nexthop via fd00:0::1 dev port0 nexthop via fd00:1::1 dev port1
"""
# As FRR sets them.
OBJECTS = """
for n in 0 1; do
    ip nexthop add id 1$n via 10.0.$n.1 dev port$n
    ip nexthop add id 2$n via fd00:$n::1 dev port$n
done
ip nexthop add id 3 group 10/11
ip nexthop add id 4 group 20/21
ip route add default nhid 3
ip -6 route add default nhid 4
"""


def told(script: str, version: int) -> RecordedHost:
    """What a host tells of one family's routes after ``script``."""
    table, command = {4: ROUTE, 6: IPV6_ROUTE}[version], " ".join(DEFAULT_ROUTES[version])
    argv = [*apart("net"), "bash", "-ec", f"{PORTS}{script}cat {table}; echo ==; {command}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    lines, shown = done.stdout.split("==\n")
    return RecordedHost({"files": {table: lines}, "commands": {command: {"rc": 0, "stdout": shown, "stderr": ""}}})


@pytest.mark.parametrize("version", DEFAULT_ROUTES)
@pytest.mark.parametrize("script", [HOPS, OBJECTS], ids=["hops", "objects"])
def test_every_next_hop_is_found(script: str, version: int) -> None:
    assert sorted(read_tables(Probe(told(script, version)), every_hop=True).defaults) == ["port0", "port1"]


@pytest.mark.parametrize(("script", "version"), [(HOPS, 4), (OBJECTS, 4), (OBJECTS, 6)])
def test_the_tables_alone_name_the_first_one(script: str, version: int) -> None:
    """Were it otherwise, no program would have to be asked."""
    assert list(read_tables(Probe(told(script, version)), every_hop=False).defaults) == ["port0"]
