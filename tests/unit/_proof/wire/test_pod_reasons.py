# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a test pod from being ready, in the words of those who refuse."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pod_reasons import pod_problem

# What the scheduler says of nodes that a pod is not for, and of pods that it may end.
OTHERS = (
    ", 4 node(s) didn't match Pod's node affinity/selector. preemption: 0/5 nodes are available: 1 No preemption "
    "victims found for incoming pod, 4 Preemption is not helpful for scheduling."
)
ASKED = 'Get "https://[10.96.0.1]:443/api/v1/namespaces/default/pods/x?timeout=1m0s":'
NO_CNI = 'FailedCreatePodSandBox: Failed to create pod sandbox: rpc error: plugin type="multus" failed (add): '


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Unschedulable: 0/2 nodes are available: 1 Insufficient rdma/hca_shared_devices_a.", "all devices"),
        ("Unschedulable: 0/5 nodes are available: 1 Insufficient nvidia.com/gpu" + OTHERS, "all devices"),
        ("Unschedulable: 0/5 nodes are available: 1 Insufficient cpu" + OTHERS, "too little left"),
        ("Unschedulable: 0/5 nodes are available: 1 Too many pods" + OTHERS, "too little left"),
        ("Unschedulable: 0/5 nodes are available: 1 cannot allocate all claims" + OTHERS, "ResourceClaim"),
        ("FailedPrepareDynamicResources: NodePrepareResources: rpc error: code = DeadlineExceeded", "DRA driver"),
        ("SchedulingGated: Scheduling is blocked due to non-empty scheduling gates", "before it is scheduled"),
        ("Unschedulable: 0/2 nodes are available: 1 node(s) had untolerated taint {a: b}.", "taint"),
        ("Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", "cordoned"),
        ("ImagePullBackOff: Back-off pulling image", "cannot get the test image"),
        ("ErrImagePull: denied: insufficient permissions", "cannot get the test image"),
        ("ErrImageNeverPull: Container image is not present", "cannot get the test image"),
        (
            'ImageInspectError: short-name "mellanox/rping-test" did not resolve to an alias',
            "cannot get the test image",
        ),
        (
            'FailedCreatePodSandBox: Failed to create pod sandbox: no runtime for "nvidia" is configured',
            "the handler of the pod's RuntimeClass",
        ),
        ("CreateContainerError: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=0", "its devices"),
        ("c ended with 128 (StartError): nvidia-container-cli: initialization error: driver rpc error", "its devices"),
        (
            "the pod has ended (Failed): TopologyAffinityError Pod was rejected: Resources cannot be allocated",
            "Topology Manager refuses it",
        ),
        (
            "the pod has ended (Failed): SMTAlignmentError Pod SMT Alignment Error: requested 1 cpus not multiple cpus "
            "per core = 2",
            "kubelet of the node refuses",
        ),
        ("the pod has ended (Failed): NodeAffinity Pod was rejected: Predicate failed", "kubelet of the node refuses"),
        ('CreateContainerConfigError: secret "keys" not found', "Secret or ConfigMap"),
        ("c ended with 127", "could not start"),
        ("c ended with 255", "ended by itself"),
        ("the pod has ended (Failed): Preempting Preempted in order to admit critical pod", "ended from outside"),
        (NO_CNI + "cannot find a network-attachment-definition (x) in namespace (y)", "not there"),
        (NO_CNI + 'failed to find plugin "rxe-netns" in path [/opt/cni/bin]', "CNI program is not on the node"),
        (NO_CNI + 'failed to lookup master "rail0": Link not found', "not on this node"),
        (NO_CNI + "error at storage engine: Could not allocate IP in range", "range of whereabouts is used up"),
        (
            NO_CNI + 'desc = no free addresses in the pool "rail0", poolType "cidrpool"',
            "the pool of nv-ipam is used up",
        ),
        (NO_CNI + 'configuration for pool "rail0", poolType "ippool" not found', "no part of the pool for the node"),
        (NO_CNI + "failed to connect to IPAM daemon", "nv-ipam on the node does not answer"),
        (NO_CNI + "no IP addresses available in range set: 10.0.0.1-10.0.0.9", "host-local is used up"),
        (NO_CNI + "have not configured the storage engine", "whereabouts cannot reach"),
        (NO_CNI + "invalid MTU 9000, must be [0, master MTU(1500)]", "an MTU of at least"),
        (NO_CNI + "failed to create macvlan: invalid argument", "lacks an Ethernet port"),
        (NO_CNI + "failed to create ipvlan: device or resource busy", "belongs to no bond or bridge"),
        (NO_CNI + "failed to create macvlan: operation not supported", "no module for this kind"),
        (NO_CNI + 'failed to set vf 0 vlan configuration - id 0, proto 802.1q: operation not supported"', "no VLAN"),
        (
            NO_CNI + 'failed to set vf 4 vlan configuration - id 100, proto 802.1q: invalid argument"',
            "refuses a setting",
        ),
        (NO_CNI + "SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required", "another resource"),
        (NO_CNI + "error setting interface name from temp_119 to net1: file exists", "name that the interface gets"),
        (NO_CNI + "pci address 0000:18:00.2 is already allocated", "for a pod that is gone"),
        (NO_CNI + "no net directory under pci device 0000:18:00.2", "has no interface on the node"),
        (NO_CNI + "master device is (ens1f0) not of type ipoib", "lacks an IPoIB interface"),
        (NO_CNI + 'InfiniBand status "" is not "configured" please check', "given the pod no GUID"),
        (NO_CNI + "RDMA subsystem namespace awareness mode is set to shared", "exclusive RDMA devices"),
        (NO_CNI + "failed to move RDMA device mlx5_7 to namespace. invalid argument", "exclusive RDMA devices"),
        (NO_CNI + "more than one RDMA device found for 0000:18:00.2", "or several"),
        (NO_CNI + "still waiting for readinessindicatorfile @ /run/x", "cluster's own network"),
        # projectcalico/calico (pkg/ipamplugin), flannel-io/cni-plugin and cilium/cilium (plugins/cilium-cni)
        (NO_CNI + "error getting ClusterInformation: connection is unauthorized: Unauthorized", "own network"),
        (NO_CNI + "loadFlannelSubnetEnv failed: open /run/flannel/subnet.env: no such file", "own network"),
        (NO_CNI + "unable to connect to Cilium agent: failed to create cilium agent client", "own network"),
        ("NetworkNotReady: Network plugin returns error: cni plugin not initialized", "own network"),
        (NO_CNI + "Sysctl net.core.somaxconn is not allowed", "the CNI plugin tuning"),
        (NO_CNI + "error waiting for pod: context deadline exceeded", "could not ask the API server"),
        (NO_CNI + "Unauthorized", "token"),
        *(
            (NO_CNI + f"error waiting for pod: {ASKED} {why}", "has a proxy")
            for why in ("Service Unavailable", "Forbidden")
        ),
        (
            NO_CNI + f"error waiting for pod: {ASKED} proxyconnect tcp: dial tcp 192.0.2.1:3128: i/o timeout",
            "has a proxy",
        ),
        (NO_CNI + f"error waiting for pod: {ASKED} dial tcp 10.96.0.1:443: i/o timeout", "do not reach the API server"),
        (
            NO_CNI + 'incompatible CNI versions; config is "1.0.0", plugin supports ["0.4.0"]',
            "too old for the cniVersion",
        ),
        (NO_CNI + "error at storage engine: time limit exceeded while waiting to become leader", "take turns"),
        (NO_CNI + "GetK8sClient: failed to get context for the kubeconfig /e/multus.d/multus.kubeconfig", "token"),
        ("StartError: exec format error", "could not start"),
        (NO_CNI + "netlink receive: operation not permitted", "could not be set up"),
        ("UnexpectedAdmissionError: Allocate failed due to rpc error", "refused to assign"),
        ("the pod has ended (Failed): DeadlineExceeded", "ended from outside"),
        ("the pod was deleted", "it was deleted"),
        ("CreateContainerError: context deadline exceeded", "could not start"),
    ],
)
def test_a_reason_is_told_apart(reason: str, cause: str) -> None:
    problem = pod_problem(["ContainerCreating", reason], 12.0)
    assert cause in problem["cause"]
    assert problem["next_step"]
    assert problem["problem"].startswith("the pod is not ready: ")


def test_the_more_telling_reason_wins_wherever_it_stands() -> None:
    reasons = ["ContainerCreating", NO_CNI + "x", "Unschedulable: Insufficient nvidia.com/hostdev."]
    assert "all devices" in pod_problem(reasons, 1.0)["cause"]


@pytest.mark.parametrize("reasons", [[], ["ContainerCreating"], ["\x00" * 5000], ["x" * 100000]])
def test_no_telling_reason_is_said_with_the_time(reasons: list[str]) -> None:
    problem = pod_problem(reasons, 180.0)
    assert "not ready after 180 s" in problem["problem"]
    assert len(problem["problem"]) < 300
