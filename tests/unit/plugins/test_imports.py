# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file of the plugins can be imported with the ansible-core that is here: a name that it lacks fails a run.

That none needs more than a release brings is left to ansible-test, which imports each in an environment without it.
"""

from __future__ import annotations

import importlib
from typing import Iterator

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT


def lacking() -> Iterator[str]:
    for file in sorted((CHECKOUT / "plugins").rglob("*.py")):
        name = ".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
        try:
            importlib.import_module(f"ansible_collections.rdma.fabric.{name}")
        except ImportError as error:
            yield f"{name}: {error}"


def test_every_file_can_be_imported() -> None:
    none_of(lacking())
