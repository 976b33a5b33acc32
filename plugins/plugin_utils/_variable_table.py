# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable of this collection, once: what checks, roles' specifications and defaults, documents and schemas are
made from. A new one is a row of one of the files imported here, then ``python -m tools.variables``.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.plugin_utils import (
    _variable_rows_cluster,
    _variable_rows_discovery,
    _variable_rows_hooks,
    _variable_rows_hosts,
    _variable_rows_proof,
    _variable_rows_runs,
    _variable_rows_turns,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variable import CONTROLLER, HOST, Variable

SECTIONS: dict[str, tuple[Variable, ...]] = {
    "Input of the cluster side": (*_variable_rows_cluster.INPUTS, *_variable_rows_cluster.RESOURCE_ROWS),
    "Settings of the cluster side": _variable_rows_cluster.SETTING_ROWS,
    "The push": _variable_rows_cluster.PUSH,
    "Hosts": _variable_rows_hosts.WISHES,
    "Consents": _variable_rows_hosts.CONSENTS,
    "Runs": _variable_rows_runs.RUN,
    "Hosts in turn, and taking everything back": _variable_rows_turns.ROWS,
    "Hosts of a run, reboots and drains": _variable_rows_runs.OF_RUNS,
    "Hooks of a host's turn": _variable_rows_hooks.ROWS,
    "The wire proof": _variable_rows_proof.ROWS,
    "The discovery": _variable_rows_discovery.OF_THE_DISCOVERY,
}
"""All rows, under the headings of the reference."""
TABLE: dict[str, Variable] = {row.name: row for rows in SECTIONS.values() for row in rows}
OF_CONTROLLER = tuple(row for row in TABLE.values() if row.scope == CONTROLLER)
OF_HOSTS = tuple(row for row in TABLE.values() if row.scope == HOST)
