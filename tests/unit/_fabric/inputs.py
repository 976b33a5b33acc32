# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the input side share: fixtures as documents, and a fabric built from text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import nv_ipam
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, Findings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.helm import values_of_settings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import FabricSpec, build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import API_VERSION
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models_sriov import (
    API_VERSION as SRIOV_API,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models_sriov import SRIOV_MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import read_files, read_text

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SEEDS = FIXTURES / "seeds"
EXAMPLES = FIXTURES / "examples"
QUICK_STARTS = FIXTURES / "quickstarts"


class Fabric:
    """The outcome of one input: a spec with notices, or violations."""

    def __init__(self, documents: list[Document], broken: list[Violation], **given: Any) -> None:
        helm = [Document("values.yaml", given["values"])] if "values" in given else []
        findings = Findings()
        helm += values_of_settings(given.get("settings_of_helm", []), findings, "helm_set")
        self.spec: FabricSpec = {}
        self.notices: list[Notice] = []
        self.violations: list[Violation] = []
        try:
            self.spec, self.notices = build_spec(
                documents,
                given.get("variables", {}),
                given.get("settings", {}),
                given.get("hosts", {}),
                helm_values=helm,
                violations=[*broken, *findings.violations],
            )
        except InvalidInput as invalid:
            self.violations = invalid.violations

    def wrong(self, path: str) -> Violation:
        """Return the only violation at a path."""
        found = [violation for violation in self.violations if violation.path == path]
        assert len(found) == 1, [violation.sentence() for violation in self.violations]
        return found[0]

    def said(self, words: str) -> Notice:
        """Return the only notice with these words."""
        found = [notice for notice in self.notices if words in notice.sentence()]
        assert len(found) == 1, [notice.sentence() for notice in self.notices]
        return found[0]

    def accepted(self) -> Fabric:
        """Fail the test unless the input was accepted."""
        if self.violations:
            pytest.fail("\n".join(violation.sentence() for violation in self.violations))
        return self


def of_text(text: str = "", **given: Any) -> Fabric:
    """Return the fabric of a file's text and of other inputs."""
    return Fabric(read_text("p.yaml", text) if text else [], [], **given)


def of_files(folder: Path, *names: str, **given: Any) -> Fabric:
    """Return the fabric of fixture files."""
    documents, broken = read_files(list(names), lambda name: folder / name)
    return Fabric(documents, broken, **given)


def of_policy(spec: Any, **given: Any) -> Fabric:
    """Return the fabric of one cluster policy."""
    return Fabric([resource("NicClusterPolicy", "nic-cluster-policy", spec)], [], **given)


def resource(kind: str, name: str, spec: Any, source: str = "p.yaml", **metadata: Any) -> Document:
    """Return a custom resource as a document."""
    api = SRIOV_API if kind in SRIOV_MODELS else nv_ipam.API_VERSION if kind in nv_ipam.POOL_KINDS else API_VERSION
    content = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}}
    return Document(source, {**content, "spec": spec})
