# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide to AWX and the data of its controller: they name what there is, and their parts fit together."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT, PROGRAMS, own_environment

TEXT = (CHECKOUT / "docs" / "guide-awx.md").read_text(encoding="utf-8")
(PLAYBOOK,) = re.findall(r"^```yaml\n(- name: .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


class Loader(yaml.SafeLoader):
    """Takes text that Ansible is told not to template for text."""


Loader.add_constructor("!unsafe", lambda _loader, node: str(node.value))
DATA: dict[str, Any] = yaml.load((CHECKOUT / "docs" / "controller.yml").read_bytes(), Loader)  # noqa: S506 - a safe one
TEMPLATES = {template["name"]: template for template in DATA["controller_templates"]}
VARIABLES = json.loads((CHECKOUT / "docs" / "variables.schema.json").read_text(encoding="utf-8"))["properties"]
# Which module of awx.awx each list is handed to, with the same names: redhat-cop/infra.aap_configuration at f2302146,
# roles/dispatch/defaults/main.yml and the roles that it names.
MODULES = {
    "controller_projects": "project",
    "controller_execution_environments": "execution_environment",
    "controller_inventories": "inventory",
    "controller_inventory_sources": "inventory_source",
    "controller_credential_types": "credential_type",
    "controller_credentials": "credential",
    "controller_templates": "job_template",
    "controller_workflows": "workflow_job_template",
    "controller_schedules": "schedule",
}


def names(what: str) -> set[str]:
    return {each["name"] for each in DATA[what]}


def specification(module: str) -> dict[str, Any]:
    """Return the options of a module of awx.awx, which the package ansible brings, as they are documented."""
    source = files("ansible_collections.awx.awx") / "plugins" / "modules" / f"{module}.py"
    assigned = [each for each in ast.parse(source.read_text(encoding="utf-8")).body if isinstance(each, ast.Assign)]
    (text,) = [ast.literal_eval(each.value) for each in assigned if ast.unparse(each.targets[0]) == "DOCUMENTATION"]
    keys = ("type", "elements", "choices", "required")
    options = yaml.safe_load(text)["options"]
    return {name: {key: told[key] for key in keys if key in told} for name, told in options.items()}


def refusals() -> Iterator[str]:
    """Yield what the modules of awx.awx have against the data, unknown names among it."""
    assert {*DATA} == {*MODULES}
    # The role hands each of them to another module, with the name of the workflow.
    nodes = "simplified_workflow_nodes"
    entries = {name: [{key: each[key] for key in each if key != nodes} for each in DATA[name]] for name in DATA}
    entries[nodes] = [
        {"workflow_job_template": workflow["name"], "name": node["identifier"], **node}
        for workflow in DATA["controller_workflows"]
        for node in workflow[nodes]
    ]
    for name, module in {**MODULES, nodes: "workflow_job_template_node"}.items():
        options = specification(module)
        validator = ArgumentSpecValidator({**options, "name": {"type": "str"}})
        for each in entries[name]:
            yield from (f"{name}: {each['name']}: {said}" for said in validator.validate(each).error_messages)


def test_the_modules_of_awx_take_the_data() -> None:
    none_of(refusals())


def test_ansible_builder_takes_the_execution_environment_with_the_artifact_of_this_release(tmp_path: Path) -> None:
    """Its build begins with a context; there the artifact is where the collections are installed from."""
    (block,) = re.findall(r"^```yaml\n(version: 3\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / "execution-environment.yml").write_text(block, encoding="utf-8")
    version = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    (tmp_path / f"rdma-fabric-{version}.tar.gz").write_bytes(b"")
    argv = [sys.executable, "-m", "ansible_builder", "create", "--output-filename", "Containerfile"]
    subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=120, check=True)
    build = tmp_path / "context" / "_build"
    recipe = (build.parent / "Containerfile").read_text(encoding="utf-8")
    (collection,) = yaml.safe_load((build / "requirements.yml").read_text(encoding="utf-8"))["collections"]
    assert collection == {"name": f"collections/rdma-fabric-{version}.tar.gz", "type": "file"}
    assert (build / collection["name"]).is_file()
    assert "COPY _build /build\nWORKDIR /build\n" in recipe


def test_templates_start_playbooks_of_the_collection_on_what_is_defined() -> None:
    for template in TEMPLATES.values():
        assert (CHECKOUT / "playbooks" / template["playbook"]).is_file(), template
        assert template["project"] in names("controller_projects")
        assert template["inventory"] in names("controller_inventories")
        assert template["execution_environment"] in names("controller_execution_environments")
        assert {*template["credentials"]} <= names("controller_credentials")
    (source,) = DATA["controller_inventory_sources"]
    assert (source["inventory"], source["source_project"]) == ("GPU nodes", "GPU fabric")


def test_the_credential_type_hands_the_client_its_file() -> None:
    (kind,) = DATA["controller_credential_types"]
    (field,) = kind["inputs"]["fields"]
    assert field["secret"] and kind["inputs"]["required"] == [field["id"]]
    assert kind["injectors"] == {
        "file": {"template": f"{{{{ {field['id']} }}}}"},
        "env": {"K8S_AUTH_KUBECONFIG": "{{ tower.filename }}"},
    }
    (cluster, nodes) = DATA["controller_credentials"]
    assert (cluster["credential_type"], [*cluster["inputs"]]) == (kind["name"], [field["id"]])
    values = [*cluster["inputs"].values(), *nodes["inputs"].values()]
    assert {f"`{text[3:-3]}`" for text in values if text.startswith("{{")} <= {*re.findall(r"`fabric_\w+`", TEXT)}


def test_variables_and_questions_are_the_collections() -> None:
    asked = {}
    for template in TEMPLATES.values():
        assert set(template.get("extra_vars", {})) <= set(VARIABLES)
        asked.update({each["variable"]: each for each in template.get("survey_spec", {}).get("spec", [])})
    survey = json.loads((CHECKOUT / "docs" / "survey.json").read_text(encoding="utf-8"))["spec"]
    known = {each["variable"]: (each["type"], each["choices"]) for each in survey}
    given = {name: (each["type"], "\n".join(each.get("choices", []))) for name, each in asked.items()}
    assert given == {name: known[name] for name in asked}


def test_what_is_approved_is_done_by_the_slices_and_pushed_once() -> None:
    """tests/integration/test_runner.py runs the first, the third and the fourth job."""
    plan, hosts, cluster = (TEMPLATES[f"Fabric {name}"] for name in ("plan", "hosts", "cluster"))
    assert (plan["job_type"], hosts["job_type"], cluster["job_type"]) == ("check", "run", "run")
    assert (plan.get("job_slice_count", 1), cluster.get("job_slice_count", 1)) == (1, 1)
    ours, theirs = hosts["extra_vars"], cluster["extra_vars"]
    assert (ours["rdma_fabric_push"], theirs["rdma_fabric_host_mode"]) == (False, "kept")
    assert all(ours[name] == theirs[name] for name in ("rdma_fabric_run_dir", "rdma_fabric_sealed_plan"))
    (workflow,) = DATA["controller_workflows"]
    assert workflow["name"] not in TEMPLATES
    nodes = {node["identifier"]: node for node in workflow["simplified_workflow_nodes"]}
    way, place = [], "plan"
    while place:
        node = nodes[place]
        way.append(node.get("unified_job_template") or node["approval_node"]["name"])
        (place,) = node.get("success_nodes") or node.get("always_nodes") or [""]
    approval = "Approve the plan of the fabric"
    assert way == ["Fabric plan", approval, "Fabric hosts", "Fabric cluster", "Fabric verify"]
    assert {*way} - {approval} <= {*TEMPLATES}


def test_jobs_whose_hosts_wait_for_canaries_have_no_slices() -> None:
    """A slice has its own hosts only, so one without the canaries fails and none waits for those of another."""
    for name, template in TEMPLATES.items():
        asked = {each["variable"] for each in template.get("survey_spec", {}).get("spec", [])}
        if "rdma_fabric_canaries" in asked | set(template.get("extra_vars", {})):
            assert template.get("job_slice_count", 1) == 1, name


def test_schedules_start_templates_that_only_look() -> None:
    for schedule in DATA["controller_schedules"]:
        assert TEMPLATES[schedule["unified_job_template"]]["playbook"] in ("status.yml", "drift.yml")


@pytest.mark.slow
def test_ansible_navigator_takes_its_settings(tmp_path: Path) -> None:
    """It holds them against its schema, and says which ones are in effect."""
    (tmp_path / ".kube").mkdir()
    (block,) = re.findall(r"^```yaml\n(ansible-navigator:.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    given = yaml.safe_load(block)
    (tmp_path / "ansible-navigator.yml").write_text(block, encoding="utf-8")
    # A run without a container engine ends before it says anything.
    argv = [str(PROGRAMS / "ansible-navigator"), "settings", "--effective", "--ee", "false"]
    environment = {**own_environment(tmp_path), "HOME": str(tmp_path), "NO_COLOR": "1"}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("---\n"), done.stdout + done.stderr
    effective = yaml.safe_load(done.stdout)["ansible-navigator"]
    image = given["ansible-navigator"]["execution-environment"]["image"]
    mounts = [{"src": str(tmp_path / ".kube"), "dest": "/runner/kube", "options": "ro"}]
    found = effective["execution-environment"]
    assert (found["image"], found["pull"]["policy"], found["volume-mounts"]) == (image, "missing", mounts)
    assert (effective["mode"], effective["playbook-artifact"]["enable"]) == ("stdout", False)
    assert image in {each["image"] for each in DATA["controller_execution_environments"]}
