# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose driver is too old for IPoIB between their own pods are named where there are such networks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.report import build_report
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet

IPOIB: dict[str, Any] = {"networks": [{"kind": "IPoIBNetwork", "name": "ib0", "spec": {}, "source": "networks.yaml"}]}


def seen(asked: dict[str, Any], *, layer: str = "InfiniBand", **changes: dict[str, Any]) -> list[str]:
    """What a report says of a host with ``changes`` of its facts."""
    facts = sample_fleet.h100_facts("h", layer)
    for part, changed in changes.items():
        facts[part] = {**facts[part], **changed}
    report = build_report(
        spec={**sample_fleet.spec(["h"]), **asked},
        hosts=[sample_fleet.document("h", facts, [])],
        cluster=None,
        rendered=[],
        notices=[],
        generated_at="2026-01-01T00:00:00Z",
        title="t",
    )
    remarks = [remark for remark in report["remarks"] if remark["kind"] == "ipoib_within_host"]
    return [device["seen"] for remark in remarks for device in remark["devices"]]


def system(kernel: str, name: str = "ubuntu", like: str = "debian") -> dict[str, Any]:
    return {"kernel": kernel, "os": {"id": name, "id_like": [like], "version_id": "1", "name": name}}


INBOX = {"flavour": "inbox", "version": None}


@pytest.mark.parametrize(
    ("kernel", "names", "said"),
    [
        ("5.4.0-216-generic", ("ubuntu", "debian"), ["kernel 5.4.0-216-generic"]),
        ("4.19.0-27-amd64", ("debian", ""), ["kernel 4.19.0-27-amd64"]),
        ("5.8.0-63-generic", ("ubuntu", "debian"), []),
        ("6.8.0-40-generic", ("ubuntu", "debian"), []),
        ("4.18.0-553.el8_10.x86_64", ("rocky", "rhel"), []),
        ("5.3.18-150300.59-default", ("sles", "suse"), []),
        ("unknown", ("debian", ""), []),
    ],
)
def test_the_kernels_own_driver_is_as_old_as_the_kernel_unless_drivers_are_brought_back(
    kernel: str, names: tuple[str, str], said: list[str]
) -> None:
    assert seen(IPOIB, stack=INBOX, system=system(kernel, *names)) == said


@pytest.mark.parametrize(
    ("version", "said"),
    [("5.0-2.1.8", ["mlnx-ofed 5.0-2.1.8"]), ("4.9-7.1.0", ["mlnx-ofed 4.9-7.1.0"]), ("5.1-2.5.8", []), (None, [])],
)
def test_the_vendors_driver_has_a_version_of_its_own(version: str | None, said: list[str]) -> None:
    assert seen(IPOIB, stack={"flavour": "mlnx-ofed", "version": version}, system=system("4.19.0")) == said


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"type": "ipoib", "master": "ib0"}, True),
        ({"plugins": [{"type": "ipoib", "master": "ib0"}]}, True),
        ({"type": "macvlan"}, False),
        ([], False),
    ],
)
def test_an_attachment_that_calls_the_program_counts_as_well(config: Any, said: bool) -> None:
    asked = {"attachments": [{"name": "ib0", "config": json.dumps(config)}]}
    assert bool(seen(asked, stack=INBOX, system=system("5.4.0"))) is said


@pytest.mark.parametrize(
    ("asked", "layer"),
    [({}, "InfiniBand"), (IPOIB, "Ethernet"), ({"attachments": [{"name": "a", "config": ""}]}, "InfiniBand")],
)
def test_without_such_networks_or_ports_nothing_is_said(asked: dict[str, Any], layer: str) -> None:
    assert seen(asked, layer=layer, stack=INBOX, system=system("5.4.0")) == []
