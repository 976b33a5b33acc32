# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The desired state of one host, option by option."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragment C(rdma.fabric.host_spec): the option ``desired`` with all of its suboptions.

    What values mean and forbid is in ``_host/spec``. Nothing has a default: what is not given stays as it is.
    """

    DOCUMENTATION = r"""
options:
  desired:
    description:
      - The desired state of the host as P(rdma.fabric.fabric_input#module) returns it for each host.
      - All suboptions are optional. Each takes what the host variable of its name takes (C(rdma_fabric_interfaces) for
        O(desired.interfaces)). Settings that are not given stay unchanged.
      - Either this or O(confirm) is needed.
    type: dict
    suboptions:
      interfaces:
        description: >-
          Interfaces of the host. Each entry selects one of them by exactly one of C(pci), C(mac) and C(current_name).
        type: list
        elements: dict
        suboptions:
          pci:
            description: PCI address of the function, such as V(0000:18:00.0).
            type: str
          mac:
            description: Hardware address. Of IPoIB, the last eight octets (the port GUID) decide.
            type: str
          current_name:
            description: >-
              Name of the interface. An entry that also sets O(desired.interfaces[].name) finds it by either name.
            type: str
          name:
            description: Name of the interface, now and at boot.
            type: str
          rdma_name:
            description: Name of its RDMA device, now and at boot.
            type: str
          mtu:
            description: MTU in bytes, 1280 to 65535.
            type: int
          state:
            description: Administrative link state.
            type: str
            choices: [up, down]
          vfs:
            description: Number of SR-IOV VFs, now and at boot. V(0) removes them.
            type: int
          vf_mtu:
            description: >-
              MTU in bytes of the interfaces of its VFs, at most O(desired.interfaces[].mtu). Like the other values of
              VFs it is one for all of them, or a mapping of their numbers and ranges (C(4), C(0-3)) to values.
            type: int
          vf_settings:
            description: >-
              Settings of every VF of an Ethernet port, or by range. Those that are not given stay unchanged.
            type: dict
            suboptions:
              mac:
                description: >-
                  V(deterministic) derives the addresses from the port's. Or a mapping of function numbers to
                  addresses.
                type: raw
              vlan:
                description: VLAN of the function, V(0) for none.
                type: int
              trust:
                description: Whether the function may set its own address and promiscuous mode.
                type: bool
              spoofchk:
                description: Whether frames with another source address are dropped.
                type: bool
              max_tx_rate:
                description: Transmit rate limit in Mb/s, V(0) for none.
                type: int
              link_state:
                description: Link state that the function sees. V(auto) follows the port.
                type: str
                choices: [auto, enable, disable]
          vf_driver:
            description: >-
              Driver of the VFs, or by range, the kernel's own or V(vfio-pci) for virtual machines and DPDK.
            type: str
            choices: [netdevice, vfio-pci]
          vf_guids:
            description: >-
              GUIDs of the VFs of an InfiniBand port, or by range. V(deterministic), a list with one GUID per
              function, or a mapping with C(first) and C(last).
            type: raw
          eswitch_mode:
            description: Mode of the embedded switch.
            type: str
            choices: [legacy, switchdev]
          flow_steering_mode:
            description: >-
              How mlx5 makes the rules of its embedded switch, V(smfs) by the driver, V(dmfs) by firmware, V(hmfs) by
              queues of the card. The kernel changes it in legacy mode only.
            type: str
            choices: [smfs, dmfs, hmfs]
          representor_prefix:
            description: >-
              Prefix of the names of representors. With V(rail0_), that of VF 3 is C(rail0_3).
            type: str
          firmware:
            description: >-
              Mapping of firmware parameters of the card, named as in C(mstconfig), such as C(SRIOV_EN), to values.
              Parameters that may change link, functions or mode of the card of an uplink also need the consent
              C(uplink_change). A parameter that the collection does not know is refused unless
              O(desired.firmware_allow) names it. C(spectrum_x) stands for the parameters of a release of Spectrum-X's
              reference architecture, from V(RA1.3) to V(RA2.2).
            type: dict
          firmware_image:
            description: >-
              The firmware image of the card. It takes effect when the card is reset.
            type: dict
            suboptions:
              file:
                description: Absolute path of the image on the host. Without it nothing is burned.
                type: path
              version:
                description: Version that the card should have, such as V(28.43.1014). By default that of the image.
                type: str
              psid:
                description: Required PSID of the card.
                type: str
              downgrade:
                description: Whether an image may be older than the one on the flash.
                type: bool
          qos:
            description: >-
              The same keys as O(desired.roce_qos), for this interface; they take precedence key by key. V(false)
              exempts the interface.
            type: raw
          queues:
            description: Sizes of rings and number of channels, as C(ethtool -g) and C(ethtool -l) show them.
            type: dict
            suboptions:
              rx_ring:
                description: Entries of each receive ring.
                type: int
              tx_ring:
                description: Entries of each transmit ring.
                type: int
              channels:
                description: Number of combined channels.
                type: int
          irq_affinity:
            description: >-
              CPUs that serve the interrupts of the interface's queues, assigned round-robin: V(local_node) for those of
              its NUMA node, or a list of their numbers such as V(0-7,16). irqbalance leaves these interrupts alone.
              Without it interrupts stay where they are.
            type: str
          routes:
            description: >-
              Routes through the interface, with netplan's keys. An empty list removes those of this collection.
            type: list
            elements: dict
            suboptions:
              to:
                description: Destination network in CIDR form, or V(default).
                type: str
              via:
                description: Gateway.
                type: str
              table:
                description: Routing table, by default V(254) (main).
                type: int
              metric:
                description: Metric of the route.
                type: int
              on-link:
                description: Whether the gateway counts as reachable without a route to it.
                type: bool
          routing-policy:
            description: Routing rules, with netplan's keys. An empty list removes those of this collection.
            type: list
            elements: dict
            suboptions:
              from:
                description: Source network in CIDR form.
                type: str
              to:
                description: Destination network in CIDR form.
                type: str
              table:
                description: Routing table that is looked up.
                type: int
              priority:
                description: Priority of the rule, by default V(30000).
                type: int
      roce_qos:
        description: RoCE QoS of every Ethernet interface of O(desired.interfaces).
        type: dict
        suboptions:
          dcbx:
            description: Who negotiates DCB, the host or the card's firmware.
            type: str
            choices: [os, firmware]
          trust:
            description: Source of the priority of a received frame.
            type: str
            choices: [dscp, pcp]
          dscp_priority:
            description: DSCPs (0 to 63, or ranges such as V(24-31)) to priorities (0 to 7).
            type: dict
          pfc:
            description: Priorities with priority flow control. An empty list switches it off.
            type: list
            elements: int
          pause:
            description: Global pause. Off if O(desired.roce_qos.pfc) names priorities.
            type: bool
          cable_length:
            description: Length of the cable in meters, for the headroom of lossless buffers.
            type: int
          ets:
            description: >-
              Priorities to V(strict), or to their share of the bandwidth in percent. The shares add up to 100.
            type: dict
          ecn:
            description: Priorities to booleans, or to mappings of C(rp) (sender) and C(np) (receiver) to booleans.
            type: dict
          cnp_dscp:
            description: DSCP of congestion notification packets.
            type: int
          cnp_priority:
            description: Priority of congestion notification packets.
            type: int
          traffic_class:
            description: Traffic class (DSCP and ECN bits, 0 to 255) that overrides that of queue pairs.
            type: int
          tos:
            description: Type of service (0 to 255) of connections made with RDMA-CM.
            type: int
      kernel_modules:
        description: Kernel modules to load, now and at boot.
        type: list
        elements: str
      kernel_arguments:
        description: Arguments of the kernel's command line, such as V(iommu=pt).
        type: list
        elements: str
      netns_mode:
        description: Whether all network namespaces share RDMA devices, or each has its own.
        type: str
        choices: [shared, exclusive]
      sysctls:
        description: Settings below C(/proc/sys) by name, now and at boot.
        type: dict
      multirail_sysctls:
        description: Whether to add the sysctls that several interfaces in one subnet need.
        type: bool
      limits:
        description: Resource limits of logins and services.
        type: dict
        suboptions:
          memlock:
            description: V(unlimited), or KiB.
            type: raw
          nofile:
            description: Number of open files.
            type: int
      hugepages:
        description: >-
          Number of huge pages by size, such as V(1Gi). Instead of a number, give a mapping of NUMA nodes to numbers.
        type: dict
      driver:
        description: NIC driver of the host, with the options of P(rdma.fabric.mofed_driver#module).
        type: dict
      peer_memory:
        description: GPUDirect peer memory, with the options of P(rdma.fabric.nv_peer_mem#module).
        type: dict
      pcie:
        description: PCIe settings for GPUDirect RDMA.
        type: dict
        suboptions:
          acs:
            description: V(direct) clears ACS redirection on the bridges between a NIC and its GPUs.
            type: str
            choices: [direct]
          max_read_request:
            description: MaxReadReq of NICs in bytes.
            type: int
            choices: [128, 256, 512, 1024, 2048, 4096]
      node_labels:
        description: Labels of the host's node.
        type: dict
      protected_interfaces:
        description: Interfaces that must never be interrupted, in addition to those that are detected.
        type: list
        elements: str
      firmware_allow:
        description: Names of firmware parameters that may be set although the collection does not know their effect.
        type: list
        elements: str
      revert_seconds:
        description: >-
          Seconds, from 20 to 3600, after which the host reverts a change of the uplink unless it is confirmed. Default
          120.
        type: int
      connection_address:
        description: Address or name that Ansible reaches the host by.
        type: str
      consents:
        description: >-
          Booleans of C(vf_reset), C(uplink_change), C(reboot), C(driver_reload), C(driver_upgrade), C(firmware),
          C(firmware_burn), C(acs_change) and C(takeover), as in C(rdma_fabric_allow_vf_reset).
        type: dict
      requests:
        description: >-
          Requests of policies to the host. Each has C(source), C(node_selector), and C(driver) or C(peer_memory), and
          can have C(node_terms), lists of requirements on labels as in a node affinity, one of which has to match.
          C(kernel_modules) are loaded on hosts that have a port of C(link_layer), if that is given. C(cards) are what a
          template of the NIC configuration operator asks of cards.
        type: list
        elements: dict
"""
