# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the lab's control plane on the bridge of its network namespace, for as long as its keeper wants it.

``python -m tests.lab.guests.cluster_server CLUSTER_DIRECTORY`` reads what ``cluster.write_cluster`` put there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import NoReturn

from ..__main__ import CHECK_SECONDS, EXPECTED_FAILURES, Interrupted, interruptible
from ..control_plane import ControlPlane
from ..pki import Authority, KeyPair
from ..programs import Programs, to_standard_error
from ..servers import Exposure
from ..supervise import EXIT_SIGNAL_BASE
from .layout import API_PORT, MANAGEMENT_HOST

AUTHORITY = ("authority.crt", "authority.key")
PROGRAMS = "programs.json"


def serve(directory: Path) -> NoReturn:
    """Run the control plane until a signal or the end of one of its programs."""
    paths = json.loads((directory / PROGRAMS).read_text(encoding="utf-8"))
    authority = Authority(pair=KeyPair(*((directory / name).read_bytes() for name in AUTHORITY)))
    control_plane = ControlPlane(
        directory,
        authority=authority,
        exposure=Exposure(MANAGEMENT_HOST, API_PORT),
        fake_nodes=False,
        programs=Programs(**{name: Path(path) for name, path in paths.items()}),
    )
    with control_plane:
        to_standard_error("the control plane is ready")
        while True:
            control_plane.check()
            time.sleep(CHECK_SECONDS)


def main(directory: Path) -> int:
    """Serve; give the exit status."""
    try:
        with interruptible():
            serve(directory)
    except Interrupted as interruption:
        return EXIT_SIGNAL_BASE + interruption.number
    except EXPECTED_FAILURES as error:
        to_standard_error(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
