# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_report: reads a run directory, writes the report, and does neither twice nor by halves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import fabric_report
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import documents
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run directory that holds the sample fleet."""
    for document in sample_fleet.fleet():
        write_document(tmp_path, document["host"], document)
    return tmp_path


def write_document(run_dir: Path, name: str, document: Any) -> Path:
    (run_dir / "hosts").mkdir(exist_ok=True)
    path = run_dir / "hosts" / f"{name}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def report(
    run_dir: Path,
    *,
    check: bool = False,
    diff: bool = False,
    task_vars: dict[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "run_dir": str(run_dir),
        "spec": sample_fleet.spec([entry["host"] for entry in sample_fleet.fleet()]),
        "rendered": sample_fleet.waves(),
        "cluster": sample_fleet.batch_result(),
        "notices": ["a notice"],
    }
    return run_action("fabric_report", {**given, **arguments}, check=check, diff=diff, task_vars=task_vars)


def written(run_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run_dir.iterdir() if path.is_file()}


def test_a_part_of_a_run_writes_nothing_and_tells_the_same(run_dir: Path) -> None:
    part = report(run_dir, write=False)
    assert (part["changed"], written(run_dir)) == (False, {})
    assert report(run_dir)["recap"] == part["recap"]


def test_both_files_are_written_and_named(run_dir: Path) -> None:
    result = report(run_dir)
    assert result["changed"] is True
    assert sorted(written(run_dir)) == ["report.html", "report.json"]
    assert result["report_json"] == str(run_dir / "report.json")
    assert result["report_html"] == str(run_dir / "report.html")
    assert result["recap"][0] == result["summary"]["headline"]
    stored = json.loads((run_dir / "report.json").read_text(encoding="utf-8"))
    assert stored["summary"] == result["summary"]
    assert result["summary"]["hosts"] == {"total": 7, "recorded": 7}


def test_hosts_that_the_run_was_not_to_read_need_no_attention_and_are_shown_as_they_were(run_dir: Path) -> None:
    names = [entry["host"] for entry in sample_fleet.fleet()]
    spec = sample_fleet.spec([*names, "gpu-new"])
    assert "was not read: gpu-new" in "\n".join(report(run_dir, spec=spec)["recap"])
    recap = "\n".join(report(run_dir, spec=spec, hosts_read=False)["recap"])
    assert "gpu-new" not in recap
    assert f"not read in this run: {len(names)} hosts are shown as an earlier one found them" in recap
    assert "which the limit leaves out" not in recap


def test_documents_of_another_inventory_are_left_out(run_dir: Path) -> None:
    name = sample_fleet.fleet()[0]["host"]
    assert report(run_dir, spec=sample_fleet.spec([name]))["summary"]["hosts"]["total"] == 1
    assert report(run_dir, spec=None)["summary"]["hosts"]["total"] == 7


def notices_of(run_dir: Path) -> list[str]:
    found: list[str] = json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["notices"]
    return [text for text in found if text != "a notice"]


def test_a_network_on_an_interface_that_no_host_has_is_said_on_the_screen_and_in_the_report(run_dir: Path) -> None:
    network = {
        "kind": "MacvlanNetwork",
        "name": "net",
        "source": "n",
        "spec": {"networkNamespace": "ai", "master": "rail9"},
    }
    spec = sample_fleet.spec([entry["host"] for entry in sample_fleet.fleet()])
    recap = report(run_dir, spec={**spec, "networks": [network]})["recap"]
    (text,) = notices_of(run_dir)
    assert text.startswith("network ai/net: master rail9: none of the 7 hosts that were read has an interface of this")
    assert f"attention: {text}" in recap
    assert "attention: net: no pod starts" in report(run_dir, unmet=["net: no pod starts"])["recap"]
    pushed = sample_fleet.batch_result()
    removed = {**pushed, "results": [{**row, "action": "deleted"} for row in pushed["results"]]}
    recap = report(run_dir, spec={**spec, "networks": [network]}, cluster=removed)["recap"]
    assert not any("rail9" in line for line in recap), "what a teardown takes away"


def test_hosts_that_the_limit_leaves_out_are_named_with_the_time_of_what_is_shown(run_dir: Path) -> None:
    names = [entry["host"] for entry in sample_fleet.fleet()]
    for name in names:
        os.utime(run_dir / "hosts" / f"{name}.json", (1_700_000_000, 1_700_000_000))
    task_vars = {"groups": {"all": names}, "ansible_limit": ",".join(names[1:])}
    said = f"not read in this run: 1 host is shown as an earlier one found it: {names[0]} (since 2023-11-14 22:13 UTC)"
    assert said in report(run_dir, task_vars=task_vars)["recap"]
    assert said in notices_of(run_dir)
    report(run_dir, task_vars={"groups": {"all": names}})
    assert [text for text in notices_of(run_dir) if "not read" in text] == []


def test_hosts_that_the_limit_leaves_out_and_nobody_has_read_are_counted_and_need_no_attention(run_dir: Path) -> None:
    names = [entry["host"] for entry in sample_fleet.fleet()]
    for name in names[2:]:
        (run_dir / "hosts" / f"{name}.json").unlink()
    spec, said = sample_fleet.spec(names), "not in this report: 4 hosts, which the limit leaves out"
    limited = {"groups": {"all": names}, "ansible_limit": ",".join(names[:3])}
    recap = report(run_dir, spec=spec, task_vars=limited)["recap"]
    assert [line for line in recap if "not read" in line and "attention" in line] == [
        f"attention: A host of the inventory was not read: {names[2]}"
    ]
    assert [line for line in recap if line.startswith(said)] == [text for text in notices_of(run_dir) if said in text]
    assert any(said in text for text in notices_of(run_dir))


def test_a_host_that_was_not_reached_is_shown_as_of_an_earlier_run_and_one_that_failed_is_not(run_dir: Path) -> None:
    lost, failed = (entry["host"] for entry in sample_fleet.fleet()[:2])
    results = {lost: {"unreachable": True}, failed: {"failed": True, "summary": {}}}
    task_vars = {"hostvars": {host: {"rdma_fabric_host_result": result} for host, result in results.items()}}
    report(run_dir, task_vars=task_vars, unfinished=[{"host": host, "why": "-"} for host in results])
    (said,) = [text for text in notices_of(run_dir) if "not read" in text]
    assert f"found it: {lost} (since " in said
    assert failed not in said


def test_in_a_play_without_fabric_hosts_the_results_of_hosts_say_who_failed(run_dir: Path) -> None:
    first, second = sorted(path.stem for path in (run_dir / "hosts").iterdir())[:2]
    results = {first: {"failed": True, "msg": "no recording"}, second: {"summary": {}}}
    hostvars = {host: {"rdma_fabric_host_result": result} for host, result in results.items()}
    given: dict[str, Any] = {"spec": sample_fleet.spec([first, second]), "task_vars": {"hostvars": hostvars}}
    result = report(run_dir, cluster=None, wanted=[], **given)
    assert result["outcome"] == "failed"
    assert any(f"found it: {first} (since" in line for line in result["recap"])
    assert report(run_dir, cluster=None, wanted=[], **given, unfinished=[])["outcome"] != "failed"


def test_a_host_that_failed_before_it_was_read_did_not_fail_for_what_an_earlier_run_refused(run_dir: Path) -> None:
    refused = [each for each in sample_fleet.fleet() if any(s["status"] == "refused" for s in each["plan"]["steps"])]
    host = refused[0]
    spec, unfinished = sample_fleet.spec([host["host"]]), [{"host": host["host"], "why": "-"}]
    for found, outcome in (({"failed": True}, "failed"), ({"failed": True, "summary": {}}, "refused")):
        task_vars = {"hostvars": {host["host"]: {"rdma_fabric_host_result": found}}}
        result = report(run_dir, spec=spec, task_vars=task_vars, unfinished=unfinished, cluster=None, wanted=[])
        assert result["outcome"] == outcome


def test_a_second_run_changes_nothing_at_a_later_time(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report(run_dir)
    before = written(run_dir)
    monkeypatch.setattr(fabric_report, "now", lambda: "2033-03-03T03:03:03Z")
    again = report(run_dir, cluster={**sample_fleet.batch_result(), "requests": {"list": 80}})
    assert again["changed"] is False
    assert written(run_dir) == before


def test_a_change_is_written_with_its_own_time(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report(run_dir)
    monkeypatch.setattr(fabric_report, "now", lambda: "2033-03-03T03:03:03Z")
    assert report(run_dir, title="Another title")["changed"] is True
    assert json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["generated_at"] == "2033-03-03T03:03:03Z"


def test_a_page_that_was_touched_is_written_again(run_dir: Path) -> None:
    report(run_dir)
    before = written(run_dir)
    (run_dir / "report.html").write_text("touched", encoding="utf-8")
    assert report(run_dir)["changed"] is True
    assert written(run_dir) == before


def test_check_mode_predicts_and_writes_nothing(run_dir: Path) -> None:
    assert report(run_dir, check=True)["changed"] is True
    assert written(run_dir) == {}
    report(run_dir)
    before = written(run_dir)
    assert report(run_dir, check=True)["changed"] is False
    assert report(run_dir, check=True, title="Another title")["changed"] is True
    assert written(run_dir) == before


def test_diff_mode_shows_what_differs_and_only_then(run_dir: Path) -> None:
    first = report(run_dir, diff=True)["diff"]
    assert first["before"] == ""
    assert "host dgx-h100-01: 11 steps" in first["after"]
    assert "diff" not in report(run_dir, diff=True)
    changed = report(run_dir, diff=True, check=True, notices=["another notice"])["diff"]
    assert set(changed["after"].splitlines()) ^ set(changed["before"].splitlines()) == {
        "notice a notice",
        "notice another notice",
    }
    assert "diff" not in report(run_dir, title="x")


@pytest.mark.parametrize("older", ["no JSON", "[]", '{"format": "other"}', "\udc80", "[" * 200_000])
def test_something_else_in_place_of_the_report_is_replaced_only_where_that_is_said(run_dir: Path, older: str) -> None:
    (run_dir / "report.json").write_bytes(older.encode("utf-8", "surrogateescape"))
    for check in (True, False):
        refused = report(run_dir, check=check)
        assert refused["failed"] is True
        assert refused["msg"].startswith(
            f"not written, as no report of this collection is there: {run_dir}/report.json."
        )
    assert written(run_dir) == {"report.json": older.encode("utf-8", "surrogateescape")}
    assert report(run_dir, diff=True, overwrite=True)["changed"] is True
    assert json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["format"] == "rdma.fabric/report/v1"


def test_a_page_of_somebody_else_stays(run_dir: Path) -> None:
    (run_dir / "report.html").write_text("mine", encoding="utf-8")
    assert "report.html. Move it away" in report(run_dir)["msg"]
    assert written(run_dir) == {"report.html": b"mine"}


@pytest.mark.parametrize("older", ["", '{"format": "rdma.fabric/report/v1"}'])
def test_an_empty_file_and_an_older_report_are_replaced(run_dir: Path, older: str) -> None:
    (run_dir / "report.json").write_text(older, encoding="utf-8")
    assert report(run_dir, diff=True)["changed"] is True
    assert json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["format"] == "rdma.fabric/report/v1"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not JSON"),
        (b'{"host": "a"', "is not JSON"),
        (b"\x1f\x8b\x08\x00binary", "is not text in UTF-8"),
        (b'{"host": NaN}', "NaN is not a JSON value"),
        (b"[" * 200_000, "is nested too deep"),
        (b"[]", "is a list, not a mapping"),
        (b'{"host": "a"}', "facts: is missing"),
    ],
)
def test_a_broken_file_is_named_and_nothing_is_written(run_dir: Path, content: bytes, problem: str) -> None:
    (run_dir / "hosts" / "broken.json").write_bytes(content)
    result = report(run_dir)
    assert result["failed"] is True
    assert str(run_dir / "hosts" / "broken.json") in result["msg"]
    assert problem in result["msg"]
    assert result["changed"] is False
    assert written(run_dir) == {}


def test_all_broken_files_are_named_at_once(run_dir: Path) -> None:
    for name in ("one", "two"):
        (run_dir / "hosts" / f"{name}.json").write_text("{", encoding="utf-8")
    assert len(report(run_dir)["violations"]) == 2


def test_an_oversized_file_is_refused_unread(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 100)
    assert "more than the 100 that are read of one document" in report(run_dir)["msg"]


def test_two_files_about_one_host_are_refused(run_dir: Path) -> None:
    write_document(run_dir, "copy", sample_fleet.fleet()[0])
    assert "is about 'dgx-h100-01', and so is copy.json" in report(run_dir)["msg"]


def test_wrong_results_of_the_tasks_before_are_refused(run_dir: Path) -> None:
    result = report(run_dir, cluster={"results": [{}]}, rendered=[{"name": "rbac"}], spec={"hosts": []})
    assert {violation["source"] for violation in result["violations"]} == {"cluster", "rendered", "spec"}
    assert written(run_dir) == {}


def test_an_empty_run_directory_is_made_and_its_hosts_are_missed(tmp_path: Path) -> None:
    result = report(tmp_path / "new" / "run", cluster=None)
    assert result["summary"]["hosts"]["total"] == 0
    assert result["summary"]["remarks"]["attention"] == 7
    assert (tmp_path / "new" / "run" / "report.html").exists()


def test_a_file_in_place_of_the_run_directory_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    failed = run_action("fabric_report", {"run_dir": str(tmp_path / "run")})
    assert failed["failed"] is True
    assert f"the run directory {tmp_path / 'run'}: " in failed["msg"]
    assert "make it writable, or give another one" in failed["msg"]


def test_run_dir_is_required_and_unknown_options_are_refused(tmp_path: Path) -> None:
    assert "run_dir" in run_action("fabric_report", {})["msg"]
    assert "colour" in run_action("fabric_report", {"run_dir": str(tmp_path), "colour": "red"})["msg"]


def test_what_the_wire_tests_of_the_run_have_found_is_among_its_notices(run_dir: Path) -> None:
    names = [entry["host"] for entry in sample_fleet.fleet()]
    variables: dict[str, Any] = {name: {} for name in names}
    variables[names[0]] = {
        "_rdma_fabric_host_wire": {"notices": ["rail0: b fails with a, which passes with c: look at b"]}
    }
    report(run_dir, task_vars={"hostvars": variables, "groups": {"all": names}})
    told = json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["notices"]
    assert "look at b" in str(told)


def test_nodes_that_were_given_back_and_stay_cordoned_by_somebody_else_are_named_at_the_end(run_dir: Path) -> None:
    names = [entry["host"] for entry in sample_fleet.fleet()]
    ends = [{"cordoned": True}, {"cordoned": False}, {"cordoned": True, "failed": True}, {"skipped": True}]
    given_back = {name: {"node": f"node-{name}", **end} for name, end in zip(names, ends)}
    variables: dict[str, Any] = {name: {"_rdma_fabric_host_given_back": given_back.get(name, {})} for name in names}
    result = report(run_dir, task_vars={"hostvars": variables, "groups": {"all": names}})
    told = json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["notices"]
    for lines in (result["recap"], told):
        (line,) = [str(each) for each in lines if "still cordoned" in str(each)]
        assert f"somebody else did that: node-{names[0]} (kubectl uncordon" in line


def test_hosts_that_had_no_turn_are_named_unless_the_run_fails_for_them(run_dir: Path) -> None:
    names = [entry["host"] for entry in sample_fleet.fleet()]
    kept = [{"host": host, "msg": "why", "failed": failed} for host, failed in ((names[0], False), (names[1], True))]
    variables: dict[str, Any] = {
        **{name: {} for name in names},
        "localhost": {"_rdma_fabric_turns": {"left_out": kept}},
    }
    report(run_dir, task_vars={"hostvars": variables, "groups": {"all": names}})
    told = json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["notices"]
    (named,) = [each for each in told if "without a turn" in str(each)]
    assert str(named).count(names[0]) == 1
    assert not any(name in str(named) for name in names[1:])


def test_a_document_that_an_earlier_run_has_left_broken_of_a_host_that_failed_again_ends_no_report(
    run_dir: Path,
) -> None:
    first, *others = [entry["host"] for entry in sample_fleet.fleet()]
    (run_dir / "hosts" / f"{first}.json").write_text('{"host": 7}', encoding="utf-8")
    spec = sample_fleet.spec([first, *others])
    assert f"hosts/{first}.json" in report(run_dir, spec=spec)["msg"]
    why = "failed: it has answered what can't be read"
    result = report(run_dir, spec=spec, unfinished=[{"host": first, "why": why}])
    assert not result.get("failed")
    assert (result["outcome"], result["summary"]["hosts"]["total"]) == ("failed", len(others))
    assert f"attention: A host did not succeed: {first}" in result["recap"]
