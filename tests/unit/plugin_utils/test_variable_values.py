# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of surveys and of the command line is read the same for every variable, and refused with what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import read_texts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import HOST, Variable
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

WRONG: dict[str, Any] = {"bool": "maybe", "int": "4x", "float": "much", "str": ["a"], "path": ["a"], "dict": "a"}
ROWS = list(TABLE.values())


def wrong_for(row: Variable) -> Any:
    """Return a value that is none of the row's type."""
    return {"a": 1} if row.type == "list" else WRONG[row.type]


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("prune", "true", True),
        ("prune", " False ", False),
        ("prune", "no", False),
        ("allow_vf_reset", "yes", True),
        ("multirail_sysctls", "1", True),
        ("wait_timeout", "4", 4),
        ("wait_timeout", " 30 ", 30),
        ("revert_seconds", "60", 60),
        ("verify_min_rate_ratio", "0.8", 0.8),
        ("verify_min_rate_ratio", 1, 1),
        ("drain_pods", " all ", "all"),
        ("context", 5, 5),
        ("manifests", "a.yaml, b.yaml", ["a.yaml", "b.yaml"]),
        ("manifests", "a.yaml\nb.yaml\n", ["a.yaml", "b.yaml"]),
        ("manifests", "[a.yaml,b.yaml]", ["a.yaml", "b.yaml"]),
        ("kernel_modules", "- tun\n- vhost_net\n", ["tun", "vhost_net"]),
        ("sysctls", "net.ipv4.ip_forward: 1\n", {"net.ipv4.ip_forward": 1}),
        ("sysctls", '{"a": 1}', {"a": 1}),
        ("node_labels", "rack=a1 row=b", {"rack": "a1", "row": "b"}),
    ],
)
def test_text_stands_for_a_value(name: str, given: Any, value: Any) -> None:
    assert value_of(TABLE[f"rdma_fabric_{name}"], given) == (value, "")


# A value of each type as surveys, the command line and inventories in INI or YAML write it.
WRITTEN: dict[str, tuple[tuple[Any, Any], ...]] = {
    "bool": tuple((text, True) for text in ("true", "True", "TRUE", " yes ", "on", "1", 1, True))
    + tuple((text, False) for text in ("false", "False", "no ", "off", "0", 0, False)),
    "int": (("1500", 1500), (" 1500", 1500), ("+1500", 1500), (1500, 1500)),
    "float": (("1", 1.0), ("1.0", 1.0), (" 1 ", 1.0), (1, 1)),
    "str": (("4", "4"), ("a in (b, c)", "a in (b, c)")),
    "path": (("/a b", "/a b"),),
    "list": tuple(
        (text, ["a", "b"]) for text in ("a,b", "a, b", "a\nb\n", "[a, b]", '["a", "b"]', "- a\n- b", ["a", "b"])
    ),
    "dict": tuple((text, {"a": "b"}) for text in ("a: b", '{"a": "b"}', "{a: b}", "a=b", {"a": "b"})),
}
SMALL = (("150", 150), (" 150", 150), ("+150", 150), (150, 150))


def test_a_value_is_taken_the_same_way_by_every_variable_of_its_type() -> None:
    none_of(
        f"{row.name}: {given!r} becomes {value_of(row, given)}"
        for row in ROWS
        if not row.choices
        for given, value in (SMALL if row.type == "int" and (row.most or 1500) < 1500 else WRITTEN[row.type])
        if value_of(row, given) != (value, "")
    )


@pytest.mark.parametrize(("given", "taken"), [(0, False), (1, True), ("256", True), (256, True), (257, False)])
def test_pairs_at_a_time_have_limits(given: Any, taken: bool) -> None:
    value, problem = value_of(TABLE["rdma_fabric_verify_parallel"], given)
    assert (value, bool(problem)) == ((int(given), False) if taken else (None, True))


@pytest.mark.parametrize("given", [2, -1, 1.0, "2", "ja"])
def test_no_other_number_is_a_boolean(given: Any) -> None:
    assert value_of(TABLE["rdma_fabric_prune"], given)[1]


def test_null_and_empty_text_are_not_given_for_every_variable() -> None:
    none_of(
        f"{row.name}: {given!r}" for row in ROWS for given in (None, "", "  ") if value_of(row, given) != (None, "")
    )


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("wait_timeout", "4x", 'is the text "4x", not a whole number of seconds from 0 on'),
        ("wait_timeout", True, "is true, not a whole number of seconds from 0 on"),
        ("wait_timeout", -1, "is the number -1, not a whole number of seconds from 0 on"),
        ("revert_seconds", "5", 'is the text "5", not a whole number of seconds from 20 to 3600'),
        ("verify_min_rate_ratio", "nan", 'is the text "nan", not a number from 0.001 to 1'),
        ("allow_reboot", "maybe", 'is the text "maybe", not true or false'),
        ("drain_pods", "some", 'is the text "some", not devices or all'),
        ("manifests", "[a.yaml", 'is the text "[a.yaml", not a list, each entry a path'),
        ("hosts_pattern", ["a"], "is a list, not text"),
    ],
)
def test_anything_else_is_refused_with_what_was_given_and_what_is_allowed(name: str, given: Any, problem: str) -> None:
    assert value_of(TABLE[f"rdma_fabric_{name}"], given) == (None, problem)


def test_preflight_refuses_a_wrong_value_of_every_variable_at_once() -> None:
    """Whoever reads it: what is read late in a run would fail when hosts were changed already."""
    wrong = {row.name: wrong_for(row) for row in ROWS if row.short != "hosts_pattern"}
    of_hosts = {name: value for name, value in wrong.items() if TABLE[name].scope == HOST}
    of_run = {name: value for name, value in wrong.items() if name not in of_hosts}
    variables = {"hostvars": {"gpu01": of_hosts, "localhost": of_run}, **of_run}
    options = {TABLE[name].short: value for name, value in of_run.items() if "preflight" in TABLE[name].readers}
    result = run_action("fabric_input", {**options, "hosts": ["gpu01"]}, task_vars=variables)
    told = " ".join(f"{found['source']} {found['path']}" for found in result["violations"]).split()
    none_of(f"{name}: {value!r} is taken" for name, value in wrong.items() if name not in told)


def test_hooks_that_are_no_files_of_the_controller_are_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yml"
    mine.touch()
    given = {"rdma_fabric_hooks_changed": ["hooks/nccl.yml", str(mine), "/not/there.yml"]}
    result = run_action("fabric_input", {"hosts": ["gpu01"]}, task_vars={"hostvars": {"gpu01": given}})
    assert (
        "rdma_fabric_hooks_changed: names hooks/nccl.yml, /not/there.yml, no file of the controller by its full path"
        in result["msg"]
    )


def test_a_task_reads_text_as_a_playbook_does() -> None:
    options: dict[str, Any] = {
        "prune": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int"},
        "pairs": {"type": "str", "choices": ["all", "hunt"]},
        "networks": {"type": "list"},
        "title": {"type": "str"},
    }
    given = {"prune": "", "wait_timeout": " 30 ", "pairs": " all", "networks": "a\nb", "title": " A run", "odd": ""}
    expected = {"wait_timeout": 30, "pairs": "all", "networks": ["a", "b"], "title": " A run", "odd": ""}
    assert read_texts(given, options) == expected
