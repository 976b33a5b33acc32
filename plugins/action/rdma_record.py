# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes on the controller what the module recorded of a host. Documented in the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    BadRecording,
    Document,
    describe_entries,
    dump_recording,
    load_recording,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.host import HostAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._assumptions import compare
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import (
    foresee_writable_directory,
    write_bytes_if_different,
)

_SUFFIXES = (".json", ".json.gz")


class ActionModule(HostAction):
    """Records one host."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Have the host recorded and write the recording when it differs; see the module's documentation."""
        dest = Path(arguments["dest"]).expanduser()
        if not dest.name.endswith(_SUFFIXES):
            raise ActionFailure(f"dest: {dest} ends with neither .json nor .json.gz; name the file to write")
        hostname = arguments["hostname"] or str(task_vars.get("inventory_hostname", "host"))
        answer = self.run_module("rdma_record", {"dest": str(dest), "hostname": hostname}, task_vars)
        if answer.get("failed") or "document" not in answer:
            return answer
        return self._keep(dest, hostname, plain(answer["document"]))

    def _keep(self, dest: Path, hostname: str, document: Document) -> dict[str, Any]:
        data = dump_recording(document, compress=dest.suffix == ".gz")
        try:
            load_recording(data)
        except BadRecording as error:
            raise ActionFailure(f"the host sent no usable recording: {error}") from error
        known = _known(dest)
        changed = known != document
        if changed:
            foresee_writable_directory(dest.absolute().parent)
            if not self.check_mode:
                write_bytes_if_different(dest, data)
        entries = sum(len(document.get(section, {})) for section in ("files", "binary", "links", "errors"))
        result = {"changed": changed, "dest": str(dest), "hostname": hostname, "size": len(data), "entries": entries}
        result["assumptions"] = compare(document)
        if self.diff_mode and changed:
            before, after = describe_entries(known or {}, document)
            result["diff"] = {"before_header": str(dest), "after_header": str(dest), "before": before, "after": after}
        return result


def _known(dest: Path) -> Document | None:
    """Return the recording that is there, None when there is none or it is damaged."""
    try:
        return load_recording(dest.read_bytes())
    except (BadRecording, FileNotFoundError):
        return None
