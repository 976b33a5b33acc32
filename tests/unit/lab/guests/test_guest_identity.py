# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import yaml

from ansible_collections.rdma.fabric.tests.lab.guests.identity import (
    Keys,
    guest_files,
    inventory,
    known_hosts,
    ssh_config,
)
from ansible_collections.rdma.fabric.tests.lab.guests.lab import CHECKOUT, DEFAULT_DIRECTORY, KUBECONFIG, POLICY
from ansible_collections.rdma.fabric.tests.lab.guests.layout import plan_guests

GUESTS = plan_guests(2, 2)
KEYS = Keys("ssh-ed25519 USER\n", {guest.name: (f"PRIVATE {guest.name}", f"PUBLIC {guest.name}\n") for guest in GUESTS})


def test_a_guest_gets_its_own_private_key_and_nobody_elses() -> None:
    files = guest_files(GUESTS[0], GUESTS, KEYS)
    everything = "".join(files.values())
    assert files["etc/ssh/ssh_host_ed25519_key"] == "PRIVATE rdma-1"
    assert "PRIVATE rdma-2" not in everything
    assert files["etc/rdma-lab/authorized_keys"] == "ssh-ed25519 USER\n"


def test_a_guest_finds_its_cards_by_address_in_the_order_of_the_rails() -> None:
    guest = GUESTS[1]
    files = guest_files(guest, GUESTS, KEYS)
    assert files["etc/rdma-lab/rails"].split() == [port.mac for port in guest.ports]
    for port in guest.ports:
        network = files[f"etc/systemd/network/30-rail{port.rail}.network"]
        assert f"PermanentMACAddress={port.mac}\n" in network
        assert f"Address={port.address}/24\n" in network
    assert f"Address={guest.address}/24\n" in files["etc/systemd/network/20-mgmt.network"]


def test_the_guests_know_each_other_by_name() -> None:
    for guest in GUESTS:
        hosts = guest_files(guest, GUESTS, KEYS)["etc/hosts"]
        assert all(f"{each.address} {each.name}\n" in hosts for each in GUESTS)


def test_ssh_trusts_exactly_the_keys_the_guests_were_given() -> None:
    assert known_hosts(GUESTS, KEYS).splitlines() == [
        "rdma-1,192.168.77.1 PUBLIC rdma-1",
        "rdma-2,192.168.77.2 PUBLIC rdma-2",
    ]
    assert "StrictHostKeyChecking yes" in ssh_config(Path("/lab"), GUESTS)


def test_ssh_survives_a_directory_with_spaces_and_percent_signs() -> None:
    directory = Path("/my labs/100%h")
    text = ssh_config(directory, GUESTS)
    (command,) = (line.split(maxsplit=1)[1] for line in text.splitlines() if "ProxyCommand" in line)
    # ssh turns %% into % before the shell splits the words.
    words = shlex.split(command.replace("%%", "%"))
    assert words[0] == sys.executable  # ssh puts `exec` before it
    assert words[-3:] == [str(directory), "%h", "%p"]
    assert 'ControlPath "/my labs/100%%h/run/ssh-%h"' in text  # one connection for each guest
    assert 'IdentityFile "/my labs/100%%h/id_ed25519"' in text
    variables = inventory(directory, GUESTS)["all"]["children"]["rdma_fabric"]["vars"]
    assert shlex.split(variables["ansible_ssh_args"]) == ["-F", f"{directory}/ssh_config"]


def test_the_inventory_has_all_guests_in_the_collections_group() -> None:
    document = json.loads(json.dumps(inventory(Path("/lab"), GUESTS)))
    hosts = document["all"]["children"]["rdma_fabric"]["hosts"]
    assert {name: host["ansible_host"] for name, host in hosts.items()} == {
        "rdma-1": "192.168.77.1",
        "rdma-2": "192.168.77.2",
    }


def test_the_inventory_that_is_kept_says_of_the_default_lab_what_its_own_one_says() -> None:
    kept = yaml.safe_load((POLICY.parent / "hosts.yml").read_text(encoding="utf-8"))
    written = inventory(DEFAULT_DIRECTORY, GUESTS, DEFAULT_DIRECTORY / KUBECONFIG)["all"]
    default = str(DEFAULT_DIRECTORY.relative_to(CHECKOUT))
    own, localhost = kept["rdma_fabric"], kept["ungrouped"]["hosts"]["localhost"]
    assert localhost.pop("rdma_fabric_kubeconfig").endswith(f"/{default}/{KUBECONFIG}")
    assert localhost == written["children"]["ungrouped"]["hosts"]["localhost"]
    assert f"/{default}/ssh_config" in own["vars"].pop("ansible_ssh_args")
    del written["children"]["rdma_fabric"]["vars"]["ansible_ssh_args"]
    assert own == written["children"]["rdma_fabric"]
