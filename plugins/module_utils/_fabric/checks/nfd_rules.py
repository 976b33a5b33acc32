# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of Node Feature Discovery that its master would pass over, with a line in its log and nowhere else.

Sources: node-feature-discovery 0.17 to 0.19, ``pkg/apis/nfd/nodefeaturerule/expression.go`` (a rule with a wrong
expression has no output at all), ``pkg/apis/nfd/validate`` (each wrong output is left out) and ``getDynamicValue`` of
``pkg/nfd-master``. What has the wrong type is left to the definition.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Iterator, Mapping, Sequence, Tuple, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest

from ..common.features import FEATURES
from ..common.jsontext import Problem
from ..common.names import Check, label_key, label_value
from ..common.objects import items_of, mapping_of, texts_of
from ..common.quantities import parse_quantity

Path = Tuple[Union[str, int], ...]
Flaw = Tuple[Path, Problem]

NODE_NAME = "nfd.node.kubernetes.io/node-name"
"""The label by which an object says which node its features are of."""

_OWN_LABELS = (FEATURES.rstrip("/"), "profile.node.kubernetes.io")
_OWN = _OWN_LABELS[:1]
_RESERVED = "kubernetes.io"
_LONGEST_ANNOTATION = 1024
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WITHOUT_VALUES = ("Exists", "DoesNotExist", "IsTrue", "IsFalse")
_NUMBERS = {"Gt": 1, "Ge": 1, "Lt": 1, "Le": 1, "GtLt": 2, "GeLe": 2}
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_VERSION = re.compile(r"v?\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
# What Go's regular expressions lack, and what they have beside Python's.
_NOT_OF_GO = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]", re.ASCII)
_OF_GO_ALONE = re.compile(r"\\[pPzCQE]|\\x\{|\(\?[a-zA-Z-]+[):]|\(\?<|(?:\^|\$|\\[AbB])[*+?{]", re.ASCII)
_FEATURES = (
    *("cpu.coprocessor", "cpu.cpuid", "cpu.cstate", "cpu.model", "cpu.pstate", "cpu.rdt", "cpu.security", "cpu.sst"),
    *("cpu.topology", "kernel.config", "kernel.enabledmodule", "kernel.kvm", "kernel.loadedmodule", "kernel.selinux"),
    *("kernel.version", "local.feature", "local.label", "memory.hugepages", "memory.numa", "memory.nv", "memory.swap"),
    *("network.device", "network.virtual", "pci.device", "rule.matched", "storage.block", "system.dmiid"),
    *("system.name", "system.osrelease", "usb.device"),
)


def check(spec: Any, field: str, *, reserved: bool) -> Iterator[Flaw]:
    """Yield what is wrong with the rules in ``field`` of a spec; ``reserved``: labels of Kubernetes are left out.

    They are unless the master is configured to write them (``extraLabelNs``).
    """
    for index, rule in items_of(spec, field):
        for inner, terms in _terms_of(rule):
            yield from _under((field, index, *inner), _check_expressions(terms))
        yield from _under((field, index, "labels"), check_labels(texts_of(rule, "labels"), reserved=reserved))
        yield from _under((field, index, "annotations"), _check_annotations(texts_of(rule, "annotations")))
        yield from _under((field, index, "extendedResources"), _check_resources(texts_of(rule, "extendedResources")))
        for number, taint in items_of(rule, "taints"):
            yield from _under((field, index, "taints", number), _check_taint(taint))


def remarks(spec: Any, field: str) -> Iterator[Flaw]:
    """Yield what of the rules in ``field`` looks like a slip."""
    for index, rule in items_of(spec, field):
        for inner, terms in _terms_of(rule):
            name = terms.get("feature")
            # Other programs may bring features of any name.
            meant = nearest(name.lower(), _FEATURES) if isinstance(name, str) and name.lower() not in _FEATURES else ""
            if meant:
                problem = "is not a feature that Node Feature Discovery finds: without somebody else's nothing matches"
                yield (field, index, *inner, "feature"), Problem("", problem, meant)


def taints_of(spec: Any, field: str) -> list[Path]:
    """Return where rules ask for taints."""
    return [(field, index, "taints") for index, rule in items_of(spec, field) if rule.get("taints")]


def check_labels(labels: Mapping[str, str], *, reserved: bool) -> Iterator[Flaw]:
    """Yield which labels the master leaves out; a key without a prefix gets that of features."""
    for key, value in labels.items():
        own = _OWN_LABELS if reserved else (_RESERVED,)
        found = _check_key(key, own, "label") or _check_dynamic(value, label_value)
        yield from (((key,), problem) for problem in found)


def _check_annotations(annotations: Mapping[str, str]) -> Iterator[Flaw]:
    for key, value in annotations.items():
        found = _check_key(key, _OWN, "annotation")
        if len(value.encode()) > _LONGEST_ANNOTATION:
            hint = f"at most {_LONGEST_ANNOTATION}"
            found.append(Problem("", f"has {len(value.encode())} bytes: Node Feature Discovery leaves it out", hint))
        yield from (((key,), problem) for problem in found)


def _check_resources(resources: Mapping[str, str]) -> Iterator[Flaw]:
    for key, value in resources.items():
        found = _check_key(key, _OWN, "resource") or _check_dynamic(value, _quantity)
        yield from (((key,), problem) for problem in found)


def _check_taint(taint: Mapping[str, Any]) -> Iterator[Flaw]:
    key, effect = taint.get("key"), taint.get("effect")
    if isinstance(key, str):
        hint = "write prefix/name"
        bare = [] if "/" in key else [Problem("", "has no prefix: Node Feature Discovery sets no such taint", hint)]
        yield from ((("key",), problem) for problem in bare or _check_key(key, _OWN, "taint"))
    if isinstance(effect, str) and effect not in _EFFECTS:
        yield ("effect",), Problem("", f"{effect!r} is not an effect", f"one of {', '.join(_EFFECTS)}")


def _check_key(key: str, own: Sequence[str], what: str) -> list[Problem]:
    problems = label_key(key)
    domain = key.rpartition("/")[0]
    is_reserved = domain == _RESERVED or domain.endswith(f".{_RESERVED}")
    if not problems and is_reserved and not any(domain == each or domain.endswith(f".{each}") for each in own):
        hint = f"take a prefix of your own, or {_OWN[0]}"
        problem = f"has a prefix of Kubernetes itself: Node Feature Discovery writes no such {what}"
        problems = [Problem("", problem, hint)]
    return problems


def _check_dynamic(value: str, judge: Check) -> list[Problem]:
    """Judge a value, or the name of a feature that it is taken from."""
    if not value.startswith("@"):
        return judge(value)
    if len(value[1:].split(".", 2)) == 3:
        return []
    return [Problem("", f"{value!r} names no element of a feature", "write @domain.feature.element")]


def _quantity(text: str) -> list[Problem]:
    try:
        parse_quantity(text)
    except ValueError:
        return [Problem("", f"{text!r} is not an amount: Node Feature Discovery leaves it out", "a number such as 4")]
    return []


def _check_expressions(term: Mapping[str, Any]) -> Iterator[Flaw]:
    expressions = term.get("matchExpressions")
    named = [(("matchExpressions", name), each) for name, each in mapping_of(expressions).items()]
    for inner, each in [*named, (("matchName",), term.get("matchName"))]:
        if isinstance(each, Mapping) and isinstance(each.get("op"), str):
            problem = _flaw_of(each["op"], each.get("value") or [], each.get("type"))
            if problem is not None:
                text = f"{problem.problem}: Node Feature Discovery passes over the whole rule"
                yield (*inner, "value"), problem._replace(problem=text)


def _flaw_of(operator: str, values: Any, kind: Any) -> Problem | None:
    """Return why an expression can't be evaluated; None for a right one, and for what the definition judges."""
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        return None
    if operator in _WITHOUT_VALUES:
        return Problem("", f"is given with {operator}, which takes none", "drop it") if values else None
    if operator in _NUMBERS:
        return _flaw_of_numbers(operator, values, kind)
    if operator in ("In", "NotIn", "InRegexp") and not values:
        return Problem("", f"is empty, and {operator} takes at least one", 'for example ["15b3"]')
    wrong = [each for each in values if not _is_of_go(each)] if operator == "InRegexp" else []
    return (
        Problem("", f"{wrong[0]!r} is not a valid Go regular expression", "write it as RE2 has it") if wrong else None
    )


def _flaw_of_numbers(operator: str, values: list[str], kind: Any) -> Problem | None:
    wanted = _NUMBERS[operator]
    if kind not in (None, "", "version"):
        return Problem("", f"is compared as {kind!r}", "type is version, or not given for whole numbers")
    if len(values) != wanted:
        return Problem("", f"has {len(values)} entries, and {operator} takes {wanted}", "")
    form, what = (_VERSION, "version") if kind == "version" else (_WHOLE, "whole number")
    wrong = [each for each in values if not form.fullmatch(each)]
    if wrong:
        hint = "" if kind == "version" else "add type: version to compare versions (from 0.18 on)"
        return Problem("", f"{wrong[0]!r} is not a {what}", hint)
    if wanted > 1 and kind != "version" and int(values[0]) >= int(values[1]):
        return Problem("", f"{values[0]} is not below {values[1]}", "the lower one first")
    return None


def _is_of_go(pattern: str) -> bool:
    """Tell whether Go takes a regular expression, as far as Python can tell."""
    bare = pattern.replace("\\\\", "")
    if _OF_GO_ALONE.search(bare) and not _NOT_OF_GO.search(bare):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return not _NOT_OF_GO.search(bare)


def _terms_of(rule: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for number, term in items_of(rule, "matchFeatures"):
        yield ("matchFeatures", number), term
    for index, each in items_of(rule, "matchAny"):
        for number, term in items_of(each, "matchFeatures"):
            yield ("matchAny", index, "matchFeatures", number), term


def _under(path: Path, flaws: Iterator[Flaw]) -> Iterator[Flaw]:
    return (((*path, *inner), problem) for inner, problem in flaws)


# What Node Feature Discovery has written to a node, and what of it its own ``nfd-master -prune`` would take away.
#
# Facts: ``prune`` and ``updateNodeObject`` of ``pkg/nfd-master/nfd-master.go`` and
# ``api/nfd/v1alpha1/annotations_labels.go`` of NFD 0.17. Names in the two lists are without the default prefix.
# Extended resources and taints, which only rules of a user's own make, are left to that program, with the annotations
# that it knows them by.
_PREFIX = "nfd.node.kubernetes.io/"
_OF_OTHER_PARTS = (f"{_PREFIX}extended-resources", f"{_PREFIX}taints")
_LABELS, _ANNOTATIONS = f"{_PREFIX}feature-labels", f"{_PREFIX}feature-annotations"


def was_labelled(node: Mapping[str, Any]) -> bool:
    """Tell whether Node Feature Discovery has written labels to a node, be it none that anybody asks for."""
    return _LABELS in (node["metadata"].get("annotations") or {})


def pruning_patch(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the merge patch that takes NFD's labels and annotations off a node; None where it has none.

    Only labels that NFD's own annotation lists are among them. The patch holds for the node as it was read.
    """
    metadata = node["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    listed = [name for name in _names(annotations.get(_LABELS)) if name in labels]
    noted = [name for name in _names(annotations.get(_ANNOTATIONS)) if name in annotations]
    noted += [name for name in annotations if name.startswith(_PREFIX) and name not in _OF_OTHER_PARTS]
    if not noted:
        return None
    patch: dict[str, Any] = {"annotations": dict.fromkeys(noted), "resourceVersion": metadata["resourceVersion"]}
    if listed:
        patch["labels"] = dict.fromkeys(listed)
    return {"metadata": patch}


def _names(text: Any) -> list[str]:
    words = [word.strip() for word in str(text or "").split(",")]
    return [word if "/" in word else f"{FEATURES}{word}" for word in words if word]
