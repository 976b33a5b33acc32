# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of the tests on booted guests: made, waited for, looked into; every wait ends in time and says what it saw."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Sequence

from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.speed import known_slowness

Json = dict[str, Any]

NETWORKS = "k8s.v1.cni.cncf.io/networks"
TEST_PODS = "app.kubernetes.io/component=verify"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
IMAGE = "mellanox/rping-test"  # as the first release's examples name it: without a tag, so it is pulled each time
# On a busy machine an emulated guest takes its time; Multus, for one, gives the API server 250 ms for an answer, and
# kubelet tries again after 15 s.
READY_SECONDS = 600.0
GONE_SECONDS = 300.0
POLL_SECONDS = 1.0


def until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    """Wait for a condition; fail with what is seen when it does not come about in time, that of an idle machine."""
    budget = Budget(seconds, known_slowness(os.environ))
    while not condition():
        assert budget.left() > 0, f"not within {budget.spent():.0f} s: {what()}"
        time.sleep(POLL_SECONDS)


def kubectl(lab: Lab, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl; fail with what it says."""
    result = lab.kubectl(*arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def on_guest(lab: Lab, name: str, command: str) -> str:
    """Run a shell command on a guest; fail with what it says."""
    result = lab.ssh(name, command)
    assert result.returncode == 0, f"{name}: {command}\n{result.stderr}{result.stdout}"
    return result.stdout


def get(lab: Lab, kind: str, name: str, namespace: str = "") -> Json:
    """Give one object."""
    place = [f"--namespace={namespace}"] if namespace else []
    found: Json = json.loads(kubectl(lab, "get", kind, name, *place, "--output=json"))
    return found


def items(lab: Lab, kinds: str, *arguments: str) -> list[Json]:
    """Give objects."""
    found: list[Json] = json.loads(kubectl(lab, "get", kinds, "--output=json", *arguments))["items"]
    return found


def rdma_pod(name: str, node: str, network: str, resource: str, namespace: str = "default") -> Json:
    """Give an unprivileged pod as the first release's examples have it: one network, one RDMA resource."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {NETWORKS: network}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["sleep", "infinity"],
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "resources": {"limits": {resource: 1}, "requests": {resource: 1}},
                }
            ],
        },
    }


def create(lab: Lab, pods: Sequence[Json]) -> None:
    """Make pods, and wait until all of them are Ready."""
    kubectl(lab, "create", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(pods)}))
    await_ready(lab, [each["metadata"]["name"] for each in pods], pods[0]["metadata"]["namespace"])


def await_ready(lab: Lab, names: Sequence[str], namespace: str = "default") -> None:
    """Wait until pods are Ready; fail with the events of the first that is not."""
    until(
        lambda: not waiting(lab, names, namespace), READY_SECONDS, lambda: history(lab, waiting(lab, names, namespace))
    )


def waiting(lab: Lab, names: Sequence[str], namespace: str) -> list[Json]:
    """Give those pods that are not Ready."""
    pods = [each for each in items(lab, "pods", f"--namespace={namespace}") if each["metadata"]["name"] in names]
    missing = [{"metadata": {"name": name, "namespace": namespace}} for name in set(names) - {*map(name_of, pods)}]
    return [*missing, *(each for each in pods if not is_ready(each))]


def name_of(item: Json) -> str:
    """Give an object's name."""
    return str(item["metadata"]["name"])


def is_ready(pod: Json) -> bool:
    """Tell whether a pod is Ready and meant to stay."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def history(lab: Lab, pods: Sequence[Json]) -> str:
    """Give what kubelet and scheduler said about pods."""
    lines = []
    for pod in pods:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        lines.append(f"{namespace}/{name} is not Ready: {json.dumps(pod.get('status', 'it is not there'))}")
        about = f"--field-selector=involvedObject.name={name}"
        lines += [f"  {event['reason']}: {event['message']}" for event in items(lab, "events", f"-n{namespace}", about)]
    return "\n".join(lines)


def delete(lab: Lab, *names: str, namespace: str = "default", grace: int = 1) -> None:
    """Delete pods, and wait until kubelet has taken them down; ``grace``: seconds that they have to end."""
    options = ["--ignore-not-found", f"--grace-period={grace}", f"--timeout={GONE_SECONDS:.0f}s"]
    result = lab.kubectl("delete", "pod", *names, f"--namespace={namespace}", *options, timeout=2 * GONE_SECONDS)
    assert result.returncode == 0, result.stderr + result.stdout


def networks(lab: Lab, name: str, namespace: str = "default") -> dict[str, Json]:
    """Give what Multus says of a pod's interfaces, by interface."""
    annotations = get(lab, "pod", name, namespace)["metadata"]["annotations"]
    return {each["interface"]: each for each in json.loads(annotations[NETWORK_STATUS])}


def inside(lab: Lab, name: str, *command: str, namespace: str = "default") -> str:
    """Run a command in a pod."""
    return kubectl(lab, "exec", f"--namespace={namespace}", name, "--", *command)


def links(lab: Lab, name: str, namespace: str = "default") -> dict[str, Json]:
    """Give what ``ip`` says of the interfaces inside a pod, by interface."""
    found = json.loads(inside(lab, name, "ip", "-json", "-detail", "address", "show", namespace=namespace))
    return {each["ifname"]: each for each in found}


def addresses(link: Json) -> list[str]:
    """Give an interface's IPv4 addresses with their prefixes."""
    return [f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"] if each["family"] == "inet"]
