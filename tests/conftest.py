# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make this checkout importable as ``ansible_collections.rdma.fabric`` for every test."""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
COLLECTIONS = CHECKOUT / "build" / "collections"


def link_checkout(collections: Path, checkout: Path) -> None:
    """Point ``collections/ansible_collections/rdma/fabric`` at the checkout; several test runs may do so at once."""
    link = collections / "ansible_collections" / "rdma" / "fabric"
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.resolve() == checkout:
        return
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(checkout, target_is_directory=True)
    except FileExistsError:
        if link.resolve() != checkout:
            raise


link_checkout(COLLECTIONS, CHECKOUT)
sys.path.insert(0, str(COLLECTIONS))
