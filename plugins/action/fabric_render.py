# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders a fabric's objects on the controller. Its documentation is in ``plugins/modules/fabric_render.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import bill_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import (
    WAVES,
    objects_of,
    render,
    with_chart,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, FabricAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.manifests import (
    ForeignFile,
    apply_folder,
    manifest_files,
    plan_folder,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import foresee_writable_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import left_out, whole
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import refuse_unseen

_NO_FOLDER = (
    "output_dir: names no folder on the controller to write the objects to; with the role or playbook "
    "rdma.fabric.render that is rdma_fabric_render_dir (-e rdma_fabric_render_dir=FOLDER)"
)


class ActionModule(FabricAction):
    """Renders, and writes files where asked to."""

    variables: ClassVar[Mapping[str, str]] = {"output_dir": "rdma_fabric_render_dir"}
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    hands_on = ("waves",)
    user_errors = (ForeignFile,)
    checked_in_execute = ("chart_objects",)

    def variables_read(self) -> Mapping[str, str]:
        """Return where files are written, if any are."""
        return self.variables if self._task.args.get("writes") else {}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Render the spec; see the module's documentation."""
        refuse_unseen(task_vars, self.templated)
        if arguments["writes"] and not arguments["output_dir"]:
            raise ActionFailure(_NO_FOLDER)
        spec = arguments["spec"]
        if spec.get("version") != 1:
            raise ActionFailure("spec: is not a specification of this release; give the spec that fabric_input returns")
        variables = variables_of_hosts(task_vars)
        spec, unknown = whole(spec, variables)
        if unknown and not arguments["partial"]:
            raise ActionFailure(unknown)
        waves = render(spec)
        if arguments["chart_objects"]:
            waves = with_chart(waves, arguments["chart_objects"])
        result: dict[str, Any] = {
            "changed": False,
            "images": bill_of(objects_of(waves)),
            "notices": [*([unknown] if unknown else []), *left_out(spec, variables)],
        }
        written = self._write(Path(arguments["output_dir"]), waves) if arguments["output_dir"] else {"waves": waves}
        return {**result, **written}

    def _write(self, folder: Path, waves: list[dict[str, Any]]) -> dict[str, Any]:
        change = plan_folder(folder, manifest_files(waves, WAVES))
        if change.changed:
            foresee_writable_directory(folder.absolute())
            if not self.check_mode:
                apply_folder(folder, change)
        result = {
            "changed": change.changed,
            "output_dir": str(folder),
            "files": sorted(change.files),
            "written": sorted(change.written),
            "removed": sorted(change.removed),
        }
        if self.diff_mode:
            result["diff"] = change.diff(folder)
        return result
