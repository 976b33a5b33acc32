# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made from the table of variables holds what people write to what it takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT
from tools.variables import SCHEMA, SURVEY

CHECKER = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def mistakes(variables: dict[str, Any]) -> list[str]:
    """Return what an editor would mark."""
    return [error.message for error in CHECKER.iter_errors(variables)]


def test_an_editor_takes_every_file_of_variables_that_is_shipped() -> None:
    none_of(
        f"{path.relative_to(CHECKOUT)}: {mistake}"
        for path in (CHECKOUT / "inventories").rglob("group_vars/*.yml")
        for mistake in mistakes(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"rdma_fabric_wait_timout": 5},
        {"rdma_fabric_wait_timeout": "soon"},
        {"rdma_fabric_wait_timeout": -1},
        {"rdma_fabric_drain_pods": "some"},
        {"rdma_fabric_allow_reboot": "maybe"},
        {"rdma_fabric_interfaces": [{"current_name": "eth0", "mut": 9000}]},
        {"rdma_fabric_interfaces": [{"current_name": "eth0", "state": "upp"}]},
    ],
)
def test_an_editor_marks_a_mistake(variables: dict[str, Any]) -> None:
    assert len(mistakes(variables)) == 1


def test_an_editor_takes_templates_null_and_the_users_own_variables() -> None:
    fine: dict[str, Any] = {
        "rdma_fabric_wait_timeout": "{{ patience }}",
        "rdma_fabric_nfd": None,
        "rdma_other": [],
        "rack": 1,
    }
    assert mistakes(fine) == []


def test_every_answer_that_the_survey_offers_is_taken() -> None:
    questions = json.loads(SURVEY.read_text(encoding="utf-8"))["spec"]
    assert questions
    for question in questions:
        row = TABLE[question["variable"]]
        answers = ["", *question["choices"].splitlines(), *(question[key] for key in ("min", "max"))]
        none_of(f"{row.name}: {answer!r} {value_of(row, answer)[1]}" for answer in answers if value_of(row, answer)[1])
        assert question["required"] is False
        assert {"text", "textarea", "integer", "float", "multiplechoice"} >= {question["type"]}
