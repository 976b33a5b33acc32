# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says of a rollout whose run was killed, and what the console of a fleet says of each turn.

What the report says of turns that come to their end, and of one that failed, is in test_upgrade.py.
"""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.upgrading import WANTED, Fleet, stages


@pytest.mark.hosts("one", "two")
def test_a_killed_run_leaves_what_its_turns_came_to_and_is_healed_by_the_next_one(fleet: Fleet, states: States) -> None:
    """Killed while a node is drained; meanwhile its host is changed."""
    first = fleet.killed_in_a_turn()
    (path,) = (fleet.user.here / "rdma-fabric-run" / "turns").iterdir()
    assert path.stem == first
    fleet.run(playbook="preview").succeeded()
    (turn,) = fleet.turns()
    assert (turn["host"], turn["end"], turn["seconds"], turn["after"]) == (first, "", None, None)
    assert stages(turn) == ["drain"]
    assert (fleet.cordoned(), fleet.holders()) == ([first], [fleet.nodes[first]])
    states.give([fleet.hosts[first]], rdma_fabric_limits=WANTED)
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run().succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(fleet.names), [], [], [])
    assert f"node {fleet.nodes[first]} continues where another run left it" in " ".join(outcome.output.split())
    assert len([name for name, _what in fleet.interrupted(mark) if name != first]) == 2


@pytest.mark.hosts("one", "two")
def test_the_console_of_a_fleet_has_a_line_for_each_change_of_a_turn_and_none_for_hosts_that_wait(fleet: Fleet) -> None:
    (fleet.user.here / "ansible.cfg").write_text("[defaults]\nstdout_callback = rdma.fabric.fleet\n", encoding="utf-8")
    lines = fleet.run().succeeded().output.splitlines()
    told = [line for line in lines if line.startswith("  ... ") and line.split()[1] in fleet.names]
    assert [line.split(";")[0].split(" after ")[0].split(maxsplit=2)[2] for line in told] == [
        "begins, slot 0",
        "drained",
        "changed",
        "back",
    ] * 2
    assert told[0].endswith("; 0 of 2 back, 1 in turn, 1 to go")
    assert told[-1].endswith("; 2 of 2 back, 0 in turn, 0 to go")
    assert "about" in told[3]
    assert not [line for line in lines if "waits for a slot" in line]
    play = "\n".join(lines).split("PLAY [Interrupt the hosts in their turn]")[-1].split("PLAY [")[0].splitlines()
    assert [line for line in play[1:] if line and line not in told] == []
