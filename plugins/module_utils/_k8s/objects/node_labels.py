# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels this collection gives nodes, those of others untouched. Pure.

A label is ours where server-side apply has recorded it for our manager (``metadata.managedFields``), as long as nobody
else gives it another value.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from .field_owners import owned_records, owners_of_record
from .objects import Json

_LABELS = ("f:metadata", "f:labels")


class Labelling(NamedTuple):
    """What becomes of the labels of a node.

    ``applied`` are all labels that are to be ours; ``changes`` are values before and after, None where there is no
    label; ``foreign`` are the values that others gave wanted labels. ``is_due`` says whether anything is to be written.
    """

    applied: dict[str, str]
    changes: dict[str, tuple[str | None, str | None]]
    foreign: dict[str, str]
    is_due: bool


def labelling(node: Mapping[str, Any], wanted: Mapping[str, str]) -> Labelling:
    """Return what becomes of a live node's labels; those that others set stay theirs, whatever their value."""
    live, own = _labels_of(node), _own_labels(node)
    applied = {name: value for name, value in wanted.items() if name in own or name not in live}
    changes: dict[str, tuple[str | None, str | None]] = {
        name: (live.get(name), value) for name, value in applied.items() if live.get(name) != value
    }
    given_up = own - set(applied)
    changes.update({name: (live.get(name), None) for name in sorted(given_up) if not _is_shared(node, name)})
    foreign = {name: live[name] for name, value in wanted.items() if name not in applied and live[name] != value}
    return Labelling(applied, changes, foreign, bool(changes or given_up))


def unlabelling_patch(node: Mapping[str, Any]) -> Json | None:
    """Return the merge patch that takes our labels off a node as it was read; None where it has none of ours alone."""
    gone = sorted(name for name in _own_labels(node) if not _is_shared(node, name))
    if not gone:
        return None
    return {"metadata": {"labels": dict.fromkeys(gone), "resourceVersion": node["metadata"]["resourceVersion"]}}


def own_labels(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a node that our manager has applied."""
    live = _labels_of(node)
    return {name: live[name] for name in sorted(_own_labels(node))}


def _labels_of(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _own_labels(node: Mapping[str, Any]) -> set[str]:
    """Return the labels that our manager has applied and the node still has."""
    records = {record[2].partition(":")[2] for record in owned_records(node) if record[:2] == _LABELS and record[2:]}
    return records & set(_labels_of(node))


def _is_shared(node: Mapping[str, Any], name: str) -> bool:
    """Tell whether somebody else set the same value too, so that the label is not ours to take away."""
    return not all(owner.ours for owner in owners_of_record(node, (*_LABELS, f"f:{name}")))
