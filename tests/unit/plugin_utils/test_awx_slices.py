# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that may be a slice is known by the name of its workflow, whichever variables tell it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.awx_slices import (
    lacks_controller,
    may_be_slice,
    why_nothing_is_deleted,
)


@pytest.mark.parametrize(
    ("task_vars", "expected"),
    [
        ({"awx_workflow_job_name": "site", "awx_job_template_name": "site"}, True),
        ({"tower_workflow_job_name": "site", "tower_job_template_name": "site"}, True),
        ({"awx_workflow_job_name": "nightly", "awx_job_template_name": "site"}, False),
        ({"awx_job_template_name": "site"}, False),
        ({"awx_workflow_job_name": "", "awx_job_template_name": ""}, False),
        ({}, False),
    ],
)
def test_a_workflow_with_the_name_of_the_template_may_be_of_slices(task_vars: dict[str, Any], expected: bool) -> None:
    assert may_be_slice(task_vars) is expected


@pytest.mark.parametrize(
    ("task_vars", "expected"),
    [
        ({"groups": {"all": ["gpu-01", "localhost"]}}, False),
        ({"groups": {"all": ["gpu-01"], "other": ["localhost"]}}, True),
        ({"groups": None}, True),
        ({}, True),
    ],
)
def test_localhost_is_looked_for_among_all_hosts(task_vars: dict[str, Any], expected: bool) -> None:
    assert lacks_controller(task_vars) is expected


def test_what_would_be_deleted_is_named_in_order_and_in_part() -> None:
    said = why_nothing_is_deleted({f"ConfigMap a/{number}" for number in range(8)})
    assert "It would delete ConfigMap a/0, ConfigMap a/1, " in said
    assert "ConfigMap a/5 and 2 more (next: rdma_fabric_prune: false" in said
