# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of the default route, beside each manager that configures it: what of it is changed holds over a reboot
once it is confirmed, and the guest itself reverts what is not.

MTU and RoCE QoS are set under guard, the name by the next boot. The interface has soft RDMA, as a ConnectX has its own.
The tests of a manager build on each other, in the order of the file, on a guest of their own.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Iterator, Mapping, NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_SPEC_FILE,
    GUARD_FILE,
    PROGRAM_DIRECTORY,
    STAGED_FILE,
)
from ansible_collections.rdma.fabric.tests.guests.conftest import started
from ansible_collections.rdma.fabric.tests.guests.host_runs import Json, differences, snapshot_of
from ansible_collections.rdma.fabric.tests.guests.installed import install
from ansible_collections.rdma.fabric.tests.guests.managers import MANAGERS
from ansible_collections.rdma.fabric.tests.guests.pods import until
from ansible_collections.rdma.fabric.tests.guests.test_network_managers import GUEST, SETTLED_SECONDS, Guest
from ansible_collections.rdma.fabric.tests.lab.guests.lab import Options
from ansible_collections.rdma.fabric.tests.lab.guests.layout import MANAGEMENT_HOST, MANAGEMENT_PREFIX, plan_guests
from ansible_collections.rdma.fabric.tests.lab.guests.packages import gather_packages
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

(LAID_OUT,) = plan_guests(1, 1)
ADDRESS = f"{LAID_OUT.address}/{MANAGEMENT_PREFIX}"
FORMER, NAME = "mgmt0", "uplink0"
MTU, TOS = 1400, 106
# Nothing of a test is reverted by its time: that is ended, or a boot comes first.
REVERT_SECONDS = 1800
USUAL: Mapping[str, Any] = {"name": FORMER, "mtu": 1500, "tos": 0, "routes": [MANAGEMENT_HOST]}
CHANGED: Mapping[str, Any] = {**USUAL, "mtu": MTU, "tos": TOS}
STATE = f"""
import json, subprocess
def ip(*words):
    return json.loads(subprocess.run(["ip", "-json", *words], check=True, capture_output=True, text=True).stdout)
try:
    tos = int(open("/sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos").read())
except FileNotFoundError:
    tos = 0
# While a manager is at work there may be no address.
link = next(filter(None, ip("address", "show", "to", "{LAID_OUT.address}")), {{}})
routes = [route["gateway"] for route in ip("-4", "route", "show", "default") if route["dev"] == link.get("ifname")]
print(json.dumps({{"name": link.get("ifname"), "mtu": link.get("mtu"), "tos": tos, "routes": routes}}))
"""
# What was before the first run, and what the boot came to.
STAYS = "files /var/lib/rdma-fabric"
# The last step writes the boot unit's file: all is set, and kept for the next boot, when the power goes. The file
# system of the lab has no journal.
CUT = f"until grep -q tos {BOOT_SPEC_FILE}; do sleep 0.1; done; sync; echo b >/proc/sysrq-trigger"
# The record's time is over: the wait of at least ten minutes is not what these tests are about.
TIME_IS_OVER = f"""
import glob, os, sys
sys.path.insert(0, *glob.glob("{PROGRAM_DIRECTORY}/*.pyz"))
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.record import parse, text_of
record = parse(open("{GUARD_FILE}").read())
assert record.at_boot and record.deadline > 0
open("{GUARD_FILE}.new", "w").write(text_of(record._replace(deadline=0.0)))
os.replace("{GUARD_FILE}.new", "{GUARD_FILE}")
"""


# By either of the interface's names, or by its address.
FILES: Mapping[str, Mapping[str, str]] = {
    "networkd": {
        "/etc/systemd/network/20-mgmt.network": f"[Match]\nName={FORMER} {NAME}\n"
        f"[Network]\nAddress={ADDRESS}\nGateway={MANAGEMENT_HOST}\n",
    },
    "netplan": {
        "/etc/netplan/50-mgmt.yaml": f"""network:
  version: 2
  renderer: networkd
  ethernets:
    mgmt:
      match: {{macaddress: "{LAID_OUT.mac}"}}
      addresses: [{ADDRESS}]
      routes: [{{to: default, via: {MANAGEMENT_HOST}}}]
""",
    },
    "NetworkManager": {
        "/etc/NetworkManager/conf.d/10-lab.conf": "[main]\nno-auto-default=*\n",
        "/etc/NetworkManager/system-connections/mgmt.nmconnection": f"""[connection]
id=mgmt
uuid=6b1c7a3c-0c7c-4f5c-9a55-7d4b8f2f0021
type=ethernet
[ethernet]
mac-address={LAID_OUT.mac}
[ipv4]
method=manual
address1={ADDRESS},{MANAGEMENT_HOST}
""",
    },
}


class Uplink(NamedTuple):
    """A running guest, the PCI address of its interface, and what it was like before anything was done to it."""

    guest: Guest
    address: str
    before: Json

    def run(self, **more: Any) -> Json:
        """Bring the guest to another MTU and ToS of its interface, and whatever else of that."""
        interface = {"pci": self.address, "mtu": MTU, "qos": {"tos": TOS}, **more}
        consents = {"uplink_change": True}
        return self.guest.run({"interfaces": [interface], "consents": consents, "revert_seconds": REVERT_SECONDS})

    def state(self) -> Json:
        """Give what the guest has of all that is asked for, and where its default route leads."""
        found: Json = json.loads(self.guest.ssh("python3 -I -S -", STATE.encode()))
        return found

    def comes_to(self, state: Mapping[str, Any]) -> None:
        """Wait until the guest has a state: soft RDMA comes late, and managers may still be at work."""
        until(lambda: self.state() == state, SETTLED_SECONDS, lambda: str(self.state()))

    def records(self) -> str:
        """Name the records of changes that wait for the next boot or for a confirmation."""
        return self.guest.ssh(f"ls {STAGED_FILE} {GUARD_FILE} 2>/dev/null || true")


@pytest.fixture(scope="module", params=sorted(FILES))
def uplink(
    request: pytest.FixtureRequest,
    capable: None,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Uplink]:
    """A guest whose way to it is a manager's, with soft RDMA on that."""
    manager, files = MANAGERS[request.param], FILES[request.param]
    archives = gather_packages(manager.packages, os.environ, to_standard_error) if manager.packages else []
    options = Options(tmp_path_factory.mktemp("uplink"), guests=1, cluster=False)
    for lab in started(options, pytestconfig):
        guest = Guest(lab, manager)
        guest.ssh(f"rm /etc/systemd/network/*.network && echo {LAID_OUT.mac} >/etc/rdma-lab/rails")
        guest.write(dict(files))
        if archives:
            install(lab, [GUEST], archives)
        guest.reboot()
        address = guest.ssh(f"basename $(realpath /sys/class/net/{FORMER}/device/..)").strip()
        yield Uplink(guest, address, snapshot_of(lab, GUEST))


def test_a_host_that_loses_its_power_before_a_change_is_confirmed_starts_without_it(uplink: Uplink) -> None:
    uplink.guest.ssh(f"systemd-run --quiet sh -c {shlex.quote(CUT)}")
    result = uplink.run()
    assert result.get("failed"), "nothing has cut the run off"
    assert (result["guard"]["state"], result["guard"]["problems"]) == ("reverted", []), result["msg"]
    assert [setting for setting in ("MTU", "ToS") if setting not in result["msg"]] == []
    uplink.comes_to(USUAL)
    left = differences(uplink.before, snapshot_of(uplink.guest.lab, GUEST))
    assert [each for each in left if not each.startswith(STAYS)] == []


def test_a_name_that_nobody_confirms_is_reverted_after_the_boot_that_gave_it(uplink: Uplink) -> None:
    """No run has reached the guest after its boot: the network is fine, but the host cannot know that."""
    result = uplink.run(name=NAME)
    assert not result.get("failed"), result["msg"]
    uplink.comes_to(CHANGED)
    uplink.guest.reboot()
    uplink.comes_to({**CHANGED, "name": NAME})
    uplink.guest.ssh("python3 -I -S -", TIME_IS_OVER.encode())
    back = {"name": FORMER, "routes": [MANAGEMENT_HOST]}
    until(lambda: back.items() <= uplink.state().items(), SETTLED_SECONDS, lambda: uplink.guest.ssh("ip address"))
    assert uplink.records() == ""
    result = uplink.run(name=NAME)
    assert result.get("failed") and f"rename {FORMER} to {NAME}" in result["msg"], result["msg"]
    assert "the host has reverted it" in result["msg"]


def test_what_a_run_finds_after_the_boot_stays(uplink: Uplink) -> None:
    result = uplink.run(name=NAME)
    assert not result.get("failed"), result["msg"]
    uplink.guest.reboot()
    uplink.comes_to({**CHANGED, "name": NAME})
    result = uplink.run(name=NAME)
    assert (result["changed"], result["plan"]["steps"]) == (False, []), result["msg"]
    assert (uplink.records(), uplink.state()) == ("", {**CHANGED, "name": NAME})
