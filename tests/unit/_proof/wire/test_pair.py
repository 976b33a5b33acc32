# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps between two pods, on stand-ins of pods: their order, their verdicts, and that nothing is left running."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.problem import problem_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import Ends, judge_bandwidth, judge_ping
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pair import Settings, prove
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import TROUBLES, Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import PodState
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    ADDRESSES,
    LONG_PING,
    LOST_PING,
    REJECTED,
    MemoryPods,
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
    ticks = count()
    return prove(shell, lambda: float(next(ticks)), one, other, settings=given, port=18515)


def verdicts(tests: list[Test]) -> list[str]:
    return [f"{test['test']} {test['from']}>{test['to']} {test['verdict']}" for test in tests]


def only_failure(tests: list[Test]) -> Test:
    (failure,) = [test for test in tests if test["verdict"] == "fail"]
    assert set(failure["problem"]) == {"problem", "cause", "next_step"}
    assert all(failure["problem"].values())
    return failure


def words_of(shell: MemoryPods, pod: str, program: str, number: int = 0) -> list[str]:
    """Return what the ``number``-th run of a program in a pod was given, without what its script was."""
    found = [words for each, name, words, _limit in shell.calls if (each, name) == (pod, program)]
    return found[number][5 if program == "serve" else 3 :]


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
    assert shell.programs() == [
        *("a probe", "b probe", "a ping", "b ping"),
        *("b serve", "a rping", "b serve", "a ib_write_bw", "a serve", "b ib_write_bw", "b serve", "a ib_write_lat"),
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


def test_a_test_tells_how_long_its_programs_took() -> None:
    shell, took, clock = memory_pods(), {"ping": 2.0, "rping": 0.24, "serve": 3.0, "ib_write_bw": 7.0}, [1000.0]

    def pass_time(_pod: str, program: str) -> None:
        clock[0] += took.get(program, 0.0)

    shell.before = pass_time
    one, other = sides(shell)
    tests = prove(shell, lambda: clock[0], one, other, settings=Settings(), port=18515)
    assert [test["seconds"] for test in tests] == [0.0, 0.0, 0.0, 2.0, 2.0, 3.2, 10.0, 10.0, 3.0]


@pytest.mark.parametrize(
    ("option", "asked"), [("-s", Settings(size=4096)), ("-n", Settings(iterations=77)), ("-q", Settings(queue_pairs=3))]
)
def test_both_sides_of_a_bandwidth_test_send_what_is_asked_for(option: str, asked: Settings) -> None:
    shell = memory_pods()
    proved(shell, asked)
    wanted = str(asked.size or asked.iterations or asked.queue_pairs)
    for words in (words_of(shell, "ns/a", "ib_write_bw"), words_of(shell, "ns/b", "serve", 1)):
        assert words[words.index(option) + 1] == wanted


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


def test_servers_use_ports_of_their_own_and_are_all_ended() -> None:
    shell = memory_pods()
    proved(shell)
    tags = [words[0] for _pod, program, words, _limit in shell.calls if program == "serve"]
    ended = [words[0] for _pod, program, words, _limit in shell.calls if program == "finish"]
    assert len(set(tags)) == len(tags) == 4
    assert set(ended) == set(tags)
    ports = [words[2] for _pod, program, words, _limit in shell.calls if program == "serve"]
    assert ports == ["-", "4854", "4855", "4856"]


@pytest.mark.parametrize("kind", sorted(TROUBLES))
@pytest.mark.parametrize("program", ["ping", "rping", "ib_write_bw", "ib_write_lat", "serve"])
def test_what_befalls_a_command_is_a_verdict(kind: str, program: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/a", program)] = [ShellTrouble(kind, "the words of the API server")]
    tests = proved(shell)
    failed = [test for test in tests if test["verdict"] == "fail"]
    assert failed
    for test in failed:
        assert test["problem"]["cause"] == TROUBLES[kind][0]
        assert "the words of the API server" in test["summary"]
    served = {words[0] for _pod, name, words, _limit in shell.calls if name == "serve"}
    assert {words[0] for _pod, name, words, _limit in shell.calls if name == "finish"} == served


def test_a_pod_that_is_deleted_in_the_middle_fails_what_is_left() -> None:
    shell = memory_pods()

    def vanish(_pod: str, program: str) -> None:
        if program == "rping":
            shell.before = gone

    def gone(_pod: str, _program: str) -> None:
        raise ShellTrouble("pod_gone", 'pods "b" not found')

    shell.before = vanish
    tests = proved(shell)
    assert [test["verdict"] for test in tests[:6]] == ["pass"] * 6
    assert [test["problem"]["cause"] for test in tests[6:]] == [TROUBLES["pod_gone"][0]] * 3


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
    tests = proved(shell)
    assert verdicts(tests)[3:5] == ["ping a>b fail", "ping b>a fail"]
    assert skipped(tests) == ["rping", "bandwidth", "bandwidth", "latency"]
    assert "wire between the two is cut" in tests[3]["problem"]["cause"]
    assert "not run, because ping failed" in tests[5]["summary"]


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


def test_a_client_that_is_refused_for_good_is_a_verdict() -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "rping")] = [Output(255, "", REJECTED)]
    tests = proved(shell)
    assert only_failure(tests)["summary"] == "the connection was refused"
    assert shell.programs().count("a rping") == 10
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
    shell.finished = "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n"
    shell.answers[("ns/a", "ib_write_bw")] = [
        Output(1, "", "Couldn't read remote address\nUnable to read from socket\n")
    ]
    failure = only_failure(proved(shell))
    assert "locked memory" in failure["problem"]["cause"]
    assert "-- server side --" in failure["output"]


@pytest.mark.parametrize(("answer", "words"), [("ended", "ended at once"), ("silent", "never listened"), ("", "never")])
def test_a_server_side_that_does_not_listen_is_a_verdict(answer: str, words: str) -> None:
    shell = memory_pods()
    shell.finished = "IB device mlx5_0 not found\n Unable to find the Infiniband/RoCE device\n"
    shell.answers[("ns/a", "serve")] = [Output(0, answer, "")]
    failure = only_failure(proved(shell))
    assert words in failure["summary"]
    assert (failure["from"], failure["to"]) == ("b", "a")
    if answer == "ended":
        assert "no RDMA device of that name" in failure["problem"]["cause"]


@pytest.mark.parametrize("status", [0, 1])
def test_a_server_side_of_rping_that_ends_at_once_is_told_in_its_own_words(status: int) -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "serve")] = [Output(0, f"{answer}\n", "") for answer in ("ended", "listening")]
    shell.answers[("ns/b", "finish")] = [Output(0, f"ended {status}\nrdma_bind_addr: Cannot assign address\n", "")]
    failure = only_failure(proved(shell))
    assert failure["test"] == "rping"
    assert failure["summary"].startswith("the server side on b ended at once: rping failed: rdma_bind_addr")


def test_a_node_that_is_lost_while_a_client_fails_is_told_and_not_what_the_client_says() -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "ib_write_bw")] = [Output(1, "", "Unable to read from socket\n")]
    shell.answers[("ns/b", "finish")] = [Output(0, "ended 0\n", ""), ShellTrouble("unreachable", "no route to b")]
    failed = next(test for test in proved(shell) if test["verdict"] == "fail")
    assert failed["summary"].startswith("no route to b: ")
    assert failed["problem"]["cause"] == TROUBLES["unreachable"][0]


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


def test_programs_are_given_their_time_and_the_stream_a_little_more() -> None:
    shell = memory_pods()
    proved(shell, Settings(limit=7))
    bounded = [
        (words[2], limit) for _pod, name, words, limit in shell.calls if name in ("ping", "rping", "ib_write_bw")
    ]
    assert {words for words, _limit in bounded} == {"7"}
    assert all(7 < limit < 60 for _words, limit in bounded)
    servers = [int(words[1]) for _pod, name, words, _limit in shell.calls if name == "serve"]
    assert min(servers) > max(limit for _words, limit in bounded), "no server side ends before its client"


def test_a_node_that_gets_more_time_for_programs_gets_it_for_servers_too() -> None:
    shell = memory_pods()
    proved(shell, Settings(limit=300))
    assert {limit for _pod, name, _words, limit in shell.calls if name == "serve"} == {330}
    assert {limit for _pod, name, _words, limit in shell.calls if name == "finish"} == {300}
    assert all(limit > 300 for _pod, name, _words, limit in shell.calls if name.startswith("ib_write"))


def counters(**rises: int) -> str:
    """Return what the scripts print of counters that rose during a test."""
    before = {"port_rcv_data": 5, "symbol_error": 0, "port_xmit_wait": 70, **dict.fromkeys(rises, 2)}
    after = {**before, "port_rcv_data": 5_000_000, **{name: 2 + by for name, by in rises.items()}}
    return "\n".join(
        f"counter|{when}|hw_counters/{name}|{value}"
        for when, values in (("before", before), ("after", after))
        for name, value in values.items()
    )


def test_counters_are_read_around_a_measurement_by_commands_that_run_anyway() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0"))
    proved(shell)
    counted = {
        (pod, name): words[2:4] if name == "finish" else words[3:5] if name == "serve" else words[:2]
        for pod, name, words, _limit in shell.calls
        if name in ("serve", "finish", "ib_write_bw", "ib_write_lat")
    }
    ours, theirs = ["mlx5_0", "1"], ["mlx5_7", "1"]
    expected = {("ns/a", name): ours for name in ("serve", "finish", "ib_write_bw", "ib_write_lat")}
    assert counted == {**expected, **{("ns/b", name): theirs for name in ("serve", "finish", "ib_write_bw")}}
    assert len([name for _pod, name, _words, _limit in shell.calls if name == "finish"]) == 4


def test_lost_packets_fail_a_test_whatever_its_rate() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], device="mlx5_7|0000:9a:00.0"))
    shell.counted = {"mlx5_7": counters(packet_seq_err=4, port_xmit_wait=9)}
    tests = proved(shell)
    assert verdicts(tests)[6:] == ["bandwidth a>b fail", "bandwidth b>a fail", "latency a>b fail"]
    for test in tests[6:8]:
        assert test["summary"].startswith("packets were lost or damaged: packet_seq_err of b rose by 4; ")
        assert "the receiver missed packets" in test["problem"]["cause"]
        assert test["figures"]["measured_gbps"] == 92.0
        assert test["figures"]["counters"] == {"b": {"packet_seq_err": 4, "port_xmit_wait": 9}}
        assert "counter|" not in test["output"]


def test_lost_packets_are_told_before_a_rate_that_is_too_low() -> None:
    shell = memory_pods()
    shell.answers[("ns/a", "ib_write_bw")] = [Output(0, table(41.0) + counters(port_rcv_errors=1), "")]
    failure = only_failure(proved(shell))
    assert failure["summary"].startswith("packets were lost or damaged: port_rcv_errors of a rose by 1; ")
    assert "41" in failure["summary"]
    assert "cable" in failure["problem"]["next_step"]


def test_what_kept_a_rate_from_being_measured_is_told_before_lost_packets() -> None:
    shell = memory_pods()
    broken = "Couldn't connect to 192.168.111.2:18517\nUnable to open file descriptor for socket connection\n"
    shell.answers[("ns/a", "ib_write_bw")] = [Output(1, counters(link_downed=1) + "\n", broken)]
    failure = only_failure(proved(shell))
    assert failure["summary"].startswith("nothing was measured: ")
    assert failure["summary"].endswith("; packets were lost or damaged: link_downed of a rose by 1")


def test_counters_that_tell_of_no_loss_leave_a_verdict_as_it_is() -> None:
    shell = memory_pods()
    shell.counted = {"mlx5_0": counters(duplicate_request=3)}
    tests = proved(shell)
    assert verdicts(tests)[6:] == ["bandwidth a>b pass", "bandwidth b>a pass", "latency a>b pass"]
    assert tests[6]["figures"]["counters"]["a"] == {"duplicate_request": 3}
    assert "duplicate_request of a rose by 3: packets came twice" in tests[6]["summary"]


def test_a_server_side_that_cannot_be_ended_takes_its_counters_along_and_no_verdict() -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "finish")] = [ShellTrouble("unreachable", "no route")]
    assert verdicts(proved(shell))[6] == "bandwidth a>b pass"


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
        shell.answers[("ns/b", "serve")] = [Output(0, f"{word}\n", "") for word in ("started", "listening", "ended")]
        shell.answers[("ns/b", "finish")] = [Output(0, f"ended 127\n{missing.stderr}", "")]
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
    shell.counted = {"mlx5_7": counters(packet_seq_err=4)}
    tests = proved(shell, Settings(idle="a"))
    assert verdicts(tests)[6:] == ["bandwidth a>b pass", "bandwidth b>a pass", "latency a>b pass"]
    assert tests[6]["figures"]["counters"] == {"b": {"packet_seq_err": 4}}
    assert "fail" in [test["verdict"] for test in proved(shell, Settings(idle="b"))]
