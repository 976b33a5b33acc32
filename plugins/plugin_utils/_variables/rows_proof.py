# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the fabric test: what is tested between which pods, how long, and which rate is enough."""

from __future__ import annotations

from .variable import Variable

_PROOF = ("verify", "host/give_back")
# What is looked at before hosts are touched, too.
_PODS = (*_PROOF, "playbook join", "playbook rollback", "playbook site", "playbook upgrade")

ROWS = (
    Variable(
        "verify_networks",
        "list",
        ("Networks to test, as C(name) or C(namespace/name). All networks of the fabric by default.",),
        _PODS,
        default=[],
        elements="str",
        asked=True,
    ),
    Variable(
        "verify_resources",
        "dict",
        ("Resource that a test pod requests, or a list of them, by network, if it can't be derived from the fabric.",),
        _PODS,
        default={},
    ),
    Variable(
        "verify_pairs",
        "str",
        (
            "V(all) tests every pair of nodes, in N - 1 rounds.",
            "V(hunt) tests all nodes once, and again those whose pairs fail, until who is at fault is known.",
            "V(leaf) tests nodes within their leaf switch (label C(network.topology.nvidia.com/leaf)), and each leaf "
            "with every other.",
            "V(ring) tests each node with the next one, for a quick look.",
        ),
        ("verify",),
        default="all",
        choices=("all", "hunt", "leaf", "ring"),
        asked=True,
    ),
    Variable(
        "verify_namespace",
        "str",
        ("Namespace of the test pods. By default that of each network.",),
        _PODS,
        asked=True,
    ),
    Variable(
        "verify_image",
        "str",
        (
            "Image with C(sh), C(sleep), C(ping) of iputils, C(rping), C(ib_write_bw) and C(ib_write_lat).",
            "Without the last, no latency is measured.",
            "C(taskset) binds the measuring programs to the CPUs of the NIC's NUMA node; without it they run on any.",
            "The default is C(mellanox/rping-test), through the registry mirrors.",
        ),
        _PODS,
    ),
    Variable(
        "verify_gpu_resource",
        "str",
        (
            "Resource of a GPU, such as V(nvidia.com/gpu), of which each test pod asks for one. Then bandwidth is "
            "measured between the memory of GPUs as well, with a C(rdma_fabric_verify_image) whose perftest was built "
            "with CUDA.",
        ),
        _PODS,
        asked=True,
    ),
    Variable(
        "verify_runtime_class",
        "str",
        (
            "RuntimeClass of the test pods, such as V(nvidia), if the cluster's container runtime gives pods their "
            "GPU only with one, as with k3s and RKE2. By default the default runtime of each node.",
        ),
        _PODS,
    ),
    Variable(
        "verify_size",
        "int",
        ("Bytes of one message, by default 1048576, or 65536 on an emulated device.",),
        _PROOF,
        least=1,
        unit="bytes",
    ),
    Variable(
        "verify_iterations",
        "int",
        ("Messages on each queue pair, by default 5000, or 100 on an emulated device.",),
        _PROOF,
        least=1,
    ),
    Variable(
        "verify_queue_pairs",
        "int",
        ("Queue pairs, by default 4, or 1 on an emulated device.",),
        _PROOF,
        least=1,
    ),
    Variable(
        "verify_timeout",
        "int",
        ("Seconds to wait for the test pods of a network.",),
        _PROOF,
        default=180,
        least=1,
        unit="seconds",
    ),
    Variable(
        "verify_test_timeout",
        "int",
        ("Seconds that each program may run in a pod.",),
        _PROOF,
        default=60,
        least=1,
        unit="seconds",
    ),
    Variable(
        "verify_parallel",
        "int",
        (
            "Pairs of a round that are tested at the same time. Each takes a thread on the controller and a stream "
            "of the API server.",
        ),
        ("verify",),
        default=16,
        least=1,
        most=256,
    ),
    Variable(
        "verify_min_rate_ratio",
        "float",
        (
            "Share of the expected rate below which a test fails, by default V(0.9).",
            "For GPU memory the default is lower, depending on the path between GPU and NIC, and this value can only "
            "lower it further.",
        ),
        _PROOF,
        least=0.001,
        most=1,
        asked=True,
    ),
)
