# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of hosts, of a run directory or as registered, read with everything that is wrong with them."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Collection, Iterable, Iterator, Mapping, NoReturn, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.jsontext import half_characters
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import (
    host_document_violations,
    turn_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import plain

# A host document is tens of kilobytes; more than this is no host document.
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
# A hunt over a thousand nodes with eight rails takes 160 MB, as many pairs as one run may have (MOST_PAIRS) 400 MB or
# more: what counters tell of each port comes on top.
MAX_VALIDATION_BYTES = 1024 * 1024 * 1024
_MOST_NAMED = 10
_READ_AGAIN = "delete the file and run rdma.fabric.site or rdma.fabric.preview again"


def read_host_documents(directory: Path, failed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the host documents of a directory; every file that is none is a violation.

    Of hosts that have ``failed`` in this run such a file is passed over: an earlier run has left it, they are named as
    failed, and the next run that reads them writes it anew.
    """
    documents: list[dict[str, Any]] = []
    violations: list[Violation] = []
    file_of: dict[str, Path] = {}
    for path in sorted(directory.glob("*.json")):
        try:
            document = parse_host_document(path)
        except ValueError as error:
            found = [Violation(str(path), "", str(error), _READ_AGAIN)]
        else:
            found = host_document_violations(str(path), document)
        if found:
            violations += [] if path.stem in failed else found
            continue
        earlier = file_of.setdefault(document["host"], path)
        if earlier != path:
            problem = f"is about {document['host']!r}, and so is {earlier.name}"
            violations.append(Violation(str(path), "host", problem, "delete one of the two files"))
        documents.append(document)
    if violations:
        raise InvalidInput(violations)
    return documents


def facts_of(spec: Mapping[str, Any], run_dir: Path) -> dict[str, Any]:
    """Return the facts in the run directory by inventory host, of the hosts of the spec."""
    documents_there = read_host_documents(run_dir / "hosts")
    return {each["host"]: each["facts"] for each in documents_there if each["host"] in spec["hosts"]}


def read_turns(directory: Path, hosts: Collection[str]) -> list[dict[str, Any]]:
    """Return what a directory keeps of the turns of these hosts; every file of theirs that is none is a violation."""
    turns: list[dict[str, Any]] = []
    violations: list[Violation] = []
    for path in sorted(directory.glob("*.json")):
        if path.stem not in hosts:
            continue
        try:
            turn = parse_document(path)
        except ValueError as error:
            violations.append(Violation(str(path), "", str(error), "delete the file"))
            continue
        found = turn_violations(str(path), turn)
        violations += found
        if not found:
            turns.append(turn)
    if violations:
        raise InvalidInput(violations)
    return turns


def registered_documents(
    hosts: Sequence[str], variables: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a document for each host from what ``rdma_host`` registered, and why there is none of others."""
    documents, unusable = [], {}
    for host in hosts:
        result = plain(variables[host]["rdma_fabric_host_result"])
        document = {"host": host, "facts": completed(result.get("facts")), "plan": result.get("plan")}
        violations = host_document_violations(host, document)
        if violations:
            unusable[host] = f"failed: what it returned can't be read: {violations[0].path}: {violations[0].problem}"
        else:
            documents.append(document)
    return documents, unusable


def documents_of_run(
    hosts: Iterable[str], variables: Mapping[str, Any], directory: Path | None
) -> Iterator[dict[str, Any]]:
    """Yield the document of each host that this run has read: as registered, or from the files of a run directory.

    ``rdma_host`` returns facts and plan only where it does not write them, and writes nothing that it has not checked.
    What can't be read is left out: the report, which reads all documents, says what is wrong with them.
    """
    for host in hosts:
        result = (variables.get(host) or {}).get("rdma_fabric_host_result")
        if not isinstance(result, Mapping) or not ("facts" in result or (directory and "summary" in result)):
            continue
        if "facts" not in result:
            with contextlib.suppress(ValueError):
                yield parse_host_document(Path(str(directory)) / "hosts" / f"{host}.json")
            continue
        document = {"host": host, "facts": completed(plain(result["facts"])), "plan": plain(result.get("plan"))}
        if not host_document_violations(host, document):
            yield document


def earlier_notice(directory: Path, hosts: Sequence[str]) -> list[str]:
    """Return one notice that names the hosts whose documents are of earlier runs, at most ten; none without a host.

    A document is not written again while what it says stays the same, so its time is when that was first found.
    """
    if not hosts:
        return []
    named = [f"{host}{_since(directory / f'{host}.json')}" for host in hosts[:_MOST_NAMED]]
    more = [f"and {len(hosts) - _MOST_NAMED} more"] if len(hosts) > _MOST_NAMED else []
    who, them = ("host is", "it") if len(hosts) == 1 else ("hosts are", "them")
    return [f"not read in this run: {len(hosts)} {who} shown as an earlier one found {them}: {', '.join(named + more)}"]


def never_read(documents: Iterable[Mapping[str, Any]], left_out: Collection[str]) -> list[str]:
    """Return one notice of the hosts that ``--limit`` leaves out and that no earlier run has a document of."""
    missing = len(set(left_out) - {document["host"] for document in documents})
    said = f"not in this report: {counted(missing, 'host')}, which the limit leaves out and no earlier run has read"
    return [said] if missing else []


def _since(path: Path) -> str:
    try:
        seconds = path.stat().st_mtime
    except OSError:
        return ""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(" (since %Y-%m-%d %H:%M UTC)")


def parse_host_document(path: Path) -> Any:
    """Return the JSON value of a host document, its facts completed; ValueError says what is wrong with the file."""
    document = parse_document(path)
    if isinstance(document, dict) and "facts" in document:
        return {**document, "facts": completed(document["facts"])}
    return document


def parse_document(path: Path, most_bytes: int | None = None) -> Any:
    """Return the JSON value of a file; ValueError says what is wrong with it."""
    limit = most_bytes or MAX_DOCUMENT_BYTES
    try:
        size = path.stat().st_size
        if size > limit:
            raise ValueError(f"holds {size} bytes, more than the {limit} that are read of one document")
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, parse_constant=refuse_constant)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"is not text in UTF-8: byte {error.start} cannot be decoded") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("is nested too deep") from error
    for half in half_characters(value, text):
        raise ValueError(half.problem)
    return value


def refuse_constant(name: str) -> NoReturn:
    """Refuse what Python reads and JSON does not know."""
    raise ValueError(f"is not JSON: {name} is not a JSON value")
