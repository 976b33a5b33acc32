# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a release is removed for another one, that one has to be offered still."""

from __future__ import annotations

from typing import Any, Sequence, cast

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.packages import before_removal
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Found
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import family_of
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import driver_host
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_apply import WANTED, ran, run, runs_vendor
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack


@pytest.mark.parametrize("wanted", [{"version": "24.07-0.6.1.0"}, {"flavour": "mlnx-ofed", "version": "24.07-0.6.1.0"}])
@pytest.mark.parametrize("system", ["ubuntu-24.04", "rocky-9", "sles-15"])
def test_a_release_that_is_offered_no_more_is_told_before_the_newer_one_is_removed(
    system: str, wanted: dict[str, Any]
) -> None:
    kernel = driver_host(system)
    assert not run(kernel).get("failed")
    kernel.revive()
    before = kernel.state()["files"]
    outcome = run(kernel, **{**WANTED, **wanted})
    assert outcome["failed"] is True
    package = next(name for name in stack.KERNEL_PACKAGES if name in outcome["msg"])
    assert f"no repository of this host offers {package} of 24.07-0.6.1.0 (they have 24.10-1.1.4)" in outcome["msg"]
    assert "so the release that is installed stays; next: have the repository offer it again" in outcome["msg"]
    assert not [what for what in ran(kernel) if " remove " in what or " purge " in what or "install" in what]
    assert (runs_vendor(kernel), kernel.state()["files"][stack.STACK]) == (True, before[stack.STACK])
    known = stack.stack_of(kernel) or {}
    newer_is, older_is = "24.10.OFED.24.10.1.1.4.1", "24.07.OFED.24.07.0.6.1.1"
    older = {name: version.replace(newer_is, older_is) for name, version in known["offered"].items()}
    stack.keep(kernel, stack.STACK, {**known, "offered": older, "release": "24.07-0.6.1"})
    kernel.revive()
    brought = run(kernel, **{**WANTED, **wanted})
    assert not brought.get("failed"), brought["msg"]


def test_where_a_package_manager_can_not_list_what_is_offered_the_release_is_replaced_as_before() -> None:
    family = family_of({"id": "debian", "version_id": "13"})
    assert family is not None

    class Silent:
        def run(self, _argv: Sequence[str], _timeout: float) -> CommandResult:
            return CommandResult(100, "", "E: no index")

    asked = before_removal(family, "mlnx-ofed-kernel-dkms", None)
    assert isinstance(asked, Found)
    assert list(asked.operations(cast(Host, Silent()))) == []


@pytest.mark.parametrize("system", ["ubuntu-24.04", "rocky-9", "sles-15"])
def test_a_package_that_stands_on_the_driver_is_offered_in_its_line_or_nothing_is_changed(system: str) -> None:
    """The packages of one release differ in their last numbers (microsoft/azurelinux, SPECS/isert/isert.spec)."""
    kernel = driver_host(system)
    assert not run(kernel).get("failed")
    left, fitting = "24.07.OFED.24.07.0.6.1.1-1", "24.10.OFED.24.10.1.0.2.1-1"
    known = stack.stack_of(kernel) or {}
    known = {**known, "installed": {**known["installed"], "mlnx-nvme-dkms": left}}
    for offered in ({}, {"mlnx-nvme-dkms": left}, {"mlnx-nvme-dkms": fitting}):
        stack.keep(kernel, stack.STACK, {**known, "offered": {**known["offered"], **offered}})
        kernel.revive()
        outcome = run(kernel)
        if offered.get("mlnx-nvme-dkms") == fitting:
            assert not outcome.get("failed"), outcome["msg"]
            assert outcome["plan"]["steps"] == []
        else:
            assert "no repository of this host offers mlnx-nvme-dkms of 24.10-1.1.4.0" in outcome["msg"]
            assert not [what for what in ran(kernel) if "install" in what or "dracut" in what or "initramfs" in what]
    assert (stack.stack_of(kernel) or {})["installed"]["mlnx-nvme-dkms"] == fitting
