# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of perftest that are broken: what is wrong is said with its cause and next step, and nothing fails."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._proof.bandwidth import bandwidth_verdict
from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import UNITS, perftest_result
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.sweeps import examples
from ansible_collections.rdma.fabric.tests.unit._proof.perftest_outputs import (
    BROKEN,
    FIXTURES,
    VERSIONS,
    problems,
    read,
    text,
)

# File -> rows that are still read, and words of what is said.
BROKEN_OUTPUTS: dict[str, tuple[int, str]] = {
    "binary.bin": (0, "not output of perftest"),
    "garbage.txt": (0, "not output of perftest"),
    "mixed-lines.txt": (0, "not output of perftest"),
    "cut-off-after-a-row.txt": (12, "cut off before its end"),
    "cut-off-in-a-row.txt": (12, "cut off before its end"),
    "cut-off-in-the-header.txt": (0, "there is no row"),
    "no-rows.txt": (0, "there is no row"),
    "header-lost.txt": (23, "the table has no header"),
    "not-finite.txt": (21, "a row makes no sense: 32 20 0.002521 nan"),
    "negative.txt": (22, "a row makes no sense: 128 20 0.020513 -0.21"),
    "impossible-row.txt": (22, "a row makes no sense: 1048576 20 0.28 29000.00"),
    "two-outputs.txt": (1, "2 outputs in one text"),
    "server-waits.txt": (0, "the server side waits"),
    "cut-off.json": (0, "the unit of the numbers is not in the text"),
    "cut-off-4.5.json": (0, "there is no row"),
    "no-number.json": (0, "a row makes no sense"),
    "socket-not-opened.txt": (0, "Couldn't connect to 192.168.111.1:18515"),
    "memory-not-registered.txt": (0, "Couldn't allocate MR"),
    "unresolved-name.txt": (0, "Name or service not known"),
    "kubectl-lost-the-pod.txt": (0, "Error from server (NotFound)"),
}
ERRORS = ("error-gid", "error-no-device", "error-no-server", "error-server-killed", "error-sizes", "write-cuda")
SOURCES = sorted(path for path in FIXTURES.rglob("*.*") if path.suffix in (".txt", ".json"))


def check(found: dict[str, Any]) -> None:
    """Hold a result to what it promises whatever the text was."""
    json.dumps(found, allow_nan=False)
    assert found["complete"] or found["problems"]
    assert bool(found["rows"]) == (found["summary"] is not None)
    for problem in found["problems"]:
        assert set(problem) == {"problem", "cause", "next_step"}
        assert all(problem.values())
        assert len(problem["problem"]) < 260
    for row in found["rows"]:
        assert row["iterations"] is None or row["iterations"] > 0
        assert row.get("average_gbps", row.get("average_us")) >= 0


@pytest.mark.parametrize("name", BROKEN_OUTPUTS)
def test_a_broken_output_says_what_is_wrong(name: str) -> None:
    rows, words = BROKEN_OUTPUTS[name]
    found = read(f"broken/{name}")
    check(found)
    assert (len(found["rows"]), found["complete"]) == (rows, False)
    assert words in problems(found)[0]
    if found["kind"] != "latency":
        assert bandwidth_verdict(found, 100, emulated=True)["verdict"] == "fail"


def test_every_broken_file_belongs_to_a_test() -> None:
    told_otherwise = {"unit-lost.txt", "wrong-unit.txt"}
    assert {path.name for path in BROKEN.iterdir()} == set(BROKEN_OUTPUTS) | told_otherwise


def test_a_lost_unit_is_told_by_size_and_rate_of_messages() -> None:
    found, whole = read("broken/unit-lost.txt"), read("recorded/25.01.0/write-all-gbits.txt")
    assert (found["unit"], found["rows"], found["complete"]) == ("Gb/s", whole["rows"], True)
    assert any("names no unit" in notice for notice in found["notices"])


def test_a_wrong_unit_is_not_believed() -> None:
    found = read("broken/wrong-unit.txt")
    assert found["complete"] is False
    assert "a row makes no sense" in problems(found)[0]
    assert len(found["rows"]) < 3


def test_a_cut_off_report_is_read_with_its_unit_given() -> None:
    found = read("broken/cut-off.json", "gbps")
    assert found["rows"][0]["average_gbps"] == 0.039247
    assert found["complete"] is False
    assert "cut off" in problems(found)[0]


@pytest.mark.parametrize("output", ["", "\n\n", " \t \r\n", "\0\0"])
def test_nothing_is_named(output: str) -> None:
    found = perftest_result(output)
    check(found)
    assert problems(found) == ["the output is empty"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ERRORS)
def test_a_recorded_failure_tells_its_cause(version: str, name: str) -> None:
    words = {
        "error-gid": "GID",
        "error-no-device": "no RDMA device of that name",
        "error-no-server": "nothing listens",
        "error-server-killed": "the other side ended before",
        "error-sizes": "memory is not accessible",
        "write-cuda": "no GPU support",
    }
    negotiated = {"error-server-killed", "error-sizes"} if version == "26.04.17" else set()
    found = read(f"recorded/{version}/{name}.txt")
    check(found)
    assert (found["rows"], found["complete"]) == ([], False)
    first = found["problems"][0]
    assert ("do not fit" if name in negotiated else words[name]) in first["cause"]
    assert not first["problem"][0].isdigit()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_side_of_the_cause_is_pointed_at(version: str) -> None:
    words = "do not fit" if version == "26.04.17" else "look at the other side's output"
    (problem, *_more) = read(f"recorded/{version}/error-sizes.server.txt")["problems"]
    assert words in problem["cause"] + problem["next_step"]


def test_a_port_that_is_down_is_named() -> None:
    (problem,) = read("recorded/25.01.0/error-port-down.txt")["problems"]
    assert problem["problem"] == "Port number 1 state is Down"
    assert "link" in problem["next_step"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_mtu_that_was_not_taken_is_noticed_and_the_run_counts(version: str) -> None:
    found = read(f"recorded/{version}/error-mtu.server.txt")
    assert (found["complete"], found["problems"]) == (True, [])
    assert any("MTU" in notice for notice in found["notices"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Couldn't connect to 10.0.0.1:18515", "nothing listens"),
        ("Couldn't listen to port 18515", "port of the test is taken"),
        (" Unable to init the socket connection", "did not start"),
        ("Failed to modify QP 77 to RTR", "GID index"),
        ("Failed to modify QP to INIT, ret=22", "did not connect"),
        ("Couldn't allocate MR", "locked memory"),
        # linux-rdma/perftest, issues 280 and 346; src/perftest_resources.c has the form
        ("Couldn't allocate MR with error=12", "limit on locked memory"),
        ("Couldn't allocate MR with error=14", "no nvidia-peermem"),
        ("Couldn't allocate MR with error=93", "registers no DMA-BUF"),
        ("Couldn't allocate MR with error=95\nOFED stack does not support DMA-BUF", "registers no DMA-BUF"),
        ("Couldn't create rdma old QP - Cannot allocate memory", "more than the limit on locked memory"),
        (" Requested QP size might be too big. Try reducing TX depth and/or inline size.", "no room"),
        # src/perftest_parameters.c and src/cuda_memory.c
        ("CUDA DMA-BUF cannot be used without CUDA\n Parser function exited with Error", "options are read in their"),
        ("ROCm DMA-BUF cannot be used without ROCm", "options are read in their order"),
        ("cuInit(0) returned 802", "nvidia-fabricmanager"),
        ("failed to create mr", "nvidia-peermem"),
        ("ibv_reg_dmabuf_mr(...) failed", "could not be registered"),
        ("Couldn't create CQ", "limits"),
        ("Unable to create QP.", "limits"),
        (" Found Incompatibility issue with GID types.", "different kinds"),
        ("cuInit(0) returned 100", "no usable GPU"),
        ("DMA-BUF is not supported on this GPU", "no DMA-BUF"),
        ("cuMemAlloc error=2", "gave no memory"),
        ("Event: RDMA_CM_EVENT_REJECTED; error: 8.", "connection manager"),
        (" rdma_resolve_addr failed", "connection manager"),
        # src/perftest_communication.c, with -R
        ("Unexpected CM event bl blka 8\n Unable to perform rdma_client function", "connection manager"),
        ("Received 10 times ADDR_ERROR\n Unable to perform rdma_client function", "connection manager"),
        ("Unable to connect (retries = 10)", "connection manager"),
        ("Failed to connect RDMA CM client, tried 10 times.", "connection manager"),
        ("Event: RDMA_CM_EVENT_REJECTED; error: 28.\nFailed to connect RDMA CM events.", "reached and refused"),
        # src/perftest_resources.c
        ("DMABUF requested but not supported in this build\nfailed to create mr", "registers no DMA-BUF"),
        ("Current implementation is not compatible with versions older than 5.70", "do not fit"),
        ("bash: ib_write_bw: command not found", "not installed"),
        ('exec: "ib_write_bw": executable file not found in $PATH: unknown', "not installed"),
        ("ib_write_bw: error while loading shared libraries: libibverbs.so.1: cannot open", "library"),
        ("ib_write_bw: error while loading shared libraries: libcuda.so.1: cannot open shared object file", "libcuda"),
        # load_cuda_library of linux-rdma/perftest, src/cuda_loader.c
        ("dlerror: libcuda.so: cannot open shared object file: No such file or directory", "libcuda"),
        ("load_cuda_function: Failed to get driver entry point 'cuInit' (CUDA error 500)", "driver is older"),
        # Mellanox/k8s-rdma-shared-dev-plugin, issue 106: an image with older libraries than the node's driver
        (" Did not detect devices \n If device exists, check if driver is up", "rdma-core"),
        ("IB device mlx5_0 not found", "rdma-core"),
        ("Segmentation fault (core dumped)", "crashed"),
        ("command terminated with exit code 137", "the program in the pod failed"),
        ("ib_write_bw: unrecognized option '--use_cuda=0'", "no GPU support"),
        ("ib_write_bw: unrecognized option '--out_json'", "does not know an option"),
        (" Failed status 12: wr_id 0 syndrom 0x81", "transport retry exceeded"),
        (" Failed status-IBV_WC_RETRY_EXC_ERR (12): wr_id 0 syndrom 0x81", "transport retry exceeded"),
        (" Failed status-transport retry counter exceeded (12): wr_id 0", "transport retry exceeded"),
        (" Failed status 4: wr_id 0 syndrom 0x51", "ACS"),
        (" Failed status 99: wr_id 0 syndrom 0x0", "completion state 99"),
    ],
)
def test_a_message_has_a_cause_and_a_next_step(line: str, words: str) -> None:
    found = perftest_result(line + "\n")
    check(found)
    assert words in found["problems"][0]["cause"]
    assert found["complete"] is False


@pytest.mark.parametrize(
    "line",
    [
        # k8snetworkplumbingwg/sriov-cni, issue 348
        "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1) for device "
        "/sys/class/infiniband/bnxt_re2",
        "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs4",
    ],
)
def test_a_device_that_the_libraries_do_not_know_is_noticed_and_a_run_over_another_counts(line: str) -> None:
    found = perftest_result(f"{line}\n{HEADER}{ROW}---------------------------------------\n")
    assert found["problems"] == []
    assert any("rdma-core" in notice for notice in found["notices"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        # src/perftest_resources.c: a server side reports what it got until then
        (
            " Did not get Message for 120 Seconds, exiting..\n Total Received=7, Total Iters Required=1000",
            "nothing that",
        ),
        ("VALIDATION: WARNING (client) - no data validated", "was not checked"),
        (
            "VALIDATION: FAILED (client) - 12 error(s), first at QP 0, Chunk 3, Offset 8",
            "did not arrive as it was sent",
        ),
    ],
)
def test_rates_of_a_test_that_stalled_or_got_wrong_data_do_not_pass(line: str, words: str) -> None:
    found = perftest_result(f"{HEADER}{ROW}---------------------------------------\n{line}\n")
    assert words in found["problems"][0]["cause"]
    assert bandwidth_verdict(found, 0.01)["verdict"] == "fail"


def test_a_consequence_is_left_out_beside_its_cause() -> None:
    found = perftest_result("Failed to modify QP 7 to RTR\n Unable to Connect the HCA's through the link\n")
    assert problems(found) == ["Failed to modify QP 7 to RTR"]
    found = perftest_result("dlerror: libcuda.so: cannot open shared object\nFailed to load CUDA library dynamically\n")
    assert problems(found) == ["dlerror: libcuda.so: cannot open shared object"]
    memory = perftest_result(
        "cuMemAlloc error=2\nfailed to create mr\nFailed to create MR\nCouldn't create IB resources\n"
    )
    assert problems(memory) == ["cuMemAlloc error=2"]
    connecting = perftest_result("Couldn't allocate MR\nFailed to create MR\nFailed to connect RDMA CM events.\n")
    assert problems(connecting) == ["Couldn't allocate MR"]
    alone = perftest_result(" Unable to Connect the HCA's through the link\n")
    assert problems(alone) == ["Unable to Connect the HCA's through the link"]


def test_a_message_that_repeats_is_said_once() -> None:
    assert len(perftest_result("Couldn't connect to 10.0.0.1:18515\n" * 1000)["problems"]) == 1


ROW = " 65536      5000             97.96              97.95              0.186826\n"
HEADER = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
JSON_KEYS = (
    *("test_info", "results", "MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate"),
    *("test", "Device", "Mtu", "bw_avg", "t_avg"),
)
MEGABYTE = 1000 * 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "1 ",
        "1",
        " ",
        "\n",
        "-",
        "Failed ",
        "error\n",
        "RDMA_Write BW Test\n",
        ROW,
        HEADER,
        "65536 5000 97.96 ",
        "{",
        '"test_info": {\n',
    ],
    ids=repr,
)
def test_a_megabyte_of_anything_is_read_in_bounded_time_and_space(piece: str) -> None:
    output = (HEADER + piece * (MEGABYTE // len(piece)))[:MEGABYTE]
    started = time.process_time()
    found = perftest_result(output)
    assert time.process_time() - started < 3
    check(found)
    assert found["complete"] is False or piece == "-"
    assert len(json.dumps(found)) < 300_000


def test_rows_that_agree_on_no_unit_have_none() -> None:
    mixed = perftest_result(ROW + " 65536 5000 11677.98 11676.79 0.186829\n")
    assert (mixed["rows"], mixed["unit"]) == ([], None)
    assert "the unit of the numbers" in problems(mixed)[0]


def test_a_negative_size_or_time_is_no_row() -> None:
    assert perftest_result(HEADER + ROW.replace(" 65536", " -65536"))["rows"] == []
    latency = text("recorded/25.01.0/write-lat.txt")
    minimum = f"{read('recorded/25.01.0/write-lat.txt')['rows'][0]['min_us']:.2f}"
    negative = perftest_result(latency.replace(minimum, f"-{minimum}"))
    assert negative["rows"] == []
    assert "a row makes no sense" in problems(negative)[0]


def test_a_table_of_one_direction_that_is_cut_off_is_not_complete() -> None:
    whole = text("recorded/25.01.0/write-report-both.txt")
    cut = perftest_result(whole[: whole.index("Remote results")].rstrip("-\n "))
    assert len(cut["directions"]["local"]) == 1
    assert cut["complete"] is False


def test_a_completion_error_after_good_rows_ends_the_run() -> None:
    found = perftest_result(text("recorded/25.01.0/write-gbits.txt") + " Failed status 12: wr_id 0 syndrom 0x81\n")
    assert (len(found["rows"]), found["complete"]) == (1, False)


def test_what_is_longer_than_any_output_is_refused() -> None:
    with pytest.raises(InvalidInput, match="characters are not output"):
        perftest_result("x" * (33 * 1024 * 1024))


def test_rows_without_end_are_bounded() -> None:
    found = perftest_result(HEADER + ROW * 5000)
    assert len(found["rows"]) == 1000
    assert any("more than 1000 rows" in problem for problem in problems(found))


@settings(max_examples=examples(300))
@given(st.text(max_size=400), st.sampled_from(UNITS))
def test_any_text_gives_a_result(output: str, unit: str) -> None:
    check(perftest_result(output, unit))


@settings(max_examples=examples(300))
@given(st.data())
def test_a_mangled_output_gives_a_result(data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(SOURCES)).read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(original)))
    length = data.draw(st.integers(0, 300))
    inserted = data.draw(st.text(max_size=30) | st.sampled_from([ROW, HEADER, "nan", "-", "1e999", "9" * 5000, "\n"]))
    found = perftest_result(original[:start] + inserted + original[start + length :], data.draw(st.sampled_from(UNITS)))
    check(found)
    if found["kind"] != "latency":
        verdict = bandwidth_verdict(found, 100)
        assert verdict["verdict"] in ("pass", "fail", "reported")
        assert found["complete"] or verdict["verdict"] == "fail"


@settings(max_examples=examples(200))
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "test_info",
                        "results",
                        "MsgSize",
                        "n_iterations",
                        "BW_peak",
                        "BW_average",
                        "MsgRate",
                        "test",
                        "Device",
                        "Mtu",
                        "bw_avg",
                        "t_avg",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=15,
    )
)
def test_any_mapping_gives_a_result(document: Any) -> None:
    check(perftest_result(document if isinstance(document, dict) else json.dumps(document)))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_is_complete_with_its_last_line_only(version: str) -> None:
    output = text(f"recorded/{version}/write-all-mib.txt")
    lines = output.splitlines(keepends=True)
    for kept in range(len(lines)):
        assert perftest_result("".join(lines[:kept]))["complete"] is False
    assert perftest_result(output)["complete"] is True
