# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of people: values, and mistakes with their place."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.jsontext import (
    MAX_LENGTH,
    compact,
    parse_json,
    pretty,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "line 1, column 2"),
        ('{\n "a": }', "line 2, column 7"),
        ("", "line 1, column 1"),
        ("[1,\r\n2,,]", "line 2, column 3"),
    ],
)
def test_a_mistake_has_its_line_and_column(text: str, place: str) -> None:
    value, problems = parse_json(text)
    assert value is None
    assert problems[0].problem.endswith(f"at {place}")


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        '{"a": Infinity}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        '"' + "x" * MAX_LENGTH + '"',
        "1" * 5000,
        "-1e400",
        r'{"a": "\ud800"}',
        r'{"\uDFFF": 1}',
        '["\ud800"]',
    ],
)
def test_what_python_would_take_or_choke_on_is_refused(text: str) -> None:
    value, problems = parse_json(text)
    assert value is None
    assert len(problems) == 1


def test_a_list_without_its_brackets() -> None:
    assert parse_json('{"a": 1}, 2', listed=True) == ([{"a": 1}, 2], [])
    assert parse_json("1 2", listed=True)[1][0].problem.endswith("at line 1, column 3")
    assert parse_json("1]", listed=True)[1]


def test_a_character_in_two_halves_is_one() -> None:
    assert parse_json(r'["\ud83d\ude00", "\u00fc", 1e40, -12345678901234567890]') == (
        ["\U0001f600", "ü", 1e40, -12345678901234567890],
        [],
    )


def test_a_hint_shows_the_line_or_says_that_the_text_ends() -> None:
    assert parse_json('{\n  "a" 1,\n  "b": 2}')[1][0].hint == 'near: "a" 1,'
    # As in the operator's example sriov-ib-network.yaml since 25.10.
    assert parse_json('{\n  "poolName": "my-pool",\n}\n')[1][0].hint == "take out the comma before }"
    assert parse_json('["a", ]')[1][0].hint == "take out the comma before ]"
    assert parse_json("{'a': 1}")[1][0].hint == "JSON has double quotes only; near: {'a': 1}"
    for comment in ("# x", "// x"):
        (problem,) = parse_json(f'{{\n  "a": 1, {comment}\n  "b": 2\n}}')[1]
        assert problem.hint.startswith("JSON has no comments: take it out; near:")
    assert "not closed" in parse_json('{"a": [1')[1][0].hint


def test_the_two_spellings_keep_order_and_characters() -> None:
    value = {"b": "ü", "a": ["'"]}
    assert compact(value) == '{"b": "ü", "a": ["\'"]}'
    assert pretty(value) == '{\n  "b": "ü",\n  "a": [\n    "\'"\n  ]\n}\n'


@pytest.mark.parametrize(
    ("name", "answer"),
    [("vendor", "did you mean vendors?"), ("IFNAMES", "did you mean ifNames?"), ("zzz", ""), ("", "")],
)
def test_the_nearest_name(name: str, answer: str) -> None:
    assert nearest(name, ["vendors", "ifNames"]) == answer
