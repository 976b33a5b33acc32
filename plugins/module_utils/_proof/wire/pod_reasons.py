# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reasons of a pod that does not become ready mean. Pure.

The texts are the scheduler's, kubelet's, containerd's, Multus' and those of CNI programs.
"""

from __future__ import annotations

import re
from typing import Sequence

from ..output_text import quoted
from ..problem import Problem

_KNOWN = (
    (
        r"Insufficient ((?:rdma|nvidia\.com|[\w.-]+)/[\w.-]+)",
        "all devices of this resource on the node are taken, or its device plugin stopped offering them",
        "look at kubectl describe node: allocatable and allocated; end pods that hold the resource",
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
        r"ErrImageNeverPull|ErrImagePull|ImagePullBackOff|Failed to pull image|InvalidImageName",
        "the node cannot get the test image",
        "check the reference, the registry and its mirror, and the pull secret (rdma_fabric_verify_image)",
    ),
    (
        r"Unauthorized|failed to get (?:delegate|pod)|context deadline exceeded.{0,80}pod|error waiting for pod",
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
        r"whereabouts|Could not allocate IP|no more (?:free )?(?:IPs|addresses)|IPPool|host-local",
        "the address could not be given: the range is used up, or whereabouts cannot reach the API server",
        "look at the IPPool of the range and at the whereabouts pods",
    ),
    (
        r"UnexpectedAdmissionError|Allocate failed|device plugin.{0,60}(?:unhealthy|failed)",
        "the device plugin refused to hand out a device",
        "look at the log of the device plugin on the node",
    ),
    (
        r"FailedCreatePodSandBox|plugin type=|failed to setup network|CNI",
        "a network could not be set up in the pod",
        "read the message; the CNI and containerd logs of the node say more",
    ),
    (
        r"Evicted|DeadlineExceeded|OOMKilled|Preempt",
        "the pod was ended from outside: eviction, its own deadline, or a pod of higher priority",
        "look at the node's pressure, then run again",
    ),
    (
        r"the pod was deleted",
        "it was deleted while it was needed",
        "find out who deletes pods here, then run again",
    ),
    (
        r"CreateContainerError|RunContainerError|StartError|executable file not found|ended with \d",
        "the container could not start",
        "use an image with sh and sleep (rdma_fabric_verify_image)",
    ),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), cause, step) for pattern, cause, step in _KNOWN)


def pod_problem(reasons: Sequence[str], seconds: float) -> Problem:
    """Return what keeps a pod from being ready after ``seconds``, from its reasons, the most telling one first."""
    for pattern, cause, step in _PATTERNS:
        for reason in reasons:
            if pattern.search(reason):
                return {"problem": f"the pod is not ready: {quoted(reason)}", "cause": cause, "next_step": step}
    told = quoted(reasons[0]) if reasons else "nothing says why"
    return {
        "problem": f"the pod is not ready after {seconds:g} s: {told}",
        "cause": "the node is slow or kubelet does not answer",
        "next_step": "look at the node, or give more time (rdma_fabric_verify_timeout)",
    }
