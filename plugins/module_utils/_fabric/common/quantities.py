# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities in the form the API server stores them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_BILLION = 10**9
_LONGEST = 64
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_FORM = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,2}))?\Z", re.ASCII)


def parse_quantity(text: str) -> Fraction:
    """Return the value of a Kubernetes quantity (``500m``, ``1.5Gi``, ``2``) in its base unit (cores, bytes).

    Raises ValueError for anything else. Fractions below one billionth are rounded up, as the API server does.
    """
    return Fraction(_parse(text)[0], _BILLION)


def canonical_quantity(value: Any) -> str:
    """Return a quantity (string or number) as the API server writes it: ``1000m`` is ``1``, ``0.5`` is ``500m``.

    The rule is the one of apimachinery's resource.Quantity: no fraction, the largest fitting suffix of the family the
    author used, binary sizes below 1024 or with a fraction in decimal form. Raises ValueError when it is no quantity.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"{value!r} is not a quantity")
    billionths, family = _parse(str(value))
    if billionths == 0:
        return "0"
    if family == "binary" and abs(billionths) >= 1024 * _BILLION and billionths % _BILLION == 0:
        return _binary(billionths // _BILLION)
    return _decimal(billionths, exponent_form=family == "exponent")


def _parse(text: str) -> tuple[int, str]:
    """Return (value in billionths, family of the suffix)."""
    match = _FORM.match(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity")
    digits, binary, decimal, exponent = match.groups()
    whole, _point, part = digits.partition(".")
    number, power, family = int(whole + part), 9 - len(part), "decimal"
    if binary:
        number, family = number << _BINARY[binary], "binary"
    elif decimal:
        power += _DECIMAL[decimal]
    elif exponent:
        power, family = power + int(exponent), "exponent"
    return number * 10**power if power >= 0 else -(-number // 10**-power), family


def _binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < 60:
        number //= 1024
        power += 10
    return f"{number}{_BINARY_SUFFIX.get(power, '')}"


def _decimal(billionths: int, exponent_form: bool) -> str:
    mantissa, power = billionths, -9
    while mantissa % 1000 == 0 and (exponent_form or power < 18):
        mantissa, power = mantissa // 1000, power + 3
    suffix = (f"e{power}" if power else "") if exponent_form else _DECIMAL_SUFFIX[power]
    return f"{mantissa}{suffix}"
