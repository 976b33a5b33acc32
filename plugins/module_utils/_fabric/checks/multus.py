# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration of Multus of one's own: its entrypoint copies it to every node as it is, before that of all others.

With one that the container runtime or Multus can't read, no pod of a node gets any network. Sources: Multus 4
(``pkg/types/conf.go``, ``LoadNetConf``; ``cmd/thin_entrypoint``), containernetworking/cni (``libcni``, ``pkg/utils``).
"""

from __future__ import annotations

from typing import Any

from ..common.jsontext import Problem, parse_json

TYPE = "multus"
_NETWORKS = ("clusterNetwork", "delegates")


def check(text: Any) -> list[Problem]:
    """Return why nodes with this configuration would have no network; an empty text has Multus generate one."""
    if not text:
        return []
    if not isinstance(text, str):
        return [Problem("", "is no text", "write the JSON as text")]
    value, problems = parse_json(text)
    if problems:
        return problems
    if not isinstance(value, dict):
        return [Problem("", "is no JSON object, and every node would have no network", "for example {...}")]
    found = []
    if value.get("type") != TYPE:
        problem = f"is {value.get('type')!r}: nodes would have the network of another program, or none"
        found.append(Problem("type", problem, f"give {TYPE}; leave config out, and Multus generates a right one"))
    if not isinstance(value.get("name"), str) or not value["name"]:
        found.append(Problem("name", "is missing: the container runtime refuses it, and pods get no network", TYPE))
    if not any(value.get(name) for name in _NETWORKS):
        problem = "names no network of the cluster, and Multus refuses every pod (at least one must be specified)"
        hint = f"give {' or '.join(_NETWORKS)}: that of the CNI plugin which nodes have"
        found.append(Problem(_NETWORKS[0], problem, hint))
    return found


def remarks(text: str, conf_dir: str) -> list[Problem]:
    """Return what surprises in a configuration that passed its check; ``conf_dir`` is the nodes' folder of them."""
    value: dict[str, Any] = parse_json(text)[0] if text else {}
    written = f"{conf_dir}/multus.d/multus.kubeconfig"
    given = value.get("kubeconfig")
    if not text or given == written:
        return []
    if not given:
        return [Problem("kubeconfig", "is missing: Multus then ignores the networks that pods ask for", written)]
    problem = f"is {given}, and the kubeconfig with a fresh token is written to {written}"
    return [Problem("kubeconfig", problem, "give that path, or see to it that the other one does not expire")]
