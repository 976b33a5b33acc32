# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One secondary network. Its documentation is in ``plugins/modules/secondary_network.py``."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Mapping, TypeVar

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import nad
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import path_text
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.jsontext import compact
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import dns_label, dns_subdomain
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.crds import network_attachment_definition
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.single_object import SingleObjectAction, identity_of

Words = TypeVar("Words", Violation, Notice)

VARIABLES = {
    "MacvlanNetwork": "macvlan_networks",
    "HostDeviceNetwork": "host_device_networks",
    "IPoIBNetwork": "ipoib_networks",
}


class ActionModule(SingleObjectAction):
    """Renders, applies or removes one NetworkAttachmentDefinition."""

    constraints: ClassVar[Mapping[str, Any]] = {
        "mutually_exclusive": [("kind", "config"), ("spec", "config"), ("spec", "annotations")],
        "required_by": {"spec": "kind"},
    }

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do what O(state) asks; see the module's documentation."""
        namespace = _namespace(arguments)
        if arguments["state"] == "absent":
            return self.remove(arguments, identity_of(nad.API_VERSION, nad.KIND, arguments["name"], namespace))
        if not arguments["kind"] and arguments["config"] is None:
            problem = "neither kind nor config is given: nothing says what the network is"
            raise InvalidInput([Violation("arguments", "", problem, "set kind and spec, or config")])
        found, notices = _attachment(arguments, namespace)
        text = found.get("spec", {}).get("config", "")
        result: dict[str, Any] = {
            "object": found,
            "config": json.loads(text) if text.strip() else {},
            "notices": notices,
        }
        if arguments["state"] == "present":
            wanted = arguments["definition"] and not self.serves(arguments, found)
            before = [network_attachment_definition()] if wanted else []
            pushed = self.push(arguments, found, before)
            result = {**pushed, **result, "notices": [*notices, *pushed.get("notices", [])]}
        return result


def _namespace(arguments: dict[str, Any]) -> str:
    inside = (arguments["spec"] or {}).get("networkNamespace") or ""
    given = arguments["namespace"] or ""
    violations = []
    if inside and given and inside != given:
        problem = f"{given!r} differs from spec.networkNamespace {inside!r}"
        violations.append(Violation("arguments", "namespace", problem, "leave one of them out"))
    namespace = str(given or inside or "default")
    for path, problems in (("name", dns_subdomain(arguments["name"])), ("namespace", dns_label(namespace))):
        violations += [Violation("arguments", path, each.problem, each.hint) for each in problems]
    if violations:
        raise InvalidInput(violations)
    return namespace


def _attachment(arguments: dict[str, Any], namespace: str) -> tuple[dict[str, Any], list[Notice]]:
    """Return the object and what is worth saying about it, after the checks that every other input goes through."""
    name, kind = arguments["name"], arguments["kind"]
    if kind:
        network = {**(arguments["spec"] or {}), "networkNamespace": namespace}
        spec, notices = _checked(VARIABLES[kind], name, network)
        return nad.network_attachment(spec["networks"][0]), notices
    config = arguments["config"]
    given = {
        "config": config if isinstance(config, str) else compact(config),
        "annotations": arguments["annotations"] or {},
    }
    spec, notices = _checked("network_attachments", f"{namespace}/{name}", given)
    return nad.given_attachment(spec["attachments"][0]), notices


def _checked(variable: str, name: str, given: dict[str, Any]) -> tuple[dict[str, Any], list[Notice]]:
    """Send one network through the loader; what it finds is said in the words of this task's arguments."""
    try:
        spec, notices = build_spec([], {variable: {name: given}}, {}, {})
    except InvalidInput as invalid:
        raise InvalidInput(_in_own_words(each, name) for each in invalid.violations) from invalid
    return spec, [_in_own_words(each, name) for each in notices]


def _in_own_words(found: Words, name: str) -> Words:
    inside = found.path[len(path_text((name,))) :].lstrip(".")
    return type(found)("arguments", inside, found.problem, found.hint)
