# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reasons of a pod that does not become ready mean. Pure.

The texts are the scheduler's, kubelet's, containerd's, Multus' and those of the CNI and IPAM programs that are deployed
here, as their sources and public issues have them.
"""

from __future__ import annotations

import re
from typing import Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import NEEDS

from ..output_text import quoted
from ..problem import Problem, problem_of

_KNOWN = (
    (
        r"Insufficient ((?:rdma|nvidia\.com|[\w.-]+)/[\w.-]+)",
        "all devices of this resource on the node are taken, or its device plugin stopped offering them",
        "look at kubectl describe node: allocatable and allocated; end pods that hold the resource",
    ),
    # The scheduler tells what is against every node, also those that the pod is not for.
    (
        r"Insufficient (?:cpu|memory|pods|ephemeral-storage|hugepages-\w+)|Too many pods|OutOf(?:cpu|memory|pods)",
        "the node has too little left for the pod (CPU, memory, number of pods) beside what others request",
        "look at kubectl describe node: allocated resources; end pods, or lower what they request",
    ),
    # Scheduler's plugin dynamicresources, and the kubelet's event.
    (
        r"cannot allocate all claims|FailedPrepareDynamicResources|resourceclaim",
        "no node has the devices free that the pod's ResourceClaim asks for, or their DRA driver failed",
        "look at kubectl get resourceslices,resourceclaims, and at the DRA driver's pod on the node",
    ),
    (
        r"SchedulingGated",
        "the pod is held before it is scheduled, as those are that a queue such as Kueue's has not admitted",
        "have the queue admit it, or use a namespace that it leaves alone (rdma_fabric_verify_namespace)",
    ),
    (
        r"untolerated taint|had taint",
        "the node has a taint that the test pods do not tolerate",
        "give the policy the toleration, or take the taint away",
    ),
    (
        r"didn't match Pod's node affinity|node\(s\) were unschedulable|didn't satisfy plugin",
        "the node is gone, cordoned, or has another name",
        "look at kubectl get nodes",
    ),
    (
        r"ErrImageNeverPull|ErrImagePull|ImagePullBackOff|ImageInspectError|Failed to pull image|InvalidImageName",
        "the node cannot get the test image",
        "check the reference, the registry and its mirror, and the pull secret (rdma_fabric_verify_image)",
    ),
    # Programs that the container runtime starts have its environment (multus-cni#818 and #920, calico#2941).
    (
        r"https://\S+/apis?/\S+ (?:proxyconnect|Forbidden|Service Unavailable|Bad Gateway|Gateway Time|Proxy Auth)",
        "the container runtime of the node has a proxy, by which Multus and whereabouts ask the API server as well",
        "add the address of the Service kubernetes to NO_PROXY of the runtime's unit, and restart the runtime",
    ),
    (
        r"https://\S+/apis?/\S+ dial tcp \S+ ",
        "Multus and whereabouts do not reach the API server from the node's own network, by its Service's address",
        "look at kube-proxy on the node, or at what takes its place (socketLB of Cilium)",
    ),
    (
        r"incompatible CNI versions",
        "a CNI program of the node is too old for the cniVersion of the network, or the network too old for it",
        "read the message; use a newer release of the program, or another cniVersion in the attachment",
    ),
    (
        r"waiting to become leader",
        "pods that whereabouts gives addresses take turns in the whole cluster, and this one's did not come in time",
        "wait for those that start beside it; use nv-ipam, or node_slice_size, where many start at once",
    ),
    # Before Multus, which passes on what Calico, flannel and Cilium say.
    (
        r"cannot find valid master CNI config|waiting for readinessindicatorfile|cni plugin not initialized"
        r"|ClusterInformation|loadFlannelSubnetEnv|Cilium agent",
        "the cluster's own network is not ready on the node",
        "look at the pods of the cluster's network on the node",
    ),
    (
        r"Unauthorized|failed to get (?:delegate|pod)|multus\.(?:kubeconfig|sock)"
        r"|context deadline exceeded.{0,80}pod|error waiting for pod",
        "Multus could not ask the API server: its token is of a pod that is gone, or the node is busy",
        "look at the Multus pod of the node; restarting it writes a new token",
    ),
    (
        r"(?:cannot|could not) find a network-attachment-definition|network-attachment-definition\S* .{0,80}not found",
        "the attachment is not there, or Multus may not take it from another namespace",
        "compare the network's namespace with the test pods' (rdma_fabric_verify_namespace)",
    ),
    (
        r"failed to find plugin \\?\"?([\w.-]+)",
        "a CNI program is not on the node",
        "look at the pods of cni-plugins, whereabouts or Multus that copy it to the CNI folder of the node",
    ),
    (
        r"failed to lookup (?:master|parent)|Link not found|no such network interface|failed to find (?:host )?device",
        "the network's interface is not on this node, or not under this name",
        "compare the network's master with the node's interfaces",
    ),
    (
        r"no free addresses in the pool",
        "the node's part of the pool of nv-ipam is used up",
        "look at status.allocations of the IPPool or CIDRPool; a new pool may have larger parts",
    ),
    (
        r"configuration for pool .{0,80}not found",
        "nv-ipam has no part of the pool for the node: there is no such pool in its namespace, the pool's nodeSelector "
        "leaves the node out, or its subnet has no part left",
        "look at status.allocations and nodeSelector of the IPPool or CIDRPool",
    ),
    (
        r"failed to connect to IPAM daemon|store lock is held",
        "the pod of nv-ipam on the node does not answer",
        "look at the nv-ipam-node pod of the node",
    ),
    (
        r"Could not allocate IP in range",
        "the range of whereabouts is used up",
        "look at the IPPool of the range: addresses of pods that are gone stay taken until whereabouts' own clean-up",
    ),
    (
        r"no allocated node slice",
        "whereabouts has no slice of the range for the node",
        "look at the NodeSlicePool and at whereabouts' controller; node_slice_size may leave slices for fewer nodes",
    ),
    (
        r"no IP addresses available in range set",
        "the range of host-local is used up on the node",
        "look at /var/lib/cni/networks of the node: addresses of pods that are gone stay there after a hard reset",
    ),
    (
        r"error dialing DHCP daemon",
        "the daemon of the CNI plugin dhcp does not run on the node",
        "start it, or take another IPAM",
    ),
    (
        r"whereabouts|IPPool|storage engine|no more (?:free )?(?:IPs|addresses)|host-local",
        "the address could not be given: the range is used up, or whereabouts cannot reach the API server",
        "look at the IPPool of the range and at the whereabouts pods",
    ),
    *(
        (need.seen, f"on the node {', '.join(need.components)} lacks {need.text}", need.step)
        for need in NEEDS
        if need.seen
    ),
    (
        r"failed to create .{0,40}operation not supported",
        "the node's kernel has no module for this kind of interface",
        "install all modules of the kernel on the node, such as linux-modules-extra",
    ),
    (
        r"failed to set vf \d+ vlan .{0,80}operation not supported",
        "VFs of the port get no VLAN: its e-switch is in switchdev mode, or its driver has none",
        "set eswitch_mode: legacy, or leave vlan out and tag by Open vSwitch",
    ),
    (
        r"failed to set vf \d+",
        "the port's driver refuses a setting of the VF",
        "look at the kernel's log of the node; leave vlanQoS, vlanProto and rates out of the network",
    ),
    (
        r"VF pci addr is required",
        "Multus knows no device for the network: the pod asks for another resource than the attachment's, or for none",
        "compare k8s.v1.cni.cncf.io/resourceName of the attachment with the pod's resources",
    ),
    (
        r"(?:setting interface name|rename).{0,120}(?:file )?exists",
        "the name that the interface gets in the pod is taken, maybe as an alternative name of udev",
        "use sriov-cni v2.8.0 or newer, or the CNI plugins v1.6.0 or newer",
    ),
    (
        r"pci address .{0,40}already allocated",
        "sriov-cni holds the VF for a pod that is gone",
        "look for the pod of the file in /var/lib/cni/sriov/pci on the node, and remove the file if there is none",
    ),
    (
        r"no net directory under pci device|does not have a interface name|failed to get VF information",
        "the device has no interface on the node: another pod has it, or it is bound to a driver for user space",
        "look for the pod that has it, and at the VF's driver (rdma.fabric.status)",
    ),
    (
        r"InfiniBand status .{0,60}configured",
        "ib-kubernetes has given the pod no GUID",
        "look at its pod and at its connection to UFM",
    ),
    (
        r"failed to get RDMA devices? for|more than one RDMA device",
        "the device has no RDMA device of its own on the node, or several",
        "look at rdma link on the node, and at the modules of its driver",
    ),
    (
        r"Sysctl .{0,80}is not allowed",
        "the CNI plugin tuning may not set this on the node",
        "add it to /etc/cni/tuning/allowlist.conf of the node, or leave it out of the network",
    ),
    (
        r"TopologyAffinityError",
        "the kubelet's Topology Manager refuses it: its devices or CPUs are on other NUMA nodes than its policy wants",
        "free devices near each other, or relax topologyManagerPolicy of the kubelet: pods with all GPUs and NICs of a "
        "node with several NUMA nodes never fit single-numa-node",
    ),
    (
        r"no runtime for|runtime handler",
        "the node's container runtime does not have the handler of the pod's RuntimeClass",
        "set up the NVIDIA container toolkit on the node, or leave out rdma_fabric_verify_runtime_class",
    ),
    (
        r"nvidia-container-(?:cli|runtime)|CDI device",
        "the container runtime could not give the container its devices: GPU driver, container toolkit or CDI files",
        "see the whole message by kubectl describe pod, and nvidia-smi and /etc/cdi, /var/run/cdi on the node",
    ),
    (
        r"UnexpectedAdmissionError|Allocate failed|device plugin.{0,60}(?:unhealthy|failed)",
        "the device plugin refused to assign a device",
        "look at the log of the device plugin on the node",
    ),
    (
        r"FailedCreatePodSandBox|plugin type=|failed to setup network|CNI",
        "a network could not be set up in the pod",
        "read the message; the CNI and containerd logs of the node say more",
    ),
    (
        r"Evicted|DeadlineExceeded|OOMKilled|Preempt(?:ed|ing\b)",
        "the pod was ended from outside: eviction, its own deadline, or a pod of higher priority",
        "look at the node's pressure, then run again",
    ),
    (
        r"the pod was deleted",
        "it was deleted while it was needed",
        "find out who deletes pods here, then run again",
    ),
    (
        r"Pod was rejected|SMTAlignmentError",
        "the kubelet of the node refuses the pod: its CPU manager (full-pcpus-only) or another admission handler",
        "read the message, and compare it with the kubelet's configuration on the node",
    ),
    (
        r"CreateContainerConfigError",
        "a Secret or ConfigMap that the container names is not there, or its user is not allowed (runAsNonRoot)",
        "read the message, and look at what changes pods of the namespace: webhooks and policies",
    ),
    # A shell ends with 126 and 127 where it can't start a program, container runtimes with 128.
    (
        r"CreateContainerError|RunContainerError|StartError|exec format error|executable file not found"
        r"|ended with 12[678]\b",
        "the container could not start",
        "use an image for the node's architecture with sh and sleep (rdma_fabric_verify_image)",
    ),
    (
        r"ended with \d",
        "the container's program ended by itself, or the node has ended it",
        "look at the pod's log, and at the kernel log of the node",
    ),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), cause, step) for pattern, cause, step in _KNOWN)


def pod_problem(reasons: Sequence[str], seconds: float) -> Problem:
    """Return what keeps a pod from being ready after ``seconds``, from its reasons, the most telling one first."""
    for pattern, cause, step in _PATTERNS:
        for reason in reasons:
            if pattern.search(reason):
                return problem_of(f"the pod is not ready: {quoted(reason)}", cause, step)
    told = quoted(reasons[0]) if reasons else "nothing says why"
    step = "look at the node, or give more time (rdma_fabric_verify_timeout)"
    cause = "the node is slow or kubelet does not answer"
    return problem_of(f"the pod is not ready after {seconds:g} s: {told}", cause, step)
