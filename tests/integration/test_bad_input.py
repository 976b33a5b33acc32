# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input gets one report with everything that is wrong, before anything is touched; text of strangers stays text."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration.bad_inputs import PLANTED, Planted, plant
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Json,
    Outcome,
    User,
    line_of,
    stored,
)
from ansible_collections.rdma.fabric.tests.lab.audit import Request
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.fleet import RECORDINGS, SUFFIX

RECORDING = RECORDINGS / f"egx-01{SUFFIX}"


@dataclass(frozen=True)
class Refusal:
    """The run that was refused, the folder of its input, its violations and what it asked of the API server."""

    outcome: Outcome
    folder: Path
    violations: list[Json]
    requests: list[Request]
    files: list[str]


@pytest.fixture(scope="module")
def refusal(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Refusal:
    folder, user = tmp_path_factory.mktemp("input"), User(tmp_path_factory.mktemp("user"))
    variables, mark = plant(folder), control_plane.audit.mark()
    outcome = user.run("site", inventory=folder / "inventory", variables=variables, cluster=control_plane).refused()
    requests = control_plane.audit.requests(mark, user=ADMINISTRATOR)
    return Refusal(outcome, folder, outcome.violations(), requests, user.files())


def matching(planted: Planted, refusal: Refusal) -> list[Json]:
    file = refusal.folder / planted.source
    source = str(file) if planted.source.endswith(".yaml") else planted.source
    return [
        found
        for found in refusal.violations
        if (found["source"], found["path"]) == (source, planted.path)
        and planted.problem in found["problem"]
        and planted.hint in found["hint"]
    ]


@pytest.mark.first
def test_what_is_wrong_is_reported_with_its_place_reason_and_next_step(refusal: Refusal) -> None:
    none_of(
        f"{planted.source}:{planted.path}: found as {found}"
        for planted in PLANTED
        for found in [matching(planted, refusal)]
        if len(found) != 1 or (planted.near and not is_near(planted, refusal, found[0]["line"]))
    )


def is_near(planted: Planted, refusal: Refusal, found: int) -> bool:
    """Tell whether a report names the line at which something is wrong."""
    line, (before, after) = line_of(refusal.folder / planted.source, planted.near), planted.around
    return line - before <= found <= line + after


@pytest.mark.first
def test_nothing_else_is_reported_and_everything_in_one_report(refusal: Refusal) -> None:
    expected = [id(found) for planted in PLANTED for found in matching(planted, refusal)]
    assert [found for found in refusal.violations if id(found) not in expected] == []
    assert len(refusal.violations) == len(PLANTED)
    assert set(refusal.outcome.failures) == {"localhost"}


@pytest.mark.first
def test_nothing_was_touched(refusal: Refusal) -> None:
    assert refusal.requests == []
    assert refusal.files == []
    assert set(refusal.outcome.counts) == {"localhost"}, "a host was reached"


HOSTILE = "{{ lookup('pipe', 'touch %s') }}"
PAYLOAD = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: jinja
  namespace: {namespace}
  annotations:
    note: {text}
data:
  expression: {text}
  statement: "{{% set x = 6 * 7 %}}{{{{ x }}}}{{# comment #}}"
"""


def test_templates_in_files_values_and_recordings_stay_text_everywhere(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    proof = tmp_path / "executed"
    hostile, user = HOSTILE % proof, User(tmp_path / "user")
    manifest, values = tmp_path / "objects.yaml", tmp_path / "values.yaml"
    manifest.write_text(PAYLOAD.format(namespace=namespace, text=json.dumps(hostile)))
    values.write_text(f"nfd:\n  enabled: false\noperator:\n  repository: {json.dumps(hostile)}\n")
    recording = json.loads(gzip.decompress(RECORDING.read_bytes()))
    text = json.dumps({**recording, "hostname": hostile}).replace("ens2f0", "{{6*7}}")
    recording = json.loads(text)
    recording["files"]["/proc/sys/kernel/hostname"] = f"{hostile}<script>alert(1)</script>\n"
    (tmp_path / "host.json").write_text(json.dumps(recording))
    host = {"rdma_fabric_recording": str(tmp_path / "host.json"), "rdma_fabric_protected_interfaces": ["eno1"]}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": {"stranger": host}}}))
    variables = {
        "rdma_fabric_manifests": [str(manifest)],
        "rdma_fabric_helm_values_files": [str(values)],
        "rdma_fabric_namespace": namespace,
        "rdma_fabric_set": namespace,
    }
    user.run("site", "--diff", inventory=inventory, variables=variables, cluster=control_plane).succeeded()
    user.run("render", variables={**variables, "rdma_fabric_render_dir": "out"}).succeeded()
    assert not proof.exists()
    found = stored(control_plane, "configmap", "jinja", namespace)
    assert found["data"] == {"expression": hostile, "statement": "{% set x = 6 * 7 %}{{ x }}{# comment #}"}
    assert found["metadata"]["annotations"]["note"] == hostile
    page = (user.here / "rdma-fabric-run" / "report.html").read_text(encoding="utf-8")
    assert "{{6*7}}" in page
    assert "<script>alert" not in page
    facts = json.loads((user.here / "rdma-fabric-run" / "hosts" / "stranger.json").read_text())["facts"]
    assert "{{6*7}}" in [netdev["name"] for netdev in facts["netdevs"]]
    assert facts["system"]["hostname"].startswith(hostile)
    rendered = next(path for path in (user.here / "out").rglob("*.yaml") if path.name.startswith("configmap-"))
    assert hostile in rendered.read_text()


def test_recordings_that_cannot_be_read_are_named_before_the_cluster_is_touched(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    content = RECORDING.read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(content[: len(content) // 2])
    (tmp_path / "cut.json").write_bytes(gzip.decompress(content)[:1000])
    (tmp_path / "other.json").write_text('{"format": "something/else"}')
    (tmp_path / "folder.json").mkdir()
    names = ["cut.json.gz", "cut.json", "other.json", "folder.json", "missing.json"]
    hosts = {f"h{n}": {"rdma_fabric_recording": str(tmp_path / name)} for n, name in enumerate(names)}
    good = {"good": {"rdma_fabric_recording": str(RECORDING)}}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma_fabric": {"hosts": {**hosts, **good}}}))
    user, mark = User(tmp_path / "user"), control_plane.audit.mark()
    outcome = user.run("site", inventory=tmp_path / "hosts.json", cluster=control_plane).refused()
    assert set(outcome.failures) == {*hosts, "localhost"}
    assert "5 of 6 hosts of this run did not finish" in outcome.failures["localhost"]["msg"]
    for number, name in enumerate(names):
        assert outcome.failures[f"h{number}"]["msg"].startswith(str(tmp_path / name))
    assert control_plane.audit.requests(mark, user=ADMINISTRATOR) == []
    assert user.files() == [f"rdma-fabric-run/{name}" for name in ("hosts/good.json", "report.html", "report.json")]


def test_a_cluster_side_that_only_the_group_of_hosts_knows_is_refused_with_where_to_put_it(tmp_path: Path) -> None:
    host = {"rdma_fabric_recording": str(RECORDING)}
    fleet = {"hosts": {"one": host, "two": host}, "vars": {"rdma_fabric_manifests": ["policy.yaml"]}}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma_fabric": fleet}))
    user = User(tmp_path / "user")
    (violation,) = user.run("preflight", inventory=tmp_path / "hosts.json").refused().violations()
    assert violation["path"] == "rdma_fabric_manifests"
    assert "one, two" in violation["problem"]
    assert "group_vars/all" in violation["hint"]


PREFLIGHT = """\
- hosts: localhost
  gather_facts: false
  roles: [rdma.fabric.preflight]
"""
HOSTS = """\
- hosts: all
  gather_facts: false
  roles:
    - role: rdma.fabric.host
      vars: {rdma_fabric_kernel_modules: ["{{ 'rdma_ucm' }}"], rdma_fabric_host_mode: preview}
"""


@pytest.mark.parametrize(
    ("group", "variables", "preflight", "said"),
    [
        ("other", {}, True, "put it into the group rdma_fabric"),
        ("rdma_fabric", {}, False, "run the role rdma.fabric.preflight before this task, in a play for localhost"),
    ],
)
def test_a_role_on_its_own_says_what_has_to_come_before_it(
    tmp_path: Path, group: str, variables: Json, preflight: bool, said: str
) -> None:
    host = {"rdma_fabric_recording": str(RECORDING), **variables} if group == "rdma_fabric" else {}
    (tmp_path / "hosts.json").write_text(json.dumps({group: {"hosts": {"one": host}}}))
    play = tmp_path / "play.yml"
    play.write_text((PREFLIGHT if preflight else "") + HOSTS)
    # Without hosts of the fabric, preflight wants something for the cluster.
    network = {"master": "rail0", "ipam": '{"type": "host-local", "subnet": "192.0.2.0/24"}'}
    given = {} if group == "rdma_fabric" else {"rdma_fabric_macvlan_networks": {"rdma-net": network}}
    outcome = User(tmp_path / "user").run(str(play), inventory=tmp_path / "hosts.json", variables=given)
    assert said in outcome.refused().message


@pytest.mark.first
def test_variables_of_the_wrong_type_are_named_together(tmp_path: Path) -> None:
    wrong = {"rdma_fabric_macvlan_networks": ["rail0"], "rdma_fabric_nfd": "maybe", "rdma_fabric_proxy": "http://p"}
    user = User(tmp_path)
    message = user.run("preflight", variables=wrong).refused().message
    for name in wrong:
        assert name in message


def test_answers_of_a_survey_are_taken_as_text_and_the_wrong_ones_named_together(tmp_path: Path) -> None:
    empty = ("hosts", "namespace", "wait_timeout", "host_mode", "run_dir", "drain", "reboot_parallel", "verify_pairs")
    fine = {"allow_reboot": "true", "prune": "false", "wait_timeout": " 30 ", "kernel_modules": "rdma_ucm\nib_umad"}
    wrong = {"allow_vf_reset": "maybe", "wait_timeout": "4x", "verify_pairs": "some", "drain_timeout": "soon"}

    hosts = {"one": {"rdma_fabric_recording": str(RECORDING)}}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma_fabric": {"hosts": hosts}}))

    def run(name: str, answers: Json) -> Outcome:
        given = {f"rdma_fabric_{question}": answer for question, answer in answers.items()}
        return User(tmp_path / name).run("preflight", inventory=tmp_path / "hosts.json", variables=given)

    run("fine", {**dict.fromkeys(empty, ""), **fine}).succeeded()
    told = [(found["source"], found["path"], found["problem"]) for found in run("wrong", wrong).refused().violations()]
    none_of(f"{name}: is not named: {told}" for name in wrong if name not in str(told))
    none_of(f"{problem}: does not say what is allowed" for _source, _path, problem in told if ", not " not in problem)
    assert len(told) == len(wrong)
