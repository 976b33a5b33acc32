# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVIDIA Network Operator made of a policy, as it was recorded, and what is rendered of the same policy."""

from __future__ import annotations

import json
import lzma
from functools import lru_cache
from typing import Any, Iterator, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import read_text
from tools.checkout import CHECKOUT

FOLDER = CHECKOUT / "tests" / "fixtures" / "operator"
# What the API server fills in: pkg/apis/core/v1/defaults.go, apps/v1, admissionregistration/v1 and rbac/v1 of
# Kubernetes, and what a kube-apiserver 1.35 returned.
_DEFAULTS: dict[str, Any] = {
    "conversion": {"strategy": "None"},
    "defaultMode": 420,
    "dnsPolicy": "ClusterFirst",
    "failureThreshold": 3,
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "matchPolicy": "Equivalent",
    "progressDeadlineSeconds": 600,
    "restartPolicy": "Always",
    "revisionHistoryLimit": 10,
    "schedulerName": "default-scheduler",
    "scheme": "HTTP",
    "sessionAffinity": "None",
    "successThreshold": 1,
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
    "volumeMode": "Filesystem",
}
_THERE = "set"
# Defaults that only this kind has for a field of this name.
_OF_KIND: dict[str, dict[str, Any]] = {
    "DaemonSet": {"maxSurge": 0, "maxUnavailable": 1, "type": "RollingUpdate"},
    "Deployment": {"maxSurge": "25%", "maxUnavailable": "25%", "type": "RollingUpdate"},
    "Service": {"type": "ClusterIP"},
    "ValidatingWebhookConfiguration": {"port": 443, "timeoutSeconds": 10},
}


class Case(NamedTuple):
    """An input of the corpus: what the operator made of it, or why it refused it."""

    name: str
    settings: dict[str, Any]
    documents: list[dict[str, Any]]
    refused: str
    objects: list[dict[str, Any]]


@lru_cache(maxsize=None)
def corpus() -> list[Case]:
    """Return the recorded inputs with unusual values. Definitions are apart, in ``fields.json``."""
    recorded = json.loads(lzma.decompress((FOLDER / "corpus.json.xz").read_bytes()))
    objects = recorded["objects"]
    return [Case(**{**case, "objects": [objects[place] for place in case["objects"]]}) for case in recorded["cases"]]


def rendered_of(case: Case) -> list[dict[str, Any]]:
    """Return what is rendered of an input of the corpus, without definitions and what is passed on as it is given.

    Raises ``InvalidInput`` if it is refused.
    """
    passed_on = [body["metadata"]["name"] for body in case.documents if body["kind"] == "ConfigMap"]
    given = [Document("input", body) for body in case.documents]
    spec, _notices = build_spec(given, {}, {"nfd": False, **case.settings}, {})
    made = [body for body in objects_of(render(spec)) if body["kind"] != "CustomResourceDefinition"]
    return [body for body in made if body["kind"] != "ConfigMap" or body["metadata"]["name"] not in passed_on]


def rendered(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is rendered of the recorded policy."""
    given = read_text("policy.yaml", (FOLDER / "policy.yaml").read_text(encoding="utf-8"))
    for document in given:
        if "openshift" in settings and document.content["kind"] == "NicClusterPolicy":
            document.content["spec"]["nvIpam"]["enableWebhook"] = True
    spec, _notices = build_spec(given, {}, {"nfd": False, **settings}, {})
    return objects_of(render(spec))


def leaves(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of what an object says, configurations in JSON included.

    Items of lists of objects go by their folder or name.

    Of the object's own labels and annotations only the names count, and of an owner that there is one: what they say is
    about who made the object.
    """
    metadata = body["metadata"]
    for part in ("labels", "annotations"):
        yield from ((f"metadata.{part}.{name}", _THERE) for name in metadata.get(part) or {})
    if metadata.get("ownerReferences"):
        yield "metadata.ownerReferences", _THERE
    rest = {key: item for key, item in body.items() if key not in ("metadata", "status", "rules")}
    if "rules" in body:
        yield "rules", sorted(_rights(body["rules"]))
    yield from _walk("", _without(rest, {**_DEFAULTS, **_OF_KIND.get(body["kind"], {})}))


def _rights(rules: list[dict[str, Any]]) -> set[str]:
    return {
        " ".join([verb, f"{name}.{group}".rstrip("."), *rule.get("resourceNames", [])])
        for rule in rules
        for group in rule["apiGroups"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }


def _without(value: Any, defaults: dict[str, Any]) -> Any:
    """Return a value without what the server fills in."""
    if isinstance(value, list):
        return [_without(item, defaults) for item in value]
    if not isinstance(value, dict):
        return value
    # The second name of an account is no field of its own.
    said = {key: item for key, item in value.items() if key != "serviceAccount" and item not in ("", defaults.get(key))}
    return {key: _without(item, defaults) for key, item in said.items()}


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(f"{path}.{key}" if path else key, item)
    elif path.endswith(".volumes"):
        # Their names only tie them to mounts, where they are compared.
        yield path, [{key: part for key, part in item.items() if key != "name"} for item in value]
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        for item in value:
            name = item.get("mountPath") or item.get("name") or json.dumps(item, sort_keys=True)
            yield from _walk(f"{path}.{name}", item)
    elif isinstance(value, str) and path.endswith((".config", ".json")):
        yield from _walk(path, json.loads(value))
    else:
        yield path, _meaning(path, value)


def _meaning(path: str, value: Any) -> Any:
    """Return what a text says: settings as their lines without comments, a digest that it is one."""
    if not isinstance(value, str):
        return value
    if path.endswith("config-hash"):
        return _THERE
    if path.endswith(".ini"):
        return [line for line in map(str.strip, value.splitlines()) if line and not line.startswith("#")]
    return value
