# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every run ends with the same lines: one word, numbers, files, and a next step that can be pasted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._endings import (
    KINDS,
    Run,
    Step,
    block,
    called,
    command,
    end_unsaid,
    ending_of,
    next_step,
    statistic,
    without_passing,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN

Json = dict[str, Any]
CLI = {"args": ("rdma.fabric.site",), "inventory": ("/a b/hosts.yml",), "subset": "gpu*", "extra_vars": ()}
STEPS = {"total": 0, "planned": 0, "needs_consent": 0, "refused": 0, "needs_reboot": 0}


def report(outcome: str, **steps: int) -> Json:
    summary = {"headline": "2 hosts planned", "hosts": {"total": 2}, "steps": {**STEPS, **steps}, "objects": {}}
    place = {"report_html": "/run/report.html", "report_json": "/run/report.json", "write": True}
    return {"outcome": outcome, "summary": summary, "recap": ["2 hosts planned", "attention: look"], **place}


def after(kind: str, result: Json, playbook: str = "site", *, check: bool = False, extra: tuple[str, ...] = ()) -> Json:
    cli = {**CLI, "args": (f"rdma.fabric.{playbook}",), "subset": None, "extra_vars": extra}
    return statistic(ending_of(kind, result, Run(playbook, check)), cli)


SAME = "ansible-playbook rdma.fabric.{} -i '/a b/hosts.yml'"


def test_a_part_of_a_run_leaves_push_and_report_to_another() -> None:
    found = after("report", {**report("changed"), "write": False})
    assert found["next"] == "push and report with rdma_fabric_host_mode=kept once all other hosts are done"
    assert list(found["paths"]) == ["plans"]
    assert after("report", {**report("failed"), "write": False})["next"].startswith("fix what is named above")


@pytest.mark.parametrize(
    ("result", "playbook", "check", "step"),
    [
        (report("unchanged"), "site", False, "nothing to do"),
        (report("changed"), "site", False, SAME.format("status")),
        (report("changed"), "teardown", False, "nothing to do"),
        (report("pending", planned=3), "preview", False, SAME.format("site")),
        (report("pending", planned=3), "upgrade", True, SAME.format("upgrade")),
        (
            report("pending", needs_reboot=1),
            "site",
            False,
            f"reboot them yourself, or: {SAME.format('site')} -e rdma_fabric_allow_reboot=true",
        ),
        (report("failed"), "site", True, f"fix what is named above, then: {SAME.format('site')} --check"),
    ],
)
def test_the_next_step_after_a_report_leads_on(result: Json, playbook: str, check: bool, step: str) -> None:
    found = after("report", result, playbook, check=check)
    assert found["next"] == step
    assert found["result"] == found["outcome"] == result["outcome"]
    assert ("report" in found["paths"]) is not check


@pytest.mark.parametrize(
    ("files", "step"),
    [
        (["kustomization.yaml"], "commit them, or: kubectl apply -k out"),
        (
            ["06-objects/secret-a-b.yaml", "kustomization.yaml"],
            "commit them without the files secret-*.yaml, which are in the clear, or: kubectl apply -k out",
        ),
        (["06-objects/secretstore-a-b.yaml"], "commit them, or: kubectl apply -k out"),
    ],
)
def test_nobody_is_told_to_commit_a_secret(files: list[str], step: str) -> None:
    result = {"changed": True, "output_dir": "out", "files": files, "written": files, "removed": []}
    assert after("render", result, "render")["next"] == step


SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "docs" / "result.schema.json").read_bytes())
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_programs_get_follows_the_published_schema(kind: str) -> None:
    SCHEMA.check_schema(SCHEMA.schema)
    SCHEMA.validate(after(kind, {}))
    SCHEMA.validate(end_unsaid({**CLI, "check": True}))
    valid = after("input", {"spec": {"hosts": {"a": {}, "b": {}}}, "notices": ["odd"]}, "preflight")
    SCHEMA.validate(valid)
    assert block(valid) == ["result:   valid", "counts:   2 hosts, 1 notice", f"next:     {SAME.format('preview')}"]
    SCHEMA.validate({**after("report", report("pending", planned=3), check=True), "report": "/run/report.json"})


TEMPLATE = "Fabric site"


@pytest.mark.parametrize(
    ("step", "check", "said"),
    [
        (Step("fix it, then", ""), False, "fix it, then: launch the job template Fabric site again"),
        (Step("", "rdma.fabric.status"), False, "launch a job template of rdma.fabric.status"),
        (Step("", "", check=True), True, "launch the job template Fabric site again"),
        (
            Step("", "rdma.fabric.site", ("--diff",), check=True),
            False,
            "launch a job template of rdma.fabric.site as a check",
        ),
        (
            Step("approve it, then", "", ("-e", "rdma_fabric_sealed_plan='/srv/the plan.json'")),
            True,
            "approve it, then: launch the job template Fabric site again as a run with "
            "rdma_fabric_sealed_plan=/srv/the plan.json",
        ),
        (
            Step("look, then", "rdma.fabric.preview", ("-i", "/runner/project/hosts.yml")),
            False,
            "look, then: launch a job template of rdma.fabric.preview",
        ),
        (Step("commit them"), False, "commit them"),
    ],
)
def test_in_a_job_of_awx_the_next_step_names_the_template_and_no_path_of_the_job(
    step: Step, check: bool, said: str
) -> None:
    job = {"args": ("site.yml",), "inventory": ("/runner/inventory",), "extra_vars": ("@/runner/env/extravars",)}
    assert next_step({**job, "check": check}, step, TEMPLATE) == said


def test_without_hosts_objects_that_are_pending_are_not_put_down_to_recordings() -> None:
    result = report("pending")
    result["summary"]["hosts"] = {"total": 0, "recorded": 0}
    assert after("report", result, "site", check=True)["next"] == SAME.format("site")


def test_what_no_port_meets_is_not_led_on_to_site() -> None:
    result = report("pending", planned=1)
    result["summary"]["unknown_interfaces"] = ["network a/b: master rail9: ..."]
    for playbook, check in (("preview", False), ("site", True)):
        said = after("report", result, playbook, check=check)["next"]
        assert said.startswith(
            "fix the network, the pool, the resource or the port of each line with attention above, then: "
        )
        assert f"rdma.fabric.{playbook} " in said


def test_recorded_hosts_are_not_sent_round_in_circles() -> None:
    result = report("pending", planned=1)
    result["summary"]["hosts"]["recorded"] = 2
    assert after("report", result)["next"].startswith("recorded hosts are only planned")
    assert after("report", result, "preview")["next"] == SAME.format("site")


def test_the_command_repeats_what_was_given_and_no_variable_that_may_be_a_password() -> None:
    given = (
        "@vars.yml",
        "rdma_fabric_run_dir='/a b'",
        "rdma_fabric_manifests=a.yaml,b.yaml rdma_fabric_set=x",
        "rdma_fabric_manifests=a.yaml,b.yaml password",
        "ansible_become_password=x",
        "ansible_become_password=x,y",
        '{"rdma_fabric_prune": false}',
        "?",
    )
    secrets = {"private_key_file": "/k", "vault_ids": ["prod@/p"], "vault_password_files": ["/one", "/two"]}
    words = shlex.split(command({**CLI, **secrets, "extra_vars": given, "become": True}, Step("", "")))
    assert words == [
        *("ansible-playbook", "rdma.fabric.site", "-i", "/a b/hosts.yml", "--limit", "gpu*", "--private-key", "/k"),
        *("--vault-id", "prod@/p", "--vault-password-file", "/one", "--vault-password-file", "/two", "-b"),
        *("-e", given[0], "-e", given[1], "-e", given[2], "-e", given[6]),
    ]


@pytest.mark.parametrize("folder", ["/scratch/eda3x_k92ab", "/runner"])
def test_the_command_names_no_file_that_is_gone_after_a_run_of_a_rulebook(folder: str) -> None:
    given = ("rdma_fabric_drain=false", f"@{folder}/env/extravars", "@/srv/vars.yml")
    cli = {**CLI, "inventory": (f"{folder}/inventory", f"{folder}/more"), "extra_vars": given}
    left = without_passing(cli, {"AWX_ISOLATED_DATA_DIR": f"{folder}/artifacts/8d5c8c0e"})
    assert shlex.split(command(left, Step("", ""))) == [
        *("ansible-playbook", "rdma.fabric.site", "-i", "INVENTORY", "--limit", "gpu*"),
        *("-e", given[0], "-e", given[2]),
    ]


@pytest.mark.parametrize("folder", ["", "/srv/eda", "/srv/runner"])
def test_files_that_stay_are_named(folder: str) -> None:
    cli = {**CLI, "inventory": (f"{folder}/inventory",)}
    assert without_passing(cli, {"AWX_ISOLATED_DATA_DIR": f"{folder}/artifacts/1"} if folder else {}) == cli
    runner = {"AWX_ISOLATED_DATA_DIR": "/scratch/eda3x_k92ab/artifacts/1"}
    assert without_passing(cli, runner) == cli


def test_a_plan_that_was_sealed_is_approved_and_then_done() -> None:
    cli = {**CLI, "subset": None, "extra_vars": ("rdma_fabric_plan_file=plan.json", "rdma_fabric_drain=false")}
    ending = ending_of("report", report("pending", planned=3), Run("site", True, "/srv/the plan.json"))
    assert ending.paths == {"plans": "/run/hosts", "sealed": "/srv/the plan.json"}
    said, command_of_it = statistic(ending, cli)["next"].split(": ", 1)
    assert said == "have the plan approved, then"
    assert shlex.split(command_of_it) == [
        *("ansible-playbook", "rdma.fabric.site", "-i", "/a b/hosts.yml", "-e", "rdma_fabric_drain=false"),
        *("-e", "rdma_fabric_sealed_plan='/srv/the plan.json'"),
    ]
    again = Step("", "", (), check=True)
    assert "rdma_fabric_plan_file=plan.json" in command(cli, again)


@pytest.mark.parametrize(
    "variables",
    [
        'rdma_fabric_proxy={"httpProxy":"http://user:secret@proxy.example"}',
        "rdma_fabric_proxy=http://user:secret@proxy.example,b",
        'rdma_fabric_nic_cluster_policy={"env":[{"name":"PASSWORD","value":"secret"}]},b',
        '{"rdma_fabric_proxy": {"httpsProxy": "http://user:secret@proxy.example"}}',
        '{"rdma_fabric_nic_cluster_policy": {"ofedDriver": {"env": [{"name": "PROXY_PASSWORD", "value": "secret"}]}}}',
    ],
)
def test_the_command_repeats_no_secret_in_a_variable_of_this_collection(variables: str) -> None:
    assert "secret" not in command({**CLI, "extra_vars": (variables,)}, Step("", ""))


def test_the_command_repeats_what_only_refers_to_secrets_and_keys() -> None:
    given = (
        '{"rdma_fabric_nic_cluster_policy": {"ibKubernetes": {"ufmSecret": "ufm"}}}',
        '{"rdma_fabric_driver": {"repository": {"url": "/mirror", "gpg_key": "/keys/mirror.asc"}}}',
    )
    words = shlex.split(command({**CLI, "extra_vars": given}, Step("", "")))
    assert words[-4:] == ["-e", given[0], "-e", given[1]]


def test_a_playbook_of_somebody_else_is_run_again_by_its_own_name() -> None:
    cli = {"args": ("mine.yml", "yours.yml"), "inventory": None}
    assert called(cli) == ""
    assert next_step(cli, Step("fix it, then", "")) == "fix it, then: ansible-playbook mine.yml yours.yml"


def test_a_playbook_of_somebody_else_is_run_again_with_the_tags_of_its_imports_and_one_of_ours_has_none() -> None:
    cli = {"args": ("mine.yml",), "tags": ["fabric", "smoke"], "skip_tags": ["slow"]}
    assert command(cli, Step("", "")) == "ansible-playbook mine.yml --tags fabric,smoke --skip-tags slow"
    assert command({**cli, "tags": ["all"], "skip_tags": ()}, Step("", "")) == "ansible-playbook mine.yml"
    assert command({**cli, "args": ("rdma.fabric.site",)}, Step("", "")) == "ansible-playbook rdma.fabric.site"
    assert command(cli, Step("", "rdma.fabric.status")) == "ansible-playbook rdma.fabric.status"


def test_the_command_reaches_hosts_as_the_run_did_unless_that_needs_a_password() -> None:
    jump = {"ssh_common_args": "-o ProxyJump=me@jump.example.com", "ssh_extra_args": "-4"}
    words = shlex.split(command({**CLI, **jump}, Step("", "rdma.fabric.status")))
    assert words[-2:] == [f"--ssh-common-args={jump['ssh_common_args']}", "--ssh-extra-args=-4"]
    secret = {"ssh_common_args": "-o ProxyCommand='sshpass -p hunter2hunter2 ssh -W %h:%p jump'"}
    assert "hunter2" not in command({**CLI, **secret}, Step("", ""))


def test_plans_are_named_where_there_are_some() -> None:
    result = report("changed")
    assert after("report", result)["paths"] == {"report": "/run/report.html", "plans": "/run/hosts"}
    result["summary"]["hosts"] = {"total": 0}
    assert after("report", result)["paths"] == {"report": "/run/report.html"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_before_anything_was_touched_is_a_refusal_and_any_other_is_none(kind: str) -> None:
    problems = [{"path": "a"}, {"path": "b"}]
    early = kind in ("input", "ready")
    found = after(
        kind, {"failed": True, "msg": "2 problems in the input; nothing was changed:", "violations": problems}
    )
    assert found["result"] == ("refused" if early else "failed")
    assert found["counts"] == "2 problems in the input" + (", nothing was changed" if early else "")
    assert after(kind, {})["result"] == found["result"]
    ready = after(kind, {"failed": True, "msg": "so no host was changed:\n  - the cluster\n  - the folder"})
    assert ready["counts"] == "so no host was changed"
    long = after(kind, {"failed": True, "msg": f"no API server:\n{'x' * 500}"})
    assert all(len(line) < 200 and line.isprintable() for line in block(long)), block(long)


def classes(*states: str) -> Json:
    rows = [{"state": state, "hosts": [f"{state}-1", f"{state}-2"]} for state in states]
    attention = [state for state in states if state != "matching"]
    return {"status": {"hosts": {"classes": rows}, "cluster": None, "attention": attention}}


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (["matching"], "unchanged"),
        (["pending", "matching"], "pending"),
        (["refused", "pending"], "refused"),
        (["unreachable", "pending"], "failed"),
    ],
)
def test_the_status_of_hosts_is_the_worst_of_theirs(states: list[str], word: str) -> None:
    found = after("status", classes(*states), "status")
    assert found["result"] == word
    assert found["counts"].startswith(f"2 {states[0]}")


@pytest.mark.parametrize(
    ("states", "cluster", "word", "step", "count"),
    [
        (["pending"], {"error": "unreachable"}, "failed", SAME.format("status"), "1 thing to look at"),
        (["matching"], {"objects": {"differing": ["a"]}}, "pending", SAME.format("site"), "1 object to be changed"),
        (["reboot"], {}, "pending", SAME.format("site"), "1 thing to look at"),
        (["refused"], {}, "refused", f"{SAME.format('site')} --diff --check", "1 thing to look at"),
        (["matching"], {}, "failed", SAME.format("status"), "1 thing to look at"),
    ],
)
def test_the_next_step_after_a_status_is_about_what_is_to_be_seen_to_first(
    states: list[str], cluster: Json, word: str, step: str, count: str
) -> None:
    result = classes(*states)
    result["status"].update(cluster=cluster, attention=["something"])
    found = after("status", result, "status")
    assert (found["result"], found["next"].rpartition(": ")[2]) == (word, step)
    assert count in found["counts"]


CORDON = {"node": "gpu-7", "run": RUN, "in_turn": False}
UPGRADE = f"fix the failure of gpu-7 (or go back: rdma.fabric.rollback), then: {SAME.format('upgrade')}"


@pytest.mark.parametrize(
    ("cordoned", "failed", "word", "step"),
    [
        ([], [], "pending", SAME.format("site")),
        ([], [{"node": "gpu-7"}], "failed", UPGRADE),
        ([CORDON], [{"node": "gpu-7"}], "failed", UPGRADE),
        ([CORDON], [], "failed", UPGRADE),
        (
            [{**CORDON, "in_turn": True}],
            [],
            "failed",
            f"wait for the run that has the slot of gpu-7, then: {SAME.format('status')}",
        ),
        (
            [{**CORDON, "run": ""}],
            [],
            "pending",
            f"uncordon gpu-7 (rdma.fabric.node_drain) once they may take pods, then: {SAME.format('site')}",
        ),
    ],
)
def test_what_a_turn_has_left_to_a_person_comes_before_hosts_that_differ(
    cordoned: list[Json], failed: list[Json], word: str, step: str
) -> None:
    result = classes("pending")
    result["status"]["cluster"] = {"cordoned": cordoned, "slots": {"failed": failed}}
    found = after("status", result, "status")
    assert (found["result"], found["next"]) == (word, step)


@pytest.mark.parametrize(("outcome", "word"), [("same", "unchanged"), ("drift", "pending"), ("error", "failed")])
def test_drift_keeps_its_own_word_beside_that_of_all(outcome: str, word: str) -> None:
    summary = {"hosts": {"total": 4, "same": 1, "different": 1, "not_compared": 2}, "objects": {"total": 0}}
    result = {"outcome": outcome, "summary": summary, "drift_json": "/r/drift.json", "drift_xml": "/r/drift.xml"}
    found = after("drift", result, "drift")
    assert (found["outcome"], found["result"], found["report"]) == (outcome, word, "/r/drift.json")
    assert found["counts"] == "hosts: 4 total, 1 same, 1 different, 2 not compared"


def test_what_discovery_wrote_is_given_beside_the_inventory_of_before() -> None:
    result = {
        "changed": True,
        "machine": "",
        "classes": [{"hosts": ["a", "b"]}],
        "unread": ["c"],
        "files": ["/x/hosts.yml"],
        "recap": [],
    }
    found = after("discover", result, "discover")
    assert found["next"].endswith("-i '/a b/hosts.yml' -i /x/hosts.yml")
    assert (found["result"], found["counts"]) == ("changed", "2 hosts in 1 class, 1 host not read")
    assert after("discover", result, "discover", check=True)["result"] == "pending"
    given = ("rdma_fabric_discover_machine=dgx-h100 rdma_fabric_discover_hosts=32", "rdma_fabric_set=a")
    planned = after("discover", {**result, "machine": "dgx-h100"}, "discover", extra=given)
    assert planned["next"].endswith("rdma.fabric.preflight -e rdma_fabric_set=a -i /x/hosts.yml")
    listed = after(
        "discover", {**result, "changed": False, "classes": [], "files": [], "recap": ["a", "b"]}, "discover"
    )
    assert (listed["result"], listed["counts"]) == ("unchanged", "2 machines")


def test_what_hosts_and_pods_say_reaches_no_terminal_as_it_is() -> None:
    result = report("failed")
    result["recap"].append("not ready: Pod/x: \x1b[2Jall\nis \u202ewell")
    assert all(line.isprintable() for line in block(after("report", result)))


def test_findings_are_lines_of_the_block() -> None:
    found = after("report", report("pending", needs_consent=1))
    assert block(found) == [
        "result:   pending",
        "counts:   2 hosts planned",
        "attention: look",
        "report:   /run/report.html",
        "plans:    /run/hosts",
        f"next:     allow what is named above, then: {SAME.format('site')}",
    ]


@pytest.mark.parametrize(("step", "repeats"), [(Step("", "", check=True), True), (Step("", "rdma.fabric.site"), False)])
def test_who_looked_at_differences_is_told_to_look_at_them_again(step: Step, repeats: bool) -> None:
    assert ("--diff" in shlex.split(command({**CLI, "diff": True}, step))) is repeats
    assert "--diff" not in shlex.split(command({**CLI, "diff": False}, step))
    given = step._replace(options=("--diff",))
    assert shlex.split(command({**CLI, "diff": True}, given)).count("--diff") == 1
