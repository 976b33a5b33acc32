# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the host side on booted guests that are no nodes, and what the guests show of them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Mapping

import yaml

from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from tools.checkout import PROGRAMS

Json = dict[str, Any]

FUNCTION = "0000:01:00.0"  # the rail's card, and its name as udev predicts it
CARD = "enp1s0"
COMMAND_SECONDS = 300.0
RUN_SECONDS = 1500.0  # with a reboot of emulated guests
SNAPSHOT = Path(__file__).with_name("host_snapshot.py")
# Hosts with the same plan, and its steps below them.
PLAN = re.compile(r"^(?P<hosts>\S+)(?: \(\d+ hosts\))?: \d+ steps?\n(?P<steps>(?:  .*\n)+)", re.MULTILINE)
STEP_LINE = re.compile(r"^  ((?:planned|needs reboot|needs consent|refused): .*)$", re.MULTILINE)


class Fleet:
    """The guests of a lab, and somebody who runs ``site`` on them with no cluster objects.

    ``variables`` become those of the group ``rdma_fabric``.
    """

    def __init__(self, lab: Path, folder: Path, cluster: ControlPlane, variables: Mapping[str, Any]) -> None:
        self.directory = lab
        self.guests: tuple[str, ...] = tuple(guest["name"] for guest in read_state(lab)["guests"])
        self.user = User(folder / "user")
        self._cluster = cluster
        self._inventory = folder / "inventory.yml"
        self._inventory.write_text((lab / "inventory.yml").read_text(encoding="utf-8"), encoding="utf-8")
        (folder / "group_vars").mkdir()
        (folder / "group_vars" / "rdma_fabric.yml").write_text(yaml.safe_dump(dict(variables)), encoding="utf-8")

    def site(self, *arguments: str, **variables: Any) -> Outcome:
        """Run ``site`` on every guest."""
        return self.user.run(
            "site",
            *arguments,
            inventory=self._inventory,
            variables=variables,
            cluster=self._cluster,
            seconds=RUN_SECONDS,
        )

    def ssh(self, guest: str, command: str, *, stdin: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """Run a shell command on a guest; it has to succeed."""
        return on_host(self.directory, guest, command, stdin=stdin, seconds=seconds)

    def snapshots_after_start(self) -> dict[str, Json]:
        """Give a snapshot of each guest, started anew: earlier tests leave modules that only a start unloads."""
        self.reboot("rdma_fabric")
        return {guest: self.snapshot(guest) for guest in self.guests}

    def reboot(self, hosts: str) -> None:
        """Start guests anew."""
        argv = [str(PROGRAMS / "ansible"), hosts, "-i", str(self._inventory), "-m", "ansible.builtin.reboot"]
        subprocess.run(argv, check=True, capture_output=True, timeout=RUN_SECONDS)

    def snapshot(self, guest: str) -> Json:
        """Give everything of a guest that a run may touch, once the guest has started to the end."""
        return snapshot_of(self.directory, guest)

    def executed(self, guest: str) -> list[str]:
        """Give the lines of the steps that the last call of the module has executed on a guest."""
        path = self.user.here / "rdma-fabric-run" / "hosts" / f"{guest}.json"
        run = json.loads(path.read_text(encoding="utf-8"))["run"]
        return [step["line"] for step in run["executed"]]


def printed(output: str) -> dict[str, list[str]]:
    """Give the lines of steps that a run with ``--diff`` printed of each host that it changes."""
    plans = {plan["hosts"]: STEP_LINE.findall(plan["steps"]) for plan in PLAN.finditer(output)}
    return {host: steps for hosts, steps in plans.items() for host in hosts.split(",")}


def on_host(lab: Path, guest: str, command: str, *, stdin: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
    """Run a shell command on a guest of the lab in a directory; it has to succeed."""
    argv = ssh_argv(lab, guest, [command])
    done = subprocess.run(argv, input=stdin, check=False, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{guest}: {done.stderr}{done.stdout}"
    return done.stdout


def snapshot_of(lab: Path, guest: str) -> Json:
    """Give everything of a guest that a run may touch, once the guest has started to the end."""
    on_host(lab, guest, "systemctl is-system-running --wait >/dev/null || true")
    found: Json = json.loads(on_host(lab, guest, "python3 -I -S -", stdin=SNAPSHOT.read_text(encoding="utf-8")))
    return found


def differences(before: Json, after: Json) -> list[str]:
    """Tell what differs between two snapshots, a line each."""
    found = []
    for part in before:
        old, new = (
            each[part] if isinstance(each[part], dict) else dict.fromkeys(each[part], "there")
            for each in (before, after)
        )
        names = sorted({*old, *new})
        found += [
            f"{part} {name}: {old.get(name)} -> {new.get(name)}" for name in names if old.get(name) != new.get(name)
        ]
    return found
