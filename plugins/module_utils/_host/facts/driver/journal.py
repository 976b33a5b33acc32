# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a reload of a driver writes down what it takes away."""

from __future__ import annotations

from ...machine.state_file import StateFile

# Below /run: a reboot brings the network back by itself, and what was written down before it must not be restored.
JOURNAL = "/run/rdma-fabric-driver-reload.json"
FILE = StateFile(
    JOURNAL,
    "what an interrupted reload of the driver has taken away",
    "reboot the host, which brings its network back, or bring it back by hand and remove the file",
)
