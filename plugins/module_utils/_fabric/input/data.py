# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ConfigMaps and Secrets hold, and certificates in webhooks: text, or base64, or the API server refuses them.

Its refusal would print what a Secret holds, so no value of one is in a message here. A certificate that is no base64 it
takes for a fault of its own (500), which a push would try again until its time is over.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import described, shown, type_name

from ..common.findings import Place
from .resources import Resource

_TEXTS = {"ConfigMap": "data", "Secret": "stringData"}
_ENCODED = {"ConfigMap": "binaryData", "Secret": "data"}
# Where a kind has certificates; * stands for each item of a list.
_CERTIFICATES = {
    "ValidatingWebhookConfiguration": ("webhooks", "*", "clientConfig", "caBundle"),
    "MutatingWebhookConfiguration": ("webhooks", "*", "clientConfig", "caBundle"),
    "CustomResourceDefinition": ("spec", "conversion", "webhook", "clientConfig", "caBundle"),
    "APIService": ("spec", "caBundle"),
}


def check_certificates(resource: Resource) -> None:
    """Note certificates of a webhook, a definition or an extension of the API that the API server can't read."""
    steps = _CERTIFICATES.get(resource.kind, ())
    if not steps or ".k8s.io/" not in str(resource.content.get("apiVersion")):
        return
    for place, value in _found(resource.place, resource.content, steps):
        if not isinstance(value, str) or not _is_base64(value):
            place.violation("is not valid base64", "give the certificate (PEM) as base64, in one line or several")


def _found(place: Place, value: Any, steps: tuple[str, ...]) -> Iterator[tuple[Place, Any]]:
    """Yield what stands at the end of the steps, where something does."""
    if not steps:
        yield place, value
    elif steps[0] == "*" and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _found(place.at(number), item, steps[1:])
    elif isinstance(value, Mapping) and value.get(steps[0]) is not None:
        yield from _found(place.at(steps[0]), value[steps[0]], steps[1:])


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
                place.at(str(key)).violation("is not valid base64", hint)


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
