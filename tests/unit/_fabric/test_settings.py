# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings are checked under the names of their variables."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import of_text


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("namespace", "A_B", ""),
        ("namespace", 5, ""),
        ("nfd", "maybe", ""),
        ("cni_bin_dir", "opt/cni/bin", ""),
        ("cni_bin_dir", "/opt/../etc", ""),
        ("cni_conf_dir", "", ""),
        ("join_taint", "joining:PreferNoSchedule", ""),
        ("registry_mirrors", {"https://ghcr.io": "a.b/c"}, '["https://ghcr.io"]'),
        ("registry_mirrors", {"ghcr.io": "https://a"}, '["ghcr.io"]'),
        ("registry_mirrors", ["ghcr.io"], ""),
        ("image_overrides", {"mults": {}}, "mults"),
        ("image_overrides", {"multus": {"tag": "v1"}}, "multus.tag"),
        ("image_overrides", {"multus": {"version": "a b"}}, "multus.version"),
        ("image_pull_secrets", ["A"], "[0]"),
        ("image_pull_secrets", [{"name": "a"}], "[0]"),
        ("proxy", {"http_proxy": "x"}, "http_proxy"),
    ],
)
def test_a_bad_setting_is_reported_at_its_variable(name: str, value: Any, path: str) -> None:
    found = of_text(settings={name: value}).wrong(path)
    assert found.source == f"rdma_fabric_{name}"
    assert found.hint


def test_right_settings_are_taken_as_they_are() -> None:
    given: dict[str, Any] = {
        "nfd": False,
        "cni_bin_dir": "/var/lib/rancher/k3s/data/cni",
        "cni_conf_dir": "/var/lib/rancher/k3s/agent/etc/cni/net.d",
        "registry_mirrors": {"ghcr.io": "registry.local:5000/ghcr", "docker.io": "registry.local"},
        "image_overrides": {"multus": {"repository": "ghcr.io/x", "version": "v4.1.0"}},
        "image_pull_secrets": ["a", "b.c"],
        "proxy": {"httpProxy": "http://proxy:3128"},
    }
    assert of_text(settings={**given, "namespace": "fabric"}).accepted().spec["settings"] == given


def test_what_is_not_given_is_no_setting() -> None:
    assert of_text(settings=dict.fromkeys(("nfd", "namespace", "proxy"))).accepted().spec["settings"]["nfd"] is True
