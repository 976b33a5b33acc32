# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with ten faults, of packages, firmware, kernel and devices, is told all ten in one plan, with what to do."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import plan_lines
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_plan import KERNEL, asked, host, read
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

# The step that each planted fault refuses, and the next step that it is told with.
FINDINGS = {
    "driver:headers": "add the repository that has them",
    "driver:secure_boot": "run mokutil --import",
    "driver:lock": "wait for it to end",
    "driver:space": "free space",
    "naming:pci=0000:99:00.0": "this host has no such interface",
    "vfs:0000:18:00.0": "raise NUM_OF_VFS in its firmware",
    "vfs:0000:02:00.0": "switch it on in its firmware",
    "eswitch:0000:02:00.0": "only e-switches of mlx5_core",
    "firmware:0000:40:00.0": "it is not a PF of an NVIDIA card",
    "queues:0000:18:00.0": "ethtool is not installed",
}
VARIABLES = {
    "rdma_fabric_interfaces": [
        {"pci": "0000:99:00.0", "name": "rail9"},
        {"pci": "0000:18:00.0", "vfs": 999, "queues": {"channels": 64}},
        {"pci": "0000:02:00.0", "vfs": 2, "eswitch_mode": "switchdev"},
        {"pci": "0000:40:00.0", "mtu": 9000, "firmware": {"NUM_OF_VFS": 8}},
    ]
}


def test_ten_faults_of_one_host_are_ten_findings_of_one_plan() -> None:
    faulty = host(
        read(
            headers={KERNEL: False},
            headers_offered={KERNEL: False},
            locks=[{"pid": 812, "program": "unattended-upgr", "path": "/var/lib/dpkg/lock-frontend"}],
            free_mib={"/boot": 20, "/usr": 90000, "/var": 900},
            key={"path": "/var/lib/shim-signed/mok/MOK.der", "enrolled": False},
        )
    )
    faulty["system"]["secure_boot"] = True
    desired, violations, _notices = parse_host_variables("node", VARIABLES)
    assert violations == []
    plan = make_plan({**desired, "requests": [asked()]}, faulty)
    details = {step["id"]: step["detail"] for step in plan["steps"] if step["status"] == "refused"}
    assert set(details) == set(FINDINGS)
    none_of([f"{fault}: {details[fault]}" for fault, step in FINDINGS.items() if step not in details[fault]])
    shown = "\n".join(plan_lines(plan))
    none_of([fault for fault, detail in details.items() if detail not in shown])
    assert {step["concern"] for step in plan["steps"] if step["status"] == "planned"} == {"mtu", "boot"}, (
        "what is not at fault is planned all the same"
    )
