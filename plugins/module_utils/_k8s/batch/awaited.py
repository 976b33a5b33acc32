# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batches with objects of kinds that a program of the cluster brings, such as an operator.

Its definitions may come only with what is applied first: those of pools come with the policy that asks for them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Collection, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.errors import ApiFault, Fault
from ..api.kinds import Kinds
from ..api.snapshot import fetch_group
from ..api.transport import Connection
from ..objects.objects import Item, Key, read_waves
from . import batch
from .session import (
    CHANGING,
    CREATED,
    PROGRESS_INTERVAL,
    BatchError,
    BatchRequest,
    BatchResult,
    Change,
    failure_text,
)

_PAUSE = 1.0


def run(connection: Connection, request: BatchRequest) -> BatchResult:
    """Run a batch; if it ``awaits_kinds``, objects of kinds that the server does not know yet are applied when it does.

    In check mode they are foretold, unvalidated. Raises what ``batch.run`` raises, and BatchError when a kind does not
    come within ``wait_timeout``.
    """
    waits = request.awaits_kinds and not request.absent
    lacking = _unserved(connection, read_waves(request.waves)) if waits else []
    if not lacking:
        return batch.run(connection, request)
    if request.check:
        return _foretold(batch.run(connection, replace(request, waves=_without(request.waves, lacking))), lacking)
    changed: dict[Key, Change] = {}
    try:
        while lacking:
            first = batch.run(
                connection, replace(request, waves=_before(request.waves, lacking), prune=False, wait=False)
            )
            changed.update(
                {each.key.identity: _joined(changed, each) for each in first.changes if each.action in CHANGING}
            )
            lacking = _wait(connection, request, lacking, first)
        return _with_earlier(batch.run(connection, request), changed)
    except BatchError as failed:
        result = _with_earlier(failed.result, changed)
        raise BatchError(failure_text(result), result) from failed


def _with_earlier(result: BatchResult, changed: Mapping[Key, Change]) -> BatchResult:
    """Return the result of the last run with what the ones before it have changed."""
    done = {each.key.identity for each in result.changes}
    earlier = [change for identity, change in changed.items() if identity not in done]
    result.changes = [*earlier, *(_joined(changed, each) for each in result.changes)]
    return result


def _joined(changed: Mapping[Key, Change], change: Change) -> Change:
    """Return a change as one with that of the same object in earlier runs, from what was there before all of them."""
    earlier = changed.get(change.key.identity)
    if earlier is None:
        return change
    return replace(earlier, after=change.after) if change.action in CHANGING else earlier


def _unserved(connection: Connection, items: Collection[Item]) -> list[Item]:
    """Return the items whose kind neither the server nor a definition among them knows."""
    kinds = Kinds(lambda path: fetch_group(connection, path))
    kinds.learn(item.body for item in items)
    return [item for item in items if kinds.find(item.key) is None]


def _foretold(result: BatchResult, lacking: Collection[Item]) -> BatchResult:
    result.changes += [Change(item.key, item.wave, CREATED, None, item.body) for item in lacking]
    what = named([str(item.key) for item in lacking])
    result.notices.append(f"not validated by the server, which gets their kinds from the operator: {what}")
    return result


def _wait(connection: Connection, request: BatchRequest, lacking: Collection[Item], first: BatchResult) -> list[Item]:
    """Wait until the server knows the kinds of the next wave that lacks any; return the items that then lack theirs.

    Raises BatchError with ``first``, what was applied so far.
    """
    clock = connection.clock
    deadline = clock.now() + (request.wait_timeout if request.wait else 0.0)
    spoken, position = clock.now(), min(item.position for item in lacking)
    left, trouble = list(lacking), ""
    while any(item.position == position for item in left):
        kinds = sorted({f"{item.key.kind} ({item.key.api_version})" for item in left if item.position == position})
        if clock.now() >= deadline:
            hint = "check that the operator runs, and that the policy or values of its chart enable what reads them"
            message = f"the cluster lacks {named(kinds)}, which an operator installs{trouble}"
            raise _ended(request, lacking, first, ApiFault(Fault.TIMEOUT, message, hint=f"{hint}; then run again"))
        if clock.now() - spoken >= PROGRESS_INTERVAL:
            spoken = clock.now()
            request.progress(f"waiting for the operator to install {named(kinds)}")
        clock.sleep(_PAUSE)
        try:
            with connection.until(deadline):
                left, trouble = _unserved(connection, read_waves(request.waves)), ""
        except ApiFault as fault:
            if not fault.passing:
                raise _ended(request, lacking, first, fault) from fault
            # The wait ends when its own time is over, not when the server is away for a while.
            trouble = f"; it could no longer be queried: {fault.message}"
    return left


def _ended(request: BatchRequest, lacking: Collection[Item], first: BatchResult, fault: ApiFault) -> BatchError:
    """Return the end of a wait: with what was applied, and all that was not, of known kinds too."""
    waiting, position = {item.key for item in lacking}, min(item.position for item in lacking)
    items = read_waves(request.waves)
    first.not_applied = [item.key for item in items if item.key in waiting or item.position > position]
    first.failures.append((None, fault))
    return BatchError(failure_text(first), first)


def _before(waves: list[dict[str, Any]], lacking: Collection[Item]) -> list[dict[str, Any]]:
    """Return the waves before the first one with an object of an unknown kind, and the rest of that one."""
    first = min(item.position for item in lacking)
    return _without(waves[: first + 1], lacking)


def _without(waves: list[dict[str, Any]], lacking: Collection[Item]) -> list[dict[str, Any]]:
    unknown = {(item.key.api_version, item.key.kind) for item in lacking}

    def is_known(body: Mapping[str, Any]) -> bool:
        return (body.get("apiVersion"), body.get("kind")) not in unknown

    return [{**wave, "objects": [body for body in wave["objects"] if is_known(body)]} for wave in waves]
