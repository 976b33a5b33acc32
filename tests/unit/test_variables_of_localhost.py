# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles and playbooks read the variables of another host one by one.

With ansible-core before 2.19, ``"{{ hostvars['localhost'] }}"`` as a variable or option fills in the template of every
variable that the host has, whoever set it and for what: of text that came from outside as well, as an extra variable.

What is validated has all hosts. Those releases write it out as text and read that again wherever it is handed on, which
is seconds for thousands of hosts: once for a run, and not for each host.
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
ONE_VARIABLE = re.compile(r"hostvars\['localhost'\](\._?rdma_fabric_\w+|\[item\])")


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


# Files of tasks that are run for each host.
FOR_EACH_HOST = (
    "playbooks/parts/read.yml",
    "playbooks/parts/turns.yml",
    "playbooks/parts/hosts.yml",
    "roles/host/tasks",
)
WHOLE = re.compile(
    r"preflight_result\)?(\.spec)?(\.hosts)?( *\}\}|\[)|in \S*preflight_result\S*\.hosts|in \w*validated\."
)
LOOKED_UP = re.compile(r"- .*query\('ansible\.builtin\.inventory_hostnames'")


def of_each_host(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.yml"))


@pytest.mark.parametrize(
    "text",
    [
        "validated: \"{{ a if b else hostvars['localhost'].rdma_fabric_preflight_result }}\"",
        "spec: \"{{ (a if b else hostvars['localhost'].rdma_fabric_preflight_result).spec }}\"",
        'desired: "{{ rdma_fabric_preflight_result.spec.hosts[inventory_hostname] }}"',
        "when: inventory_hostname in join_validated.spec.hosts",
    ],
)
def test_all_hosts_for_each_host_are_seen(text: str) -> None:
    assert WHOLE.search(text)


def test_no_task_of_each_host_hands_on_what_was_validated_of_all() -> None:
    files = [file for path in FOR_EACH_HOST for file in of_each_host(CHECKOUT / path)]
    assert len(files) > len(FOR_EACH_HOST)
    none_of(
        f"{path.relative_to(CHECKOUT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if WHOLE.search(line)
    )
    join = (CHECKOUT / "playbooks" / "join.yml").read_text(encoding="utf-8")
    assert not re.search(r"in \w*validated\.|vars: \S*validated", join)


def test_no_condition_of_each_host_reads_the_whole_inventory() -> None:
    """A pattern is looked up in a copy of the inventory that is made for it."""
    support = (CHECKOUT / "playbooks" / "support.yml").read_text(encoding="utf-8")
    conditions = [line.strip() for line in support.splitlines() if LOOKED_UP.match(line.strip())]
    assert conditions
    assert all(line.startswith("- inventory_hostname != 'localhost' or ") for line in conditions)
