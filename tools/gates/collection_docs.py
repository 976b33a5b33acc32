# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint the collection's documentation with antsibull-docs: ``python -m tools.gates.collection_docs``.

antsibull-docs renders below a temporary folder with a random name, and reStructuredText takes a name that ends in ``_``
for a reference. Such a run, one in 37, says nothing about the documentation and is repeated.
"""

from __future__ import annotations

import subprocess
import sys

from tools.checkout import PROGRAMS

COMMAND = (
    str(PROGRAMS / "antsibull-docs"),
    "lint-collection-docs",
    "--plugin-docs",
    "--validate-collection-refs=dependent",
    ".",
)
UNLUCKY = 'Unknown target name: "antsibull-docs-'
TRIES = 3


def main() -> int:
    """Lint until the folder's name is none that reStructuredText reads something in; return the exit status."""
    for _try in range(TRIES):
        done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
        if not done.returncode or UNLUCKY not in done.stdout + done.stderr:
            break
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
