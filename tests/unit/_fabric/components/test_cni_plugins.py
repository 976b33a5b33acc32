# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which images copy their programs by themselves; what the command of the others does is tested with the images."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import spec_of

OF_OTHERS = {"repository": "registry.example.com", "image": "my-plugins"}


@pytest.mark.parametrize(
    ("section", "given", "programs"),
    [
        ("cniPlugins", {}, None),
        ("cniPlugins", {"version": "network-operator-v26.4.1"}, None),
        ("cniPlugins", {"version": "network-operator-v26.1.0"}, "/usr/src/cni/bin/*"),
        ("cniPlugins", {"repository": "ghcr.io/k8snetworkplumbingwg", "version": "v1.6.2"}, "/usr/src/cni/bin/*"),
        ("cniPlugins", {"version": f"sha256:{'a' * 64}"}, None),
        ("cniPlugins", {**OF_OTHERS, "version": "v1.5.0"}, None),
        ("ipoib", {"version": "network-operator-v25.10.0"}, "/usr/bin/ipoib"),
        ("ipoib", {"repository": "ghcr.io/mellanox", "version": "v1.2.0"}, "/usr/bin/ipoib"),
        ("ipoib", {"version": "network-operator-v26.4.0"}, None),
    ],
)
def test_images_that_write_over_programs_get_a_command(
    section: str, given: dict[str, str], programs: str | None
) -> None:
    bodies = objects_of(render(spec_of({"secondaryNetwork": {section: given}}, settings={"nfd": False})))
    (container,) = (container for each in bodies if each["kind"] == "DaemonSet" for container in containers(each))
    assert ("command" in container) == (programs is not None)
    assert programs is None or f"for program in {programs}; do" in container["command"][-1]


def containers(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body["spec"]["template"]["spec"]["containers"]
    return found
