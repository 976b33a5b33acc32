# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable of this collection, once: what checks, roles' specifications and defaults, documents and schemas are
made from. A new one is a row of one of the files imported here, then ``python -m tools.generated``.
"""

from __future__ import annotations

from . import rows_cluster, rows_hosts, rows_proof, rows_runs, rows_turns
from .variable import CONTROLLER, HOST, Variable

SECTIONS: dict[str, tuple[Variable, ...]] = {
    "Cluster input": (*rows_cluster.INPUTS, *rows_cluster.RESOURCE_ROWS),
    "Cluster settings": rows_cluster.SETTING_ROWS,
    "The push": rows_cluster.PUSH,
    "Hosts": rows_hosts.SETTINGS,
    "Consents": rows_hosts.CONSENTS,
    "Runs": rows_runs.RUN,
    "Hosts in turn, and taking everything back": rows_turns.ROWS,
    "Hosts of a run, reboots and drains": rows_runs.OF_RUNS,
    "Hooks of a host's turn": rows_turns.HOOK_ROWS,
    "The fabric test": rows_proof.ROWS,
    "The discovery": rows_runs.OF_THE_DISCOVERY,
}
"""All rows, under the headings of the reference."""
TABLE: dict[str, Variable] = {row.name: row for rows in SECTIONS.values() for row in rows}
OF_CONTROLLER = tuple(row for row in TABLE.values() if row.scope == CONTROLLER)
OF_HOSTS = tuple(row for row in TABLE.values() if row.scope == HOST)
