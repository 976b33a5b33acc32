# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the filters of this collection share."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

from .base import plain


def filter_of(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that calls ``work`` with plain data and reports every flaw of its input at once."""

    shown, parameters = f"ansible-doc -t filter rdma.fabric.{name}", inspect.signature(work)

    def filtered(value: Any, *arguments: Any, **options: Any) -> Any:
        try:
            given = parameters.bind(value, *arguments, **options)
        except TypeError as error:
            raise AnsibleFilterError(f"{name} has other parameters ({shown}): {error}") from error
        try:
            return work(*map(plain, given.args), **{key: plain(item) for key, item in given.kwargs.items()})
        except InvalidInput as invalid:
            raise AnsibleFilterError(f"{name}: {invalid}") from invalid
        except (TypeError, KeyError, AttributeError) as error:
            # Ansible adds what a message does not end in of its cause.
            raise AnsibleFilterError(f"{name}: the input has not the documented shape ({shown}): {error}") from error

    return filtered
