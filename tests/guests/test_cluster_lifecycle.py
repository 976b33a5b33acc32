# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whichever part of a lab with a cluster is killed, nothing of it stays: no process, network namespace or mount."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.lab.api import Api, ApiError
from ansible_collections.rdma.fabric.tests.lab.guests.lab import CHECKOUT, down, is_held, status
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

START_SECONDS = 900.0  # programs, images and disks may have to be made first
END_SECONDS = 40.0


class Traces(NamedTuple):
    """What a lab can leave on the machine."""

    processes: frozenset[str]
    networks: frozenset[str]
    mounts: frozenset[str]


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)


def working_for(directory: Path) -> dict[int, str]:
    """Give the processes that work in a directory or below, or whose command line names it: number -> command line."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            place = (entry / "cwd").resolve()
            command = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue
        if directory in (place, *place.parents) or str(directory) in command:
            found[int(entry.name)] = command
    return found


def traces(directory: Path) -> Traces:
    networks = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            networks.add(os.readlink(entry))
        except OSError:
            continue
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return Traces(frozenset(working_for(directory).values()), frozenset(networks), frozenset(mounts))


def answers(directory: Path) -> bool:
    """Tell whether the API server of a lab answers through the forwarder."""
    try:
        api = Api.from_kubeconfig(directory / "kubeconfig")
        return api.request("GET", "/readyz").status == http.client.OK
    except (OSError, ApiError, http.client.HTTPException):
        return False


def only(directory: Path, part: str) -> int:
    """Give the one process whose program is ``part``."""
    (number,) = (
        number
        for number, command in working_for(directory).items()
        if part in command and "supervise.py" not in command
    )
    return number


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "lab"


@pytest.fixture
def serving(capable: None, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A lab of one guest that is being started, at the moment at which its control plane answers."""
    directory.mkdir()
    argv = [sys.executable, "-m", "tests.lab.guests", "up", "--dir", str(directory), "--guests", "1"]
    with (directory / "err").open("wb") as errors, subprocess.Popen(argv, cwd=CHECKOUT, stderr=errors) as command:
        try:
            until(lambda: answers(directory) or command.poll() is not None, START_SECONDS, "the control plane answers")
            assert command.poll() is None, (directory / "err").read_text(encoding="utf-8")
            yield command
        finally:
            command.kill()
            command.wait()
            down(directory, to_standard_error)


@pytest.mark.parametrize("part", ["up", "keeper", "cluster_server", "forward.py", "kube-apiserver"])
def test_whichever_part_is_killed_the_lab_ends_and_leaves_nothing(
    serving: subprocess.Popen[bytes], directory: Path, part: str
) -> None:
    during = traces(directory)
    for each in ("kube-apiserver", "qemu-system", "forward.py"):
        assert any(each in command for command in during.processes)
    keeper = read_state(directory)["holder"]
    own_network = os.readlink(f"/proc/{keeper}/ns/net")
    victims = {"up": serving.pid, "keeper": keeper}
    os.kill(victims.get(part) or only(directory, part), signal.SIGKILL)
    assert serving.wait(END_SECONDS) != 0
    until(lambda: not is_held(directory), END_SECONDS, "the lab has ended")
    until(lambda: not working_for(directory), END_SECONDS, "its processes have ended")
    after = traces(directory)
    assert own_network not in after.networks
    assert not [mount for mount in after.mounts if str(directory) in mount]
    if part in ("cluster_server", "kube-apiserver"):
        assert "the lab's control-plane ended" in (directory / "err").read_text(encoding="utf-8")


def test_a_stopped_lab_takes_its_cluster_along_and_its_status_says_so(
    serving: subprocess.Popen[bytes], directory: Path
) -> None:
    down(directory, to_standard_error)
    assert serving.wait(END_SECONDS) == 1
    assert working_for(directory) == {}
    assert not (directory / "kubeconfig").exists()
    assert not (directory / "cluster" / "run").exists()
    assert (directory / "cluster" / "logs" / "kube-apiserver.log").exists()
    lines, usable = status(directory)
    assert not usable
    assert "stopped" in lines[0]


def test_two_labs_have_control_planes_of_their_own(serving: subprocess.Popen[bytes], directory: Path) -> None:
    other = directory.with_name("other")
    other.mkdir()
    argv = [sys.executable, "-m", "tests.lab.guests", "up", "--dir", str(other), "--guests", "1"]
    with subprocess.Popen(argv, cwd=CHECKOUT) as second:
        try:
            until(lambda: answers(other), START_SECONDS, "the second control plane answers")
            api, others = (Api.from_kubeconfig(each / "kubeconfig") for each in (directory, other))
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
            api.call("POST", "/api/v1/namespaces", namespace)
            assert others.request("GET", "/api/v1/namespaces/mine").status == http.client.NOT_FOUND
        finally:
            down(other, to_standard_error)
            second.wait(END_SECONDS)
    assert answers(directory)
