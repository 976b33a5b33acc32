# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a booted guest gets beside each manager of the network holds over a reboot, and its removal leaves no trace.

The manager's own daemon makes a bond of two cards and a VLAN on it. The tests of a manager build on each other, in the
order of the file, on a guest of their own.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.guests.conftest import started
from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION, SNAPSHOT, Json, differences
from ansible_collections.rdma.fabric.tests.guests.installed import install
from ansible_collections.rdma.fabric.tests.guests.managers import (
    FOREIGN_LINK,
    FOREIGN_NAME,
    FUNCTIONS_OF_OTHERS,
    MANAGERS,
    Manager,
)
from ansible_collections.rdma.fabric.tests.guests.pods import until
from ansible_collections.rdma.fabric.tests.lab.guests.lab import Options
from ansible_collections.rdma.fabric.tests.lab.guests.packages import gather_packages
from ansible_collections.rdma.fabric.tests.lab.guests.speed import pace
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error
from tools.checkout import CHECKOUT, PROGRAMS

GUEST = "rdma-1"
SECOND = "0000:02:00.0"
NAMES = {FUNCTION: "rail0", SECOND: "rail1"}
FORMER = {"interfaces": [{"pci": FUNCTION, "name": "rail1"}, {"pci": SECOND, "name": "rail0"}]}
EARLY_MODULES, EARLY_IMAGE = "/etc/initramfs-tools/modules", "/boot/initrd.img-"
COUNT = 4
MTUS = {"bond0": 9000, "bond0.100": 8900}
ROUTES = {"bond0": ("10.66.0.0/16", "10.88.0.253"), "bond0.100": ("10.67.0.0/16", "10.89.0.253")}
COMMAND_SECONDS = 300.0
RUN_SECONDS = 900.0
BOOT_SECONDS = 600.0
SETTLED_SECONDS = 180.0  # a manager may be at work after the boot has ended
WANTED = {
    "interfaces": [
        {"pci": FUNCTION, "name": NAMES[FUNCTION], "vfs": COUNT},
        {"pci": SECOND, "name": NAMES[SECOND]},
        *(
            {"current_name": name, "mtu": mtu, "routes": [{"to": ROUTES[name][0], "via": ROUTES[name][1]}]}
            for name, mtu in MTUS.items()
        ),
    ],
    "consents": {"vf_reset": True},
}
HELD = {
    "names": NAMES,
    "functions": COUNT,
    "ports": sorted(NAMES.values()),
    # A bond gives its MTU to its ports.
    "mtus": {**dict.fromkeys(NAMES.values(), MTUS["bond0"]), **MTUS},
    "addresses": {"bond0": ["10.88.0.1/24"], "bond0.100": ["10.89.0.1/24"]},
    "routes": sorted(
        [
            *(["bond0", *ROUTES["bond0"]], ["bond0", "10.98.0.0/16", "10.88.0.254"]),
            *(["bond0.100", *ROUTES["bond0.100"]], ["bond0.100", "10.99.0.0/16", "10.89.0.254"]),
        ]
    ),
}
STATE = f"""
import json, os, subprocess
def ip(*words):
    return json.loads(subprocess.run(["ip", "-json", *words], check=True, capture_output=True, text=True).stdout)
links = {{link["ifname"]: link for link in ip("address", "show")}}
pci = "/sys/bus/pci/devices"
cards = {{card: os.listdir(f"{{pci}}/{{card}}/net")[0] for card in {sorted(NAMES)!r}}}
stacked = [name for name in {sorted(MTUS)!r} if name in links]
print(json.dumps({{
    "names": cards,
    "functions": int(open(f"{{pci}}/{FUNCTION}/sriov_numvfs").read()),
    "ports": sorted(name for name, link in links.items() if link.get("master") == "bond0"),
    "mtus": {{name: links[name]["mtu"] for name in [*cards.values(), *stacked]}},
    "addresses": {{
        name: [f"{{a['local']}}/{{a['prefixlen']}}" for a in links[name]["addr_info"] if a["family"] == "inet"]
        for name in stacked
    }},
    "routes": sorted([route["dev"], route["dst"], route["gateway"]]
                     for route in ip("-4", "route") if "gateway" in route and route["dev"] in stacked),
}}))
"""


class Guest(NamedTuple):
    """A running guest whose network a manager makes."""

    lab: Path
    manager: Manager

    def ssh(self, command: str, stdin: bytes = b"") -> str:
        """Run a shell command; it has to succeed."""
        argv = ssh_argv(self.lab, GUEST, [command])
        done = subprocess.run(
            argv, input=stdin, check=False, capture_output=True, timeout=COMMAND_SECONDS * pace(os.environ)
        )
        assert done.returncode == 0, f"{command}: {done.stderr.decode()}{done.stdout.decode()}"
        return done.stdout.decode()

    def write(self, files: dict[str, str]) -> None:
        """Write files that only root may read, as managers ask for."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, text in files.items():
                entry = tarfile.TarInfo(path.lstrip("/"))
                # networkd reads its files as a user of its own.
                entry.size, entry.mode = len(text.encode()), 0o644 if path.startswith("/etc/systemd/") else 0o600
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.ssh("tar -x --no-same-owner -C /", packed.getvalue())

    def ansible(self, module: str, **arguments: Any) -> Json:
        """Run a module on the guest and give its result."""
        argv = [str(PROGRAMS / "ansible"), GUEST, "-i", str(self.lab / "inventory.yml"), "-m", module]
        environment = {
            **os.environ,
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        }
        done = subprocess.run(
            [*argv, *(["-a", json.dumps(arguments)] if arguments else [])],
            check=False,
            capture_output=True,
            text=True,
            cwd=CHECKOUT,
            env=environment,
            timeout=RUN_SECONDS * pace(os.environ),
        )
        try:
            found: Json = json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"][GUEST]
        except (ValueError, LookupError):
            pytest.fail(f"{module}: {done.stdout}{done.stderr}")
        return found

    def run(self, desired: dict[str, Any], **options: Any) -> Json:
        """Run the module that brings a host to what is desired."""
        return self.ansible("rdma.fabric.rdma_host", desired=desired, **options)

    def reboot(self) -> None:
        """Start the guest anew."""
        seconds = round(BOOT_SECONDS * pace(os.environ))
        found = self.ansible("ansible.builtin.reboot", reboot_timeout=seconds)
        assert found.get("rebooted"), found.get("msg", found)
        self.ssh("systemctl is-system-running --wait >/dev/null || true")

    def state(self) -> Json:
        """Give what the guest has of all that is asked for."""
        found: Json = json.loads(self.ssh("python3 -I -S -", STATE.encode()))
        return found

    def taken(self) -> list[str]:
        """Name the VFs that the manager has not been kept from."""
        functions = self.ssh(f"basename -a /sys/bus/pci/devices/{FUNCTION}/virtfn*/net/*").split()
        assert len(functions) == COUNT, functions
        if not self.manager.status:
            return []
        said = self.ssh(self.manager.status)
        return [name for name in functions if not re.search(rf"\b{name}\b.*\bunmanaged\s*$", said, re.MULTILINE)]

    def early_names(self) -> list[str]:
        """Give the names that files of ours give in the initial RAM disk."""
        unpack = f"cd $(mktemp -d) && unmkinitramfs {EARLY_IMAGE}$(uname -r) . && cat $(find -name '*-rdma-fabric-*')"
        return sorted(re.findall(r"^Name=(.*)$", self.ssh(f"{unpack} </dev/null"), re.MULTILINE))

    def await_addresses(self) -> None:
        """Wait until the manager has given the VLAN, which comes last, its address and its route."""

        def is_there() -> bool:
            state = self.state()
            return ["bond0.100", "10.99.0.0/16", "10.89.0.254"] in state["routes"]

        until(is_there, SETTLED_SECONDS, lambda: str(self.state()))

    def snapshot(self) -> Json:
        """Give everything of the guest that a run may touch, once its network is there."""
        self.await_addresses()
        found: Json = json.loads(self.ssh("python3 -I -S -", SNAPSHOT.read_bytes()))
        return found


class Managed(NamedTuple):
    """A guest of a manager, and what it was like before anything was done to it."""

    guest: Guest
    before: Json


@pytest.fixture(scope="module", params=sorted(MANAGERS))
def managed(
    request: pytest.FixtureRequest,
    capable: None,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Managed]:
    """A guest with two cards whose network is a manager's, but for the way to it."""
    manager = MANAGERS[request.param]
    archives = gather_packages(manager.packages, os.environ, to_standard_error) if manager.packages else []
    options = Options(tmp_path_factory.mktemp("managed"), guests=1, rails=2, cluster=False)
    for lab in started(options, pytestconfig):
        guest = Guest(lab, manager)
        # The lab's own: what configures the cards, and what waits for each of them by the address that a bond changes.
        guest.ssh("rm /etc/systemd/network/30-rail*.network && : >/etc/rdma-lab/rails")
        guest.write(dict(manager.files))
        if archives:
            install(lab, [GUEST], archives)
        if manager.named_early:
            guest.ssh(f"echo igb >>{EARLY_MODULES}")
        guest.reboot()
        guest.await_addresses()
        if not manager.keeps_routes:
            follow_advice(guest)
            guest.reboot()
        yield Managed(guest, guest.snapshot())


def follow_advice(guest: Guest) -> None:
    """Run the commands that the refusals of routes name: the manager takes them from its user only."""
    steps = guest.run(WANTED, mode="preview")["plan"]["steps"]
    refused = [step for step in steps if step["status"] == "refused"]
    assert sorted(step["target"] for step in refused) == sorted(ROUTES)
    for step in refused:
        command = step["detail"].partition("next: ")[2]
        assert command.startswith("nmcli "), step
        guest.ssh(command)


def test_what_is_asked_for_holds_over_a_reboot_and_a_run_then_has_nothing_to_do(managed: Managed) -> None:
    """The cards exchange names that they have at boot already, in the initial RAM disk too where that names them."""
    guest = managed.guest
    assert guest.run(FORMER)["plan"]["steps"] == []
    assert not guest.manager.named_early or guest.early_names() == ["rail0", "rail1"]
    result = guest.run(WANTED)
    assert not result.get("failed"), result["msg"]
    assert result["plan"]["steps"] == []
    guest.await_addresses()
    assert (guest.state(), guest.taken()) == (HELD, [])
    guest.reboot()
    guest.await_addresses()
    assert (guest.state(), guest.taken()) == (HELD, [])
    again = guest.run(WANTED)
    assert (again["changed"], again["plan"]["steps"]) == (False, [])


def test_a_foreign_name_and_a_foreign_number_of_functions_are_named(managed: Managed) -> None:
    guest = managed.guest
    path, text = guest.manager.foreign
    guest.write({FOREIGN_LINK: FOREIGN_NAME, path: text})
    steps = guest.run(WANTED, mode="preview")["plan"]["steps"]
    guest.ssh(f"rm -f {FOREIGN_LINK} {path}")
    refused = {step["id"]: step["detail"] for step in steps if step["status"] == "refused"}
    assert set(refused) == {f"naming:{FUNCTION}:boot", f"vfs:{FUNCTION}"}
    assert f"{FOREIGN_LINK} is used in place of" in refused[f"naming:{FUNCTION}:boot"]
    assert "names it storage0" in refused[f"naming:{FUNCTION}:boot"]
    assert f"{path} asks for {FUNCTIONS_OF_OTHERS}" in refused[f"vfs:{FUNCTION}"]


def test_removal_leaves_the_guest_as_it_was(managed: Managed) -> None:
    guest = managed.guest
    result = guest.run({"consents": WANTED["consents"]}, state="absent")
    assert not result.get("failed"), result["msg"]
    assert result["plan"]["steps"] == []
    # Drivers that came with the functions stay until the next start.
    guest.reboot()
    left = differences(managed.before, guest.snapshot())
    # Made anew, an image is never the same, byte for byte.
    assert [each for each in left if not each.startswith(f"files {EARLY_IMAGE}")] == []
