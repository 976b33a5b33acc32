# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have Galaxy's importer judge the artifact that was built before: ``python -m tools.importer``."""

from __future__ import annotations

import os
import sys

from tools.checkout import BUILD
from tools.ending import run_command
from tools.environment import make_environment


def main() -> int:
    """Run the importer in an environment of its own, as it bends releases that others need newer."""
    folder = BUILD / "importer"
    programs = make_environment(folder / "venv", ["importer"])
    settings = folder / "galaxy-importer.cfg"
    settings.write_text("[galaxy-importer]\nrun_ansible_test = False\n", encoding="utf-8")
    (artifact,) = (BUILD / "artifact").glob("rdma-fabric-*.tar.gz")
    environment = {**os.environ, "GALAXY_IMPORTER_CONFIG": str(settings)}
    return run_command([str(programs / "python"), "-m", "galaxy_importer.main", str(artifact)], folder, environment)


if __name__ == "__main__":
    sys.exit(main())
