# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests import forward
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.keeper import identity_of, write_json
from ansible_collections.rdma.fabric.tests.lab.guests.layout import card_name, monitor_socket, plan_guests
from ansible_collections.rdma.fabric.tests.lab.guests.monitor import MonitorRefused, execute, set_link
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image, Machine, guest_argv
from ansible_collections.rdma.fabric.tests.lab.guests.reach import LabNotUp

GREETING: dict[str, object] = {"QMP": {"version": {}, "capabilities": []}}
EVENT: dict[str, object] = {"event": "NIC_RX_FILTER_CHANGED", "timestamp": {}}


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Callable[..., list[dict[str, object]]]]:
    """Play QEMU at a monitor: what it answers to each command (None: it closes); gives what it was asked."""
    threads: list[threading.Thread] = []

    def play(path: Path, *answers: dict[str, object] | None) -> list[dict[str, object]]:
        asked: list[dict[str, object]] = []
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with listening, listening.accept()[0] as connection, connection.makefile("rw") as stream:
                stream.write(json.dumps(GREETING) + "\n")
                stream.flush()
                for answer in answers:
                    asked.append(json.loads(stream.readline()))
                    if answer is None:
                        return
                    stream.write(json.dumps(EVENT) + "\n" + json.dumps(answer) + "\n")
                    stream.flush()

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return asked

    yield play
    for thread in threads:
        thread.join(10)


def test_a_wire_is_pulled_by_name_once_qemu_takes_commands(
    monitor: Callable[..., list[dict[str, object]]], tmp_path: Path
) -> None:
    asked = monitor(tmp_path / "qmp", {"return": {}}, {"return": {}})
    set_link(tmp_path / "qmp", "card0", up=False)
    assert asked == [
        {"execute": "qmp_capabilities"},
        {"execute": "set_link", "arguments": {"name": "card0", "up": False}},
    ]


def test_what_qemu_refuses_is_said_in_its_words(
    monitor: Callable[..., list[dict[str, object]]], tmp_path: Path
) -> None:
    monitor(tmp_path / "qmp", {"return": {}}, {"error": {"class": "DeviceNotFound", "desc": "Device 'x' not found"}})
    with pytest.raises(MonitorRefused, match="set_link: Device 'x' not found"):
        set_link(tmp_path / "qmp", "x", up=True)


def test_a_monitor_that_closes_is_no_success(monitor: Callable[..., list[dict[str, object]]], tmp_path: Path) -> None:
    monitor(tmp_path / "qmp", {"return": {}}, None)
    with pytest.raises(MonitorRefused, match="closed its monitor"):
        execute(tmp_path / "qmp", "query-status", {})


def test_a_lab_pulls_the_wire_at_every_end(monitor: Callable[..., list[dict[str, object]]], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    guests = plan_guests(2, 1)
    cluster = {"kubeconfig": "/lab/kubeconfig", "kubectl": "/bin/kubectl", "server": "https://127.0.0.1:1"}
    shown = {"guests": [{"name": guest.name} for guest in guests], "cluster": cluster, "phase": "ready"}
    write_json(tmp_path / "state.json", {**identity_of(os.getpid()), **shown})
    asked = [monitor(tmp_path / monitor_socket(guest.name), {"return": {}}, {"return": {}}) for guest in guests]
    Lab(tmp_path).pull_wire(0)
    assert [each[1]["arguments"] for each in asked] == [{"name": "card0", "up": False}] * 2


def test_the_monitor_knows_the_cards_by_the_names_that_wires_are_pulled_by() -> None:
    guest = plan_guests(2, 2)[0]
    argv = guest_argv(Image(Path("/i"), Path("/q")), guest, 2, Machine("tcg"))
    for port in guest.ports:
        assert any(each.startswith(f"igb,id={card_name(port.rail)},") for each in argv)
    assert argv[argv.index("-qmp") + 1].startswith(f"unix:{monitor_socket(guest.name)},server=on,wait=off")


def test_a_lab_without_a_cluster_or_none_at_all_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(LabNotUp, match="no lab is up"):
        Lab(tmp_path)
    write_json(tmp_path / "state.json", {**identity_of(os.getpid()), "guests": [], "cluster": None})
    with pytest.raises(LabNotUp, match="--no-cluster"):
        Lab(tmp_path)


@pytest.fixture
def forwarded() -> Iterator[Callable[[int], int]]:
    """Run the forwarder to a port; gives its own."""
    running: list[subprocess.Popen[bytes]] = []

    def start(port: int) -> int:
        with socket.create_server(("127.0.0.1", 0)) as entrance:
            descriptor = entrance.fileno()
            argv = [sys.executable, "-I", "-S", forward.__file__, str(descriptor), "127.0.0.1", str(port)]
            running.append(subprocess.Popen(argv, pass_fds=[descriptor]))
            own: int = entrance.getsockname()[1]
            return own

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_bytes_and_the_end_of_each_direction_are_passed_on(forwarded: Callable[[int], int]) -> None:
    payload = os.urandom(3_000_000)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = forwarded(server.getsockname()[1])

        def answer() -> None:
            with server.accept()[0] as far:
                far.sendall(b"".join(iter(lambda: far.recv(65536), b""))[::-1])

        thread = threading.Thread(target=answer)
        thread.start()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as near:
            near.sendall(payload)
            near.shutdown(socket.SHUT_WR)  # the answer still comes
            assert b"".join(iter(lambda: near.recv(65536), b"")) == payload[::-1]
        thread.join(10)


def test_a_server_that_is_not_there_closes_one_connection_and_no_more(forwarded: Callable[[int], int]) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = forwarded(server.getsockname()[1])
        for _again in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as near:
                assert near.recv(1) == b""
        server.listen()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as near, server.accept()[0] as far:
            far.sendall(b"x")
            assert near.recv(1) == b"x"
