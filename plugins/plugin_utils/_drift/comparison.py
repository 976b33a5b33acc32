# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where hosts and cluster are not what the input asks for: the document of a comparison, and what it comes to. Pure.

A difference, a host that was not read and an object that was not compared are three things: only where everything was
compared does "no difference" mean anything. ``docs/drift.schema.json`` describes the document.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import NEEDS_REBOOT
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold_names
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.plan_classes import plan_lines_of_classes
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .objects import DIFFERS, FAILED, LEFT_OVER, MISSING, NOT_COMPARED, SAME, name_of, origin_of, owners_text

FORMAT = "rdma.fabric/drift/v1"
UNREACHABLE = "unreachable"
DRIFT, ERROR = "drift", "error"
"""Outcomes beside ``same``."""
_UNREAD = (UNREACHABLE, FAILED)
_DIFFERENT = (DIFFERS, MISSING, LEFT_OVER)
_UNCOMPARED = (FAILED, NOT_COMPARED)
_WORDS = {
    SAME: "matching",
    DIFFERS: "different",
    MISSING: "missing",
    LEFT_OVER: "left over",
    UNREACHABLE: "unreachable",
    FAILED: "failed",
    NOT_COMPARED: "not compared",
}
# States, what they are called together, and what to do about one or several.
_OF_HOSTS: Sequence[tuple[Sequence[str], str, str]] = (
    ((DIFFERS,), "different", "rdma.fabric.site --check --diff shows what a run would do about it"),
    (_UNREAD, "not read", "fix {them}, or leave {them} out with --limit"),
)
_OF_OBJECTS: Sequence[tuple[Sequence[str], str, str]] = (
    (_DIFFERENT, "different", "rdma.fabric.site reverts {them}; to keep a value, put it into the input"),
    ((FAILED,), "that can't be compared", "the reason of each is above"),
)
_MOST_NAMED = 6
_MOST_OBJECTS = 50
# ssh names the address that it can't reach and a route that of its host, so each may have a reason of its own.
_MOST_REASONS = 12
_MOST_FIELDS = 10
_MOST_VALUE = 60


def host_rows(plans: Mapping[str, Sequence[Json]], unread: Mapping[str, str]) -> list[Json]:
    """Return one row for each host: ``plans`` has the steps of those that were read, ``unread`` why others were not."""
    rows = [_host_row(host, DIFFERS if steps else SAME, steps=steps) for host, steps in plans.items()]
    for host, why in unread.items():
        state, _colon, reason = why.partition(": ")
        known = state in _UNREAD
        rows.append(_host_row(host, state if known else FAILED, why=one_line(reason if known else why)))
    return sorted(rows, key=lambda row: natural_key(row["host"]))


def _host_row(host: str, state: str, *, steps: Sequence[Json] = (), why: str = "") -> Json:
    return {"host": host, "state": state, "why": why, "differences": [_host_difference(step) for step in steps]}


def _host_difference(step: Mapping[str, Any]) -> Json:
    kept = {name: step[name] for name in ("id", "concern", "target", "status", "when", "action", "reason", "detail")}
    return {**kept, "found": step["from"], "wanted": step["to"]}


def document_of(hosts: Sequence[Json], cluster: Json | None, generated_at: str, notices: Iterable[str]) -> Json:
    """Return the document; ``cluster`` is None where no cluster is contacted."""
    objects = [] if cluster is None else cluster["objects"]
    return {
        "format": FORMAT,
        "generated_at": generated_at,
        "outcome": _outcome(hosts, cluster),
        "summary": {"hosts": _counts(hosts), "objects": _counts(objects)},
        "hosts": list(hosts),
        "cluster": cluster,
        "notices": list(notices),
    }


def _counts(rows: Sequence[Json]) -> Json:
    states = [row["state"] for row in rows]
    return {
        "total": len(states),
        "same": states.count(SAME),
        "different": sum(state in _DIFFERENT for state in states),
        "not_compared": sum(state in (*_UNREAD, *_UNCOMPARED) for state in states),
    }


def _outcome(hosts: Sequence[Json], cluster: Json | None) -> str:
    rows = [*hosts, *(cluster["objects"] if cluster else [])]
    counts = _counts(rows)
    if counts["not_compared"] or (cluster and cluster["errors"]):
        return ERROR
    return DRIFT if counts["different"] else SAME


def attention_of(document: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each kind of difference and error, with the next step; none where nothing differs."""
    found: list[str] = []
    for states, text, step in _OF_HOSTS:
        hosts = [row["host"] for row in document["hosts"] if row["state"] in states]
        if hosts:
            found.append(f"{counted(len(hosts), 'host')} {text}: {fold_names(hosts)}; next: {_of(hosts, step)}")
    cluster = document["cluster"]
    if cluster is None:
        return found
    for states, text, step in _OF_OBJECTS:
        objects = [one_line(name_of(row)) for row in cluster["objects"] if row["state"] in states]
        if objects:
            names = named(objects, _MOST_NAMED)
            found.append(f"{counted(len(objects), 'object')} {text}: {names}; next: {_of(objects, step)}")
    for error in cluster["errors"]:
        step = f"; next: {error['next_step']}" if error["next_step"] else ""
        found.append(f"the cluster was not compared: {error['message']}{step}")
    return found


def _of(names: Sequence[str], step: str) -> str:
    return step.format(them="it" if len(names) == 1 else "them")


def screen(document: Mapping[str, Any]) -> list[str]:
    """Return the comparison as lines for a person: hosts in classes, objects with their fields, and the result."""
    attention = attention_of(document)
    lines = [*_host_lines(document["hosts"]), *_cluster_lines(document["cluster"])]
    if not attention:
        return [*lines, "result: nothing differs; next: nothing to do"]
    return [*lines, f"result: {document['outcome']}", *(f"  - {text}" for text in attention)]


def _headline(what: str, rows: Sequence[Json]) -> str:
    states = Counter(row["state"] for row in rows)
    told = [f"{states[state]:,} {words}" for state, words in _WORDS.items() if states[state]]
    return f"{what}: {len(rows):,}{': ' if told else ''}{', '.join(told)}"


def _host_lines(rows: Sequence[Json]) -> list[str]:
    plans = {row["host"]: [host_line(each) for each in row["differences"]] for row in rows if row["state"] == DIFFERS}
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["state"] in _UNREAD:
            by_reason.setdefault((row["state"], row["why"]), []).append(row["host"])
    told = list(by_reason.items())[:_MOST_REASONS]
    unread = [f"{fold_names(hosts)}: {_WORDS[state]}: {why}" for (state, why), hosts in told]
    others = [host for hosts in list(by_reason.values())[_MOST_REASONS:] for host in hosts]
    unread += [f"{fold_names(others)}: for other reasons, which are in drift.json"] if others else []
    return [
        _headline("hosts", rows),
        *(f"  {line}" for line in [*plan_lines_of_classes(plans, _MOST_REASONS), *unread]),
    ]


def host_line(difference: Mapping[str, Any]) -> str:
    """Return one difference of a host in one line: what a run would do, and why."""
    status = difference["status"].replace("_", " ")
    line = f"{status}: {difference['concern']} {difference['target']}: {difference['action']}; {difference['reason']}"
    if difference["status"] == NEEDS_REBOOT:
        line += "; it takes effect with the next boot"
    return one_line(f"{line} - {difference['detail']}" if difference["detail"] else line)


def _cluster_lines(cluster: Mapping[str, Any] | None) -> list[str]:
    if cluster is None:
        return ["objects: the input has none for a cluster"]
    lines = [_headline("objects", cluster["objects"])]
    shown = [row for row in cluster["objects"] if row["state"] not in (SAME, NOT_COMPARED)]
    for row in shown[:_MOST_OBJECTS]:
        lines += [f"  {line}" for line in object_lines(row, _MOST_FIELDS)]
    rest = len(shown) - _MOST_OBJECTS
    return [*lines, f"  and {counted(rest, 'more object')}, which are in drift.json"] if rest > 0 else lines


def object_lines(row: Mapping[str, Any], most_fields: int | None = None) -> list[str]:
    """Return what is to be said of an object that is not as wanted, its fields indented below it."""
    fields = row["differences"]
    head = one_line(name_of(row))
    said = [_WORDS[row["state"]], *([one_line(row["why"])] if row["why"] else [])]
    said += [one_line(owners_text(row["managers"]))] if row["managers"] else []
    if fields:
        said.append(counted(len(fields), "field"))
    shown = fields if most_fields is None else fields[:most_fields]
    lines = [f"{head}: {': '.join(said)}", *(f"  {field_line(each)}" for each in shown)]
    rest = len(fields) - len(shown)
    return [*lines, f"  and {counted(rest, 'more field')}"] if rest > 0 else lines


def field_line(difference: Mapping[str, Any]) -> str:
    """Return one field of an object in one line: found, wanted, and what brought it."""
    values = []
    if "found" in difference or "wanted" in difference:
        values = [f"{_value(difference, 'found')}, expected {_value(difference, 'wanted')}"]
    return one_line(f"{difference['path']}: {'; '.join([*values, origin_of(difference)])}")


def _value(difference: Mapping[str, Any], side: str) -> str:
    if side not in difference:
        return "missing" if side == "found" else "nothing"
    text = json.dumps(difference[side], sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}..."
