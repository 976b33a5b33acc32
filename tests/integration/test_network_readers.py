# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps settings over a reboot, read by the programs that read it on real hosts.

The files are made by the collection's own plan for a recorded host with the manager in question, never by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.program import program_bytes, program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.unit import UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.integration.isolated import apart, let_everybody_read
from ansible_collections.rdma.fabric.tests.integration.kept_files import ALONE, DROP_IN, NAME, WANTS, generated, kept
from ansible_collections.rdma.fabric.tests.lab.readers import Readers

NETWORKD = f"""{ALONE}
timeout --preserve-status 20 "$2" &
for _ in $(seq 150); do
    if [ "$(cat /sys/class/net/ens2f0/mtu)" = "$3" ]; then break; fi
    sleep 0.1
done
cat /sys/class/net/ens2f0/mtu
ip -br link show dev ens2f0
kill %1
wait
"""


NETPLAN = """network:
  version: 2
  ethernets:
    the-rail:
      match: {macaddress: "%s"}
      set-name: ens2f0
      addresses: [10.7.0.1/24]
    eno1: {dhcp4: true}
"""


@pytest.mark.parametrize("state", ["up", "down"])
def test_netplan_adds_our_file_to_the_users_definition(readers: Readers, tmp_path: Path, state: str) -> None:
    mac = next(n for n in gather(RecordedHost(FLEET["egx-01"]().document()))["netdevs"] if n["name"] == NAME)["mac"]
    users = {"/etc/netplan/50-user.yaml": NETPLAN % mac}
    before = tmp_path / "before"
    (before / "etc/netplan").mkdir(parents=True)
    (before / "etc/netplan/50-user.yaml").write_text(users["/etc/netplan/50-user.yaml"])
    (before / "etc/netplan/50-user.yaml").chmod(0o600)
    plain = generated(readers, before)
    runtime = {f"/run/systemd/network/{name}": text for name, text in plain.items()}
    ours = kept(tmp_path / "after", {f"{WANTS}/systemd-networkd.service": "", **runtime, **users}, state=state)
    assert list(ours) == ["/etc/netplan/90-rdma-fabric.yaml"]
    after = generated(readers, tmp_path / "after")
    network = after["10-netplan-the-rail.network"]
    assert "MTUBytes=9000\n" in network
    assert "Address=10.7.0.1/24\n" in network
    assert ("ActivationPolicy=always-down\n" in network) == (state == "down")
    assert after["10-netplan-eno1.network"] == plain["10-netplan-eno1.network"]


def test_netplan_accepts_our_file_when_the_users_is_gone(readers: Readers, tmp_path: Path) -> None:
    runtime = {"/run/systemd/network/10-netplan-ens2f0.network": "[Match]\nName=ens2f0\n"}
    kept(tmp_path, {f"{WANTS}/systemd-networkd.service": "", **runtime})
    assert "MTUBytes=9000\n" in generated(readers, tmp_path)["10-netplan-ens2f0.network"]


@pytest.mark.parametrize(("state", "users"), [("up", "manual"), ("down", "up")])
def test_networkd_configures_the_interface_as_our_drop_in_says(
    readers: Readers, tmp_path: Path, state: str, users: str
) -> None:
    network = f"[Match]\nName=ens2f0\n[Link]\nActivationPolicy={users}\n[Network]\nLinkLocalAddressing=no\n"
    given = {f"{WANTS}/systemd-networkd.service": "", "/etc/systemd/network/20-rail.network": network}
    assert list(kept(tmp_path, given, state=state)) == [DROP_IN]
    let_everybody_read(tmp_path)
    program = readers.program("usr/lib/systemd/systemd-networkd", "lib/systemd/systemd-networkd")
    done = readers.run([*apart("net", "mount"), "bash", "-c", NETWORKD, "networkd", tmp_path, program, "9000"])
    mtu, line = done.stdout.splitlines()[:2]
    assert mtu == "9000", done.stderr
    assert ("UP" in line.split("<")[1].split(">")[0].split(",")) == (state == "up"), line


def test_network_manager_takes_our_section_beside_others(readers: Readers, tmp_path: Path) -> None:
    users = "[main]\nplugins=keyfile\n[connection-users]\nmatch-device=interface-name:eno*\nipv6.method=2\n"
    manager = {f"{WANTS}/NetworkManager.service": "", "/etc/NetworkManager/conf.d/50-user.conf": users}
    assert list(kept(tmp_path, manager)) == ["/etc/NetworkManager/conf.d/90-rdma-fabric.conf"]
    empty = tmp_path / "empty"
    empty.mkdir()
    main = tmp_path / "NetworkManager.conf"
    main.write_text("")
    argv: list[str | Path] = [readers.program("usr/sbin/NetworkManager"), "--print-config"]
    argv += [f"--config-dir={tmp_path}/etc/NetworkManager/conf.d", f"--system-config-dir={empty}"]
    argv += [f"--config={main}", f"--intern-config={empty}/intern"]
    done = readers.run(argv)
    assert done.returncode == 0, done.stderr
    sections = done.stdout.split("\n\n")
    (ours,) = [section for section in sections if section.startswith("[connection-rdma-fabric-ens2f0]")]
    assert "match-device=interface-name:=ens2f0" in ours
    assert "ethernet.mtu=9000" in ours
    assert any(section.startswith("[connection-users]") for section in sections)
    assert "warning" not in done.stderr.lower()


INTERFACES = """source {root}/etc/network/interfaces.d/*
auto lo
iface lo inet loopback
auto ens2f0
iface ens2f0 inet static
    address 10.7.0.1/24
"""


def test_ifup_does_what_the_users_stanza_and_ours_say(readers: Readers, tmp_path: Path) -> None:
    given = {f"{WANTS}/networking.service": "", "/etc/network/interfaces": INTERFACES.format(root="")}
    assert list(kept(tmp_path, given)) == ["/etc/network/interfaces.d/rdma-fabric"]
    interfaces = tmp_path / "etc/network/interfaces"
    interfaces.write_text(INTERFACES.format(root=tmp_path))
    argv: list[str | Path] = [readers.program("sbin/ifup", "usr/sbin/ifup"), "--no-act", "--force", "--verbose"]
    done = readers.run([*argv, f"--interfaces={interfaces}", f"--state-dir={tmp_path}", NAME])
    assert done.returncode == 0, done.stderr
    commands = f"{done.stdout}\n{done.stderr}"
    assert "ip link set dev ens2f0 mtu 9000" in commands
    assert "ip addr add 10.7.0.1/255.255.255.0" in commands


def test_systemd_finds_nothing_wrong_with_the_boot_unit(readers: Readers, tmp_path: Path) -> None:
    ours = kept(tmp_path, {}, state="up", vfs=4)
    unit = tmp_path / UNIT_FILE[1:]
    assert UNIT_FILE in ours
    program = tmp_path / "host.pyz"
    program.write_bytes(program_bytes())
    unit.write_text(unit.read_text().replace(program_path(), str(program)))
    unit.chmod(0o644)
    done = readers.run(
        [readers.program("usr/bin/systemd-analyze"), "verify", "--man=no", "--recursive-errors=one", unit]
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readers_see_a_fault(readers: Readers, tmp_path: Path) -> None:
    """The checks above mean something only when these programs complain."""
    broken = tmp_path / "etc/netplan/90-rdma-fabric.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("network:\n  version: 2\n  ethernets:\n    x: {mtu: nine thousand}\n")
    done = readers.run([readers.program("usr/libexec/netplan/generate"), "--root-dir", tmp_path])
    assert done.returncode != 0
    unit = tmp_path / "broken.service"
    unit.write_text("[Unit]\nBefore=\n[Service]\nType=oneshott\nExecStart=relative\n")
    analyze = readers.program("usr/bin/systemd-analyze")
    done = readers.run([analyze, "verify", "--man=no", unit])
    assert done.stderr != ""
