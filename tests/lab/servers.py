# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a control plane: their flags, their start on a free port and the signs that they are ready."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

from .process import Process, tail
from .programs import ApiPrograms, Programs

BIND_ATTEMPTS = 5
BIND_ERROR = "address already in use"
POLL_SECONDS = 0.05
NOBODYS_PORT = 1  # of loopback: a port that is free now may be somebody's in a moment, and none is given this one
PROBE_TIMEOUT_SECONDS = 2.0  # short: on a port that was lost, a stranger may take the connection and never answer
SERVICE_RANGE = "10.96.0.0/16"
# Sockets are named relative to the directory the programs run in: a socket's path is limited to 107 bytes. etcd wants
# the form host:port and makes a file of that name.
ETCD_SOCKET = "unix://etcd-client:1"
ETCD_PEER_SOCKET = "unix://etcd-peer:1"
# KWOK renews a node's lease every quarter of this; shorter ones don't keep up with 1,000 nodes, none go stale.
NODE_LEASE_SECONDS = 40
# The defaults (20 requests a second) are made for a cluster where nobody waits.
CLIENT_RATE = ("--kube-api-qps=200", "--kube-api-burst=400")
# Collecting garbage at each doubling is a quarter of what a start of the API server costs; memory is there for a few.
LESS_GARBAGE = {"GOGC": "400"}


class ServerFailed(Exception):
    """A program of the control plane ended or did not become ready; the text holds the end of its log."""


class Layout:
    """Where a control plane keeps its files; all but logs and audit log live in ``run`` and go with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run = directory / "run"
        self.logs = directory / "logs"
        self.audit_log = directory / "audit.log"
        self.lock = directory / "lock"


class Exposure(NamedTuple):
    """Where machines beside this one reach the API server: an address of this network namespace, and a port."""

    address: str
    port: int


class Spec(NamedTuple):
    """How one program is started: its arguments for a port, and the HTTPS path that says ready (None: no port).

    ``fixed_port``: the port that others expect it on; None: any that is free.
    """

    name: str
    arguments: Callable[[int], list[str]]
    health_path: str | None
    fixed_port: int | None = None


def free_port() -> int:
    """Give a TCP port of loopback that is free now; who takes it has to be ready to lose the race."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _etcd(programs: ApiPrograms | Programs) -> Spec:
    def arguments(_port: int) -> list[str]:
        return [
            str(programs.etcd),
            "--name=lab",
            "--data-dir=etcd",
            f"--listen-client-urls={ETCD_SOCKET}",
            f"--advertise-client-urls={ETCD_SOCKET}",
            f"--listen-peer-urls={ETCD_PEER_SOCKET}",
            f"--initial-advertise-peer-urls={ETCD_PEER_SOCKET}",
            f"--initial-cluster=lab={ETCD_PEER_SOCKET}",
            "--unsafe-no-fsync",  # the data does not outlive the run
            "--log-level=warn",
        ]

    return Spec("etcd", arguments, None)


def _reach(exposure: Exposure | None) -> list[str]:
    """Give the API server's flags that say where it listens and how it reaches kubelets."""
    if exposure is None:
        # An endpoint on loopback is not valid.
        return ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={exposure.address}",
        "--kubelet-client-certificate=kubelet-client.crt",
        "--kubelet-client-key=kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _kube_apiserver(programs: ApiPrograms | Programs, layout: Layout, audited: bool, exposure: Exposure | None) -> Spec:
    audit = [
        "--audit-policy-file=audit-policy.json",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",  # an event is written before its answer ends
        "--audit-log-maxsize=1048576",  # MiB: never rotated within a run
    ]

    def arguments(port: int) -> list[str]:
        return [
            str(programs.kube_apiserver),
            f"--etcd-servers={ETCD_SOCKET}",
            *_reach(exposure),
            f"--secure-port={port}",
            "--tls-cert-file=server.crt",
            "--tls-private-key-file=server.key",
            "--client-ca-file=ca.crt",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--allow-privileged=true",
            "--cert-dir=.",
            *(audit if audited else []),
        ]

    return Spec("kube-apiserver", arguments, "/readyz", exposure.port if exposure else None)


def _own_server(port: int) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--cert-dir=.",
    ]


def _kubeconfigs(name: str) -> list[str]:
    path = f"{name}.kubeconfig"
    kinds = ("--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig")
    return [f"{kind}={path}" for kind in kinds]


def _kube_controller_manager(programs: Programs) -> Spec:
    name = "kube-controller-manager"

    def arguments(port: int) -> list[str]:
        return [
            str(programs.kube_controller_manager),
            *_own_server(port),
            *_kubeconfigs(name),
            *CLIENT_RATE,
            "--root-ca-file=ca.crt",
            "--service-account-private-key-file=sa.key",
            "--use-service-account-credentials=true",
            "--cluster-signing-cert-file=ca.crt",
            "--cluster-signing-key-file=ca.key",
            "--allocate-node-cidrs=false",  # a /16 of pods would end at 256 nodes
            "--leader-elect=false",
        ]

    return Spec(name, arguments, "/healthz")


def _kube_scheduler(programs: Programs) -> Spec:
    name = "kube-scheduler"

    def arguments(port: int) -> list[str]:
        return [
            str(programs.kube_scheduler),
            *_own_server(port),
            *_kubeconfigs(name),
            *CLIENT_RATE,
            "--leader-elect=false",
        ]

    return Spec(name, arguments, "/readyz")


def _kwok(programs: Programs) -> Spec:
    def arguments(port: int) -> list[str]:
        return [
            str(programs.kwok),
            "--kubeconfig=kwok.kubeconfig",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
            "--node-ip=127.0.0.1",
            f"--node-port={port}",
            f"--server-address=127.0.0.1:{port}",
            "--tls-cert-file=server.crt",
            "--tls-private-key-file=server.key",
        ]

    return Spec("kwok", arguments, "/healthz")


def storage_and_api(
    programs: ApiPrograms | Programs, layout: Layout, *, audited: bool, exposure: Exposure | None = None
) -> list[Spec]:
    """Give what has to be ready before anything else is started."""
    return [_etcd(programs), _kube_apiserver(programs, layout, audited, exposure)]


def controllers(programs: Programs, *, fake_nodes: bool = True) -> list[Spec]:
    """Give the API server's clients; each reads ``NAME.kubeconfig``. ``fake_nodes``: KWOK is one of them."""
    return [_kube_controller_manager(programs), _kube_scheduler(programs), *([_kwok(programs)] if fake_nodes else [])]


class Server:
    """One program of a control plane, on a port of its own, running in the layout's ``run`` directory."""

    def __init__(self, spec: Spec, layout: Layout, tls: ssl.SSLContext, pick_port: Callable[[], int]) -> None:
        self.spec = spec
        self.port = 0
        self.attempts = 0
        self._layout = layout
        self._tls = tls
        self._pick_port = pick_port
        self._log = layout.logs / f"{spec.name}.log"
        self.process = self._launch()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    def _launch(self) -> Process:
        if self.spec.health_path is not None:
            self.port = self.spec.fixed_port or self._pick_port()
        self.attempts += 1
        self._log.unlink(missing_ok=True)
        run = str(self._layout.run)
        # Nothing of the caller's environment: etcd, client-go and KWOK all take options from variables.
        env = {"PATH": "/usr/bin:/bin", "HOME": run, "TMPDIR": run, "KWOK_WORKDIR": run, **LESS_GARBAGE}
        return Process(self.spec.name, self.spec.arguments(self.port), self._log, env=env, cwd=self._layout.run)

    def ensure_alive(self) -> None:
        """Raise ServerFailed when the program has ended."""
        status = self.process.status()
        if status is not None:
            raise ServerFailed(self.account(f"ended by itself with status {status}"))

    def replace_if_port_lost(self) -> None:
        """Start the program again on another port when it ended because somebody had taken its port meanwhile."""
        lost = self.process.status() is not None and self.port != 0 and BIND_ERROR in tail(self._log)
        if lost and self.spec.fixed_port is None and self.attempts < BIND_ATTEMPTS:
            self.process = self._launch()

    def is_ready(self) -> bool:
        """Ask the program itself; its certificate proves that nobody else answers on the port."""
        if self.spec.health_path is None:
            return True
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PROBE_TIMEOUT_SECONDS, context=self._tls
        )
        try:
            connection.request("GET", self.spec.health_path)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def account(self, what: str) -> str:
        """Say what happened to the program, with the end of its log."""
        return f"{self.spec.name} {what}. The end of {self._log}:\n{tail(self._log)}"


def wait_ready(servers: Sequence[Server], deadline: float) -> None:
    """Wait until every server is ready; ``deadline`` is a time of ``time.monotonic()``."""
    pending = list(servers)
    while pending:
        for server in servers:
            server.replace_if_port_lost()
            server.ensure_alive()
        pending = [server for server in pending if not server.is_ready()]
        if pending and time.monotonic() > deadline:
            raise ServerFailed("\n".join(server.account("is not ready in time") for server in pending))
        if pending:
            time.sleep(POLL_SECONDS)
