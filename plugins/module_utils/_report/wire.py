# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says about the fabric test, each network's pairs, their rates and what failed, and NCCL's. Pure."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import (
    accused_lines,
    any_cpu_words,
    headline,
    held_back_words,
    network_label,
    slow_words,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.ends import worse_lines
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import GPU_TEST

_KEPT = ("run", "started_at", "seconds", "image", "schedule", "verdict", "counts", "failures", "left_out", "parity")
_RUN_OF_NCCL = ("verdict", "started_at", "image", "launcher", "nodes", "gpus_of_each")
_OF_NCCL = ("scope", "program", "verdict", "busbw_gbytes", "expected_gbytes", "minimum_gbytes", "line")
_PODS = (
    *("node", "interface", "address", "mtu", "device", "gid_index", "rate_gbps", "software", "cpus", "any_cpu"),
    *("netdev", "cabled_to", "pairs", "failed", "sends_gbps", "receives_gbps", "share"),
)

# Whose memory a test writes from and to.
_MEMORY = {"bandwidth": "host", GPU_TEST: "gpu"}


def verification_section(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the section of a proof's document (``wire.document``), None when nothing was proved."""
    if document is None:
        return None
    return {
        **{key: document[key] for key in _KEPT},
        "headline": headline(dict(document)),
        "accused": accused_lines(dict(document)),
        "level": document.get("level"),
        "worse": worse_lines(document),
        "networks": [_network(network, document["pairs"]) for network in document["networks"]],
    }


def nccl_section(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the document of NCCL tests (``_proof.nccl_run``)."""
    tests = [{key: row[key] for key in _OF_NCCL} for row in document["tests"]]
    return {**{key: document[key] for key in _RUN_OF_NCCL}, "tests": tests}


def proof_words(section: Mapping[str, Any]) -> str:
    """Return the proof in a few words of the page's headline."""
    counts = section["counts"]
    total = counts["total"]
    noun = "pair" if total == 1 else "pairs"
    if counts["fail"]:
        return f"{counts['fail']:,} of {total:,} {noun} failed on the wire"
    if section["verdict"] == "fail":
        return f"{total:,} {noun} tested, and ports are not alike"
    return f"{total:,} {noun} proved on the wire"


def _network(network: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if row["network"] == network["network"]]
    return {
        "network": network["network"],
        "label": network_label(network),
        "resource": network["resource"],
        "rail": network["rail"],
        "nodes": network["nodes"],
        "leaves": network.get("leaves") or {},
        "pods": [{key: pod.get(key) for key in _PODS} for pod in network["pods"]],
        "accused": network["accused"],
        "slow": slow_words(own),
        "held_back": held_back_words(network["pods"]),
        "any_cpu": any_cpu_words(network["pods"]),
        "counters": network.get("counters") or [],
        "pairs": [_pair(row) for row in own],
    }


def _pair(row: Mapping[str, Any]) -> dict[str, Any]:
    tests = [
        {
            "test": test["test"],
            "from": test["from"],
            "to": test["to"],
            "verdict": test["verdict"],
            "summary": test["summary"],
            "seconds": test["seconds"],
        }
        for test in row["tests"]
    ]
    rates = [
        {
            "from": test["from"],
            "to": test["to"],
            "verdict": test["verdict"],
            "gbps": (test["figures"] or {}).get("measured_gbps"),
            "expected_gbps": (test["figures"] or {}).get("expected_gbps"),
            "limit": (test["figures"] or {}).get("limit"),
            "threshold": (test["figures"] or {}).get("threshold"),
            "memory": _MEMORY[test["test"]],
            "distance": (test["figures"] or {}).get("distance"),
        }
        for test in row["tests"]
        if test["test"] in _MEMORY
    ]
    return {"a": row["a"], "b": row["b"], "verdict": row["verdict"], "tests": tests, "rates": rates}
