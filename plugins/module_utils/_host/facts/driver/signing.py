# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the certificate of the key that DKMS signs modules with, and whether the firmware trusts it.

Another key that is enrolled proves nothing: modules that are signed with one that is not do not load.
"""

from __future__ import annotations

import re
from typing import Iterable

from ...machine.probe import Probe, texts_of
from ..driver_shapes import SigningKey
from ..shapes import System

OF_UBUNTU = "/var/lib/shim-signed/mok/MOK.der"
OF_DKMS = "/var/lib/dkms/mok.pub"
_SETTINGS = ("/etc/dkms/framework.conf", "/etc/dkms/framework.conf.d/")
_SETTING = re.compile(r"""(?m)^[ \t]*(mok_signing_key|mok_certificate)=(["']?)([^"'\s#;]*)\2""")


def read_key(probe: Probe, system: System, given: str | None) -> SigningKey:
    """Tell whether the firmware trusts the key of local builds, or the one ``given``; asked with Secure Boot alone."""
    path = given or _certificate_of_dkms(probe, system["os"]["id"])
    if not probe.host.exists(path):
        return {"path": None, "enrolled": None}
    result = probe.command("mokutil", "--test-key", path)
    return {"path": path, "enrolled": "already enrolled" in result.stdout if result is not None else None}


def _certificate_of_dkms(probe: Probe, distribution: str) -> str:
    return certificate_of_dkms(distribution, (text for _path, text in texts_of(probe, _SETTINGS, (".conf",))))


def certificate_of_dkms(distribution: str, settings: Iterable[str]) -> str:
    """Return the path of the certificate that DKMS signs with; ``settings`` are its files, the last one wins.

    On Ubuntu its own key is taken where the settings name no other key, whatever certificate they name (dell/dkms,
    dkms.in, read_framework_conf and prepare_mok).
    """
    told = {match[1]: match[3] for text in settings for match in _SETTING.finditer(text)}
    if distribution == "ubuntu" and not told.get("mok_signing_key"):
        return OF_UBUNTU
    return told.get("mok_certificate") or OF_DKMS
