# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of nv-ipam before v0.1.0, which has its pools in one ConfigMap.

Sources: nvidia-k8s-ipam v0.0.2 and v0.0.3, ``pkg/ipam-controller/config`` (shape and rules), ``README.md`` (no IPv6).
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import UNKNOWN_FIELD, mismatch

from ..common.jsontext import Problem, parse_json
from ..common.names import dns_subdomain
from .ipam import parse_network
from .nv_ipam import check_pool

_POOL_FIELDS = ("subnet", "perNodeBlockSize", "gateway")
_SMALLEST_BLOCK = 2


def read_config(text: str) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """Return the IPPool specs, by name, of a configuration, and what is wrong with it.

    The shape is ``{"pools": {name: {subnet, perNodeBlockSize, gateway}}, "nodeSelector": {label: value}}``. The
    selector goes to every pool.
    """
    config, problems = parse_json(text)
    if problems:
        return {}, problems
    given = config.get("pools") if isinstance(config, dict) else None
    if not isinstance(given, dict) or not given:
        return {}, [
            Problem("pools", "must be an object with at least one pool", '{"pools": {"name": {"subnet": ...}}}')
        ]
    selector = config.get("nodeSelector") or {}
    if not isinstance(selector, dict) or not all(isinstance(value, str) for value in selector.values()):
        return {}, [Problem("nodeSelector", "must be an object of labels")]
    problems = _unknown(config, ("pools", "nodeSelector"), "")
    pools: dict[str, dict[str, Any]] = {}
    for name, pool in given.items():
        where = f"pools.{name}"
        if not isinstance(pool, dict):
            problems.append(Problem(where, mismatch(pool, "an object")))
            continue
        problems += [each._replace(path=where) for each in dns_subdomain(name)]
        problems += _unknown(pool, _POOL_FIELDS, f"{where}.")
        problems += [each._replace(path=f"{where}.{each.path}") for each in check_pool("IPPool", pool)]
        pools[name] = {**pool, **_selecting(selector)}
    return pools, problems


def config_of(pools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the configuration of IPPool specs by name, which :func:`config_problems` has nothing against."""
    labels = next((_labels(spec) for spec in pools.values()), None)
    found = {"pools": {name: {key: spec[key] for key in _POOL_FIELDS} for name, spec in pools.items()}}
    return {**found, "nodeSelector": labels} if labels else found


def config_problems(specs: Sequence[Mapping[str, Any]], version: str) -> list[tuple[int, Problem]]:
    """Return what a release with a configuration cannot do of IPPool specs that passed their check.

    Each entry is the index of a spec, and the problem with its path there.
    """
    found = []
    labels = [_labels(spec) for spec in specs]
    shared = next((each for each in labels if each is not None), {})
    for index, spec in enumerate(specs):
        for problem in _lacking(spec, version):
            found.append((index, problem))
        if labels[index] != shared:
            text = f"is not what nv-ipam {version} can do: it selects nodes by labels, the same for every pool"
            found.append((index, Problem("nodeSelector", text, "use v0.1.1 or newer for selectors of their own")))
    return found


def _lacking(spec: Mapping[str, Any], version: str) -> list[Problem]:
    problems = []
    subnet = parse_network(spec["subnet"], "subnet", strict=False)[0]
    if subnet is not None and subnet.version != 4:
        problems.append(Problem("subnet", f"is IPv6, which nv-ipam {version} does not support", "use v0.1.1 or newer"))
    elif subnet is not None and spec["perNodeBlockSize"] > subnet.num_addresses - 2:
        problem = f"{spec['perNodeBlockSize']} is more than nv-ipam {version} takes from {subnet}"
        problems.append(Problem("perNodeBlockSize", problem, "it leaves out the first and the last address"))
    if spec["perNodeBlockSize"] < _SMALLEST_BLOCK:
        problem = f"is less than {_SMALLEST_BLOCK}, which nv-ipam {version} refuses"
        problems.append(Problem("perNodeBlockSize", problem))
    if not spec.get("gateway"):
        hint = "name an address of the subnet, or use v0.1.1 or newer"
        problems.append(Problem("gateway", f"is missing, and nv-ipam {version} refuses a pool without one", hint))
    return problems


def _labels(spec: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the labels that a pool selects nodes by, none for every node; None where it selects in another way."""
    selector = spec.get("nodeSelector")
    if selector is None:
        return {}
    terms = selector["nodeSelectorTerms"]
    wanted = terms[0].get("matchExpressions") or []
    values = {each["key"]: each.get("values") or [] for each in wanted}
    is_plain = all(each.get("operator") == "In" and len(values[each["key"]]) == 1 for each in wanted)
    if len(terms) > 1 or terms[0].get("matchFields") or not wanted or not is_plain or len(values) < len(wanted):
        return None
    return {key: str(value[0]) for key, value in sorted(values.items())}


def _selecting(labels: Mapping[str, str]) -> dict[str, Any]:
    if not labels:
        return {}
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}


def _unknown(found: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> list[Problem]:
    hint = f"known: {', '.join(known)}"
    return [Problem(f"{prefix}{key}", UNKNOWN_FIELD, hint) for key in found if key not in known]
