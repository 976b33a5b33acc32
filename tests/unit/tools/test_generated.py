# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made from tables, models and results is what these say."""

from __future__ import annotations

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.generated import stale


def test_every_generated_file_is_what_it_is_made_from() -> None:
    none_of(stale())
