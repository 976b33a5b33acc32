# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connects an action plugin to the batch apply."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import Any, ClassVar, Iterator, Mapping

from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client, auth_options
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Clock, Connection, Patience
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.awaited import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError, BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import in_the_clear

from .base import ActionFailure, FabricAction, json_on_stdout, printable
from .interruption import interruptible
from .process import running_play, sleep_while_it_runs

display = Display()

# Control planes are upgraded, and come back from a power failure, within a quarter of an hour.
_IN_A_TURN_SECONDS = 900.0


class ClusterAction(FabricAction):
    """An action that changes a cluster: kubernetes.core's authentication options, one batch, one way to fail."""

    variables: ClassVar[Mapping[str, str]] = {"kubeconfig": "rdma_fabric_kubeconfig", "context": "rdma_fabric_context"}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task; see FabricAction. Credentials may be read anew until it ends."""
        try:
            return super().run(tmp, task_vars)
        finally:
            self._loader.cleanup_all_tmp_files()

    def run_batch(self, arguments: Mapping[str, Any], request: BatchRequest) -> dict[str, Any]:
        """Run a batch with the authentication options among ``arguments``; return the task's result."""
        # A run that is ended half way still releases its Lease.
        with task_environment(self._environment()), interruptible(threading.Event()):
            try:
                result = run(self.connection(arguments), request)
            except BatchError as err:
                raise ActionFailure(str(err), **err.as_dict()) from err
            except ApiFault as err:
                raise ActionFailure(str(err)) from err
        answer = result.as_dict()
        if self.diff_mode:
            answer["diff"] = result.diff()
        return answer

    def client(self, arguments: Mapping[str, Any]) -> Client:
        """Return a client with the authentication options among ``arguments``; raises ApiFault."""
        given = {name: value for name, value in arguments.items() if name in auth_options()}
        return Client({**given, "kubeconfig": self.readable_kubeconfig(given.get("kubeconfig"))})

    def readable_kubeconfig(self, given: Any) -> Any:
        """Return the option as kubernetes.core's actions hand it on: files beside the playbook, and decrypted ones.

        Raises ApiFault.
        """
        if not isinstance(given, str):
            return given
        return os.pathsep.join(map(self._readable, given.split(os.pathsep)))

    def _readable(self, name: str) -> str:
        try:
            path = self.find_file(name)
            found = in_the_clear(name, path, self._loader)
        except OSError:  # the client says what is wrong with it
            return name
        except InvalidInput as invalid:
            refused = invalid.violations[0]
            problem = f"the kubeconfig {name} {refused.problem}"
            raise ApiFault(Fault.CONFIGURATION, problem, hint=refused.hint) from invalid
        return str(found) if found.is_file() else name

    def connection(self, arguments: Mapping[str, Any]) -> Connection:
        """Return a connection with the authentication options among ``arguments``; raises ApiFault."""
        return Connection(self.client(arguments), notify=self.progress)

    def waiting_connection(self, arguments: Mapping[str, Any]) -> Connection:
        """Return a connection for what may wait long: who waits for a play that was killed stops, and writes nothing.

        In the turn of a host it outlasts an API server that is away: a node that was begun is out of service until its
        turn has ended. Raises ApiFault.
        """
        clock = Clock(sleep=sleep_while_it_runs(running_play()))
        client = self.client(arguments)
        patience = Patience(total=_IN_A_TURN_SECONDS) if arguments.get("turn_file") else Patience()
        return Connection(client, clock=clock, patience=patience, notify=self.progress, streams=client)

    def progress(self, text: str) -> None:
        """Show what the task is waiting for."""
        display.display(printable(f"{self._task.action}: {text}"), stderr=json_on_stdout())

    def _environment(self) -> dict[str, str]:
        """Return the task's ``environment``, templated and merged as for a module."""
        environment: dict[str, Any] = {}
        self._compute_environment_string(environment)
        return {str(name): str(value) for name, value in environment.items()}


@contextmanager
def task_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Give this process the variables of a task: the client reads K8S_AUTH_* and KUBECONFIG there."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
