# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""E-switches of a booted guest: the kernel's own devlink, representors and settings of functions, with what fails.

The card is the kernel's netdevsim; ``pci_standin.py`` says what of it is a stand-in. Faults are the driver's: it makes
four functions, takes rates in legacy mode only, needs numbers of ports that nobody has, and fails a reload when it is
told to. What else it can fail (health, traps, offload of routes, tunnels) the host side asks nothing of.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.guests import nvme_over_rdma
from ansible_collections.rdma.fabric.tests.guests.host_runs import SNAPSHOT, Json, differences
from ansible_collections.rdma.fabric.tests.lab.guests.netdevsim import gather_netdevsim
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error
from tools.checkout import CHECKOUT

GUEST = "rdma-1"
DEVICE = "netdevsim1"
CARD = "0000:3b:00.0"
BUS = "/sys/bus/netdevsim"
NUMBER = f"{BUS}/devices/{DEVICE}/sriov_numvfs"
FAULTS_OF = f"/sys/kernel/debug/netdevsim/{DEVICE}"
STANDIN = "tests/guests/pci_standin.py"
FOLDER = "/run/netdevsim-lab"
SECONDS = 600.0
ASKED: Mapping[str, Any] = {"pci": CARD, "name": "sim0", "vfs": 4}
SWITCHDEV: Mapping[str, Any] = {
    **ASKED,
    "eswitch_mode": "switchdev",
    "representor_prefix": "sim0r",
    "vf_settings": {"mac": "deterministic", "max_tx_rate": 1000},
}
OF_LEGACY_MODE: Mapping[str, Any] = {
    "vlan": 100,
    "trust": True,
    "spoofchk": True,
    "max_tx_rate": 2000,
    "link_state": "enable",
}
LEGACY: Mapping[str, Any] = {
    **ASKED,
    "eswitch_mode": "legacy",
    "vf_settings": {"mac": "deterministic", **OF_LEGACY_MODE},
}
STEP_OF_MODE = f"eswitch:{CARD}"
STEP_OF_NUMBER = f"vfs:{CARD}"
STEP_OF_RDMA_NAME = f"naming:{CARD}:rdma"
STEP_OF_SETTINGS = f"vfs:{CARD}:settings"
RENAME = "naming:representors"
# The kernel's view, read without anything of the collection.
STATE = f"""
import json, os, subprocess
def told(*argv):
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
net = "{BUS}/devices/{DEVICE}/net"
names = {{open(f"{{net}}/{{name}}/phys_port_name").read().strip(): name for name in os.listdir(net)}}
port = told("ip", "-json", "link", "show", "dev", names.pop("p1"))[0]
shown = told("devlink", "-j", "dev", "eswitch", "show", "netdevsim/{DEVICE}")
print(json.dumps({{
    "mode": shown["dev"]["netdevsim/{DEVICE}"]["mode"],
    "functions": int(open("{NUMBER}").read()),
    "settings": [
        {{"vlan": entry["vlan_list"][0].get("vlan", 0), "trust": entry["trust"], "spoofchk": entry["spoofchk"],
          "max_tx_rate": entry["rate"]["max_tx"], "link_state": entry["link_state"]}}
        for entry in port.get("vfinfo_list", [])
    ],
    "representors": names,
}}))
"""
SOFT_RDMA, RENAMED = "simrdma0", "simrail0"
ADDRESS = "10.88.0.1"
WITH_RDMA = f"""
port=$(ls {BUS}/devices/{DEVICE}/net) && ip address add {ADDRESS}/24 dev $port && ip link set dev $port up &&
    rdma link add {SOFT_RDMA} type rxe netdev $port
"""
STILL_USED = f"ls /sys/class/infiniband | grep ^sim; cat {FOLDER}/mounted/file /proc/{{}}/comm"
LOSSLESS: Mapping[str, Any] = {
    "dcbx": "os",
    "trust": "dscp",
    "dscp_priority": {"26": 4, "46": 6},
    "cable_length": 20,
    "ets": {"0": 40, "4": 60, "6": "strict"},
    "pfc": [4],
}
DCB = f"""
port=$(ls {BUS}/devices/{DEVICE}/net) && for what in app dcbx ets pfc; do dcb -N $what show dev $port; done
"""
# With the priorities that DSCPs have where none is asked for.
OF_LOSSLESS = (
    *("24:3", "25:3", "26:4", "27:3", "46:6", "47:5", "63:7"),
    *("host", "delay 20", "prio-pfc 0:off 1:off 2:off 3:off 4:on 5:off 6:off 7:off"),
    *("tc-bw 0:40 1:0 2:0 3:0 4:60 5:0", "tc-tsa 0:ets 1:ets 2:ets 3:ets 4:ets 5:ets 6:strict 7:ets"),
)
NOTHING: Mapping[str, Any] = {"mode": "legacy", "functions": 0, "settings": [], "representors": {}}
DEFAULTS: Mapping[str, Any] = {"vlan": 0, "trust": False, "spoofchk": False, "max_tx_rate": 0, "link_state": "auto"}


class Simulated(NamedTuple):
    """A running guest with a simulated card."""

    lab: Path

    def ssh(self, command: str, stdin: bytes = b"") -> str:
        """Run a shell command; it has to succeed."""
        argv = ssh_argv(self.lab, GUEST, [command])
        done = subprocess.run(argv, input=stdin, check=False, capture_output=True, timeout=SECONDS)
        assert done.returncode == 0, f"{command}: {done.stderr.decode()}{done.stdout.decode()}"
        return done.stdout.decode()

    def run(
        self,
        *interfaces: Mapping[str, Any],
        faults: Mapping[str, str] | None = None,
        desired: Mapping[str, Any] | None = None,
        **order: Any,
    ) -> Json:
        """Bring the guest to what is asked of its interfaces, and whatever else of it."""
        desired = {"interfaces": list(interfaces), "consents": {"vf_reset": True}, **(desired or {})}
        text = json.dumps({**order, "desired": desired, "faults": dict(faults or {})})
        program = "python3 -m ansible_collections.rdma.fabric.tests.guests.pci_standin"
        found: Json = json.loads(self.ssh(f"cd {FOLDER} && {program}", text.encode()))
        return found

    def done(self, *interfaces: Mapping[str, Any], **order: Any) -> Json:
        """Bring the guest to what is asked of its interfaces; the run has to come to its end."""
        result = self.run(*interfaces, **order)
        assert not result.get("failed"), result["msg"]
        assert result["plan"]["steps"] == [], result["msg"]
        return result

    def state(self) -> Json:
        """Give what the kernel tells of the card."""
        found: Json = json.loads(self.ssh("udevadm settle && python3 -I -S -", STATE.encode()))
        return found

    def snapshot(self) -> Json:
        """Give everything of the guest that a run may touch."""
        found: Json = json.loads(self.ssh("udevadm settle && python3 -I -S -", SNAPSHOT.read_bytes()))
        return found


def held(asked: Mapping[str, Any]) -> Json:
    """Give what the kernel is to tell of a card of which this is asked."""
    switchdev = asked["eswitch_mode"] == "switchdev"
    settings = {key: value for key, value in (asked.get("vf_settings") or {}).items() if key != "mac"}
    return {
        "mode": asked["eswitch_mode"],
        "functions": asked["vfs"],
        "settings": [{**DEFAULTS, **settings}] * asked["vfs"],
        "representors": {f"pf0vf{number}": f"sim0r{number}" for number in range(asked["vfs"])} if switchdev else {},
    }


def packed() -> bytes:
    """Give the archive of the host core and of the program that runs it, laid out as the collection is installed."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        for path in ("plugins/module_utils", STANDIN):
            archive.add(
                CHECKOUT / path,
                f"ansible_collections/rdma/fabric/{path}",
                filter=lambda entry: None if "__pycache__" in entry.name else entry,
            )
    return found.getvalue()


@pytest.fixture(scope="module")
def guest(lab: Path) -> Iterator[Simulated]:
    """A guest whose kernel simulates cards, and the programs for it; nothing of them stays."""
    module = gather_netdevsim(os.environ, to_standard_error)
    guest = Simulated(lab)
    guest.ssh(f"mkdir {FOLDER} && tar -x --no-same-owner -C {FOLDER}", packed())
    guest.ssh(f"cat > {FOLDER}/{module.name}", module.read_bytes())
    needed = f"$(modinfo -F depends {module.name} | tr , ' ')"
    guest.ssh(f"cd {FOLDER} && modprobe -a dummy {needed} && insmod {module.name}")
    yield guest
    guest.ssh(f"rmmod netdevsim && rm -r {FOLDER}")


@pytest.fixture
def card(guest: Simulated) -> Iterator[Simulated]:
    """The guest with a new card of one port and four queues: the driver remembers settings of functions that went."""
    guest.ssh(f"echo 1 1 4 > {BUS}/new_device")
    assert guest.state() == NOTHING
    yield guest
    guest.ssh(f"echo 1 > {BUS}/del_device; ip link | grep -o 'sim[0-9a-z]*' | sort -u | xargs -r -n 1 ip link delete")


@pytest.fixture
def removed(card: Simulated) -> Iterator[Simulated]:
    """The card, which is as it was before any run once more in the end."""
    yield card
    card.done(state="absent")
    state = card.state()
    assert (state["mode"], state["functions"], state["representors"]) == ("legacy", 0, {})


def test_switchdev_and_back_and_removal_leaves_nothing(card: Simulated) -> None:
    before = card.snapshot()
    card.done(SWITCHDEV)
    assert card.state() == held(SWITCHDEV)
    assert not card.done(SWITCHDEV)["changed"]
    executed = [step["id"] for step in card.done(LEGACY)["executed"]]
    assert executed.index(STEP_OF_MODE) < executed.index(STEP_OF_SETTINGS), "the kernel takes the rate in legacy mode"
    assert card.state() == held(LEGACY)
    assert not card.done(LEGACY)["changed"]
    card.done(state="absent")
    assert differences(before, card.snapshot()) == []


def test_functions_of_others_get_back_what_they_had(card: Simulated) -> None:
    drivers = " && ".join(f"ip link add sim1v{number} type dummy" for number in range(2))
    rates = " && ".join(f"ip link set dev $port vf {number} max_tx_rate 500 trust on" for number in range(2))
    card.ssh(f"echo 2 > {NUMBER} && {drivers} && port=$(ls {BUS}/devices/{DEVICE}/net) && {rates}")
    before = card.state()
    assert before["settings"] == [{**DEFAULTS, "max_tx_rate": 500, "trust": True}] * 2
    card.done({**SWITCHDEV, "vfs": 2})
    assert card.state()["mode"] == "switchdev"
    card.done(state="absent")
    assert card.state() == before


class Fault(NamedTuple):
    """What befalls the card right before a step, how that ends, and what of the step's error a person reads."""

    step: str
    command: str
    repair: str
    said: tuple[str, ...]


FAULTS = {
    "another program has made VFs": Fault(
        STEP_OF_NUMBER,
        f"echo 2 > {NUMBER}",
        f"echo 0 > {NUMBER}",
        (NUMBER.replace(f"{BUS}/devices/{DEVICE}", f"/sys/bus/pci/devices/{CARD}"), "EBUSY", "next: "),
    ),
    "the driver is gone": Fault(
        STEP_OF_NUMBER,
        f"echo {DEVICE} > {BUS}/drivers/netdevsim/unbind",
        f"echo {DEVICE} > {BUS}/drivers/netdevsim/bind",
        ("ENOENT", "next: "),
    ),
    "a representor can not be made": Fault(
        STEP_OF_MODE,
        f"echo 130 > {BUS}/devices/{DEVICE}/new_port",
        f"echo 130 > {BUS}/devices/{DEVICE}/del_port",
        (f"devlink dev eswitch set pci/{CARD} mode switchdev", "Failed to initialize VFs' netdevsim ports", "next: "),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_step_that_fails_tells_why_and_the_next_run_gets_there(removed: Simulated, name: str) -> None:
    fault = FAULTS[name]
    result = removed.run(SWITCHDEV, faults={fault.step: fault.command})
    removed.ssh(f"{fault.repair} && udevadm settle")
    assert result["failed"]
    assert result["failed_step"]["id"] == fault.step
    assert [part for part in fault.said if part not in result["failed_step"]["error"]] == [], result["msg"]
    assert result["failed_step"]["not_undone"] == []
    after = removed.state()
    assert (after["mode"], after["representors"]) == ("legacy", {})
    assert after["functions"] == (SWITCHDEV["vfs"] if fault.step == STEP_OF_MODE else 0)
    removed.done(SWITCHDEV)
    assert removed.state() == held(SWITCHDEV)


def test_what_fails_in_legacy_mode(removed: Simulated) -> None:
    """More functions than the driver makes, and a reload after which the card has no port.

    The mode is not asked for: as with mlx5, the port has a switch id in both.
    """
    asked = {**ASKED, "vf_settings": {"trust": True}}
    result = removed.run({**asked, "vfs": 6})
    assert result["failed_step"]["id"] == STEP_OF_NUMBER
    assert "Cannot allocate memory (ENOMEM)" in result["msg"] and "next: " in result["msg"]
    assert removed.state() == NOTHING
    removed.done(asked)
    assert removed.state() == held({**asked, "eswitch_mode": "legacy"})

    reload = f"devlink dev reload netdevsim/{DEVICE}"
    removed.ssh(f"cd {FAULTS_OF} && echo Y > fail_reload && ! {reload} && echo N > fail_reload")
    result = removed.run({**asked, "vf_settings": {"trust": False}})
    refused = [step["id"] for step in result["plan"]["steps"] if step["status"] == "refused"]
    assert result["failed"], result["msg"]
    assert STEP_OF_SETTINGS in refused
    removed.ssh(f"{reload} && udevadm settle")
    removed.done(asked)
    assert removed.state() == held({**asked, "eswitch_mode": "legacy"})


def test_what_fails_in_switchdev_mode(removed: Simulated) -> None:
    """A name that another interface has, and a rate, which the driver takes in legacy mode only."""
    taken = "ip link add sim0r2 type dummy"
    left = removed.run(SWITCHDEV, faults={STEP_OF_MODE: taken})["plan"]["steps"]
    assert [step["id"] for step in left] == [RENAME]
    result = removed.run(SWITCHDEV)
    assert result["failed_step"]["id"] == RENAME
    assert "File exists" in result["msg"] and "next: " in result["msg"]
    assert [step["id"] for step in result["plan"]["steps"]] == [RENAME], "no file of the rename is left"
    removed.ssh("ip link delete sim0r2")
    removed.done(SWITCHDEV)
    assert removed.state() == held(SWITCHDEV)

    result = removed.run({**SWITCHDEV, "vf_settings": {"max_tx_rate": 2000}})
    assert result["failed_step"]["id"] == STEP_OF_SETTINGS
    assert "Operation not supported" in result["msg"] and "next: " in result["msg"]
    assert removed.state() == held(SWITCHDEV)


def test_lossless_roce_is_what_dcb_tells_of_it_and_goes_again(card: Simulated) -> None:
    """The program and the kernel's table of DSCPs are real; the port only remembers shares and lossless priorities."""
    asked = {"pci": CARD, "qos": LOSSLESS}
    before = card.ssh(DCB)
    card.done(asked)
    said = card.ssh(DCB)
    assert [part for part in OF_LOSSLESS if part not in said] == [], said
    assert not card.done(asked)["changed"]
    card.done({**asked, "qos": {**LOSSLESS, "dscp_priority": {"26": 3}, "pfc": []}})
    said = card.ssh(DCB)
    assert ("26:3" in said, "46:6" in said, ":on" in said) == (True, True, False), said
    card.done(state="absent")
    assert card.ssh(DCB) == before


@pytest.fixture
def used(card: Simulated) -> Iterator[tuple[Simulated, str]]:
    """The card, and a program with an open verbs device of its soft RDMA, over which NVMe is mounted."""
    card.ssh(WITH_RDMA)
    card.ssh(nvme_over_rdma.mount(FOLDER, ADDRESS))
    pid = card.ssh(nvme_over_rdma.open_verbs(SOFT_RDMA)).strip()
    yield card, pid
    card.ssh(f"kill {pid}; {nvme_over_rdma.unmount(FOLDER)}")
    card.ssh("rdma link delete $(ls /sys/class/infiniband | grep ^sim)")


def test_users_of_an_rdma_device_are_named_before_each_step_that_takes_it_and_lose_nothing_without_consent(
    used: tuple[Simulated, str],
) -> None:
    card, pid = used
    users = (
        f"{nvme_over_rdma.PROGRAM} (pid {pid})",
        f"nvme_rdma to {ADDRESS} with {FOLDER}/mounted on it",
        "kernel module nvmet_rdma",
    )
    in_use = f"{SOFT_RDMA}\nkept\n{nvme_over_rdma.PROGRAM}\n"
    asked = {"pci": CARD, "eswitch_mode": "switchdev", "rdma_name": RENAMED}
    plan = {step["id"]: step for step in card.run(asked)["plan"]["steps"]}
    for step in (plan[STEP_OF_MODE], plan[STEP_OF_RDMA_NAME]):
        assert step["status"] == "needs_consent"
        assert [who for who in users if who not in step["interrupts"]] == []
    assert (card.state(), card.ssh(STILL_USED.format(pid))) == (NOTHING, in_use)
    result = card.done(asked, desired={"consents": {"driver_reload": True}})
    assert {STEP_OF_MODE, STEP_OF_RDMA_NAME} <= {step["id"] for step in result["executed"]}
    assert card.state()["mode"] == "switchdev"
    assert card.ssh(STILL_USED.format(pid)).startswith(RENAMED), "the kernel's simulation makes no device anew"
    card.done(state="absent", desired={"consents": {"driver_reload": True}})
    assert (card.state(), card.ssh(STILL_USED.format(pid))) == (NOTHING, in_use)
