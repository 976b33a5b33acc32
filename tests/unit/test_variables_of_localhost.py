# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles and playbooks leave it to their actions to read the variables of a run.

A template has to say in each place whose variable counts, and what an empty one stands for. With ansible-core before
2.19, one that hands on all variables of a host fills in each of their templates, and one that hands on what was
validated of all hosts writes it out as text and reads that again, which is seconds for thousands of hosts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import OF_CONTROLLER
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = ("roles", "playbooks", "extensions", "molecule", "inventories")
OF_HOSTS = re.compile(r"\bhostvars\b")
# Files of tasks that are run for each host.
FOR_EACH_HOST = (
    "playbooks/parts/read.yml",
    "playbooks/parts/turns.yml",
    "playbooks/parts/hosts.yml",
    "roles/host/tasks",
)
WHOLE = re.compile(r"preflight_result\)?(\.spec)?(\.hosts)?( *\}\}|\[)|in \S*preflight_result\S*\.hosts")
NAME = re.compile(r"\brdma_fabric_\w+")
# In braces, or where a condition stands: with a filter, or compared.
TEMPLATE = re.compile(r"\{\{.*\brdma_fabric_|\brdma_fabric_\w+ *(?:\||[=!]=|is )|\bnot rdma_fabric_")
LOOKED_UP = re.compile(r"- .*query\('rdma\.fabric\.run', 'hosts'\)")


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of the YAML files at and below a path, each with its place."""
    for file in [path] if path.is_file() else sorted(path.rglob("*.y*ml")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{file.relative_to(CHECKOUT)}:{number}", line


def test_no_role_and_no_playbook_reads_variables_of_another_host() -> None:
    found = [each for folder in FOLDERS for each in lines_of(CHECKOUT / folder)]
    assert len(found) > 2000
    none_of(f"{place}: {line.strip()}" for place, line in found if OF_HOSTS.search(line))


def test_no_template_reads_what_counts_once_per_run() -> None:
    """It would miss what is set for localhost: in a task of each host, and where a limit leaves out localhost."""
    found = [
        each for folder in ("roles", "playbooks") for each in lines_of(CHECKOUT / folder) if "/meta/" not in each[0]
    ]
    read = [(place, *NAME.findall(line)) for place, line in found if TEMPLATE.search(line)]
    assert any("rdma_fabric_drain" in names for _place, *names in read)
    once = {row.name for row in OF_CONTROLLER}
    none_of(f"{place}: {name}" for place, *names in read for name in names if name in once)


@pytest.mark.parametrize(
    "text",
    [
        'validated: "{{ rdma_fabric_preflight_result }}"',
        'spec: "{{ (a if b else rdma_fabric_preflight_result).spec }}"',
        'desired: "{{ rdma_fabric_preflight_result.spec.hosts[inventory_hostname] }}"',
        "when: inventory_hostname in rdma_fabric_preflight_result.spec.hosts",
    ],
)
def test_all_hosts_for_each_host_are_seen(text: str) -> None:
    assert WHOLE.search(text)


def test_no_task_of_each_host_hands_on_what_was_validated_of_all() -> None:
    found = [each for path in FOR_EACH_HOST for each in lines_of(CHECKOUT / path)]
    assert len(found) > 200
    none_of(f"{place}: {line.strip()}" for place, line in found if WHOLE.search(line))


def test_no_condition_of_each_host_reads_the_whole_inventory() -> None:
    """A pattern is looked up in a copy of the inventory that is made for it."""
    conditions = [line.strip() for _place, line in lines_of(CHECKOUT / "playbooks") if LOOKED_UP.match(line.strip())]
    assert conditions
    assert all(line.startswith("- inventory_hostname != 'localhost' or ") for line in conditions)
