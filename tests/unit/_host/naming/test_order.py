# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rename that is refused keeps its name, and every other one that needs this name falls with it."""

from __future__ import annotations

from typing import Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.order import refusals_of

WANTED = {"a": "b", "b": "c", "c": "d", "x": "y", "y": "x"}


def held(name: str, refusals: Mapping[str, str]) -> str:
    return f"{WANTED[name]} stays" if WANTED[name] in refusals else ""


@pytest.mark.parametrize("names", [tuple(WANTED), tuple(reversed(WANTED))])
def test_whoever_needs_a_name_that_stays_is_refused_in_whatever_order_they_come(names: tuple[str, ...]) -> None:
    given = {"c": "it has no place"}
    assert refusals_of(names, given, held) == {**given, "b": "c stays", "a": "b stays"}
    assert given == {"c": "it has no place"}


def test_without_a_refusal_all_go() -> None:
    assert refusals_of(WANTED, {}, held) == {}
