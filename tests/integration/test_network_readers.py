# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps settings over a reboot, read by the programs that read it on real hosts.

The files are made by the collection's own plan for a recorded host with the manager in question, never by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.apply import VERIFY, cycle_with
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import unit_text
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.names import read_references
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import UNIT, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_bytes, program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.integration.isolated import apart, let_everybody_read
from ansible_collections.rdma.fabric.tests.integration.kept_files import ALONE, DROP_IN, NAME, WANTS, generated, kept
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._host.test_set_elsewhere import EIGHT

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


@pytest.mark.parametrize(
    ("definition", "by_name"),
    [
        ("{dhcp4: true}", True),
        ('{match: {macaddress: "02:00:00:00:00:01"}, dhcp4: true}', False),
        ('{match: {macaddress: "02:00:00:00:00:01"}, set-name: ens2f0, dhcp4: true}', True),
    ],
)
@pytest.mark.parametrize("renderer", ["networkd", "NetworkManager"])
def test_what_netplan_makes_tells_whether_it_finds_an_interface_by_its_name(
    readers: Readers, tmp_path: Path, definition: str, by_name: bool, renderer: str
) -> None:
    text = f"network:\n  version: 2\n  renderer: {renderer}\n  ethernets:\n    ens2f0: {definition}\n"
    place = tmp_path / "etc/netplan/50-user.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    place.chmod(0o600)
    done = readers.run([readers.program("usr/libexec/netplan/generate"), "--root-dir", tmp_path])
    assert done.returncode == 0, done.stderr
    made = {f"/{path.relative_to(tmp_path)}": path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert any("netplan-ens2f0" in path for path in made)
    assert bool(read_references(Probe(RecordedHost({"files": made})), ["ens2f0"])) == by_name


@pytest.mark.parametrize("owner", [owner for owner, (path, _text) in EIGHT.items() if path.endswith(".yaml")])
def test_netplan_takes_the_numbers_of_functions_that_we_read(readers: Readers, tmp_path: Path, owner: str) -> None:
    place = tmp_path / EIGHT[owner][0][1:]
    place.parent.mkdir(parents=True)
    place.write_text(EIGHT[owner][1])
    place.chmod(0o600)
    done = readers.run([readers.program("usr/libexec/netplan/generate"), "--root-dir", tmp_path])
    assert (done.returncode, done.stderr) == (0, "")


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


def test_systemd_finds_no_cycle_with_the_vendors_driver_and_wicked(readers: Readers, tmp_path: Path) -> None:
    """The order is that of openibd.service (MLNX_OFED) and wicked's units (openSUSE/wicked); the units are ours."""
    after = {"wickedd": "network-pre.target", "openibd": "wickedd.service", "wicked": "wickedd.service openibd.service"}
    for name, others in after.items():
        service = f"[Unit]\nDefaultDependencies=no\nAfter={others}\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
        (tmp_path / f"{name}.service").write_text(service)
    needed = f"[Unit]\nWants={' '.join(f'{name}.service' for name in after)} network-pre.target\n"

    (tmp_path / "default.target").write_text(needed)

    def cycle(with_wicked: bool) -> list[str]:
        unit = tmp_path / UNIT
        unit.write_text(unit_text("/bin/true", "/bin/true", with_wicked=with_wicked))
        argv: list[str | Path] = [readers.program("usr/bin/systemd-analyze"), *VERIFY[1:]]
        argv[argv.index(UNIT_FILE)] = unit
        return cycle_with(UNIT, readers.run(argv, SYSTEMD_UNIT_PATH=f"{tmp_path}:").stderr)

    assert cycle(with_wicked=True) == []
    assert {UNIT, "wickedd.service", "network-pre.target"} <= set(cycle(with_wicked=False))


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
