# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all actions say of options that come from the variables of this collection."""

from __future__ import annotations


class ModuleDocFragment:
    """The documentation fragment C(rdma.fabric.variables)."""

    DOCUMENTATION = r"""
options:
  role_variables:
    description:
      - Whether to take options that are not given from the variables of this collection, as its roles and playbooks do,
        and from what P(rdma.fabric.preflight#role) has validated.
      - A variable of the play, of the host or of the command line counts. A variable of a run that none of them has is
        that of C(localhost). A variable that is empty is not given.
    type: bool
    default: false
"""
