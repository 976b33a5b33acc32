# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose pods may not reach each other by IPoIB within the host. Pure.

Mellanox/ipoib-cni, README, Limitations: traffic between pods of one host may not work with the driver of a Linux kernel
older than 5.8, or with MLNX_OFED older than 5.1, where IPoIB's enhanced mode is on.
"""

from __future__ import annotations

import json
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._needs import PART, needs_of, too_old

_KIND, _PROGRAM = "IPoIBNetwork", "ipoib"


def has_ipoib(spec: Mapping[str, Any] | None) -> bool:
    """Return whether a spec has networks over IPoIB."""
    networks = (spec or {}).get("networks") or []
    attachments = (spec or {}).get("attachments") or []
    return any(each["kind"] == _KIND for each in networks) or any(map(_calls_ipoib, attachments))


def _calls_ipoib(attachment: Mapping[str, Any]) -> bool:
    try:
        parsed = json.loads(attachment["config"])
    except (ValueError, RecursionError):
        return False
    plugins = [parsed, *(parsed.get("plugins") or [])] if isinstance(parsed, dict) else []
    return any(isinstance(each, dict) and each.get("type") == _PROGRAM for each in plugins)


def too_old_for_ipoib(facts: Mapping[str, Any]) -> str:
    """Return the driver with which pods of this host may not reach each other by IPoIB, empty where they can."""
    if not any(nic["link_layer"] == "InfiniBand" for nic in facts["nics"]):
        return ""
    return next(filter(None, (too_old(facts, need) for need in needs_of(_PROGRAM, {}) if need.kind == PART)), "")
