# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mask secrets in kernel command lines."""

from __future__ import annotations

import re

MASK = "********"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?|secret|token|cred|auth|\bkey\b|api_?key|private|luks|psk|pwd|hash|netroot|iscsi|machine_id",
    re.IGNORECASE,
)
# Parameters whose values are secrets: passwords, NVMe keys, signatures of addresses, SNMP.
_OF_A_COMMAND_LINE = re.compile(r"pw\b|hostkey|signature|\bsig\b|community", re.IGNORECASE)
# Also without a scheme: proxy=user:password@host.
_CREDENTIALS_IN_URL = re.compile(r"(?<=://)\S+(?=@)|(?<==)[^\s/:=@]+:[^\s/@]+(?=@)")
# One parameter as the kernel splits them (lib/cmdline.c): at spaces outside quotes.
_PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')
_NESTED_NAME = re.compile(r"([\w.-]+)=")


def looks_secret(name: str) -> bool:
    """Return whether a parameter of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def mask_parameters(cmdline: str) -> str:
    """Return a kernel command line with values of secret-looking parameters and credentials in addresses masked."""
    return _CREDENTIALS_IN_URL.sub(MASK, _PARAMETER.sub(_masked, cmdline))


def _masked(found: re.Match[str]) -> str:
    name, equals, value = found.group().replace('"', "").partition("=")
    names = [name, *_NESTED_NAME.findall(value)]
    secret = any(looks_secret(each) or _OF_A_COMMAND_LINE.search(each) for each in names)
    return f"{name}={MASK}" if equals and secret else found.group()
