# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares hosts and cluster with the input. Its documentation is in ``plugins/modules/fabric_drift.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import (
    DEFAULT_NAMESPACE,
    objects_of,
    render,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Patience
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.awaited import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError, BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.inventory import inventory_key
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import key_of
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import spec_violations
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    json_on_stdout,
    notice_texts,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.run_dir import make_run_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._clock import now
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import batch_options
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.comparison import (
    attention_of,
    document_of,
    host_rows,
    screen,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.junit import junit_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.objects import cluster_part, error_of, unread_cluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import registered_documents
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import whole
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import taking_part, unfinished_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import refuse_unseen

display = Display()

# Who only looks does not sit out an outage.
_PATIENCE = Patience(total=10.0)
_INVALID = {"fault": "invalid", "next_step": ""}


class ActionModule(ClusterAction):
    """Tells where hosts and cluster are not what the input asks for."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "run_dir": "rdma_fabric_run_dir",
        "set": "rdma_fabric_set",
        "prune": "rdma_fabric_prune",
    }
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Compare what every host registered, and the cluster, with the input; see the module's documentation."""
        refuse_unseen(task_vars, self.templated)
        violations = spec_violations(arguments["spec"])
        if violations:
            raise InvalidInput(violations)
        run_dir = Path(arguments["run_dir"]).expanduser().absolute()
        if not self.check_mode:
            make_run_directory(run_dir)
        variables = variables_of_hosts(task_vars)
        hosts = self._hosts(arguments["spec"], task_vars, variables)
        cluster, notices = self._cluster(arguments, variables)
        document = document_of(hosts, cluster, now(), notices)
        files = {run_dir / "drift.json": json_text(document), run_dir / "drift.xml": junit_text(document)}
        if not self.check_mode:
            for path, text in files.items():
                write_if_different(path, text)
        if not json_on_stdout():
            for line in screen(document):
                display.display(line)
        return {
            # The time of the comparison is in the files, so that each one writes them.
            "changed": True,
            "outcome": document["outcome"],
            "summary": document["summary"],
            "attention": attention_of(document),
            "drift_json": str(run_dir / "drift.json"),
            "drift_xml": str(run_dir / "drift.xml"),
            "notices": notices,
        }

    def _hosts(
        self, spec: Mapping[str, Any], task_vars: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return what became of the comparison of each host within the limit."""
        limit, groups = task_vars.get("ansible_limit"), task_vars.get("groups") or {}
        hosts = taking_part(list(spec.get("hosts") or {}), groups, limit, self._loader)
        unread = {each.host: each.why for each in unfinished_hosts(hosts, variables)}
        documents, unusable = registered_documents([host for host in hosts if host not in unread], variables)
        return host_rows({each["host"]: each["plan"]["steps"] for each in documents}, {**unread, **unusable})

    def _cluster(
        self, arguments: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> tuple[dict[str, Any] | None, Sequence[str]]:
        """Return what became of the comparison of the cluster, and notices; None where no cluster is contacted.

        What is left over is not told where hosts that were not read tell what is wanted.
        """
        spec = arguments["spec"]
        spec, unknown = whole(spec, variables)
        waves = render(spec)
        wanted = [key_of(body) for body in objects_of(waves)]
        if not wanted:
            return None, []
        namespace = spec.get("namespace") or DEFAULT_NAMESPACE
        request = BatchRequest(
            waves=waves,
            set_name=arguments["set"],
            inventory_namespace=namespace,
            prune=arguments["prune"] and not unknown,
            wait=False,
            check=True,
            tolerant=True,
            **batch_options(spec),
        )
        server = ""
        with task_environment(self._environment()):
            try:
                client = self.client(arguments)
                server = client.server
                result = run(Connection(client, patience=_PATIENCE, notify=self.progress), request)
            except ApiFault as fault:
                return unread_cluster(server, wanted, error_of(fault)), []
            except InvalidInput as invalid:
                return unread_cluster(server, wanted, {**_INVALID, "message": str(invalid)}), []
            except BatchError as error:
                result = error.result
        part = cluster_part(server, wanted, result, inventory_key(arguments["set"], namespace))
        return part, [*notice_texts(result.notices), *([unknown] if unknown else [])]
