# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK."""

from __future__ import annotations

import fcntl
import http.client
import itertools
import json
import shutil
import ssl
import subprocess
import time
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Callable, Mapping, Sequence
from urllib.parse import quote

from .api import Api, collection_path, tls_context
from .audit import ADMIN_USER, PATH_VARIABLE, POLICY, AuditLog
from .pki import Authority, KeyPair, kubeconfig, new_key, private_pem, public_pem, write_kubeconfig, write_private
from .process import stop_all
from .programs import ApiPrograms, Programs, gather
from .servers import (
    Exposure,
    Layout,
    Server,
    ServerFailed,
    Spec,
    controllers,
    free_port,
    storage_and_api,
    wait_ready,
)

ADMINISTRATORS = "system:masters"
LAB_USER = "rdma-fabric-lab"  # the lab's own requests: told apart from those of a test in the audit log
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
IDENTITIES: dict[str, tuple[str, tuple[str, ...]]] = {  # kubeconfig -> user, groups
    "admin": (ADMIN_USER, (ADMINISTRATORS,)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", (ADMINISTRATORS,)),
}
START_TIMEOUT_SECONDS = 180.0
STOP_GRACE_SECONDS = 3.0
POLL_SECONDS = 0.05


def wait_for_service_account(api: Api, namespace: str, deadline: float) -> None:
    """Wait until pods can be made in a namespace; ``deadline`` is a time of ``time.monotonic()``."""
    path = f"{collection_path('v1', 'serviceaccounts', namespace)}/default"
    while api.request("GET", path).status != http.client.OK:
        if time.monotonic() > deadline:
            raise ServerFailed(f"kube-controller-manager has made no default service account in {namespace} in time")
        time.sleep(POLL_SECONDS)


def make_service_account(api: Api, namespace: str) -> None:
    """Make the account that pods of a namespace have, which kube-controller-manager makes elsewhere."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.call("POST", collection_path("v1", "serviceaccounts", namespace), account)


def cluster_environment(environ: Mapping[str, str], kubeconfig: Path, audit_log: Path) -> dict[str, str]:
    """Give the environment of a command that is to work on a cluster of the lab."""
    env = {
        **environ,
        "KUBECONFIG": str(kubeconfig),
        "K8S_AUTH_KUBECONFIG": str(kubeconfig),
        PATH_VARIABLE: str(audit_log),
    }
    for name in ("NO_PROXY", "no_proxy"):  # loopback is never a proxy's business
        env[name] = ",".join(filter(None, [environ.get(name, ""), "127.0.0.1", "localhost"]))
    return env


class ControlPlaneFailed(Exception):
    """The control plane is not in the state that was asked for; the text says why."""


class ControlPlane:
    """One control plane, its files under ``directory`` (``logs/`` and ``audit.log`` stay after ``stop()``).

    With ``ApiPrograms`` it is an API server alone: objects are validated and stored, and nothing acts on them.

    Nothing listens but on loopback, on ports that are free when it starts; etcd listens on a socket file. With an
    ``exposure`` the API server listens on every address of its network namespace and works with kubelets, whose
    certificates come from an ``authority`` made elsewhere. All of it ends with this process, however this process ends.
    """

    def __init__(
        self,
        directory: Path,
        *,
        audit: bool = True,
        authority: Authority | None = None,
        exposure: Exposure | None = None,
        fake_nodes: bool = True,
        programs: ApiPrograms | Programs | None = None,
        pick_port: Callable[[], int] = free_port,
        timeout: float = START_TIMEOUT_SECONDS,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.authority = authority or Authority()
        self.server = ""  # https://127.0.0.1:PORT, once started
        self._audited = audit
        self._exposure = exposure
        self._fake_nodes = fake_nodes
        self._programs = programs
        self._pick_port = pick_port
        self._timeout = timeout
        self._layout = Layout(self.directory)
        self._servers: list[Server] = []
        self._lock: IO[str] | None = None
        self._api: Api | None = None
        self._client_numbers = itertools.count()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (user ``rdma-fabric-admin`` of ``system:masters``)."""
        return self._layout.run / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """The audit log of this run."""
        return self._layout.audit_log

    @property
    def ca(self) -> Path:
        """The authority's certificate."""
        return self._layout.run / "ca.crt"

    @property
    def api(self) -> Api:
        """The lab's own client (user ``rdma-fabric-lab``)."""
        if self._api is None:
            raise ControlPlaneFailed("the control plane is not running: call start() first")
        return self._api

    @property
    def audit(self) -> AuditLog:
        """The requests of this run."""
        if not self._audited:
            raise ControlPlaneFailed("this control plane was made without an audit log (audit=False)")
        return AuditLog(self.audit_log, partial(self.api.request, "GET"))

    def start(self) -> ControlPlane:
        """Start everything and return once all of it is ready. Raises ServerFailed or ProgramsUnavailable."""
        if self._lock is not None:
            raise ControlPlaneFailed(f"the control plane of {self.directory} is already started")
        self._programs = programs = self._programs or gather()
        self._prepare()
        try:
            self._start_servers(programs)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End everything: on request, by force what has not ended within 3 s. Does nothing when nothing runs."""
        if self._api is not None:
            self._api.close()
            self._api = None
        # Clients before servers: the API server would wait for them otherwise.
        storage, api, clients = (self._servers[0:1], self._servers[1:2], self._servers[2:])
        for stage in (clients, api, storage):
            stop_all([server.process for server in stage], STOP_GRACE_SECONDS)
        self._servers = []
        if self._lock is not None:
            shutil.rmtree(self._layout.run, ignore_errors=True)
            self._lock.close()
            self._lock = None

    def __enter__(self) -> ControlPlane:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> None:
        """Raise ServerFailed when one of the programs has ended by itself."""
        for server in self._servers:
            server.ensure_alive()

    def client_kubeconfig(
        self, user: str, groups: Sequence[str] = (), *, expired: bool = False, namespace: str = "default"
    ) -> Path:
        """Write a new kubeconfig for any user and groups; ``expired``: its certificate ended an hour ago."""
        client = self.authority.client(user, groups, expired=expired)
        return self._write_kubeconfig(f"client-{next(self._client_numbers)}", client, namespace)

    def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until pods can be made in it."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.api.call("POST", collection_path("v1", "namespaces"), manifest)
        if isinstance(self._programs, ApiPrograms):
            make_service_account(self.api, name)
        wait_for_service_account(self.api, name, time.monotonic() + self._timeout)

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace; its objects go in the background."""
        self.api.call("DELETE", f"{collection_path('v1', 'namespaces')}/{quote(name)}")

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None) -> str:
        """Run kubectl as the administrator, or with another kubeconfig; give its output. Raises CalledProcessError."""
        if not isinstance(self._programs, Programs):
            raise ControlPlaneFailed("without kubectl: it was never started, or is an API server alone")
        argv = [str(self._programs.kubectl), f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments]
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=True).stdout

    def command_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Give the environment of a command that is to work on this control plane."""
        return cluster_environment(environ, self.kubeconfig, self.audit_log)

    def _prepare(self) -> None:
        """Take the directory, remove what an earlier run left and write what the programs read."""
        layout = self._layout
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = layout.lock.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise ControlPlaneFailed(f"another control plane runs in {self.directory}") from None
        self._lock = lock
        shutil.rmtree(layout.run, ignore_errors=True)
        layout.run.mkdir(mode=0o700)
        layout.logs.mkdir(exist_ok=True)
        layout.audit_log.unlink(missing_ok=True)
        self._write_pair("ca", self.authority.pair)
        self._write_pair("server", self.authority.server([self._exposure.address] if self._exposure else []))
        if self._exposure:
            self._write_pair("kubelet-client", self.authority.client(KUBELET_CLIENT, [ADMINISTRATORS]))
        signer = new_key()
        write_private(layout.run / "sa.key", private_pem(signer))
        write_private(layout.run / "sa.pub", public_pem(signer))
        write_private(layout.run / "audit-policy.json", json.dumps(POLICY).encode())

    def _write_pair(self, name: str, pair: KeyPair) -> None:
        write_private(self._layout.run / f"{name}.crt", pair.certificate)
        write_private(self._layout.run / f"{name}.key", pair.key)

    def _start_servers(self, programs: ApiPrograms | Programs) -> None:
        deadline = time.monotonic() + self._timeout
        lab = self.authority.client(LAB_USER, [ADMINISTRATORS])
        tls = tls_context(self.authority.pair.certificate, lab)
        specs = storage_and_api(programs, self._layout, audited=self._audited, exposure=self._exposure)
        self._launch(specs, tls, deadline)
        self.server = self._servers[-1].url
        self._api = Api(self.server, self.authority.pair.certificate, lab)
        for name, (user, groups) in IDENTITIES.items():
            self._write_kubeconfig(name, self.authority.client(user, groups))
        if isinstance(programs, ApiPrograms):
            return
        self._launch(controllers(programs, fake_nodes=self._fake_nodes), tls, deadline)
        # Without it the server refuses every pod; the controller manager makes it, so this shows that it works.
        wait_for_service_account(self._api, "default", deadline)

    def _launch(self, specs: Sequence[Spec], tls: ssl.SSLContext, deadline: float) -> None:
        for spec in specs:
            self._servers.append(Server(spec, self._layout, tls, self._pick_port))
        wait_ready(self._servers, deadline)

    def _write_kubeconfig(self, name: str, client: KeyPair, namespace: str = "default") -> Path:
        document = kubeconfig(self.server, self.authority.pair.certificate, client, namespace)
        return write_kubeconfig(self._layout.run / f"{name}.kubeconfig", document)
