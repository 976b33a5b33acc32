# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wrong value, or a misspelt name, is told in one form wherever it stands: for hosts, policies and variables."""

from __future__ import annotations

import re
from typing import Any, Iterator, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, Findings, Place
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import walk
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HOST_VARIABLES, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interface_keys import KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import VariableSurvey
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of

# No field, key or variable takes a list of lists of numbers.
WRONG = [[1]]
MISMATCH = re.compile(r"is (a list|the number 1), not .+", re.DOTALL)


def of_host(variable: str, value: Any) -> Sequence[Violation]:
    return parse_host_variables("a", {variable: value})[1]


def of_interface(key: str, value: Any) -> Sequence[Violation]:
    return of_host("rdma_fabric_interfaces", [{"pci": "0000:01:00.0", key: value}])


def of_policy(kind: str, owner: str, name: str, value: Any) -> Sequence[Violation]:
    """Return what is wrong with a spec that has one field, at the path of its owner (``env[].valueFrom``)."""
    given: Any = {name: value}
    for part in reversed([part for part in owner.split(".") if part]):
        field, _, items = part.partition("[")
        for _each in range(items.count("]")):
            given = [given]
        given = {field: given} if field else given
    findings = Findings()
    MODELS[kind].read(given, Place(findings, Document("policy.yaml", {})))
    where = re.compile(re.escape(f"{owner}.{name}".lstrip(".")).replace(r"\[\]", r"\[0\]") + r"(\[0\])*")
    return [found for found in findings.violations if where.fullmatch(found.path)]


def is_mismatch(found: Violation) -> bool:
    return MISMATCH.fullmatch(found.problem) is not None


def fields() -> Iterator[tuple[str, str, str]]:
    for kind, model in MODELS.items():
        for owner, name, field in walk(model.root):
            if field.type != "anything" and not field.refused:
                yield kind, owner, name


def test_a_value_of_another_type_is_told_in_one_form() -> None:
    told: dict[tuple[str, ...], Sequence[Violation]] = {}
    told |= {("interface", key): of_interface(key, WRONG) for key in KEYS}
    told |= {("host", name): of_host(name, WRONG) for name in HOST_VARIABLES}
    told |= {field: of_policy(*field, WRONG) for field in fields()}
    problems = {name: value_of(row, WRONG)[1] for name, row in TABLE.items() if row.type != "list"}
    told |= {("variable", name): [Violation(name, "", problem)] for name, problem in problems.items()}
    assert len(told) > 700
    assert {where: found for where, found in told.items() if not any(map(is_mismatch, found))} == {}


def test_a_misspelt_name_is_told_in_one_form_with_the_nearest_one() -> None:
    told: dict[tuple[str, ...], Sequence[Violation]] = {}
    told |= {("interface", key): of_interface(f"{key}x", None) for key in KEYS}
    told |= {(kind, owner, name): of_policy(kind, owner, f"{name}x", None) for kind, owner, name in fields()}
    assert len(told) > 500
    wrong = {
        where: found
        for where, found in told.items()
        if not any(each.problem.startswith("unknown field") and each.hint.startswith("did you mean ") for each in found)
    }
    assert wrong == {}
    violations, _notices = VariableSurvey({f"{name}x": 1 for name in TABLE}, (), dict).findings()
    assert [each.path for each in violations if each.hint.startswith("did you mean rdma_fabric_")] == sorted(
        f"{name}x" for name in TABLE
    )


@pytest.mark.parametrize(("key", "meant"), [("vf", "vfs"), ("numVfs", "vfs"), ("mac_address", "mac")])
def test_a_word_of_another_tool_leads_to_ours(key: str, meant: str) -> None:
    assert [each.hint for each in of_interface(key, 4)] == [f"did you mean {meant}?"]
