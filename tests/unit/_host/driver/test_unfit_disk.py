# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that has not the driver that packages and DKMS say it has, and a reload that was ended without a driver.

A reload would take the network away, load what ran before, and be planned again by every run.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.apply import work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Each, PutFile, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.snapshot import empty_snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_plan import (
    CONSENTED,
    CORE,
    INBOX_CORE,
    JOURNAL,
    KERNEL,
    asked,
    host,
    installed,
    on_disk,
    read,
    running,
    stack,
    statuses,
    step_named,
    steps,
)

OLDER: Any = on_disk(CORE, "CCCC", "24.04-0.6.6")
VENDOR: Any = on_disk(CORE, "BBBB", "24.07-0.6.1")
NOTHING_LOADED: dict[str, Any] = {"stack": stack("none"), "modules": {}}


@pytest.mark.parametrize("found", [on_disk(), on_disk(INBOX_CORE, "AAAA", "5.0-0"), OLDER, {}])
def test_a_build_that_dkms_has_not_installed_is_made_before_the_reload(found: Any) -> None:
    """Compiled is not installed: a run that is killed in between leaves /var/lib/dkms as if it were."""
    planned = steps(host(installed(on_disk=found)), asked(), **CONSENTED)
    assert list(statuses(planned))[-3:] == [f"build:{KERNEL}", "initrd", "load"]
    assert set(statuses(planned).values()) == {"planned"}


def test_what_is_built_is_of_the_wanted_release() -> None:
    """Sorted as text, 5.8 is behind 24.07, and leftovers of newer releases are behind both."""
    names = ("24.07.OFED.24.07.0.6.1.1", "5.8.OFED.5.8.1.1.2.1", "25.07.OFED.25.07.0.9.7.1")
    built = [{"name": "mlnx-ofed-kernel", "version": name, "kernel": KERNEL} for name in names]
    spec = check_spec({"requests": [asked()], **CONSENTED})
    found, context = plan_with_context(spec, host(installed(on_disk=on_disk(), built=built)), ("driver",))
    (build,) = work(context, step_named(found["steps"], f"build:{KERNEL}")).do
    assert isinstance(build, Run)
    assert build.argv == ("dkms", "install", f"mlnx-ofed-kernel/{names[0]}", "-k", KERNEL)


def test_precompiled_modules_of_another_kernel_are_not_loaded() -> None:
    """A kernel was upgraded and booted, and weak-modules linked nothing for it."""
    packages = {"kmod-mlnx-ofa_kernel": "24.07-OFED.24.07.0.6.1.1.rhel9u4", "ofed-scripts": "24.07-OFED.24.07.0.6.1"}
    made = host(installed(on_disk=on_disk(), built=[], packages=packages))
    made["system"]["os"] = {"id": "rhel", "id_like": [], "version_id": "9.4", "name": "RHEL"}
    wanted = {"flavour": "doca-ofed", "version": "24.07-0.6.1.0", "build": "precompiled"}
    load = step_named(steps(made, driver=wanted, **CONSENTED), "load")
    assert load["status"] == "refused"
    assert f"weak-modules --add-kernel {KERNEL}" in load["detail"] and "nothing is unloaded" in load["detail"]


def test_modules_of_no_package_are_not_taken_for_the_kernels_own() -> None:
    """As make install of the vendor's sources leaves them."""
    state = read(on_disk=VENDOR, loaded=running("BBBB"))
    made = host(state, stack=stack("doca-ofed", "24.07-0.6.1"))
    load = step_named(steps(made, driver={"state": "absent"}, **CONSENTED), "load")
    assert load["status"] == "refused"
    assert CORE in load["detail"] and f"depmod -a {KERNEL}" in load["detail"]


class TestReloadThatWasEndedWithoutADriver:
    @pytest.mark.parametrize("driver", [None, {"flavour": "inbox"}])
    def test_the_same_run_loads_the_driver_and_brings_the_network_back(self, driver: Any) -> None:
        state = installed(journal=JOURNAL, loaded={}) if driver is None else read(journal=JOURNAL, loaded={})
        wanted = {"driver": driver} if driver else {}
        found = steps(host(state, **NOTHING_LOADED), *([] if driver else [asked()]), **wanted, **CONSENTED)
        assert list(statuses(found))[-2:] == ["load", "restore"]

    def test_a_refusal_of_packages_does_not_keep_the_network_away(self) -> None:
        lock = {"pid": 812, "program": "unattended-upgr", "path": "/var/lib/dpkg/lock"}
        state = read(journal=JOURNAL, locks=[lock])
        found = statuses(steps(host(state), asked(), **CONSENTED))
        assert found == {"restore": "planned", "lock": "refused"}

    def test_a_disk_without_the_wanted_driver_does_not_either(self) -> None:
        state = read(on_disk=VENDOR, loaded=running("BBBB"), journal=JOURNAL)
        made = host(state, stack=stack("doca-ofed", "24.07-0.6.1"))
        found = statuses(steps(made, driver={"state": "absent"}, **CONSENTED))
        assert found == {"restore": "planned", "load": "refused"}

    def test_modules_that_it_had_unloaded_are_loaded_by_the_next_run(self) -> None:
        """Interfaces of IPoIB come from a module of their own, which is not loaded any more then."""
        ipoib = {"refcount": 0, "users": []}
        spec = check_spec({"driver": {"state": "absent"}, **CONSENTED})
        state = read(loaded=running("BBBB", ib_ipoib=ipoib), snapshot=empty_snapshot("mlx5_core"))
        with_ipoib = host(state, stack=stack("doca-ofed", "24.07-0.6.1"))
        found, context = plan_with_context(spec, with_ipoib, ("driver",))
        written = next(do for do in work(context, step_named(found["steps"], "load")).do if isinstance(do, PutFile))
        killed = host(read(journal=written.text, loaded={}), **NOTHING_LOADED)
        found, context = plan_with_context(spec, killed, ("driver",))
        (back, *_rest) = work(context, step_named(found["steps"], "restore")).do
        assert isinstance(back, Each)
        loads = [do.argv for do in back.operations if isinstance(do, Run) and do.argv[0] == "modprobe"]
        assert loads == [("modprobe", name) for name in ("mlx5_core", "mlx5_ib", "ib_ipoib")]


@pytest.mark.parametrize("driver", [{"state": "absent"}, {"flavour": "inbox"}, {"flavour": "doca-ofed"}])
def test_a_package_database_that_does_not_answer_is_no_empty_one(driver: Any) -> None:
    """State absent ended with nothing to do, and the vendor's packages were there."""
    found = steps(host(read(family="Ubuntu 24.04", packages=None, database_fails=True)), driver=driver, **CONSENTED)
    assert statuses(found) == {"database": "refused"}
    assert "dpkg-query --show fails" in found[0]["detail"]
