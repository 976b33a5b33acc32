# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks fill in the variables that they read, and leave the templates of all others alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.integration.playbooks import User

pytestmark = pytest.mark.repeated
HOST = "egx-01"
# Each with a file in the working folder that a variable of localhost names.
PLAYBOOKS = {
    "status": "status.json",
    "drift": "run/drift.json",
    "preview": "run/report.json",
    "support": "run/support.tar.gz",
    "discover": "found/hosts.yml",
}


def inventory(user: User, mark: Path) -> Path:
    """Return an inventory whose localhost has the variables of the run, and one of others that leaves a mark."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    controller = {
        "rdma_fabric_status_file": "status.json",
        "rdma_fabric_run_dir": "run",
        "rdma_fabric_discover_dir": "found",
        "of_others": f"{{{{ lookup('ansible.builtin.pipe', 'touch {mark}') }}}}",
    }
    recorded = {"rdma_fabric_recording": f"{RECORDINGS}/{HOST}.json.gz"}
    groups = {
        "rdma_fabric": {"hosts": {HOST: {**local, **recorded}}},
        "ungrouped": {"hosts": {"localhost": {**local, **controller}}},
    }
    path = user.here / "hosts.yml"
    path.write_text(json.dumps(groups), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("playbook", "limit"), [("status", ()), *((playbook, ("--limit", HOST)) for playbook in PLAYBOOKS)]
)
def test_a_template_that_nobody_asked_for_is_not_filled_in(
    playbook: str, limit: tuple[str, ...], tmp_path: Path
) -> None:
    """Where a limit leaves out localhost, its variables count all the same."""
    user = User(tmp_path)
    mark, as_extra = tmp_path / "of-inventory", tmp_path / "of-event"
    event = {"annotation": f"{{{{ lookup('ansible.builtin.pipe', 'touch {as_extra}') }}}}"}
    done = user.run(playbook, *limit, inventory=inventory(user, mark), variables=event).succeeded()
    assert (user.here / PLAYBOOKS[playbook]).is_file(), done.output
    assert not mark.exists()
    assert not as_extra.exists()
