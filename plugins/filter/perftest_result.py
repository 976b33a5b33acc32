# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: perftest_result
short_description: Read an output of perftest
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Turns an output of C(ib_write_bw), C(ib_read_bw), C(ib_send_bw), C(ib_atomic_bw) or their C(*_lat) programs into
    data.
  - Reads every form of perftest 4.4 to 26.04, whatever the options of the run. That is tables in MiB/s or Gb/s of one
    or many sizes, bidirectional and timed runs, latency, the reports of C(--out_json) (even if they are not valid JSON)
    and the bare numbers of C(--output).
  - Bandwidths are in Gb/s (10^9 bits) in the result, whatever the unit of the output. What perftest up to 24.04 prints
    as C(MB/sec) is MiB/s.
  - Additions of kubectl, mpirun or a terminal to the lines are ignored.
  - Output that is truncated, mixed or not from perftest is not an error. RV(_value.complete) is V(false) then, and
    RV(_value.problems) says what is wrong, why, and what to do.
positional: unit
options:
  _input:
    description:
      - The text of one run of one side, or its JSON report as text or as a mapping.
    type: raw
    required: true
  unit:
    description:
      - Unit of the numbers if the output does not show it, needed only for bare numbers of C(--output).
      - V(gbps) for a run with C(--report_gbits), V(mibps) without, V(usec) for a latency.
    type: str
    choices: [auto, gbps, mibps, usec]
    default: auto
notes:
  - The text is untrusted data. At most 32 MiB of it are read, in time linear in its length.
seealso:
  - plugin: rdma.fabric.bandwidth_verdict
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Read an output
  ansible.builtin.debug:
    msg: "{{ (output | rdma.fabric.perftest_result).summary }}"
  vars:
    output: |
      ---------------------------------------------------------------------------------------
                          RDMA_Write BW Test
       Dual-port       : OFF          Device         : mlx5_0
       Number of qps   : 1            Transport type : IB
      ---------------------------------------------------------------------------------------
       #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
       65536      5000             11677.98           11676.79             0.186829
      ---------------------------------------------------------------------------------------
    # {"average_gbps": 97.952014, "best_bytes": 65536, "best_gbps": 97.952014, "largest_bytes": 65536,
    #  "peak_gbps": 97.961996}
"""

RETURN = r"""
_value:
  description: What the output says. What it does not say is V(none).
  type: dict
  contains:
    test:
      description: The program, such as C(ib_write_bw).
      type: str
    kind:
      description: V(bandwidth) or V(latency).
      type: str
    bidirectional:
      description: Whether both directions ran at once. The bandwidths are their sum then.
      type: bool
    device:
      description: This side's RDMA device.
      type: str
    qps:
      description: Number of queue pairs.
      type: int
    transport:
      description: V(IB) or V(IW) (iWARP), as printed.
      type: str
    connection:
      description: V(RC), V(UC), V(UD), V(XRC), V(DC), V(SRD) or V(RawEth).
      type: str
    mtu:
      description: Active MTU of the path, in bytes.
      type: int
    link_type:
      description: V(Ethernet) or V(InfiniBand).
      type: str
    gid_index:
      description: Index of this side's GID.
      type: int
    rdma_cm:
      description: Whether the connection manager connected the queue pairs (C(-R)).
      type: bool
    tos:
      description: Type of service, where one was set (C(-T)).
      type: int
    version:
      description: What C(--version) printed, where the text has it. It counts the protocol, not the package.
      type: str
    gpu:
      description: PCIe bus and device of the GPU that this side has taken, such as V(1b:00), as perftest prints it.
      type: str
    cuda:
      description: Whether this side says that its memory is a GPU's. The other side's memory is in its own output.
      type: bool
    unit:
      description: Unit of the output, V(Gb/s), V(MiB/s) or V(us).
      type: str
    source:
      description: Where the rows are from, V(table), V(json) or V(number).
      type: str
    rows:
      description:
        - A row a size. Bandwidth has C(bytes), C(iterations), C(peak_gbps) (V(none) where it was not measured),
          C(average_gbps) and C(msg_rate_mpps), and C(cpu_percent), C(service_level), C(ports) where they are printed.
        - Latency has C(bytes), C(iterations), C(min_us), C(max_us), C(typical_us), C(average_us), C(stdev_us),
          C(p99_us) and C(p999_us), or C(average_us) and C(transactions_per_second) of a timed run.
      type: list
      elements: dict
    directions:
      description: Rows of each direction of a run with C(--report-both), under C(local) and C(remote).
      type: dict
    summary:
      description:
        - For bandwidth C(peak_gbps) (highest of all rows), C(average_gbps) (median of the averages of messages of 64
          KiB and more, or of the largest size), C(largest_bytes), and C(best_bytes) with C(best_gbps), the size with
          the highest average.
        - For latency C(bytes), C(typical_us), C(average_us), C(p99_us) and C(p999_us) of the smallest size.
      type: dict
    complete:
      description: Whether the text is one whole output, every row makes sense and no message ended the run.
      type: bool
    problems:
      description: What is wrong, each with C(problem), C(cause) and C(next_step).
      type: list
      elements: dict
    notices:
      description: What worrying but harmless lines mean.
      type: list
      elements: str
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._proof import perftest
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def perftest_result(output: Any, unit: str = "auto") -> dict[str, Any]:
    """Return what an output of perftest says; see the documentation above."""
    return perftest.perftest_result(output, unit)


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"perftest_result": filter_of("perftest_result", perftest_result)}
