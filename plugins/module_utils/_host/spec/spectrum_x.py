# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware parameters and registers of Spectrum-X by the release of its reference architecture. Pure.

Source: the profiles that NVIDIA's NIC configuration operator had for ConnectX-8, ConnectX-9 and BlueField-3 SuperNICs
that are not divided into planes (Mellanox/nic-configuration-operator, bindata/spectrum-x until 968bb3c). What they set
of link type, functions and the mode of a BlueField is the user's own choice here.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

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
# All releases have the same in the register ROCE_ACCL.
ACCELERATION: Mapping[str, int] = MappingProxyType(
    {
        "roce_adp_retrans_en": 1,
        "roce_tx_window_en": 1,
        "roce_slow_restart_en": 0,
        "roce_slow_restart_idle_en": 0,
        "adaptive_routing_forced_en": 1,
    }
)
# In bytes, without an overlay and with L3 EVPN.
GAPS = (25, 33)
# Trust DSCP, and lossless priority 3.
TRUST, LOSSLESS = "dscp", 3
