# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: bandwidth_verdict
short_description: Judge a measured bandwidth
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Compares the bandwidth that P(rdma.fabric.perftest_result#filter) read with the rate of the slowest part of the
    path, which is the link, the PCIe slot of the NIC or the path between NIC and GPU.
  - Between host memories 90 % are required. With GPU memory it depends on the distance of GPU and NIC, 85 % behind PCIe
    switches (V(PIX), V(PXB)), 70 % through a host bridge (V(PHB)) or over NVLink-C2C (V(C2C)), 60 % through two
    (V(NODE)), 50 % across NUMA nodes (V(SYS)). Without the distance, only rates with the same verdict for every
    distance are judged.
  - A run in both directions is compared with twice the rate.
  - A test that failed or whose output is not complete fails, on emulated hardware too.
positional: link_gbps
options:
  _input:
    description:
      - What P(rdma.fabric.perftest_result#filter) returned for a bandwidth test.
    type: dict
    required: true
  link_gbps:
    description:
      - Rate of the port in Gb/s, as C(rate_gbps) of RV(rdma.fabric.rdma_info#module:facts.rdma) has it.
      - Without it the rate is reported and not judged.
    type: float
  pcie:
    description:
      - The NIC's PCIe link, a mapping with C(speed_gts) and C(width), as C(link) of
        RV(rdma.fabric.rdma_info#module:facts.nics) has it.
    type: dict
  kind:
    description:
      - Whose memory the test used. V(gpu) if it was a GPU's on either side.
      - By default V(gpu) if the output says that its side's memory is a GPU's, V(host) otherwise.
    type: str
    choices: [host, gpu]
  distance:
    description:
      - Distance of GPU and NIC, as in RV(rdma.fabric.rdma_info#module:facts.distances). The worse of the two sides
        counts.
    type: str
    choices: [PIX, PXB, C2C, PHB, NODE, SYS]
  gpu_pcie:
    description:
      - The GPU's PCIe link, as O(pcie).
    type: dict
  emulated:
    description:
      - Whether the hardware is emulated (soft RDMA, a guest without its own NIC). The rate is reported then, not
        judged.
    type: bool
    default: false
  threshold:
    description:
      - Required share of the expected rate in place of the ones above, such as V(0.95).
    type: float
seealso:
  - plugin: rdma.fabric.perftest_result
    plugin_type: filter
  - module: rdma.fabric.rdma_info
"""

EXAMPLES = r"""
- name: Fail on a port of 100 Gb/s that does not reach 90 %
  ansible.builtin.assert:
    that: verdict.verdict == 'pass'
    fail_msg: "{{ verdict.reason }}"
    success_msg: "{{ verdict.reason }}"
  vars:
    verdict: "{{ output | rdma.fabric.perftest_result | rdma.fabric.bandwidth_verdict(100) }}"
    output: |
      ---------------------------------------------------------------------------------------
                          RDMA_Write BW Test
       #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
       65536      5000             97.96              97.95              0.186826
      ---------------------------------------------------------------------------------------

- name: Judge a rate between GPUs by the path between GPU and NIC
  ansible.builtin.debug:
    msg: "{{ output | rdma.fabric.perftest_result | rdma.fabric.bandwidth_verdict(100, kind='gpu', distance='NODE') }}"
  vars:
    output: |
      ---------------------------------------------------------------------------------------
                          RDMA_Write BW Test
       #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
       65536      5000             82.12              81.95              0.156307
      ---------------------------------------------------------------------------------------
"""

RETURN = r"""
_value:
  description: The verdict.
  type: dict
  contains:
    verdict:
      description: V(pass), V(fail), or V(reported) for a rate that cannot be judged.
      type: str
    reason:
      description: The verdict in one sentence.
      type: str
    measured_gbps:
      description: Median of the averages of large messages, in Gb/s. V(none) if nothing was measured.
      type: float
    expected_gbps:
      description: What the narrowest part of the way carries, in Gb/s.
      type: float
    limit:
      description: The narrowest part, V(link), V(pcie) or V(gpu path).
      type: str
    ratio:
      description: Measured by expected.
      type: float
    threshold:
      description: The required share of the rate, V(none) if the rate was not judged.
      type: float
    hints:
      description: What to look at, for a rate that did not pass.
      type: list
      elements: str
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._proof import bandwidth
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def bandwidth_verdict(result: dict[str, Any], link_gbps: float | None = None, **options: Any) -> dict[str, Any]:
    """Return the verdict on a measured bandwidth; see the documentation above."""
    return bandwidth.bandwidth_verdict(result, link_gbps, **options)


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"bandwidth_verdict": filter_of("bandwidth_verdict", bandwidth_verdict)}
