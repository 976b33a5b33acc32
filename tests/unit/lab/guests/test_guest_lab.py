# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.keeper import (
    Inputs,
    ending_reason,
    identity_of,
    network_commands,
    write_json,
)
from ansible_collections.rdma.fabric.tests.lab.guests.lab import (
    Options,
    describe,
    down,
    held,
    is_held,
    status,
    up,
)
from ansible_collections.rdma.fabric.tests.lab.guests.reach import LabNotUp, holder, start_time
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import LabFailed

QUIET = Inputs(signalled=False, starter=None, owner_alive=True, seconds_left=60.0)
LAB = "ansible_collections.rdma.fabric.tests.lab.guests.lab"
CLUSTER = {"kubeconfig": "/lab/kubeconfig", "kubectl": "/bin/kubectl", "server": "https://127.0.0.1:1"}
NO_PROCESS = 2**22 + 1  # above the kernel's largest process ID


def written_state(directory: Path, **changes: Any) -> dict[str, Any]:
    state: dict[str, Any] = {
        **identity_of(os.getpid()),
        "phase": "ready",
        "reason": None,
        "accelerator": "tcg",
        "rails": 1,
        "topology": "flat",
        "guests": [{"name": "rdma-1", "address": "192.168.77.1"}, {"name": "rdma-2", "address": "192.168.77.2"}],
        "ends": 6000.0,
        "ended": {"rdma-1": None, "rdma-2": None},
        **changes,
    }
    write_json(directory / "state.json", state)
    return state


def test_a_quiet_lab_goes_on() -> None:
    assert ending_reason(QUIET, detached=False) is None
    assert ending_reason(QUIET._replace(starter=b""), detached=True) is None


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (QUIET._replace(signalled=True), "stopped"),
        (QUIET._replace(starter=b""), "the process that started"),
        (QUIET._replace(owner_alive=False), "for which the lab was started"),
        (QUIET._replace(seconds_left=0.0), "time limit"),
    ],
)
def test_a_lab_ends_with_its_starter_its_owner_its_time_and_when_told(inputs: Inputs, reason: str) -> None:
    assert reason in (ending_reason(inputs, detached=False) or "")


def test_the_network_has_a_bridge_with_every_tap() -> None:
    routes = {"10.44.2.0/24": "192.168.77.2"}
    commands = [" ".join(command) for command in network_commands("192.168.77.254/24", ["tap1", "tap2"], routes)]
    for tap in ("tap1", "tap2"):
        assert commands.index(f"ip tuntap add dev {tap} mode tap") < commands.index(
            f"ip link set {tap} master management up"
        )
    # A gateway can be named once the bridge has its address and is up.
    route = commands.index("ip route add 10.44.2.0/24 via 192.168.77.2")
    assert commands.index("ip address add 192.168.77.254/24 dev management") < route
    assert commands.index("ip link set management up") < route


def test_a_process_is_told_from_a_later_one_of_its_number(tmp_path: Path) -> None:
    written_state(tmp_path)
    assert holder(tmp_path) == os.getpid()
    written_state(tmp_path, holder_start=1)
    with pytest.raises(LabNotUp, match="has ended"):
        holder(tmp_path)
    assert start_time(NO_PROCESS) is None


@pytest.mark.parametrize("text", [None, "[]"])
def test_a_directory_without_a_lab_says_how_to_start_one(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "state.json").write_text(text, encoding="utf-8")
    lines, usable = status(tmp_path)
    assert not usable
    assert str(tmp_path) in lines[0]


def test_the_lock_tells_whether_a_lab_is_up(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    assert not is_held(directory)
    with held(directory, 0):
        assert is_held(directory)
        with pytest.raises(LabFailed, match="lab-down"), held(directory, 0):
            pass
    assert not is_held(directory)


def test_looking_at_a_lab_keeps_nobody_else_from_looking(tmp_path: Path) -> None:
    with held(tmp_path, 0):
        pass
    with (tmp_path / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_held(tmp_path)


def test_a_lab_with_an_ended_guest_cannot_be_used_and_names_it(tmp_path: Path) -> None:
    with held(tmp_path, 0):
        written_state(tmp_path)
        assert status(tmp_path)[1]
        written_state(tmp_path, ended={"rdma-1": None, "rdma-2": 137})
        lines, usable = status(tmp_path)
    assert not usable
    assert any("rdma-2" in line and "status 137" in line for line in lines)
    written_state(tmp_path, reason="its time limit has passed", phase="ended")
    assert "its time limit has passed" in status(tmp_path)[0][0]


@pytest.mark.parametrize(("phase", "reason"), [("preparing", "not started to the end"), ("ready", "killed")])
def test_a_lab_that_could_not_say_why_it_ended_is_described_by_how_far_it_came(
    tmp_path: Path, phase: str, reason: str
) -> None:
    written_state(tmp_path, phase=phase)
    assert reason in status(tmp_path)[0][0]


def test_status_tells_how_long_the_lab_stays(tmp_path: Path) -> None:
    assert "ends in 50 min" in describe(written_state(tmp_path), tmp_path, 3000.0)[0]
    preparing = {"phase": "preparing", "guests": []}
    assert describe(preparing, tmp_path, 0.0) == [f"lab in {tmp_path}: preparing"]


def test_stopping_what_is_not_up_is_no_error_and_removes_what_was_left(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "run").mkdir()
    written_state(tmp_path, holder=NO_PROCESS)
    down(tmp_path, said.append)
    assert said == [f"no lab is up in {tmp_path}"]
    assert not (tmp_path / "run").exists()
    assert json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))["phase"] == "ready"
    down(tmp_path / "absent", said.append)
    assert not (tmp_path / "absent").exists()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path leaves room for the lab's sockets, unlike pytest's own below that of a worker."""
    with TemporaryDirectory(prefix="lab-") as folder:
        yield Path(folder)


def test_a_second_start_of_the_same_lab_is_no_error_and_of_another_shape_is(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{LAB}.missing", lambda _machine: [])
    written_state(short_path)
    said: list[str] = []
    up(Options(short_path, cluster=False), {}, said.append)
    assert "up already" in said[0]
    with pytest.raises(LabFailed, match="2 guests, 1 rails, flat, not with 3 guests"):
        up(Options(short_path, guests=3), {}, said.append)
    with pytest.raises(LabFailed, match="without a cluster"):
        up(Options(short_path), {}, said.append)
    written_state(short_path, cluster=CLUSTER)
    up(Options(short_path), {}, said.append)
    up(Options(short_path, cluster=False), {}, said.append)
    written_state(short_path, ended={"rdma-1": 1, "rdma-2": None})
    with pytest.raises(LabFailed, match="rdma-1"):
        up(Options(short_path, cluster=False), {}, said.append)


def test_a_lab_whose_control_plane_has_ended_cannot_be_used_and_names_its_log(tmp_path: Path) -> None:
    with held(tmp_path, 0):
        written_state(tmp_path, cluster=CLUSTER, ended={"rdma-1": None, "rdma-2": None, "control-plane": 137})
        lines, usable = status(tmp_path)
    assert not usable
    assert any("control-plane ended with status 137" in line and "log/control-plane.log" in line for line in lines)


def test_the_nodes_of_a_cluster_are_shown_with_the_way_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {"rdma-1": True}
    monkeypatch.setattr(f"{LAB}.Api.from_kubeconfig", lambda _path: None)
    monkeypatch.setattr(f"{LAB}.ready_nodes", lambda _api: nodes)
    with held(tmp_path, 0):
        written_state(tmp_path, cluster=CLUSTER)
        lines, usable = status(tmp_path)
        assert not usable
        assert {"node rdma-1: Ready", "node rdma-2: not registered", "export KUBECONFIG=/lab/kubeconfig"} <= set(lines)
        assert [line for line in lines if "rxe" in line and line.startswith("stand-in")]
        nodes["rdma-2"] = False
        assert "node rdma-2: not Ready" in status(tmp_path)[0]
        nodes["rdma-2"] = True
        assert status(tmp_path)[1]


def test_a_cluster_that_does_not_answer_makes_the_lab_unusable(tmp_path: Path) -> None:
    def refuse(_path: Path) -> None:
        raise ConnectionRefusedError("connection refused")

    with held(tmp_path, 0), pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{LAB}.Api.from_kubeconfig", refuse)
        written_state(tmp_path, cluster=CLUSTER)
        lines, usable = status(tmp_path)
    assert not usable
    assert "the cluster does not answer: connection refused" in lines
