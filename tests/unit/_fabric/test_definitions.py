# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of every kind of the vendor's, by release, against the definitions that are shipped and what is read."""

from __future__ import annotations

import json
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import crds_controllers
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.versions import Release, controller_release
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import RELEASES
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import walk
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import crds

from .inputs import FIXTURES

RECORDED: dict[str, dict[str, list[str]]] = json.loads((FIXTURES / "operator" / "fields.json").read_text("utf-8"))
# Fields of 26.10 that its documentation has and no published definition yet.
DOCUMENTED = {
    "SpectrumXRailPoolConfig": {"spec.ovsConfig object", "spec.railTopology[].swPlane integer"},
}


def upstream(kind: str, release: str) -> set[str]:
    """Return path and type of every field that a release has."""
    found: set[str] = set()
    for name in RELEASES:
        changes = RECORDED[kind].get(name, [])
        found -= {each[1:] for each in changes if each.startswith("-")}
        found |= {each for each in changes if not each.startswith("-")}
        if name == release:
            break
    return found


def fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, child in (schema.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        yield f"{below} {child.get('type') or 'int-or-string'}"
        yield from fields(child, below)
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}.*")


def shipped(release: Release) -> dict[str, set[str]]:
    """Return path and type of every field of spec and status of the definitions that are shipped, by kind."""
    definitions = [*crds.nv_ipam(), *crds_controllers.nic_configuration(release), *crds_controllers.spectrum_x(release)]
    return {
        each["spec"]["names"]["kind"]: {
            field
            for field in fields(each["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
            if field.startswith(("spec.", "status."))
        }
        for each in definitions
    }


@pytest.mark.parametrize("release", RELEASES)
def test_shipped_definitions_have_the_fields_of_their_release(release: str) -> None:
    number = controller_release(f"network-operator-v{release}", {})
    for kind, ours in shipped(number).items():
        more = DOCUMENTED.get(kind, set()) if number >= (26, 10) else set()
        assert (kind, ours ^ upstream(kind, release)) == (kind, more)


@pytest.mark.parametrize("kind", sorted(set(MODELS) & set(RECORDED)))
def test_every_field_of_a_kind_is_read_or_named(kind: str) -> None:
    read = {f"{owner}.{name}".lstrip("."): field for owner, name, field in walk(MODELS[kind].root)}
    # What is refused or has no effect is so as a whole.
    whole = tuple(path for path, field in read.items() if field.refused or field.idle)
    wanted = {
        field.partition(" ")[0].partition(".")[2]
        for release in RELEASES
        for field in upstream(kind, release)
        if field.startswith("spec.")
    }
    assert {each for each in wanted - set(read) if not each.startswith(whole)} == set()
