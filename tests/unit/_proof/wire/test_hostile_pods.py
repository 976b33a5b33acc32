# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever programs in test pods print, kubelet says and Multus writes: each test has a verdict in printable words."""

from __future__ import annotations

import json
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pod_reasons import pod_problem
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import PodState
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import PASSED_PING, Answer, memory_pods, table
from ansible_collections.rdma.fabric.tests.unit._proof.wire.test_pair import proved
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u2028\ud800"
TEXTS = [
    ESCAPES,
    f"{ESCAPES}{PASSED_PING}{ESCAPES}",
    table().replace("92.00", ESCAPES),
    table(float("nan")),
    "listening" + ESCAPES,
    f"device|{ESCAPES}|x\ngid|a|b|c|d|e|f\nlocal|{ESCAPES}\nend\n",
    "port|||||\nmtu|" + "9" * 5000 + "\nend\n",
    "[" * 100_000,
    "\x00" * 100_000,
    "]]></system-out>",
]
STATUSES = [
    "{",
    "[[]]",
    '[{"name": 5, "ips": {}}]',
    json.dumps([{"name": ESCAPES, "interface": ESCAPES, "ips": [ESCAPES]}]),
]


def flaws(tests: list[dict[str, Any]]) -> Iterator[str]:
    assert tests
    for test in tests:
        for said in (test["summary"], *(test["problem"] or {}).values()):
            if not said.isprintable() or len(said) > 2000:
                yield f"{test['test']}: {said!r:.300}"


@pytest.mark.parametrize("program", ["probe", "collect", "ping", "rping", "serve", "ib_write_bw", "ib_write_lat"])
def test_what_a_program_prints_stays_in_its_line(program: str) -> None:
    found: list[str] = []
    for text in TEXTS:
        answers: list[Answer] = [Output(0, text, ""), Output(1, "", text), Output(0, "0|" + text + "\nend\n", text)]
        trouble = [ShellTrouble("not_running", text[:300])] if program == "probe" else []
        for answer in [*answers, *trouble]:
            shell = memory_pods()
            shell.answers.update({(pod, program): [answer] for pod in ("ns/a", "ns/b")})
            found += flaws(proved(shell))
    none_of(found)


def test_what_is_said_of_a_pod_stays_in_its_line() -> None:
    states = [PodState("ns/a", status) for status in STATUSES]
    states += [PodState("ns/a", "", pod_problem([f"Evicted: {text}"], 1.0)) for text in TEXTS]
    none_of(flaw for state in states for flaw in flaws(proved(memory_pods(), a=state)))
