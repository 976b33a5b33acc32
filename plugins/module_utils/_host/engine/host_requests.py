# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that operator policies make of hosts, chosen by node labels."""

from __future__ import annotations

from typing import Literal

from ..facts.labels import selects
from ..spec.host import HostRequest
from .context import Context


def requests_for(context: Context, section: Literal["driver", "peer_memory"]) -> list[HostRequest]:
    """Return the requests with this section whose node selector fits this host, by source.

    The host's labels are those the node feature discovery and the kubelet would set, then those of its variables.
    """
    labels = {**context.actual.facts["labels"], **context.desired["node_labels"]}
    fitting = [
        request
        for request in context.desired["requests"]
        if request[section] is not None and selects(request["node_selector"], labels)
    ]
    return sorted(fitting, key=lambda request: str(request["source"]))
