# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests of a fabric, judged: from a launcher's log to rows with ranks and nodes, and their document. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .junit_xml import FAILURE, Case, document_of
from .nccl import RANK, nccl_test_result
from .nccl_transport import devices_by_host, host_of
from .output_text import output_lines, quoted
from .problem import Problem, problem_of
from .wire.document import NCCL_FORMAT

MINIMUM_RATIO = 0.8
"""The share of the rails' rate that bus bandwidth has to reach: our own choice, as rings of many nodes lose some."""
# Of these the bus bandwidth is what each node sends through all its NICs (nccl-tests, doc/PERFORMANCE.md).
_BY_NICS = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "broadcast_perf", "reduce_perf")
_ENDED = re.compile(r"process rank (\d{1,7}).{0,60} on node ([\w-]{1,63})", re.ASCII)
_SOCKETS = re.compile(r"via NET/Socket|Using network Socket", re.ASCII)
# What the launcher says of a host that it does not reach by ssh (_fabric/rendering/nccl_job.py).
_UNREACHED = "no answer of "
_MOST_NAMED = 8
_OVER_SOCKETS = "the data went over sockets"

Row = Dict[str, Any]
Document = Dict[str, Any]


class Output(NamedTuple):
    """What one program printed, and its exit status; None where the launcher did not come to its end."""

    program: str
    text: str
    status: int | None


@dataclass(frozen=True)
class Asked:
    """What is known of a test before it runs.

    ``nodes`` are by the hostname of their pods. ``rails`` has the devices that each node has to use with the network of
    each; where their names in pods are not known it is empty, and ``count`` is how many there have to be. ``gbytes`` is
    the bus bandwidth that the rails carry, in GB/s, None where that is not known.
    """

    scope: str
    ranks: int
    nodes: Mapping[str, str]
    rails: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    count: int = 1
    gbytes: float | None = None
    ratio: float = MINIMUM_RATIO


def outputs_of(log: str, says: str) -> tuple[list[Output], list[str]]:
    """Return what each program printed, and what the launcher said besides; ``says`` begins its own lines."""
    mark = re.compile(rf"{re.escape(says)} (?:(begin) (\S+)|(end) (\S+) (\d{{1,3}})|(.*))$")
    found: list[Output] = []
    said: list[str] = []
    program, lines = "", []
    for line in log.splitlines():
        word = mark.search(line)
        lines.append(line[: word.start()] if word else line)
        if word and word[1]:
            program, lines = word[2].rpartition("/")[2], []
        elif word and word[3]:
            found.append(Output(program, "\n".join(lines), int(word[5])))
            program = ""
        elif word:
            said.append(word[6])
    return [*found, *([Output(program, "\n".join(lines), None)] if program else [])], said


def expected_gbytes(rates: Iterable[Sequence[float | None]], gpus: int) -> float | None:
    """Return the bus bandwidth that the slowest node's rails carry in GB/s, from the Gb/s of each; no GPU feeds two."""
    sums = []
    for of_node in rates:
        known = sorted((rate for rate in of_node if rate), reverse=True)
        if not known or len(known) < len(of_node):
            return None
        sums.append(sum(known[:gpus]))
    return min(sums) / 8 if sums else None


def judge(asked: Asked, output: Output, seconds: float = 0.0) -> Row:
    """Return the row of one program."""
    gbytes = asked.gbytes if output.program in _BY_NICS else None
    least = round(gbytes * asked.ratio, 1) if gbytes else None
    found = nccl_test_result(output.text, least)
    lines = output_lines(output.text)
    ranks = _ranks_by_host(lines)
    problems = [*_ended_first(found["problems"], lines), *found["problems"]]
    problems += [*_missing_rails(asked, lines, ranks), *_missing_ranks(asked, found, ranks)]
    if output.status is None:
        cause = "the launcher's pod was ended: its node, an eviction, or the deadline of the job"
        step = "look at the node and at kubectl get events, then run again"
        problems.append(problem_of(f"{output.program} was ended in the middle", cause, step))
    elif output.status and not problems:
        cause = "a rank failed, and nothing known says why"
        step = "look at the end of the log"
        problems.append(problem_of(f"{output.program} ended with status {output.status}", cause, step))
    told = [{**each, "where": _where(each, asked, lines, ranks)} for each in problems]
    summary = found["summary"]
    return {
        "scope": asked.scope,
        "program": output.program,
        "verdict": "fail" if told else found["verdict"],
        "seconds": round(seconds, 1),
        "ranks": found["ranks"],
        "busbw_gbytes": summary["busbw_gbytes"] if summary else None,
        "largest_bytes": summary["largest_bytes"] if summary else None,
        "expected_gbytes": gbytes,
        "minimum_gbytes": least,
        "transport": found["transport"],
        "problems": told,
        "notices": found["notices"],
    }


def rows_without_output(
    asked: Asked,
    programs: Sequence[str],
    outputs: Sequence[Output],
    said: Sequence[str],
    problems: Sequence[Mapping[str, object]],
) -> list[Row]:
    """Return a row where pods failed or a program printed nothing, with what the launcher ``said`` and why not."""
    absent = [each.rpartition("/")[2] for each in programs[len(outputs) :]]
    if not problems and not absent:
        return []
    step = "use an image with nccl-tests (MPI=1), Open MPI and sshd, and look at the pods' log"
    told = [*problems, *(_unreached(each) or problem_of(each, "the launcher says so", step) for each in said)]
    nothing = problem_of("the launcher has not begun it", "it ended before, or its log is gone", step)
    row = {"scope": asked.scope, "program": ", ".join(absent) or "pods", "verdict": "fail", "seconds": 0.0}
    row["problems"] = [{"where": "", **each} for each in told or [nothing]]
    measured = ("ranks", "busbw_gbytes", "largest_bytes", "expected_gbytes", "minimum_gbytes", "transport")
    return [{**row, **dict.fromkeys(measured), "notices": []}]


def _unreached(said: str) -> Problem | None:
    """Return the problem of a host that the launcher does not reach; None for what it says of anything else."""
    if not said.startswith(_UNREACHED):
        return None
    cause = (
        "its sshd does not run, or pods may not reach each other: NetworkPolicies of the namespace that deny by default"
    )
    step = "look at kubectl get networkpolicies there: pods of the job need each other on all TCP ports, and the DNS"
    return problem_of(said, cause, f"{step}; or use another namespace (rdma_fabric_verify_namespace)")


def _ranks_by_host(lines: Iterable[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in lines:
        rank = RANK.search(line) if "#" in line else None
        if rank:
            found.setdefault(rank[2].partition(".")[0], []).append(int(rank[1]))
    return found


def _ended_first(known: Sequence[Problem], lines: Sequence[str]) -> list[Problem]:
    """Return the rank that the launcher saw end first, which the others only notice by their connections."""
    line = next((quoted(line) for line in lines if _ENDED.search(line)), "")
    if not line or any(each["problem"] == line for each in known):
        return []
    step = "look at its node: kernel log, memory, Xid errors"
    return [problem_of(line, "this rank ended first, the others lost it", step)]


def _missing_rails(asked: Asked, lines: Sequence[str], ranks: Mapping[str, list[int]]) -> list[Problem]:
    """Return which hosts use fewer devices than they have rails, of those whose log tells; without any, sockets do."""
    seen, found = devices_by_host(lines), []
    for host, used in sorted(seen.items()) if any(seen.values()) else ():
        wanted = asked.rails.get(asked.nodes.get(host, host))
        if wanted is None:
            lost = [f"{asked.count - len(used)} of {asked.count} devices"] if len(used) < asked.count else []
        else:
            lost = [f"{device} ({network})" for device, network in wanted.items() if device not in used]
        if lost:
            cause = "the port is down, its device is not in the pod, or NCCL_IB_HCA does not name it"
            step = "look at the port on the node (rdma link), and at the pod's resources and networks"
            text = f"{_place(asked, host, ranks)}: NCCL does not use {named(lost, _MOST_NAMED)}"
            found.append(problem_of(text, cause, step))
    return found


def _missing_ranks(asked: Asked, found: Mapping[str, Any], ranks: Mapping[str, list[int]]) -> list[Problem]:
    if not found["rows"] or not found["ranks"] or found["ranks"] == asked.ranks:
        return []
    absent = [node for host, node in asked.nodes.items() if host not in ranks] if ranks else []
    cause = f"none runs on {named(absent, _MOST_NAMED)}" if absent else "mpirun started fewer ranks than there are GPUs"
    step = "build nccl-tests with MPI=1, and look at the host file"
    return [problem_of(f"the test ran with {found['ranks']} of {asked.ranks} ranks", cause, step)]


def _where(problem: Problem, asked: Asked, lines: Sequence[str], ranks: Mapping[str, list[int]]) -> str:
    """Return the ranks and nodes that a problem is of, as far as the log tells."""
    text = problem["problem"]
    ended = _ENDED.search(text)
    if ended:
        host = next((host for host, own in ranks.items() if int(ended[1]) in own), ended[2])
        return f"rank {ended[1]} on node {asked.nodes.get(host, host)}"
    hosts = [host_of(text)]
    if text.startswith(_OVER_SOCKETS):
        hosts = sorted({host_of(line) for line in lines if _SOCKETS.search(line)})
    return named([_place(asked, host, ranks) for host in hosts if host], _MOST_NAMED)


def _place(asked: Asked, host: str, ranks: Mapping[str, list[int]]) -> str:
    node, own = asked.nodes.get(host, host), sorted(ranks.get(host, ()))
    if not own:
        return f"node {node}"
    span = own[-1] - own[0] + 1 == len(own) and len(own) > 2
    words = f"{own[0]} to {own[-1]}" if span else ", ".join(map(str, own))
    return f"rank{'s' if len(own) > 1 else ''} {words} on node {node}"


def build_document(rows: Sequence[Row], **told: Any) -> Document:
    """Return the document of a run, which ``nccl.json`` holds; ``told`` are the other fields."""
    verdicts = {row["verdict"] for row in rows}
    verdict = next((each for each in ("fail", "reported", "pass") if each in verdicts), "reported")
    return {"format": NCCL_FORMAT, "verdict": verdict, **told, "tests": [{**row, "line": line_of(row)} for row in rows]}


def line_of(row: Row) -> str:
    """Return a row as a person reads it: what was measured of what, or what is wrong, where, why, and what to do."""
    head = f"{row['program']} on {row['scope']}: {row['verdict']}"
    rate = "" if row["busbw_gbytes"] is None else f", {row['busbw_gbytes']:g} GB/s of bus bandwidth"
    if rate and row["minimum_gbytes"]:
        rate += f", at least {row['minimum_gbytes']:g} of {row['expected_gbytes']:g} required"
    told = [
        f"{each['problem']}{': ' + each['where'] if each['where'] else ''} ({each['cause']}; {each['next_step']})"
        for each in row["problems"]
    ]
    return f"{head}{rate}{': ' if told else ''}{'; '.join(told)}"


def recap_of(document: Document) -> list[str]:
    """Return the run in a few lines, what failed first."""
    rows = sorted(document["tests"], key=lambda row: row["verdict"] != "fail")
    return [*(line_of(row) for row in rows), *dict.fromkeys(note for row in rows for note in row["notices"])]


def junit_text(document: Document) -> str:
    """Return the document as JUnit XML: a suite for each scope, a case for each program."""
    suites: dict[str, list[Case]] = {}
    for row in document["tests"]:
        text = line_of(row)
        case = Case(row["scope"], row["program"], output=text, seconds=row["seconds"])
        if row["verdict"] == "fail":
            case = case._replace(element=FAILURE, kind=row["program"], message=quoted(text), text=text, output="")
        suites.setdefault(row["scope"], []).append(case)
    return document_of("rdma.fabric.nccl", suites, document["started_at"])
