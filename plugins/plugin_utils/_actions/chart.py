# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connects an action plugin to the modules of kubernetes.core that run Helm on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import failure, install_arguments
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .base import ActionFailure, plain
from .cluster import ClusterAction

_ACCESS = ("kubeconfig", "context", "host", "api_key", "ca_cert", "validate_certs")


class ChartAction(ClusterAction):
    """An action that asks Helm."""

    def access(self, arguments: Mapping[str, Any]) -> Json:
        """Return those of the authentication options that Helm takes too; a kubeconfig may be given as data."""
        found = {name: arguments[name] for name in _ACCESS if arguments[name] is not None}
        if isinstance(found.get("kubeconfig"), str):
            found["kubeconfig"] = str(Path(self.readable_kubeconfig(found["kubeconfig"])).expanduser().absolute())
        return found

    def ask_release(self, chart: Json, arguments: Mapping[str, Any], task_vars: Json) -> Json:
        """Return what kubernetes.core.helm would do to bring a release to the wanted state; raises ActionFailure."""
        return self.helm("helm", install_arguments(chart, self.access(arguments)), task_vars, check=True)

    def helm(self, module: str, arguments: Json, task_vars: Json, *, check: bool) -> Json:
        """Run a module of kubernetes.core, in check mode or not; raises ActionFailure with what helm said."""
        before = self._task.check_mode, self._task.no_log
        # The module would write its arguments, values of the chart among them, to the log of the controller.
        self._task.check_mode, self._task.no_log = check, True
        try:
            # Before ansible-core 2.19 the text of an answer is no builtin one, of which alone YAML can be written.
            answer: Json = plain(
                self._execute_module(
                    module_name=f"kubernetes.core.{module}", module_args=arguments, task_vars=task_vars
                )
            )
        finally:
            self._task.check_mode, self._task.no_log = before
        if answer.get("failed"):
            raise ActionFailure(failure(answer), command=answer.get("command", ""))
        return answer
