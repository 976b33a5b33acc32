# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of perftest, recorded with four versions and every option that changes their form."""

from __future__ import annotations

import json
import math
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._proof.perftest_outputs import RECORDED, VERSIONS, read, text

# Form of output -> program, unit, rows. Whatever is bidirectional says so in its name or title.
FORMS: dict[str, tuple[str, str, int]] = {
    "write-default": ("ib_write_bw", "MiB/s", 1),
    "write-gbits": ("ib_write_bw", "Gb/s", 1),
    "write-gbits.server": ("ib_write_bw", "Gb/s", 1),
    "write-all-mib": ("ib_write_bw", "MiB/s", 23),
    "write-bidirectional": ("ib_write_bw", "Gb/s", 1),
    "write-report-both": ("ib_write_bw", "MiB/s", 1),
    "write-duration": ("ib_write_bw", "Gb/s", 1),
    "write-4qp": ("ib_write_bw", "Gb/s", 1),
    "write-rdmacm-tos": ("ib_write_bw", "Gb/s", 1),
    "write-rdmacm-tos.server": ("ib_write_bw", "Gb/s", 1),
    "write-inline": ("ib_write_bw", "MiB/s", 1),
    "write-cpu-util": ("ib_write_bw", "Gb/s", 1),
    "write-post-list": ("ib_write_bw", "Gb/s", 1),
    "read": ("ib_read_bw", "Gb/s", 1),
    "send": ("ib_send_bw", "Gb/s", 1),
    "send-bidirectional-duration": ("ib_send_bw", "MiB/s", 1),
    "atomic": ("ib_atomic_bw", "MiB/s", 1),
    "write-lat": ("ib_write_lat", "us", 1),
    "write-lat.server": ("ib_write_lat", "us", 1),
    "read-lat": ("ib_read_lat", "us", 1),
    "write-lat-duration": ("ib_write_lat", "us", 1),
}
EVERY_FORM = [(version, form) for version in VERSIONS for form in FORMS]
REPORTS = [(version, form) for version in VERSIONS[1:] for form in ("write-json", "write-json-mib", "write-lat-json")]


def recorded(version: str, form: str) -> dict[str, Any]:
    return read(f"recorded/{version}/{form}.txt")


def article(name: str) -> dict[str, Any]:
    return read(f"recorded/article-{name}-memory.txt")


@pytest.mark.parametrize(
    ("name", "peak", "first", "last", "rdma_cm"),
    [
        ("host", 98.03, (2, 0.083670, 0.082376, 5.148474), (8388608, 98.02, 97.64, 0.001455), True),
        ("gpu", 82.13, (2, 0.076617, 0.074692, 4.668252), (8388608, 82.12, 82.07, 0.001223), False),
    ],
)
def test_all_rows_of_the_article_are_read(
    name: str, peak: float, first: tuple[float, ...], last: tuple[float, ...], rdma_cm: bool
) -> None:
    found = article(name)
    assert [row["bytes"] for row in found["rows"]] == [2**exponent for exponent in range(1, 24)]
    for row, values in ((found["rows"][0], first), (found["rows"][-1], last)):
        assert (row["bytes"], row["peak_gbps"], row["average_gbps"], row["msg_rate_mpps"]) == values
        assert row["iterations"] == 5000
    assert found["summary"]["peak_gbps"] == peak
    assert (found["test"], found["device"], found["qps"]) == ("ib_write_bw", "mlx5_0", 1)
    assert (found["mtu"], found["link_type"], found["gid_index"]) == (4096, "Ethernet", 2)
    assert (found["connection"], found["transport"], found["rdma_cm"]) == ("RC", "IB", rdma_cm)
    assert (found["unit"], found["source"], found["complete"], found["problems"]) == ("Gb/s", "table", True, [])
    assert any("dashes" in notice for notice in found["notices"])


def test_the_article_s_figures_are_those_it_claims() -> None:
    host, gpu = article("host"), article("gpu")
    from_8_kib = [row["average_gbps"] for row in host["rows"] if row["bytes"] >= 8192]
    assert (min(from_8_kib), max(from_8_kib)) == (97.27, 98.03)
    assert host["summary"] == {
        "peak_gbps": 98.03,
        "average_gbps": 97.645,
        "largest_bytes": 8388608,
        "best_bytes": 2097152,
        "best_gbps": 98.03,
    }
    assert gpu["summary"]["average_gbps"] == pytest.approx(82.085)


@pytest.mark.parametrize(("version", "form"), EVERY_FORM)
def test_every_form_of_every_version_is_read_whole(version: str, form: str) -> None:
    program, unit, rows = FORMS[form]
    found = recorded(version, form)
    assert (found["test"], found["unit"], len(found["rows"])) == (program, unit, rows)
    assert (found["complete"], found["problems"]) == (True, [])
    assert not any("names no unit" in notice for notice in found["notices"])
    assert (found["device"], found["transport"], found["connection"]) == ("rxe0", "IB", "RC")
    assert (found["link_type"], found["mtu"], found["gid_index"]) == ("Ethernet", 4096, 1)
    assert found["bidirectional"] == ("bidirectional" in form or "both" in form)
    assert found["qps"] == (4 if "4qp" in form else 1)
    assert found["rdma_cm"] == ("rdmacm" in form)
    assert found["tos"] == (106 if "tos" in form else None)
    assert found["cuda"] is False


@pytest.mark.parametrize(("version", "form"), [each for each in EVERY_FORM if FORMS[each[1]][1] != "us"])
def test_bandwidth_is_size_times_rate_of_messages_in_gigabits(version: str, form: str) -> None:
    for row in recorded(version, form)["rows"]:
        by_rate = row["msg_rate_mpps"] * row["bytes"] * 8 / 1000
        rounding = 1e-6 * row["bytes"] * 8 / 1000 + 0.01
        assert math.isclose(row["average_gbps"], by_rate, rel_tol=0.01, abs_tol=rounding)


@pytest.mark.parametrize(("version", "rows"), [("4.4-0.37", 23), ("25.01.0", 23)])
def test_a_table_of_every_size_is_read(version: str, rows: int) -> None:
    found = recorded(version, "write-all-gbits")
    assert [row["bytes"] for row in found["rows"]] == [2**exponent for exponent in range(1, rows + 1)]
    assert found["complete"]


@pytest.mark.parametrize("version", ["4.5-0.17", "26.04.17"])
def test_a_recorded_run_that_hung_keeps_its_rows_and_is_not_complete(version: str) -> None:
    found = recorded(version, "write-all-gbits")
    assert 0 < len(found["rows"]) < 23
    assert found["complete"] is False
    assert "cut off" in found["problems"][0]["problem"]


@pytest.mark.parametrize("version", VERSIONS)
def test_both_sides_of_a_run_agree(version: str) -> None:
    client, server = recorded(version, "write-gbits"), recorded(version, "write-gbits.server")
    assert client["rows"] == server["rows"]


def test_mb_of_old_versions_is_mib() -> None:
    line = text("recorded/4.4-0.37/write-default.txt")
    assert "BW average[MB/sec]" in line
    assert "BW average[MiB/sec]" in text("recorded/25.01.0/write-default.txt")
    (row,) = recorded("4.4-0.37", "write-default")["rows"]
    assert row["average_gbps"] == pytest.approx(17.55 * 2**20 * 8 / 1e9, rel=1e-6)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_peak_that_was_not_measured_is_none(version: str) -> None:
    found = recorded(version, "write-duration")
    assert found["rows"][0]["peak_gbps"] is None
    assert found["summary"]["peak_gbps"] is None
    assert found["rows"][0]["average_gbps"] > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_directions_are_kept_apart_from_their_sum(version: str) -> None:
    found = recorded(version, "write-report-both")
    (row,), (local,), (remote,) = found["rows"], found["directions"]["local"], found["directions"]["remote"]
    assert row["average_gbps"] == pytest.approx(local["average_gbps"] + remote["average_gbps"], abs=0.001)
    assert recorded(version, "write-bidirectional")["directions"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_processor_s_share_is_read(version: str) -> None:
    (row,) = recorded(version, "write-cpu-util")["rows"]
    assert 0 < row["cpu_percent"] <= 100


@pytest.mark.parametrize("version", VERSIONS)
def test_a_latency_has_its_percentiles_in_order(version: str) -> None:
    found = recorded(version, "write-lat")
    (row,) = found["rows"]
    assert row["bytes"] == 2
    assert row["min_us"] <= row["typical_us"] <= row["p99_us"] <= row["p999_us"] <= row["max_us"]
    assert row["stdev_us"] > 0
    assert found["summary"] == {key: row[key] for key in ("bytes", "typical_us", "average_us", "p99_us", "p999_us")}
    (timed,) = recorded(version, "write-lat-duration")["rows"]
    assert timed["transactions_per_second"] == pytest.approx(1e6 / timed["average_us"] / 2, rel=0.01)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_printed_version_is_read(version: str) -> None:
    printed = {"4.4-0.37": "5.96", "4.5-0.17": "6.06", "25.01.0": "6.24", "26.04.17": "6.29"}
    both = text(f"recorded/{version}/version.txt") + text(f"recorded/{version}/write-default.txt")
    assert perftest_result(both)["version"] == printed[version]
    assert perftest_result(both)["complete"]


@pytest.mark.parametrize(("version", "form"), REPORTS)
def test_a_json_report_says_what_the_table_says(version: str, form: str) -> None:
    report, printed = read(f"recorded/{version}/{form}.json"), recorded(version, form)
    assert (report["source"], printed["source"]) == ("json", "table")
    assert (report["rows"], report["unit"]) == (printed["rows"], printed["unit"])
    for key in ("test", "device", "qps", "mtu", "link_type", "gid_index", "rdma_cm", "complete", "problems", "summary"):
        assert report[key] == printed[key], key


def test_a_report_that_is_no_json_is_read_and_noticed() -> None:
    broken = text("recorded/4.5-0.17/write-json.json")
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(broken)
    assert any("not valid JSON" in notice for notice in perftest_result(broken)["notices"])
    assert read("recorded/26.04.17/write-json.json")["notices"] == []


def test_a_report_may_be_a_mapping_already() -> None:
    document = json.loads(text("recorded/26.04.17/write-json.json"))
    assert perftest_result(document) == read("recorded/26.04.17/write-json.json")
    document["test_info"]["cuda_device"] = 0
    assert perftest_result(document)["cuda"] is True


def test_a_table_counts_before_a_report_in_one_text() -> None:
    both = text("recorded/26.04.17/write-json.json") + text("recorded/26.04.17/write-json.txt")
    assert perftest_result(both)["source"] == "table"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bare_number_needs_its_unit(version: str) -> None:
    name = f"recorded/{version}/write-output-bandwidth.txt"
    number = float(text(name).split()[-1])
    unknown = read(name)
    assert (unknown["rows"], unknown["complete"]) == ([], False)
    assert "unit" in unknown["problems"][0]["problem"]
    gigabits, mebibytes = read(name, "gbps"), read(name, "mibps")
    assert gigabits["summary"]["average_gbps"] == number
    assert mebibytes["summary"]["average_gbps"] == pytest.approx(number * 2**20 * 8 / 1e9, abs=1e-6)
    assert read(name, "usec")["summary"]["average_us"] == number
    assert gigabits["complete"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missed_limit_leaves_the_row_valid(version: str) -> None:
    found = recorded(version, "write-limit")
    assert len(found["rows"]) == 1
    assert found["complete"]
    assert found["problems"][0]["problem"] == "Error: BW result is below bw limit"


NOISES: dict[str, Callable[[str], str]] = {
    "line ends of a terminal": lambda output: output.replace("\n", "\r\n"),
    "line ends of an old system": lambda output: output.replace("\n", "\r"),
    "timestamps of kubectl logs": lambda output: prefixed(output, "2026-03-02T11:20:41.123456789Z "),
    "names of kubectl logs": lambda output: prefixed(output, "[pod/rdma-test-pod-2/test] "),
    "names and timestamps": lambda output: prefixed(output, "[pod/a/b] 2026-03-02T11:20:41Z "),
    "ranks of mpirun": lambda output: prefixed(output, "[1,0]<stdout>:"),
    "labels of srun": lambda output: prefixed(output, " 3: "),
    "names of pdsh": lambda output: prefixed(output, "node-07: "),
    "colours": lambda output: prefixed(output, "\x1b[0;32m").replace("\n", "\x1b[0m\n"),
    "blanks of a web page": lambda output: output.replace("  ", " \u00a0"),
    "prompt and command": lambda output: "[root@pod /]# ib_write_bw -d rxe0 -a 10.9.0.1\n" + output + "[root@pod /]# ",
    "messages of libraries": lambda output: (
        "libibverbs: Warning: couldn't load driver 'libfoo-rdmav34.so': no such file\n"
        "Conflicting CPU frequency values detected: 1200.0 != 3700.0. CPU Frequency is not max.\n" + output
    ),
}


def prefixed(output: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in output.splitlines())


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", ["25.01.0/write-all-gbits", "4.4-0.37/write-lat", "26.04.17/write-report-both"])
def test_noise_around_lines_changes_nothing(name: str, noise: str) -> None:
    clean, noisy = read(f"recorded/{name}.txt"), perftest_result(NOISES[noise](text(f"recorded/{name}.txt")))
    for key in ("rows", "directions", "summary", "complete", "problems", "device", "mtu", "test", "gid_index"):
        assert noisy[key] == clean[key], key


@pytest.mark.parametrize("name", ["25.01.0/write-json.json", "4.5-0.17/write-lat-json.json"])
@pytest.mark.parametrize("prefix", ["[pod/rdma-test-pod-2/test] ", "2026-03-02T11:20:41Z ", "[1,0]<stdout>:", "3: "])
def test_prefixes_change_no_report_and_no_bare_number(name: str, prefix: str) -> None:
    assert perftest_result(prefixed(text(f"recorded/{name}"), prefix)) == read(f"recorded/{name}")
    number = "recorded/25.01.0/write-output-bandwidth.txt"
    assert perftest_result(prefixed(text(number), prefix), "gbps") == read(number, "gbps")


def test_what_follows_a_report_does_not_belong_to_it() -> None:
    followed = text("recorded/4.5-0.17/write-json.json") + "Mtu: 1024\nBW_average: 99.0\n"
    assert perftest_result(followed) == read("recorded/4.5-0.17/write-json.json")


def test_a_row_with_a_message_behind_it_is_read() -> None:
    output = text("recorded/25.01.0/write-gbits.txt").replace(
        "\n-----", "ethernet_read_keys: Couldn't read remote address\n-----", 6
    )
    assert perftest_result(output)["rows"] == recorded("25.01.0", "write-gbits")["rows"]
    assert perftest_result(output)["complete"] is False


@pytest.mark.parametrize(
    "line",
    [
        "CUDA device 0: PCIe address is 1B:00",
        "cuMemAlloc() of a 16777216 bytes GPU buffer",
        "allocated GPU buffer of a 16777216 address at 0x7f for type CUDA_MEM_DEVICE",
        "using DMA-BUF for GPU buffer address at 0x7f aligned at 0x7f with aligned size 16777216",
        "Picking GPU number 0",
    ],
)
def test_gpu_memory_of_this_side_is_seen(line: str) -> None:
    freed = "deallocating GPU buffer 00007f0000000000\ndestroying current CUDA Ctx\n"
    output = f"initializing CUDA\n{line}\n" + text("recorded/25.01.0/write-gbits.txt") + freed
    found = perftest_result(output)
    assert found["cuda"] is True
    assert found["complete"]


@pytest.mark.parametrize(
    ("listed", "picked", "gpu"),
    [
        (["1B:00"], "Picking device No. 0", "1b:00"),
        (["1B:00", "9A:00"], "Picking device No. 1", "9a:00"),
        (["1B:00", "9A:00"], "Picking GPU number 1", "9a:00"),
        (["1B:00"], "", "1b:00"),
        (["1B:00"], "Picking device No. 3", None),
        ([], "Picking device No. 0", None),
    ],
)
def test_the_gpu_that_this_side_has_taken_is_told(listed: list[str], picked: str, gpu: str | None) -> None:
    lines = [f"CUDA device {number}: PCIe address is {place}" for number, place in enumerate(listed)]
    output = "\n".join([*lines, "", picked, ""]) + text("recorded/25.01.0/write-gbits.txt")
    assert perftest_result(output)["gpu"] == gpu


def test_columns_of_ports_and_service_levels_are_read() -> None:
    dashes = "-" * 115
    ports = (
        f"{dashes}\n #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   BW Port1[Gb/sec]"
        "   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n"
        " 65536      100000     0.00            190.00\t\t   0.362396        95.00            0.181198"
        f"              95.00            0.181198\n{dashes}\n"
    )
    (row,) = perftest_result(ports)["rows"]
    assert row["average_gbps"] == 190.0
    assert row["ports"] == [{"average_gbps": 95.0, "msg_rate_mpps": 0.181198}] * 2
    levels = (
        f"{dashes}\n #bytes    #sl      #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
        f" 65536    3           5000           11000.00            10900.00                  0.174400\n{dashes}\n"
    )
    (row,) = perftest_result(levels)["rows"]
    assert (row["service_level"], row["iterations"]) == (3, 5000)
    assert row["average_gbps"] == pytest.approx(91.435827)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_side_that_measures_nothing_says_where_the_result_is(version: str) -> None:
    (problem,) = recorded(version, "read-lat.server")["problems"]
    assert problem["next_step"] == "pass the output of the client side"


@pytest.mark.parametrize("output", [None, 7, b"text", ["line"], True])
def test_what_is_no_text_is_refused(output: Any) -> None:
    with pytest.raises(InvalidInput, match="text is needed"):
        perftest_result(output)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one of auto, gbps, mibps, usec"):
        perftest_result("", "MB/s")


def test_every_recorded_file_belongs_to_a_test() -> None:
    files = {path.name for path in RECORDED.rglob("*.*") if path.is_file()}
    forms = {f"{form}.txt" for form in FORMS} | {
        f"{form}.{kind}" for _version, form in REPORTS for kind in ("json", "txt")
    }
    others = {"version", "write-all-gbits", "write-limit", "write-output-bandwidth", "read-lat.server"}
    failing = {name for name in files if name.startswith(("error-", "write-cuda", "write-events", "article-"))}
    assert files == forms | {f"{name}.txt" for name in others} | failing
