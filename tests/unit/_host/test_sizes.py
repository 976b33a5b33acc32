# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of ours are whole whatever their size: read, compared, brought back, and kept out of results when long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import kept_in
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import LONGEST_TEXT, as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import revert
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    OUTPUT_LIMIT,
    READ_LIMIT,
    Host,
    HostError,
    LiveHost,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    BOOT_SPEC_FILE,
    MARKER,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
UPLINK, OTHER = "eno1", "0000:37:00.0"
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
DROP_IN = "/etc/systemd/network/20-x.network.d/90-rdma-fabric.conf"
NETPLAN = "/etc/netplan/90-rdma-fabric.yaml"
# On both sides of what a result holds of a file, and of what is read of a file of others.
SIZES = [size + side for size in (LONGEST_TEXT, READ_LIMIT) for side in (-1, 0, 1)]


def host(**files: str) -> Kernel:
    document = FLEET["egx-01"]().document()
    document["files"].update({BOOT_ID: "first\n", **files})
    document.setdefault("dirs", []).append("/etc/systemd/system")
    return Kernel(document)


def wish(mtu: int, **entry: Any) -> dict[str, Any]:
    return {
        "interfaces": [{"current_name": UPLINK, "mtu": mtu}, {"pci": OTHER, "mtu": mtu, **entry}],
        "consents": {"uplink_change": True},
    }


def applied(kernel: Kernel, desired: dict[str, Any], guard: Guard | None = None) -> Mapping[str, Any]:
    outcome = apply(kernel, check_spec(desired), APPLY, None, kernel, watch=guard)
    assert not outcome.get("failed"), outcome["msg"]
    return outcome


def at_every_host(path: str, data: bytes, root: Path) -> list[Host]:
    place = root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    document = {"files": {path: data.decode()}}
    return [LiveHost(str(root)), RecordedHost(document), Kernel(document)]


@pytest.mark.parametrize("size", [*SIZES, OUTPUT_LIMIT])
def test_a_file_of_ours_is_read_whole(tmp_path: Path, size: int) -> None:
    for path in ("/var/lib/rdma-fabric/baseline.json", NETPLAN):
        assert [len(each.read(path)) for each in at_every_host(path, b"x" * size, tmp_path)] == [size] * 3


def test_a_file_of_ours_is_never_cut_in_silence(tmp_path: Path) -> None:
    for each in at_every_host(NETPLAN, b"x" * (OUTPUT_LIMIT + 1), tmp_path):
        with pytest.raises(HostError, match="EFBIG"):
            each.read(NETPLAN)


@pytest.mark.parametrize("size", SIZES)
def test_a_revert_brings_the_wishes_of_the_boot_unit_back(size: int) -> None:
    kernel = host()
    applied(kernel, wish(1500, state="up"))
    kernel.revive()
    former = kernel.read(BOOT_SPEC_FILE).ljust(size)
    kernel.tree.add_file(BOOT_SPEC_FILE, former)
    guard = Guard(kernel, kernel, lambda *_arguments: None, token="0123456789abcdef", seconds=120)
    applied(kernel, wish(9000, state="up"), guard)
    assert kernel.read(BOOT_SPEC_FILE) != former
    assert revert(kernel, kernel)
    assert kernel.read(BOOT_SPEC_FILE) == former


@pytest.mark.parametrize("size", SIZES)
def test_a_revert_brings_a_managers_file_back(size: int) -> None:
    kernel = host(**{NETWORKD: "", "/etc/systemd/network/20-x.network": "[Match]\nName=ens2f0\n"})
    applied(kernel, wish(1500))
    kernel.revive()
    former = kernel.read(DROP_IN).ljust(size, "#")
    kernel.tree.add_file(DROP_IN, former)
    guard = Guard(kernel, kernel, lambda *_arguments: None, token="0123456789abcdef", seconds=120)
    applied(kernel, wish(9000), guard)
    assert revert(kernel, kernel)
    assert kernel.read(DROP_IN) == former


@pytest.mark.parametrize("size", SIZES)
def test_a_revert_brings_a_file_back_that_nothing_wanted_any_more(size: int) -> None:
    former = f"# {MARKER}\n".ljust(size, "#")
    kernel = host(**{NETPLAN: former})
    guard = Guard(kernel, kernel, lambda *_arguments: None, token="0123456789abcdef", seconds=120)
    applied(kernel, wish(9000), guard)
    assert not kernel.exists(NETPLAN)
    assert revert(kernel, kernel)
    assert kernel.read(NETPLAN) == former


@pytest.mark.parametrize("count", [10, 100, 2000])
def test_netplan_routes_of_ours_are_known_as_ours_however_many(count: int) -> None:
    lines = [json.dumps({"to": f"10.{n // 256}.{n % 256}.0/24", "table": 101, "metric": 0}) for n in range(count)]
    text = "".join([f"# {MARKER}\n", "      routes:\n", *(f"        - {line}\n" for line in lines)])
    assert (len(text) > LONGEST_TEXT, len(text) > READ_LIMIT) == (count > 10, count > 100)
    routes, _rules = kept_in(gather(host(**{NETPLAN: text}))["boot"]["files"])
    assert len(routes) == count


@pytest.mark.parametrize(("size", "kept"), [(LONGEST_TEXT, True), (LONGEST_TEXT + 1, False)])
def test_a_result_has_the_digest_of_a_long_file(size: int, kept: bool) -> None:
    text = f"# {MARKER}\n".ljust(size, "#")
    outcome = preview(host(**{DROP_IN: text}), check_spec({}), CHECK, None)
    found = as_returned(outcome["facts"])["boot"]["files"][DROP_IN]
    assert (found == text) is kept
    assert kept or list(found) == ["sha256"]
