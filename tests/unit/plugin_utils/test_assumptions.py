# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recording shows of the assumptions about hardware: each is a row of the page, and each can be contradicted."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import load_recording
from ansible_collections.rdma.fabric.plugins.plugin_utils._assumptions import (
    ASSUMPTIONS,
    compare,
    contradictions,
    looked_at,
)
from tools.checkout import CHECKOUT

SLOT = "/sys/devices/pci0000:15/0000:15:01.0/0000:18:00"
PF, OTHER = f"{SLOT}.0", f"{SLOT}.1"
UEVENT = "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\n"
PORT = f"{PF}/infiniband/mlx5_0/ports/1"
FILES = {
    f"{PF}/uevent": UEVENT,
    f"{OTHER}/uevent": UEVENT,
    f"{PF}/infiniband/mlx5_0/fw_ver": "28.43.2026\n",
    f"{PORT}/state": "4: ACTIVE\n",
    f"{PF}/sriov_totalvfs": "16\n",
    f"{OTHER}/sriov_totalvfs": "16\n",
    f"{PF}/current_link_speed": "32.0 GT/s PCIe\n",
    "/sys/devices/pci0000:15/0000:15:01.0/current_link_speed": "32.0 GT/s PCIe\n",
    f"{PF}/numa_node": "0\n",
    f"{PF}/local_cpulist": "0-47\n",
    "/sys/devices/system/node/node0/cpulist": "0-47\n",
}
PFC = '{"pfc_cap": 8, "macsec_bypass": false, "delay": 7, "prio_pfc": []}'
COMMANDS = {
    "dcb --json pfc show dev rail0": PFC,
    "ethtool -k rail0": "Features for rail0:\nhw-tc-offload: off [fixed]\n",
    "/usr/bin/mstprivhost -d 0000:18:00.0 query": "level                         : PRIVILEGED\n",
}


def document(files: dict[str, str], commands: dict[str, str]) -> dict[str, Any]:
    printed = {command: {"rc": 0, "stdout": output, "stderr": ""} for command, output in commands.items()}
    return {"files": {**FILES, **files}, "commands": {**printed, "ip link": {"error": "ENOENT"}}}


def test_every_assumption_is_a_row_of_the_page_and_is_looked_at() -> None:
    page = (CHECKOUT / "docs" / "hardware.md").read_text(encoding="utf-8")
    assert [text for text in ASSUMPTIONS if f"| {text} |" not in page] == []
    found = compare(document({}, COMMANDS))
    assert [each["assumption"] for each in found] == list(ASSUMPTIONS)
    assert [each for each in found if each["contradicted"]] == []
    assert looked_at({"a": found}) == [f"{len(ASSUMPTIONS)} of {len(ASSUMPTIONS)} assumptions about hardware looked at"]
    assert (compare({}), looked_at({"a": []})) == ([], [])


@pytest.mark.parametrize(
    ("path", "text", "assumption"),
    [
        (f"{PF}/uevent", UEVENT.replace("1021", "1fff"), "The PCI device ID"),
        (f"{PF}/infiniband/mlx5_0/fw_ver", "22.41.1000\n", "The first number"),
        (f"{PORT}/state", "ACTIVE\n", "State and physical"),
        (f"{PORT}/rate", "400\n", "State and physical"),
        (f"{OTHER}/sriov_totalvfs", "8\n", "NUM_OF_VFS"),
        (f"{PF}/current_link_speed", "16.0 GT/s PCIe\n", "Both ends"),
        (f"{PF}/local_cpulist", "0-95\n", "local_cpulist"),
        ("dcb --json pfc show dev rail0", '{"pfc": {}}', "dcb --json"),
        ("dcb --json pfc show dev rail0", "not JSON", "dcb --json"),
        ("ethtool -k rail0", "hw-tc-offload: [requested on]\n", "The line hw-tc-offload"),
        ("/usr/bin/mstprivhost -d 0000:18:00.0 query", "Host: trusted\n", "mstprivhost"),
    ],
)
def test_what_contradicts_an_assumption_is_named_with_its_place(path: str, text: str, assumption: str) -> None:
    files, commands = ({path: text}, COMMANDS) if path.startswith("/sys") else ({}, {**COMMANDS, path: text})
    (line,) = contradictions({"gpu-01": compare(document(files, commands)), "gpu-02": []})
    assert line.startswith(f"contradicts an assumption about hardware ({assumption}")
    assert "): gpu-01: " in line


def test_hosts_that_contradict_the_same_share_a_line() -> None:
    found = compare(document({f"{PORT}/state": "ACTIVE\n"}, {}))
    (line,) = contradictions({"gpu-01": found, "gpu-02": found})
    assert line.endswith(f"): gpu-01: {PORT}/state: ACTIVE (and 1 more)")


def test_the_recorded_fleet_contradicts_nothing() -> None:
    recordings = sorted((CHECKOUT / "inventories/recorded/recordings").glob("*.json.gz"))
    found = {path.name: compare(load_recording(path.read_bytes())) for path in recordings}
    assert (len(found), contradictions(found)) == (7, [])
