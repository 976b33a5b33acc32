# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of the parts of a spec that few hosts have.

Each imported module is compiled on the host in every run, so a reader is only imported if there is a value.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, NamedTuple

from .place import Place


class Part(NamedTuple):
    """A part: its reader's module of this room (which ``keys.py`` or a planner names for what is sent) and name.

    Without a value, or with the empty value, the result is ``nothing``.
    """

    module: str
    reader: str
    nothing: Callable[[], Any] = lambda: None

    def read(self, place: Place, value: Any) -> Any:
        """Return the part of the spec."""
        return self.nothing() if value is None or value == self.nothing() else self.load()(place, value)

    def load(self) -> Callable[[Place, Any], Any]:
        """Import the reader."""
        reader: Callable[[Place, Any], Any] = getattr(
            import_module(f"{__name__.rpartition('.')[0]}.{self.module}"), self.reader
        )
        return reader


interfaces = Part("interfaces", "interfaces", list)
qos = Part("qos", "qos")
sysctls = Part("sysctls", "sysctls", dict)
limits = Part("memory", "limits", lambda: {"memlock": None, "nofile": None})
hugepages = Part("memory", "hugepages", dict)
driver = Part("driver", "driver")
peer_memory = Part("driver", "peer_memory")
firmware_allow = Part("firmware", "firmware_allow", list)
function_request = Part("functions", "function_request")
