# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chart of the input: where it is, what it is called, and what it means for a batch. Pure.

``chart`` is that of a FabricSpec.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping

import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

_PATH = re.compile(r"[/~.].*|.*\.tgz", re.DOTALL)


def batch_options(spec: Mapping[str, Any]) -> Json:
    """Return what a batch is asked about the engine of a FabricSpec."""
    return {"engine": str(spec.get("engine") or ""), "awaits_kinds": bool(spec.get("chart"))}


def located(reference: str, find: Callable[[str], Path]) -> tuple[str, list[Violation]]:
    """Return a chart as it is found: one on the controller by its absolute path, with what is wrong about that."""
    if not reference or "://" in reference:
        return reference, []
    path = find(reference)
    if path.is_file() or (path / "Chart.yaml").is_file():
        return str(path.absolute()), []
    if not _PATH.fullmatch(reference):
        return reference, []
    problem = "is a folder without Chart.yaml" if path.is_dir() else "is not on the controller"
    hint = f"give a chart's folder or archive; it was looked for at {path.absolute()}"
    return reference, [Violation(f"{PREFIX}helm_chart", "", f"{reference!r} {problem}", hint)]


def name_of(chart: Mapping[str, Any]) -> str:
    """Return a release with its chart, for people."""
    version = f" {chart['version']}" if chart["version"] else ""
    where = f" of {chart['repository']}" if chart["repository"] else ""
    return f"release {chart['release']} in {chart['namespace']}: chart {chart['reference']}{version}{where}"


# The release of a chart: what kubernetes.core.helm is asked for it, and what its answer means. Pure.
#
# ``chart`` is that of a FabricSpec, ``answer`` the result of ``kubernetes.core.helm``.
FAILED = "failed"
_NO_PLUGIN = (
    "without the plugin helm-diff only release and values of the chart are compared: another chart of the same release "
    "is not seen (next: helm plugin install https://github.com/databus23/helm-diff)"
)
_NEXT = {
    "another operation": "helm rollback or helm uninstall the release, which an interrupted run left unfinished",
    "failed to download": f"check {PREFIX}helm_chart, _repository and _version, or give the chart as a file",
    "not found": f"check {PREFIX}helm_chart, _repository and _version, or give the chart as a file",
    "looks like": f"check {PREFIX}helm_chart_repository, or give the chart as a file",
    "forbidden": "grant the rights to what the chart creates, or let an administrator install it with these variables",
    "timed out": "check the pods of the release; the next run continues",
}


def install_arguments(chart: Mapping[str, Any], access: Mapping[str, Any]) -> Json:
    """Return the arguments of kubernetes.core.helm that say which release of what is wanted, and where."""
    place = {"release_name": chart["release"], "release_namespace": chart["namespace"]}
    return {**source_arguments(chart), **access, **place}


def source_arguments(chart: Mapping[str, Any]) -> Json:
    """Return the arguments that say which chart with which values, for kubernetes.core.helm and helm_template."""
    given = {"chart_repo_url": chart["repository"], "chart_version": chart["version"]}
    return {
        "chart_ref": chart["reference"],
        "release_values": dict(chart["values"]),
        **{name: value for name, value in given.items() if value},
    }


def release_of(answer: Mapping[str, Any]) -> Json:
    """Return the release as the answer of a run in check mode has it, empty where there is none."""
    declared = ((answer.get("status") or {}).get("values") or {}).get("declared")
    return dict(declared) if isinstance(declared, Mapping) else {}


def is_failed(answer: Mapping[str, Any]) -> bool:
    """Tell whether the release is there, and its last change failed."""
    return release_of(answer).get("status") == FAILED


def sentence(chart: Mapping[str, Any], live: Mapping[str, Any], *, changed: bool, check: bool) -> str:
    """Return what becomes of the release; ``live`` is what there was of it before."""
    what = name_of(chart)
    if not changed:
        return f"{what} matches the input"
    verb = "upgraded" if live else "installed"
    return f"{what} {'would be' if check else 'was'} {verb}" + (f" (from {live.get('chart')})" if live else "")


def difference(chart: Mapping[str, Any], live: Mapping[str, Any]) -> Json:
    """Return what changes of a release, as far as its own record tells."""
    wanted = {"chart": _record_of(chart), "values": chart["values"]}
    header = f"release {chart['release']} in {chart['namespace']}"
    before = {"chart": live["chart"], "values": live.get("values") or {}} if live else {}
    return {
        "before_header": header,
        "after_header": header,
        "before": yaml.safe_dump(before, sort_keys=True) if before else "",
        "after": yaml.safe_dump(wanted, sort_keys=True),
    }


def _record_of(chart: Mapping[str, Any]) -> str:
    """Return a chart as Helm records it, ``NAME-VERSION``, as far as its reference tells: a folder has no version.

    A tag cannot hold the ``+`` of a version, for which Helm writes ``_`` (``pkg/registry``).
    """
    reference, version = re.split(r"[?#]", chart["reference"])[0].rstrip("/"), chart["version"]
    name = reference.rpartition("/")[2]
    if name.endswith(".tgz"):
        return name[: -len(".tgz")]
    if reference.startswith("oci://"):
        name, _colon, tag = name.partition("@")[0].partition(":")
        version = version or tag.replace("_", "+")
    return f"{name}-{version}" if version else name


def plugin_notice(answer: Mapping[str, Any]) -> list[str]:
    """Return what is not compared without the plugin helm-diff, nothing where the module compared with it."""
    warned = any("helm diff" in str(each) for each in answer.get("warnings") or [])
    return [_NO_PLUGIN] if warned else []


def failure(answer: Mapping[str, Any]) -> str:
    """Return what helm said, with the next step."""
    said = str(answer.get("stderr") or answer.get("msg") or "").strip()
    lines = [line for line in said.splitlines() if line.startswith("Error:")] or said.splitlines()[-1:]
    text = one_line(" ".join(lines).replace("Error: ", "", 1))
    step = next((step for words, step in _NEXT.items() if words in text), "fix what helm says, and run again")
    return f"helm: {text} (next: {step})"
