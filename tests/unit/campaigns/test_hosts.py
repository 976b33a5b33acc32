# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutated hosts: files and commands are missing, cut, garbled or unreadable. Each is planned or refused, and no step of
the plan interrupts the uplink."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import (
    NOTHING,
    address_of,
    describe,
    is_executable,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import assess
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import handler_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import shares_of
from ansible_collections.rdma.fabric.tests.unit._host.test_converge_properties import CHOICES, OF_HOST, drawn, ports
from ansible_collections.rdma.fabric.tests.unit.campaigns.mutations import campaign

CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
WISHES = 12
ERRORS = ("EIO", "EACCES", "ENODEV", "EINVAL", "ESTALE", "ENOENT", "EPERM", "ENXIO")
TEXTS = (
    "",
    "\n",
    "-1\n",
    "0\n",
    "99999999999999999999\n",
    "0x\n",
    "\x00\x00",
    "{",
    "[[]]",
    "null",
    "\u202e",
    "a b c d\n" * 50,
)


def drop_tree(dice: random.Random, document: Any) -> None:
    """Take a directory away with all below it, or let nobody look into it."""
    path = dice.choice(sorted({**document["files"], **document["links"]}))
    folder = "/".join(path.split("/")[: dice.randint(2, max(path.count("/"), 2))])
    for section in ("files", "links", "binary", "errors"):
        for each in [each for each in document.get(section, {}) if each.startswith(f"{folder}/")]:
            del document[section][each]
    if dice.random() < 0.5:
        document.setdefault("errors", {})[folder] = dice.choice(ERRORS)


def change_file(dice: random.Random, document: Any) -> None:
    path = dice.choice(sorted(document["files"]))
    text = document["files"].pop(path)
    how = dice.randrange(6)
    if how == 0:
        document.setdefault("errors", {})[path] = dice.choice(ERRORS)
    elif how == 1:
        document.setdefault("binary", {})[path] = "/wD+gICA"
    elif how == 2:
        document["files"][f"{path}/x"] = text
    elif how == 3:
        document["files"][path] = dice.choice(TEXTS)
    elif how == 4:
        document["files"][path] = garbled(dice, text)


def change_link(dice: random.Random, document: Any) -> None:
    path = dice.choice(sorted(document["links"]))
    targets = ["nowhere", path, "/", "..", "/dev/null", *sorted(document["links"].values())]
    document["links"][path] = dice.choice(targets)
    if dice.random() < 0.3:
        del document["links"][path]


def change_command(dice: random.Random, document: Any) -> None:
    line = dice.choice(sorted(document["commands"]))
    found = document["commands"][line]
    how = dice.randrange(4)
    if how == 0:
        del document["commands"][line]
    elif how == 1:
        found["rc"] = dice.choice([1, 2, 127, -9])
    elif how == 2:
        found["stdout"] = dice.choice(TEXTS)
    else:
        found["stdout"] = garbled(dice, found["stdout"])


def garbled(dice: random.Random, text: str) -> str:
    """Return text that is cut, or of which some characters are others."""
    at = dice.randint(0, len(text))
    return (
        text[:at]
        + "".join(dice.choice('\x00\n 0f:,{}[]"-/\u00e9') for _each in range(dice.randint(0, 3)))
        + (text[at + 1 :] if dice.random() < 0.6 else "")
    )


def change_host(dice: random.Random, document: Any) -> None:
    """Change one thing of a recorded host."""
    host = document["recording"]
    kinds = [
        ("files", drop_tree),
        *([("files", change_file)] * 5),
        ("links", change_link),
        ("commands", change_command),
    ]
    # What an earlier mutation took away can't be changed.
    left = [change for section, change in kinds if host[section]]
    if left:
        dice.choice(left)(dice, host)


def wanted(dice: random.Random, address: str, at: int) -> dict[str, Any]:
    """Return an entry of an interface, the names of which are its own."""
    entry = {"pci": address, **drawn(dice, CHOICES)}
    if entry.get("vf_mtu", 0) > entry.get("mtu", 9000):
        del entry["vf_mtu"]
    return {key: f"{value[:-1]}{at}" if key in ("name", "rdma_name") else value for key, value in entry.items()}


@lru_cache(maxsize=None)
def hosts() -> dict[str, Any]:
    """Return every recorded host with several wishes, and what of it is the uplink."""
    found = {}
    for name, compose in FLEET.items():
        recording = compose().document()
        uplinks = gather(RecordedHost(recording))["uplinks"]
        for number in range(WISHES):
            dice = random.Random(f"{name} {number}")  # noqa: S311 - the same wishes in every run, no secret
            addresses = dice.sample([address for address, _layer in ports(name)], min(len(ports(name)), 3))
            addresses += [each["pci"] for each in uplinks if each["pci"] and each["pci"] not in addresses]
            wish = {
                "interfaces": [wanted(dice, address, at) for at, address in enumerate(addresses)],
                "protected_interfaces": [each["netdev"] for each in uplinks],
                "consents": {key: key != "uplink_change" for key in CONSENTS},
                **drawn(dice, OF_HOST),
            }
            found[f"{name} {number}"] = {"recording": recording, "wish": wish, "uplinks": uplinks}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seeds", shares_of(50_000, 100), ids=str)
def test_a_mutated_host_is_planned_without_an_interrupted_uplink(seeds: range) -> None:
    campaign(seeds, hosts(), change_host, problem)


def problem(document: Any) -> str:
    """Return what is wrong with the plan of a host."""
    try:
        seen = assess(RecordedHost(document["recording"]), check_spec(document["wish"]), CHECK, None)
    except BrokenState:
        return ""
    for step in seen.plan["steps"]:
        line = describe(step)
        if not line.isprintable():
            return f"no line: {line!r}"
        handler = handler_of(step["concern"])
        if not is_executable(step) or handler is None:
            continue
        handler.work(seen.context, step)
        for uplink in document["uplinks"]:
            named = uplink["netdev"] in (step["target"], *step["interrupts"].split())
            if step["interrupts"] != NOTHING and (named or (uplink["pci"] and address_of(step) == uplink["pci"])):
                return f"the uplink is not protected: {line}"
    return ""
