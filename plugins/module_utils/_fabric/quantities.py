# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities in the form the API server stores them. Private to this collection: it may change."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_FORM = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,2}))?$", re.ASCII)


def parse_quantity(text: str) -> Decimal:
    """Return the value of a Kubernetes quantity (``500m``, ``1.5Gi``, ``2``) in its base unit (cores, bytes).

    Raises ValueError for anything else. Fractions below one billionth are rounded up, as the API server does.
    """
    return _parse(text)[0]


def canonical_quantity(value: Any) -> str:
    """Return a quantity (string or number) as the API server writes it: ``1000m`` is ``1``, ``0.5`` is ``500m``.

    The rule is the one of apimachinery's resource.Quantity: no fraction, the largest fitting suffix of the family the
    author used, binary sizes below 1024 or with a fraction in decimal form. Raises ValueError when it is no quantity.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"{value!r} is not a quantity")
    number, family = _parse(str(value))
    if number == 0:
        return "0"
    if family == "binary" and abs(number) >= 1024 and number == number.to_integral_value():
        return _binary(int(number))
    return _decimal(number, exponent_form=family == "exponent")


def _parse(text: str) -> tuple[Decimal, str]:
    match = _FORM.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    digits, binary, decimal, exponent = match.groups()
    number = Decimal(digits)
    family = "decimal"
    if binary:
        number, family = number * (2 ** _BINARY[binary]), "binary"
    elif decimal:
        number = number.scaleb(_DECIMAL[decimal])
    elif exponent:
        number, family = number.scaleb(int(exponent)), "exponent"
    billionth = Decimal(1).scaleb(-9)
    return (number / billionth).to_integral_value(rounding=ROUND_CEILING) * billionth, family


def _binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < 60:
        number //= 1024
        power += 10
    return f"{number}{_BINARY_SUFFIX.get(power, '')}"


def _decimal(number: Decimal, exponent_form: bool) -> str:
    mantissa, power = number.scaleb(9), -9
    while mantissa % 1000 == 0 and power < 18:
        mantissa, power = mantissa / 1000, power + 3
    suffix = (f"e{power}" if power else "") if exponent_form else _DECIMAL_SUFFIX[power]
    return f"{int(mantissa)}{suffix}"
