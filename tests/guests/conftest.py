# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests on booted guests.

``lab``: the directory of one lab of two guests for the session; ``run``: a shell command on a guest. ``cluster_lab``: a
lab whose guests are nodes of a cluster; ``cluster_of_three``: one of three guests, for a file; ``three_on_two_rails``:
one whose guests have two cards each. Each is the running one whose directory RDMA_FABRIC_LAB names, where that is of
its kind. ``cluster``: an API server beside a lab of hosts.
Where a lab cannot be had (no root, another architecture), the tests are skipped with the reason; in continuous
integration (``CI`` is set) they fail.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.lab import Options, down, up
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.guests.requirements import look, missing
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from ansible_collections.rdma.fabric.tests.lab.programs import gather, to_standard_error

COMMAND_SECONDS = 180
LAB_SECONDS = 14400  # as long as the gate; a lab ends with the tests anyway
Run = Callable[[str, str], "subprocess.CompletedProcess[str]"]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure when it is seen: a run of this length may be cut before pytest's summary."""
    if report.failed:
        to_standard_error(f"{report.nodeid} failed\n{report.longreprtext}")


@pytest.fixture(scope="session")
def capable() -> None:
    """Make sure of a machine that can run the lab."""
    flaws = missing(look())
    if flaws and os.environ.get("CI"):
        pytest.fail("\n".join(flaws), pytrace=False)
    if flaws:
        pytest.skip("\n".join(flaws))


def started(options: Options, pytestconfig: pytest.Config) -> Iterator[Path]:
    """Run a lab, its progress shown; it ends with the session, whatever ends that."""
    options = options._replace(owner=os.getpid(), seconds=LAB_SECONDS)
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    if capture is None:
        up(options, os.environ, to_standard_error)
    else:
        with capture.global_and_fixture_disabled():
            up(options, os.environ, to_standard_error)
    yield options.directory
    down(options.directory, to_standard_error)


@pytest.fixture(scope="session")
def lab(capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a running lab of hosts: one that was named, or one of the tests' own."""
    named = os.environ.get("RDMA_FABRIC_LAB")
    if named and not read_state(Path(named))["cluster"]:
        yield Path(named).resolve()
        return
    options = Options(tmp_path_factory.mktemp("lab"), cluster=False)
    yield from started(options, pytestconfig)


@pytest.fixture(scope="session")
def cluster_lab(capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab with a cluster: one that was named, or one of the tests' own."""
    named = os.environ.get("RDMA_FABRIC_LAB")
    if named:
        yield Lab(Path(named))
        return
    options = Options(tmp_path_factory.mktemp("cluster"))
    for directory in started(options, pytestconfig):
        yield Lab(directory)


@pytest.fixture(scope="module")
def cluster_of_three(
    capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A running lab of three nodes: one that was named, or one of the file's own."""
    yield from of_three(1, pytestconfig, tmp_path_factory)


@pytest.fixture(scope="module")
def three_on_two_rails(
    capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A running lab of three nodes with two cards each: one that was named, or one of the file's own."""
    yield from of_three(2, pytestconfig, tmp_path_factory)


def of_three(rails: int, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run a lab of three nodes."""
    named = os.environ.get("RDMA_FABRIC_LAB")
    state = read_state(Path(named)) if named else {}
    if named and len(state["guests"]) >= 3 and state["rails"] >= rails:
        yield Lab(Path(named))
        return
    options = Options(tmp_path_factory.mktemp("three"), guests=3, rails=rails)
    for directory in started(options, pytestconfig):
        yield Lab(directory)


@pytest.fixture(scope="module")
def cluster(capable: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server beside a lab of hosts."""
    directory = tmp_path_factory.mktemp("control-plane")
    programs = gather(os.environ, to_standard_error)
    with ControlPlane(directory, programs=programs, fake_nodes=False) as running:
        yield running


@pytest.fixture
def run(lab: Path) -> Run:
    """Run a shell command on a guest."""

    def on_guest(name: str, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ssh_argv(lab, name, [command]), check=False, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )

    return on_guest
