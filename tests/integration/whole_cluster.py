# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every object of a cluster, to be compared with what there was before."""

from __future__ import annotations

import http.client
import time
from typing import Any

from ansible_collections.rdma.fabric.tests.lab.api import Api, ApiError, collection_path
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget

# What comes and goes by itself: events, Leases of nodes and servers, pods, which drains evict, and what servers make of
# definitions and DaemonSets.
PASSING = {"Event", "Pod", "Lease", "EndpointSlice", "Endpoints", "ControllerRevision", "APIService"}
STORED_SECONDS = 30.0


def everything(api: Api) -> dict[str, dict[str, Any]]:
    """Return every object of a cluster by kind, namespace and name, but for what passes."""
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in api.call("GET", "/apis")["groups"])]
    found: dict[str, dict[str, Any]] = {}
    for version in versions:
        path = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        for resource in api.call("GET", path)["resources"]:
            if "list" not in resource["verbs"] or "/" in resource["name"] or resource["kind"] in PASSING:
                continue
            for body in listed(api, collection_path(version, resource["name"])):
                metadata = body["metadata"]
                place = f"{resource['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
                found[place] = body
    return found


def listed(api: Api, path: str) -> list[dict[str, Any]]:
    """Return the objects of a kind; the server answers 429 while it makes the storage of one that was just defined."""
    budget = Budget(STORED_SECONDS)
    while True:
        try:
            found: list[dict[str, Any]] = api.call("GET", path)["items"]
            return found
        except ApiError as error:
            if error.answer.status != http.client.TOO_MANY_REQUESTS or budget.left() == 0:
                raise
        time.sleep(0.2)


def kept_kinds(names: set[str]) -> set[str]:
    """Return the definitions among names of objects; no run removes one unasked."""
    return {name for name in names if name.startswith("CustomResourceDefinition ")}
