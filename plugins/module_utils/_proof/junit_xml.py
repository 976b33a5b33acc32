# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of a JUnit file: start tags and text. Pure. What XML 1.0 cannot hold is replaced by a mark."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

# Outside of XML 1.0's production Char, a document holds nothing.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def start_tag(element: str, **attributes: str) -> str:
    """Return the start tag of an element with its attributes."""
    told = "".join(f" {name}={quoteattr(_allowed(value))}" for name, value in attributes.items())
    return f"<{element}{told}>"


def content(text: str) -> str:
    """Return text as it stands between tags."""
    return escape(_allowed(text))


def seconds_text(seconds: float) -> str:
    """Return seconds as the decimal that readers of JUnit files want: with up to three places, never an exponent."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
