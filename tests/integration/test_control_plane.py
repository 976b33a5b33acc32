# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's control plane is what it claims to be: real, private, exact in what it logs and gone afterwards."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.api import Api, collection_path
from ansible_collections.rdma.fabric.tests.lab.audit import ADMIN_USER, AuditLog, count_by_verb
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane, ControlPlaneFailed
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_nodes
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.lab.servers import ServerFailed, free_port

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def until(condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout:.0f} s"
        time.sleep(0.05)


def processes_in(directory: Path) -> dict[int, str]:
    """Process IDs and command names of all processes whose working directory is in ``directory``."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            working_directory = str((entry / "cwd").readlink()).removesuffix(" (deleted)")
            command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if command and Path(working_directory).is_relative_to(directory):
            found[int(entry.name)] = Path(command).name
    return found


@pytest.fixture
def two_nodes(control_plane: ControlPlane, namespace: str) -> Iterator[list[str]]:
    names = [f"{namespace}-{number}" for number in range(2)]
    apply_nodes(control_plane.api, kwok_nodes(names, {"example.com/test": namespace}))
    yield names
    delete_nodes(control_plane.api, names)


def test_server_says_its_version(control_plane: ControlPlane) -> None:
    version = control_plane.api.call("GET", "/version")
    assert (int(version["major"]), int(version["minor"])) >= (1, 35)
    assert version["gitVersion"].startswith("v1.")


def test_kubectl_works_with_the_kubeconfig(control_plane: ControlPlane, namespace: str) -> None:
    assert control_plane.kubectl("get", "namespace", namespace, "-o", "name") == f"namespace/{namespace}\n"


def test_listens_on_loopback_only(control_plane: ControlPlane) -> None:
    owned = set(processes_in(control_plane.directory))
    sockets = subprocess.run(["ss", "-Htlnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [line for line in sockets if any(f"pid={pid}," in line for pid in owned)]
    assert len(lines) == 4, lines  # etcd has none
    assert all(line.split()[3].startswith("127.0.0.1:") for line in lines), lines


def test_keys_are_private(control_plane: ControlPlane) -> None:
    run = control_plane.kubeconfig.parent
    assert run.stat().st_mode & 0o077 == 0
    assert control_plane.kubeconfig.stat().st_mode & 0o077 == 0


def test_unknown_user_is_refused_until_a_role_is_bound(control_plane: ControlPlane, namespace: str) -> None:
    config_maps = collection_path("v1", "configmaps", namespace)
    stranger = Api.from_kubeconfig(control_plane.client_kubeconfig("stranger", ["strangers"]))
    refused = stranger.request("GET", config_maps)
    assert refused.status == 403
    assert 'User "stranger" cannot list resource "configmaps"' in refused.body["message"]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "strangers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "strangers"}],
    }
    path = collection_path("rbac.authorization.k8s.io/v1", "rolebindings", namespace)
    control_plane.api.call("POST", path, binding)
    until(lambda: stranger.request("GET", config_maps).status == 200, "the role binding counts")
    stranger.close()


def test_expired_certificate_is_refused(control_plane: ControlPlane) -> None:
    expired = Api.from_kubeconfig(control_plane.client_kubeconfig("late", ["system:masters"], expired=True))
    assert expired.request("GET", "/api/v1/namespaces").status == 401
    expired.close()


def test_audit_counts_exactly(control_plane: ControlPlane, namespace: str, audit: AuditLog) -> None:
    user = f"counted-{namespace}"
    client = Api.from_kubeconfig(control_plane.client_kubeconfig(user, ["system:masters"]))
    config_maps = collection_path("v1", "configmaps", namespace)
    before = audit.mark()
    for number in range(25):
        client.apply(
            f"{config_maps}/map-{number}",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map-{number}"}},
        )
    middle = audit.mark()
    client.call("GET", config_maps)
    client.request("DELETE", f"{config_maps}/map-3", query={"dryRun": "All"})
    client.request("GET", f"{config_maps}/no-such-map")
    client.request("GET", "/openapi/v3")
    client.close()
    assert count_by_verb(audit.requests(before, user=user)) == {"delete": 1, "get": 2, "list": 1, "patch": 25}
    listed, deleted, missing, discovery = audit.requests(middle, user=user)
    assert (listed.verb, listed.resource, listed.namespace, listed.code) == ("list", "configmaps", namespace, 200)
    assert (deleted.verb, deleted.name, deleted.dry_run, deleted.code) == ("delete", "map-3", True, 200)
    assert (missing.name, missing.code, missing.dry_run) == ("no-such-map", 404, False)
    assert (discovery.uri, discovery.resource) == ("/openapi/v3", "")
    assert audit.requests(middle, user=user, user_agent="kubectl") == []


def test_audit_tells_the_tests_user_from_the_labs(control_plane: ControlPlane, audit: AuditLog, namespace: str) -> None:
    mark = audit.mark()
    control_plane.kubectl("get", "configmaps", "-n", namespace)
    control_plane.api.call("GET", collection_path("v1", "configmaps", namespace))
    requests = [each for each in audit.requests(mark, user=ADMIN_USER) if each.resource == "configmaps"]
    assert [(each.verb, each.user_agent.split("/")[0]) for each in requests] == [("list", "kubectl")]


def daemon_set(name: str, selector: dict[str, str]) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "main", "image": "registry.example/daemon:1", "securityContext": {"privileged": True}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": selector, "containers": containers},
            },
        },
    }


def test_daemon_set_gets_ready_on_nodes(control_plane: ControlPlane, namespace: str, two_nodes: list[str]) -> None:
    path = collection_path("apps/v1", "daemonsets", namespace)
    control_plane.api.call("POST", path, daemon_set("daemon", {"example.com/test": namespace}))

    def ready() -> bool:
        status = control_plane.api.call("GET", f"{path}/daemon")["status"]
        return bool(status["desiredNumberScheduled"] == 2 == status["numberReady"])

    until(ready, "both pods of the DaemonSet are ready")
    pods = control_plane.api.call("GET", collection_path("v1", "pods", namespace))["items"]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == two_nodes


def test_job_completes_on_nodes(control_plane: ControlPlane, namespace: str, two_nodes: list[str]) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"kubernetes.io/hostname": two_nodes[1]},
                    "containers": [{"name": "main", "image": "registry.example/job:1"}],
                }
            }
        },
    }
    path = collection_path("batch/v1", "jobs", namespace)
    control_plane.api.call("POST", path, job)
    until(lambda: control_plane.api.call("GET", f"{path}/once")["status"].get("succeeded") == 1, "the job completes")


def test_second_control_plane_is_apart_survives_a_taken_port_and_stops(
    control_plane: ControlPlane, lab_programs: Programs, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        lost = taken.getsockname()[1]
        # kube-apiserver loses once, then each of the three others.
        offers = iter([lost, free_port(), lost, lost, lost])

        def pick_port() -> int:
            return next(offers, 0) or free_port()

        second = ControlPlane(tmp_path / "second", programs=lab_programs, pick_port=pick_port)
        with second:
            assert next(offers, None) is None
            assert second.server not in (control_plane.server, f"https://127.0.0.1:{lost}")
            second.create_namespace("only-here")
            names = {item["metadata"]["name"] for item in control_plane.api.call("GET", "/api/v1/namespaces")["items"]}
            assert "only-here" not in names
            intruder = Api(second.server, second.authority.pair.certificate, control_plane.authority.client("admin"))
            assert intruder.request("GET", "/api/v1/namespaces").status == 401
            intruder.close()
            with pytest.raises(ControlPlaneFailed, match="another control plane runs in"):
                ControlPlane(second.directory, programs=lab_programs).start()
            assert set(processes_in(second.directory).values()) >= set(PROGRAM_NAMES)
            second.audit.mark()
    assert processes_in(second.directory) == {}
    assert sorted(path.name for path in second.directory.iterdir()) == ["audit.log", "lock", "logs"]
    assert b"only-here" in second.audit_log.read_bytes()


def test_a_dead_program_is_named_with_its_log(lab_programs: Programs, tmp_path: Path) -> None:
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho no disk left to write on >&2\nexit 7\n")
    broken.chmod(0o755)
    plane = ControlPlane(tmp_path / "plane", programs=lab_programs._replace(kube_apiserver=broken))
    with pytest.raises(ServerFailed, match=r"kube-apiserver ended by itself with status 7(.|\n)*no disk left"):
        plane.start()
    assert processes_in(tmp_path) == {}


def start_command_line(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.lab", "up", "--dir", str(directory), *arguments]
    return subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_command_line(lab_programs: Programs, tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "plane"
    command_line = start_command_line(directory)
    try:
        assert command_line.stdout is not None
        kubeconfig = command_line.stdout.readline().strip()
        assert kubeconfig == str(directory / "run" / "admin.kubeconfig")
        running = processes_in(directory)
        assert sorted(set(running.values()) & set(PROGRAM_NAMES)) == sorted(PROGRAM_NAMES)
    finally:
        command_line.send_signal(number)
        command_line.communicate(timeout=60)
    assert command_line.returncode == (-number if number == signal.SIGKILL else 128 + number)
    until(lambda: processes_in(directory) == {}, "all programs end")


def test_interruption_reaches_the_command_and_waits_for_it(lab_programs: Programs, tmp_path: Path) -> None:
    script = "trap 'echo cleaned up; exit 3' TERM; echo started; while :; do sleep 0.1; done"
    command_line = start_command_line(tmp_path / "plane", "--", "sh", "-c", script)
    assert command_line.stdout is not None
    assert command_line.stdout.readline() == "started\n"
    command_line.terminate()
    output, _messages = command_line.communicate(timeout=60)
    assert (output, command_line.returncode) == ("cleaned up\n", 128 + signal.SIGTERM)
    assert processes_in(tmp_path) == {}


def test_command_runs_on_the_control_plane_and_gives_its_status(lab_programs: Programs, tmp_path: Path) -> None:
    script = (
        '"$1" get namespace default -o name && [ "$KUBECONFIG" = "$K8S_AUTH_KUBECONFIG" ]'
        ' && [ -s "$RDMA_FABRIC_LAB_AUDIT_LOG" ] && exit 23'
    )
    argv = ["--", "sh", "-c", script, "sh", str(lab_programs.kubectl)]
    command_line = start_command_line(tmp_path / "plane", *argv)
    output, messages = command_line.communicate(timeout=120)
    assert (output, command_line.returncode) == ("namespace/default\n", 23), messages
    assert processes_in(tmp_path) == {}
    assert list((tmp_path / "plane" / "logs").iterdir())
