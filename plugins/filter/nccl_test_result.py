# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_test_result
short_description: Read and judge an output of NCCL tests
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Turns an output of C(all_reduce_perf) or another program of nccl-tests 2.0 to 2.19 into data, whether it is printed
    or the report of C(-J), and says whether it is good.
  - Wrong results, data sent over sockets, errors of NCCL and an unfinished run are problems. The largest sizes decide
    about the rate, because the average that the tests print covers all sizes.
  - If the text contains the log of NCCL (C(NCCL_DEBUG=INFO)), the network, the devices and GPUDirect are read from it.
  - Truncated output, or output that is not from NCCL tests, is not an error. RV(_value.problems) says what is wrong,
    why, and what to do.
positional: minimum
options:
  _input:
    description:
      - The text of a run, or its JSON report as text or as a mapping.
    type: raw
    required: true
  minimum:
    description:
      - Required bus bandwidth at the largest sizes, in GB/s.
    type: float
notes:
  - The environment in a JSON report is not returned, because it may contain secrets.
seealso:
  - plugin: rdma.fabric.nccl_environment
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Ask for 180 GB/s
  ansible.builtin.debug:
    msg: "{{ output | rdma.fabric.nccl_test_result(180) }}"
  vars:
    output: |
      # nThread 1 nGpus 1 minBytes 1073741824 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 20
      node1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
      node1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
      #      size      count   type  redop  root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        1073741824  268435456  float    sum    -1  10950.1   98.06  189.99       0  10948.7   98.07  190.01       0
        2147483648  536870912  float    sum    -1  21700.3   98.96  191.74       0  21697.2   98.98  191.77       0
      # Out of bounds values : 0 OK
      # Avg bus bandwidth    : 190.878
"""

RETURN = r"""
_value:
  description: What the output says. What it does not say is V(none).
  type: dict
  contains:
    test:
      description: The program, such as C(all_reduce_perf).
      type: str
    version:
      description: Version of nccl-tests, where it is printed (2.17 and later).
      type: str
    ranks:
      description: Number of ranks in the list of devices.
      type: int
    hosts:
      description: Number of hosts in the list of devices.
      type: int
    source:
      description: Where the rows are from, V(table) or V(json).
      type: str
    rows:
      description:
        - A row a size, with C(bytes), C(count), C(type), C(redop), and C(out_of_place) and C(in_place), each with
          C(time_us), C(algbw_gbytes) and C(busbw_gbytes) in GB/s, and C(wrong), the number of wrong elements.
      type: list
      elements: dict
    wrong:
      description: Number of wrong elements in all, V(none) if results were not checked.
      type: int
    printed_average_gbytes:
      description: The average bus bandwidth that the test prints.
      type: float
    summary:
      description:
        - C(busbw_gbytes) is the median of the bus bandwidth at the three largest sizes, out of place where it was
          measured, C(largest_bytes) the largest size, and C(best_gbytes) the highest bus bandwidth of all rows, in
          GB/s.
      type: dict
    transport:
      description:
        - C(network) (V(IB), V(Socket), a plugin's name, or V(MNNVL) if hosts use NVLink and no NIC), C(devices) with
          their ports, C(link_layers), C(gpu_direct) (V(all), V(some) or V(none) of the channels over RDMA),
          C(local_only) if no channel left its host, and the C(version) of NCCL.
      type: dict
    complete:
      description: Whether the run came to its end and every row is whole.
      type: bool
    verdict:
      description:
        - V(fail) with a problem, V(pass) if O(minimum) is reached, V(reported) if no minimum was given, or if
          data between hosts went over NVLink.
      type: str
    problems:
      description: What is wrong, each with C(problem), C(cause) and C(next_step).
      type: list
      elements: dict
    notices:
      description: What deserves a look.
      type: list
      elements: str
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._proof import nccl
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def nccl_test_result(output: Any, minimum: float | None = None) -> dict[str, Any]:
    """Return what an output of NCCL tests says; see the documentation above."""
    return nccl.nccl_test_result(output, minimum)


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"nccl_test_result": filter_of("nccl_test_result", nccl_test_result)}
