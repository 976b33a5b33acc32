# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and rules in the files of managers, read by the programs that read them on real hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.network_manager import (
    nmcli_route,
    nmcli_rule,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.read import read_managers
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import PROTOCOL
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.routing import (
    VERSIONS,
    parse_routes,
    parse_rules,
    routes_command,
    rules_command,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.routes import (
    RULES,
    route_key,
    route_text,
    rule_key,
    rule_text,
)
from ansible_collections.rdma.fabric.tests.integration.isolated import apart, let_everybody_read
from ansible_collections.rdma.fabric.tests.integration.kept_files import ALONE, DROP_IN, NAME, WANTS, generated, kept
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._host import igb

ASKED: dict[str, Any] = {
    "routes": [
        {"to": "default", "via": "10.7.0.254", "table": 101},
        {"to": "10.7.0.0/24", "table": 101},
        {"to": "10.8.0.0/16", "via": "10.7.0.254"},
        {"to": "10.9.0.7", "via": "10.50.0.1", "on-link": True, "metric": 5},
        {"to": "fd00:2::/64", "via": "fd00:1::1", "table": 101},
        {"to": "fd00:1::/64", "table": 101},
        {"to": "default", "via": "fe80::1", "table": 102},
    ],
    RULES: [{"from": "10.7.0.1/32", "table": 101}, {"from": "fd00:1::/64", "to": "fd00:2::/64", "table": 102}],
}
(WANTED,) = igb.wish({"pci": igb.PF, **ASKED})["interfaces"]
WANTED_ROUTES, WANTED_RULES = WANTED["routes"] or [], WANTED[RULES] or []
ROUTES = {route_key(route): route_text(route) for route in WANTED_ROUTES}
RULE_TEXTS = {rule_key(rule): rule_text(rule) for rule in WANTED_RULES}
NETWORK = f"""[Match]
Name={NAME}
[Network]
Address=10.7.0.1/24
Address=fd00:1::2/64
IPv6AcceptRA=no
"""
# networkd goes on until it has done what its files say; then what ip tells.
NETWORKD = f"""{ALONE}
ip link set other up
timeout --preserve-status 30 "$2" >&2 &
for _ in $(seq 250); do
    there=$(ip route show table all proto "$3"; ip -6 route show table all proto "$3")
    if [ "$(printf '%s\\n' "$there" | sort -u | grep -c .)" -ge "$4" ]; then break; fi
    sleep 0.1
done
shift 4
for command in "$@"; do $command; echo; done
kill %1
wait
"""


def shown_by_networkd(readers: Readers, root: Path, protocol: int) -> tuple[dict[Any, str], dict[Any, str]]:
    """What networkd makes of the files below ``root``: routes of this protocol, and rules, as they are told."""
    let_everybody_read(root)
    program = readers.program("usr/lib/systemd/systemd-networkd", "lib/systemd/systemd-networkd")
    asking = [*(routes_command(version, NAME) for version in VERSIONS), *map(rules_command, VERSIONS)]
    argv = [*apart("net", "mount"), "bash", "-c", NETWORKD, "networkd", root, program, str(protocol), str(len(ROUTES))]
    done = readers.run([str(word) for word in argv] + [" ".join(command) for command in asking])
    texts = [line for line in done.stdout.splitlines() if line]
    assert len(texts) == len(asking), done.stderr
    routes = [route for text, version in zip(texts, VERSIONS) for route in parse_routes(text, version) or ()]
    rules = [rule for text, version in zip(texts[2:], VERSIONS) for rule in parse_rules(text, version) or ()]
    return (
        {route_key(route): route_text(route) for route in routes if route["protocol"] == protocol},
        {rule_key(rule): rule_text(rule) for rule in rules if rule["protocol"]},
    )


def test_networkd_sets_what_our_drop_in_asks_for(readers: Readers, tmp_path: Path) -> None:
    given = {f"{WANTS}/systemd-networkd.service": "", "/etc/systemd/network/20-rail.network": NETWORK}
    assert list(kept(tmp_path, given, **ASKED)) == [DROP_IN]
    assert shown_by_networkd(readers, tmp_path, PROTOCOL) == (ROUTES, RULE_TEXTS)


def test_netplan_adds_ours_to_the_users_and_networkd_sets_them(readers: Readers, tmp_path: Path) -> None:
    plain = f"network:\n  ethernets:\n    {NAME}: {{addresses: [10.7.0.1/24, 'fd00:1::2/64'], accept-ra: false}}\n"
    users = plain.replace("accept-ra", "routes: [{to: 10.88.0.0/16, via: 10.7.0.9}], accept-ra")
    runtime = {f"/run/systemd/network/10-netplan-{NAME}.network": f"[Match]\nName={NAME}\n"}
    given = {f"{WANTS}/systemd-networkd.service": "", "/etc/netplan/50-user.yaml": users, **runtime}
    assert list(kept(tmp_path, given, **ASKED)) == ["/etc/netplan/90-rdma-fabric.yaml"]
    network = generated(readers, tmp_path)[f"10-netplan-{NAME}.network"]
    assert "Address=10.7.0.1/24\n" in network and "MTUBytes=9000\n" in network
    (tmp_path / "etc/systemd/network").mkdir(parents=True, exist_ok=True)
    (tmp_path / "etc/systemd/network/10.network").write_text(network)
    routes, rules = shown_by_networkd(readers, tmp_path, 4)
    users_key = (4, 254, "10.88.0.0/16", 0)
    assert routes.pop(users_key) == "10.88.0.0/16 via 10.7.0.9"
    assert (routes, rules) == (ROUTES, RULE_TEXTS)


INTERFACES = """auto ens2f0
iface ens2f0 inet static
    address 10.7.0.1/24
source {root}/etc/network/interfaces.d/*
"""


def test_ifup_sets_routes_once_there_is_an_address(readers: Readers, tmp_path: Path) -> None:
    given = {f"{WANTS}/networking.service": "", "/etc/network/interfaces": INTERFACES.format(root="")}
    assert list(kept(tmp_path, given, **ASKED)) == ["/etc/network/interfaces.d/rdma-fabric"]
    interfaces = tmp_path / "etc/network/interfaces"
    interfaces.write_text(INTERFACES.format(root=tmp_path))
    argv: list[str | Path] = [readers.program("sbin/ifup", "usr/sbin/ifup"), "--no-act", "--force", "--verbose"]
    done = readers.run([*argv, f"--interfaces={interfaces}", f"--state-dir={tmp_path}", NAME])
    assert done.returncode == 0, done.stderr
    said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines()]
    address = next(n for n, line in enumerate(said) if "ip addr add 10.7.0.1" in line)
    ours = [n for n, line in enumerate(said) if f" {PROTOCOL}" in line]
    assert len(ours) == len(ROUTES) + len(RULE_TEXTS)
    assert min(ours) > address
    assert (
        f"ip -4 route replace 10.8.0.0/16 via 10.7.0.254 dev {NAME} table 254 metric 0 proto {PROTOCOL} || true" in said
    )


def test_nmcli_takes_the_command_that_a_refusal_names_and_the_profile_is_known_then(readers: Readers) -> None:
    profile = (
        f"[connection]\nid=rail\ntype=ethernet\ninterface-name={NAME}\n[ipv4]\nmethod=manual\naddress1=10.7.0.1/24\n"
    )
    words = []
    for version in VERSIONS:
        routes = [nmcli_route(route) for route in WANTED_ROUTES if route_key(route)[0] == version]
        rules = [nmcli_rule(rule) for rule in WANTED_RULES if rule_key(rule)[0] == version]
        words += [f"+ipv{version}.routes", ", ".join(routes), f"+ipv{version}.routing-rules", ", ".join(rules)]
    nmcli = readers.program("usr/bin/nmcli")
    script = 'printf %s "$1" | "$2" --offline connection modify "${@:3}"'
    done = readers.run(["bash", "-c", script, "bash", profile, nmcli, *words])
    assert done.returncode == 0, done.stderr
    path = "/etc/NetworkManager/system-connections/rail.nmconnection"
    host = RecordedHost({"files": {f"{WANTS}/NetworkManager.service": "", path: done.stdout}})
    (known,) = read_managers(Probe(host), {NAME: ""})["NetworkManager"]["profiles"]
    asked = [*map(nmcli_route, WANTED_ROUTES), *map(nmcli_rule, WANTED_RULES)]
    assert sorted(known["routes"]) == sorted(asked), json.dumps(known)


@pytest.mark.parametrize("number", range(2))
def test_netplan_takes_a_file_of_routes_alone(readers: Readers, tmp_path: Path, number: int) -> None:
    runtime = {f"/run/systemd/network/10-netplan-{NAME}.network": f"[Match]\nName={NAME}\n"}
    asked = {key: [entries[number]] for key, entries in ASKED.items()}
    kept(tmp_path, {f"{WANTS}/systemd-networkd.service": "", **runtime}, mtu=None, **asked)
    assert "Table=101\n" in generated(readers, tmp_path)[f"10-netplan-{NAME}.network"]
