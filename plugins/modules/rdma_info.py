#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: rdma_info
short_description: Read the RDMA and GPUDirect facts of a host
version_added: 0.1.0
description:
  - Reads a host once and returns its network controllers, GPUs, interfaces, RDMA devices, kernel modules and driver
    stack, the distance between NICs and GPUs, which interfaces are the uplink, and the labels of its node.
  - Everything comes from sysfs and procfs, except for the output of three programs, C(uname -m) on kernels before 6.1,
    C(ofed_info -s) if it is installed, and C(ip -json address show) if the routes do not show which interface has the
    address of Ansible's connection.
  - A value that the host does not show is V(none). Network controllers, GPUs, interfaces, RDMA devices and modules omit
    such values, and those that are described as omitted below. To JMESPath both are the same; in templates use the
    filter C(default), or C(selectattr) with the test C(defined).
  - Reads that failed unexpectedly are in RV(facts.unreadable) with what the error means. No failed read ends the task.
  - Text from the host is truncated to a bounded line, and non-printable characters are escaped.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.host
  - rdma.fabric.attributes.info
options:
  recording:
    description:
      - A recording on the controller that stands for the host, as P(rdma.fabric.rdma_record#module) writes it.
      - Nothing connects to the host then, and no module runs.
    type: path
  kernel_modules:
    description:
      - Kernel modules to report in addition to those of RDMA and GPUs, loaded or not.
    type: list
    elements: str
    default: []
  counters:
    description:
      - Whether to return RV(counters) of every RDMA port, read once from sysfs, without any program.
      - A ConnectX port has about 50 of them, and so does each VF. Reading one queries the firmware.
        Recordings have none.
    type: bool
    default: false
  cabling:
    description:
      - Whether to return RV(cabling), which switch and port each port is cabled to.
      - With V(told), what lldpd (C(lldpctl)), systemd-networkd (C(networkctl), version 256 or later) and, for
        InfiniBand, C(smpquery) tell, where they are there.
      - With V(heard), the host also listens for frames of LLDP on its interfaces, until each Ethernet port with RDMA
        has got one, or for 35 seconds. It takes root.
    type: str
    choices: [none, told, heard]
    default: none
notes:
  - The values are data from a stranger. They are returned under RV(facts), not as C(ansible_facts), so that no host can
    give a variable a value.
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.rdma_record
"""

EXAMPLES = r"""
- name: Read a host
  rdma.fabric.rdma_info:
  register: fabric

- name: Name the rails
  ansible.builtin.debug:
    msg: "{{ fabric.facts.rails }}"

- name: Read the counters of its ports as well
  rdma.fabric.rdma_info:
    counters: true
  register: counted

- name: Show ports with a counter that cannot rise any more
  ansible.builtin.debug:
    msg: "{{ counted.counters | selectattr('saturated') | map(attribute='device') }}"

- name: Read a recorded host, without connecting to it
  rdma.fabric.rdma_info:
    recording: recordings/dgx-h100-01.json.gz
"""

RETURN = r"""
recorded:
  description: Whether a recording stands for the host.
  returned: success
  type: bool
facts:
  description: Facts of the host. Unknown values are V(none); unknown values of devices are omitted.
  returned: success
  type: dict
  contains:
    format:
      description: Version of this structure.
      type: int
      sample: 1
    system:
      description:
        - Host name, machine, kernel, distribution (C(os)), kernel command line without the values of secret-looking
          parameters, Secure Boot, lockdown, whether the system is based on ostree, the number of NUMA nodes, and the
          kind of C(iommu) that the kernel uses (C(active)) and that the firmware shows. C(no_securityfs) is V(true) if
          lockdown is unknown because securityfs is not mounted.
      type: dict
    nics:
      description:
        - Network controllers, sorted by PCI address, each with IDs, family, C(function) (V(pf) or V(vf)), driver, NUMA
          node, PCIe link, SR-IOV, interfaces, RDMA devices, link layer, IOMMU group and C(path), the devices above it
          in the PCI tree from the host bridge down. C(link) has C(speed_gts) and C(width), and C(max_speed_gts) and
          C(max_width) if these are higher. For a card with its own PCIe switch, it is the link between switch and slot
          if that is the bottleneck. C(slot_speed_gts) and C(slot_width) are the maximum of the port above it, if that
          is lower than the function's and the machine is not virtual. C(sriov) has C(total), C(enabled), C(vfs) if
          there are any, and C(vf_device), the device ID of VFs, if it is not V(101e). C(sriov.settings) are the
          settings of the VFs of an Ethernet port, in the order of their numbers. C(sriov.unassigned) is V(true) if
          the kernel has no memory addresses for VFs, which the BIOS reserves.
      type: list
      elements: dict
    gpus:
      description: NVIDIA GPUs, sorted by PCI address, with C(link) and C(path) as for network controllers.
      type: list
      elements: dict
    netdevs:
      description:
        - Hardware interfaces and those on top of them. C(kind) is V(representor), V(sub-function), V(ipoib-child), or
          the kernel's name for a virtual interface such as V(bond) or V(vlan); physical interfaces have no C(kind).
          C(lower) names the interfaces below it, if any. Interfaces of containers are omitted.
        - Only members of a bond, whose C(mac) is that of the bond, and ports with VFs whose C(mac) was
          changed have C(permanent_mac). C(other_names) are those that udev gives an interface by slot and path beside
          its name, if any. Only interfaces whose MTU the variables change have C(max_mtu), if it is known.
      type: list
      elements: dict
    rdma:
      description:
        - RDMA devices with their ports. Only ports with a link have C(rate_gbps), and active ports with a trained link
          omit C(physical). C(rocev2_gid_index) is the slot of the RoCE v2 GID made from the IPv4 address of the port's
          own interface. An RDMA device of a sub-function has C(sub_function), which names the carrying function and the
          sub-function, and no C(pci).
      type: list
      elements: dict
    modules:
      description:
        - Kernel modules of RDMA and GPUs, loaded or built in, and those that O(kernel_modules) asks for. Each has
          C(loaded), C(version), C(builtin) if it is built in, and C(missing) if the kernel has no such module.
      type: dict
    without_kmod:
      description: V(true) if the host has no C(modprobe), so that nothing can load modules.
      returned: hosts without it, if a module of O(kernel_modules) is not loaded
      type: bool
    stack:
      description:
        - The loaded NIC driver (C(flavour) is V(inbox), V(mlnx-ofed), V(doca-ofed) or V(none)), the installed one, the
          GPU driver, and the peer memory module.
      type: dict
    distances:
      description:
        - Distance of every pair of an RDMA NIC and a GPU, with the labels of C(nvidia-smi topo -m), and V(C2C) for a
          NIC of the Grace processor that a GPU is connected to over NVLink-C2C. Omitted pairs are V(SYS).
      type: dict
      sample: {"0000:18:00.0": {"0000:1b:00.0": "PXB"}}
    rails:
      description: Each GPU with its nearest NICs. C(rail) numbers the GPUs in order of their addresses.
      type: list
      elements: dict
      sample: [{"rail": 0, "nic": "0000:18:00.0", "gpu": "0000:1b:00.0", "distance": "PXB"}]
    nvlink:
      description:
        - The C(service) that sets up NVLink on a host with NVSwitches (V(nvidia-fabricmanager)) or in a GB200 or GB300
          rack (V(nvidia-imex)). C(state) says whether it is C(installed), C(enabled), C(masked) and C(active).
          C(switches) are the NVSwitches visible on PCI, C(managers) the ConnectX-7 functions that manage other
          NVSwitches and are not NICs of the fabric, and C(by_container) whether the GPU Operator's driver container
          runs here.
        - C(service) is V(none) if all GPUs are passed through to guests; C(state) is then that of the fabric manager.
      returned: hosts that need such a service, or have C(managers)
      type: dict
    mig:
      description: Number of MIG instances of a GPU, by PCI address.
      returned: hosts with GPUs that are divided
      type: dict
      sample: {"0000:36:00.0": 2}
    pcie:
      description:
        - How PCIe treats the traffic between NICs and GPUs. C(functions) have C(max_read_request), C(max_payload),
          C(relaxed_ordering) and C(ats); C(bridges) have the value of their ACS control register. Only root can read
          them.
        - C(virtual) says whether the machine is virtual; C(passed_through) are the PCI functions bound to a driver for
          virtual machines.
      type: dict
    uplinks:
      description:
        - Interfaces that must not be interrupted, with every reason. C(needs) is what their traffic depends on,
          C(ipv4), C(ipv6) and C(router advertisements); it is empty for interfaces that only carry another one.
      type: list
      elements: dict
      sample: [{"netdev": "eno3", "pci": "0000:0b:00.0", "reasons": ["default route"], "needs": ["ipv4"]}]
    labels:
      description: Labels that Node Feature Discovery and the kubelet give a node with these facts.
      type: dict
    naming:
      description:
        - Conditions for new names. C(udev) and C(rdma) say whether and where these programs are installed. C(initramfs)
          is the image of the running kernel, what builds it, and whether it may contain network drivers. C(references)
          are the files that contain the name of an interface, or a name that it is to get.
        - C(others) are udev rules and C(.link) files that name an interface at boot, by its current name. C(link_files)
          are what a C(.link) file of the collection replaces, with the C(lines) that it sets besides names.
          M(rdma.fabric.rdma_host) looks for both if names are given.
      type: dict
    owners:
      description:
        - What operators of the cluster manage here. C(sriov_operator) has C(ports), lists of C(number), C(eswitch),
          C(mtu) and C(functions) by PCI address, and C(units), those of its units that are enabled, if there are any.
          C(nic_operator) has C(named), the PCI addresses of interfaces, C(machine_config) has C(files), those of
          OpenShift's machine config.
        - C(daemon) of each is the pod of its daemon, V(none) if there is no such pod, and empty if pods are unknown. An
          operator without traces is omitted.
      type: dict
    vf_users:
      description:
        - Users of VFs, by PCI address. M(rdma.fabric.rdma_host) fills it only for VFs that it is to
          change, because it has to inspect every process.
      type: dict
    eswitch:
      description:
        - C(mode), C(inline_mode) and C(encap_mode) of e-switches, by PCI address, C(problem) if they can't be read, and
          C(offload) if rules are to be offloaded to the hardware. M(rdma.fabric.rdma_host) fills it for ports with
          C(eswitch_mode), and with C(flow_steering_mode) of those that set it.
      type: dict
    queues:
      description:
        - C(rx_ring), C(tx_ring) and C(channels) with C(now) and C(most), by PCI address, or by name without one.
          M(rdma.fabric.rdma_host) fills it for interfaces with C(queues).
      type: dict
    interrupts:
      description:
        - C(online) and C(isolated) CPUs. For C(interfaces), by PCI address, the C(local) CPUs, those that may serve
          each interrupt (C(irqs)), and those that do if they differ (C(elsewhere)). How C(irqbalance) is started.
          M(rdma.fabric.rdma_host) fills it if C(irq_affinity) is given.
      type: dict
    routing:
      description:
        - C(interfaces) with their C(routes) and C(addresses), by PCI address, or by name without one; C(rules) of the
          host, and addresses of its C(uplinks). M(rdma.fabric.rdma_host) fills it if C(routes) or C(routing-policy) are
          given.
      type: dict
    guids:
      description:
        - C(functions) of InfiniBand ports with their C(node_guid), C(port_guid) and C(link_state), by PCI address.
          M(rdma.fabric.rdma_host) fills it for ports with C(vf_guids).
      type: dict
    firmware:
      description:
        - C(tool), C(cards) by their PCI address without the function, with default, current and next value of
          C(parameters), and C(set_since_boot). M(rdma.fabric.rdma_host) fills it for cards with C(firmware), and for a
          BlueField if a step depends on its mode.
      type: dict
    firmware_images:
      description:
        - C(tool), C(cards) by the PCI address of their first function and C(files) by their paths, with C(version),
          C(running), C(psid) and C(security) of the image. M(rdma.fabric.rdma_host) fills it for cards with
          C(firmware_image).
      type: dict
    unreadable:
      description:
        - Reads that failed unexpectedly, at most 24. M(rdma.fabric.rdma_host) refuses steps that may depend on one.
      type: list
      elements: dict
      sample: [{"path": "/sys/kernel/security/lockdown", "error": "EACCES", "meaning": "needs root"}]
counters:
  description:
    - Counters of every RDMA port since the driver was loaded or they were last reset, so they may show events long
      past. Only the increase between two readings shows the present.
    - Names are those of the kernel and the driver; M(rdma.fabric.fabric_status) explains those of errors.
      C(port_rcv_data) and C(port_xmit_data) count units of four bytes. Counters at 0 are left out.
  returned: when O(counters) is true
  type: list
  elements: dict
  contains:
    device:
      description: The RDMA device.
      returned: always
      type: str
      sample: mlx5_1
    port:
      description: Number of the port.
      returned: always
      type: int
      sample: 1
    link_layer:
      description: C(InfiniBand), where C(perfquery -R) resets counters, or C(Ethernet), where nothing does.
      returned: always
      type: str
      sample: Ethernet
    readable:
      description: How many counters could be read, including those at 0. With 0, nothing is known of the port.
      returned: always
      type: int
      sample: 51
    counters:
      description: Counters of the port (PortCounters), which stop at their maximum.
      returned: always
      type: dict
      sample: {"excessive_buffer_overrun_errors": 15, "link_downed": 255, "port_rcv_switch_relay_errors": 2}
    hw_counters:
      description: Counters of the driver. Queue counters of ConnectX have 32 bits and wrap around.
      returned: always
      type: dict
      sample: {"local_ack_timeout_err": 2705, "np_cnp_sent": 1333}
    saturated:
      description: Counters of the port that have reached their maximum, so that they can't rise further.
      returned: always
      type: list
      elements: str
      sample: ["excessive_buffer_overrun_errors", "link_downed"]
cabling:
  description:
    - By interface, or InfiniBand device, the switches that its frames come from, each with C(switch) and C(port). What
      tells of none is absent.
  returned: when O(cabling) is not V(none)
  type: dict
  sample: {"ens2f0np0": [{"switch": "leaf-1", "port": "Ethernet1/3"}]}
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.port_counters import read_counters
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.connection import server_address


def main() -> None:
    """Read the machine the module runs on; the action plugin of the same name reads recordings."""
    module = AnsibleModule(
        argument_spec={
            "recording": {"type": "path"},
            "kernel_modules": {"type": "list", "elements": "str", "default": []},
            "counters": {"type": "bool", "default": False},
            "cabling": {"type": "str", "choices": ["none", "told", "heard"], "default": "none"},
        },
        supports_check_mode=True,
    )
    host = LiveHost()
    facts = gather(host, server_address(host, os.getpid()), module.params["kernel_modules"])
    asked: dict[str, Any] = {"counters": read_counters(host)} if module.params["counters"] else {}
    if module.params["cabling"] != "none":
        # The host compiles what is imported in every run.
        from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.cabling import hear, read_cabling  # noqa: PLC0415

        ports = {port["netdev"] for port in facts["rdma"] if port["netdev"] and port["pci"]}
        wanted = [each["name"] for each in facts["netdevs"] if each["name"] in ports and each["carrier"]]
        heard = hear(wanted) if module.params["cabling"] == "heard" else None
        asked["cabling"] = read_cabling(host, facts["rdma"], heard)
    module.exit_json(changed=False, recorded=False, facts=as_returned(facts), **asked)


if __name__ == "__main__":
    main()
