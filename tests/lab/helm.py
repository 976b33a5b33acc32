# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build Helm, for the tests of the engine that installs charts.

Always built from the pinned module, whose Kubernetes libraries are those of the control plane: what the Go cache has of
that build is not compiled again. Alone it takes about five minutes on two cores.
"""

from __future__ import annotations

import os
from pathlib import Path

from .gobuild import Recipe, Report
from .programs import KUBERNETES_VERSION, MODULES, STRIP, built, to_standard_error

HELM_VERSION = "v3.20.2"
HELM_MODULE = "helm.sh/helm/v3"
MAJOR, MINOR, _PATCH = KUBERNETES_VERSION.split(".")
HELM = Recipe(
    "helm",
    MODULES / "helm",
    {"helm": f"{HELM_MODULE}/cmd/helm"},
    # Without them Helm calls itself v3.20, and templates charts without a cluster for Kubernetes 1.20.
    f"{STRIP} -X {HELM_MODULE}/internal/version.version={HELM_VERSION} "
    f"-X {HELM_MODULE}/pkg/chartutil.k8sVersionMajor={MAJOR} -X {HELM_MODULE}/pkg/chartutil.k8sVersionMinor={MINOR}",
)


def gather_helm(report: Report = to_standard_error) -> Path:
    """Give the folder of the program ``helm``, built when the cache lacks it; raises ``ProgramsUnavailable``."""
    return built(HELM, os.environ, report)
