# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which hosts a molecule scenario runs, and that a lab of its own goes down whatever happens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import booted, scenario
from tools.checkout import CHECKOUT
from tools.scenario import on_own_hosts, run_roce_shared


class StandInLab:
    """A lab that is up, without hosts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.inventory = directory / "inventory.yml"

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {**environ, "KUBECONFIG": str(self.directory / "kubeconfig")}


class Machine:
    """What was started, in order, and with which environment molecule ran."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Path]] = []
        self.environment: Mapping[str, str] = {}
        self.status = 0

    def run(self, argv: list[str], _folder: Path, environment: Mapping[str, str]) -> int:
        assert argv[1:] == ["test", "--scenario-name", "roce-shared"]
        self.environment = environment
        return self.status


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()

    class Found:
        kubectl = Path("/programs/kubectl")

    monkeypatch.setattr(scenario, "Lab", StandInLab)
    monkeypatch.setattr(scenario, "run_command", found.run)
    monkeypatch.setattr(scenario, "gather", lambda _environ: Found)
    monkeypatch.setattr(booted, "Lab", StandInLab)
    monkeypatch.setattr(booted, "up", lambda options, *_rest: found.events.append(("up", options.directory)))
    monkeypatch.setattr(booted, "end_lab", lambda directory: found.events.append(("down", directory)))
    for name in ("RDMA_FABRIC_INVENTORY", "RDMA_FABRIC_LAB"):
        monkeypatch.delenv(name, raising=False)
    return found


ENVIRONMENT: Mapping[str, Any] = {"PATH": "/usr/bin"}


@pytest.mark.parametrize("status", [0, 3])
def test_by_itself_it_runs_on_a_lab_of_its_own_which_goes_down(machine: Machine, tmp_path: Path, status: int) -> None:
    machine.status = status
    assert run_roce_shared(tmp_path, ENVIRONMENT) == status
    assert machine.events == [("up", tmp_path / "lab"), ("down", tmp_path / "lab")]
    assert machine.environment["RDMA_FABRIC_INVENTORY"] == str(tmp_path / "lab" / "inventory.yml")
    assert machine.environment["KUBECONFIG"] == str(tmp_path / "lab" / "kubeconfig")
    assert machine.environment["PATH"].split(os.pathsep) == ["/programs", "/usr/bin"]


def test_a_running_lab_is_used_and_left_running(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RDMA_FABRIC_LAB", "/labs/mine")
    assert run_roce_shared(tmp_path, ENVIRONMENT) == 0
    assert machine.events == []
    assert machine.environment["RDMA_FABRIC_INVENTORY"] == "/labs/mine/inventory.yml"


def test_own_hosts_come_before_any_lab(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RDMA_FABRIC_LAB", "/labs/mine")
    monkeypatch.setenv("RDMA_FABRIC_INVENTORY", "/mine/hosts.yml")
    assert run_roce_shared(tmp_path, ENVIRONMENT) == 0
    assert machine.events == []
    assert machine.environment["RDMA_FABRIC_INVENTORY"] == "/mine/hosts.yml"


def test_own_hosts_come_with_the_users_cluster_from_wherever_it_was_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    user = {"RDMA_FABRIC_INVENTORY": "hosts.yml", "KUBECONFIG": "/mine/kubeconfig", "ANSIBLE_CONFIG": "/mine/cfg"}
    assert on_own_hosts(ENVIRONMENT, user) == {
        **ENVIRONMENT,
        "RDMA_FABRIC_INVENTORY": str(tmp_path / "hosts.yml"),
        "KUBECONFIG": "/mine/kubeconfig",
    }


def test_the_inventory_of_a_quick_start_is_that_of_its_guide() -> None:
    none_of(
        f"molecule/{name}/hosts.yml differs from the inventory of docs/guide-{name}.md"
        for name in scenario.QUICK_STARTS
        if yaml.safe_load((CHECKOUT / "molecule" / name / "hosts.yml").read_text(encoding="utf-8"))
        != yaml.safe_load(blocks_of(guide(f"guide-{name}.md"))[0])
    )


def test_every_scenario_can_be_started_by_its_name() -> None:
    there = {path.parent.name for path in (CHECKOUT / "molecule").glob("*/molecule.yml")}
    assert there == set(scenario.NAMES) - {scenario.ALL_QUICK_STARTS}


@pytest.mark.parametrize(
    "file", ["molecule/default/molecule.yml", "molecule/roce-shared/molecule.yml", ".config/molecule/config.yml"]
)
def test_check_alone_deletes_nothing_from_the_cluster_that_is_named(file: str) -> None:
    settings = yaml.safe_load((CHECKOUT / file).read_text(encoding="utf-8"))
    assert settings["scenario"]["check_sequence"] == ["check"]
    assert settings["scenario"]["test_sequence"][-1] == "cleanup"
