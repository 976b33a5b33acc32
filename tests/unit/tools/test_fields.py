# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference of fields says what the models do."""

from __future__ import annotations

from tools.fields import page


def test_every_fate_of_a_field_is_on_the_page() -> None:
    rows = {line.split("|")[1].strip(): line for line in page().splitlines() if line.startswith("| `")}
    assert "refused: no bridge" in rows["`bridge`"]
    assert "until v0.3.0" in rows["`devicePlugin`"]
    assert "no effect" in rows["`ofedDriver.startupProbe`"]
    assert "`passthru`" in rows["`mode`"]
    assert "since v26.4.0" in rows["`global`"]
