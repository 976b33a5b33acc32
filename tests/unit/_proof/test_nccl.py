# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of NCCL tests of every form, and what makes one of them bad."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl import nccl_test_result
from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_transport import errors_in, transport_in
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.sweeps import examples

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "nccl"
JSON_KEYS = (
    *("version", "results", "size", "count", "out_of_place", "in_place", "time", "alg_bw", "bus_bw", "nwrong"),
    *("config", "devices", "hostname", "args", "errors", "out_of_bounds", "average_bus_bandwidth"),
)
EVERY_FIXTURE = sorted(path for path in FIXTURES.rglob("*.*") if path.suffix in (".txt", ".json"))


def text(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def read(name: str, minimum: float | None = None) -> dict[str, Any]:
    return nccl_test_result(text(name), minimum)


def problems(name: str) -> list[str]:
    return [each["problem"] for each in read(name)["problems"]]


@pytest.mark.parametrize(
    ("name", "test", "busbw", "redop", "wrong"),
    [
        ("all-reduce-2.19-log.txt", "all_reduce_perf", 190.62, "sum", 0),
        ("all-reduce-2.19-per-iteration.txt", "all_reduce_perf", 190.62, "sum", 0),
        ("all-reduce-2.17-tagged.txt", "all_reduce_perf", 190.62, "sum", 0),
        ("all-reduce-2.13.txt", None, 184.70, "sum", 0),
        ("all-reduce-2.0.txt", None, 43.93, "sum", 0),
        ("all-gather-2.0.txt", None, 43.93, None, 0),
        ("sendrecv-unchecked-2.17.txt", "sendrecv_perf", 47.91, None, None),
        ("all-reduce-2.19.json", "all_reduce_perf", 190.619, "sum", 0),
        ("all-reduce-2.17.json", "all_reduce_perf", 190.619, "sum", 0),
    ],
)
def test_every_form_of_output_yields_its_rows_and_the_rate_of_its_largest_sizes(
    name: str, test: str | None, busbw: float, redop: str | None, wrong: int | None
) -> None:
    found = read(name)
    assert found["test"] == test
    assert (found["ranks"], found["hosts"]) == (16, 2)
    assert len(found["rows"]) == 15
    assert found["summary"]["busbw_gbytes"] == pytest.approx(busbw, abs=0.005)
    assert found["summary"]["largest_bytes"] == 2**31
    assert {row["redop"] for row in found["rows"]} == {redop}
    assert found["wrong"] == wrong
    assert (found["complete"], found["verdict"], found["problems"]) == (True, "reported", [])


def test_a_row_has_both_sides_in_their_own_columns() -> None:
    (row,) = [row for row in read("all-reduce-2.19-per-iteration.txt")["rows"] if row["bytes"] == 2**31]
    assert (row["count"], row["type"]) == (2**29, "float")
    assert row["out_of_place"] == {"time_us": 21009.5, "algbw_gbytes": 102.21, "busbw_gbytes": 191.65, "wrong": 0}
    assert row["in_place"] == row["out_of_place"]


def test_printed_and_json_results_of_one_run_agree() -> None:
    printed, reported = read("all-reduce-2.19-log.txt"), read("all-reduce-2.19.json")
    assert [row["bytes"] for row in printed["rows"]] == [row["bytes"] for row in reported["rows"]]
    assert printed["printed_average_gbytes"] == pytest.approx(reported["printed_average_gbytes"], rel=1e-4)
    assert (printed["source"], reported["source"]) == ("table", "json")
    assert read("all-reduce-2.17.json")["printed_average_gbytes"] == reported["printed_average_gbytes"]


def test_a_json_report_may_be_a_mapping_already() -> None:
    assert nccl_test_result(json.loads(text("all-reduce-2.19.json"))) == read("all-reduce-2.19.json")


def test_the_environment_in_a_json_report_is_not_kept() -> None:
    assert "not-to-be-kept" in text("all-reduce-2.19.json")
    assert "not-to-be-kept" not in json.dumps(read("all-reduce-2.19.json"))


def test_the_largest_sizes_decide_and_not_the_printed_average() -> None:
    found = read("all-reduce-2.19-log.txt", 180)
    assert found["printed_average_gbytes"] < 100
    assert found["verdict"] == "pass"
    slow = read("all-reduce-2.19-log.txt", 195)
    assert slow["verdict"] == "fail"
    assert slow["problems"][0]["problem"] == "190.62 GB/s of bus bandwidth at the largest sizes, 195 required"


def test_the_log_tells_devices_network_and_gpudirect() -> None:
    transport = read("all-reduce-2.19-log.txt")["transport"]
    assert transport["network"] == "IB"
    assert transport["link_layers"] == ["IB"]
    assert {"mlx5_0:1", "mlx5_10:1"} < set(transport["devices"])
    assert len(transport["devices"]) == 8
    assert transport["gpu_direct"] == "all"
    assert transport["version"] == "2.28.9+cuda12.8"


@pytest.mark.parametrize("name", ["broken/wrong-results.txt", "broken/wrong-results.json"])
def test_wrong_results_fail_whatever_the_rate(name: str) -> None:
    found = read(name, 100)
    assert found["verdict"] == "fail"
    assert found["wrong"] == (4194304 if name.endswith("txt") else 128)
    assert "wrong" in found["problems"][0]["problem"]


def test_wrong_results_that_only_the_summary_counts_fail() -> None:
    for name in ("all-reduce-2.0.txt", "all-reduce-2.13.txt"):
        found = nccl_test_result(text(name).replace("values : 0 OK", "values : 3 FAILED"))
        assert (found["wrong"], found["verdict"]) == (3, "fail")


def test_a_deviation_of_old_versions_is_no_count() -> None:
    found = nccl_test_result(text("all-reduce-2.0.txt").replace("1e-06", "3e+00"))
    assert (found["wrong"], found["verdict"]) == (0, "reported")


def test_sockets_fail_unless_the_run_stays_on_one_host() -> None:
    found = read("broken/sockets.txt")
    assert found["verdict"] == "fail"
    assert "the data went over sockets, not over RDMA" in problems("broken/sockets.txt")
    assert any("No device found" in each for each in problems("broken/sockets.txt"))
    alone = read("broken/sockets-one-host.txt", 400)
    assert (alone["verdict"], alone["problems"]) == ("pass", [])
    assert any("stayed on one host" in notice for notice in alone["notices"])


CHOSEN = "dgx-01:4100:4188 [0] NCCL INFO Using network Socket\n"
NO_DEVICE = "dgx-01:4100:4188 [0] NCCL INFO NET/IB : No device found.\n"


def test_a_run_on_one_host_needs_no_rdma_device() -> None:
    """NCCL says so wherever it falls back to sockets, also for a run over NVLink alone."""
    output = text("broken/sockets-one-host.txt").replace(CHOSEN, NO_DEVICE + CHOSEN)
    found = nccl_test_result(output, 400)
    assert (found["verdict"], found["problems"], found["complete"]) == ("pass", [], True)


def test_the_log_of_one_host_makes_no_run_of_one_host() -> None:
    output = text("broken/sockets-one-host.txt").replace("Pid   4219 on     dgx-01", "Pid   4219 on     dgx-02")
    found = nccl_test_result(output.replace(CHOSEN, NO_DEVICE + CHOSEN), 400)
    assert found["verdict"] == "fail"
    assert len(found["problems"]) == 2, "no device, and sockets"


def test_hosts_that_use_nvlink_alone_do_not_pass_by_their_rate() -> None:
    output = re.sub(r"via NET/IB/\S+", "via P2P/MNNVL", text("all-reduce-2.19-log.txt"))
    found = nccl_test_result(output, 180)
    assert (found["verdict"], found["problems"]) == ("reported", [])
    assert found["notices"][0].startswith("no channel uses a NIC: data between hosts goes over NVLink (MNNVL)")
    assert nccl_test_result(output.replace("dgx-02", "dgx-01"), 180)["verdict"] == "pass", "one host needs none"


def test_missing_gpudirect_is_noticed_and_named_as_the_cause_of_a_slow_run() -> None:
    assert read("broken/no-gpudirect.txt")["transport"]["gpu_direct"] == "none"
    slow = read("broken/no-gpudirect.txt", 180)["problems"]
    assert "GPUDirect" in slow[0]["cause"]
    assert "NCCL_IB_ECE_ENABLE=0" in slow[0]["next_step"]


@pytest.mark.parametrize(("version", "told"), [("2.22.3+cuda12.5", True), ("2.23.4+cuda12.6", False), (None, False)])
def test_why_gpudirect_is_missing_is_said_with_the_next_step(version: str | None, told: bool) -> None:
    """NVIDIA/nccl, issue 1676: NCCL up to 2.22.3 does not see nvidia-peermem on a kernel without memory_peers."""
    log = "".join(
        f"a:1:2 [{rank}] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA {rank % 2} 'mlx5_{rank % 2}'\n"
        for rank in range(4)
    )
    start = f"NCCL version {version}\n" if version else ""
    output = start + log + re.sub(r"NCCL version .*", "", text("broken/no-gpudirect.txt"))
    (notice,) = [each for each in nccl_test_result(output)["notices"] if "disabled" in each]
    assert "for mlx5_0, mlx5_1:" in notice and "load nvidia-peermem" in notice
    assert ("NCCL 2.23 or newer" in notice) is told
    assert nccl_test_result(start + log + text("all-reduce-2.19-log.txt"))["notices"] == []


# kubeflow/mpi-operator, issue 424, and awslabs/awsome-distributed-ai, issue 868
NOT_LET_IN = (
    "root@nccl-worker-1.nccl-worker: Permission denied (publickey,password).",
    "ssh: Could not resolve hostname nccl-tests-worker-3.nccl-tests.default.svc: Name or service not known",
)
WARN = "a:1:2 [0] misc/ibvwrap.cc:1 NCCL WARN"


@pytest.mark.parametrize(
    ("line", "cause", "step"),
    [
        # src/misc/ibvwrap.cc has the form before 2.16 and after, and that of ibv_modify_qp since 2.24
        (f"{WARN} Call to ibv_reg_mr_iova2 failed with error Bad address", "no nvidia-peermem", "nvidia-peermem"),
        (f"{WARN} Call to ibv_reg_mr failed with error Cannot allocate memory", "locked memory", "limits: {memlock"),
        (f"{WARN} Call to ibv_reg_mr failed with error Operation not permitted", "limit on locked memory is 0", "IPC_"),
        # NVIDIA/nccl, issue 778
        (f"{WARN} Call to ibv_reg_dmabuf_mr failed with error Operation not supported", "DMA-BUF", "DMABUF_ENABLE=0"),
        (f"{WARN} Call to ibv_create_cq failed with error Cannot allocate memory", "locked memory", "IPC_LOCK"),
        (f"{WARN} Call to ibv_create_qp failed with error Invalid argument", "the device gave no queue", "-q"),
        (f"{WARN} Call to ibv_modify_qp failed with error Network is unreachable", "no route", "ping -I"),
        (f"{WARN} Call to ibv_modify_qp failed with error No route to host errno 113", "no route", "ping -I"),
        (
            f"{WARN} Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1",
            "answer",
            "CROSS_NIC=0",
        ),
        (f"{WARN} Call to ibv_modify_qp failed with error Invalid argument errno 22", "GID index", "since 2.26"),
        (f"{WARN} Call to ibv_modify_qp failed with error No such device", "network namespace", "since 2.26"),
        (f"{WARN} Call to ibv_modify_qp failed with error Connection refused", "did not connect", "since 2.26"),
        (f"{WARN} NET/IB : Unable to open device mlx5_0", "may not open", "device plugin"),
        ("NCCL INFO NET/IB : No device found.", "no RDMA device", "rdma-core"),
        # src/misc/ibvsymbols.cc, up to 2.22 and later
        ("NCCL INFO Failed to open libibverbs.so[.1]", "no libibverbs", "ibverbs-providers"),
        ("NCCL INFO Count not open libibverbs.so.1", "no libibverbs", "ibverbs-providers"),
        # src/misc/shmutils.cc of 2.21 and 2.27; NVIDIA/nccl, issue 525
        (f"{WARN} Error: failed to extend /dev/shm/nccl-8ZkQ3V to 33030532 bytes", "too small", "emptyDir"),
        (
            f"{WARN} Error: failed to create shared memory file /dev/shm/nccl-1, error No space left",
            "small",
            "emptyDir",
        ),
        (f"{WARN} Error while attaching to shared memory segment /dev/shm/nccl-1", "do not share", "emptyDir"),
        # src/transport/net_ib.cc of 2.25
        (f"{WARN} NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument", "before 2.26", "GID_INDEX"),
        # src/misc/socket.cc up to 2.23, of 2.26, and src/os/linux.cc
        (f"{WARN} socketStartConnect: Connect to 10.0.0.1<4> failed : No route to host", "do not reach", "firewall"),
        (f"{WARN} socketPollConnect: connect returned refused, exceeded error retry count (35)", "reach", "firewall"),
        (
            f"{WARN} ncclOsSocketPollConnect: connect to 10.0.0.1<4> returned x, exceeded error retry count after 35",
            "reach",
            "firewall",
        ),
        # cudaGetErrorString, as nccl-tests and NCCL print it
        ("a: Test CUDA failure common.cu:943 'system not yet initialized'", "802", "nvidia-fabricmanager"),
        ("a: Test CUDA failure common.cu:1 'out of memory'", "not enough free memory", "nvidia-smi"),
        (
            "a: Test CUDA failure common.cu:1 'CUDA driver version is insufficient for CUDA runtime version'",
            "fit",
            "old",
        ),
        ("a:1:2 [0] transport/nvls.cc:244 NCCL WARN Cuda failure 802 'system not yet initialized'", "802", "fabricman"),
        ("a:1:2 [0] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'", "NVLink SHARP", "NVLS_ENABLE"),
        (f"{WARN} Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2 : CUDA error 401", "SHARP", "reset"),
        ("a: Test CUDA failure common.cu:941 'invalid device ordinal'", "more ranks than GPUs", "nvidia-smi -L"),
        ("458398: Test CUDA failure common.cu:730 'no CUDA-capable device is detected'", "more ranks", "nvidia-smi"),
        (
            "  8  2  float  suma: Test CUDA failure common.cu:253 'no kernel image is available for execution'",
            "built for other GPUs",
            "NVCC_GENCODE",
        ),
        (f"{WARN} Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU", "on one GPU", "own"),
        (f"{WARN} NET/IB : mlx5_1:1 async fatal event: local catastrophic error", "a NIC failed", "kernel log"),
        ("mpirun has detected an attempt to run as root.", "nothing as root", "--allow-run-as-root"),
        ("Abort(3712399) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other", "MPI itself", "eth0"),
        ("It looks like MPI_INIT failed for some reason; your parallel process is", "MPI itself", "btl_tcp_if_include"),
        ("There are not enough slots available in the system to satisfy the 16", "fewer slots than ranks", "slots=8"),
    ],
)
def test_a_complaint_of_nccl_has_its_cause_and_its_next_step(line: str, cause: str, step: str) -> None:
    (problem,) = errors_in([line]).problems
    assert cause in problem["cause"] and step in problem["next_step"]


@pytest.mark.parametrize(
    ("lines", "problem", "cause"),
    [
        # NVIDIA/nccl-tests, issue 185: the proxy and the other threads of the host notice it as well
        (
            [
                f"{WARN} Call to ibv_modify_qp failed with error Network is unreachable",
                f"{WARN} [Proxy Service 1] Failed to execute operation Connect from rank 1, retcode 2",
                f"{WARN} socketProgress: Connection closed by remote peer a<41109>",
                f"{WARN} Call to ibv_modify_qp failed with error Invalid argument",
                "a: Test NCCL failure common.cu:908 'internal error'",
            ],
            "Network is unreachable",
            "no route",
        ),
        (
            [f"{WARN} NET/IB : Got completion with status={state} opcode=1" for state in (5, 12)],
            "status=12",
            "transport retry exceeded",
        ),
        # NVIDIA/nccl, issue 905; the second form is that of 2.24 and newer
        *(
            ([f"{WARN} NET/IB : {event}", f"{WARN} NET/IB : Got completion with status=12 opcode=1"], event, "the link")
            for event in ("Got async event : port error", "mlx5_1:1 Got non-fatal async event: port error(10)")
        ),
        (
            [
                f"{WARN} socketProgress: Connection closed by remote peer a.example<41109>",
                "a: Test NCCL failure x.cu:1",
            ],
            "closed by remote peer",
            "another process of the same host",
        ),
        (
            [
                f"{WARN} NUMA auto balancing enabled which can lead to variability",
                f"{WARN} Could not find real path of mlx5_9",
                f"{WARN} Failed to do more",
                f"{WARN} socketProgress: Connection closed by remote peer b<41109>",
            ],
            "closed by remote peer",
            "first warning: Could not find real path of mlx5_9",
        ),
        # kubernetes-sigs/dra-driver-nvidia-gpu, issue 957: one rank's end stands before what another one says of it
        (
            ["a: Test NCCL failure x.cu:44 'cuda error'", f"{WARN} Cuda failure 'unspecified launch failure'"],
            "Test NCCL failure",
            "first warning: Cuda failure 'unspecified launch failure'",
        ),
        *(
            ([line, "ORTE was unable to reliably start one or more daemons."], line, "by ssh")
            for line in (*NOT_LET_IN, "Host key verification failed.")
        ),
    ],
)
def test_the_first_cause_is_told_and_not_what_follows_it(lines: list[str], problem: str, cause: str) -> None:
    (only,) = errors_in(lines).problems
    assert problem in only["problem"] and cause in only["cause"]


@pytest.mark.parametrize(
    "again",
    [
        # src/misc/ibvwrap.cc, wrap_ibv_modify_qp
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, retrying 1/35 after",
        # src/misc/socket.cc: NVIDIA/nccl, issue 1618, and a log of 2.27
        "socketStartConnect: connect returned Connection timed out, retrying (1/34) after sleep for 100 msec",
        "socketPollConnect: connect returned Connection refused, retrying (34/34) after sleep for 3400 msec",
        "ncclOsSocketStartConnect: connect to 10.0.0.11<42319> returned No route to host, retrying (1/34) after sleep",
        # Scripts of launchers try until every sshd answers.
        *NOT_LET_IN,
    ],
)
def test_what_nccl_tries_again_is_no_error(again: str) -> None:
    assert errors_in([again]) == errors_in([f"a:1:2 [0] NCCL INFO {again}"]) == ([], False)
    (ended,) = errors_in([again, "mpirun noticed that process rank 1 exited on signal 9"]).problems
    assert "signal 9" in ended["problem"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken/cut-off.txt", ["cut off", "no summary"]),
        ("broken/cut-off.json", ["cut off", "no summary"]),
        ("broken/not-finite.txt", ["nan"]),
        ("broken/two-outputs.txt", ["2 outputs"]),
        ("broken/no-rows.txt", ["there is no row"]),
        ("broken/mpirun-died.txt", ["mpirun noticed"]),
        ("broken/retry-exceeded.txt", ["IBV_WC_RETRY_EXC_ERR(12)"]),
        ("broken/old-retry-exceeded.txt", ["error 12"]),
    ],
)
def test_a_broken_output_says_what_is_wrong(name: str, words: list[str]) -> None:
    found = read(name)
    told = " | ".join(each["problem"] for each in found["problems"])
    for word in words:
        assert word in told
    assert found["verdict"] == "fail"
    assert all(each["cause"] and each["next_step"] for each in found["problems"])


def test_a_run_cut_off_keeps_the_rows_it_has() -> None:
    assert len(read("broken/cut-off.txt")["rows"]) == 9
    assert len(read("broken/cut-off.json")["rows"]) == 12
    assert read("broken/cut-off.txt")["complete"] is False


def test_a_run_with_more_rows_than_are_read_is_told_as_that() -> None:
    output = text("all-reduce-2.13.txt")
    rows = [line for line in output.splitlines(keepends=True) if re.match(r"\s*\d", line)]
    found = nccl_test_result(output.replace(rows[-1], rows[-1] * 1001))
    assert (len(found["rows"]), found["verdict"]) == (1000, "fail")
    assert "more than 1000 rows" in [each["problem"] for each in found["problems"]]


@pytest.mark.parametrize("name", ["all-reduce-2.19-log.txt", "all-reduce-2.13.txt"])
def test_a_run_that_nccl_ended_is_not_complete_whatever_it_printed_before(name: str) -> None:
    error = "dgx-01: Test NCCL failure common.cu:958 'remote process exited or there was a network error'\n"
    found = nccl_test_result(text(name) + error, 1)
    assert (bool(found["rows"]), found["complete"], found["verdict"]) == (True, False, "fail")


def test_of_two_runs_the_last_is_read() -> None:
    found = read("broken/two-outputs.txt")
    assert found["summary"]["busbw_gbytes"] == pytest.approx(3.1, abs=0.05)
    assert (len(found["rows"]), found["ranks"], found["complete"]) == (15, 16, False)


@pytest.mark.parametrize("name", ["all-reduce-2.19-log.txt", "all-reduce-2.0.txt"])
def test_number_signs_that_a_web_page_took_for_headings_are_not_needed(name: str) -> None:
    assert nccl_test_result(text(name).replace("# ", "").replace("#\n", "\n")) == read(name)


def test_a_lost_header_loses_no_row() -> None:
    assert len(read("broken/header-lost.txt")["rows"]) == 15


@pytest.mark.parametrize("line", ["error 12, opcode 1", "status=12 opcode=0", "status=IBV_WC_RETRY_EXC_ERR(12) op"])
def test_a_completion_s_state_is_read_from_every_form(line: str) -> None:
    (problem,) = errors_in([f"NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with {line}"]).problems
    assert "retry exceeded" in problem["cause"]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a:1:2 [0] NCCL INFO Using network Socket", "network", "Socket"),
        ("a:1:2 [0] NCCL INFO Assigned NET plugin IBext_v9 to comm", "network", "IBext_v9"),
        ("a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA/Shared", "gpu_direct", "all"),
        ("a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "gpu_direct", "none"),
        # aws-ofi-nccl, whose name has a blank
        ("a:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0", "local_only", False),
        ("a:1:2 [0] NCCL INFO Using network AWS Libfabric", "network", "AWS Libfabric"),
        (
            "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_1:1/RoCE [1]mlx5_2:2/RoCE ; OOB",
            "devices",
            ["mlx5_1:1", "mlx5_2:2"],
        ),
        ("a:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC", "local_only", True),
        ("a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL/read", "local_only", False),
        ("a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL", "network", "MNNVL"),
    ],
)
def test_a_line_of_the_log_tells_the_transport(line: str, key: str, value: Any) -> None:
    assert transport_in([line])[key] == value


def test_what_channels_use_counts_before_what_was_chosen() -> None:
    chosen, channel = "a:1:2 [0] NCCL INFO Using network Socket", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"
    assert transport_in([chosen, channel])["network"] == "IB"
    local = "Channel 00 : 0[0] -> 1[1] via P2P/IPC"
    assert transport_in([local, channel])["local_only"] is False


@pytest.mark.parametrize(
    "output", ["", "   \n", "hello", "{}", "[1, 2]", '{"version": 3', '{"version":3,"results":7}', "\0" * 50]
)
def test_what_is_no_output_is_named(output: str) -> None:
    found = nccl_test_result(output)
    assert (found["rows"], found["summary"], found["complete"], found["verdict"]) == ([], None, False, "fail")
    assert found["problems"]


def test_deep_nesting_in_json_is_no_harm() -> None:
    assert nccl_test_result('{"version":3,"results":[' + "[" * 100_000)["rows"] == []


@pytest.mark.parametrize("minimum", [0, -1, "fast", True, float("inf")])
def test_a_minimum_that_is_no_rate_is_refused(minimum: Any) -> None:
    with pytest.raises(InvalidInput, match="GB/s"):
        nccl_test_result("", minimum)


@pytest.mark.parametrize("output", [None, 7, b"# nThread", ["# nThread"]])
def test_what_is_no_text_is_refused(output: Any) -> None:
    with pytest.raises(InvalidInput, match="text is needed"):
        nccl_test_result(output)


@settings(max_examples=examples(150))
@given(st.data())
def test_a_mangled_output_gives_a_result_with_problems_or_without(data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(EVERY_FIXTURE)).read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(original)))
    length = data.draw(st.integers(0, 400))
    mangled = original[:start] + data.draw(st.text(max_size=40)) + original[start + length :]
    found = nccl_test_result(mangled, 180)
    json.dumps(found, allow_nan=False)
    assert found["verdict"] in ("pass", "fail")
    assert found["verdict"] == "pass" or found["problems"]


@settings(max_examples=examples(150))
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "version",
                        "results",
                        "size",
                        "count",
                        "out_of_place",
                        "in_place",
                        "time",
                        "alg_bw",
                        "bus_bw",
                        "nwrong",
                        "config",
                        "devices",
                        "hostname",
                        "args",
                        "errors",
                        "out_of_bounds",
                        "average_bus_bandwidth",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_gives_a_result(document: Any) -> None:
    found = nccl_test_result(document if isinstance(document, dict) else json.dumps(document))
    json.dumps(found, allow_nan=False)
