# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of hosts as they are sent: compact, whichever ansible-core makes the program, and at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from tools.checkout import CHECKOUT

pytestmark = pytest.mark.repeated
PLAYBOOK = """
- name: Look
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan this machine
      rdma.fabric.rdma_host:
        desired: {kernel_modules: [rdma_ucm]}
        mode: preview
      register: planned
    - name: Read it
      rdma.fabric.rdma_info:
      register: read
    - name: Show both
      ansible.builtin.debug:
        msg: "{{ planned.facts.system.kernel }} is {{ read.facts.system.kernel }}"
"""


def sent_by(folder: Path) -> dict[str, int]:
    """Run the playbook, which makes all it sends; return how many bytes were sent of each module."""
    kept = {
        "PYTHONPATH": "",
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
        "ANSIBLE_REMOTE_TMP": str(folder / "sent"),
        "ANSIBLE_PIPELINING": "0",
    }
    guides.run(PLAYBOOK, folder, *guides.ON_THIS_MACHINE, **kept)
    sent: dict[str, int] = {}
    for path in (folder / "sent").rglob("AnsiballZ_*.py"):
        sent[path.stem] = max(path.stat().st_size, sent.get(path.stem, 0))
    return sent


def test_half_as_much_is_sent(tmp_path: Path) -> None:
    """Of this collection's sources alone; ansible-core's own part of it is a third."""
    sent = sent_by(tmp_path)
    assert set(sent) == {"AnsiballZ_rdma_host", "AnsiballZ_rdma_info"}
    host = CHECKOUT / "plugins" / "module_utils" / "_host"
    sources = [path.stat().st_size for path in host.rglob("*.py")]
    assert sent["AnsiballZ_rdma_host"] < sum(sources) / 2
