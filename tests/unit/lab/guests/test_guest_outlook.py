# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said before a lab is started: what has to be made first, and why it can't be had."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.tests.lab.guests.outlook import cached_parts, reasons_against, unmade


def test_on_a_fresh_machine_everything_is_still_to_be_made_and_nothing_is_touched(tmp_path: Path) -> None:
    parts = cached_parts({"XDG_CACHE_HOME": str(tmp_path)})
    assert unmade(parts) == parts
    assert {"guest image", "QEMU", "kubelet for the nodes", "the nodes' disk"} <= {part.name for part in parts}
    assert all(part.minutes > 0 for part in parts)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_cache_is_not_made_again(tmp_path: Path) -> None:
    parts = cached_parts({"XDG_CACHE_HOME": str(tmp_path)})
    for part in parts[1:]:
        part.place.mkdir(parents=True)
    assert unmade(parts) == parts[:1]


def test_a_path_too_long_for_sockets_is_a_reason_by_name(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 90)
    assert str(directory) in "\n".join(reasons_against(directory))
    assert "too long" not in "\n".join(reasons_against(Path("/lab")))
