# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration of Multus of one's own: its entrypoint copies it to every node as it is, before that of all others.

With one that the container runtime or Multus can't read, no pod of a node gets any network. Sources: Multus 4
(``pkg/types/types.go``, ``NetConf``; ``pkg/types/conf.go``, ``LoadNetConf`` and ``LoadDelegateNetConf``;
``pkg/k8sclient``, ``GetNetworkDelegates``; ``cmd/thin_entrypoint``), containernetworking/cni (``libcni``,
``pkg/utils``).
"""

from __future__ import annotations

from typing import Any, Mapping

from ..common.jsontext import Problem, parse_json
from ..common.schema import Field, flag, flaws_of, mapping, record, series, text
from . import cni

TYPE = "multus"
_NETWORKS = ("clusterNetwork", "delegates")
_ANYTHING = Field("anything", "")
_TEXTS = (
    *("confDir", "cniDir", "binDir", "clusterNetwork", "kubeconfig", "logFile", "logLevel", "readinessindicatorfile"),
    *("globalNamespaces", "auxiliaryCNIChainName", "multusNamespace"),
)
_FIELDS = {
    **(cni.PLUGIN.fields or {}),
    **dict.fromkeys(_TEXTS, text("")),
    **dict.fromkeys(("logToStderr", "namespaceIsolation", "retryDeleteOnError"), flag("")),
    **dict.fromkeys(("defaultNetworks", "systemNamespaces"), series("texts", text(""))),
    **dict.fromkeys(("logOptions", "runtimeConfig"), mapping("an object", _ANYTHING)),
    "delegates": series("CNI configurations", _ANYTHING),
}
# Go finds fields of any case.
_NAMES = {name.lower(): name for name in _FIELDS}
_ISOLATES, _OPEN = "namespaceisolation", "globalnamespaces"
_OPEN_BY_DEFAULT = ("default",)
_UNREADABLE = "Multus refuses every pod of a node"


def config_of(spec: Mapping[str, Any]) -> Any:
    """Return the configuration of one's own in the spec of a policy, an empty text without one."""
    return ((spec.get("secondaryNetwork") or {}).get("multus") or {}).get("config") or ""


def open_namespaces(text: Any) -> tuple[str, ...] | None:
    """Return the namespaces whose networks pods of all others get, beside those of their own; None for every one."""
    value, problems = parse_json(text) if isinstance(text, str) and text else ({}, [])
    given = {name.lower(): each for name, each in value.items()} if isinstance(value, dict) and not problems else {}
    if given.get(_ISOLATES) is not True:
        return None
    return tuple(each.strip() for each in str(given.get(_OPEN) or "").split(",") if each.strip()) or _OPEN_BY_DEFAULT


def check(given: Any) -> list[Problem]:
    """Return why nodes with this configuration would have no network; an empty text has Multus generate one."""
    if not given:
        return []
    if not isinstance(given, str):
        return [Problem("", "is not text", "write the JSON as text")]
    value, problems = parse_json(given)
    if problems:
        return problems
    if not isinstance(value, dict):
        return [Problem("", "is not a JSON object, and every node would have no network", "for example {...}")]
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
    fields = {_NAMES.get(name.lower(), name): each for name, each in value.items()}
    read = flaws_of(record("an object", _FIELDS, open=True), TYPE, fields)
    found += [each._replace(problem=f"{each.problem}: {_UNREADABLE}") for each in read]
    # Beside a network of the cluster delegates are not looked at.
    delegates = None if value.get("clusterNetwork") else value.get("delegates")
    for index, each in enumerate(delegates if isinstance(delegates, list) else []):
        if not isinstance(each, dict) or not (each.get("type") or each.get("plugins")):
            problem = f"names no CNI plugin: {_UNREADABLE}"
            found.append(Problem(f"delegates[{index}]", problem, "give type, or plugins with a type each"))
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
    return [Problem("kubeconfig", problem, "give that path, or make sure that the other one does not expire")]
