# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ConfigMaps and Secrets hold: text, or base64, or the API server refuses them.

Its refusal would print what a Secret holds, so no value of one is in a message here.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import (
    Place,
    described,
    shown,
    type_name,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.resources import Resource

_TEXTS = {"ConfigMap": "data", "Secret": "stringData"}
_ENCODED = {"ConfigMap": "binaryData", "Secret": "data"}


def check_data(resource: Resource) -> None:
    """Note what the API server refuses of what a ConfigMap or a Secret holds."""
    if resource.content.get("apiVersion") != "v1" or resource.kind not in _TEXTS:
        return
    is_secret = resource.kind == "Secret"
    for field in (_TEXTS[resource.kind], _ENCODED[resource.kind]):
        value, place = resource.content.get(field), resource.place.at(field)
        if value is not None and not isinstance(value, Mapping):
            place.violation(f"is {type_name(value)}, not a mapping")
            continue
        for key, item in (value or {}).items():
            if item is not None and not isinstance(item, str):
                _refuse_type(item, place.at(str(key)), is_secret=is_secret)
            elif field == _ENCODED[resource.kind] and not _is_base64(item or ""):
                hint = f"encode it, or give it as text in {_TEXTS[resource.kind]}"
                place.at(str(key)).violation("is no base64", hint)


def _refuse_type(value: Any, place: Place, *, is_secret: bool) -> None:
    what = type_name(value) if is_secret else described(value)
    scalar = not isinstance(value, (Mapping, list))
    hint = "quote it" + ("" if is_secret else f': "{place.written or shown(value)}"') if scalar else "put a | before it"
    place.violation(f"is {what}; the API server takes text only", hint)


def _is_base64(text: str) -> bool:
    """Tell whether Go's decoder takes it, which passes over line ends."""
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
