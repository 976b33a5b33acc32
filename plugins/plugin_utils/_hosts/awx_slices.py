# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of AWX that may be slices: their inventory has a part of the hosts, and localhost in one slice only. Pure.

Nothing tells a job that it is one. But slices are jobs of a workflow that has the name of their job template
(ansible/awx at e21dd0a0: ``JobTemplate.create_unified_job`` of awx/main/models/jobs.py, ``awx_meta_vars`` of
unified_jobs.py), and each has every n-th host of the inventory (``Inventory.get_sliced_hosts``). A workflow of one's
own may have such a name, too.
"""

from __future__ import annotations

from typing import Any, Collection, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .run_hosts import CONTROLLER

# Automation controller and AWX give both.
_PREFIXES = ("awx", "tower")
_MOST_NAMED = 6


def may_be_slice(task_vars: Mapping[str, Any]) -> bool:
    """Return whether a task's run may be one slice of several."""
    of_workflows = [task_vars.get(f"{each}_workflow_job_name") for each in _PREFIXES]
    return any(name and name == template_of(task_vars) for name in of_workflows)


def template_of(task_vars: Mapping[str, Any]) -> str:
    """Return the name of the job template that a task's run is a job of; nothing outside AWX."""
    names = [task_vars.get(f"{each}_job_template_name") for each in _PREFIXES]
    return next((str(name) for name in names if name), "")


def lacks_controller(task_vars: Mapping[str, Any]) -> bool:
    """Return whether localhost, and what is set for it, is not among the hosts of a task's inventory."""
    return CONTROLLER not in ((task_vars.get("groups") or {}).get("all") or ())


def why_nothing_is_deleted(dropped: Collection[str]) -> str:
    """Return why such a run may not delete the objects that it does not render."""
    return (
        f"this job may be a slice of its template: the workflow has its name, and {CONTROLLER}, for which an inventory "
        "may set what else belongs to the cluster, is not among its hosts. It would delete "
        f"{named(sorted(dropped), _MOST_NAMED)} (next: rdma_fabric_prune: false in sliced templates, and run one "
        "without slices to delete; or give the workflow another name)"
    )


WHY_NOT_TAKEN_DOWN = (
    "this job may be a slice of its template: the workflow has its name. A slice knows its own hosts only, and would "
    "remove the cluster objects while others still use them (next: tear down with a template without slices, or give "
    "the workflow another name)"
)
