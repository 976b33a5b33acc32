# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The terms of a node affinity choose the hosts that the scheduler would choose the nodes of."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

LABELS = {"pool": "gpu", "cards": "8"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "chosen"),
    [
        ("pool", "In", ["spare", "gpu"], True),
        ("pool", "In", ["spare"], False),
        ("other", "In", ["gpu"], False),
        ("pool", "NotIn", ["spare"], True),
        ("pool", "NotIn", ["spare", "gpu"], False),
        ("other", "NotIn", ["gpu"], True),
        ("pool", "Exists", [], True),
        ("other", "Exists", [], False),
        ("pool", "DoesNotExist", [], False),
        ("other", "DoesNotExist", [], True),
        ("cards", "Gt", ["7"], True),
        ("cards", "Gt", ["8"], False),
        ("cards", "Lt", ["9"], True),
        ("pool", "Lt", ["9"], False),
        ("other", "Gt", ["0"], False),
        ("cards", "Gt", [], False),
    ],
)
def test_an_operator_chooses_as_the_scheduler_does(key: str, operator: str, values: list[str], *, chosen: bool) -> None:
    term = [{"key": key, "operator": operator, "values": values}]
    assert fits({"node_selector": {}, "node_terms": [term]}, LABELS) is chosen


def test_one_term_is_enough_and_all_of_its_requirements_and_the_selector_count() -> None:
    pool = {"key": "pool", "operator": "Exists", "values": []}
    other = {"key": "other", "operator": "Exists", "values": []}
    assert fits({"node_selector": {"pool": "gpu"}, "node_terms": [[other], [pool]]}, LABELS)
    assert not fits({"node_selector": {}, "node_terms": [[pool, other]]}, LABELS)
    assert not fits({"node_selector": {"pool": "x"}, "node_terms": [[pool]]}, LABELS)
    assert fits({"node_selector": {"pool": "gpu"}}, LABELS)


def test_terms_are_read_as_they_are_given_and_checked() -> None:
    request = {"source": "p", "node_selector": {}, "node_terms": [[{"key": "pool", "operator": "Exists"}]]}
    (read,) = check_spec({"requests": [request]})["requests"]
    assert read["node_terms"] == [[{"key": "pool", "operator": "Exists", "values": []}]]
    assert check_spec({"requests": [read]})["requests"] == [read]
    wrong: list[Any] = [7, [7], [{"key": "a b", "operator": "Near", "values": [1]}], [{"keys": "a"}]]
    with pytest.raises(InvalidInput) as refused:
        check_spec({"requests": [{**request, "node_terms": wrong}]})
    said = str(refused.value)
    for place in ("node_terms[0]", "node_terms[1][0]", "node_terms[2][0].key", "node_terms[2][0].operator", "keys"):
        assert place in said
