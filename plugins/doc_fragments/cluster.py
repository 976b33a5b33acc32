# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all actions that talk to a cluster say of themselves."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragments C(rdma.fabric.cluster), and C(rdma.fabric.cluster.object) of those about one object."""

    DOCUMENTATION = r"""
options: {}
notes:
  - This action runs on the controller. It never connects to the host of the task.
  - Authentication options and environment variables are those of the C(kubernetes.core) collection. The C(environment)
    of the task is respected. ansible-vault may have encrypted the file that O(kubeconfig) names.
requirements:
  - kubernetes.core >= 5.0.0
  - kubernetes >= 24.2.0 (Python package)
"""

    OBJECT = r"""
options:
  state:
    description:
      - With V(rendered), the object is returned and no cluster is needed.
      - With V(present), the cluster holds it.
      - With V(absent), exactly this object is deleted, if this collection applied it.
    type: str
    choices: [rendered, present, absent]
    default: present
  force_conflicts:
    description:
      - Whether to take over fields that another field manager owns. If V(false), such a field is an error.
      - An object that an operator, a chart or a GitOps tool manages is refused in both cases.
    type: bool
    default: true
notes:
  - This action runs on the controller. It never connects to the host of the task.
  - The object belongs to no set of M(rdma.fabric.k8s_batch). An object that is part of a set is refused.
requirements:
  - kubernetes.core >= 5.0.0 (with O(state=present) and O(state=absent))
  - kubernetes >= 24.2.0 (Python package, in the same cases)
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""
