# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effects of a card's firmware parameters when the card starts with them. Pure.

Source of every row: the table of parameters that mstconfig itself reads (Mellanox/mstflint,
mlxconfig/mlxconfig_dbs/mlxconfig_host.db, at b9d9e844 of 2026-05-13); ``group`` is the table's name (``tlvs``) of the
configuration that a parameter belongs to. Parameters of a port end in ``_P1``, ``_P2``. Others are unknown,
and only set if the host's variables name them.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Iterable, Mapping, NamedTuple

LINK = "link"
FUNCTIONS = "functions"
MODE = "mode"
RESOURCES = "resources"
BOOT_OPTIONS = "boot options"
POWER = "power"
TRAFFIC = "traffic"
UNKNOWN = "unknown"

# By effect: what may change when the card starts with another value.
WORDING: Mapping[str, str] = MappingProxyType(
    {
        LINK: "type, speed or state of a port's link",
        FUNCTIONS: "number, addresses or visibility of the card's functions",
        MODE: "who owns the card, the host or its Arm cores",
        RESOURCES: "size of the card's BARs or its interrupts, for which a BIOS may have no room",
        BOOT_OPTIONS: "how the machine boots over the card",
        POWER: "the power that the card may draw",
        UNKNOWN: "something that nothing here tells",
    }
)
# A card that starts with another value may take an uplink away, on whichever port it is.
_CUTTING = frozenset(WORDING)


class Row(NamedTuple):
    """Parameters of one configuration with the same effect; ``suffix`` ends those of a port."""

    group: str
    effect: str
    names: str
    suffix: str = ""


_PORT = r"_P[1-9]\d?"
_TABLE = (
    Row("nv_vpi_link_type", LINK, "LINK_TYPE", _PORT),
    Row(
        "nv_keep_link_up",
        LINK,
        "AUTO_POWER_SAVE_LINK_DOWN KEEP_ETH_LINK_UP KEEP_IB_LINK_UP KEEP_LINK_UP_ON_BOOT KEEP_LINK_UP_ON_STANDBY",
        _PORT,
    ),
    Row("nv_keep_link_up", TRAFFIC, "DO_NOT_CLEAR_PORT_STATS", _PORT),
    Row(
        "nv_link_phy_conf",
        LINK,
        "PHY_AUTO_NEG PHY_ETH_RECOVERY PHY_FEC_OVERRIDE PHY_IB_NDR_FEC_OVERRIDE PHY_RATE_MASK PHY_RATE_MASK_OVERRIDE",
        _PORT,
    ),
    Row("nv_ib_link_phy_conf", LINK, "IB_PROTO_WIDTH_EN_MASK PHY_IB_RECOVERY", _PORT),
    Row("nv_multiplane_conf", LINK, "LOAD_BALANCE_MODE NUM_OF_PLANES", _PORT),
    Row("nv_external_port_ctrl", LINK, "PORT_OWNER RENEG_ON_CHANGE"),
    Row("nv_external_port_ctrl", TRAFFIC, "ALLOW_RD_COUNTERS TRACER_ENABLE"),
    Row("nv_hca_conf", LINK, "SILENT_MODE"),
    Row("nv_hca_conf", TRAFFIC, "PCI_WR_ORDERING ROCE_CONTROL"),
    Row(
        "nv_global_pci_conf",
        FUNCTIONS,
        "FPP_EN HIDE_PORT2_PF INTERNAL_CPU_RSHIM NUM_OF_PF NUM_OF_VFS PER_PF_NUM_SF PF_NUM_OF_VF_VALID SRIOV_EN",
    ),
    Row(
        "nv_global_pci_conf",
        RESOURCES,
        "NON_PREFETCHABLE_PF_BAR NUM_PF_MSIX NUM_PF_MSIX_VALID NUM_VF_MSIX PER_PF_NUM_VF_MSIX PF_BAR2_ENABLE "
        "PF_BAR2_SIZE PF_LOG_BAR_SIZE PF_NUM_PF_MSIX_VALID STRICT_VF_MSIX_NUM VF_LOG_BAR_SIZE",
    ),
    Row(
        "nv_pf_pci_conf",
        FUNCTIONS,
        "PF_DEVICE_ID PF_DEVICE_ID_ENABLE PF_NUM_OF_VF PF_NUM_SAT_PF PF_SD_GROUP PF_TOTAL_SF",
    ),
    Row("nv_pf_pci_conf", RESOURCES, "PF_NUM_PF_MSIX PF_NUM_VF_MSIX PF_SF_BAR_SIZE PF_VF_BAR2_MODE"),
    Row("nv_pci_conf", FUNCTIONS, "FORCE_ETH_PCI_SUBCLASS MANAGEMENT_PF_MODE"),
    Row("nv_pci_conf", RESOURCES, "BAR_PAGE_ALIGNMENT DYNAMIC_VF_MSIX_TABLE"),
    Row(
        "nv_pci_conf",
        BOOT_OPTIONS,
        "EXP_ROM_NVME_UEFI_ARM_ENABLE EXP_ROM_NVME_UEFI_x86_ENABLE EXP_ROM_PXE_ENABLE EXP_ROM_UEFI_ARM_ENABLE "
        "EXP_ROM_UEFI_x86_ENABLE EXP_ROM_VIRTIO_BLK_UEFI_ARM_ENABLE EXP_ROM_VIRTIO_BLK_UEFI_x86_ENABLE "
        "EXP_ROM_VIRTIO_NET_PXE_ENABLE EXP_ROM_VIRTIO_NET_UEFI_ARM_ENABLE EXP_ROM_VIRTIO_NET_UEFI_x86_ENABLE",
    ),
    Row("nv_pci_conf", TRAFFIC, "ADVANCED_PCI_SETTINGS ATS_ENABLED P2P_ORDERING_MODE"),
    Row("nv_global_pci_conf_2", TRAFFIC, "MAX_ACC_OUT_READ"),
    Row("nv_memic_conf", RESOURCES, "MEMIC_BAR_SIZE MEMIC_SIZE_LIMIT"),
    Row("nv_memic_conf", TRAFFIC, "MEMIC_ATOMIC"),
    Row("nv_emulation_pci_switch_conf", FUNCTIONS, "PCI_SWITCH_EMULATION_ENABLE PCI_SWITCH_EMULATION_NUM_PORT"),
    Row("nv_emulation_nvme_conf", FUNCTIONS, "NVME_EMULATION_ENABLE NVME_EMULATION_NUM_PF NVME_EMULATION_NUM_VF"),
    Row(
        "nv_emulation_virtio_net_conf",
        FUNCTIONS,
        "VIRTIO_NET_EMULATION_ENABLE VIRTIO_NET_EMULATION_NUM_PF VIRTIO_NET_EMULATION_NUM_VF",
    ),
    Row(
        "nv_emulation_virtio_blk_conf",
        FUNCTIONS,
        "VIRTIO_BLK_EMULATION_ENABLE VIRTIO_BLK_EMULATION_NUM_PF VIRTIO_BLK_EMULATION_NUM_VF",
    ),
    Row(
        "nv_internal_cpu_conf",
        MODE,
        "DELAY_HOST_OS_INIT INTERNAL_CPU_ESWITCH_MANAGER INTERNAL_CPU_IB_VPORT0 INTERNAL_CPU_MODEL "
        "INTERNAL_CPU_OFFLOAD_ENGINE INTERNAL_CPU_PAGE_SUPPLIER INT_CPU_AUTO_SHUTDOWN",
    ),
    Row("nv_ecpf_conf", MODE, "ECPF_ESWITCH_MANAGER ECPF_PAGE_SUPPLIER"),
    Row("nv_power_conf", LINK, "NETWORK_PORTS_NUMBER"),
    Row("nv_power_conf", POWER, "DISABLE_SLOT_POWER_LIMITER"),
    Row("nv_power_conf", TRAFFIC, "ACCURATE_TX_SCHEDULER ADVANCED_POWER_SETTINGS LAG_RESOURCE_ALLOCATION"),
    Row(
        "nv_rom_boot_conf1",
        BOOT_OPTIONS,
        "BOOT_INTERRUPT_DIS BOOT_LACP_DIS BOOT_RETRY_CNT1 BOOT_VLAN BOOT_VLAN_EN LEGACY_BOOT_PROTOCOL",
    ),
    Row("nv_rom_boot_conf2", BOOT_OPTIONS, "BOOT_UNDI_NETWORK_WAIT IP_VER"),
    Row("nv_rom_ib_boot_conf", BOOT_OPTIONS, "BOOT_PKEY"),
    Row("nv_rom_uefi_conf", BOOT_OPTIONS, "UEFI_HII_EN"),
    Row("nv_wol_conf", BOOT_OPTIONS, "WOL_MAGIC_EN"),
    Row("nv_lldp_nb_conf", TRAFFIC, "LLDP_NB_DCBX LLDP_NB_RX_MODE LLDP_NB_TX_MODE", _PORT),
    Row("nv_lldp_nb_dcbx", TRAFFIC, "DCBX_CEE DCBX_IEEE DCBX_WILLING", _PORT),
    Row("nv_qos_conf", TRAFFIC, "NUM_OF_PFC NUM_OF_TC NUM_OF_VL QOS_TRUST_STATE", _PORT),
    Row("nv_roce_cc", TRAFFIC, "ROCE_CC_ALGORITHM ROCE_CC_CNP_MODERATION ROCE_CC_PRIO_MASK", _PORT),
    Row(
        "nv_roce_cc_ecn",
        TRAFFIC,
        "CLAMP_TGT_RATE CLAMP_TGT_RATE_AFTER_TIME_INC CNP_802P_PRIO CNP_DSCP CNP_DSCP_MODE CNP_RES_PRIO_MODE DCE_TCP_G "
        "DCE_TCP_RTT INITIAL_ALPHA_VALUE MIN_TIME_BETWEEN_CNPS RATE_REDUCE_MONITOR_PERIOD RATE_TO_SET_ON_FIRST_CNP "
        "RPG_AI_RATE RPG_BYTE_RESET RPG_GD RPG_HAI_RATE RPG_MAX_RATE RPG_MIN_DEC_FAC RPG_MIN_RATE RPG_THRESHOLD "
        "RPG_TIME_RESET",
        _PORT,
    ),
    Row("nv_roce_conf", TRAFFIC, "ROCE_RTT_RESP_DSCP ROCE_RTT_RESP_DSCP_MODE", _PORT),
    Row(
        "nv_global_roce_cc_conf",
        TRAFFIC,
        "ROCE_CC_COMPATIBILITY_MODE ROCE_CC_DCQCN_COMPATIBILITY_MODE ROCE_CC_IFA2_TA ROCE_CC_LEGACY_DCQCN "
        "ROCE_CC_LEGACY_DCQCN_SW ROCE_CC_RTT_TIMESTAMP_FORMAT ROCE_CC_STEERING_EXT ROCE_CC_TX_EVENT_ACK",
    ),
    Row("nv_prog_cc", TRAFFIC, "USER_PROGRAMMABLE_CC"),
    Row("nv_pcc_int", TRAFFIC, "PCC_INT_EN PCC_INT_NP_RTT_DATA_MODE PCC_INT_NP_RTT_DSCP PCC_INT_NP_RTT_DSCP_EN"),
    Row("nv_flex_parser_conf", TRAFFIC, "FLEX_PARSER_PROFILE_ENABLE PROG_PARSE_GRAPH"),
    Row(
        "nv_sw_offload_conf",
        TRAFFIC,
        "CQE_COMPRESSION IP_OVER_VXLAN_EN IP_OVER_VXLAN_PORT LOG_MAX_OUTSTANDING_WQE LRO_LOG_TIMEOUT0 LRO_LOG_TIMEOUT1 "
        "LRO_LOG_TIMEOUT2 LRO_LOG_TIMEOUT3 MKEY_BY_NAME PCI_ATOMIC_MODE RDMA_SELECTIVE_REPEAT_EN "
        "REAL_TIME_CLOCK_ENABLE ROCE_ADAPTIVE_ROUTING_EN TUNNEL_ECN_COPY_DISABLE TUNNEL_IP_PROTO_ENTROPY_DISABLE "
        "UCTX_EN VECTOR_CALC_DISABLE VF_MIGRATION_MODE",
    ),
    Row("nv_sw_accelerate_conf", TRAFFIC, "LOG_MAX_OUTSTANDING_READ_ATOMIC LOG_MAX_QUEUE MULTIPATH_DSCP"),
    Row(
        "nv_performance_tuning_conf",
        TRAFFIC,
        "ICM_CACHE_MODE MULTI_PCI_RESOURCE_SHARING PCIE_CONGESTION_MONITOR TLS_OPTIMIZE TX_SCHEDULER_BURST "
        "TX_SCHEDULER_FWS_REACTIVITY TX_SCHEDULER_LOCALITY_MODE ZERO_TOUCH_TUNING_ENABLE",
    ),
)
_EFFECTS = tuple((re.compile(f"(?:{'|'.join(row.names.split())}){row.suffix}"), row.effect) for row in _TABLE)

# One value of these holds for the whole card, whatever PCI slots it is in (torvalds/linux,
# drivers/net/ethernet/mellanox/mlx5/core/lib/nv_param.c: NV_GLOBAL_PCI_CONF is of the global class).
_OF_THE_CARD = frozenset(name for row in _TABLE if row.group == "nv_global_pci_conf" for name in row.names.split())

# Before it sets these, mstconfig asks again, with a warning about damage and the warranty; -y answers that, too
# (Mellanox/mstflint, mlxconfig/mlxcfg_ui.cpp: getConfigWarning, askUser).
WARNED_OF = frozenset({"DISABLE_SLOT_POWER_LIMITER"})

# Cards show these only while ADVANCED_PCI_SETTINGS is on, which takes effect with a reset of the card.
ADVANCED = "ADVANCED_PCI_SETTINGS"
HIDDEN = frozenset({"FORCE_ETH_PCI_SUBCLASS", "HIDE_PORT2_PF", "IBM_CAPI_EN", "MAX_ACC_OUT_READ", "PCI_WR_ORDERING"})


def effect_of(name: str) -> str:
    """Return the effect of a parameter, ``unknown`` if the table lacks it."""
    return next((effect for pattern, effect in _EFFECTS if pattern.fullmatch(name)), UNKNOWN)


def of_the_card(names: Iterable[str]) -> list[str]:
    """Return the parameters with one value for a card in several PCI slots (Socket Direct)."""
    return [name for name in names if name in _OF_THE_CARD]


def unknown(names: Iterable[str]) -> list[str]:
    """Return the parameters whose effect is unknown."""
    return [name for name in names if effect_of(name) == UNKNOWN]


def cutting(names: Iterable[str]) -> list[str]:
    """Return the parameters that may change link, functions or mode of their card, as an unknown one may, too."""
    return [name for name in names if effect_of(name) in _CUTTING]


def wording(names: Iterable[str]) -> str:
    """Return what these parameters may change, in words, empty if they only affect traffic."""
    found = dict.fromkeys(effect_of(name) for name in names)
    return "; ".join(WORDING[effect] for effect in found if effect in WORDING)
