# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the DOCA telemetry service looks for its configuration, and which releases of it there are.

Sources: ``manifests/state-doca-telemetry-service`` and ``hack/release.yaml`` of the Network Operator, whose releases
take a release of DOCA's own for it.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..common.jsontext import Problem

CONFIG_MAP = "doca-telemetry-service"
KEY = "dts_config_map.ini"
"""The file that the program's image looks for in the ConfigMap."""

_OPERATORS_TAG = "network-operator-"


def config_map_of(section: Mapping[str, Any]) -> str:
    """Return the name of the user's own ConfigMap; empty where the operator's configuration counts."""
    config = section.get("config")
    return str((config.get("fromConfigMap") if isinstance(config, Mapping) else "") or "")


def inherited_problems(section: Mapping[str, Any], global_config: Mapping[str, Any]) -> list[Problem]:
    """Return what surprises about a version that comes from a policy's ``global``."""
    inherited = str(global_config.get("version") or "")
    if section.get("version") or not inherited.startswith(_OPERATORS_TAG):
        return []
    problem = f"has no version and takes {inherited} from global: the service has releases of its own"
    return [Problem("", problem, "give it a version such as 1.25.5-doca3.4.0-host")]
