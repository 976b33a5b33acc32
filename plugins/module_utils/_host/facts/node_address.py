# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the addresses that the kubelet was told to be the node's.

The running kubelet's own command line tells it best. Where the kubelet is part of another program or does not run, the
files do that the distributions of Kubernetes keep its arguments in: kubeadm, Debian's and Red Hat's packages,
kubespray, MicroK8s, Canonical Kubernetes, k0s, k3s and RKE2. Only the service of systemd is looked at, not every
process of the host.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from typing import Iterator

from ..machine.probe import Probe, address_of

ARGUMENT = "--node-ip="
_FILES = (
    "/var/lib/kubelet/kubeadm-flags.env",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/kubernetes/kubelet.env",
    "/var/snap/microk8s/current/args/kubelet",
    "/var/snap/k8s/common/args/kubelet",
    "/etc/rancher/k3s/config.yaml",
    "/etc/rancher/rke2/config.yaml",
)
_SERVICES = ("kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker")
_UNITS = tuple(f"/etc/systemd/system/{service}.service" for service in _SERVICES)
# Directories, with the suffix of the files that count.
_DIRECTORIES = (
    *((f"{unit}.d", ".conf") for unit in _UNITS),
    ("/etc/rancher/k3s/config.yaml.d", ".yaml"),
    ("/etc/rancher/rke2/config.yaml.d", ".yaml"),
)
# The processes of the kubelet's service: of the second version of cgroups and of the first, in the usual slices.
_PROCESSES = tuple(
    f"/sys/fs/cgroup/{place}.slice/kubelet.service/cgroup.procs"
    for place in ("system", "runtime", "systemd/system", "systemd/runtime")
)
_ARGUMENTS = "/proc/{}/cmdline"
_MOST_PROCESSES = 8
_MOST_MENTIONS = 32
# As an argument (--node-ip=A,B), as a key of YAML (node-ip: A, "node-ip": [A, B] or with a list below it).
_NAME = re.compile(r"(?<![\w-])-{0,2}node-ip(?!\w)")
_BETWEEN = re.compile(r"""(?:[\s\0=:\\"',\[\]+-]|#[^\n]*\n)*""")
_ADDRESS = re.compile(r"[0-9A-Fa-f][0-9A-Fa-f.:]{1,44}")


def read_node_addresses(probe: Probe) -> list[str]:
    """Return every address that the kubelet of this host is told to be the node's, each once."""
    # A process may end while it is looked at.
    texts = (probe.content(path, ("ESRCH",)) or "" for path in _sources(probe))
    return list(dict.fromkeys(address for text in texts for address in node_addresses_in(text)))


def is_source(path: str) -> bool:
    """Say whether a file is one that node addresses are read from; other things in it may be secret."""
    below = (f"{directory}/*{suffix}" for directory, suffix in _DIRECTORIES)
    patterns = (*_FILES, *_UNITS, *below, _ARGUMENTS.format("[0-9]*"))
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def public_part(text: str) -> str:
    """Return what may be kept of a source: it tells the same addresses and nothing else."""
    return "".join(f"{ARGUMENT}{address}\n" for address in node_addresses_in(text))


def node_addresses_in(text: str) -> list[str]:
    """Return the addresses that follow each mention of ``node-ip``, up to the first word that is none."""
    mentions = itertools.islice(_NAME.finditer(text), _MOST_MENTIONS)
    return list(dict.fromkeys(address for mention in mentions for address in _addresses_from(text, mention.end())))


def _addresses_from(text: str, position: int) -> Iterator[str]:
    while True:
        between = _BETWEEN.match(text, position)
        word = _ADDRESS.match(text, between.end() if between else position)
        if word is None or address_of(word.group()) is None:
            return
        yield word.group()
        position = word.end()


def _sources(probe: Probe) -> Iterator[str]:
    for path in _PROCESSES:
        processes = (probe.content(path) or "").split()
        yield from (_ARGUMENTS.format(process) for process in processes[:_MOST_PROCESSES] if process.isdecimal())
    yield from _FILES
    yield from _UNITS
    for directory, suffix in _DIRECTORIES:
        yield from (f"{directory}/{name}" for name in probe.names(directory) if name.endswith(suffix))
