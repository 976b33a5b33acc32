# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the steps of one concern are executed, and what brings an original value back."""

from __future__ import annotations

from types import MappingProxyType
from typing import Callable, Mapping, NamedTuple

from ..spec.host import HostSpec
from .context import Context
from .operations import Work
from .steps import Step, Value


class Handler(NamedTuple):
    """How steps of one concern are executed.

    ``errors`` are causes and next steps (``...; next: ...``) for failures of its operations, by the errno's name or by
    a text that a program prints.
    ``restore`` adds to an empty desired state what brings an original value back: it gets the key of the step that
    first changed it and the step's ``from``. Without it a removal leaves the setting as it is.
    ``parts``: a mapping in ``from`` holds values of their own, so that another step of the same key may add some.
    ``of_card``: a card itself holds the values, so that they are nobody's once it was replaced; others are the host's
    for whatever card is in that place.
    """

    work: Callable[[Context, Step], Work]
    errors: Mapping[str, str] = MappingProxyType({})
    restore: Callable[[HostSpec, str, Value], None] | None = None
    parts: bool = False
    of_card: bool = False
