# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide to questions: its commands and its plays, as they are printed, on a preview of the recorded fleet."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, run_bounded
from tools.checkout import PROGRAMS
from tools.fleet import INVENTORY

TEXT = guide("guide-queries.md")
PLAYS = dict(zip(("firmware.yml", "window.yml"), blocks_of(TEXT)))
# What each question of the guide finds of the recorded fleet.
FOUND: dict[str, Any] = {
    "who waits for a reboot": ["dgx-h100-01", "dgx-h100-02"],
    "what is refused, where and why": [
        {"hosts": [name], "why": [f"packages of DOCA-OFED are not known for Ubuntu 18.04.{release} LTS"]}
        for name, release in (("egx-01", 4), ("egx-02", 5))
    ],
    "rails without a link": [{"host": "dgx-h100-02", "down": ["0000:5e:00.0"]}],
    "what stands out": [
        ["dgx-h100-02", "rail_down", "rail 3, down, Polling"],
        ["dgx-h100-02", "pcie_degraded", "16 GT/s x16 of 32 GT/s x16"],
        ["dgx-h100-02", "firmware_differs", "28.36.1010, ConnectX-7 elsewhere 28.39.3560"],
        ["roce-h100-01", "firmware_differs", "28.43.2026, ConnectX-7 elsewhere 28.39.3560"],
        ["egx-02", "driver_differs", "inbox, elsewhere mlnx-ofed 5.0-2.1.8"],
        ["vm-vf-01", "zero_guid", "node GUID 0000:0000:0000:0000"],
    ],
}


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    found = User(tmp_path_factory.mktemp("queries"))
    found.run("preview", inventory=INVENTORY).succeeded()
    for name, play in PLAYS.items():
        assert f"`{name}`" in TEXT
        (found.here / name).write_text(play, encoding="utf-8")
    return found


def questions() -> dict[str, list[str]]:
    lines = [line for line in TEXT.splitlines() if line.startswith("jp.py ")]
    return {line.rpartition("# ")[2]: shlex.split(line, comments=True) for line in lines}


def test_each_question_of_a_run_is_answered(user: User) -> None:
    run = user.here / "rdma-fabric-run"
    answers = {}
    for name, words in questions().items():
        status, output = run_bounded([str(PROGRAMS / words[0]), *words[1:]], run, user.environment(None, None))
        assert status == 0, output
        answers[name] = json.loads(output)
    for found in answers["what is refused, where and why"]:
        found["why"] = [text.partition(";")[0] for text in found["why"]]
    host = json.loads((run / "hosts" / "dgx-h100-02.json").read_text(encoding="utf-8"))
    of_host = {
        "the firmware of a host's cards": [
            [card["name"], card["psid"], card["firmware"]] for card in host["facts"]["rdma"]
        ],
        "its steps for the next boot": [step["action"] for step in host["plan"]["steps"] if step["when"] == "boot"],
    }
    assert all(of_host.values())
    assert answers == {**FOUND, **of_host}


def results(output: str, word: str) -> dict[str, Any]:
    """Return the message of each host's result that begins with ``word``, as Ansible prints it over several lines."""
    found = re.findall(rf"^{word}: \[(\S+)\].*? => (\{{\n.*?^\}})", output, re.MULTILINE | re.DOTALL)
    return {host: json.loads(text)["msg"] for host, text in found}


def test_the_play_names_hosts_whose_cards_have_another_firmware(user: User) -> None:
    outcome = user.run("./firmware.yml", inventory=INVENTORY)
    assert outcome.status != 0
    named = results(outcome.output, "fatal")
    assert set(named) == {"dgx-h100-02", "roce-h100-01"}
    assert named["dgx-h100-02"] == "not 28.39.3560: mlx5_10 28.36.1010"
    slow = results(outcome.output.partition("TASK [Fail")[0], "ok")
    assert {host: ports for host, ports in slow.items() if ports} == {"dgx-h100-02": ["0000:c0:00.0"]}
    assert outcome.changed == dict.fromkeys(outcome.changed, 0)


def test_the_play_that_follows_asks_the_report(user: User) -> None:
    outcome = user.run("./window.yml")
    assert outcome.status != 0
    assert results(outcome.output, "fatal") == {"localhost": "a window is needed for dgx-h100-01, dgx-h100-02"}
