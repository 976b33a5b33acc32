# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of what the report reads from a run directory: checked before anything is built from it."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, mismatch

Problem = Tuple[str, str]

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "number": (int, float),
    "bool": (bool,),
    "map": (dict,),
    "list": (list,),
}
_NAMES = {"str": "text", "int": "a whole number", "number": "a number", "bool": "true or false"}
_NAMES.update({"map": "a mapping", "list": "a list"})
_WRITTEN_BY = "run rdma.fabric.site or rdma.fabric.preview again: rdma_host writes this file"

# A shape is the name of a type ("?" allows null), a list with the shape of its items, or a mapping of the keys that are
# read. A key that ends in "?" may be absent; the key "*" is the shape of every value of a free mapping.
_LINK = {
    "speed_gts": "number?",
    "width": "int?",
    "max_speed_gts": "number?",
    "max_width": "int?",
    "slot_speed_gts?": "number",
    "slot_width?": "int",
}
_NIC = {
    "address": "str",
    "vendor": "str",
    "device": "str",
    "family": "str?",
    "function": "str",
    "pf": "str?",
    "driver": "str?",
    "numa_node": "int?",
    "link": _LINK,
    "netdevs": ["str"],
    "rdma": ["str"],
    "path": ["str"],
}
_GPU = {
    "address": "str",
    "vendor": "str",
    "device": "str",
    "name": "str?",
    "driver": "str?",
    "numa_node": "int?",
    "link": _LINK,
    "path": ["str"],
}
_PORT = {
    "port": "int",
    "state": "str?",
    "physical": "str?",
    "rate_gbps": "number?",
    "link_layer": "str?",
    "sm_lid": "int?",
}
_RDMA = {
    "name": "str",
    "pci": "str?",
    "node_guid": "str?",
    "firmware": "str?",
    "psid": "str?",
    "ports": [_PORT],
}
_FACTS = {
    "format": "int",
    "system": {
        "hostname": "str?",
        "machine": "str?",
        "kernel": "str?",
        "os": {"id": "str?", "version_id": "str?", "name": "str?"},
    },
    "nics": [_NIC],
    "gpus": [_GPU],
    "netdevs": [
        {"name": "str", "mtu": "int?", "carrier": "bool?", "speed_mbps": "int?", "pci": "str?", "kind?": "str"}
    ],
    "rdma": [_RDMA],
    "stack": {"flavour": "str", "version": "str?", "gpu_driver": "str?", "peer_memory": "str?"},
    "distances?": {"*": {"*": "str"}},
    "rails": [{"rail": "int", "nic": "str", "gpu": "str?", "distance": "str?"}],
    "uplinks": [{"netdev": "str", "pci": "str?", "reasons": ["str"]}],
    "labels": {"*": "str"},
    "cabling?": {"*": [{"switch": "str", "port": "str"}]},
    "unreadable": [{"path": "str", "error": "str", "meaning": "str?"}],
}
_STEP = {
    "id": "str",
    "concern": "str",
    "target": "str",
    "action": "str",
    "when": "str",
    "reason": "str",
    "interrupts": "str",
    "undo": "str",
    "status": "str",
    "consent": "str?",
    "detail": "str?",
}
_HOST: dict[str, Any] = {
    "host": "str",
    "facts": _FACTS,
    "plan": {"format": "int", "steps": [_STEP], "notices": ["str"], "digest": "str"},
    "run?": {"executed": [{"id": "str", "line": "str", "seconds": "number"}]},
}
# What tasks after rdma_host read of its result, whose words are the host's.
_ANSWER = {
    "changed?": "bool",
    "failed?": "bool",
    "msg?": "str",
    "summary?": {"labels?": {"*": "str"}},
    "facts?": "map",
    "plan?": {"steps?": ["map"], "notices?": ["str"]},
    "diff?": {"prepared?": "str"},
    "boot_id?": "str?",
    "executed?": _HOST["run?"]["executed"],
    "not_reached?": ["str"],
    "reboot_required?": "bool",
    "reload_due?": "bool",
    "reboot_only?": "bool",
    "awaiting_reboot?": ["str"],
}
_CLUSTER = {
    "results?": [
        {"apiVersion": "str", "kind": "str", "namespace": "str?", "name": "str", "wave?": "str?", "action": "str"}
    ],
    "waits?": [{"kind": "str", "namespace": "str?", "name": "str", "ready": "bool", "reason?": "str?"}],
    "unwaited?": "int",
    "requests?": {"*": "int"},
    "notices?": ["str"],
}
_RENDERED = [{"name": "str", "objects": [{"apiVersion": "str", "kind": "str", "metadata": {"name": "str"}}]}]
_SPEC = {
    "namespace": "str?",
    "cluster_policy": "map?",
    "node_policies": "list",
    "networks": "list",
    "attachments": "list",
    "objects": "list",
    "hosts": "map",
}
_VERSIONS = {"driver": "str", "kernel": "str", "firmware": ["str"]}
_TURN = {
    "format": "str",
    "host": "str",
    "node": "str",
    "run": "str",
    "slot": "str",
    "domain": "str",
    "began": "number",
    "waited": "number",
    "stages": [{"stage": "str", "at": "number", "seconds": "number?", "failed": "bool"}],
    "seconds": "number?",
    "end": "str",
    "reason": "str",
    "before": "map?",
    "after": "map?",
    "refusals": [{"pod": "str", "why": "str", "seconds": "number"}],
}
TURN_FORMAT = "rdma.fabric/turn/v1"
_STAGES = ("drain", "change", "reboot", "verify", "give_back", "roll_back")
_ENDS = ("", "given_back", "failed")
# The end of the year 2999.
_LAST_SECOND = 32503680000
_TURN_WRITTEN_BY = "delete the file; it is written again when the host has its next turn"
_FORMATS = (("facts", 1), ("plan", 1))


def host_document_violations(source: str, document: Any) -> list[Violation]:
    """Return every reason why ``document``, the parsed content of ``source``, is no host document."""
    problems = problems_of(document, _HOST, "")
    if not problems:
        for part, known in _FORMATS:
            found = document[part]["format"]
            if found != known:
                problems.append((f"{part}.format", f"is {found}; this release reads format {known}"))
    return [Violation(source, path, problem, _WRITTEN_BY) for path, problem in problems]


def facts_problems(facts: Any) -> list[str]:
    """Return what is wrong with the facts of a host, each as place and problem."""
    return [f"{path} {problem}" for path, problem in problems_of(facts, _FACTS, "facts")]


def answer_problems(answer: Mapping[str, Any], document: Mapping[str, Any] | None) -> list[str]:
    """Return what is wrong with the answer of a host to ``rdma_host``, each as place and problem.

    ``document`` is what would be kept of it, facts completed; None where nothing is. Only of an answer that has failed
    facts, plan and summary may be missing.
    """
    problems = problems_of(dict(answer), _ANSWER, "")
    missing = [key for key in ("facts", "plan", "summary") if key not in answer]
    if document is not None and not problems:
        if missing:
            problems += [] if answer.get("failed") else [(key, "is missing") for key in missing]
        else:
            problems += [(each.path, each.problem) for each in host_document_violations("", document)]
    return [f"{path} {problem}".strip() for path, problem in problems]


def turn_violations(source: str, document: Any) -> list[Violation]:
    """Return every reason why ``document``, the parsed content of ``source``, is no turn of a host."""
    problems = problems_of(document, _TURN, "")
    if not problems:
        for key in ("before", "after"):
            problems += [] if document[key] is None else problems_of(document[key], _VERSIONS, key)
        if document["format"] != TURN_FORMAT:
            problems.append(("format", f"is {document['format']!r}; this release reads {TURN_FORMAT}"))
        odd_stages = [
            (at, stage["stage"]) for at, stage in enumerate(document["stages"]) if stage["stage"] not in _STAGES
        ]
        problems += [(f"stages[{at}].stage", f"is {name!r}, which there is not") for at, name in odd_stages]
        if not 0 <= document["began"] < _LAST_SECOND:
            problems.append(("began", f"is {document['began']:g}, no time in seconds since 1970"))
        if document["end"] not in _ENDS:
            problems.append(("end", f"is {document['end']!r}, which there is not"))
    return [Violation(source, path, problem, _TURN_WRITTEN_BY) for path, problem in problems]


def cluster_violations(cluster: Any) -> list[Violation]:
    """Return every reason why ``cluster`` is no result of the batch apply (null is fine: nothing was pushed)."""
    problems = [] if cluster is None else problems_of(cluster, _CLUSTER, "")
    return [Violation("cluster", path, problem, "give the result of k8s_batch") for path, problem in problems]


def rendered_violations(rendered: Any) -> list[Violation]:
    """Return every reason why ``rendered`` is no list of waves as fabric_render returns it."""
    return [
        Violation("rendered", path, problem, "give the waves of fabric_render")
        for path, problem in problems_of(rendered, _RENDERED, "")
    ]


def spec_violations(spec: Any) -> list[Violation]:
    """Return every reason why ``spec`` cannot be the spec that fabric_input returns (null is fine: none was given)."""
    problems = [] if spec is None else problems_of(spec, _SPEC, "")
    return [Violation("spec", path, problem, "give the spec of fabric_input") for path, problem in problems]


def problems_of(value: Any, shape: Any, path: str) -> list[Problem]:
    """Return where a value does not have a shape, each as path and problem."""
    if isinstance(shape, str):
        return _scalar_problems(value, shape, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [(path, mismatch(value, "a list"))]
        return [found for index, item in enumerate(value) for found in problems_of(item, shape[0], f"{path}[{index}]")]
    if not isinstance(value, dict):
        return [(path, mismatch(value, "a mapping"))]
    return _mapping_problems(value, shape, path)


def _mapping_problems(value: dict[str, Any], shape: dict[str, Any], path: str) -> list[Problem]:
    prefix = f"{path}." if path else ""
    if "*" in shape:
        return [found for key, item in value.items() for found in problems_of(item, shape["*"], f"{prefix}{key}")]
    problems: list[Problem] = []
    for name, inner in shape.items():
        key = name.rstrip("?")
        if key in value:
            problems += problems_of(value[key], inner, f"{prefix}{key}")
        elif key == name:
            problems.append((f"{prefix}{key}", "is missing"))
    return problems


def _scalar_problems(value: Any, shape: str, path: str) -> list[Problem]:
    name = shape.rstrip("?")
    if value is None and shape.endswith("?"):
        return []
    # bool is a subclass of int in Python, not in JSON.
    if isinstance(value, _TYPES[name]) and (name == "bool" or not isinstance(value, bool)):
        return []
    return [(path, mismatch(value, _NAMES[name]))]
