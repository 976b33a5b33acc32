# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events about nodes: what kubectl finds, and one for each failure of a run."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.events import warning_of

NOW = datetime(2026, 11, 23, 10, 0, 0, tzinfo=timezone.utc)


def test_it_is_about_the_node_as_kubectl_looks_for_it() -> None:
    event = warning_of("gpu-01", "RdmaFabricFailed", "no links", "r1", NOW)
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "gpu-01", "uid": "gpu-01"}
    assert (event["type"], event["message"], event["lastTimestamp"]) == ("Warning", "no links", "2026-11-23T10:00:00Z")


def test_one_failure_of_a_run_is_one_event() -> None:
    def name(run: str, message: str) -> str:
        return str(warning_of("gpu-01", "RdmaFabricFailed", message, run, NOW)["metadata"]["name"])

    assert name("r1", "no links") == name("r1", "no links")
    assert len({name("r1", "no links"), name("r2", "no links"), name("r1", "no GIDs")}) == 3


@pytest.mark.parametrize(("given", "kept"), [(1024, 1024), (1025, 1024)])
def test_a_message_that_the_server_would_refuse_is_cut(given: int, kept: int) -> None:
    message = warning_of("gpu-01", "RdmaFabricFailed", "x" * given, "r1", NOW)["message"]
    assert (len(message), message.endswith("...")) == (kept, given > kept)
