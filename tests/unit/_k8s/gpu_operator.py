# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster has of the GPU Operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_DRIVER = Path(__file__).resolve().parents[2] / "fixtures" / "neighbours" / "gpu-driver.yaml"


def gpu_driver(**variables: str) -> dict[str, Any]:
    """Return the DaemonSet of the GPU driver, with other variables of the container that goes first."""
    body: dict[str, Any] = yaml.safe_load(_DRIVER.read_text(encoding="utf-8"))
    env = body["spec"]["template"]["spec"]["initContainers"][0]["env"]
    kept = [each for each in env if each["name"] not in variables]
    env[:] = [*kept, *({"name": name, "value": value} for name, value in variables.items())]
    return body
