# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start command of whereabouts' pods, run by a real shell: the kubeconfig follows the token."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Callable, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.whereabouts import (
    START,
    START_WITHOUT_LOOP,
)

KUBECONFIG = """\
# Kubeconfig file for the Whereabouts CNI plugin.
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://[10.96.0.1]:443
    certificate-authority-data: QUJD
users:
- name: whereabouts
  user:
    token: "first"
current-context: whereabouts-context
"""
SHELL = shutil.which("dash") or shutil.which("sh") or "/bin/sh"


class Pod:
    """A folder that stands for the container, and the shell that runs its command."""

    def __init__(self, folder: Path, start: str = START) -> None:
        self.token = folder / "token"
        self.kubeconfig = folder / "whereabouts.d" / "whereabouts.kubeconfig"
        self.token.write_text("first")
        install = folder / "install-cni.sh"
        install.write_text(
            '#!/bin/sh\n[ "$SLEEP" = false ] || exit 9\nmkdir -p $CNI_CONF_DIR/whereabouts.d\n'
            f"cd $CNI_CONF_DIR/whereabouts.d\ncat > {self.kubeconfig.name} <<'X'\n{KUBECONFIG}X\nchmod 600 *\n"
        )
        loop = folder / "ip-control-loop"
        loop.write_text(f'#!/bin/sh\necho "$@" > {folder}/arguments\nexec sleep 60\n')
        for program in (install, loop):
            program.chmod(0o755)
        environment = {
            "PATH": "/usr/bin:/bin",
            "TOKEN_FILE": str(self.token),
            "CNI_BIN_DIR": str(folder),
            "CNI_CONF_DIR": str(folder),
            "CONTROL_LOOP": str(loop),
            "TOKEN_CHECK_SECONDS": "0.05",
        }
        self.arguments = folder / "arguments"
        script = start.replace("/install-cni.sh", str(install))
        self.shell = subprocess.Popen([SHELL, "-c", script], env=environment, start_new_session=True)

    def runs_its_loop(self) -> bool:
        """Tell whether the control loop has begun, and has written all of what it was told."""
        return self.arguments.exists() and self.arguments.read_text().endswith("\n")

    def holds(self, token: str) -> bool:
        """Tell whether the kubeconfig is whole and holds this token."""
        content = yaml.safe_load(self.kubeconfig.read_text())
        assert content["clusters"][0]["cluster"]["server"] == "https://[10.96.0.1]:443"
        found: str = content["users"][0]["user"]["token"]
        return found == token


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    running = Pod(tmp_path)
    try:
        assert eventually(running.runs_its_loop)
        yield running
    finally:
        os.killpg(running.shell.pid, signal.SIGKILL)
        running.shell.wait()


def test_the_control_loop_runs_in_place_of_the_shell(pod: Pod) -> None:
    assert pod.arguments.read_text() == "-log-level verbose\n"
    command = Path(f"/proc/{pod.shell.pid}/cmdline").read_bytes()
    assert eventually(lambda: Path(f"/proc/{pod.shell.pid}/cmdline").read_bytes().startswith(b"sleep")), command


def test_a_rotated_token_reaches_the_kubeconfig_which_stays_private_and_whole(pod: Pod) -> None:
    for token in ("eyJhbGciOi.second-token_", "third/with+odd=characters"):
        pod.token.write_text(token)
        assert eventually(partial(pod.holds, token))
    assert oct(pod.kubeconfig.stat().st_mode)[-3:] == "600"
    assert pod.kubeconfig.read_text().replace("third/with+odd=characters", "first") == KUBECONFIG


def test_an_unchanged_token_writes_nothing(pod: Pod) -> None:
    inode = pod.kubeconfig.stat().st_ino
    time.sleep(0.3)
    assert pod.kubeconfig.stat().st_ino == inode


def test_a_token_that_can_t_be_read_for_a_moment_is_not_lost(pod: Pod) -> None:
    pod.token.unlink()
    time.sleep(0.2)
    assert pod.holds("first")
    pod.token.write_text("second")
    assert eventually(lambda: pod.holds("second"))


def test_a_release_without_a_control_loop_keeps_the_token_fresh_all_the_same(tmp_path: Path) -> None:
    running = Pod(tmp_path, START_WITHOUT_LOOP)
    try:
        assert eventually(lambda: running.kubeconfig.exists() and running.kubeconfig.read_text() == KUBECONFIG)
        running.token.write_text("second")
        assert eventually(lambda: running.holds("second"))
        assert running.shell.poll() is None and not running.arguments.exists()
    finally:
        os.killpg(running.shell.pid, signal.SIGKILL)
        running.shell.wait()


@pytest.mark.parametrize("start", [START, START_WITHOUT_LOOP])
def test_a_failed_installation_ends_the_pod(start: str) -> None:
    script = start.replace("/install-cni.sh", "false")
    assert subprocess.run([SHELL, "-c", script], env={"PATH": "/usr/bin:/bin"}, check=False).returncode == 1
