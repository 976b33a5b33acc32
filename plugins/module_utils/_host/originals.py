# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the values that settings had before the first run, to bring them back. Private: it may change."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import Host, HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns import applier_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired, check_desired
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import CONCERNS, Step

# Step id -> the value before ("from") of the first step that changed it.
Originals = Dict[str, Any]

PATH = "/var/lib/rdma-fabric/originals.json"
FORMAT = 1
# Steps of these concerns about "<physical function>:<what>" set up the virtual functions, others the physical one.
_OF_FUNCTIONS = ("vfs", "mtu")
_KEPT = ("consents", "uplinks", "connection_address", "node_labels")


class BadOriginals(Exception):
    """The file of original values can't be used; the text says why and what to do."""


def read_originals(host: Host) -> Originals:
    """Return what is kept, nothing where no run has changed the host yet; raises BadOriginals."""
    try:
        text = host.read(PATH)
    except HostError as error:
        if error.code == "ENOENT":
            return {}
        raise BadOriginals(f"{error}: the values from before the first run can't be read; next: run as root") from error
    try:
        document = json.loads(text)
        settings: Originals = document["settings"]
        if document["format"] != FORMAT or not isinstance(settings, dict):
            raise ValueError("unknown form")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadOriginals(
            f"{PATH} does not hold the values from before the first run ({type(error).__name__}); nothing was changed; "
            "next: restore the file from a backup, or remove it to take the present values for the original ones"
        ) from error
    return settings


def with_steps(known: Mapping[str, Any], steps: Iterable[Step]) -> Originals:
    """Return what is to be kept once these steps are executed: the first value of every setting stays.

    Where a concern says that such a value has parts, a later step may be about others of them.
    """
    first = {str(step["id"]): step["from"] for step in steps if _can_restore(str(step["id"]))}
    kept = {**first, **known}
    for step_id, value in first.items():
        before = kept[step_id]
        if _has_parts(step_id) and isinstance(value, dict) and isinstance(before, dict):
            kept[step_id] = _with_parts(before, value)
    return {step_id: None if _of_own_functions(step_id, kept) else value for step_id, value in kept.items()}


def _with_parts(first: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first value with the parts, and their parts, that only a later one has."""
    merged = {**later, **first}
    for key, value in later.items():
        if isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = _with_parts(merged[key], value)
    return merged


def _of_own_functions(step_id: str, kept: Mapping[str, Any]) -> bool:
    """Return whether a setting is one of virtual functions that were not there before the first run."""
    concern, key = step_id.split(":", 1)
    address, colon, _what = key.rpartition(":")
    return bool(colon) and concern in _OF_FUNCTIONS and kept.get(f"vfs:{address}") == 0


def text_of(originals: Mapping[str, Any]) -> str:
    """Return the file's text: the same values give the same text."""
    document = {"format": FORMAT, "note": MARKER, "settings": dict(originals)}
    return f"{json.dumps(document, indent=1, sort_keys=True)}\n"


def removal(desired: HostDesired, originals: Mapping[str, Any]) -> HostDesired:
    """Return the wish to be rid of rdma.fabric: the original values, no files of ours, the consents of ``desired``."""
    wish = check_desired({})
    wish.update({key: desired[key] for key in _KEPT})
    wish["removing"] = True
    for concern in CONCERNS:
        applier = applier_of(concern)
        for step_id in sorted(originals):
            if applier is not None and applier.restore is not None and step_id.startswith(f"{concern}:"):
                applier.restore(wish, step_id.split(":", 1)[1], originals[step_id])
    return wish


def _has_parts(step_id: str) -> bool:
    applier = applier_of(step_id.split(":", 1)[0])
    return applier is not None and applier.parts


def _can_restore(step_id: str) -> bool:
    applier = applier_of(step_id.split(":", 1)[0])
    return applier is not None and applier.restore is not None
