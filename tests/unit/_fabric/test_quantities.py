# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities in the API server's own form: what apimachinery's resource.Quantity prints, and prints again of that."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.quantities import (
    canonical_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("0.1", "100m"),
        ("100m", "100m"),
        (8, "8"),
        (0.5, "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0.9765625Ki", "1k"),
        ("1000Ki", "1000Ki"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1000000", "1M"),
        ("1.5M", "1500k"),
        ("0", "0"),
        ("0Mi", "0"),
        ("1e3", "1e3"),
        ("12e2", "1200"),
        ("5e-1", "500e-3"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-1", "-1"),
        ("+1", "1"),
        (".5", "500m"),
        ("5.", "5"),
        ("1e99", "1e99"),
        ("123456789012345678901234567890123", "123456789012345678901234567890123"),
        ("1.000000000000000000000000000000001", "1000000001n"),
    ],
)
def test_a_quantity_gets_the_form_the_server_stores(given: Any, stored: str) -> None:
    assert canonical_quantity(given) == stored
    assert canonical_quantity(stored) == stored


@pytest.mark.parametrize(
    "given",
    ["", "1 Gi", "1GiB", "Gi", "abc", "1e", "1.2.3", "--1", "\u0661", True, None, [], "1\n", "9" * 10_000],
)
def test_what_is_no_quantity_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        canonical_quantity(given)


def test_values_can_be_compared() -> None:
    assert parse_quantity("1Gi") > parse_quantity("1G") > parse_quantity("1M")
    assert parse_quantity("0.25") == Fraction(1, 4)
    assert parse_quantity("1e40") % 1 == 0
