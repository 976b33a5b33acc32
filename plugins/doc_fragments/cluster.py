# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all actions that talk to a cluster say of themselves."""

from __future__ import annotations


class ModuleDocFragment:
    """The documentation fragment C(rdma.fabric.cluster)."""

    DOCUMENTATION = r"""
options: {}
notes:
  - This action runs on the controller. It never connects to the host of the task.
  - Authentication options and environment variables are those of the C(kubernetes.core) collection. The C(environment)
    of the task is respected.
requirements:
  - kubernetes.core >= 5.0.0
  - kubernetes >= 24.2.0 (Python package)
"""
