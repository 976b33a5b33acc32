# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose pods run commands: a second KWOK executes them on this machine, where stand-ins take the programs' place.

Everything from the playbook to the API server's stream and back is real. Not real are the machines, the network and
RDMA, nor the GPUs that the nodes offer: the annotation of Multus is written by a KWOK stage, the log of a pod is a file
that has what its own command would print, ``sh`` runs the scripts as they are, each node with files of its own, and
``ping``, ``rping`` and ``ib_write_bw`` are a few lines of shell and Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import yaml

from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import ANNOTATION, apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.process import Process, tail
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.lab.servers import NODE_LEASE_SECONDS, free_port
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    LOST_PING,
    PASSED_PING,
    UNREACHABLE_RPING,
    latency_table,
    probe_text,
    table,
)

Json = dict[str, Any]

KIND = "exec"
GPU = "nvidia.com/gpu"
SETTLED_SECONDS = 60.0
_SH = """#!/bin/sh
script=$2 name=$3 node=${{4##*/}}
shift 4
NODE=$node exec /bin/sh -c "$script" "$name" "{folder}/scratch/$node" "$@"
"""
_MEETING = """#!/usr/bin/env python3
import socket, sys
words = sys.argv[1:]
place = ({address!r}, int(words[words.index("-p") + 1]))
if "--use_cuda=0" in words:
    sys.stdout.write("initializing CUDA\\nCUDA device 0: PCIe address is 1B:00\\n\\nPicking device No. 0\\n")
    sys.stdout.flush()
if words[-2] == "-p" or "-s" in words and "-a" in words:
    with socket.create_server(place) as server:
        server.accept()
else:
    try:
        socket.create_connection(place, timeout=5).close()
    except ConnectionRefusedError:
        sys.exit("Couldn't connect to the server side")
    sys.stdout.write({text!r})
"""


class ExecNodes:
    """``count`` nodes named after ``prefix``; kubelets would offer ``resource``; ``log`` is that of every pod."""

    def __init__(self, folder: Path, prefix: str, count: int, resource: str, network: str) -> None:
        self.folder, self.names = folder, [f"{prefix}-{number}" for number in range(1, count + 1)]
        self.resource, self.network = resource, network
        self.programs, self.log = folder / "programs", folder / "log"
        for each in (self.programs, folder / "scratch"):
            each.mkdir(parents=True)
        probes = [probe_text(f"192.168.111.{number}", cuda="memory dmabuf") for number in range(1, count + 1)]
        # One log for all: each pod finds its own address in it.
        lines = [f"2026-01-01T00:00:00.000000000Z stdout F {line}" for text in probes for line in _without_end(text)]
        end = lines[0].replace("netdev|lo", "end")
        self.log.write_text("\n".join([*dict.fromkeys(lines), end, ""]), encoding="utf-8")
        # On an address of this folder alone, so that nobody else on this machine has its ports.
        address = "127.{}.{}.1".format(*hashlib.sha256(str(folder).encode()).digest())
        for name, text in {"ib_write_bw": table(), "ib_write_lat": latency_table(), "meet": "ping data\n"}.items():
            self.program(name, _MEETING.format(address=address, text=text))
        self.program("sh", _SH.format(folder=folder))
        self.pull_wire(pulled=False)

    def program(self, name: str, text: str) -> None:
        """Put a stand-in in the place of a program of the test image."""
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def pull_wire(self, *, pulled: bool) -> None:
        """Let ping and rping be answered, or not."""
        self._lose("*" if pulled else "''")

    def cut(self, name: str) -> None:
        """Let no ping and no rping from or to one node be answered."""
        self._lose(f"'{name} '*|*' 192.168.111.{self.names.index(name) + 1} '*")

    def _lose(self, which: str) -> None:
        """Lose packets by a pattern of what a program is told, after the name of its node."""
        lost = "#!/bin/sh\ncase \"$NODE $* \" in {}) cat <<'E'\n{}E\nexit {};; esac\n"
        self.program("ping", f"{lost.format(which, LOST_PING, 1)}cat <<'E'\n{PASSED_PING}E\n")
        self.program("rping", f'{lost.format(which, UNREACHABLE_RPING, 255)}exec {self.programs}/meet "$@"\n')

    def nodes(self) -> list[Json]:
        """Return the manifests of the nodes."""
        found = []
        for name in self.names:
            node = kwok_node(name, allocatable={self.resource: "100", GPU: "8"})
            node["metadata"]["annotations"][ANNOTATION] = KIND
            found.append(node)
        return found

    def statuses(self) -> str:
        """Return the annotation of Multus on a pod of each node, as a template of KWOK."""
        key, found = "k8s.v1.cni.cncf.io/network-status", ""
        for number, name in enumerate(self.names, 1):
            status = json.dumps(
                [
                    {"name": "cbr0", "interface": "eth0", "ips": ["10.44.0.2"], "default": True},
                    {"name": self.network, "interface": "net1", "ips": [f"192.168.111.{number}"]},
                ]
            )
            found += f"{{{{ if eq .spec.nodeName {json.dumps(name)} }}}}\n  {key}: '{status}'\n{{{{ end }}}}"
        return found

    def config(self) -> str:
        """Return KWOK's configuration: how pods become Ready with their network, and that their commands run here."""
        started = {"ready": True, "started": True, "state": {"running": {"startedAt": "{{ Now }}"}}}
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady")]
        status = {"conditions": conditions, "phase": "Running", "podIP": "10.44.0.2", "hostIP": "127.0.0.1"}
        containers = [{"name": "rdma-test-ctr", "image": "x", "imageID": "", "restartCount": 0, **started}]
        pod = {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}}
        ready = yaml.safe_dump({**status, "containerStatuses": containers})
        patches = [
            {"root": "metadata", "template": f"annotations:\n{self.statuses()}"},
            {"subresource": "status", "root": "status", "template": ready},
        ]
        alive = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
        fresh = {"key": ".status.podIP", "operator": "DoesNotExist"}
        new = {"matchExpressions": [alive, fresh]}
        dying = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
        documents = [
            _document(
                "Stage",
                "ready",
                {**pod, "selector": new, "next": {"patches": patches}},
            ),
            _document("Stage", "gone", {**pod, "selector": {"matchExpressions": [dying]}, "next": {"delete": True}}),
            _document("ClusterExec", "here", {"execs": [{"local": {"workDir": str(self.folder)}}]}),
            _document("ClusterLogs", "here", {"logs": [{"logsFile": str(self.log)}]}),
        ]
        return yaml.safe_dump_all(documents)


def _without_end(probe: str) -> list[str]:
    return [line for line in probe.splitlines() if line != "end"]


def _document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@contextmanager
def running(cluster: ControlPlane, programs: Programs, nodes: ExecNodes) -> Iterator[None]:
    """Run KWOK for these nodes in a cluster, and take the nodes away in the end."""
    folder, port = nodes.folder, free_port()
    (folder / "kwok.yaml").write_text(nodes.config(), encoding="utf-8")
    run = cluster.kubeconfig.parent
    argv = [
        str(programs.kwok),
        f"--kubeconfig={run / 'kwok.kubeconfig'}",
        f"--config={folder / 'kwok.yaml'}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={ANNOTATION}={KIND}",
        # Nodes without a lease are taken for dead after some 50 s, and their pods are no longer Ready.
        f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
        "--node-ip=127.0.0.1",
        f"--node-port={port}",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={run / 'server.crt'}",
        f"--tls-private-key-file={run / 'server.key'}",
    ]
    env = {
        "PATH": f"{nodes.programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "KWOK_WORKDIR": str(folder),
    }
    log = folder / "kwok.log"
    process = Process("kwok", argv, log, env=env, cwd=folder)
    try:
        apply_nodes(cluster.api, nodes.nodes(), SETTLED_SECONDS)
        assert process.status() is None, tail(log)
        yield
    finally:
        delete_nodes(cluster.api, nodes.names)
        process.terminate()
        if process.wait(5) is None:
            process.kill()
