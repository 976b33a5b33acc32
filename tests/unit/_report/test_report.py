# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of the report: what it counts, groups, remarks on, and that it follows its published schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import port_state
from ansible_collections.rdma.fabric.plugins.module_utils._report.outcome import outcome_of
from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import nccl_violations
from ansible_collections.rdma.fabric.plugins.module_utils._report.report import (
    keep_volatile,
    of_this_run,
    outline,
    recap_lines,
    report_text,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.needs import needs_view
from ansible_collections.rdma.fabric.tests.unit._proof.test_nccl_run import whole_document as nccl_document
from ansible_collections.rdma.fabric.tests.unit._proof.wire.sample_proof import document as proof_document
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.sample_fleet import report_of

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_bytes())
)
OBJECTS = "9 objects in the cluster, 1 created, 1 changed, 1 deleted"


def test_the_published_schema_is_one() -> None:
    SCHEMA.check_schema(SCHEMA.schema)


@pytest.mark.parametrize("cluster", [None, {"skipped": "this is a preview"}, sample_fleet.batch_result()])
@pytest.mark.parametrize("hosts", [None, []])
def test_every_report_follows_the_published_schema(hosts: Any, cluster: Any) -> None:
    SCHEMA.validate(json.loads(report_text(report_of(hosts, cluster=cluster))))


def test_a_host_that_was_left_behind_needs_attention_and_is_why_nothing_was_pushed() -> None:
    host = sample_fleet.fleet()[0]["host"]
    report = report_of(cluster=None, wanted=["push"], unfinished=[{"host": host, "why": "unreachable: refused"}])
    SCHEMA.validate(json.loads(report_text(report)))
    assert report["summary"]["verdict"] == "attention"
    assert f"attention: A host did not succeed: {host}" in recap_lines(report)
    assert f"remark unfinished: {host}: unreachable: refused" in outline(report)
    assert report["cluster"]["skipped"] == "not every host of the run succeeded"


def test_a_preview_of_which_a_host_failed_blames_no_host_for_what_it_never_pushes() -> None:
    report = report_of(cluster=None, unfinished=[{"host": sample_fleet.fleet()[0]["host"], "why": "unreachable"}])
    assert report["cluster"]["skipped"] == "no cluster was given, so the objects were only rendered"


def test_the_same_input_in_another_order_gives_the_same_bytes() -> None:
    hosts = sample_fleet.fleet()
    assert report_text(report_of(hosts)) == report_text(report_of(list(reversed(copy.deepcopy(hosts)))))


def test_the_input_is_left_as_it_is() -> None:
    hosts = sample_fleet.fleet()
    before = copy.deepcopy(hosts)
    report_of(hosts)
    assert hosts == before


def test_the_headline_counts_what_was_planned_pushed_and_remarked() -> None:
    assert report_of()["summary"]["headline"] == (
        f"7 recorded hosts planned, 54 steps pending, 2 steps refused, {OBJECTS}, 1 workload not ready, "
        "1 workload on no node, 4 remarks"
    )


def test_a_fleet_with_nothing_to_do_is_settled() -> None:
    plain = sample_fleet.document("cpu-01", sample_fleet.plain_facts("cpu-01"), [])
    result = {**sample_fleet.batch_result(), "waits": []}
    summary = report_of([plain], cluster=result)["summary"]
    assert summary["headline"] == f"1 recorded host planned, no step pending, {OBJECTS}, nothing stands out"
    assert summary["verdict"] == "settled"


def test_an_interface_that_no_host_has_is_what_a_settled_fleet_needs() -> None:
    said = "network ai/net: master ens3f0: none of the 2 hosts that were read has an interface of this name"
    report = report_of([PLAIN], cluster={**sample_fleet.batch_result(), "waits": []}, unknown_interfaces=[said])
    SCHEMA.validate(json.loads(report_text(report)))
    summary = report["summary"]
    assert summary["headline"] == f"1 recorded host planned, no step pending, {OBJECTS}, 1 unmet need"
    assert summary["verdict"] == "attention"
    assert recap_lines(report)[:2] == [summary["headline"], f"attention: {said}"]
    assert said in report["notices"]
    (need,) = needs_view(report)["entries"]
    assert (need.place, need.note) == ("notices", "network ai/net: master ens3f0")


def test_workloads_that_nobody_waited_for_are_told() -> None:
    said = [report_of(cluster={**sample_fleet.batch_result(), "unwaited": number})["summary"] for number in (0, 2)]
    lines = [[f"{each['what']}: {each['why']}" for each in summary["not_done"]] for summary in said]
    assert [line for line in lines[1] if line not in lines[0]] == ["Waiting for 2 workloads: rdma_fabric_wait is false"]


@pytest.mark.parametrize("status", ["refused", "planned"])
def test_a_refused_step_needs_attention_and_a_planned_one_waits(status: str) -> None:
    host = sample_fleet.document(
        "h", sample_fleet.plain_facts("h"), [sample_fleet.step("mtu:eno1", "set MTU 9000", status)]
    )
    summary = report_of([host], cluster={**sample_fleet.batch_result(), "waits": []})["summary"]
    assert (summary["verdict"], summary["headline"]) == {
        "refused": (
            "attention",
            f"1 recorded host planned, no step pending, 1 step refused, {OBJECTS}",
        ),
        "planned": (
            "pending",
            f"1 recorded host planned, 1 step pending, {OBJECTS}, nothing stands out",
        ),
    }[status]


PLAIN = sample_fleet.document("cpu-01", sample_fleet.plain_facts("cpu-01"), [])


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ({"failed": True, "msg": "the API server refused"}, "the batch apply failed: the API server refused"),
        (None, "the run failed before the push; its own error says why"),
    ],
)
def test_a_push_that_failed_is_what_a_report_tells_first(cluster: Any, why: str) -> None:
    report = report_of([PLAIN], cluster=cluster, wanted=["push"])
    SCHEMA.validate(json.loads(report_text(report)))
    summary = report["summary"]
    assert (summary["verdict"], summary["failed"]) == ("attention", ["push"])
    assert summary["headline"] == "the push failed, 1 recorded host planned, no step pending, 9 objects rendered"
    assert summary["not_done"][0] == {"what": "The push to a cluster", "why": why}
    assert recap_lines(report)[:2] == [summary["headline"], f"not done: The push to a cluster: {why}"]
    assert [item["what"] for item in summary["not_done"]].count("The push to a cluster") == 1


def test_a_push_that_hosts_kept_from_beginning_has_not_failed_itself() -> None:
    left_behind = [{"host": "cpu-01", "why": "unreachable: refused"}]
    summary = report_of([PLAIN], cluster=None, wanted=["push"], unfinished=left_behind)["summary"]
    assert (summary["verdict"], summary["failed"]) == ("attention", [])
    assert "failed" not in summary["headline"]


def test_a_run_that_never_was_to_push_has_nothing_failed() -> None:
    summary = report_of([PLAIN], cluster=None)["summary"]
    assert (summary["verdict"], summary["failed"]) == ("pending", [])
    assert summary["headline"].endswith("9 objects rendered, nothing stands out")


def test_a_workload_that_is_not_ready_needs_attention() -> None:
    report = report_of([], cluster=sample_fleet.batch_result())
    assert report["summary"]["verdict"] == "attention"
    assert "not ready: DaemonSet/whereabouts: 2 of 5 pods are not ready: ImagePullBackOff" in recap_lines(report)


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ({"created": 38}, "38 objects to create"),
        (
            {"created": 1, "configured": 2, "deleted": 1, "unchanged": 5},
            "8 objects in the cluster, 1 to create, 2 to change, 1 to delete",
        ),
        ({"unchanged": 1, "kept": 1}, "2 objects in the cluster"),
        ({}, "nothing stands out"),
    ],
)
def test_check_mode_says_what_would_become_of_objects_and_claims_none_in_the_cluster(
    actions: dict[str, int], said: str
) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "namespace": "n", "wave": "configs", "fields": []}
    results = [
        {**body, "name": f"{action}-{n}", "action": action} for action, count in actions.items() for n in range(count)
    ]
    report = report_of([], cluster={"results": results, "waits": []}, wanted=["push"], check=True)
    headline = said if said.startswith("nothing") else f"{said}, nothing stands out"
    assert recap_lines(report, check=True) == [headline]


LIVE = [{**entry, "recorded": False} for entry in sample_fleet.fleet()]
PREVIEW: dict[str, Any] = {"cluster": None}
SITE: dict[str, Any] = {"cluster": {"skipped": "no"}, "wanted": ["push"]}


@pytest.mark.parametrize(
    ("run", "undone"),
    [
        (PREVIEW, {}),
        ({**SITE, "hosts": LIVE, "check": True}, {"The push to a cluster": "no"}),
        (
            {**SITE, "hosts": LIVE},
            {"The push to a cluster": "no", "50 planned steps": "the hosts were read and planned"},
        ),
        (SITE, {"The push to a cluster": "no", "50 planned steps": "recorded hosts are only planned"}),
    ],
    ids=["preview", "check", "site", "recorded"],
)
def test_only_what_the_playbook_does_is_named_as_not_done(run: dict[str, Any], undone: dict[str, str]) -> None:
    report = report_of(**run)
    assert {item["what"]: item["why"] for item in report["summary"]["not_done"]} == undone
    lines = recap_lines(report)
    assert [line for line in lines if line.startswith("not done: ")] == [
        f"not done: {a}: {b}" for a, b in undone.items()
    ]
    assert "consent: 1 step: set rdma_fabric_allow_vf_reset" in lines
    assert "reboot: driver: takes effect with the next boot" in lines


def test_the_result_is_of_this_runs_hosts_and_shows_the_others() -> None:
    hosts = sample_fleet.fleet()
    egx = [entry["host"] for entry in hosts if entry["host"].startswith("egx")]
    others = [entry for entry in hosts if entry["host"] not in egx]
    # As a limited run finds the documents of a whole one: egx has refused steps.
    limited = report_of(hosts, cluster=None, earlier=egx, left_out=egx)
    alone = report_of(others, cluster=None)
    SCHEMA.validate(json.loads(report_text(limited)))
    assert (limited["summary"]["outcome"], report_of(hosts, cluster=None)["summary"]["outcome"]) == (
        "pending",
        "refused",
    )
    assert limited["summary"] == alone["summary"]
    assert recap_lines(limited) == recap_lines(alone)
    assert {row["name"] for row in limited["hosts"] if row["earlier"]} == {*egx}


def test_a_proof_of_an_earlier_run_is_shown_and_decides_nothing() -> None:
    failed = proof_document(["rdma-1", "rdma-2"], bad=("rdma-2",))
    given: dict[str, Any] = {"hosts": [PLAIN], "rendered": [], "cluster": None, "validation": failed}
    earlier, own = report_of(**given), report_of(**given, proof={"verdict": "fail", "failed": True}, wanted=["proof"])
    assert earlier["validation"] == own["validation"] is not None
    assert (earlier["summary"]["outcome"], earlier["summary"]["pairs"]) == ("unchanged", None)
    assert own["summary"]["outcome"] == "failed"
    assert "failed on the wire" not in "\n".join(recap_lines(earlier))


def test_nccl_tests_of_an_earlier_run_are_shown_and_those_of_this_one_decide() -> None:
    document = nccl_document()
    assert nccl_violations("nccl.json", document) == []
    given: dict[str, Any] = {"hosts": [PLAIN], "rendered": [], "cluster": None, "nccl": document}
    earlier = report_of(**given)
    own = report_of(**given, nccl_result={"failed": True, "verdict": "fail", "msg": "sockets"}, wanted=["nccl"])
    broke = report_of(**given, nccl_result={"failed": True, "msg": "no image"}, wanted=["nccl"])
    for report in (earlier, own, broke):
        SCHEMA.validate(json.loads(report_text(report)))
    assert [each["summary"]["outcome"] for each in (earlier, own, broke)] == ["unchanged", "failed", "failed"]
    assert earlier["nccl"] == own["nccl"] is not None and broke["nccl"] is None
    assert "the NCCL test failed" in own["summary"]["headline"]


@pytest.mark.parametrize(
    ("change", "told"),
    [({"format": "rdma.fabric/nccl/v9"}, "format: is 'rdma.fabric/nccl/v9'"), ({"nodes": "a"}, "nodes: is the text")],
)
def test_another_document_of_nccl_tests_is_refused_by_place(change: dict[str, Any], told: str) -> None:
    (found,) = nccl_violations("nccl.json", {**nccl_document(), **change})
    assert found.sentence().startswith(f"nccl.json: {told}") and "rdma.fabric.nccl" in found.hint


def test_a_workload_without_a_node_is_said_to_run_nowhere() -> None:
    undone = {item["what"] for item in report_of()["summary"]["not_done"]}
    assert "Pods of 1 workload" in undone


@pytest.mark.parametrize(
    ("carrier", "speed", "told"),
    [
        (True, 100_000, ("up", "Ethernet", 100.0)),
        (True, -1, ("up", "Ethernet", None)),
        (False, None, ("down", "Ethernet", None)),
        (None, None, ("unknown", None, None)),
    ],
)
def test_a_port_without_an_rdma_device_is_told_by_its_interface(
    carrier: bool | None, speed: int | None, told: tuple[str, str | None, float | None]
) -> None:
    facts = sample_fleet.h100_facts("h")
    address = sample_fleet.STORAGE[0][0]
    facts["rdma"] = [device for device in facts["rdma"] if device["pci"] != address]
    (netdev,) = [netdev for netdev in facts["netdevs"] if netdev["pci"] == address]
    netdev.update(carrier=carrier, speed_mbps=speed)
    state = port_state(facts, address)
    assert (state["state"], state["layer"], state["rate_gbps"]) == told


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ({"name": "Debian GNU/Linux 13 (trixie)", "id": "debian", "version_id": "13"}, "Debian GNU/Linux 13 (trixie)"),
        ({"name": None, "id": "debian", "version_id": "13"}, "debian 13"),
        ({"name": None, "id": "arch", "version_id": None}, "arch"),
        ({"name": None, "id": None, "version_id": None}, None),
    ],
)
def test_an_operating_system_is_called_as_far_as_it_is_known(system: dict[str, Any], told: str | None) -> None:
    facts = sample_fleet.h100_facts("h")
    facts["system"]["os"] = system
    assert report_of([sample_fleet.document("h", facts, [])])["hosts"][0]["os"] == told


def test_nics_are_counted_by_family_and_their_virtual_functions_apart() -> None:
    facts = sample_fleet.h100_facts("h")
    (first, *_others) = [nic for nic in facts["nics"] if nic["family"] == "ConnectX-7"]
    for number in range(3):
        function = {
            "address": f"0000:18:01.{number}",
            "function": "vf",
            "pf": first["address"],
            "netdevs": [],
            "rdma": [],
        }
        facts["nics"].append({**first, **function})
    facts["nics"].append({**first, "address": "0000:05:00.0", "vendor": "8086", "family": None, "device": "159b"})
    row = report_of([sample_fleet.document("h", facts, [])])["hosts"][0]
    assert row["nics"] == [
        {"family": "ConnectX-7", "physical": 8, "virtual": 3},
        {"family": "BlueField-3", "physical": 4, "virtual": 0},
    ]
    assert row["other_nics"] == 1


def test_what_a_push_and_the_input_say_alike_is_said_once() -> None:
    pushed = {**sample_fleet.batch_result(), "notices": ["of the push", "of both", "of both"]}
    assert report_of(cluster=pushed, notices=["of both"])["notices"] == ["of both", "of the push"]


def test_hosts_are_listed_in_the_order_people_count() -> None:
    hosts = [sample_fleet.document(f"gpu-{n}", sample_fleet.plain_facts("h"), []) for n in (10, 2, 1)]
    assert [row["name"] for row in report_of(hosts)["hosts"]] == ["gpu-1", "gpu-2", "gpu-10"]


def test_hosts_with_equal_plans_share_one() -> None:
    plans = {tuple(plan["hosts"]): plan for plan in report_of()["plans"]}
    shared = plans[("dgx-h100-01", "dgx-h100-02")]
    assert shared["counts"] == {"total": 11, "planned": 10, "needs_consent": 0, "refused": 0, "needs_reboot": 1}
    assert plans[("egx-01", "egx-02")]["counts"]["refused"] == 1


def test_what_a_run_executed_is_counted_and_said() -> None:
    steps = [{"id": f"mtu:{n}", "line": "planned: mtu", "seconds": 0.1} for n in range(3)]
    documents = [sample_fleet.document(f"gpu-{n}", sample_fleet.plain_facts("h"), []) for n in (1, 2)]
    documents[0]["run"] = {"executed": steps}
    report = report_of(documents)
    assert [row["executed"] for row in report["hosts"]] == [3, 0]
    assert report["summary"]["executed"] == 3
    assert "3 steps executed" in report["summary"]["headline"]
    assert "executed" not in report_of()["summary"]["headline"]


def test_objects_stand_in_their_wave_with_what_changed() -> None:
    waves = {wave["name"]: wave["objects"] for wave in report_of()["cluster"]["waves"]}
    assert list(waves) == ["namespaces", "crds", "rbac", "configs", "workloads", "networks", "prune"]
    assert waves["workloads"][0]["fields"] == ["spec.template.spec.containers[0].image"]
    assert waves["prune"][0]["action"] == "deleted"


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (None, "no cluster was given, so the objects were only rendered"),
        ({"skipped": "this is a preview"}, "this is a preview"),
        (
            {"changed": False, "skipped": True, "skip_reason": "Conditional result was False"},
            "Conditional result was False",
        ),
        ({"failed": True, "msg": "the API server refused"}, "the batch apply failed: the API server refused"),
        ({}, "the batch apply gave no result"),
    ],
)
def test_without_a_push_the_rendered_objects_are_listed_and_the_reason_is_said(cluster: Any, reason: str) -> None:
    section = report_of(cluster=cluster)["cluster"]
    assert section["skipped"] == reason
    assert section["counts"]["rendered"] == section["counts"]["total"] == 9


def test_a_run_that_wants_nothing_of_a_cluster_says_why_none_was_asked() -> None:
    skipped = {"changed": False, "skipped": True, "skip_reason": "Conditional result was False"}
    section = report_of(cluster=skipped, rendered=[])["cluster"]
    assert section["skipped"] == "the input has nothing for a cluster, so none was contacted"


def test_images_say_who_uses_them_and_whether_the_digest_is_pinned() -> None:
    images = {entry["image"].split("/")[-1].split("@")[0].split(":")[0]: entry for entry in report_of()["images"]}
    assert images["multus-cni"] == {
        "image": "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.0.2",
        "pinned": False,
        "used_by": ["DaemonSet/kube-multus-ds"],
    }
    assert images["whereabouts"]["pinned"]


def test_images_of_init_containers_and_of_nested_templates_are_found() -> None:
    pod = {"initContainers": [{"name": "i", "image": "a/init:1"}], "containers": [{"name": "c", "image": "a/main:1"}]}
    job = {"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, **job}
    images = report_of(rendered=[{"name": "objects", "objects": [cron]}])["images"]
    assert [entry["image"] for entry in images] == ["a/init:1", "a/main:1"]


def test_an_unchanged_report_keeps_its_time_and_measurements() -> None:
    older = report_of()
    again = {**sample_fleet.batch_result(), "requests": {"list": 9}}
    newer = report_of(generated_at="2026-02-02T02:02:02Z", cluster=again)
    assert report_text(keep_volatile(newer, older)) == report_text(older)


def test_a_changed_report_takes_the_new_time() -> None:
    older = report_of()
    newer = report_of(generated_at="2026-02-02T02:02:02Z", title="Another title")
    assert keep_volatile(newer, older)["generated_at"] == "2026-02-02T02:02:02Z"


@pytest.mark.parametrize("older", [None, [], {}, {"format": "rdma.fabric/report/v1"}, "text"])
def test_something_else_in_place_of_the_older_report_is_ignored(older: Any) -> None:
    report = report_of()
    assert keep_volatile(report, older) == report


def test_the_outline_shows_each_thing_that_may_change() -> None:
    healthy, broken = sample_fleet.h100_facts("a"), sample_fleet.h100_facts("a")
    sample_fleet.port_down(broken, "0000:18:00.0")
    before = outline(report_of([sample_fleet.document("a", healthy, [])]))
    after = outline(report_of([sample_fleet.document("a", broken, [])], cluster={"skipped": "preview"}))
    changed = set(after) - set(before)
    assert any(line.startswith("host a: ") and "1 down, 11 up" in line for line in changed)
    assert "remark rail_down: a: mlx5_0 rail 0, down, Polling" in changed
    assert "object Namespace/nvidia-network-operator: rendered" in changed


def quiet(objects: dict[str, int] | None = None, *, executed: bool = False, status: str = "") -> dict[str, Any]:
    """Return a report of one host and a cluster, with a step of this status, and these numbers of objects."""
    host = copy.deepcopy(sample_fleet.fleet()[0])
    step = next(each for document in sample_fleet.fleet() for each in document["plan"]["steps"])
    detail = {"status": status, "detail": "the driver has no such setting"}
    host["plan"] = {**host["plan"], "steps": [{**step, **detail}] if status else []}
    if executed:
        host["run"] = {"executed": [{"id": "a", "line": "a", "seconds": 1.0}]}
    cluster = {**sample_fleet.batch_result(), "objects": [], "waits": []}
    report = report_of([host], cluster=cluster, rendered=[])
    report["summary"]["objects"].update(objects or {})
    return report


def test_nothing_to_do_changed_pending_and_refused_are_told_apart() -> None:
    def of(report: dict[str, Any], *unfinished: str, check: bool = False) -> str:
        return outcome_of(report, unfinished, check=check)

    none = {"created": 0, "configured": 0, "deleted": 0}
    assert of(quiet(none)) == "unchanged"
    assert of(quiet(none), check=True) == "unchanged"
    assert of(quiet(none, executed=True)) == "changed"
    assert of(quiet({**none, "created": 1})) == "changed"
    assert of(quiet({**none, "created": 1}), check=True) == of(quiet({**none, "rendered": 1})) == "pending"
    for status in ("planned", "needs_consent", "needs_reboot"):
        assert of(quiet(none, status=status)) == "pending"
    refused = quiet(none, status="refused")
    name = refused["hosts"][0]["name"]
    assert of(refused) == of(refused, name) == "refused"
    assert of(refused, name, "another") == of(quiet(none), name) == "failed"
    older = {**refused, "hosts": [{**refused["hosts"][0], "earlier": True}]}
    assert of(of_this_run(older), name) == "failed", "the refused plan is an older one"


@pytest.mark.parametrize(
    ("part", "outcome"),
    [
        ({"failed": "the push met an error"}, "failed"),
        ({"pairs": {"total": 3, "pass": 2, "reported": 0, "skipped": 0, "fail": 1}}, "failed"),
        ({"pairs": {"total": 3, "pass": 1, "reported": 1, "skipped": 1, "fail": 0}}, "refused"),
        ({"waits": {"total": 3, "ready": 2}}, "failed"),
        ({"waits": {"total": 3, "ready": 3}}, "refused"),
    ],
)
def test_a_push_a_pair_or_a_workload_that_failed_is_told_before_what_was_refused(
    part: dict[str, Any], outcome: str
) -> None:
    report = quiet(status="refused")
    report["summary"].update(part)
    assert outcome_of(report, [], check=False) == outcome


def test_the_recap_has_the_reason_of_every_refused_step_up_to_ten() -> None:
    lines = recap_lines(quiet(status="refused"))
    (line,) = [line for line in lines if line.startswith("refused: ")]
    assert line.endswith(" - the driver has no such setting")
    report = quiet(status="refused")
    for hosts, told in ((["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more")):
        report["plans"][0]["hosts"] = hosts
        assert any(line.startswith(f"refused: {told}: ") for line in recap_lines(report))
    report["plans"][0]["steps"] *= 12
    lines = [line for line in recap_lines(report) if line.startswith("refused: ")]
    assert (len(lines), lines[-1]) == (11, "refused: 2 more")
