# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage over RDMA that a vendor's driver would take away is named before it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_plan import (
    VENDOR_PACKAGES,
    asked,
    host,
    installed,
    plan,
    read,
    running,
    stack,
)

UNUSED: Any = {"refcount": 0, "users": []}


def lost(state: dict[str, Any], **changes: Any) -> list[str]:
    notices = plan(host(state, **changes), asked())["notices"]
    return [text for text in notices if "the vendor's package" in text]


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


@pytest.mark.parametrize("package", ["mlnx-nvme", "kmod-mlnx-nvme", "mlnx-nvme-kmp-default", "mlnx-nvme-modules"])
def test_the_package_counts_under_the_name_of_every_build(package: str) -> None:
    state = installed(loaded=running(nvme_rdma=UNUSED, nvmet_rdma=UNUSED), packages={**VENDOR_PACKAGES, package: "1"})
    assert lost(state) == []


def test_nothing_is_said_of_what_is_not_loaded_and_where_nothing_changes() -> None:
    assert lost(installed()) == []
    state = installed(loaded=running("BBBB", nvme_rdma=UNUSED))
    assert lost(state, stack=stack("doca-ofed", "24.07-0.6.1")) == []
