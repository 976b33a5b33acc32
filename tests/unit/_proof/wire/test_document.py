# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a proof, its JUnit, its section in the report and on the page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Callable

import jsonschema
import pytest

from ansible_collections.rdma.fabric.plugins.action.fabric_verify import explained, recap_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import (
    accused_lines,
    any_cpu_lines,
    document_text,
    failure_lines,
    headline,
    held_back_lines,
    left_out_lines,
    slow_lines,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.junit import junit_text
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.placement import NO_TASKSET
from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import verification_violations
from ansible_collections.rdma.fabric.plugins.module_utils._report.report import build_report, outline, recap_lines
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import render_page
from ansible_collections.rdma.fabric.tests.unit._proof.wire.sample_proof import document

Json = dict[str, Any]

SCHEMA, OF_VERIFY = (
    jsonschema.Draft202012Validator(
        json.loads((Path(__file__).parents[4] / "docs" / f"{name}.schema.json").read_bytes())
    )
    for name in ("report", "verify")
)
TWO = ["rdma-1", "rdma-2"]
EIGHT = [f"dgx-{number:02d}" for number in range(1, 9)]
HOSTILE = ["<script>alert(1)</script>", '"&\x00\ud800', "{{ 7 * 7 }}", "\u202egpj.exe"]


def report_of(shown: Json | None, **others: Any) -> Json:
    inputs: Json = {
        "spec": None,
        "hosts": [],
        "cluster": None,
        "rendered": [],
        "notices": [],
        "generated_at": "2026-01-02T03:04:05Z",
        "title": "Proof",
        "validation": shown,
        "proof": shown and {"verdict": shown["verdict"]},
    }
    return build_report(**{**inputs, **others})


def parsed(text: str) -> ET.Element:
    """Return the root of an XML text, which is refused unless it is well formed."""
    parser: Any = ET.XMLPullParser(["end"])
    parser.feed(text.encode())
    parser.close()
    root: ET.Element = list(parser.read_events())[-1][1]
    return root


PROOFS: dict[str, Callable[[], Json]] = {
    "passed": lambda: document(TWO),
    "reported": lambda: document(TWO, soft=True),
    "failed": lambda: document(TWO, bad=("rdma-2",)),
    "eight": lambda: document(EIGHT, bad=("dgx-03",), slow=("dgx-05",), networks=2),
    "hostile": lambda: document(HOSTILE, bad=(HOSTILE[0],)),
}


@pytest.fixture(params=sorted(PROOFS))
def proof(request: pytest.FixtureRequest) -> Json:
    return PROOFS[request.param]()


def test_what_is_written_is_what_the_report_reads(proof: Json) -> None:
    written = json.loads(document_text(proof))
    assert verification_violations("verify.json", written) == []
    OF_VERIFY.validate(written)


def test_the_report_follows_the_published_schema(proof: Json) -> None:
    SCHEMA.validate(json.loads(json.dumps(report_of(proof))))


def test_a_passed_proof_says_so_everywhere() -> None:
    proof = document(TWO)
    assert (proof["verdict"], headline(proof), failure_lines(proof), accused_lines(proof)) == (
        *("pass", "1 pair tested: 1 pass"),
        *([], []),
    )
    summary = report_of(proof)["summary"]
    assert summary["headline"].startswith("1 pair proved on the wire")
    assert summary["verdict"] != "attention"
    assert summary["pairs"] == {"total": 1, "pass": 1, "reported": 0, "skipped": 0, "fail": 0}


def test_a_failed_proof_names_pair_rail_test_cause_and_next_step() -> None:
    proof = document(EIGHT, bad=("dgx-03",), networks=2)
    line = next(line for line in failure_lines(proof, 1000) if "dgx-03 - dgx-04" in line and "rail 1" in line)
    for words in ("rail 1 (default/rail1)", "ping from dgx-03 to dgx-04", "no answer", "wire between", "check cable"):
        assert words in line
    assert accused_lines(proof) == [
        "rail 0 (default/rail0), rail 1 (default/rail1): dgx-03 on all networks fails: 14 pairs, all with "
        "partners that are good"
    ]
    report = report_of(proof)
    assert report["summary"]["verdict"] == "attention"
    assert any(line.startswith("attention: ") and "dgx-03" in line for line in recap_lines(report))
    assert any(line == "pair dgx-03 - dgx-04 on rail 1 (default/rail1): fail" for line in outline(report))


def _odd(verdict: str) -> Json:
    says = "MTU 1500 at 1 of 2 ports of rail 0 (default/rail0), 9000 at 1: a-node-of-a-long-name/rail0 <b>"
    found: Json = {
        "verdict": verdict,
        "kind": "mtu",
        "network": "default/rail0",
        "says": says,
        "ports": ["rdma-2/rail0"],
    }
    return {**found, "next_step": "set the same mtu"}


@pytest.mark.parametrize("verdict", ["fail", "reported", "unknown"])
def test_ports_that_differ_are_told_everywhere_and_fail_where_traffic_would(verdict: str) -> None:
    proof = document(TWO, parity=[_odd(verdict)])
    fails = verdict == "fail"
    assert proof["verdict"] == ("fail" if fails else "pass")
    assert headline(proof) == "1 pair tested: 1 pass" + ("; ports are not alike" if fails else "")
    assert f"{_odd(verdict)['says']} (set the same mtu)" in explained(proof)
    assert verification_violations("verify.json", json.loads(document_text(proof))) == []
    suite = parsed(junit_text(proof)).find("testsuite[@name='ports']")
    assert suite is not None
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == [
        *("1", str(int(fails)), str(int(verdict == "unknown"))),
    ]
    report = report_of(proof)
    SCHEMA.validate(json.loads(json.dumps(report)))
    assert ("1 pair tested, and ports are not alike" in report["summary"]["headline"]) == fails
    assert (f"attention: {_odd(verdict)['says']}" in recap_lines(report)) == fails
    assert (report["summary"]["verdict"] == "attention") == fails
    page = render_page(report)
    assert ("Ports are not alike" in page) == fails
    assert "9000 at 1: a-node-of-a-long-name/rail0 &lt;b&gt;" in page
    assert "set the same mtu" in page


def test_a_run_with_pairs_that_were_not_tested_is_no_pass() -> None:
    proof = document(EIGHT[:3], late=("dgx-03",))
    assert (proof["counts"]["pass"], proof["counts"]["skipped"], proof["verdict"]) == (1, 2, "reported")


def test_of_many_failures_the_first_are_said_and_the_rest_counted() -> None:
    proof = document(EIGHT, bad=tuple(EIGHT))
    assert len(failure_lines(proof)) == 21
    assert failure_lines(proof)[-1] == "and 36 more, in verify.json"


def test_two_nodes_that_fail_leave_open_which_is_at_fault() -> None:
    assert accused_lines(document(TWO, bad=("rdma-2",))) == [
        "default/rail0: it is open whether the network itself, the port or cable of rdma-1, the port or cable of "
        "rdma-2 or the path between rdma-1 and rdma-2 is at fault: 1 pair"
    ]


def test_who_is_at_fault_is_named_with_its_port_and_what_that_is_cabled_to() -> None:
    """Networks on one port, or on ports of one NIC, share what is at fault, which is said once."""
    places = {
        node: {"netdev": "rail0", "nic": "0000:1a:00", "switches": ["leaf-1"], "cabled_to": f"leaf-1 swp{number}"}
        for number, node in enumerate(EIGHT)
    }
    told = "fails: 7 pairs, all with partners that are good"
    proof = document(EIGHT, bad=("dgx-03",), places=places)
    assert accused_lines(proof) == [f"default/rail0: the port or cable of dgx-03 (rail0, leaf-1 swp2) {told}"]
    page = render_page(report_of(proof))
    assert "<bdi>dgx-04</bdi><small>rail0, cabled to leaf-1 swp3</small>" in page
    both = document(EIGHT, bad=("dgx-03",), networks=2, places=places)
    (line,) = accused_lines(both)
    assert "the port or cable of dgx-03 (rail0, leaf-1 swp2)" in line
    assert "or the NIC 0000:1a:00 of dgx-03 fails: 14 pairs" in line


def test_an_emulated_rate_makes_no_judgement() -> None:
    proof = document(TWO, soft=True)
    assert proof["verdict"] == "reported"
    rates = report_of(proof)["validation"]["networks"][0]["pairs"][0]["rates"]
    assert [rate["verdict"] for rate in rates] == ["reported", "reported"]
    assert rates[0]["gbps"] == 0.42


def test_without_a_proof_the_report_says_that_nothing_was_sent() -> None:
    report = report_of(None)
    assert report["validation"] is None
    assert report["summary"]["pairs"] is None
    assert "Fabric test" not in render_page(report)


def test_outputs_are_kept_of_failed_tests_only() -> None:
    proof = document(TWO, bad=("rdma-2",))
    kept = {test["verdict"] for row in proof["pairs"] for test in row["tests"] if test["output"]}
    assert kept == {"fail"}


def test_junit_has_one_case_per_pair_rail_and_test(proof: Json) -> None:
    root = parsed(junit_text(proof))
    cases = root.findall("./testsuite/testcase")
    tests = [test for row in proof["pairs"] for test in row["tests"]]
    assert len(cases) == len(tests) == int(root.get("tests") or 0)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    failed = [test for test in tests if test["verdict"] == "fail"]
    assert len(root.findall(".//failure")) == len(failed) == int(root.get("failures") or 0)
    assert len(root.findall(".//skipped")) == int(root.get("skipped") or 0)
    for suite in root.findall("testsuite"):
        assert int(suite.get("tests") or 0) == len(suite.findall("testcase"))


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0"), (0.00002, "0"), (4.25, "4.25"), (120, "120"), (2_500_000.5, "2500000.5")]
)
def test_times_in_junit_are_decimals_without_an_exponent(seconds: float, told: str) -> None:
    """xs:decimal, of which the schemas of readers make times, has no exponent; half a million pairs take long."""
    proof = {**document(TWO), "seconds": seconds}
    row = proof["pairs"][0]
    row["tests"] = [{**row["tests"][0], "seconds": seconds}]
    proof["pairs"] = [row]
    root = parsed(junit_text(proof))
    case = next(root.iter("testcase"))
    assert root.get("time") == case.get("time") == told
    assert all("e" not in (suite.get("time") or "") for suite in root.iter("testsuite"))


def test_junit_of_a_failure_holds_cause_next_step_and_output() -> None:
    root = parsed(junit_text(document(TWO, bad=("rdma-2",))))
    case = next(case for case in root.iter("testcase") if case.get("name") == "ping rdma-1 to rdma-2")
    failure, output = case.find("failure"), case.find("system-out")
    assert failure is not None
    assert output is not None
    assert "cause: the wire between the two is cut" in (failure.text or "")
    assert "next: check cable" in (failure.text or "")
    assert "100% packet loss" in (output.text or "")
    assert "ping -n" in (output.text or "")


def test_the_page_shows_the_failing_pair_first() -> None:
    page = render_page(report_of(document(EIGHT, bad=("dgx-03",))))
    first = page.index('<section id="proof">')
    assert first < page.index('<section id="remarks">')
    said = "default/rail0: the port or cable of dgx-03 fails: 7 pairs, all with partners that are good</bdi></p>"
    assert page.index(said, first) < page.index("<bdi>dgx-01</bdi>", first)
    for node in ("dgx-03", "dgx-08"):
        assert f"<b>ping</b> to <bdi>{node}</bdi>: no answer" in page, "each direction says where to"
    cells = page[page.index('<table class="matrix">') : page.index("</table>", first)]
    assert cells.count('class="fail"') == 14
    assert cells.count('class="pass"') == 42


def test_the_page_draws_rates_against_what_the_way_carries() -> None:
    page = render_page(report_of(document(TWO, slow=("rdma-2",))))
    assert 'class="v-pass" width="386.0"' in page
    assert 'class="v-fail" width="188.0"' in page
    assert 'class="mark" x1="360.0"' in page
    assert "96.5 of 100 Gb/s" in page


def test_each_rate_is_drawn_against_its_own_way_not_that_of_a_faster_pair() -> None:
    proof = document(EIGHT[:3])
    narrow = [test for test in proof["pairs"][0]["tests"] if test["test"] == "bandwidth"]
    for test in narrow:
        test["figures"].update(measured_gbps=48.0, expected_gbps=50.0)
    page = render_page(report_of(proof))
    assert page.count('width="384.0"') == len(narrow) == 2
    assert page.count('width="386.0"') == 4
    assert page.count("48 of 50 Gb/s") == 2


def test_a_rate_that_is_not_judged_is_drawn_against_nothing() -> None:
    page = render_page(report_of(document(TWO, soft=True)))
    assert 'class="v-reported"' not in page
    assert 'class="mark"' not in page
    assert page.count('class="v-skipped"') == 2
    assert ">0.42 Gb/s <" in page


def test_names_of_strangers_are_text_on_the_page() -> None:
    page = render_page(report_of(PROOFS["hostile"]()))
    assert "<script>alert" not in page
    assert page.count("<script") == 1
    assert "{{ 7 * 7 }}" in page
    assert "\u202e" not in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("pairs"), "pairs: is missing"),
        (lambda d: d.update(format="rdma.fabric/verify/v9"), "format: is 'rdma.fabric/verify/v9'"),
        (lambda d: d["pairs"][0].update(verdict="great"), "holds the verdict 'great'"),
        (lambda d: d["pairs"][0].update(tests=None), "pairs[0].tests: is nothing"),
        (lambda d: d["counts"].update(fail="1"), "counts.fail: is the text"),
        (lambda d: d["networks"][0]["pods"].append(3), "networks[0].pods[2]: is the number"),
        (lambda d: d["failures"].append({}), "failures[0].pair: is missing"),
    ],
)
def test_another_document_is_refused_by_place(change: Callable[[Json], Any], words: str) -> None:
    proof = document(TWO)
    change(proof)
    assert any(words in violation.sentence() for violation in verification_violations("verify.json", proof))


NO_KUBECONFIG = {"failed": True, "msg": "there is no kubeconfig /nowhere/config"}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (NO_KUBECONFIG, "it failed: there is no kubeconfig /nowhere/config"),
        (None, "the run failed before the proof; its own error says why"),
    ],
)
def test_a_proof_that_failed_before_any_pair_is_told_and_an_earlier_one_is_not_shown(result: Any, why: str) -> None:
    report = report_of(document(TWO), wanted=["proof"], proof=result, cluster={"skipped": "verify pushes nothing"})
    SCHEMA.validate(report)
    assert report["validation"] is None
    summary = report["summary"]
    assert (summary["verdict"], summary["failed"], summary["pairs"]) == ("attention", ["proof"], None)
    assert summary["headline"].startswith("the proof failed")
    assert summary["not_done"][0] == {"what": "The proof on the wire", "why": why}
    assert f"not done: The proof on the wire: {why}" in recap_lines(report)


def test_a_proof_that_hosts_kept_from_beginning_is_told_as_that() -> None:
    left_behind = [{"host": "rdma-1", "why": "unreachable: refused"}]
    report = report_of(document(TWO), wanted=["proof"], proof=None, unfinished=left_behind)
    assert (report["validation"], report["summary"]["failed"]) == (None, [])
    said = {"what": "The proof on the wire", "why": "not every host of the run succeeded"}
    assert said in report["summary"]["not_done"]


def test_a_proof_with_a_verdict_tells_its_own_failures() -> None:
    result = {"failed": True, "verdict": "fail", "msg": "the fabric does not pass"}
    report = report_of(document(TWO, bad=("rdma-2",)), wanted=["proof"], proof=result)
    assert (report["summary"]["failed"], report["summary"]["verdict"]) == ([], "attention")
    assert report["validation"]["verdict"] == "fail"


def test_a_node_whose_latency_stands_out_is_named_by_rail() -> None:
    proof = document(EIGHT, far=("dgx-03",), networks=2)
    assert proof["verdict"] == "pass"
    words = "latency stands out: that of all pairs of dgx-03, up to 5.2 us; 1.82 us is usual here"
    lines = slow_lines(proof)
    assert [line.partition(" (compare")[0] for line in lines] == [
        f"rail {rail} (default/rail{rail}): {words}" for rail in (0, 1)
    ]
    assert f"The <bdi>{words}" in render_page(report_of(proof))


def test_pairs_whose_latency_stands_out_are_named_the_slowest_first() -> None:
    proof = document(EIGHT)
    slow = {("dgx-01", "dgx-02"): 9.0, ("dgx-03", "dgx-04"): 11.0}
    for pair in proof["pairs"]:
        if (pair["a"], pair["b"]) in slow:
            pair["tests"][-1]["figures"]["typical_us"] = slow[(pair["a"], pair["b"])]
    (line,) = slow_lines(proof)
    assert "latency stands out: dgx-03 - dgx-04 11 us, dgx-01 - dgx-02 9 us; 1.82 us is usual here" in line


def test_nodes_whose_pcie_holds_their_port_back_are_named_though_they_pass() -> None:
    """A slot of x4 passes by what it carries; the rate of a port with nothing in its way is no word worth."""
    slots = {"dgx-02": {"speed_gts": 16.0, "width": 4}, "dgx-01": {"speed_gts": 16.0, "width": 16}}
    proof = document(["dgx-01", "dgx-02", "dgx-03"], slow=("dgx-02",), slots=slots)
    assert proof["verdict"] == "pass"
    words = "PCIe holds back the port of dgx-02 (50.4 of 100 Gb/s): look at speed and width of the slot, riser and BIOS"
    assert held_back_lines(proof) == [f"default/rail0: {words}"]
    assert f"default/rail0: {words}" in recap_of(proof)
    SCHEMA.validate(json.loads(json.dumps(report_of(proof))))
    assert f"<bdi>{words}" in render_page(report_of(proof))
    assert held_back_lines(document(TWO)) == []


def test_few_pairs_and_even_ones_have_no_latency_that_stands_out() -> None:
    assert slow_lines(document(EIGHT[:3], far=("dgx-01",))) == []
    assert slow_lines(document(EIGHT, far=tuple(EIGHT))) == []
    assert slow_lines(document(EIGHT, soft=True)) == []


def test_programs_that_are_held_to_no_cpus_are_told_once_a_network_with_their_nodes() -> None:
    proof = document(EIGHT)
    assert "not held" not in render_page(report_of(proof))
    (network,) = proof["networks"]
    for pod in network["pods"][:6]:
        pod["any_cpu"] = NO_TASKSET
    network["pods"][6]["cpus"] = "56-111,168-223"
    report = report_of(json.loads(document_text(proof)))
    SCHEMA.validate(json.loads(json.dumps(report)))
    page = render_page(report)
    nodes = "dgx-01, dgx-02, dgx-03, dgx-04, dgx-05 and 1 more"
    assert page.count("Programs are <bdi>not held to the CPUs of the NIC") == 1
    assert page.count(f"{nodes}: {NO_TASKSET} (") == 1
    assert page.count("<small>CPUs 56-111,168-223</small>") == 1
    (line,) = any_cpu_lines(proof)
    assert line in recap_of(proof)
    assert line in explained(proof)


def test_a_report_of_a_proof_of_an_earlier_release_says_nothing_of_cpus() -> None:
    proof = document(TWO)
    for pod in proof["networks"][0]["pods"]:
        del pod["cpus"], pod["any_cpu"], pod["pcie_gbps"]
    assert verification_violations("verify.json", json.loads(document_text(proof))) == []
    assert report_of(proof)["validation"]["networks"][0]["any_cpu"] == ""


def test_hosts_that_take_no_part_for_the_same_reason_are_one_sentence() -> None:
    """Eight rails of a rack that is down are hundreds of rows."""
    rows = [{"host": f"gpu-{number}", "network": "", "why": "the node is not Ready"} for number in range(500)]
    rows += [{"host": "gpu-900", "network": f"d/rail{rail}", "why": "the kubelet offers no a"} for rail in range(2)]
    assert left_out_lines(rows) == [
        "not tested: gpu-0, gpu-1, gpu-2 and 497 more: the node is not Ready",
        "not tested: gpu-900 on d/rail0: the kubelet offers no a",
        "not tested: gpu-900 on d/rail1: the kubelet offers no a",
    ]
    each = [{"host": f"gpu-{number}", "network": "", "why": f"the node n{number} is cordoned"} for number in range(500)]
    assert len(left_out_lines(each)) == 21


def test_of_many_at_fault_the_first_are_said_and_the_rest_counted() -> None:
    accused = [{"says": f"n{number} fails", "nodes": [], "sure": True} for number in range(300)]
    lines = accused_lines({"networks": [{"network": "d/a", "rail": 0, "accused": accused}]})
    assert (lines[0], lines[20:]) == ("rail 0 (d/a): n0 fails", ["and 280 more at fault, in verify.json"])
