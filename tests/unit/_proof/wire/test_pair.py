# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps between two pods, on stand-ins of pods: their order, their verdicts, and that nothing is left running."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.problem import problem_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import (
    PORTS_OF_A_SLOT,
    SLOTS_OF_PORTS,
    Settings,
    Slot,
    command_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import (
    table as table_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import Ends, judge_bandwidth, judge_ping
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.scripts import begin, collect
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import TROUBLES, Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import PodState
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    ADDRESSES,
    LONG_PING,
    LOST_PING,
    REJECTED,
    UNREACHABLE_RPING,
    MemoryPods,
    meet,
    memory_pods,
    network_status,
    probe_text,
    sides,
    table,
)

Test = dict[str, Any]


def proved(shell: MemoryPods, settings: Settings | None = None, **states: PodState) -> list[Test]:
    given = settings or Settings()
    one, other = sides(shell, given.mtu, **states)
    return meet(shell, one, other, given)


def verdicts(tests: list[Test]) -> list[str]:
    return [f"{test['test']} {test['from']}>{test['to']} {test['verdict']}" for test in tests]


def only_failure(tests: list[Test]) -> Test:
    (failure,) = [test for test in tests if test["verdict"] == "fail"]
    assert set(failure["problem"]) == {"problem", "cause", "next_step"}
    assert all(failure["problem"].values())
    return failure


def words_of(shell: MemoryPods, pod: str, program: str, number: int = 0) -> list[str]:
    """Return what the ``number``-th run of a program in a pod was given."""
    return [words for each, name, words, _limit in shell.calls if (each, name) == (pod, program)][number]


def skipped(tests: list[Test]) -> list[str]:
    return [test["test"] for test in tests if test["verdict"] == "skipped"]


def test_two_good_pods_pass_every_test_in_order() -> None:
    shell = memory_pods()
    assert verdicts(proved(shell, Settings(mtu=9000))) == [
        "pods a>b pass",
        "interface a>b pass",
        "device a>b pass",
        "ping a>b pass",
        "ping b>a pass",
        "rping a>b pass",
        "bandwidth a>b pass",
        "bandwidth b>a pass",
        "latency a>b pass",
    ]
    assert [each for each in shell.programs() if each.startswith("a ")] == [
        *("a probe", "a begin", "a collect"),
        *("a ping", "a rping", "a ib_write_bw", "a serve", "a ib_write_lat"),
    ]


def test_each_side_tests_with_its_own_device_and_gid_index() -> None:
    other = probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0", slot="11")
    shell = memory_pods(b=other)
    proved(shell)
    served, client = words_of(shell, "ns/b", "serve", 1), words_of(shell, "ns/a", "ib_write_bw")
    assert served[served.index("-d") + 1 : served.index("-d") + 2] == ["mlx5_7"]
    assert served[served.index("-x") + 1] == "11"
    assert client[client.index("-d") + 1] == "mlx5_0"
    assert client[client.index("-x") + 1] == "5"
    assert client[-1] == ADDRESSES["b"]


def test_what_was_found_of_both_sides_is_told_where_it_is_good() -> None:
    pods, interface, device = proved(memory_pods())[:3]
    assert pods["summary"] == "both pods are ready"
    assert interface["summary"] == "a: net1 192.168.111.1 MTU 9000, b: net1 192.168.111.2 MTU 9000"
    assert device["summary"] == "a: mlx5_0 port 1 GID index 5, b: mlx5_0 port 1 GID index 5"


def test_a_test_tells_how_long_its_client_took() -> None:
    assert [test["seconds"] for test in proved(memory_pods())] == [0.0] * 3 + [1.3] * 6


@pytest.mark.parametrize(
    ("option", "asked"), [("-s", Settings(size=4096)), ("-n", Settings(iterations=77)), ("-q", Settings(queue_pairs=3))]
)
def test_both_sides_of_a_bandwidth_test_send_what_is_asked_for(option: str, asked: Settings) -> None:
    shell = memory_pods()
    proved(shell, asked)
    wanted = str(asked.size or asked.iterations or asked.queue_pairs)
    for words in (words_of(shell, "ns/a", "ib_write_bw"), words_of(shell, "ns/b", "serve", 1)):
        assert words[words.index(option) + 1] == wanted


def test_a_test_takes_no_more_of_a_port_than_is_asked_for_and_is_judged_by_that() -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "ib_write_bw")] = [Output(0, table(8.9), "")]
    shell.answers[("ns/a", "ib_write_bw")] = [Output(0, table(9.9), "")]
    tests = proved(shell, Settings(maximum=0.1))
    for words in (words_of(shell, "ns/a", "ib_write_bw"), words_of(shell, "ns/b", "serve", 1)):
        assert words[words.index("--rate_limit") :][:4] == ["--rate_limit", "10", "--rate_limit_type", "SW"]
        assert words[words.index("-n") + 1] == "500"
    failure = only_failure(tests)
    assert (failure["from"], failure["figures"]["expected_gbps"]) == ("b", 10.0)
    assert Settings(maximum=0.1).most_gbps(None) == 0.1, "a link of which nobody knows the rate may be slow"
    assert Settings(maximum=0.0001).load(software=False).iterations == 5
    one, other = sides(shell, None)
    assert "--rate_limit" not in command_of(one, other, "w", Settings(), 0)


def test_a_ping_that_is_lost_in_one_direction_only_ends_nothing_else() -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "ping")] = [Output(1, LOST_PING, "")]
    tests = proved(shell)
    assert (only_failure(tests)["test"], skipped(tests)) == ("ping", [])


def test_mtus_that_differ_are_told_and_nothing_is_sent() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], mtu="1500"))
    tests = proved(shell)
    assert only_failure(tests)["summary"] == "the two sides' MTUs differ"
    assert skipped(tests) == ["device", "ping", "ping", "rping", "bandwidth", "bandwidth", "latency"]


def test_each_test_of_each_slot_has_a_port_of_its_own_that_both_sides_know() -> None:
    shell = memory_pods()
    one, other = sides(shell)
    for side, partner in ((one, other), (other, one)):
        slots = [Slot(number, partner) for number in range(3)]
        shell.run(side.pod, begin("t"), 30.0, table_of(side, slots, Settings(gpu=True), wait=0.0))
    for side in (one, other):
        shell.run(side.pod, collect("t", 30), 60.0)
    ports = {
        kind: sorted(
            int(words[words.index("-p") + 1])
            for _pod, name, words, _limit in shell.calls
            if "-p" in words and (name == "serve") is (kind == "serve")
        )
        for kind in ("serve", "client")
    }
    assert ports["serve"] == ports["client"]
    assert len(set(ports["serve"])) == 18
    assert max(ports["serve"]) + SLOTS_OF_PORTS * PORTS_OF_A_SLOT < 32768, "ports of outgoing connections begin there"
    assert command_of(one, other, "w", Settings(), 2).split()[-3:] == ["-p", "18534", ADDRESSES["b"]]


@pytest.mark.parametrize("kind", sorted(TROUBLES))
def test_a_log_that_cannot_be_read_is_a_verdict(kind: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "probe")] = [ShellTrouble(kind, "the words of the API server")]
    failure = only_failure(proved(shell))
    assert (failure["test"], failure["problem"]["cause"]) == ("pods", TROUBLES[kind][0])
    assert "the words of the API server" in failure["summary"]


@pytest.mark.parametrize("late", [{"ns/a"}, {"ns/b"}, {"ns/a", "ns/b"}])
def test_a_pod_that_is_late_for_a_slot_is_told_as_late_and_not_as_failed(late: set[str]) -> None:
    shell = memory_pods()
    shell.late = late
    tests = proved(shell)
    assert {test["verdict"] for test in tests} == {"skipped"}
    assert len(tests) == 9
    names = " and ".join(sorted(each[3:] for each in late))
    assert all(test["summary"].startswith(f"not run: {names} came too late for this slot") for test in tests)


def test_what_a_pod_does_not_tell_fails() -> None:
    """Its pod was killed in the middle of the slot: what it had told until then counts."""
    shell = memory_pods()
    said = "b\n0|p0 9 4 4 0.3|r0 2\nend\n"
    shell.answers[("ns/a", "collect")] = [Output(0, said, "")]
    tests = proved(shell)
    assert verdicts(tests)[3:6] == ["ping a>b pass", "ping b>a pass", "rping a>b pass"]
    assert [test["verdict"] for test in tests[6:]] == ["fail", "pass", "fail"]
    assert tests[6]["summary"] == "a told nothing of this test"


def test_a_pod_that_never_became_ready_fails_once_and_nothing_is_run() -> None:
    problem = problem_of("the pod is not ready: Insufficient rdma/x", "taken", "look")
    shell = memory_pods()
    tests = proved(shell, b=PodState("ns/b", "", problem))
    failure = only_failure(tests)
    assert failure["test"] == "pods"
    assert failure["summary"].startswith("b: the pod is not ready")
    assert failure["problem"] == problem
    assert skipped(tests) == ["interface", "device", "ping", "ping", "rping", "bandwidth", "bandwidth", "latency"]
    assert shell.programs() == ["a probe"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("", "no network status"),
        ("{not json", "does not name default/rail0"),
        ("[]", "does not name default/rail0"),
        ('"text"', "does not name default/rail0"),
        ('[null, 3, {"name": 4}]', "does not name default/rail0"),
        (network_status("192.168.111.2", "default/other"), "does not name default/rail0"),
        ('[{"name": "default/rail0", "interface": "net1", "ips": []}]', "no address"),
        ('[{"name": "default/rail0", "interface": "net1"}]', "no address"),
        ('[{"name": "default/rail0", "interface": "net1", "ips": ["$(reboot)"]}]', "is not an address"),
    ],
)
def test_a_pod_without_its_network_is_told_apart(status: str, words: str) -> None:
    tests = proved(memory_pods(), b=PodState("ns/b", status))
    assert only_failure(tests)["test"] == "interface"
    assert words in only_failure(tests)["summary"]


@pytest.mark.parametrize(
    ("changes", "test", "words"),
    [
        ({"netdevs": "lo eth0"}, "interface", "net1 is not in the pod"),
        ({"locals": "127.0.0.1"}, "interface", "no address 192.168.111.2"),
        ({"operstate": "down"}, "interface", "net1 is down"),
        ({"mtu": "1500"}, "interface", "MTU 1500, expected 9000"),
        ({"mtu": "x"}, "interface", "MTU None"),
        ({"device": ""}, "device", "sees no RDMA device"),
        ({"kind": "IB/RoCE v1"}, "device", "no RoCE v2 GID"),
        ({"state": "1: DOWN"}, "device", "port 1 of mlx5_0 is DOWN"),
        ({"chars": "rdma_cm"}, "device", "no uverbs device"),
    ],
)
def test_what_a_pod_lacks_is_told_apart(changes: dict[str, str], test: str, words: str) -> None:
    tests = proved(memory_pods(b=probe_text(ADDRESSES["b"], **changes)), Settings(mtu=9000))
    failure = only_failure(tests)
    assert failure["test"] == test
    assert failure["summary"].startswith("b: ")
    assert words in failure["summary"]
    assert {"rping", "bandwidth"} <= set(skipped(tests))
    assert ("ping" in skipped(tests)) is (test == "interface")


@pytest.mark.parametrize(("layer", "told"), [("InfiniBand", True), ("Ethernet", False)])
def test_a_function_of_infiniband_without_link_names_guids_and_the_subnet_manager(layer: str, told: bool) -> None:
    probe = probe_text(ADDRESSES["b"], state="1: DOWN", link_layer=layer)
    failure = str(only_failure(proved(memory_pods(b=probe), Settings(mtu=9000))))
    assert "is DOWN" in failure
    assert ("GUID" in failure and "virt_enabled 2" in failure) is told


def test_a_gid_of_another_pod_or_of_the_host_is_not_taken() -> None:
    shell = memory_pods(b=probe_text("192.168.111.9", locals="192.168.111.2"))
    failure = only_failure(proved(shell))
    assert failure["test"] == "device"
    assert "no GID is the address 192.168.111.2" in failure["summary"]


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "end", "port|x\nend\n", "gid|a|b|c|d|e|f\ndevice|\nend\n", "\x00|\x01\n"]
)
def test_garbage_in_the_place_of_the_probe_is_a_verdict(text: str) -> None:
    tests = proved(memory_pods(b=text))
    assert only_failure(tests)["test"] in {"pods", "interface"}
    assert "bandwidth" in skipped(tests)


def test_a_wire_that_is_cut_ends_after_the_pings() -> None:
    shell = memory_pods()
    for pod in ("ns/a", "ns/b"):
        shell.answers[(pod, "ping")] = [Output(1, LOST_PING, "")]
    shell.answers[("ns/a", "rping")] = [Output(255, UNREACHABLE_RPING, "")]
    tests = proved(shell)
    assert verdicts(tests)[3:5] == ["ping a>b fail", "ping b>a fail"]
    assert skipped(tests) == ["rping", "bandwidth", "bandwidth", "latency"]
    assert "wire between the two is cut" in tests[3]["problem"]["cause"]
    assert "not judged, because ping failed" in tests[5]["summary"]


def test_full_packets_that_vanish_while_small_ones_pass_tell_of_an_mtu_on_the_way() -> None:
    shell = memory_pods()
    for pod in ("ns/a", "ns/b"):
        shell.answers[(pod, "ping")] = [Output(1, LOST_PING, "")]
    tests = proved(shell)
    assert [test["summary"] for test in tests[3:5]] == ["no answer to packets of 9000 bytes, while small ones pass"] * 2
    assert "a smaller MTU" in tests[3]["problem"]["cause"]
    assert (verdicts(tests)[5], skipped(tests)) == ("rping a>b pass", [])


def test_packets_that_do_not_fit_are_told_and_rdma_is_tried_all_the_same() -> None:
    shell = memory_pods()
    for pod in ("ns/a", "ns/b"):
        shell.answers[(pod, "ping")] = [Output(1, "", LONG_PING)]
    tests = proved(shell)
    assert tests[3]["summary"] == "packets of 9000 bytes do not pass uncut"
    assert skipped(tests) == []


@pytest.mark.parametrize(("received", "verdict"), [(4, "pass"), (3, "pass"), (2, "fail"), (1, "fail")])
def test_one_packet_of_several_may_be_lost_and_no_more(received: int, verdict: str) -> None:
    text = LOST_PING.replace("0 received, 100%", f"{received} received, {100 - 25 * received}%")
    judged = judge_ping(Output(0 if received == 4 else 1, text, ""), 9000)
    assert judged.verdict == verdict
    assert judged.summary.startswith(f"{received} of 4 packets of 9000 bytes")


def test_a_measured_rate_is_not_good_where_the_program_itself_failed() -> None:
    ends = Ends(100.0, None, False)
    assert judge_bandwidth(Output(0, table(95.0), ""), "", ends, None).verdict == "pass"
    judged = judge_bandwidth(Output(3, table(95.0), ""), "", ends, None)
    assert (judged.verdict, judged.summary) == ("fail", "ib_write_bw ended with status 3")


def test_a_client_that_comes_too_early_comes_again() -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "rping")] = [Output(255, "", REJECTED), Output(255, "", REJECTED), Output(0, "", "")]
    assert verdicts(proved(shell))[5] == "rping a>b pass"
    assert shell.programs().count("a rping") == 3


@pytest.mark.parametrize(("left", "words"), [(Output(137, "", ""), "never listened"), (Output(0, "", ""), "refused")])
def test_a_client_that_is_refused_for_good_is_a_verdict(left: Output, words: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "rping")] = [Output(255, "", REJECTED)]
    shell.answers[("ns/b", "serve")] = [left, Output(0, "", "")]
    tests = proved(shell)
    assert words in only_failure(tests)["summary"]
    assert verdicts(tests)[6:] == ["bandwidth a>b pass", "bandwidth b>a pass", "latency a>b pass"]


@pytest.mark.parametrize("program", ["ping", "rping", "ib_write_bw", "ib_write_lat"])
def test_a_program_that_hangs_is_a_verdict(program: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/a", program)] = [Output(137, "half a li", "Killed\n")]
    assert only_failure(proved(shell))["summary"].endswith("hung and was ended")


@pytest.mark.parametrize("program", ["ping", "rping", "ib_write_bw"])
def test_a_program_that_is_missing_is_a_verdict(program: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/a", program)] = [Output(127, "", f"sh: 1: {program}: not found\n")]
    assert only_failure(proved(shell))["summary"] == f"{program} is not in the test image"


@pytest.mark.parametrize(
    "text", ["", "\x00\x01garbage", "a" * 100000, "65536 nan nan nan nan\n", "{]", "ib_write_bw: ???"]
)
def test_garbage_of_a_bandwidth_test_is_a_verdict(text: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "ib_write_bw")] = [Output(1, text, "")]
    failure = only_failure(proved(shell))
    assert (failure["test"], failure["from"], failure["to"]) == ("bandwidth", "a", "b")
    assert len(failure["output"] or "") <= 4000


def test_the_server_side_tells_the_cause_when_the_client_only_lost_it() -> None:
    shell = memory_pods()
    said = "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n"
    shell.answers[("ns/b", "serve")] = [Output(0, "", ""), Output(1, said, ""), Output(0, "", "")]
    shell.answers[("ns/a", "ib_write_bw")] = [
        Output(1, "", "Couldn't read remote address\nUnable to read from socket\n")
    ]
    failure = only_failure(proved(shell))
    assert "locked memory" in failure["problem"]["cause"]
    assert "-- server side --" in failure["output"]


REFUSED = "Couldn't connect to 192.168.111.2:18517\nUnable to open file descriptor for socket connection\n"


@pytest.mark.parametrize(("status", "words"), [(1, "ended at once"), (137, "never listened")])
def test_a_server_side_that_does_not_listen_is_a_verdict(status: int, words: str) -> None:
    shell = memory_pods()
    said = "IB device mlx5_0 not found\n Unable to find the Infiniband/RoCE device\n"
    shell.answers[("ns/a", "serve")] = [Output(status, said if status == 1 else "", "")]
    shell.answers[("ns/b", "ib_write_bw")] = [Output(1, "", REFUSED)]
    failure = only_failure(proved(shell))
    assert words in failure["summary"]
    assert (failure["from"], failure["to"]) == ("b", "a")
    if status == 1:
        assert "no RDMA device of that name" in failure["problem"]["cause"]


def test_a_server_side_of_rping_that_ends_at_once_is_told_in_its_own_words() -> None:
    shell = memory_pods()
    said = Output(1, "rdma_bind_addr: Cannot assign address\n", "")
    shell.answers[("ns/b", "serve")] = [said, Output(0, "", "")]
    shell.answers[("ns/a", "rping")] = [Output(255, "", REJECTED)]
    failure = only_failure(proved(shell))
    assert failure["test"] == "rping"
    assert failure["summary"].startswith("the server side on b ended at once: rping failed: rdma_bind_addr")


def test_a_rate_below_the_link_is_red_with_the_figures() -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "ib_write_bw")] = [Output(0, table(41.0), "")]
    failure = only_failure(proved(shell))
    assert (failure["from"], failure["to"]) == ("b", "a")
    assert failure["figures"]["measured_gbps"] == 41.0
    assert failure["figures"]["expected_gbps"] == 100.0


def test_the_minimum_replaces_the_gate() -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "ib_write_bw")] = [Output(0, table(41.0), "")]
    assert "fail" not in [test["verdict"] for test in proved(shell, Settings(minimum=0.4))]


def test_an_emulated_device_is_reported_and_not_judged() -> None:
    soft = {node: probe_text(address, device="rxe0|") for node, address in ADDRESSES.items()}
    shell = memory_pods(**soft)
    for pod in ("ns/a", "ns/b"):
        shell.answers[(pod, "ib_write_bw")] = [Output(0, table(0.05), "")]
    tests = proved(shell)
    assert [test["verdict"] for test in tests[6:]] == ["reported"] * 3
    client = words_of(shell, "ns/a", "ib_write_bw")
    assert client[client.index("-s") + 1 : client.index("-s") + 6] == ["65536", "-n", "100", "-q", "1"]


def test_an_emulated_device_that_fails_is_red() -> None:
    shell = memory_pods(**{node: probe_text(address, device="rxe0|") for node, address in ADDRESSES.items()})
    shell.answers[("ns/a", "ib_write_bw")] = [Output(1, "", " Failed to modify QP 17 to RTR\n")]
    assert "GID" in only_failure(proved(shell))["problem"]["cause"]


def test_the_tests_of_a_slot_end_one_after_the_other_and_the_last_with_it() -> None:
    ends = list(Settings(limit=30).tests().values())
    assert ends == sorted(set(ends))
    assert ends[-1] == 3000
    assert ends[0] > 390, "a ping that is not answered takes 2.9 seconds"
    assert list(Settings(limit=30, gpu=True).tests()) == list("prwvghl")


def test_lost_packets_fail_a_test_whatever_its_rate() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0"))
    shell.rising = {"mlx5_7": {"packet_seq_err": 4, "port_xmit_wait": 9}}
    tests = proved(shell)
    assert verdicts(tests)[6:] == ["bandwidth a>b fail", "bandwidth b>a fail", "latency a>b fail"]
    for test in tests[6:8]:
        assert test["summary"].startswith("packets were lost or damaged: packet_seq_err of b rose by 4; ")
        assert "the receiver missed packets" in test["problem"]["cause"]
        assert test["figures"]["measured_gbps"] == 92.0
        assert test["figures"]["counters"] == {"b": {"packet_seq_err": 4, "port_xmit_wait": 9}}


def test_lost_packets_are_told_before_a_rate_that_is_too_low() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0"))
    shell.answers[("ns/a", "ib_write_bw")] = [Output(0, table(41.0), "")]
    shell.rising = {"mlx5_0": {"port_rcv_errors": 1}}
    failure = proved(shell)[6]
    assert failure["summary"].startswith("packets were lost or damaged: port_rcv_errors of a rose by 1; ")
    assert "41" in failure["summary"]
    assert "cable" in failure["problem"]["next_step"]


def test_what_kept_a_rate_from_being_measured_is_told_before_lost_packets() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0"))
    shell.rising = {"mlx5_0": {"link_downed": 1}}
    shell.answers[("ns/a", "ib_write_bw")] = [Output(1, "", " Failed to modify QP 17 to RTR\n")]
    failure = next(test for test in proved(shell) if test["test"] == "bandwidth")
    assert failure["summary"].startswith("nothing was measured: ")
    assert failure["summary"].endswith("; packets were lost or damaged: link_downed of a rose by 1")


def test_counters_that_tell_of_no_loss_leave_a_verdict_as_it_is() -> None:
    shell = memory_pods()
    shell.rising = {"mlx5_0": {"duplicate_request": 3}}
    tests = proved(shell)
    assert verdicts(tests)[6:] == ["bandwidth a>b pass", "bandwidth b>a pass", "latency a>b pass"]
    assert tests[6]["figures"]["counters"]["a"] == {"duplicate_request": 3}
    assert "duplicate_request of a rose by 3: packets came twice" in tests[6]["summary"]


def test_a_latency_is_told_and_kept() -> None:
    shell = memory_pods()
    latency = proved(shell)[-1]
    assert latency["summary"] == "1.82 us typical, 99 % within 2.73 us"
    assert latency["figures"] == {"typical_us": 1.82, "average_us": 1.82, "p99_us": 2.73, "counters": None}
    client = words_of(shell, "ns/a", "ib_write_lat")
    assert client[client.index("-n") + 1] == "1000"


@pytest.mark.parametrize("side", ["client", "server"])
def test_an_image_without_the_latency_test_skips_it(side: str) -> None:
    shell = memory_pods()
    missing = Output(127, "", "sh: 1: ib_write_lat: not found\n")
    if side == "client":
        shell.answers[("ns/a", "ib_write_lat")] = [missing]
    else:
        shell.answers[("ns/b", "serve")] = [Output(0, "", ""), Output(0, "", ""), missing]
        shell.answers[("ns/a", "ib_write_lat")] = [Output(1, "", REFUSED)]
    latency = proved(shell)[-1]
    assert latency["verdict"] == "skipped"
    assert "ib_write_lat is not in the test image" in latency["summary"]


def test_a_latency_that_was_not_measured_fails() -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "ib_write_lat")] = [Output(1, "", " Failed to modify QP 17 to RTR\n")]
    failure = only_failure(proved(shell))
    assert failure["test"] == "latency"
    assert "GID" in failure["problem"]["cause"]


def test_of_a_node_beside_one_that_works_only_its_own_counters_are_judged() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0"))
    shell.rising = {"mlx5_7": {"packet_seq_err": 4}}
    tests = proved(shell, Settings(idle="a"))
    assert verdicts(tests)[6:] == ["bandwidth a>b pass", "bandwidth b>a pass", "latency a>b pass"]
    assert tests[6]["figures"]["counters"] == {"b": {"packet_seq_err": 4}}
    assert "fail" in [test["verdict"] for test in proved(shell, Settings(idle="b"))]
