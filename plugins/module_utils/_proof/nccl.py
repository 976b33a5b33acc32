# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an output of NCCL tests (all_reduce_perf, ...) says, as plain data, and whether it is good. Pure.

The average that the tests print is taken over all sizes and so says little; the largest sizes decide here.
"""

from __future__ import annotations

import json
import re
from statistics import median
from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named

from . import nccl_rows
from .nccl_transport import MNNVL, errors_in, release_of, transport_in, without_gpu_direct
from .output_text import is_positive, measure, output_lines, quoted, whole_number
from .problem import Problem, problem_of

LARGEST_SIZES = 3
"""The bus bandwidth of a run is the median over that many of its largest sizes."""

_MOST_ROWS = 1000
_MOST_HOSTS = 4096
_MOST_NAMED = 8
_KNOWS_PEERMEM = (2, 23)
_TEST = re.compile(r"# Collective test starting: ([\w.-]{1,60})|(?<![\w.-])(\w{1,30}_perf)(?!\w)", re.ASCII)
_TESTS_VERSION = re.compile(r"# nccl-tests version (\S{1,40})")
_LIBRARY = re.compile(r"nccl-library=(\d{4,6})(?!\d)", re.ASCII)
RANK = re.compile(r"#\s{1,8}Rank\s{1,8}(\d{1,7})\s.{0,80}?\son\s{1,20}(\S{1,255})\s{1,8}device", re.ASCII)
# Web pages take a number sign before a line for a heading, and leave it out (NVIDIA/nccl-tests, issue 249).
_HEADING = re.compile(
    r"\s{0,8}(?:nThread |Rank +\d|nccl-tests version|Collective test|size +count|Out of bounds|Avg bus bandwidth)",
    re.ASCII,
)
_BOUNDS = re.compile(r"# Out of bounds values\s{1,8}:\s{1,8}(\d{1,18})\s{1,8}(OK|FAILED)", re.ASCII)
_AVERAGE = re.compile(r"# Avg bus bandwidth\s{1,8}:\s{1,8}(\S{1,40})", re.ASCII)
# A report of one run is a single line; its first keys are these in every version.
_JSON_START = re.compile(r'^\s{0,80}\{\s{0,80}"version"\s{0,8}:', re.MULTILINE)
# Up to 2.17.6 the report misspells its average.
_AVERAGE_KEYS = (("average_bus_bandwidth", "bandwidth"), ("average_bus_bandwidith", "bandwidith"))


def nccl_test_result(output: Any, minimum_gbytes: float | None = None) -> dict[str, Any]:
    """Return what an output of NCCL tests says; the result is documented with the filter of the same name.

    ``output`` is the text of a run with or without NCCL's log, or the JSON report of -J, as text or as a mapping.
    ``minimum_gbytes`` is the bus bandwidth asked for at the largest sizes, in GB/s. Raises InvalidInput for what is no
    text and for a minimum that is no rate.
    """
    if minimum_gbytes is not None and not is_positive(minimum_gbytes):
        problem = f"{minimum_gbytes!r} is not a bus bandwidth in GB/s"
        raise InvalidInput([Violation("minimum", "", problem, "such as 350")])
    text = json.dumps(output) if isinstance(output, dict) else output
    lines = output_lines(text)
    run = _Run()
    report = _JSON_START.search(text)
    if report and not any(nccl_rows.is_row(line) for line in lines):
        run.source = "json"
        _read_report(run, text[report.start() :].lstrip())
    else:
        _read_lines(run, lines)
    transport = transport_in(lines)
    transport["version"] = transport["version"] or run.library
    # The log may be that of some ranks only; the header has all of them.
    one_host = len(run.hosts) == 1 if run.hosts else transport["local_only"]
    errors = errors_in(lines, one_host)
    problems = [*errors.problems, *run.errors]
    ended = errors.ended or bool(run.errors)
    problems += _problems(run, transport, ended, one_host)
    summary = _summary(run.rows)
    verdict = "fail" if problems else "reported"
    if minimum_gbytes is not None and summary is not None:
        if run.ranks == 1:
            verdict = "fail"
            problems.append(_one_rank())
        elif summary["busbw_gbytes"] < minimum_gbytes:
            verdict = "fail"
            problems.append(_too_slow(summary["busbw_gbytes"], minimum_gbytes, transport))
        elif not problems and (one_host or transport["network"] != MNNVL):
            verdict = "pass"
    return {
        "test": run.test,
        "version": run.version,
        "ranks": run.ranks,
        "hosts": len(run.hosts),
        "source": run.source if run.rows else None,
        "rows": run.rows,
        "wrong": run.wrong(),
        "printed_average_gbytes": run.average,
        "summary": summary,
        "transport": transport,
        "complete": bool(run.rows) and run.closed and run.outputs() <= 1 and not run.damaged and not ended,
        "verdict": verdict,
        "problems": problems,
        "notices": [
            *_notices(run, transport, one_host),
            *_why_no_gpu_direct(without_gpu_direct(lines), transport),
        ],
    }


class _Run:
    """One run while it is read."""

    def __init__(self) -> None:
        self.test: str | None = None
        self.version: str | None = None
        self.library: str | None = None
        self.source = "table"
        self.ranks = 0
        self.hosts: set[str] = set()
        self.rows: list[nccl_rows.Row] = []
        self.out_of_bounds: int | None = None
        self.average: float | None = None
        self.closed = False
        self.damaged: str | None = None
        self.checked = False
        self.starts = 0
        self.ends = 0
        self.too_many = False
        self.errors: list[Problem] = []

    def add(self, row: nccl_rows.Row | None, line: str) -> None:
        if row is None:
            self.damaged = self.damaged or f"a row is cut off or no number: {line}"
        elif len(self.rows) < _MOST_ROWS:
            self.rows.append(row)
        else:
            self.too_many = True

    def add_rank(self, host: str) -> None:
        self.ranks += 1
        if len(self.hosts) < _MOST_HOSTS:
            self.hosts.add(host)

    def outputs(self) -> int:
        """Return how many outputs the text holds: two processes without MPI mix their rows and end twice."""
        return max(self.starts, self.ends)

    def wrong(self) -> int | None:
        """Return the number of wrong elements: counted in rows, or as the summary of a checked run has it."""
        counted = nccl_rows.wrong_elements(self.rows)
        if counted is not None:
            return max(counted, self.out_of_bounds or 0)
        return self.out_of_bounds if self.checked else self.out_of_bounds or None


def _read_lines(run: _Run, lines: Sequence[str]) -> None:
    counts_wrong = True
    for plain in lines:
        line = f"# {plain.lstrip()}" if _HEADING.match(plain) else plain
        if "#" in line:
            if "# nThread" in line:
                run.starts += 1
                if run.starts > 1:
                    run.rows, run.ranks, run.hosts, run.closed, run.damaged = [], 0, set(), False, None
            if "algbw" in line:
                counts_wrong = "error" not in line
            _read_comment(run, line)
        elif not run.test and "_perf" in line:
            _read_test(run, line)
        if nccl_rows.is_row(line):
            run.add(nccl_rows.row_in(line, counts_wrong), quoted(line))
            run.checked = run.checked or "N/A" not in line


def _read_comment(run: _Run, line: str) -> None:
    rank = RANK.search(line)
    if rank:
        run.add_rank(rank[2])
        return
    _read_test(run, line)
    version, bounds, average = _TESTS_VERSION.search(line), _BOUNDS.search(line), _AVERAGE.search(line)
    if version:
        run.version = version[1]
        library = _LIBRARY.search(line)
        run.library = release_of(int(library[1])) if library else None
    if bounds:
        run.out_of_bounds = int(bounds[1])
    if average:
        run.average, run.closed = measure(average[1]), True
        run.ends += 1


def _read_test(run: _Run, line: str) -> None:
    test = _TEST.search(line) if "starting" in line or not run.test else None
    if test:
        run.test = test[1] or test[2]


def _read_report(run: _Run, text: str) -> None:
    document, elements = nccl_rows.json_documents(text)
    run.starts = len(_JSON_START.findall(text))
    if document is None:
        run.damaged = "the JSON report is cut off" if elements else None
        document = {"results": elements}
    else:
        run.closed = "end_time" in document or any(key in document for key, _inner in _AVERAGE_KEYS)
    entries = document.get("results")
    for entry in entries if isinstance(entries, list) else []:
        run.add(nccl_rows.json_row(entry), quoted(str(entry)[:400]))
    config = document.get("config")
    devices = config.get("devices") if isinstance(config, dict) else None
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, dict):
            run.add_rank(str(device.get("hostname"))[:255])
    arguments = document.get("args")
    if isinstance(arguments, list) and arguments:
        _read_test(run, str(arguments[0])[:400].rpartition("/")[2])
    library = whole_number(document.get("nccl_version"))
    run.library = release_of(library) if library else None
    bounds = document.get("out_of_bounds")
    run.out_of_bounds = whole_number(bounds.get("count")) if isinstance(bounds, dict) else None
    for key, inner in _AVERAGE_KEYS:
        if isinstance(document.get(key), dict):
            run.average = measure(document[key].get(inner))
    errors = document.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, str) and error.strip() and not run.errors:
            run.errors.append(problem_of(quoted(error), "NCCL ended with an error", "run with NCCL_DEBUG=INFO"))


def _problems(run: _Run, transport: dict[str, Any], ended: bool, one_host: bool) -> list[Problem]:
    found: list[Problem] = []
    wrong = run.wrong()
    if wrong:
        cause = "the data did not arrive as it was sent: memory, PCIe, ACS or a library's fault"
        step = "run on fewer hosts until the wrong one is found; keep it out of the cluster"
        found.append(problem_of(f"{wrong} elements of the results are wrong", cause, step))
    if transport["network"] == "Socket" and not one_host and not ended:
        cause = "NCCL found no RDMA device it may use and went over TCP"
        step = "check the pod's RDMA resource and devices, NCCL_IB_DISABLE, and that NCCL_IB_HCA names devices it has"
        found.append(problem_of("the data went over sockets, not over RDMA", cause, step))
    if not run.rows:
        if not ended:
            found.append(_why_empty(run))
        return found
    if run.damaged:
        cause = "the run was ended, or lines of several ranks are mixed"
        step = "run again and keep rank 0's output apart (mpirun --tag-output)"
        found.append(problem_of(run.damaged, cause, step))
    if not run.closed:
        cause = "the run was ended before its summary, or the connection to it broke"
        found.append(problem_of("the output has no summary at its end", cause, "run it again with more time"))
    if run.outputs() > 1:
        cause = "several runs (the last is read, of JSON reports the first), or processes that were started without MPI"
        step = "pass the output of each run on its own; build the tests with MPI=1"
        found.append(problem_of(f"{run.outputs()} outputs in one text", cause, step))
    if run.too_many:
        cause = f"a run has a row for each size; the first {_MOST_ROWS} are read"
        found.append(problem_of(f"more than {_MOST_ROWS} rows", cause, "use a step factor (-f 2)"))
    return found


def _why_empty(run: _Run) -> Problem:
    if run.starts or run.ranks or run.test:
        cause = "the run ended, or was ended, before its first row"
        return problem_of("there is no row", cause, "give it more time, and run with NCCL_DEBUG=INFO")
    cause = "no row, no header and no report is in it"
    return problem_of("this is not output of NCCL tests", cause, "pass the whole output of rank 0")


def _summary(rows: Sequence[nccl_rows.Row]) -> dict[str, Any] | None:
    if not rows:
        return None
    largest = sorted(rows, key=lambda row: row["bytes"])[-LARGEST_SIZES:]
    return {
        "busbw_gbytes": round(median(nccl_rows.bus_bandwidth(row) for row in largest), 3),
        "largest_bytes": largest[-1]["bytes"],
        "best_gbytes": max(nccl_rows.bus_bandwidth(row) for row in rows),
    }


def _one_rank() -> Problem:
    cause = "no data left its GPU; ranks that are started without MPI do not find each other and each run alone"
    step = "build the tests with MPI=1 and start a rank for each GPU of every host (mpirun, srun --mpi)"
    return problem_of("the test ran with one rank", cause, step)


def _too_slow(measured: float, minimum: float, transport: dict[str, Any]) -> Problem:
    cause = "the fabric, the path between GPU and NIC, or a slow rank holds the collective back"
    if transport["gpu_direct"] in ("none", "some"):
        cause = "not every channel has GPUDirect RDMA: data is copied through host memory"
    problem = f"{measured:g} GB/s of bus bandwidth at the largest sizes, {minimum:g} required"
    # Connection establishment that NICs agree on went wrong with mixed firmware (NVIDIA/nccl, issue 1403).
    step = "prove every pair and rail with ib_write_bw first, then halve the set of hosts"
    return problem_of(problem, cause, f"{step}; where firmware of NICs differs, compare with NCCL_IB_ECE_ENABLE=0")


def _notices(run: _Run, transport: dict[str, Any], one_host: bool) -> list[str]:
    found = []
    if transport["gpu_direct"] in ("none", "some"):
        found.append("channels over RDMA without /GDRDMA: their data is copied through host memory")
    if transport["network"] == "Socket" and one_host:
        found.append("NCCL chose sockets for other hosts, but this run stayed on one host")
    if transport["network"] == MNNVL and not one_host:
        found.append(
            "no channel uses a NIC: data between hosts goes over NVLink (MNNVL), so that this says nothing of the "
            "network; NCCL_MNNVL_ENABLE=0 in NCCL's environment sends it through the NICs"
        )
    if run.rows and transport["network"] is None and not transport["local_only"]:
        found.append("no log of NCCL in the text (NCCL_DEBUG=INFO): the transport is not known")
    if run.rows and run.ranks == 1:
        found.append("one rank: the rates are those of its GPU's memory, no data went over a network")
    if run.rows and run.wrong() is None:
        found.append("results were not checked (-c 0)")
    return found


def _why_no_gpu_direct(devices: Sequence[str], transport: dict[str, Any]) -> list[str]:
    """Return why NCCL copies through host memory, and what to do, where its log says for which HCAs it does.

    The releases before 2.23 know nvidia-peermem by its directory below memory_peers, which kernels with peer memory of
    their own do not have (NVIDIA/nccl, issue 1676).
    """
    if not devices or transport["gpu_direct"] == "all":
        return []
    release = re.match(r"(\d{1,3})\.(\d{1,3})", transport["version"] or "")
    old = release is not None and (int(release[1]), int(release[2])) < _KNOWS_PEERMEM
    step = "load nvidia-peermem on the node, or use the open GPU modules (rdma_fabric_peer_memory)"
    if old:
        step += "; where it is loaded, take NCCL 2.23 or newer: older ones look for it in /sys/kernel/mm/memory_peers"
    return [
        f"GPUDirect RDMA is disabled for {named(devices, _MOST_NAMED)}: NCCL found neither peer memory nor DMA-BUF; "
        f"next: {step}"
    ]
