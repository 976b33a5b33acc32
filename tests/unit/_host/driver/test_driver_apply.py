# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing the driver of a host for real, as far as the simulated kernel goes: packages, disk, reload, network."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.files import (
    LOAD_FILE,
    ORDER_FILE,
    UNSUPPORTED_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.snapshot import as_text, parse_snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import JOURNAL
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import EVERY_SYSTEM, PORTS, RELEASE, driver_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

WANTED: dict[str, Any] = {"flavour": "doca-ofed", "version": f"{RELEASE}.0"}
CONSENTS = {"driver_reload": True}


def run(
    kernel: Kernel,
    consents: dict[str, bool] | None = None,
    check: bool = False,
    protected: Sequence[str] = (),
    **driver: Any,
) -> Mapping[str, Any]:
    allowed = CONSENTS if consents is None else consents
    desired = check_spec({"driver": driver or WANTED, "consents": allowed, "protected_interfaces": list(protected)})
    how = Run(check=check, diff=True, mode="apply", recorded=False, concerns=("driver",))
    if check:
        return preview(kernel, desired, how, None)
    return apply(kernel, desired, how, None, kernel)


def ran(kernel: Kernel) -> list[str]:
    return [mutation.what for mutation in kernel.mutations if mutation.kind == "run"]


def network(kernel: Kernel) -> dict[str, Any]:
    """Everything a reload takes away."""
    names = (*PORTS, "vlan20")
    masters = {name: kernel.link(f"{stack.NET}/{name}/master") for name in names if _has_master(kernel, name)}
    attributes = {
        name: (kernel.read(f"{stack.NET}/{name}/mtu"), int(kernel.read(f"{stack.NET}/{name}/flags"), 16) & 1)
        for name in names
    }
    return {"network": stack.network_of(kernel), "masters": masters, "attributes": attributes}


def _has_master(kernel: Kernel, name: str) -> bool:
    return kernel.exists(f"{stack.NET}/{name}/master")


def runs_vendor(kernel: Kernel) -> bool:
    taint = "/sys/module/mlx5_core/taint"
    return kernel.exists(taint) and "O" in kernel.read(taint)


@pytest.mark.parametrize("system", EVERY_SYSTEM)
def test_each_distribution_gets_the_driver_and_goes_back(system: str) -> None:
    kernel = driver_host(system)
    before, at_first = network(kernel), kernel.state()
    outcome = run(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert runs_vendor(kernel)
    assert network(kernel) == before
    assert outcome["plan"]["steps"] == []
    kernel.revive()
    again = run(kernel)
    assert (again["changed"], kernel.mutations) == (False, [])
    back = run(kernel, state="absent")
    assert not back.get("failed"), back["msg"]
    assert not runs_vendor(kernel)
    assert network(kernel) == before
    left = set(kernel.state()["files"]) - set(at_first["files"])
    assert not [path for path in left if "rdma-fabric" in path]
    assert run(kernel, state="absent")["changed"] is False
    installed = (stack.stack_of(kernel) or {})["installed"]
    assert [name for name, version in installed.items() if "mlnx" in version.lower() or "OFED" in version] == []
    assert ("librdmacm1t64" in installed) is (system in {"ubuntu-24.04", "ubuntu-26.04", "debian-13"})


def test_what_is_shown_is_what_is_done() -> None:
    kernel = driver_host()
    shown = run(kernel, check=True)
    assert kernel.mutations == []
    done = run(kernel)
    lines = [describe(step) for step in shown["plan"]["steps"]]
    assert [entry["line"] for entry in done["executed"]] == lines
    assert shown["diff"] == done["diff"]


def test_the_network_is_written_down_before_it_is_taken_away() -> None:
    kernel = driver_host()
    run(kernel)
    kinds = [mutation.what for mutation in kernel.mutations]
    journal = next(i for i, what in enumerate(kinds) if JOURNAL in what)
    restart = next(i for i, what in enumerate(kinds) if what == "systemctl restart openibd")
    assert journal < restart
    assert not kernel.exists(JOURNAL)


def test_without_consent_everything_but_the_reload_is_done() -> None:
    kernel = driver_host()
    outcome = run(kernel, consents={})
    assert not runs_vendor(kernel)
    assert [(step["id"], step["status"]) for step in outcome["plan"]["steps"]] == [("driver:load", "needs_consent")]
    kernel.revive()
    assert run(kernel, consents={})["changed"] is False
    assert kernel.mutations == []


def test_a_refusal_names_no_option_that_the_module_does_not_have() -> None:
    kernel = driver_host(busy=[])
    kernel.tree.add_file("/run/ostree-booted", "")
    outcome = run(kernel)
    assert outcome["failed"] and "change the input):" in outcome["msg"]
    assert "strict" not in outcome["msg"]


def test_a_program_with_open_verbs_blocks_the_reload_and_is_named() -> None:
    kernel = driver_host()
    kernel.tree.add_file("/proc/4711/comm", "ib_write_bw\n")
    kernel.tree.add_link("/proc/4711/fd/7", "/dev/infiniband/uverbs0")
    outcome = run(kernel)
    assert not runs_vendor(kernel)
    assert outcome["reboot_required"] is True
    (step,) = outcome["plan"]["steps"]
    assert "ib_write_bw (pid 4711) has /dev/infiniband/uverbs0 open" in step["detail"]


@pytest.mark.parametrize("system", ["ubuntu-24.04", "sles-15"])
def test_a_removal_of_everything_leaves_the_driver_what_it_needs(system: str) -> None:
    kernel = driver_host(system)
    run(kernel)
    ours = [path for path in (ORDER_FILE, UNSUPPORTED_FILE) if kernel.exists(path)]
    assert (UNSUPPORTED_FILE in ours) == (system == "sles-15")
    remove = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
    for _time in range(2):
        outcome = apply(kernel, check_spec({}), remove, None, kernel)
        assert (outcome["changed"], outcome.get("failed")) == (False, None)
        assert all(kernel.exists(path) for path in ours)
        (notice,) = outcome["plan"]["notices"]
        assert all(path in notice for path in ours) and "rdma.fabric.mofed_driver and state: absent" in notice
    run(kernel, state="absent")
    assert not any(kernel.exists(path) for path in ours)
    assert apply(kernel, check_spec({}), remove, None, kernel)["plan"]["notices"] == []


def test_a_removal_of_everything_takes_what_loads_the_kernels_own_driver() -> None:
    kernel = driver_host()
    run(kernel, flavour="inbox")
    assert kernel.exists(LOAD_FILE)
    remove = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
    assert apply(kernel, check_spec({}), remove, None, kernel)["plan"]["notices"] == []
    assert not kernel.exists(LOAD_FILE)


def test_a_module_that_does_not_unload_leaves_the_host_as_it_was() -> None:
    kernel = driver_host()
    run(kernel, consents={})
    before = network(kernel)
    known = stack.stack_of(kernel) or {}
    stack.keep(kernel, stack.STACK, {**known, "busy": ["mlx5_core"]})
    # The inbox modules are unloaded one by one where there is no service for it.
    kernel.tree.discard("/etc/init.d/openibd")
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert "in use" in outcome["msg"] and "next:" in outcome["msg"]
    assert network(kernel) == before
    stack.keep(kernel, stack.STACK, {**known, "busy": []})
    assert not run(kernel).get("failed")
    assert runs_vendor(kernel)
    assert network(kernel) == before


def refusing(kernel: Kernel, words: dict[str, str]) -> Callable[..., CommandResult]:
    """A host whose programs fail with these texts when any of these words is among their arguments."""
    known = kernel.run

    def run_it(argv: Sequence[str], timeout: float) -> CommandResult:
        text = next((words[word] for word in argv if word in words), None)
        return known(argv, timeout) if text is None else CommandResult(2, "", f"RTNETLINK answers: {text}\n")

    return run_it


def test_what_does_not_come_back_keeps_nothing_else_away(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = staged()
    before = network(kernel)
    with monkeypatch.context() as patch:
        patch.setattr(
            kernel, "run", refusing(kernel, {"bond7": "Operation not supported", "10.20.0.5/24": "No buffer space"})
        )
        outcome = run(kernel)
    after = network(kernel)
    assert outcome["failed"] is True
    assert "master bond7: ip ended with 2: RTNETLINK answers: Operation not supported" in outcome["msg"]
    assert "10.20.0.5/24" in outcome["msg"] and "No buffer space" in outcome["msg"]
    assert f"remove {JOURNAL}" in outcome["msg"]
    assert after["attributes"] == before["attributes"], "every interface is up with its MTU"
    assert after["network"]["addresses"]["vlan20"] == before["network"]["addresses"]["vlan20"]
    assert after["network"]["routes"] == before["network"]["routes"]
    # The next run has the rest to do, and does it.
    assert kernel.exists(JOURNAL)
    assert not run(kernel).get("failed")
    assert network(kernel) == before
    assert not kernel.exists(JOURNAL)


def killed_in_the_reload(*modules: str) -> Kernel:
    """A host whose run was killed when the driver was unloaded, and that had loaded these modules as well."""
    kernel = staged()
    run(kernel)
    number = next(i for i, mutation in enumerate(kernel.mutations) if mutation.what == "systemctl restart openibd")
    kernel = staged()
    kernel.disturb(number + 1, KILL)
    with pytest.raises(Killed):
        run(kernel)
    kernel.revive()
    written = parse_snapshot(kernel.read(JOURNAL))
    assert written is not None
    written["modules"] += modules
    kernel.tree.add_file(JOURNAL, as_text(written))
    return kernel


@pytest.mark.parametrize("module", ["nvidia_peermem", "mlx5_dpll", "nvme_rdma"])
def test_a_module_that_does_not_load_with_the_new_driver_is_told_once(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    kernel = killed_in_the_reload(module)
    before = network(staged())
    known = kernel.run

    def run_it(argv: Sequence[str], timeout: float) -> CommandResult:
        refused = CommandResult(1, "", f"modprobe: ERROR: could not insert '{module}': Invalid argument\n")
        return refused if tuple(argv) == ("modprobe", module) else known(argv, timeout)

    monkeypatch.setattr(kernel, "run", run_it)
    outcome = run(kernel)
    assert outcome["failed"] and f"modprobe {module}" in outcome["msg"] and "no later run loads it" in outcome["msg"]
    assert network(kernel) == before
    assert not kernel.exists(JOURNAL)
    kernel.revive()
    assert not run(kernel).get("failed")
    assert runs_vendor(kernel)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_killed_reload_is_finished_where_nobody_asks_for_a_driver_any_more(state: Any) -> None:
    kernel = killed_in_the_reload()
    before = network(staged())
    how = Run(check=False, diff=True, mode="apply", recorded=False, state=state)
    outcome = apply(kernel, check_spec({}), how, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert network(kernel) == before
    assert not kernel.exists(JOURNAL)


def test_a_reload_that_is_finished_later_keeps_nothing_away_either(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = staged()
    before = network(kernel)
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "run", refusing(kernel, {"bond7": "Operation not supported"}))
        run(kernel)
        kernel.run(["ip", "link", "set", "dev", "ens2f0", "down"], 1.0)
        again = run(kernel)
        assert [step["id"] for step in again["plan"]["steps"]] == ["driver:restore"]
        assert again["failed"] is True and "master bond7" in again["msg"]
        assert network(kernel)["attributes"] == before["attributes"]


def test_a_repository_that_has_another_release_is_found_out_before_the_reload() -> None:
    kernel = driver_host(release="24.07-0.6.1")
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert "24.10-1.1.4.0 is requested" in outcome["msg"]
    assert not any("restart" in line for line in ran(kernel))


@pytest.mark.parametrize(
    ("system", "missing", "cause"),
    [
        ("ubuntu-24.04", "mlnx-ofed-kernel-dkms", "no repository of this host has the package"),
        ("rocky-9", "mlnx-ofa_kernel-dkms", "no repository of this host has the package"),
        ("sles-15", "mlnx-ofa_kernel-dkms", "no repository of this host has the package"),
    ],
)
def test_a_package_that_nobody_offers(system: str, missing: str, cause: str) -> None:
    kernel = driver_host(system)
    known = stack.stack_of(kernel) or {}
    known["offered"].pop(missing)
    stack.keep(kernel, stack.STACK, known)
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert missing in outcome["msg"] and cause in outcome["msg"]


def test_firmware_is_only_burned_by_wish() -> None:
    kernel = driver_host()
    run(kernel)
    assert "mlnx-fw-updater" not in (stack.stack_of(kernel) or {})["installed"]
    kernel = driver_host()
    run(kernel, **WANTED, with_firmware_update=True)
    assert "mlnx-fw-updater" in (stack.stack_of(kernel) or {})["installed"]


def test_a_repository_with_its_key() -> None:
    key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n-----END PGP PUBLIC KEY BLOCK-----"
    kernel = driver_host()
    outcome = run(kernel, **WANTED, source="repository", repository={"url": "/srv/doca", "gpg_key": key})
    assert not outcome.get("failed"), outcome["msg"]
    text = kernel.read("/etc/apt/sources.list.d/rdma-fabric-driver.sources")
    assert "URIs: file:///srv/doca\n" in text
    assert "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQ\n" in text
    first = next(line for line in ran(kernel) if line.endswith("update"))
    assert "Dir::Etc::SourceList=/etc/apt/sources.list.d/rdma-fabric-driver.sources" in first
    run(kernel, state="absent")
    assert not kernel.exists("/etc/apt/sources.list.d/rdma-fabric-driver.sources")


def test_no_shell_and_no_force() -> None:
    kernel = driver_host()
    run(kernel)
    run(kernel, state="absent")
    words = {word for line in ran(kernel) for word in line.split()}
    assert not words & {"sh", "bash", "-c", "--force-yes", "rmmod", "force-restart"}


def staged() -> Kernel:
    """A host that has everything on its disk and only waits for the reload."""
    kernel = driver_host()
    run(kernel, consents={})
    kernel.mutations.clear()
    return kernel


@pytest.mark.slow
def test_a_run_that_is_killed_during_the_reload_is_finished_by_the_next_one() -> None:
    calm = staged()
    before = network(calm)
    run(calm)
    whats = [mutation.what for mutation in calm.mutations]
    restart = whats.index("systemctl restart openibd")
    for number in range(restart, len(whats)):
        kernel = staged()
        kernel.disturb(number, KILL)
        with pytest.raises(Killed):
            run(kernel)
        kernel.revive()
        snapshot = parse_snapshot(kernel.read(JOURNAL))
        assert snapshot is not None
        assert [link["name"] for link in snapshot["links"]][:2] == list(PORTS)
        outcome = run(kernel)
        assert not outcome.get("failed"), outcome["msg"]
        assert runs_vendor(kernel)
        assert network(kernel) == before
        assert not kernel.exists(JOURNAL)


@pytest.mark.slow
def test_whatever_disturbs_it_the_next_run_gets_there() -> None:
    count = sweep(driver_host, run)
    assert count > 30
