# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a comparison as JUnit XML, which CI systems and AWX show. Pure.

One suite for the hosts and one for the objects, one test case for each. A difference is a failure, what could not be
read or compared an error; objects that a comparison did not reach are skipped.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._proof.junit_xml import (
    ERROR,
    FAILURE,
    SKIPPED,
    Case,
    document_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .comparison import UNREACHABLE, host_line, object_lines
from .objects import FAILED, NOT_COMPARED, SAME

_NAME = "rdma.fabric.drift"


def junit_text(document: Mapping[str, Any]) -> str:
    """Return the XML of a document."""
    suites = {"hosts": [_host(row) for row in document["hosts"]]}
    cluster = document["cluster"]
    if cluster is not None:
        errors = [_cluster_error(cluster["server"], error) for error in cluster["errors"]]
        suites["objects"] = [*errors, *(_object(row) for row in cluster["objects"])]
    return document_of(_NAME, suites, document["generated_at"])


def _host(row: Json) -> Case:
    group = f"{_NAME}.hosts"
    if row["state"] == SAME:
        return Case(group, row["host"])
    if row["state"] in (UNREACHABLE, FAILED):
        return Case(group, row["host"], ERROR, row["state"], row["why"], row["why"])
    lines = [host_line(each) for each in row["differences"]]
    return Case(group, row["host"], FAILURE, row["state"], counted(len(lines), "difference"), "\n".join(lines))


def _object(row: Json) -> Case:
    group, name = f"{_NAME}.objects.{row['kind']}", "/".join(filter(None, (row["namespace"], row["name"])))
    if row["state"] == SAME:
        return Case(group, name)
    if row["state"] == NOT_COMPARED:
        return Case(group, name, SKIPPED, message="the comparison did not reach it")
    head, *fields = object_lines(row)
    element = ERROR if row["state"] == FAILED else FAILURE
    return Case(group, name, element, row["state"], head, "\n".join([head, *fields]))


def _cluster_error(server: str, error: Json) -> Case:
    text = "\n".join(filter(None, (error["message"], error["next_step"] and f"next: {error['next_step']}")))
    return Case(f"{_NAME}.cluster", server or "API server", ERROR, error["fault"], error["message"], text)
