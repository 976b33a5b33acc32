# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of the parts of a spec that few hosts have.

Each imported module is compiled on the host in every run, so a reader is only imported if there is a value.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .place import Place

Reader = Callable[[Place, Any], Any]


class Part(NamedTuple):
    """The reader of a part; without a value, or with the empty value, the result is ``nothing``."""

    load: Callable[[], Reader]
    nothing: Callable[[], Any]

    def read(self, place: Place, value: Any) -> Any:
        """Return the part of the spec."""
        return self.nothing() if value is None or value == self.nothing() else self.load()(place, value)


def _none() -> None:
    return None


def _no_limits() -> dict[str, None]:
    return {"memlock": None, "nofile": None}


def _load_interfaces() -> Reader:
    from .interfaces import interfaces as read

    return read


def _load_qos() -> Reader:
    from .qos import qos as read

    return read


def _load_sysctls() -> Reader:
    from .sysctls import sysctls as read

    return read


def _load_limits() -> Reader:
    from .memory import limits as read

    return read


def _load_hugepages() -> Reader:
    from .memory import hugepages as read

    return read


def _load_driver() -> Reader:
    from .driver import driver as read

    return read


def _load_peer_memory() -> Reader:
    from .driver import peer_memory as read

    return read


def _load_firmware_allow() -> Reader:
    from .firmware import firmware_allow as read

    return read


def _load_function_request() -> Reader:
    from .functions import function_request as read

    return read


interfaces = Part(_load_interfaces, list)
qos = Part(_load_qos, _none)
sysctls = Part(_load_sysctls, dict)
limits = Part(_load_limits, _no_limits)
hugepages = Part(_load_hugepages, dict)
driver = Part(_load_driver, _none)
peer_memory = Part(_load_peer_memory, _none)
firmware_allow = Part(_load_firmware_allow, list)
function_request = Part(_load_function_request, _none)
