# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the lab end with their owner, move away from a lost port, and tell why they ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab import pki
from ansible_collections.rdma.fabric.tests.lab.api import tls_context
from ansible_collections.rdma.fabric.tests.lab.process import Process, stop_all, supervised, tail
from ansible_collections.rdma.fabric.tests.lab.servers import (
    Layout,
    Server,
    ServerFailed,
    Spec,
    free_port,
    wait_ready,
)
from ansible_collections.rdma.fabric.tests.unit.processes import is_alive, is_gone

CHECKOUT = Path(__file__).resolve().parents[3]


def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def number_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    """Start a shell script whose process ID ends up in the file ``pid``."""
    processes = []

    def start(script: str) -> Process:
        argv = ["sh", "-c", f"echo $$ > {tmp_path}/pid; {script}"]
        processes.append(Process("script", argv, tmp_path / "log"))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def test_status_is_the_programs(started: Callable[[str], Process]) -> None:
    assert started("exit 7").wait(10) == 7
    assert started("kill -KILL $$").wait(10) == 128 + signal.SIGKILL


def test_output_goes_to_the_log(started: Callable[[str], Process], tmp_path: Path) -> None:
    started("echo out; echo err >&2").wait(10)
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_only_the_descriptors_that_are_passed_on_are_inherited(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (tmp_path / "passed").open("w") as passed, (tmp_path / "kept").open("w") as kept:
        os.set_inheritable(kept.fileno(), True)
        script = f"echo hello >&{passed.fileno()}; echo hello >&{kept.fileno()}"
        process = Process("script", ["bash", "-c", script], log, pass_fds=[passed.fileno()])
        assert process.wait(10) == 1
    assert (tmp_path / "passed").read_text() == "hello\n"
    assert (tmp_path / "kept").read_text() == ""


def test_missing_program_is_named(tmp_path: Path) -> None:
    process = Process("x", ["/no/such/program"], tmp_path / "log")
    assert process.wait(10) == 127
    assert "cannot start /no/such/program: " in (tmp_path / "log").read_text()


def test_program_dies_with_its_supervisor(started: Callable[[str], Process], tmp_path: Path) -> None:
    process = started("exec sleep 60")
    pid = number_in(tmp_path / "pid")
    os.kill(process.supervisor_pid, signal.SIGKILL)
    assert is_gone(pid)


def test_descendants_end_too(started: Callable[[str], Process], tmp_path: Path) -> None:
    process = started(f"sleep 60 & echo $! > {tmp_path}/child; wait")
    child = number_in(tmp_path / "child")
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert is_gone(child)


OWNER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.lab.process import Process
directory = Path(sys.argv[2])
Process("x", ["sh", "-c", f"echo $$ > {directory}/pid; exec sleep 60"], directory / "log")
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_program_dies_with_its_owner(tmp_path: Path, number: int) -> None:
    argv = [sys.executable, "-c", OWNER, str(CHECKOUT), str(tmp_path)]
    owner = subprocess.Popen(argv, stdin=subprocess.PIPE)
    pid = number_in(tmp_path / "pid")
    owner.send_signal(number)
    owner.communicate()
    assert is_gone(pid)


def test_program_outlives_the_thread_that_started_it(started: Callable[[str], Process], tmp_path: Path) -> None:
    thread = threading.Thread(target=started, args=("exec sleep 60",))
    thread.start()
    thread.join()
    pid = number_in(tmp_path / "pid")
    time.sleep(0.2)
    assert is_alive(pid)


def test_supervisor_without_its_owner_starts_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    not_the_parent = 1  # what the parent is once the owner has died, on most systems
    for owner in (gone.pid, not_the_parent):
        argv = supervised(["touch", str(tmp_path / "started")])
        argv[argv.index(str(os.getpid()))] = str(owner)
        assert subprocess.run(argv, stderr=subprocess.DEVNULL, check=False).returncode != 0
        assert not (tmp_path / "started").exists()


def test_what_ignores_the_request_is_killed(started: Callable[[str], Process], tmp_path: Path) -> None:
    stubborn = started(f"trap '' TERM; echo $$ > {tmp_path}/s.ready; while :; do sleep 0.05; done")
    pid = number_in(tmp_path / "s.ready")
    began = time.monotonic()
    assert stop_all([stubborn], grace=0.3) == ["script"]
    assert time.monotonic() - began < 60
    assert is_gone(pid)


def test_what_ends_on_request_is_not_killed(started: Callable[[str], Process], tmp_path: Path) -> None:
    polite = started(f"trap 'echo bye; exit 0' TERM; echo 1 > {tmp_path}/ready; while :; do sleep 0.01; done")
    number_in(tmp_path / "ready")
    assert stop_all([polite], grace=10) == []
    assert (tmp_path / "log").read_text().endswith("bye\n")


def test_tail_is_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(50000)))
    assert tail(path, 2) == "line 49998 \ufffd\nline 49999 \ufffd"
    path.write_bytes(b"")
    assert tail(path) == ""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.run.mkdir()
    layout.logs.mkdir()
    return layout


def server_of(layout: Layout, script: str, ports: list[int]) -> Server:
    authority = pki.Authority()
    tls = tls_context(authority.pair.certificate, authority.client("u"))
    spec = Spec("program", lambda port: ["sh", "-c", script, "sh", str(port)], "/healthz")
    return Server(spec, layout, tls, lambda: ports.pop(0))


def test_lost_port_is_exchanged(layout: Layout) -> None:
    script = '[ "$1" = 2 ] && exec sleep 60; echo "listen tcp 127.0.0.1:$1: bind: address already in use"; exit 1'
    server = server_of(layout, script, [1, 2])
    server.process.wait(10)
    server.replace_if_port_lost()
    assert (server.port, server.url) == (2, "https://127.0.0.1:2")
    assert server.process.wait(0.2) is None
    server.ensure_alive()
    server.process.kill()


def test_a_port_that_others_expect_is_not_exchanged(layout: Layout) -> None:
    authority = pki.Authority()
    tls = tls_context(authority.pair.certificate, authority.client("u"))
    script = "echo bind: address already in use; exit 1"
    spec = Spec("program", lambda port: ["sh", "-c", script, "sh", str(port)], "/healthz", 6443)
    server = Server(spec, layout, tls, free_port)
    with pytest.raises(ServerFailed, match="address already in use"):
        wait_ready([server], time.monotonic() + 30)
    assert (server.port, server.attempts) == (6443, 1)


def test_other_ends_are_not_repeated(layout: Layout) -> None:
    server = server_of(layout, "echo no space left on device; exit 3", [1])
    with pytest.raises(ServerFailed, match=r"program ended by itself with status 3(.|\n)*no space left"):
        wait_ready([server], time.monotonic() + 30)
    assert server.attempts == 1


def test_losing_every_port_is_an_error(layout: Layout) -> None:
    ports = list(range(1, 20))
    server = server_of(layout, "echo bind: address already in use; exit 1", ports)
    with pytest.raises(ServerFailed, match="address already in use"):
        wait_ready([server], time.monotonic() + 30)
    assert server.attempts == 5


def test_a_program_that_never_gets_ready_is_named_with_its_log(layout: Layout) -> None:
    server = server_of(layout, "echo still waiting for storage; exec sleep 60", [free_port()])
    until(lambda: "storage" in tail(layout.logs / "program.log"))
    with pytest.raises(ServerFailed, match=r"program is not ready in time(.|\n)*still waiting for storage"):
        wait_ready([server], time.monotonic() + 0.2)
    server.process.kill()


def test_programs_see_nothing_of_the_callers_environment(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_NAME", "mine")
    monkeypatch.setenv("KUBECONFIG", "/mine")
    server = server_of(layout, "env; pwd", [1])
    server.process.wait(10)
    seen = (layout.logs / "program.log").read_text()
    assert "mine" not in seen
    assert str(layout.run) in seen.splitlines()


def test_free_port_can_be_bound() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
