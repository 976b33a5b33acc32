# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a change of the uplink may wait for its confirmation."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput


def parsed(value: Any) -> tuple[Any, list[str]]:
    desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_revert_seconds": value})
    return desired["revert_seconds"], [violation.problem for violation in violations]


@pytest.mark.parametrize(("value", "seconds"), [(None, None), (20, 20), (3600, 3600)])
def test_a_time_that_makes_sense_is_taken(value: Any, seconds: int) -> None:
    assert parsed(value) == (seconds, [])
    assert check_spec({"revert_seconds": value})["revert_seconds"] == seconds


@pytest.mark.parametrize(("value", "problem"), [(0, "less than 20"), (-1, "less than 20"), (3601, "more than 3600")])
def test_a_time_that_helps_nobody_is_refused(value: int, problem: str) -> None:
    assert problem in parsed(value)[1][0]


@pytest.mark.parametrize("value", ["120", 12.5, True, [], {}])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    assert "not a whole number" in parsed(value)[1][0]
    with pytest.raises(InvalidInput):
        check_spec({"revert_seconds": value})
