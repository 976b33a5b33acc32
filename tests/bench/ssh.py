# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what ``site`` asks of a host over SSH, beside a role of twenty tasks as such roles usually are.

The client is OpenSSH's, the target this machine, behind a server on loopback that counts. Nothing of the machine is
changed: ours only looks, the other one makes files of its own and removes them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import asyncssh
import yaml

from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.bench.site import run_measured
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment
from tools.ending import started

HOSTS = 4
START_SECONDS = 30.0
SERVER = Path(__file__).parent / "ssh_server.py"


class Requests(NamedTuple):
    """What the hosts of one run were asked for: commands and transfers, and CPU seconds of what they ran."""

    execs: int
    cpu_seconds: float


def measure(folder: Path) -> dict[str, float]:
    """Return the figures of the collection; ``folder`` gets keys, inventory and logs."""
    ours = of_site(prepared(folder), folder)
    return {
        "ssh.execs_per_host": ours.execs / HOSTS,
        "ssh.cpu_seconds_per_host": round(ours.cpu_seconds / HOSTS, 2),
    }


def measure_beside_usual_role(folder: Path) -> dict[str, float]:
    """Return the figures of a role of twenty tasks, and how much more of a host's CPU it takes than the collection."""
    environment = prepared(folder)
    (folder / "usual.yml").write_text(yaml.safe_dump(usual_role(folder / "usual"), sort_keys=False), encoding="utf-8")
    usual = asked_by(["usual.yml"], folder, environment)
    return {
        "ssh.usual_role.execs_per_host": usual.execs / HOSTS,
        "ssh.usual_role.cpu_ratio_to_ours": round(usual.cpu_seconds / of_site(environment, folder).cpu_seconds, 1),
    }


def prepared(folder: Path) -> dict[str, str]:
    """Make ``folder`` with the keys of server and client; return the environment of playbooks."""
    if shutil.which("ssh") is None:
        raise BenchmarkFailed("there is no ssh to count with; install OpenSSH's client")
    _artifact, collections = build_and_install()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(folder / name))
        key.write_public_key(str(folder / f"{name}.pub"))
        (folder / name).chmod(0o600)
    return own_environment(collections)


def of_site(environment: Mapping[str, str], folder: Path) -> Requests:
    """Preview ``site`` on the hosts and return what they were asked for."""
    variables = {"rdma_fabric_run_dir": str(folder / "run")}
    return asked_by(["rdma.fabric.site", "--check", "-e", json.dumps(variables)], folder, environment)


def asked_by(arguments: list[str], folder: Path, environment: Mapping[str, str]) -> Requests:
    """Run a playbook on the hosts, each of them the server, and return what they were asked for."""
    (folder / "port").unlink(missing_ok=True)
    name = arguments[0]
    # The path of a socket may have 108 bytes.
    sockets = Path(tempfile.mkdtemp(prefix="rdma-fabric-"))
    try:
        with started([sys.executable, str(SERVER), str(folder)], start_new_session=True) as server:
            inventory = folder / "hosts.json"
            inventory.write_text(json.dumps(inventory_at(port_of(server, folder), folder)), encoding="utf-8")
            argv = [str(PROGRAMS / "ansible-playbook"), *arguments, "-i", str(inventory)]
            settings = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets), "ANSIBLE_HOST_KEY_CHECKING": "false"}
            run_measured(argv, folder, {**environment, **settings}, folder / f"{name}.log", f"{name} over SSH")
            server.terminate()
            server.wait(START_SECONDS)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
    return Requests(**json.loads((folder / "counts.json").read_text(encoding="utf-8")))


def port_of(server: subprocess.Popen[Any], folder: Path) -> int:
    """Return the server's port once it listens."""
    end = time.monotonic() + START_SECONDS
    while not (folder / "port").exists():
        if server.poll() is not None or time.monotonic() > end:
            raise BenchmarkFailed("the SSH server did not start")
        time.sleep(0.05)
    return int((folder / "port").read_text(encoding="ascii"))


def inventory_at(port: int, folder: Path) -> dict[str, Any]:
    """Return an inventory whose hosts are all the server."""
    common = {
        "ansible_host": "127.0.0.1",
        "ansible_port": port,
        "ansible_ssh_private_key_file": str(folder / "user"),
        "ansible_ssh_common_args": "-F /dev/null -o UserKnownHostsFile=/dev/null",
        "ansible_python_interpreter": sys.executable,
    }
    return {"rdma_fabric": {"hosts": {f"host-{number}": {} for number in range(HOSTS)}, "vars": common}}


def usual_role(place: Path) -> list[dict[str, Any]]:
    """Return a play of twenty tasks as roles for hosts usually have them: facts, files, looks, each with its module."""
    files = f"{place}-{{{{ inventory_hostname }}}}"
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.setup": {}},
        {"ansible.builtin.file": {"path": files, "state": "directory", "mode": "0755"}},
        *(
            {"ansible.builtin.stat": {"path": path}}
            for path in ("/sys/class/net", "/sys/class/infiniband", "/dev/null")
        ),
        *({"ansible.builtin.command": {"argv": ["true", str(number)]}, "changed_when": False} for number in range(5)),
        *(
            {"ansible.builtin.copy": {"content": f"{number}\n", "dest": f"{files}/copy-{number}", "mode": "0644"}}
            for number in range(4)
        ),
        *(
            {"ansible.builtin.lineinfile": {"path": f"{files}/copy-{number}", "line": "more", "mode": "0644"}}
            for number in range(3)
        ),
        {"ansible.builtin.find": {"paths": files}},
        {"ansible.builtin.slurp": {"src": "/etc/hostname"}},
        {"ansible.builtin.file": {"path": files, "state": "absent"}},
    ]
    named = [{"name": f"Task {number}", **task} for number, task in enumerate(tasks, 1)]
    return [{"name": "Do what roles do", "hosts": "rdma_fabric", "gather_facts": False, "tasks": named}]
