# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL would meet in a user's job on this fabric, from its pod templates and the facts of hosts. Pure.

The input's own check has its networks, amounts of devices and IPC_LOCK already; this has what that cannot know.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .nccl_environment import nccl_environment
from .problem import Problem

_MOST_NAMED = 5
SHARED_MEMORY = "/dev/shm"  # noqa: S108  a mount of pods, which no program here writes to


class Template(NamedTuple):
    """A pod template of a job: how it is called, its spec, and the networks (``namespace/name``) that it asks for."""

    place: str
    spec: Mapping[str, Any]
    networks: Sequence[str]


class Host(NamedTuple):
    """A host of the fabric: its complete facts, and the ``roce_qos`` that its ports have, if any."""

    facts: dict[str, Any]
    qos: dict[str, Any]


def job_notices(
    templates: Iterable[Template], networks: Sequence[str], devices: Collection[str], hosts: Mapping[str, Host]
) -> list[str]:
    """Return one sentence for each thing that keeps jobs from the fabric's rate, or from starting.

    ``devices`` are the resources of GPUs and RDMA devices: containers that ask for none are let alone.
    """
    found = []
    for template in templates:
        containers = [each for each in template.spec.get("containers") or [] if _asks(each, devices)]
        left = [each for each in networks if each not in template.networks]
        if containers and left and template.networks:
            found.append(
                f"{template.place} is on {len(networks) - len(left)} of {len(networks)} networks, not on "
                f"{named(left, _MOST_NAMED)}: its GPUs share the other rails"
            )
        for container in containers:
            place = f"{template.place}, container {container.get('name')}"
            mounts = [mount.get("mountPath") for mount in container.get("volumeMounts") or []]
            if SHARED_MEMORY not in mounts:
                found.append(
                    f"{place}: {SHARED_MEMORY} has the 64 MiB of the container runtime, which NCCL and data "
                    f"loaders exceed; mount an emptyDir of medium Memory there"
                )
            found += [f"{place}: {each}" for each in _environment_notices(container, hosts)]
    return found


def _environment_notices(container: Mapping[str, Any], hosts: Mapping[str, Host]) -> list[str]:
    """Return what the environment of a container does not fit, each with the hosts."""
    used = {
        str(each["name"]): str(each.get("value"))
        for each in container.get("env") or []
        if str(each.get("name", "")).startswith("NCCL_") and each.get("value") is not None
    }
    told: dict[str, list[str]] = {}
    for name, host in hosts.items():
        of_host = nccl_environment(host.facts)["problems"]
        for problem in nccl_environment(host.facts, current=used, qos=host.qos)["problems"]:
            if problem not in of_host:
                told.setdefault(_sentence(problem), []).append(name)
    return [f"{text} (on {named(names, _MOST_NAMED)})" for text, names in told.items()]


def _sentence(problem: Problem) -> str:
    return f"{problem['problem']}: {problem['cause']}; {problem['next_step']}"


def _asks(container: Mapping[str, Any], devices: Collection[str]) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name in devices or str(name).startswith("rdma/") for name in limits)
