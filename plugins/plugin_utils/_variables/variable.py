# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of one variable of this collection: the row that checks, specifications and documents are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._violations import any_of

PREFIX = "rdma_fabric_"
CONTROLLER, HOST = "controller", "host"


@dataclass(frozen=True)
class Variable:
    """One variable. Meanings have Ansible's markup, as documentation of roles has it.

    ``readers`` are roles (``cluster``), parts of them (``host/reboot``) and playbooks (``playbook record``). ``scope``
    says whose value counts: the controller's, once per run, or that of each host. ``asked`` marks what a survey may
    well ask the person who starts a run. Entries of a list that are ``on_controller`` are full paths of files there.
    Text that ``selects`` is a selector of labels.
    """

    short: str
    type: str
    meaning: tuple[str, ...]
    readers: tuple[str, ...]
    scope: str = CONTROLLER
    default: Any = None
    elements: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    unit: str = ""
    required: bool = False
    asked: bool = False
    on_controller: bool = False
    selects: bool = False

    @property
    def name(self) -> str:
        """The name as users write it."""
        return f"{PREFIX}{self.short}"

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles, and parts of them, that read it."""
        return tuple(reader for reader in self.readers if " " not in reader)

    @property
    def allowed(self) -> str:
        """What may be given, for a message."""
        if self.choices:
            return any_of(self.choices)
        kind = _KINDS.get(self.elements if self.type == "list" else self.type, "text")
        words = {"list": f"a list, each entry {kind}", "dict": "a mapping"}.get(self.type, kind)
        unit = f" of {self.unit}" if self.unit else ""
        return f"{words}{unit}{self.bounds}"

    @property
    def bounds(self) -> str:
        """The range of a number, as it goes on after what it is."""
        if self.least is None:
            return ""
        return f" from {self.least:g} to {self.most:g}" if self.most is not None else f" from {self.least:g} on"


_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "dict": "a mapping",
    "path": "a path",
}
