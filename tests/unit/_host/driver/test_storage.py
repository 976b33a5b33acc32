# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands on the driver comes along with a change of it, or stops it, or is named before it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.apply import work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Found, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.module_graph import CLIENTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import MOUNTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan, plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import RELEASE, VENDOR_BUILD, driver_host
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_plan import (
    KERNEL,
    VENDOR_PACKAGES,
    asked,
    host,
    installed,
    on_disk,
    plan,
    read,
    running,
    stack,
    statuses,
    step_named,
    steps,
)

UNUSED: Any = {"refcount": 0, "users": []}
USED: Any = {"refcount": 3, "users": []}
INBOX: Any = {"state": "absent"}
ROOT = "24 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
FILE_SYSTEMS = (
    "60 24 0:60 / /scratch rw - lustre 192.0.2.200@o2ib:/scratch rw\n"
    "61 24 0:61 / /beegfs rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf\n"
)


def lost(state: dict[str, Any], **changes: Any) -> list[str]:
    notices = plan(host(state, **changes), asked())["notices"]
    return [text for text in notices if "another ib_core" in text]


def packages_of(state: dict[str, Any], wanted: Any, **changes: Any) -> tuple[list[str], list[str], str]:
    """Return the packages that are looked for before anything changes, the last command, and the step's detail."""
    spec = check_spec({"driver": wanted, "consents": {}})
    made, context = plan_with_context(spec, host(state, **changes))
    step = next(each for each in made["steps"] if each["id"] == "driver:packages")
    operations = [*work(context, step).do]
    sought = [each.what.split()[1] for each in operations if isinstance(each, Found) and each.what.startswith("find ")]
    return sought, [list(each.argv) for each in operations if isinstance(each, Run)][-1], step["detail"]


@pytest.mark.parametrize(
    ("module", "package", "what"),
    [
        ("nvme_rdma", "mlnx-nvme-dkms", "NVMe over RDMA"),
        ("rpcrdma", "mlnx-nfsrdma-dkms", "NFS over RDMA"),
        ("ib_iser", "iser-dkms", "iSCSI over RDMA (iSER)"),
        ("ib_srp", "srp-dkms", "SCSI over RDMA (SRP)"),
    ],
)
def test_what_is_loaded_and_has_no_package_is_named_before_anything_is_installed_or_loaded(
    module: str, package: str, what: str
) -> None:
    for state in (read, installed):
        (notice,) = lost(state(loaded=running("AAAA", **{module: UNUSED})))
        assert notice.startswith(f"{module} is loaded") and package in notice and what in notice
    assert lost(installed(loaded=running("AAAA", **{module: UNUSED}), packages={**VENDOR_PACKAGES, package: "1"})) == []


@pytest.mark.parametrize("client", [client for client in CLIENTS if not client.package], ids=lambda each: each.title)
def test_what_the_vendor_has_no_package_for_is_named_where_loaded_and_stops_the_change_where_mounted(
    client: Any,
) -> None:
    (module,) = client.modules
    loaded = running("AAAA", **{module: USED})
    for state in (read, installed):
        (notice,) = lost(state(loaded=loaded))
        assert notice.startswith(f"{module} is loaded, and the vendor has no package for that")
        assert f"so {client.title} is gone" in notice and "next: build it again" in notice
        for kind in client.mounts:
            found = steps(host(state(loaded=loaded, mounts={kind: ["/data"]})), asked())
            assert statuses(found) == {"mounts": "refused"}
            assert f"/data ({client.title}: {module}) would be gone" in found[0]["detail"]
    # Mounted over TCP, or nothing changes.
    assert "mounts" not in statuses(steps(host(read(mounts={kind: ["/data"] for kind in client.mounts})), asked()))
    same = installed(loaded=running("BBBB", **{module: USED}), mounts={kind: ["/data"] for kind in client.mounts})
    assert plan(host(same, stack=stack("doca-ofed", "24.07-0.6.1")), asked())["notices"] == []


@pytest.mark.parametrize("package", ["mlnx-nvme", "kmod-mlnx-nvme", "mlnx-nvme-kmp-default", "mlnx-nvme-modules"])
def test_the_package_counts_under_the_name_of_every_build(package: str) -> None:
    state = installed(loaded=running(nvme_rdma=UNUSED, nvmet_rdma=UNUSED), packages={**VENDOR_PACKAGES, package: "1"})
    assert lost(state) == []


def test_nothing_is_said_of_what_is_not_loaded_and_where_nothing_changes() -> None:
    assert lost(installed()) == []
    state = installed(loaded=running("BBBB", nvme_rdma=UNUSED))
    assert lost(state, stack=stack("doca-ofed", "24.07-0.6.1")) == []


VENDOR_DISK = on_disk(f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko.zst", "AAAA", "24.10-1.1.4")
OFED = {"mlnx-ofed-kernel-dkms": "24.10.OFED.24.10.1.1.4.1-1", "ofed-scripts": "24.10.OFED.24.10.1.1.4-1"}
NVME = {"mlnx-nvme-dkms": "24.10.OFED.24.10.1.1.4.1-1"}
DOCA_25_07 = {"flavour": "doca-ofed", "version": "25.07-0.9.7.0"}


def test_an_installed_package_comes_along_to_another_flavour_and_is_looked_for_before_the_former_goes() -> None:
    """MLNX_OFED to DOCA-OFED: the removal takes mlnx-nvme-dkms (Mellanox/doca-driver-build, issue 424)."""
    state = read(packages={**OFED, **NVME}, on_disk=VENDOR_DISK, loaded=running(nvme_core=USED, nvme_rdma=USED))
    sought, command, detail = packages_of(state, DOCA_25_07, stack=stack("mlnx-ofed", "24.10-1.1.4"))
    assert sought == ["mlnx-ofed-kernel-dkms", "mlnx-nvme-dkms"]
    assert command[-1] == "mlnx-nvme-dkms"
    assert "mlnx-nvme-dkms in the same release" in detail


def test_an_installed_package_comes_along_to_another_release() -> None:
    state = read(packages={**OFED, **NVME, "doca-ofed": "2.9"}, on_disk=VENDOR_DISK, mounts={"nvme": ["/"]})
    sought, command, _detail = packages_of(state, DOCA_25_07, stack=stack("doca-ofed", "24.10-1.1.4"))
    assert (sought, command[-1]) == (["mlnx-nvme-dkms"], "mlnx-nvme-dkms")
    assert statuses(steps(host(state, stack=stack("doca-ofed", "24.10-1.1.4")), driver=DOCA_25_07))["initrd"]


def test_a_package_that_an_earlier_change_left_behind_is_installed_in_the_release_of_the_driver() -> None:
    packages = {**VENDOR_PACKAGES, "srp-dkms": "24.04.OFED.24.04.0.7.0.1-1"}
    state = installed(loaded=running("BBBB", ko2iblnd=USED), packages=packages, mounts={"lustre": ["/data"]})
    made = plan(host(state, stack=stack("doca-ofed", "24.07-0.6.1")), asked())
    assert "srp-dkms in the same release" in step_named(made["steps"], "packages")["detail"]
    # The driver stays, and with it what was built for it.
    assert "refused" not in statuses(made["steps"]).values() and made["notices"] == []


@pytest.mark.parametrize(
    ("kind", "module", "package"),
    [(kind, module, client.package) for client in CLIENTS if client.package for kind, module in client.mounts.items()],
)
def test_a_mount_brings_the_vendors_package_of_its_module(kind: str, module: str, package: str) -> None:
    loaded = running(**{module: USED})
    for state in (read, installed):
        found = steps(host(state(loaded=loaded, mounts={kind: ["/data"]})), asked())
        assert f"{package}-dkms in the same release" in step_named(found, "packages")["detail"]
        assert lost(state(loaded=loaded, mounts={kind: ["/data"]})) == []
    # The mount does not need the stack: its module does not.
    assert (
        f"{package}-dkms" not in step_named(steps(host(read(mounts={kind: ["/data"]})), asked()), "packages")["detail"]
    )
    # What was built by somebody else for the driver that stays is left alone.
    same = installed(loaded=running("BBBB", **{module: USED}), mounts={kind: ["/data"]})
    assert list(statuses(steps(host(same, stack=stack("doca-ofed", "24.07-0.6.1")), asked()))) == ["order"]


@pytest.mark.parametrize(
    ("system", "build", "name"),
    [
        ({"id": "rhel", "version_id": "9.4"}, "dkms", "mlnx-nfsrdma-dkms"),
        ({"id": "rhel", "version_id": "9.4"}, "precompiled", "kmod-mlnx-nfsrdma"),
        ({"id": "sles", "version_id": "15.6"}, "precompiled", "mlnx-nfsrdma-kmp-default"),
    ],
)
def test_the_package_has_the_name_of_the_build(system: Any, build: str, name: str) -> None:
    made = host(read(kernel="5.14.0-1-default", loaded=running(rpcrdma=UNUSED)))
    made["system"]["os"].update(system)
    wanted = {"flavour": "doca-ofed", "version": "25.07-0.9.7.0", "build": build}
    assert any(f"({name}) is not installed" in text for text in plan(made, driver=wanted)["notices"])


def test_an_archive_of_mlnx_ofed_is_told_what_to_bring() -> None:
    wanted = {"flavour": "mlnx-ofed", "version": "24.10-1.1.4.0", "source": "archive", "archive": "/srv/ofed.tgz"}
    state = read(loaded=running(rpcrdma=USED, nvme_rdma=USED), mounts={"NFS over RDMA": ["/home"]}, archive=True)
    made, context = plan_with_context(check_spec({"driver": wanted}), host(state))
    step = next(each for each in made["steps"] if each["id"] == "driver:packages")
    (runs,) = [
        each.argv for each in work(context, step).do if isinstance(each, Run) and "mlnxofedinstall" in each.argv[0]
    ]
    assert "--with-nfsrdma" in runs and "--with-nvmf" not in runs


def test_on_the_way_back_only_what_is_not_the_kernels_own_is_lost() -> None:
    loaded = running(ksmbd=USED, nvme_rdma=USED, ko2iblnd=USED, beegfs=USED)
    state = read(packages={**OFED, **NVME}, on_disk=VENDOR_DISK, loaded=loaded, mounts={"beegfs": ["/beegfs"]})
    made = host(state, stack=stack("mlnx-ofed", "24.10-1.1.4"))
    made["modules"].update({name: {"loaded": True, "out_of_tree": name in {"ko2iblnd", "beegfs"}} for name in loaded})
    found = plan(made, driver=INBOX)
    assert statuses([step for step in found["steps"] if step["id"].startswith("driver:")]) == {"mounts": "refused"}
    (notice,) = [text for text in found["notices"] if "another ib_core" in text]
    assert notice.startswith("ko2iblnd is loaded")


def test_a_kernel_for_which_the_release_does_not_compile_is_refused_and_doubts_are_named() -> None:
    def planned(kernel: str) -> Any:
        made = host(read(kernel=kernel, next_kernel=kernel, headers={kernel: True}))
        return plan(made, driver={"flavour": "doca-ofed", "version": "25.04-0.6.1.0"})

    refused = planned("6.17.0-5-generic")
    assert statuses(refused["steps"]) == {"kernel": "refused"}
    assert "DOCA-OFED 25.04-0.6.1.0 does not compile for Linux 6.15 or newer" in refused["steps"][0]["detail"]
    doubted = planned("6.14.0-24-generic")
    assert "refused" not in statuses(doubted["steps"]).values()
    assert any("not known to compile for 6.14.0-24-generic" in text for text in doubted["notices"])
    assert not any("compile" in text for text in planned("6.11.0-1014-azure")["notices"])


def test_a_next_kernel_for_which_the_release_does_not_compile_is_not_built_for() -> None:
    following = "6.17.0-5-generic"
    state = read(next_kernel=following, headers={KERNEL: True, following: True})
    found = plan(host(state), driver={"flavour": "doca-ofed", "version": "25.04-0.6.1.0"})
    assert f"build:{following}" not in statuses(found["steps"])
    assert any(
        "the next boot starts is another one, and DOCA-OFED 25.04-0.6.1.0 does not compile" in text
        for text in found["notices"]
    )


def recorded(modules: str, mounts: str, **changes: Any) -> Any:
    """Return the plan of a host of the driver's tests with these lines of /proc/modules and mounts, for 25.07."""
    kernel = driver_host("ubuntu-24.04", **changes)
    kernel.tree.add_file("/proc/modules", kernel.read("/proc/modules") + modules)
    kernel.tree.add_file(MOUNTS, mounts)
    spec = check_spec({"driver": DOCA_25_07, "consents": {"driver_reload": True}})
    return make_plan(spec, gather(kernel, desired=spec))


def test_a_host_with_file_systems_on_ib_core() -> None:
    """As ThinkParQ/beegfs, issue 64, Seagate/cortx-motr, issue 17, and others report them."""
    clients = ("ko2iblnd", "beegfs", "ksmbd", "drbd_transport_rdma", "rpcrdma")
    modules = "".join(f"{name} 249856 1 - Live 0x0 (OE)\n" for name in clients)
    modules += f"rdma_cm 147456 5 {','.join(clients)}, Live 0x0\n"
    found = recorded(modules, ROOT + FILE_SYSTEMS)
    (step,) = [each for each in found["steps"] if each["id"].startswith("driver:")]
    assert (step["id"], step["status"]) == ("driver:mounts", "refused")
    assert "/scratch (Lustre: ko2iblnd); /beegfs (BeeGFS: beegfs) would be gone" in step["detail"]
    named = [text.split(" is loaded")[0] for text in found["notices"] if "another ib_core" in text]
    assert named == ["rpcrdma", "drbd_transport_rdma", "ksmbd"]


@pytest.mark.parametrize("flavour", ["mlnx-ofed", "doca-ofed"])
def test_a_host_whose_root_is_on_the_vendors_nvme(flavour: str) -> None:
    """As Mellanox/doca-driver-build, issues 424 and 480, and NVIDIA/gds-nvidia-fs, issue 87, report them."""
    modules = (
        "nvme 61440 3 - Live 0x0 (OE)\nnvme_core 221184 1 nvme, Live 0x0 (OE)\n"
        "mlx_compat 69632 2 nvme,nvme_core, Live 0x0 (OE)\n"
    )
    of_vendor = {"mlnx-ofed-kernel-dkms": "24.10.OFED.24.10.1.1.4.1-1", "ofed-scripts": "24.10.OFED.24.10.1.1.4-1"}
    packages = {**of_vendor, **({"doca-ofed": "2.9"} if flavour == "doca-ofed" else {}), "rdma-core": VENDOR_BUILD}
    for known in ({}, NVME):
        found = recorded(modules, ROOT, installed={**packages, **known}, release=RELEASE)
        ids = [each["id"] for each in found["steps"] if each["id"].startswith("driver:")]
        assert ids.index("driver:packages") < ids.index("driver:initrd")
        (step,) = [each for each in found["steps"] if each["id"] == "driver:packages"]
        assert "mlnx-nvme-dkms in the same release" in step["detail"]
