# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs the operator's chart from the controller. Its documentation is in ``plugins/modules/fabric_chart.py``."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Mapping

import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionSkipped
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.chart import ChartAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents import charts
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import name_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json


class ActionModule(ChartAction):
    """Brings the release of a chart to the wanted state."""

    variables: ClassVar[Mapping[str, str]] = {
        **ChartAction.variables,
        "set": "rdma_fabric_set",
        "wait": "rdma_fabric_wait",
        "wait_timeout": "rdma_fabric_wait_timeout",
    }
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    hands_on = ("objects",)

    def variables_read(self) -> Mapping[str, str]:
        """Return what says how the chart is installed; to render it takes no cluster."""
        return {} if self._task.args.get("state") == "rendered" else self.variables

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Install, upgrade, uninstall or render; see the module's documentation."""
        chart = arguments["spec"].get("chart")
        if not chart:
            raise ActionSkipped("the engine is direct, which installs no chart")
        if arguments["state"] == "rendered":
            return self._rendered(chart, task_vars)
        if arguments["state"] == "absent":
            return self._absent(chart, arguments, task_vars)
        return self._present(chart, arguments, task_vars)

    def _present(self, chart: Json, arguments: Mapping[str, Any], task_vars: Json) -> Json:
        """Install or upgrade where the release is another one; what it was before is asked first."""
        made = self._namespaces(arguments)
        asked = self.ask_release(chart, arguments, task_vars)
        self.learn(asked.get("status"))
        live, again = charts.release_of(asked), charts.is_failed(asked)
        changed = bool(asked["changed"] or again)
        if changed and not self.check_mode:
            waits = {"wait": arguments["wait"], "timeout": f"{arguments['wait_timeout']}s", "force": again}
            given = {**charts.install_arguments(chart, self.access(arguments)), **waits}
            self.helm("helm", given, task_vars, check=False)
        answer: Json = {
            "changed": bool(changed or made["changed"]),
            "release": name_of(chart),
            "msg": charts.sentence(chart, live, changed=changed, check=self.check_mode),
            "notices": [*made["notices"], *(charts.plugin_notice(asked) if self.check_mode else [])],
        }
        if self.diff_mode:
            of_chart = [asked.get("diff") or charts.difference(chart, live)] if changed else []
            answer["diff"] = [*made["diff"], *of_chart]
        return answer

    def _namespaces(self, arguments: Mapping[str, Any]) -> Json:
        """Apply the namespaces alone: pods of the chart are admitted as the labels of theirs say."""
        spec = arguments["spec"]
        request = BatchRequest(
            waves=[wave for wave in render(spec) if wave["name"] == "namespaces"],
            set_name=arguments["set"],
            inventory_namespace=spec["namespace"],
            prune=False,
            wait=False,
            check=self.check_mode,
            engine=spec["engine"],
            progress=self.progress,
        )
        return self.run_batch(arguments, request)

    def _absent(self, chart: Json, arguments: Mapping[str, Any], task_vars: Json) -> Json:
        given = {
            **self.access(arguments),
            "release_name": chart["release"],
            "release_namespace": chart["namespace"],
            "release_state": "absent",
            "wait": arguments["wait"],
            "wait_timeout": f"{arguments['wait_timeout']}s",
        }
        changed = bool(self.helm("helm", given, task_vars, check=self.check_mode)["changed"])
        verb = "would be" if self.check_mode else "was"
        name = f"release {chart['release']} in {chart['namespace']}"
        notice = (
            f"Helm leaves the CustomResourceDefinitions of {name}: delete them if nothing in the cluster needs them"
        )
        return {
            "changed": changed,
            "release": name_of(chart),
            "msg": f"{name} {verb} uninstalled" if changed else f"{name} is not there",
            "notices": [notice] if changed else [],
        }

    def _rendered(self, chart: Json, task_vars: Json) -> Json:
        given = {
            **charts.source_arguments(chart),
            "release_name": chart["release"],
            "release_namespace": chart["namespace"],
            "include_crds": True,
            "disable_hook": True,
        }
        printed = self.helm("helm_template", given, task_vars, check=False)["stdout"]
        # Helm takes numbers among keys for text, and dates too.
        objects = [json.loads(json.dumps(body, default=str)) for body in yaml.safe_load_all(printed) if body]
        return {"changed": False, "release": name_of(chart), "objects": objects}
