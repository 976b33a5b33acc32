# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles and playbooks read the variables of another host one by one.

With ansible-core before 2.19, ``"{{ hostvars['localhost'] }}"`` as a variable or option fills in the template of every
variable that the host has, whoever set it and for what: of text that came from outside as well, as an extra variable.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = ("roles", "playbooks", "extensions", "molecule", "inventories")
OF_HOSTS = re.compile(r"\bhostvars\b")
ONE_VARIABLE = re.compile(r"hostvars\['localhost'\]\._?rdma_fabric_\w+")


def read_whole(text: str) -> Iterator[str]:
    """Yield each line, ``number: text``, that reads more of a host than one variable of this collection."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(OF_HOSTS.findall(line)) > len(ONE_VARIABLE.findall(line)):
            yield f"{number}: {line.strip()}"


@pytest.mark.parametrize(
    "text",
    [
        "verify_controller: \"{{ hostvars['localhost'] }}\"",
        "set: \"{{ hostvars.localhost | combine({'a': hostvars['localhost'].rdma_fabric_set}) }}\"",
        "loop: \"{{ hostvars['localhost'].items() }}\"",
        'hosts: "{{ hostvars }}"',
    ],
)
def test_a_whole_host_is_seen(text: str) -> None:
    assert list(read_whole(f"vars:\n  {text}\n")) == [f"2: {text}"]


def test_no_role_and_no_playbook_reads_all_variables_of_a_host() -> None:
    files = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.yml")]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    assert any(ONE_VARIABLE.search(text) for text in texts.values())
    none_of(f"{path.relative_to(CHECKOUT)}:{line}" for path, text in texts.items() for line in read_whole(text))
