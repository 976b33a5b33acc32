# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not leave a host as it is: values that look like secrets. Private to this collection: it may change."""

from __future__ import annotations

import re

MASK = "********"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?|secret|token|cred|auth|\bkey\b|api_?key|private|luks|psk|pwd|hash", re.I
)
_CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# name=value or name="value with spaces", the forms of the kernel's own parser.
_PARAMETER = re.compile(r'("?)([^\s="]+)=("[^"]*"|[^\s"]*)')


def looks_secret(name: str) -> bool:
    """Say whether a parameter of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def mask_parameters(cmdline: str) -> str:
    """Return a kernel command line without the values of secret-looking parameters and credentials in addresses."""

    def masked(found: re.Match[str]) -> str:
        return f"{found.group(1)}{found.group(2)}={MASK}" if looks_secret(found.group(2)) else found.group(0)

    return _CREDENTIALS_IN_URL.sub(MASK, _PARAMETER.sub(masked, cmdline))
