# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVIDIA Network Operator made of a policy, as it was recorded, and what is rendered of the same policy."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import read_text
from tools.checkout import CHECKOUT

FOLDER = CHECKOUT / "tests" / "fixtures" / "operator"


def rendered(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is rendered of the recorded policy."""
    given = read_text("policy.yaml", (FOLDER / "policy.yaml").read_text(encoding="utf-8"))
    for document in given:
        if "openshift" in settings and document.content["kind"] == "NicClusterPolicy":
            document.content["spec"]["nvIpam"]["enableWebhook"] = True
    spec, _notices = build_spec(given, {}, {"nfd": False, **settings}, {})
    return objects_of(render(spec))
