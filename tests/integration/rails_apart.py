# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two rails in one subnet on the kernel of this machine, in namespaces that end with this program.

``python -m ansible_collections.rdma.fabric.tests.integration.rails_apart DESIRED`` runs as root in network and mount
namespaces of its own. Both rails end at a switch in another one, which is the gateway 10.1.0.1 as well. It prints as
JSON what it saw before, after, after a lost link, and after the removal. The reader, planner and applier of routes and
sysctls are the real ones; what else facts hold is composed, because a veth is no port of a card.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.execute import execute
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import PROTOCOL
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import match_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import read_own_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.routing import read_routing
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.settings import read_settings
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveMachine, SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import handler_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.guests import who_has
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given

RAILS = ("rail0", "rail1")
ADDRESSES = ("10.1.0.11", "10.1.0.12")
GATEWAY, FAR = "10.1.0.1", "10.2.0.7"
CONCERNS = ("sysctl", "routing", "leftovers")
# The switch is in the same kernel: what answers does so at once.
_QUIET_SECONDS = 1.0
# Answers to nothing but questions about addresses: the switch itself has an address of the subnet.
_SWITCH = """
ip link set lo up
ip link add br0 type bridge
ip address add 10.1.0.1/24 dev br0
ip link set br0 up
for port in port0 port1; do
    ip link set "$port" master br0
    ip link set "$port" up
done
"""


def ip(*words: str, switch: int = 0) -> str:
    """Run ip(8) here, or in the switch's namespace."""
    inside = ["nsenter", f"--target={switch}", "--net"] if switch else []
    return subprocess.run([*inside, "ip", *words], check=True, capture_output=True, text=True).stdout


def cable(switch: int) -> None:
    """Make both rails, with their addresses, and the switch that they end at."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/etc/sysctl.d"], check=True)
    ip("link", "set", "lo", "up")
    for number, (rail, address) in enumerate(zip(RAILS, ADDRESSES)):
        ip("link", "add", rail, "type", "veth", "peer", "name", f"port{number}")
        ip("link", "set", f"port{number}", "netns", str(switch))
        ip("address", "add", f"{address}/24", "dev", rail)
        ip("link", "set", rail, "up")
    subprocess.run(["nsenter", f"--target={switch}", "--net", "bash", "-ec", _SWITCH], check=True)


def seen(switch: int) -> Any:
    """What answers at the switch for each address, by which rail each address sends, and whether it gets there."""
    hardware = {link["address"]: link["ifname"] for link in json.loads(ip("-json", "link", "show"))}
    answers = {}
    for address in ADDRESSES:
        asking = ["nsenter", f"--target={switch}", "--net", sys.executable, "-I", "-S", who_has.__file__]
        asking += ["br0", GATEWAY, address, str(_QUIET_SECONDS)]
        found = subprocess.run(asking, check=True, capture_output=True, text=True).stdout
        answers[address] = sorted(hardware[octets] for octets in json.loads(found))
    return {
        "answers": answers,
        "ways": {f"{address} to {target}": way(address, target) for address in ADDRESSES for target in (GATEWAY, FAR)},
        "reached": {address: reaches(address) for address in ADDRESSES},
        "ours": [line.strip() for line in ip("route", "show", "table", "all", "proto", str(PROTOCOL)).splitlines()],
        "rules": [line for line in ip("rule", "show").splitlines() if f"proto {PROTOCOL}" in line],
    }


def way(address: str, target: str) -> str | None:
    """Return the rail that the kernel sends by, None where it knows no way."""
    try:
        (found,) = json.loads(ip("-json", "route", "get", target, "from", address))
    except subprocess.CalledProcessError:
        return None
    rail: str = found["dev"]
    return rail


def reaches(address: str) -> bool:
    """Return whether the gateway's answer comes back to an address: it refuses a connection that nobody waits for."""
    with socket.socket() as connection:
        connection.settimeout(3)
        connection.bind((address, 0))
        try:
            connection.connect((GATEWAY, 9))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return True


def facts(machine: LiveMachine, desired: Any) -> Any:
    """What a host tells whose rails are ports of cards, as far as routes and sysctls need it."""
    probe = Probe(machine)
    up = {link["ifname"]: "UP" in link["flags"] for link in json.loads(ip("-json", "link", "show"))}
    found = given.facts([], [given.netdev(rail, None, up=up[rail]) for rail in RAILS])
    found["boot"].update(files=read_own_files(probe))
    found["settings"] = read_settings(probe, desired, RAILS, found["boot"]["files"])
    interfaces = match_spec(desired, HostState(found)).interfaces
    found["routing"] = read_routing(probe, desired, interfaces, found["boot"], found["uplinks"])
    return found


def converge(desired: Any, kept: Any) -> list[str]:
    """Bring the rails to what is asked of them, keep what was there before, and return the lines of the plan."""
    machine = LiveMachine()
    plan, context = plan_with_context(desired, facts(machine, desired), CONCERNS)
    done = execute(plan, context, machine, SystemClock(), handler_of=handler_of)
    assert done.failure is None, done.failure
    kept.update(baseline.with_steps(kept, plan["steps"], {}))
    return done.lines


def run(desired: Any, switch: int) -> Any:
    """Return what was seen at each stage, and the lines of each run."""
    cable(switch)
    kept: Any = {}
    found: Any = {"before": seen(switch), "lines": converge(desired, kept), "after": seen(switch)}
    found["again"] = converge(desired, kept)
    ip("link", "set", RAILS[0], "down")
    ip("link", "set", RAILS[0], "up")
    found["lost"] = seen(switch)["ours"]
    found["back"] = converge(desired, kept)
    found["restored"] = seen(switch)
    wish = baseline.removal(desired, kept)
    found["removal"] = converge(wish, {})
    found["removed"] = seen(switch)
    found["files"] = sorted(path.name for path in Path("/etc/sysctl.d").iterdir())
    return found


def main() -> None:
    """Make the switch's namespace, run, and end it."""
    with subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        # It has its namespace once it answers.
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write(b"\n")
        other.stdin.flush()
        other.stdout.read(1)
        json.dump(run(check_spec(json.loads(sys.argv[1])), other.pid), sys.stdout)
        other.stdin.close()


if __name__ == "__main__":
    main()
