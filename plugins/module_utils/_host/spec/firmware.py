# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the firmware of a card in the spec: parameters, including those of Spectrum-X, and its image. Pure.

Source of Spectrum-X, by the release of its reference architecture: the profiles of NVIDIA's NIC configuration operator
for ConnectX-8, ConnectX-9 and BlueField-3 SuperNICs without planes (Mellanox/nic-configuration-operator,
bindata/spectrum-x until 968bb3c). The profiles also set link type, functions and the mode of a BlueField, which is left
to the user here.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Dict, Mapping, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, shown

from .place import Place, Readers, flag, mapping_in, matching, optional_text, record_in, texts_in

# Upper case, except for names such as EXP_ROM_UEFI_x86_ENABLE (Mellanox/mstflint, mlxconfig_host.db).
_NAME = re.compile(r"[A-Z](?:[A-Z0-9_]|x86){1,63}")
_VALUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORDS = {"true": "1", "false": "0"}
# Values by parameter, as text: ``16``, ``True``, ``ETH``.
Parameters = Dict[str, str]
_PATH = re.compile(r"(?:/(?!\.\.?(?:/|$))[\w.+@=,~-]+)+")
_VERSION = re.compile(r"\d{1,3}\.\d{1,4}\.\d{1,4}")
# PSID_LEN of Mellanox/mstflint, mlxfwops/lib/mlxfwops_com.h, is 16.
_PSID = re.compile(r"[A-Z0-9_]{3,16}")
_IMAGE: Readers = {
    "file": optional_text(
        "the path of an image on the host",
        matching(_PATH, "is not an absolute path of letters, digits and . _ + @ = , ~ -"),
    ),
    "version": optional_text(
        "the version of a firmware", matching(_VERSION, "is not a version of three numbers, such as 28.43.1014")
    ),
    "psid": optional_text("the PSID of a card", matching(_PSID, "is not a PSID, such as MT_0000000838")),
    "downgrade": flag(),
}
IMAGE_KEYS = tuple(_IMAGE)
SPECTRUM_X = "spectrum_x"
ADAPTIVE_ROUTING = "ROCE_ADAPTIVE_ROUTING_EN"
_FIRST = {ADAPTIVE_ROUTING: "1", "USER_PROGRAMMABLE_CC": "1", "TX_SCHEDULER_LOCALITY_MODE": "2"}
_SECOND = {**_FIRST, "ROCE_CC_STEERING_EXT": "2", "MULTIPATH_DSCP": "0"}
_ANSWERS_AS_ASKED = {"ROCE_RTT_RESP_DSCP_P1": "0", "ROCE_RTT_RESP_DSCP_MODE_P1": "0"}
_ANSWERS_WITH_48 = {"ROCE_RTT_RESP_DSCP_P1": "48", "ROCE_RTT_RESP_DSCP_MODE_P1": "1"}
RELEASES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "RA1.3": _FIRST,
        "RA2.0": {**_SECOND, **_ANSWERS_AS_ASKED},
        "RA2.1": {**_SECOND, **_ANSWERS_AS_ASKED},
        "RA2.2": {**_SECOND, **_ANSWERS_WITH_48},
    }
)
# The register ROCE_ACCL has the same values in all releases of Spectrum-X.
ACCELERATION: Mapping[str, int] = MappingProxyType(
    {
        "roce_adp_retrans_en": 1,
        "roce_tx_window_en": 1,
        "roce_slow_restart_en": 0,
        "roce_slow_restart_idle_en": 0,
        "adaptive_routing_forced_en": 1,
    }
)
# In bytes: without an overlay, and with L3 EVPN.
GAPS = (25, 33)
# Trust DSCP, and lossless priority 3.
TRUST, LOSSLESS = "dscp", 3


class FirmwareImage(TypedDict):
    """The firmware image of a card; ``file`` is a path on the host."""

    file: str | None
    version: str | None
    psid: str | None
    downgrade: bool


def firmware(place: Place, value: object) -> Parameters | None:
    """Return the parameters in the notation of mstconfig and mlxconfig, None if not set.

    ``spectrum_x`` stands for those of a release of Spectrum-X.
    """
    given = None if value is None else mapping_in(place, value, "parameters to values")
    if given is None:
        return None
    wanted: Parameters = {}
    for name, item in given.items():
        if name == SPECTRUM_X:
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            place.violation(
                f"has the key {shown(name)}, which is not a firmware parameter",
                "names are in capitals, as mstconfig shows them: NUM_OF_VFS, SRIOV_EN, LINK_TYPE_P1",
            )
            continue
        text = _text(place.at(name), item)
        if text is not None:
            wanted[name] = text
    if given.get(SPECTRUM_X) is not None:
        wanted = _with_spectrum_x(place.at(SPECTRUM_X), given[SPECTRUM_X], wanted)
    return wanted or None


def _with_spectrum_x(place: Place, release: object, wanted: Parameters) -> Parameters:
    """Return the parameters with those of a release of Spectrum-X; an entry may repeat these, but not change them."""
    known = RELEASES.get(release) if isinstance(release, str) else None
    if known is None:
        place.violation(
            f"is {shown(release)}, which is not a known release of Spectrum-X's reference architecture",
            f"one of {', '.join(RELEASES)}, for cards that are not divided into planes",
        )
        return wanted
    for name in [name for name in known if name in wanted and not meanings(wanted[name]) & meanings(known[name])]:
        place.violation(
            f"is {release}, whose {name} is {known[name]}, and the same entry asks for {name}: {wanted[name]}",
            "leave one of the two out",
        )
    return {**known, **wanted}


def firmware_allow(place: Place, value: object) -> list[str]:
    """Return the parameters that may be set although their effect is not known here."""
    check = matching(_NAME, "is not a firmware parameter: names are in capitals")
    found = texts_in(place, value, "parameters of a firmware", "the name of a parameter", check)
    return list(dict.fromkeys(name for _here, name in found))


def _text(place: Place, value: object) -> str | None:
    if isinstance(value, (bool, int)) and not (isinstance(value, int) and value < 0):
        return str(value)
    if isinstance(value, str) and _VALUE.fullmatch(value):
        return value
    place.violation(mismatch(value, "a number, true, false or one word"))
    return None


def check_functions(place: Place, parameters: Parameters | None, vfs: int | None) -> None:
    """Note values that prevent the VFs of the same entry at the next boot."""
    if not vfs or not parameters:
        return
    if "0" in meanings(parameters.get("SRIOV_EN", "")):
        place.at("SRIOV_EN").violation(
            f"switches SR-IOV off, and vfs of the same entry asks for {vfs} VFs",
            "set it to true, or leave vfs out",
        )
    offered = [int(meaning) for meaning in meanings(parameters.get("NUM_OF_VFS", "")) if meaning.isdecimal()]
    if offered and max(offered) < vfs:
        place.at("NUM_OF_VFS").violation(
            f"offers {max(offered)} VFs, and vfs of the same entry asks for {vfs}",
            "raise NUM_OF_VFS or lower vfs",
        )


def meanings(value: str) -> set[str]:
    """Return all that a value equals: words in lower case, numbers in decimal; ``ETH(2)`` is ``eth`` and ``2``."""
    lower = value.lower()
    word, parenthesis, number = lower.rstrip(")").partition("(")
    parts = {word, number} if parenthesis else {lower}
    return {_decimal(_WORDS.get(part, part)) for part in parts}


def _decimal(text: str) -> str:
    try:
        return str(int(text, 0))
    except ValueError:
        return text


def firmware_image(place: Place, value: object) -> FirmwareImage | None:
    """Return the firmware image, None if not set."""
    image = cast("FirmwareImage | None", record_in(place, value, _IMAGE))
    if isinstance(value, Mapping) and value.get("file") is None and value.get("version") is None:
        place.violation(
            "has neither file nor version", "give file to burn an image, version to report cards with another one"
        )
    return image


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers for comparison: ``28.39.1002`` is older than ``28.43.1014``."""
    return tuple(int(part) for part in version.split("."))


def is_version(text: str) -> bool:
    """Return whether a text is a version that can be compared."""
    return _VERSION.fullmatch(text) is not None
