# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the fabric test: what is tested between which pods, how long, and which rate is enough."""

from __future__ import annotations

from .variable import Variable

_PROOF = ("verify", "host/give_back")
_NCCL = ("nccl",)
# What is looked at before hosts are touched, too.
_PODS = (*_PROOF, "playbook join", "playbook rollback", "playbook site", "playbook upgrade")

ROWS = (
    Variable(
        "verify_networks",
        "list",
        ("Networks to test, as C(name) or C(namespace/name). All networks of the fabric by default.",),
        (*_PODS, *_NCCL),
        default=[],
        elements="str",
        asked=True,
    ),
    Variable(
        "verify_resources",
        "dict",
        ("Resource that a test pod requests, or a list of them, by network, if it can't be derived from the fabric.",),
        (*_PODS, *_NCCL),
        default={},
    ),
    Variable(
        "verify_level",
        "str",
        (
            "How thoroughly the fabric is accepted: sets what is not given of C(rdma_fabric_verify_pairs), "
            "C(rdma_fabric_verify_test_timeout) and C(rdma_fabric_verify_iterations).",
            "V(quick) hunts in slots of 10 seconds. V(full) hunts in slots of 30 seconds.",
            "V(strict) tests every pair, and the playbook then runs NCCL tests, which need C(rdma_fabric_nccl_image).",
        ),
        ("verify", "playbook verify"),
        choices=("quick", "full", "strict"),
        asked=True,
    ),
    Variable(
        "verify_minutes",
        "int",
        (
            "The time that the test may take by its estimate. The most thorough schedule that fits is taken, up to "
            "that of C(rdma_fabric_verify_level); C(rdma_fabric_verify_pairs) is taken as it is.",
            "If nothing fits, the test is refused.",
        ),
        ("verify",),
        least=1,
        unit="minutes",
        asked=True,
    ),
    Variable(
        "verify_since",
        "path",
        ("C(verify.json) of a former run: the end of the run and its report name what got worse since.",),
        ("verify",),
    ),
    Variable(
        "verify_pairs",
        "str",
        (
            "V(all) tests every pair of nodes, in N - 1 rounds.",
            "V(hunt) tests all nodes once, and again those whose pairs fail, until who is at fault is known.",
            "V(leaf) tests nodes within their leaf switch (by cabling, or by the label "
            "C(network.topology.nvidia.com/leaf)), and each leaf with every other.",
            "V(ring) tests each node with the next one, for a quick look.",
            "By default that of C(rdma_fabric_verify_level), or V(all).",
        ),
        ("verify",),
        choices=("all", "hunt", "leaf", "ring"),
        asked=True,
    ),
    Variable(
        "verify_namespace",
        "str",
        ("Namespace of the test pods. By default that of each network.",),
        (*_PODS, *_NCCL),
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
        (*_PODS, *_NCCL),
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
        (*_PROOF, *_NCCL),
        default=180,
        least=1,
        unit="seconds",
    ),
    Variable(
        "verify_test_timeout",
        "int",
        ("Seconds of a slot: all tests of one pair end within it. By default that of the level, or V(30).",),
        _PROOF,
        least=1,
        unit="seconds",
    ),
    Variable(
        "verify_parallel",
        "int",
        (
            "Requests about test pods that are under way at the same time. Each takes a thread on the controller and a "
            "stream of the API server.",
        ),
        ("verify",),
        default=16,
        least=1,
        most=256,
    ),
    Variable(
        "verify_busy_nodes",
        "bool",
        (
            "Test nodes where pods use the device of the network, too. By default they are left out and named: a test "
            "takes bandwidth from such pods, and they from the test.",
        ),
        ("verify",),
        default=False,
        asked=True,
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
    Variable(
        "verify_max_rate_ratio",
        "float",
        (
            "Share of a port's rate that a bandwidth test takes at most, such as V(0.1) where the fabric carries "
            "other traffic. Rates are then judged by this share. Without it, all of the rate.",
        ),
        _PROOF,
        least=0.001,
        most=1,
    ),
    Variable(
        "verify_pairs_per_leaf",
        "int",
        (
            "Pairs with an end on the same leaf switch that are tested at the same time, for a fabric that carries "
            "other traffic. Without it, all of a round.",
        ),
        ("verify",),
        least=1,
    ),
    Variable(
        "verify_expected",
        "dict",
        (
            "What every port of a network has to have, by network: C(speed) in Gb/s, C(mtu), C(lossless), C(trust) "
            "and others of the guide. Without it, what most ports have.",
        ),
        ("verify",),
        default={},
    ),
    Variable(
        "verify_cabling",
        "str",
        (
            "Whether the switch that each port is cabled to is compared: V(told) reads what lldpd, systemd-networkd "
            "and, for InfiniBand, C(smpquery) know on the hosts.",
            "V(heard) also listens for frames of LLDP, up to 35 seconds.",
        ),
        ("playbook verify",),
        default="none",
        choices=("none", "told", "heard"),
        asked=True,
    ),
    Variable(
        "nccl_image",
        "str",
        ("Image with nccl-tests (built with C(MPI=1)), Open MPI, C(ssh) and C(sshd).",),
        (*_NCCL, "playbook verify"),
        asked=True,
    ),
    Variable(
        "nccl_launcher",
        "str",
        (
            "V(mpijob) takes mpi-operator of Kubeflow, V(job) an indexed Job with a host file of its own.",
            "V(auto) takes the first where the cluster knows MPIJobs.",
        ),
        _NCCL,
        default="auto",
        choices=("auto", "mpijob", "job"),
    ),
    Variable(
        "nccl_programs",
        "list",
        ("Programs of nccl-tests, by name or path.",),
        _NCCL,
        default=["all_reduce_perf"],
        elements="str",
    ),
    Variable(
        "nccl_arguments",
        "str",
        ("Arguments of the programs of nccl-tests.",),
        _NCCL,
        default="-b 8 -e 2G -f 2 -g 1",
    ),
    Variable(
        "nccl_scope",
        "str",
        ("V(whole) tests all networks at once, V(rails) each alone, V(both) one after the other.",),
        _NCCL,
        default="both",
        choices=("both", "whole", "rails"),
        asked=True,
    ),
    Variable(
        "nccl_environment",
        "dict",
        ("Variables of NCCL's ranks beside those that are computed, or in their place.",),
        _NCCL,
        default={},
    ),
    Variable("nccl_gpu_resource", "str", ("Resource of a GPU.",), _NCCL, default="nvidia.com/gpu"),
    Variable(
        "nccl_gpus",
        "int",
        ("GPUs of each node. By default as many as each of the nodes offers.",),
        _NCCL,
        least=1,
        asked=True,
    ),
    Variable(
        "nccl_timeout",
        "int",
        ("Seconds that each program of nccl-tests may run.",),
        _NCCL,
        default=600,
        least=1,
        unit="seconds",
    ),
    Variable(
        "nccl_min_rate_ratio",
        "float",
        ("Share of the rate of a node's rails below which the bus bandwidth of an NCCL test fails.",),
        _NCCL,
        default=0.8,
        least=0.001,
        most=1,
        asked=True,
    ),
    Variable(
        "nccl_busy",
        "bool",
        ("Whether nodes take part whose RDMA devices, GPUs or secondary networks are in use by pods.",),
        _NCCL,
        default=False,
        asked=True,
    ),
)
