# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into a support bundle, its manifest, and the archive. Pure.

The same parts give the same bytes: names are sorted, and neither times nor owners of files are kept.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.inspection import Inspection
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold_names
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import why_unfinished
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.scrub import scrubbed, scrubbed_text

FORMAT = "rdma.fabric/support/v1"
COMPLETE, PARTIAL = "complete", "partial"
FOLDER = "rdma-fabric-support"
"""The one folder of the archive."""
_MODE = 0o600
_MOST_REASON = 500
_MOST_REASONS = 20


class Part(NamedTuple):
    """One file of the bundle: its path below the folder, where its content is from, and the content."""

    path: str
    source: str
    data: bytes


class Gap(NamedTuple):
    """What is not in the bundle, and why."""

    what: str
    why: str

    def __str__(self) -> str:
        """Return both in one line."""
        return f"{self.what}: {self.why}"


def document_part(path: str, source: str, document: Any) -> Part:
    """Return plain data as a part, without secrets."""
    text = json.dumps(scrubbed(document), indent=1, sort_keys=True, ensure_ascii=False)
    return Part(path, source, f"{text}\n".encode())


def text_part(path: str, source: str, text: str) -> Part:
    """Return text as a part, without secrets."""
    return Part(path, source, scrubbed_text(text).encode())


def file_part(path: str, source: str, data: bytes) -> Part:
    """Return a file of a run as a part, without secrets; one that is no JSON, as text."""
    text = data.decode("utf-8", "replace")
    if path.endswith(".json"):
        try:
            return document_part(path, source, json.loads(text))
        except (ValueError, RecursionError):
            return text_part(path, source, text)
    return text_part(path, source, text)


def cluster_parts(found: Inspection, server: str) -> list[Part]:
    """Return what an inspection of the cluster has found as parts: one for each kind of document, one for each log."""
    parts = [document_part(f"cluster/{name}.json", server, value) for name, value in found.documents.items()]
    return parts + [text_part(f"cluster/logs/{path}", server, text) for path, text in found.logs.items()]


def gap(what: str, why: str) -> Gap:
    """Return what is missing and why, in one line of bounded length and without secrets."""
    said = " ".join(scrubbed_text(why).split())
    return Gap(what, said if len(said) <= _MOST_REASON else f"{said[: _MOST_REASON - 3]}...")


def host_gaps(recorded: Mapping[str, Mapping[str, Any] | None]) -> list[Gap]:
    """Return the hosts without a recording, from what their task registered; None where it was not run."""
    found = []
    for host in sorted(recorded, key=natural_key):
        result = recorded[host]
        why = why_unfinished(result, None) or ("" if (result or {}).get("dest") else "it was not recorded")
        if why:
            found.append(gap(f"host {host}", why))
    return found


def manifest_of(parts: Iterable[Part], unread: Sequence[Gap], left_out: Sequence[Gap], versions: Json) -> Json:
    """Return what the bundle holds, from where, and what it does not hold."""
    rows = [{"path": part.path, "source": part.source, "bytes": len(part.data)} for part in parts]
    return {
        "format": FORMAT,
        "outcome": PARTIAL if unread else COMPLETE,
        "versions": versions,
        "files": sorted(rows, key=lambda row: str(row["path"])),
        "unread": [each._asdict() for each in unread],
        "left_out": [each._asdict() for each in left_out],
    }


def archive(parts: Iterable[Part], manifest: Json) -> bytes:
    """Return the tar.gz of the parts, the manifest first."""
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
    files = [
        Part("manifest.json", "", f"{text}\n".encode()),
        *sorted(parts, key=lambda part: part.path),
    ]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for part in files:
            entry = tarfile.TarInfo(f"{FOLDER}/{part.path}")
            entry.size, entry.mode = len(part.data), _MODE
            tar.addfile(entry, io.BytesIO(part.data))
    return gzip.compress(packed.getvalue(), mtime=0)


def summary_of(parts: Sequence[Part], hosts: int, cluster: str) -> str:
    """Return what the bundle holds in one line: ``hosts`` recordings, and the cluster at an address if any."""
    count = {name: sum(part.path.startswith(f"{name}/") for part in parts) for name in ("run", "cluster/logs")}
    said = [f"{counted(hosts, 'host')} recorded", f"{counted(count['run'], 'file')} of earlier runs"]
    said.append(f"the cluster with {counted(count['cluster/logs'], 'log')}" if cluster else "no cluster")
    return ", ".join(said)


def attention_of(unread: Sequence[Gap]) -> list[str]:
    """Return one line for each of the first reasons, with everything that is missing for it, and how many are left.

    ssh names the address that it can't reach, so each host may have a reason of its own.
    """
    by_reason: dict[str, list[str]] = {}
    for each in unread:
        by_reason.setdefault(each.why, []).append(each.what)
    found = []
    for why, whats in by_reason.items():
        hosts = [what[len("host ") :] for what in whats if what.startswith("host ")]
        others = [what for what in whats if not what.startswith("host ")]
        names = ([f"{'host' if len(hosts) == 1 else 'hosts'} {fold_names(hosts)}"] if hosts else []) + others
        found.append(f"{', '.join(names)}: {why}")
    rest = len(found) - _MOST_REASONS
    more = [f"and {counted(rest, 'more reason')}, in the manifest of the archive"] if rest > 0 else []
    return [*found[:_MOST_REASONS], *more]
