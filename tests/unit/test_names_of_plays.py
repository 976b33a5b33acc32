# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles and playbooks leave in the variables of hosts bears the name of this collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import yaml

from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import REGISTERED
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[2]
OURS = ("rdma_fabric_", "_rdma_fabric_")
FILES = [*(CHECKOUT / "roles").glob("*/tasks/*.yml"), *(CHECKOUT / "playbooks").rglob("*.yml")]
# Of add_host: where the host is, not what is left in its variables.
PLACE = {"name", "groups"}
# What facts of a host have set is given back by its own name, one of ours (roles/host/tasks/hook.yml).
GIVEN_BACK = "{{ item.key }}"


def names_left(node: Any) -> Iterator[str]:
    """Yield the names that tasks register, set and loop with, and those that add_host gives to a host."""
    if isinstance(node, list):
        for each in node:
            yield from names_left(each)
    elif isinstance(node, dict):
        yield from (str(node[key]) for key in ("register", "loop_var", "index_var") if isinstance(node.get(key), str))
        yield from node.get("ansible.builtin.set_fact") or ()
        yield from set(node.get("ansible.builtin.add_host") or ()) - PLACE
        for value in node.values():
            yield from names_left(value)


def named() -> list[tuple[str, str]]:
    """Return each name with its file."""
    read = [(path, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in FILES]
    return [(name, str(path.relative_to(CHECKOUT))) for path, tasks in read for name in names_left(tasks)]


def test_every_name_that_is_left_in_variables_bears_the_name_of_the_collection() -> None:
    assert len(named()) > len(FILES)
    none_of(
        f"{place}: {name} begins with neither of {', '.join(OURS)}"
        for name, place in named()
        if not name.startswith(OURS) and name != GIVEN_BACK
    )


def test_preflight_takes_none_of_them_for_a_variable_of_the_user() -> None:
    left = {name for name, _place in named() if name.startswith("rdma_fabric_")}
    assert left == REGISTERED
