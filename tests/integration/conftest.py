# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests against a real API server.

``control_plane``: one control plane for the session (``ansible_collections.rdma.fabric.tests.lab``), which is an API
server alone where all tests are among the first; ``namespace``: a new namespace, deleted after the test;
``module_namespace``: the same for all tests of a file; ``audit``: the requests of the session, to be read from a
``mark()`` on. ``fleet_cluster``: a control plane of the file's own with one node per host of the recorded fleet, for
what a whole ``site`` puts in a cluster. The lab's own requests are made by the user ``rdma-fabric-lab``, those of
``kubeconfig`` by ``rdma-fabric-admin``. ``readers``: the programs that read what is written to hosts. ``states``: hosts
as ``site`` leaves them.

Where the control plane's programs can be neither found nor built, the tests are skipped with the reason; in continuous
integration (``CI`` is set) they fail. Tests that use it carry the mark ``control_plane``.
"""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Callable, Iterator, TypeVar

import pytest

from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.draining import DEVICE, Place, without_daemon_sets
from ansible_collections.rdma.fabric.tests.integration.drifting import Pushed
from ansible_collections.rdma.fabric.tests.integration.joining import Joining
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.integration.upgrading import NAMES, Fleet
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.kubelets import kubelets
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import ApiPrograms, Programs, gather, gather_api
from ansible_collections.rdma.fabric.tests.lab.readers import Readers, gather_readers
from tools.checkout import COLLECTIONS
from tools.fleet import fleet_nodes

_Found = TypeVar("_Found", ApiPrograms, Programs)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of this folder: of the others the gates of other releases repeat all."""
    item.add_marker(pytest.mark.integration)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs the control plane."""
    for item in items:
        if isinstance(item, pytest.Function) and {"cluster_programs", "lab_programs"} & set(item.fixturenames):
            item.add_marker(pytest.mark.control_plane)


def _gathered(config: pytest.Config, gather_them: Callable[[], _Found]) -> _Found:
    """Return programs; building them shows its progress."""
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            return gather_them()
    except ProgramsUnavailable as reason:
        do_without(f"no control plane: {reason}")


@pytest.fixture(scope="session")
def lab_programs(pytestconfig: pytest.Config) -> Programs:
    """The programs of a whole control plane."""
    return _gathered(pytestconfig, gather)


@pytest.fixture(scope="session")
def cluster_programs(request: pytest.FixtureRequest) -> ApiPrograms | Programs:
    """The programs of a control plane: where every test is one of the first, those that a fresh machine has soonest."""
    if all(item.get_closest_marker("first") for item in request.session.items):
        return _gathered(request.config, gather_api)
    programs: Programs = request.getfixturevalue("lab_programs")
    return programs


@contextmanager
def _running(programs: ApiPrograms | Programs, directory: Path) -> Iterator[ControlPlane]:
    """Run a control plane in which nodes become Ready, and pods that are on them run and end."""
    with ExitStack() as stack:
        running = stack.enter_context(ControlPlane(directory, programs=programs))
        if isinstance(programs, ApiPrograms):
            stack.enter_context(kubelets(running.api))
        yield running


@pytest.fixture(scope="session")
def readers() -> Readers:
    """The programs that read a host's files in production: udev, netplan, NetworkManager and their like."""
    try:
        return gather_readers(os.environ)
    except ProgramsUnavailable as reason:
        do_without(f"no readers: {reason}")


@pytest.fixture(scope="session")
def control_plane(
    cluster_programs: ApiPrograms | Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One running control plane for all tests of the session."""
    with _running(cluster_programs, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


def _new_namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:12]}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace for one test."""
    yield from _new_namespace(control_plane)


@pytest.fixture(scope="module")
def module_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace for the tests of one file."""
    yield from _new_namespace(control_plane)


@pytest.fixture
def audit(control_plane: ControlPlane) -> AuditLog:
    """The audit log of the session's control plane."""
    return control_plane.audit


@pytest.fixture(scope="module")
def fleet_cluster(
    cluster_programs: ApiPrograms | Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane that holds nothing but the recorded fleet as KWOK nodes."""
    with _running(cluster_programs, tmp_path_factory.mktemp("fleet-cluster")) as running:
        apply_nodes(running.api, fleet_nodes(COLLECTIONS))
        yield running


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> States:
    """Hosts as ``site`` leaves them, for others to be like them."""
    return States(tmp_path_factory.mktemp("states"))


@pytest.fixture
def host_names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The hosts of a fleet: three, or those of the test's mark ``hosts``, as the turn of each takes seconds."""
    marker = request.node.get_closest_marker("hosts")
    return marker.args if marker else NAMES


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str, tmp_path: Path, host_names: tuple[str, ...]) -> Iterator[Fleet]:
    """Hosts with files of their own, their nodes, and a pod with a device on each."""
    found = Fleet(control_plane, namespace, tmp_path, host_names)
    yield found
    delete_nodes(control_plane.api, found.nodes.values())


@pytest.fixture
def fleet_of_new(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, host_names: tuple[str, ...]
) -> Iterator[Joining]:
    """Hosts with files of their own, whose nodes are not registered yet."""
    found = Joining(control_plane, namespace, tmp_path, host_names)
    yield found
    delete_nodes(control_plane.api, [node for name, node in found.nodes.items() if found.is_there(name)])


@pytest.fixture
def pushed(control_plane: ControlPlane, namespace: str, tmp_path: Path, states: States) -> Pushed:
    """Two hosts with files of their own and some objects, as ``site`` has left them."""
    return Pushed(control_plane, namespace, tmp_path, states)


@pytest.fixture
def place(
    cluster_programs: ApiPrograms | Programs,
    control_plane: ControlPlane,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    """A node to be drained, on a cluster without DaemonSets, or without whatever makes their pods."""
    if isinstance(cluster_programs, Programs):
        without_daemon_sets(control_plane.api)
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))
    node = f"{namespace}-node"
    apply_nodes(control_plane.api, [kwok_node(node, allocatable={DEVICE: "100"})])
    found = Place(control_plane.api, node, namespace)
    yield found
    for pod in found.api.call("GET", found.pods)["items"]:
        if pod["metadata"].get("finalizers"):
            found.change_pod(pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    delete_nodes(control_plane.api, {node, found.node})
