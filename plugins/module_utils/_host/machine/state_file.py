# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files in which one run leaves word for the next: whole, with a checksum and the version of their format.

A file of ours is read whole or not at all (``access.read_text``). One that was cut off, edited or written by another
release is told with its name and the next step, and is never taken for what it is not.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Mapping, NamedTuple

from .access import Host, HostError
from .paths import MARKER

FORMAT = 2
# What the first release wrote: the same members without a checksum.
_WITHOUT_CHECKSUM = 1
_ENVELOPE = ("format", "note", "managed_by", "sha256")

Content = Dict[str, Any]


class BrokenState(Exception):
    """A file of state that can't be used; the text names it, why, and what to do."""


class StateFile(NamedTuple):
    """One such file. ``holds`` ends the sentence "does not hold", ``remedy`` follows "next:"."""

    path: str
    holds: str
    remedy: str

    def text(self, content: Mapping[str, Any]) -> str:
        """Return the file's text: the same content gives the same text."""
        # As it is read back: keys are text then, which sorts in another order than numbers.
        plain = json.loads(json.dumps(dict(content)))
        document = {**plain, "format": FORMAT, "note": MARKER, "sha256": _checksum(plain)}
        return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"

    def parse(self, text: str) -> Content:
        """Return what a text holds; raises BrokenState."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.broken(f"it is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise self.broken("it is not a mapping")
        content = {key: value for key, value in document.items() if key not in _ENVELOPE}
        form = document.get("format")
        if form not in (FORMAT, _WITHOUT_CHECKSUM):
            raise self.broken(f"its format is {form}, this release reads {FORMAT}")
        if form == FORMAT and document.get("sha256") != _checksum(content):
            raise self.broken("its checksum is another")
        return content

    def read(self, host: Host) -> Content | None:
        """Return what the file holds, None where there is none; raises BrokenState."""
        try:
            return self.parse(host.read(self.path))
        except HostError as error:
            if error.code == "ENOENT":
                return None
            if error.code == "EFBIG":
                raise self.broken("it is longer than any file of ours") from error
            raise BrokenState(f"{error}: {self.holds} can't be read; next: run as root") from error

    def broken(self, reason: str) -> BrokenState:
        """Return the error that says why the file can't be used."""
        return BrokenState(
            f"{self.path} does not hold {self.holds} ({reason}); nothing was changed; next: {self.remedy}"
        )


def check(host: Host, files: Iterable[StateFile]) -> None:
    """Raise BrokenState with all of the files that are there and broken; one that can't be read tells nothing."""
    problems = []
    for file in files:
        try:
            file.parse(host.read(file.path))
        except BrokenState as error:
            problems.append(str(error))
        except HostError as error:
            problems += [str(file.broken("it is longer than any file of ours"))] if error.code == "EFBIG" else []
    if problems:
        raise BrokenState("\n".join(problems))


def checksummed_again(text: str) -> str:
    """Return a text with the checksum of what it holds now, for who has replaced names in it; any other stays."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(document, dict) or document.get("format") != FORMAT or "sha256" not in document:
        return text
    content = {key: value for key, value in document.items() if key not in _ENVELOPE}
    return text.replace(str(document["sha256"]), _checksum(content))


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
