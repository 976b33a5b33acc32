# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a module its arguments as a target would, on every ansible-core that is supported."""

from __future__ import annotations

import importlib
import json
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from ansible.module_utils import basic


def given(arguments: dict[str, Any]) -> AbstractContextManager[Any]:
    """Have the module that is run meanwhile find these arguments."""
    try:
        testing = importlib.import_module("ansible.module_utils.testing")
    except ModuleNotFoundError:  # ansible-core before 2.17
        return mock.patch.object(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
    patched: AbstractContextManager[Any] = testing.patch_module_args(arguments)
    return patched
