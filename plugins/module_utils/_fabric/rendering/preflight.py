# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only the rendered objects show about an input, found before a host is changed."""

from __future__ import annotations

from typing import Iterator

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation

from ..checks.instances import flaws_of
from ..common.findings import path_text
from ..common.objects import Object
from .cdi import lost_with_cdi, offers_with_cdi, short_of_devices
from .host_devices import giving_objects
from .ranges import diverted, hosts_of, overlaps
from .render import Wave, objects_of, render

_DEPLOYMENT_PLACING = ("deploymentNodeAffinity", "deploymentTolerations")
_OVERRIDES = "image_overrides"


def preflight(spec: Object) -> list[Notice]:
    """Return what is rendered and will surprise.

    Raises InvalidInput with everything that can't be rendered, else with the ranges that hold an address of a host,
    what the definitions of this run refuse of objects given as such, and containers that CDI gives too few devices.
    """
    waves = render(spec)
    objects = giving_objects(spec) if spec.get("chart") else objects_of(waves)
    offers = offers_with_cdi(objects)
    violations = [*overlaps(spec, hosts_of(spec)), *_misfits(waves), *short_of_devices(objects, offers)]
    if violations:
        raise InvalidInput(violations)
    said = [*diverted(spec), *lost_with_cdi(offers)]
    if spec.get("chart"):
        return said
    return [*said, *_unread_placing(spec, waves), *_unread_overrides(spec, waves)]


def _misfits(waves: list[Wave]) -> list[Violation]:
    by_name = {wave["name"]: wave["objects"] for wave in waves}
    return [
        Violation(f"{each['kind']} {each['metadata']['name']}", path_text(path), problem, hint)
        for each in by_name.get("objects", [])
        for path, problem, hint in flaws_of(by_name.get("crds", []), each)
    ]


def _unread_placing(spec: Object, waves: list[Wave]) -> Iterator[Notice]:
    """Yield a notice for each placing of Deployments that changes no object."""
    policy = spec.get("cluster_policy") or {}
    given = policy.get("spec") or {}
    for name in _DEPLOYMENT_PLACING:
        without = {**policy, "spec": _without(given, name)}
        if given.get(name) and render({**spec, "cluster_policy": without}) == waves:
            hint = "no component of this policy has a Deployment that reads it"
            yield Notice(policy["source"], f"spec.{name}", "has no effect here", hint)


def _unread_overrides(spec: Object, waves: list[Wave]) -> Iterator[Notice]:
    """Yield a notice for each part of an image override that changes no object; the driver's is work of the hosts."""
    settings = spec.get("settings") or {}
    overrides = settings.get(_OVERRIDES) or {}
    for component, given in overrides.items():
        for part in given if component != "doca-driver" else ():
            without = {**overrides, component: _without(given, part)}
            if render({**spec, "settings": {**settings, _OVERRIDES: without}}) == waves:
                hint = "no rendered object takes it from here; an image that the policy names itself counts"
                yield Notice(f"rdma_fabric_{_OVERRIDES}", path_text((component, part)), "has no effect here", hint)


def _without(given: Object, name: str) -> Object:
    return {key: value for key, value in given.items() if key != name}
