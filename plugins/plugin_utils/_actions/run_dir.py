# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run directory, where playbooks leave what they found."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.plugins.plugin_utils._files import make_writable_directory

from .base import ActionFailure, describe_os_error


def make_run_directory(run_dir: Path) -> None:
    """Make the run directory, or a folder in it, unless it is there.

    Raises ActionFailure where no file can be written to it. That is so of a project that is mounted read-only, and of
    the default, which counts from where Ansible is started.
    """
    try:
        make_writable_directory(run_dir.absolute())
    except OSError as error:
        raise ActionFailure(
            f"the run directory {describe_os_error(error)} (make it writable, or give another one; of playbooks and "
            "roles that is rdma_fabric_run_dir)"
        ) from error
