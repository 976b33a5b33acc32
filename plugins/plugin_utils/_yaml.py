# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes YAML that people and every program read alike."""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"^[A-Za-z_/][A-Za-z0-9_./@-]*\Z", re.ASCII)
# Words that one of the YAML versions in use (Python's 1.1, Go's 1.1 and 1.2) reads as something else than text.
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"}


def to_yaml(value: Any) -> str:
    """Return YAML that every YAML version reads as the same JSON data; keys keep their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10_000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes whatever could be read as anything but text, and writes long text as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif not _PLAIN.match(text) or text.lower() in _WORDS:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
