# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a run's turn at a set, and ends it."""

from __future__ import annotations

from ..api.errors import ApiFault, Fault
from .lease import Lease
from .record import make_namespace
from .session import Session


def take_turn(session: Session) -> Lease:
    """Take the Lease of the set; its namespace is made first where it is not there yet. Raises ApiFault.

    What somebody has left of a set whose namespace he deleted is removed without: no other run has a Lease there.
    """
    request = session.request
    lease = Lease(session.connection, request.set_name, request.inventory_namespace, request.progress)
    session.lease = lease
    try:
        lease.acquire()
    except ApiFault as fault:
        missing = fault.fault is Fault.NOT_FOUND and fault.details.get("kind") == "namespaces"
        if not missing:
            raise
        if request.absent:
            return lease
        make_namespace(session)
        lease.acquire()
    session.connection.guard = lease.keep
    return lease


def end_turn(session: Session) -> None:
    """Let the next run write to the set."""
    notice = "" if session.lease is None else session.lease.release()
    if notice:
        session.result.notices.append(notice)
