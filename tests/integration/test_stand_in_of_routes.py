# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What unit tests know of routes: their simulated kernel says and shows what this machine's kernel does."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.routing import (
    VERSIONS,
    parse_routes,
    parse_rules,
    routes_command,
    rules_command,
)
from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.routing.hosts import PORT, host

ADDRESSES = ("10.1.0.2/24", "fd00:1::2/64")
ROUTE = f"-4 route {{}} 10.2.0.0/16 via {{}} dev {PORT} table 101 metric 0 proto 173"
ROUTE6 = f"-6 route {{}} fd00:2::/64 via {{}} dev {PORT} table 101 metric 1024 proto 173"
RULE = "-4 rule {} from 10.1.0.0/24 table 101 priority 30000 protocol {}"
COMMANDS = (
    ROUTE.format("add", "10.1.0.1"),
    ROUTE.format("add", "10.1.0.1"),
    ROUTE.format("add", "10.1.0.9"),
    ROUTE.format("replace", "10.1.0.9"),
    ROUTE.format("replace", "10.9.0.1"),
    ROUTE.format("del", "10.1.0.1"),
    ROUTE.format("del", "10.1.0.9"),
    ROUTE.format("add", "10.9.0.1") + " onlink",
    f"-4 route add 10.50.0.0/24 dev {PORT} table 102 proto 173",
    f"-4 route add 10.3.0.0/16 via 10.50.0.1 dev {PORT} table 102 proto 173",
    f"-4 route add 10.4.0.0/16 via 10.50.0.1 dev {PORT} table 103 proto 173",
    f"-4 route add 10.1.0.0/24 dev {PORT} metric 0 proto 173",
    f"-4 route add default via 10.1.0.1 dev {PORT} table 101 proto 4",
    f"-4 route add 10.9.0.7 dev {PORT} metric 5",
    ROUTE6.format("add", "fd00:1::1"),
    ROUTE6.format("add", "fd00:1::9"),
    ROUTE6.format("replace", "fd00:1::9"),
    ROUTE6.format("replace", "fd00:9::1"),
    f"-6 route add default via fe80::1 dev {PORT} table 101 proto 173",
    f"-6 route add fd00:7::1 dev {PORT} proto 173",
    "-4 route add 10.2.0.0/16 dev nowhere",
    RULE.format("add", 173),
    RULE.format("add", 173),
    RULE.format("add", 4),
    RULE.format("del", 173),
    RULE.format("del", 173),
    "-6 rule add from fd00:1::/64 to fd00:3::5 table 7 priority 20000 protocol 173",
    "-4 rule add to 10.3.0.5 table 5000000 priority 10 protocol 173",
)
DOWN = (
    f"link set dev {PORT} down",
    ROUTE.format("add", "10.1.0.1"),
    f"-4 route add 10.50.0.0/24 dev {PORT} table 102 proto 173",
    ROUTE6.format("add", "fd00:1::1"),
    f"-6 route add fd00:50::/64 dev {PORT} table 102 proto 173",
    f"link set dev {PORT} up",
)
SCRIPT = r"""
ip link set lo up
ip link add "$1" type veth peer name other
ip link set other up
ip link set "$1" up
for address in $2; do ip address add "$address" dev "$1" $(case $address in *:*) echo nodad; esac); done
while read -r line; do
    complaint=$(ip $line 2>&1 >/dev/null)
    printf '%s %s\n' "$?" "$complaint"
    if [ "$line" = "$3" ]; then for n in 4 5 6 7; do ip -N -json ${!n}; done; fi
done
for n in 4 5 6 7; do ip -N -json ${!n}; done
"""
SHOWN = [*(routes_command(version, PORT) for version in VERSIONS), *map(rules_command, VERSIONS)]


@lru_cache(maxsize=1)
def real() -> list[str]:
    """What this kernel answers, a line for each command; lists follow the last of COMMANDS, and the last of all."""
    words = [" ".join(command[3:]) for command in SHOWN]
    argv = [*apart("net"), "bash", "-c", SCRIPT, "bash", PORT, " ".join(ADDRESSES), COMMANDS[-1], *words]
    given = "".join(f"{line}\n" for line in (*COMMANDS, *DOWN))
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=60)
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


@lru_cache(maxsize=1)
def in_memory() -> list[str]:
    kernel = host(*ADDRESSES)
    lines = []
    for line in (*COMMANDS, *DOWN):
        result = kernel.run(["ip", *line.split()], 5.0)
        lines.append(f"{result.rc} {result.stderr}".strip())
        if line in (COMMANDS[-1], DOWN[-1]):
            lines += [kernel.run(list(command), 5.0).stdout.strip() for command in SHOWN]
    assert routes.rules(kernel)
    return lines


def shown(lines: list[str], start: int) -> list[Any]:
    """What lists tell, without the kernel's own routes of the link's addresses."""
    found: list[Any] = []
    for offset, version in enumerate(VERSIONS):
        listed = parse_routes(lines[start + offset], version)
        assert listed is not None
        found.append([route for route in listed if not route["to"].startswith("fe80:")])
        found.append(parse_rules(lines[start + len(VERSIONS) + offset], version))
    return found


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=COMMANDS)
def test_it_answers_as_the_kernel_does(number: int) -> None:
    assert in_memory()[number] == real()[number]


@pytest.mark.parametrize("number", range(len(DOWN)), ids=DOWN)
def test_it_answers_as_the_kernel_does_while_the_link_is_down(number: int) -> None:
    start = len(COMMANDS) + len(SHOWN)
    assert in_memory()[start + number] == real()[start + number]


@pytest.mark.parametrize("start", [len(COMMANDS), len(COMMANDS) + len(SHOWN) + len(DOWN)])
def test_it_shows_what_the_kernel_does(start: int) -> None:
    assert shown(in_memory(), start) == shown(real(), start)
    assert json.loads(real()[start]) != []
