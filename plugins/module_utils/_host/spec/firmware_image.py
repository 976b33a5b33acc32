# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks which image of its firmware a card shall have. Pure."""

from __future__ import annotations

import re
from typing import TypedDict

from .place import Place, known_keys, mapping_in, switch_of, text_of

IMAGE_KEYS = ("file", "version", "psid", "downgrade")
_PATH = re.compile(r"(?:/(?!\.\.?(?:/|$))[\w.+@=,~-]+)+")
_VERSION = re.compile(r"\d{1,3}\.\d{1,4}\.\d{1,4}")
# PSID_LEN of Mellanox/mstflint, mlxfwops/lib/mlxfwops_com.h, is 16.
_PSID = re.compile(r"[A-Z0-9_]{3,16}")


class FirmwareImage(TypedDict):
    """The firmware that a card shall have; ``file`` is a path on the host."""

    file: str | None
    version: str | None
    psid: str | None
    downgrade: bool


def firmware_image(place: Place, value: object) -> FirmwareImage | None:
    """Return the image that is asked for, None when nothing is given."""
    given = None if value is None else mapping_in(place, value, f"a mapping of {', '.join(IMAGE_KEYS)}")
    if given is None:
        return None
    known_keys(place, given, IMAGE_KEYS)
    if given.get("file") is None and given.get("version") is None:
        place.violation(
            "has neither file nor version", "give file to have an image burned, version to be told of others"
        )
    checks = {
        "file": ("the path of an image on the host", _path_problem),
        "version": ("the version of a firmware", _version_problem),
        "psid": ("the PSID of a card", _psid_problem),
    }
    texts = {
        key: None if given.get(key) is None else text_of(place.at(key), given[key], what, check)
        for key, (what, check) in checks.items()
    }
    return {
        "file": texts["file"],
        "version": texts["version"],
        "psid": texts["psid"],
        "downgrade": bool(switch_of(place.at("downgrade"), given.get("downgrade"))),
    }


def version_numbers(version: str) -> tuple[int, ...]:
    """Return what versions are compared by: ``28.39.1002`` is older than ``28.43.1014``."""
    return tuple(int(part) for part in version.split("."))


def is_version(text: str) -> bool:
    """Say whether a text is a version that can be compared."""
    return _VERSION.fullmatch(text) is not None


def _path_problem(text: str) -> str:
    return "" if _PATH.fullmatch(text) else "is no absolute path of letters, digits and . _ + @ = , ~ -"


def _version_problem(text: str) -> str:
    return "" if is_version(text) else "is no version of three numbers, such as 28.43.1014"


def _psid_problem(text: str) -> str:
    return "" if _PSID.fullmatch(text) else "is no PSID, such as MT_0000000838"
