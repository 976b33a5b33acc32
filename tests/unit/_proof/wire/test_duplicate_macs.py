# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards of several hosts with one MAC address."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.duplicate_macs import shared_addresses


def facts(*macs: str | None, pci: str | None = "0000:01:10.0") -> dict[str, Any]:
    return {"netdevs": [{"name": f"rail0v{number}", "mac": mac, "pci": pci} for number, mac in enumerate(macs)]}


def test_hosts_that_share_addresses_are_told_once_with_every_address() -> None:
    clones = facts("02:00:00:00:00:01", "02:00:00:00:00:02")
    (told,) = shared_addresses({"a": clones, "b": clones, "c": facts("02:00:00:00:00:03")})
    assert told.startswith("a and b have MAC addresses in common: 02:00:00:00:00:01 (a rail0v0, b rail0v0), 02:")
    assert "machine-id" in told


@pytest.mark.parametrize(
    "hosts",
    [
        {},
        {"a": None, "b": None},
        {"a": {}, "b": {}},
        {"a": facts(None), "b": facts(None)},
        {"a": facts("02:00:00:00:00:01"), "b": facts("02:00:00:00:00:02")},
        {"a": facts("02:00:00:00:00:01", "02:00:00:00:00:01")},
        {"a": facts("02:00:00:00:00:01", pci=None), "b": facts("02:00:00:00:00:01", pci=None)},
    ],
)
def test_nothing_is_told_of_hosts_that_share_none(hosts: dict[str, Any]) -> None:
    assert shared_addresses(hosts) == []
