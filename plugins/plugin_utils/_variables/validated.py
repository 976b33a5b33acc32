# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preflight has registered of a run, found without the table of all variables."""

from __future__ import annotations

from typing import Any, Mapping

# What a run leaves to those after it: AWX hands it to the next job of a workflow as an extra variable.
VALIDATED = "rdma_fabric_preflight_result"


def validated_of(task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what preflight has registered for the host of a task, or for localhost; nothing where it did not run."""
    found: Mapping[str, Any] = task_vars.get(VALIDATED) or {}
    return found or raw_of_controller(task_vars).get(VALIDATED) or {}


def raw_of_controller(task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables of localhost as they are before templates are filled in.

    Through hostvars, releases before 2.19 look for templates in what is registered of every host.
    """
    of_hosts = task_vars.get("hostvars") or {}
    return (of_hosts.raw_get("localhost") if hasattr(of_hosts, "raw_get") else of_hosts.get("localhost")) or {}
