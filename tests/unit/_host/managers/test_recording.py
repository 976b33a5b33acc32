# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording tells who owns interfaces and none of the secrets that stand in the same files."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.read import read_managers
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import public_part, record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET

WANTS = "/etc/systemd/system/multi-user.target.wants"
SECRET = "correct-horse-battery"
FILES = {
    **{f"{WANTS}/{unit}.service": "" for unit in ("systemd-networkd", "NetworkManager", "networking", "wicked")},
    "/etc/systemd/network/20-x.network": (
        f"[Match]\nName=ens2f0 ens2f1\nMACAddress=98:03:9b:00:00:01\n[Link]\nMTUBytes=1500\n[Network]\nKey={SECRET}\n"
    ),
    "/etc/systemd/network/20-x.network.d/x.conf": f"[Link]\nMTUBytes=4200\n[Network]\nKey={SECRET}\n",
    "/etc/NetworkManager/system-connections/x.nmconnection": (
        f"[connection]\nid={SECRET}\ninterface-name=ens2f1\n[wifi-security]\npsk={SECRET}\n"
        f"[ethernet]\nmtu=1500\n[802-1x]\npassword={SECRET}\n"
    ),
    "/run/NetworkManager/system-connections/netplan-x.nmconnection": (
        f"[connection]\ninterface-name=ens5\n[802-1x]\npassword={SECRET}\n"
    ),
    "/etc/sysconfig/network-scripts/ifcfg-y": f"DEVICE=ens3\nMTU=9000\nKEY={SECRET}\n",
    "/etc/NetworkManager/conf.d/x.conf": (
        f"[main]\nno-auto-default=*\n[keyfile]\nunmanaged-devices+=interface-name:z\n[proxy]\nuser={SECRET}\n"
    ),
    "/etc/network/interfaces": (
        f"source /etc/network/interfaces.d/*\nauto ens2f0\niface ens2f0 inet static\n mtu 1500\n wpa-psk {SECRET}\n"
    ),
    "/etc/network/interfaces.d/x": f"iface ens4 inet6 static\n  password {SECRET}\n  mtu 9000\n",
    "/run/systemd/netif/links/2": f"NETWORK_FILE=/etc/systemd/network/20-x.network\nDNS={SECRET}\n",
    "/run/NetworkManager/devices/2": f"[device]\nmanaged=true\nconnection-uuid={SECRET}\n",
    "/etc/sysconfig/network/ifcfg-ens9": f"WIRELESS_WPA_PSK={SECRET}\n",
}


def test_what_is_kept_says_the_same_about_owners() -> None:
    names = {"ens2f0": "2", "ens2f1": "3"}
    kept = {path: part for path, text in FILES.items() for part in [public_part(path, text)] if part is not None}
    assert SECRET not in "".join(kept.values())
    # Of wicked nothing but the name of the file is read.
    assert {path for path in FILES if SECRET in FILES[path]} - set(kept) == {"/etc/sysconfig/network/ifcfg-ens9"}
    reduced = {path: kept.get(path, text) for path, text in FILES.items()}
    whole = read_managers(Probe(RecordedHost({"files": FILES})), names)
    assert read_managers(Probe(RecordedHost({"files": reduced})), names) == whole
    assert set(whole) == {"networkd", "NetworkManager", "ifupdown", "wicked"}


def test_a_recording_has_no_secret_of_any_manager() -> None:
    document = FLEET["egx-01"]().document()
    document["files"].update(FILES)
    text = str(record(RecordedHost(document), "recorded"))
    assert SECRET not in text
    assert "/etc/systemd/network/20-x.network" in text


@pytest.mark.parametrize("path", ["/etc/hostname", "/etc/systemd/network/x.link", "/etc/netplan/50-user.yaml"])
def test_files_of_no_manager_are_not_judged(path: str) -> None:
    assert public_part(path, SECRET) is None
