# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user who runs the collection's playbooks: own home, own working folder, nothing else in the environment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog, Request
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS, PROGRAMS

Json = dict[str, Any]

SEEDS = CHECKOUT / "tests" / "fixtures" / "seeds"
# What makes a playbook cheaper; lean/sitecustomize.py tells how.
LEAN = {"PYTHONPATH": str(Path(__file__).with_name("lean")), "RDMA_FABRIC_BYTECODE": str(BUILD / "bytecode")}
CALLBACKS = CHECKOUT / "tests" / "bench" / "callback_plugins"
STATISTICS = re.compile(r"^\tRUN: (\{.*\})$", re.MULTILINE)
# Names are folded by rdma.fabric.fleet: "gpu-[01:32] (32 hosts)".
RECAP_LINE = re.compile(r"^(?P<names>\S+)(?: \([\d,]+ hosts\))?\s+: ok=\d+\s+changed=(?P<changed>\d+)\s", re.MULTILINE)
RANGE = re.compile(r"(?P<before>.*)\[(?P<first>\d+):(?P<last>\d+)\](?P<after>.*)")
FATAL = re.compile(r"^fatal: \[(?P<host>[^]]+)\]: FAILED! => (?P<result>\{.*\})$", re.MULTILINE)
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
# Questions about a user and its rights, which are POSTs that store nothing.
REVIEWS = {"authentication.k8s.io", "authorization.k8s.io"}
ADMINISTRATOR = "rdma-fabric-admin"
LIMIT_SECONDS = 180.0  # of an idle machine, where a run takes seconds
LOOK_SECONDS = 5.0  # how often it is looked how busy the machine is


@dataclass(frozen=True)
class Outcome:
    """One finished run.

    ``output`` is what the user saw, ``changed`` the recap's number by host, ``counts`` the number of task results by
    host and ``outcome action`` (``ok rdma.fabric.rdma_host``).
    """

    status: int
    output: str
    changed: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]

    @property
    def failures(self) -> dict[str, Json]:
        """The result of the failed task of each host that failed."""
        return {match["host"]: json.loads(match["result"]) for match in FATAL.finditer(self.output)}

    @property
    def message(self) -> str:
        """The message of the only failure; fails the test when there is none or more than one."""
        (failure,) = self.failures.values()
        text: str = failure["msg"]
        return text

    @property
    def result(self) -> Json:
        """The statistic of the run, as AWX shows it: what is printed is what ``set_stats`` would have left."""
        (text,) = STATISTICS.findall(self.output)
        found: Json = json.loads(text)["rdma_fabric_result"]
        return found

    def lines_of_hosts(self, play: str, hosts: Iterable[str]) -> list[str]:
        """Return the results of the plays of a name, a line for each, that are about one of these hosts."""
        parts = [part for part in self.output.split("\nPLAY [")[1:] if part.startswith(f"{play}]")]
        assert parts, self.output
        names = re.compile(rf"^(ok|changed|skipping|failed|fatal): \[.*\b({'|'.join(hosts)})\b")
        return [line for part in parts for line in part.splitlines() if names.match(line)]

    def violations(self) -> list[Json]:
        """Return the violations of the only failure, which must be reported once and change nothing."""
        (failure,) = self.failures.values()
        found: list[Json] = failure["violations"]
        noun = "problem" if len(found) == 1 else "problems"
        assert failure["msg"].startswith(f"{len(found)} {noun} in the input; nothing was changed:")
        return found

    def succeeded(self) -> Outcome:
        """Fail the test unless the run ended well."""
        assert self.status == 0, self.output
        return self

    def refused(self) -> Outcome:
        """Fail the test unless the run failed."""
        assert self.status != 0, self.output
        assert self.failures, self.output
        return self


class User:
    """Somebody with ``folder`` as their place: a home and a working folder, both empty at first."""

    def __init__(self, folder: Path) -> None:
        self.home, self.here = folder / "home", folder / "here"
        for each in (self.home, self.here):
            each.mkdir(parents=True)

    def environment(self, cluster: ControlPlane | None, kubeconfig: Path | None) -> dict[str, str]:
        """Return all there is in the environment of a run; without ``cluster`` there is no way to one."""
        own = {
            "PATH": f"{PROGRAMS}{os.pathsep}{os.defpath}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SHOW_CUSTOM_STATS": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "rdma_fabric_count",
            "RDMA_FABRIC_COUNTS": str(self.home / "counts.json"),
            **LEAN,
        }
        if cluster is None:
            return own
        environment = cluster.command_environment(own)
        del environment["K8S_AUTH_KUBECONFIG"]
        return environment if kubeconfig is None else {**environment, "KUBECONFIG": str(kubeconfig)}

    def run(
        self,
        playbook: str,
        *arguments: str,
        inventory: Path | str = "localhost,",
        variables: Mapping[str, Any] | None = None,
        cluster: ControlPlane | None = None,
        kubeconfig: Path | None = None,
        seconds: float = LIMIT_SECONDS,
    ) -> Outcome:
        """Run ``ansible-playbook``, ``rdma.fabric.PLAYBOOK`` or a file; no output of any run may hold a traceback."""
        counts = self.home / "counts.json"
        counts.unlink(missing_ok=True)
        argv = _command(playbook, arguments, inventory, variables)
        status, output = run_bounded(argv, self.here, self.environment(cluster, kubeconfig), seconds)
        assert "Traceback" not in output, output
        counted = json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {}
        return Outcome(status, output, changed_of(output), counted)

    def start(
        self,
        playbook: str,
        *arguments: str,
        inventory: Path,
        variables: Mapping[str, Any],
        cluster: ControlPlane | None = None,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a run in a process group of its own and do not wait for it."""
        # What a shell starts in the background ignores SIGINT, and so would the run.
        return subprocess.Popen(
            ["env", "--default-signal=INT", *_command(playbook, arguments, inventory, variables)],
            cwd=self.here,
            env={**self.environment(cluster, kubeconfig), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def files(self) -> list[str]:
        """Return what lies in the working folder, as relative paths, but for the result that each run has."""
        found = (str(path.relative_to(self.here)) for path in self.here.rglob("*") if not path.is_dir())
        return sorted(path for path in found if path != "rdma-fabric-run/result.json")

    def result(self) -> Json:
        """Return the result of the last run, as programs read it."""
        result: Json = json.loads((self.here / "rdma-fabric-run" / "result.json").read_text(encoding="utf-8"))
        return result

    def report(self) -> Json:
        """Return the report of the last run."""
        report: Json = json.loads((self.here / "rdma-fabric-run" / "report.json").read_text(encoding="utf-8"))
        return report


def _command(
    playbook: str, arguments: Sequence[str], inventory: Path | str, variables: Mapping[str, Any] | None
) -> list[str]:
    name = playbook if "/" in playbook else f"rdma.fabric.{playbook}"
    argv = [str(PROGRAMS / "ansible-playbook"), name, "-i", str(inventory), *arguments]
    return [*argv, "-e", json.dumps(variables)] if variables else argv


def changed_of(output: str) -> dict[str, int]:
    """Return how many tasks the recap calls changed, by host."""
    return {host: int(each["changed"]) for each in RECAP_LINE.finditer(output) for host in hosts_of(each["names"])}


def hosts_of(names: str) -> Iterator[str]:
    """Yield every host of folded names, as ``gpu-[01:32],login``."""
    for name in names.split(","):
        folded = RANGE.fullmatch(name)
        if folded is None:
            yield name
            continue
        for number in range(int(folded["first"]), int(folded["last"]) + 1):
            yield f"{folded['before']}{number:0{len(folded['first'])}}{folded['after']}"


def run_bounded(
    argv: list[str], folder: Path, environment: Mapping[str, str], seconds: float = LIMIT_SECONDS
) -> tuple[int, str]:
    """Run a command and return its status and output; one that hangs is ended with its process group, and fails.

    ``seconds`` are those of an idle machine: on a busy one the command has as much longer.
    """
    budget = Budget(seconds)
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            while (output := _said(process, min(LOOK_SECONDS, budget.left()))) is None:
                if budget.left() == 0:
                    raise subprocess.TimeoutExpired(argv, budget.spent())
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output


def _said(process: subprocess.Popen[str], seconds: float) -> str | None:
    """Return what a command has said once it has ended, None while it goes on."""
    try:
        output, _nothing = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    return output


def writes(requests: Iterable[Request]) -> list[str]:
    """Return the requests that are writes, dry runs among them, without questions about rights."""
    return [
        f"{request.verb} {request.uri}"
        for request in requests
        if request.verb in WRITES and request.api_group not in REVIEWS
    ]


def stored_writes(audit: AuditLog, since: int, user: str = ADMINISTRATOR) -> list[str]:
    """Return the requests of a user that changed the cluster."""
    return writes(request for request in audit.requests(since, user=user) if not request.dry_run)


def stored(cluster: ControlPlane, kind: str, name: str, namespace: str = "") -> Json:
    """Return an object as the API server stores it."""
    place = ["--namespace", namespace] if namespace else []
    found: Json = json.loads(cluster.kubectl("get", kind, name, *place, "--output", "json"))
    return found


def line_of(path: Path, text: str, number: int = 1) -> int:
    """Return the line of a file (from 1) that holds ``text`` for the ``number``-th time."""
    lines = [count for count, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if text in line]
    return lines[number - 1]
