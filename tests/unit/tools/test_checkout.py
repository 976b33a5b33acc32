# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs of this checkout may see of their user."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.checkout import BUILD, CHECKOUT, link_checkout, own_environment
from tools.sanity import prepare_home


@pytest.mark.parametrize(
    "name",
    [
        *("KUBECONFIG", "K8S_AUTH_HOST", "ANSIBLE_INVENTORY", "ANSIBLE_CONFIG", "MOLECULE_FILE"),
        *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"),
    ],
)
def test_nothing_of_the_user_reaches_a_run(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/the/users/own")
    assert "/the/users/own" not in own_environment(Path("/collections")).values()


def test_ansible_stays_below_build() -> None:
    environment = own_environment(Path("/collections"))
    assert environment["ANSIBLE_COLLECTIONS_PATH"] == "/collections"
    assert Path(environment["ANSIBLE_HOME"]).is_relative_to(BUILD)


def test_a_stale_link_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "a" / "b"
    for target in (tmp_path / "old", tmp_path / "new", tmp_path / "new"):
        target.mkdir(exist_ok=True)
        link_checkout(link, target)
        assert link.resolve() == target


@pytest.mark.parametrize("target", ["env-run", "env-test"])
def test_playbooks_can_be_run_in_a_clone_once_its_environment_is_made(tmp_path: Path, target: str) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    (tmp_path / "tools").mkdir()
    for name in ("Makefile", "ansible.cfg", "tools/checkout.py"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    # The environment is there already, so that nothing has to make it.
    subprocess.run(["make", target, "PYTHON=true"], cwd=tmp_path, check=True, capture_output=True)
    configuration = configparser.ConfigParser()
    configuration.read(tmp_path / "ansible.cfg")
    collections = tmp_path / configuration["defaults"]["collections_path"]
    assert (collections / "ansible_collections" / "rdma" / "fabric").resolve() == tmp_path


def test_a_private_home_keeps_the_ways_to_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CERT", "/etc/own.pem")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    prepare_home(tmp_path)
    lines = (tmp_path / ".config" / "pip" / "pip.conf").read_text().splitlines()
    assert {"cert = /etc/own.pem", "no-index = 1"} <= set(lines)
    assert list((tmp_path / ".ansible" / "test" / "cache").glob("get_pip_*.py"))
