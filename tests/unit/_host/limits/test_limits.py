# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits: for logins, services and what starts containers, and what is said of those that run already."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory.limits import unit_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.memory import LOGIN_FILE, parse_defaults
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MANAGER_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.reached import PATH as REACHED
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import LIMITS_IN_EFFECT
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import (
    DISTRIBUTIONS,
    REMOVE,
    applied,
    host,
    previewed,
)

WISH: dict[str, Any] = {"limits": {"memlock": "unlimited", "nofile": 1048576}}
LOGINS = "/etc/security/limits.d"
DOCKER = """{"default-ulimits": {"nofile": {"Name": "nofile", "Hard": 64000, "Soft": 64000},
 "memlock": {"Hard": 65536, "Name": "memlock", "Soft": 65536}, "core": {"Name": "core", "Hard": 0, "Soft": 0}}}"""
RUNTIME_SPEC = """{"process": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 65536},
 {"type": "RLIMIT_MEMLOCK", "hard": 18446744073709551615, "soft": 18446744073709551615}]}}"""
CONTAINERD = unit_file("containerd.service")


def body(kernel: Kernel, path: str) -> list[str]:
    lines = kernel.read(path).splitlines()
    assert lines[0].startswith("# Managed by rdma.fabric")
    return lines[1:]


class TestFiles:
    @pytest.mark.parametrize("distribution", DISTRIBUTIONS)
    def test_logins_services_and_containers_get_them(self, distribution: str) -> None:
        kernel = host(distribution)
        outcome = applied(kernel, **WISH)
        assert not outcome.get("failed"), outcome["msg"]
        assert body(kernel, LOGIN_FILE) == [
            "* - memlock unlimited",
            "root - memlock unlimited",
            "* - nofile 1048576",
            "root - nofile 1048576",
        ]
        assert body(kernel, MANAGER_FILE) == ["[Manager]", "DefaultLimitMEMLOCK=infinity", "DefaultLimitNOFILE=1048576"]
        assert body(kernel, CONTAINERD) == ["[Service]", "LimitMEMLOCK=infinity", "LimitNOFILE=1048576"]

    def test_kibibytes_become_bytes_where_systemd_counts_them(self) -> None:
        kernel = host()
        applied(kernel, limits={"memlock": 65536})
        assert body(kernel, LOGIN_FILE)[0] == "* - memlock 65536"
        assert body(kernel, MANAGER_FILE) == ["[Manager]", "DefaultLimitMEMLOCK=67108864"]

    def test_units_that_are_not_there_get_no_file(self) -> None:
        kernel = host()
        kernel.tree.discard("/usr/lib/systemd/system/containerd.service")
        kernel.tree.add_file("/etc/systemd/system/k3s-agent.service", "")
        applied(kernel, **WISH)
        assert not kernel.exists(CONTAINERD)
        assert kernel.exists(unit_file("k3s-agent.service"))

    def test_systemd_reads_them_once(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        assert [mutation.what for mutation in kernel.mutations if mutation.kind == "run"] == ["systemctl daemon-reload"]
        assert parse_defaults(kernel.read(LIMITS_IN_EFFECT)) == {"memlock": "infinity", "nofile": 1048576}

    def test_without_systemd_running_nothing_is_told_to_it(self) -> None:
        kernel = host()
        kernel.tree.discard("/run/systemd")
        applied(kernel, **WISH)
        assert "run" not in {mutation.kind for mutation in kernel.mutations}

    def test_a_second_run_changes_nothing(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.revive()
        assert applied(kernel, **WISH)["changed"] is False
        assert kernel.mutations == []

    @pytest.mark.slow
    def test_whatever_disturbs_a_run_the_next_one_ends_where_a_calm_one_does(self) -> None:
        assert sweep(host, lambda kernel: applied(kernel, **WISH)) > 10


class TestNumberOfFiles:
    """The kernel denies a limit above fs.nr_open, and PAM then refuses the login: of everybody, root included."""

    @pytest.mark.parametrize(("most", "refused"), [(65536, True), (1048575, True), (1048576, False)])
    def test_more_than_the_kernel_lets_a_process_have_is_refused(self, most: int, refused: bool) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/sys/fs/nr_open", f"{most}\n")
        outcome = applied(kernel, **WISH)
        details = [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]
        assert [f"fs.nr_open is {most}" in detail for detail in details] == [True] * refused
        for path in (LOGIN_FILE, MANAGER_FILE, CONTAINERD):
            assert ("nofile" in kernel.read(path).lower()) is not refused
            assert "memlock" in kernel.read(path).lower(), "what can be had is had"

    def test_what_is_raised_in_the_same_run_counts(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/sys/fs/nr_open", "65536\n")
        assert not applied(kernel, **WISH, sysctls={"fs.nr_open": 1048576}).get("failed")
        assert "* - nofile 1048576" in body(kernel, LOGIN_FILE)

    def test_what_is_lowered_in_the_same_run_counts(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/sys/fs/nr_open", "1048576\n")
        applied(kernel, **WISH, sysctls={"fs.nr_open": 65536})
        assert "nofile" not in kernel.read(LOGIN_FILE)

    def test_a_limit_of_before_goes_once_the_kernel_denies_it(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.tree.add_file("/proc/sys/fs/nr_open", "65536\n")
        applied(kernel, **WISH)
        assert "nofile" not in kernel.read(LOGIN_FILE)

    def test_a_removal_asks_for_nothing(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.tree.add_file("/proc/sys/fs/nr_open", "65536\n")
        outcome = applied(kernel, run=REMOVE)
        assert not outcome.get("failed")
        assert not kernel.exists(LOGIN_FILE)
        lines = [step["line"] for step in outcome["executed"] if LOGIN_FILE in step["id"]]
        assert [line.partition(" - ")[2] for line in lines] == [
            "new logins have their former limits; open sessions keep theirs"
        ]


class TestEffect:
    def test_what_runs_already_is_not_restarted(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        assert not any("restart" in mutation.what for mutation in kernel.mutations)

    def test_each_step_says_from_when_on_it_counts(self) -> None:
        lines = [step["detail"] for step in previewed(host(), **WISH)["plan"]["steps"]]
        assert "new logins" in lines[0]
        assert "from their next start on" in lines[1]
        assert "systemctl restart containerd.service" in lines[2]

    def test_files_that_systemd_has_not_read_are_read(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.tree.add_file(LIMITS_IN_EFFECT, "DefaultLimitMEMLOCK=8388608\nDefaultLimitNOFILE=524288\n")
        kernel.revive()
        outcome = applied(kernel, **WISH)
        assert [step["id"] for step in outcome["executed"]] == ["limits:reload"]

    def test_a_later_file_that_sets_another_default_is_noticed(self) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/systemd/system.conf.d/99-mine.conf", "[Manager]\nDefaultLimitMEMLOCK=65536\n")
        outcome = applied(kernel, **WISH)
        assert "memlock is 65536, not infinity" in outcome["failed_step"]["error"]
        assert "/etc/systemd/system.conf.d" in outcome["failed_step"]["error"]

    def test_a_later_file_of_a_runtime_is_noticed_by_every_run(self) -> None:
        """The one of systemctl edit is the last of all: elastic/docs-content#5441 has it written for nofile."""
        kernel = host()
        kernel.tree.add_file(CONTAINERD.replace("90-rdma-fabric", "override"), "[Service]\nLimitNOFILE=1024000\n")
        for _run in range(2):
            outcome = applied(kernel, **WISH)
            error = outcome["failed_step"]["error"]
            assert "nofile is 1024000, not 1048576" in error and "(systemctl cat containerd.service)" in error
            kernel.revive()

    @pytest.mark.parametrize(
        ("path", "text", "limits"),
        [
            (f"{LOGINS}/95-site.conf", "* soft memlock unlimited # ours\n*  hard\tmemlock 64\n", [65536]),
            (f"{LOGINS}/95-site.conf", "root - nofile 1024\n", [1024]),
            (f"{LOGINS}/95-site.conf", "# * - memlock 64\n* - memlock unlimited\n* - core 0\n", []),
            # A line for a user or a group counts before those for everybody, whatever the file.
            (f"{LOGINS}/95-site.conf", "@db - memlock 64\n", []),
            (f"{LOGINS}/20-site.conf", "* - memlock 64\n", []),
            ("/etc/docker/daemon.json", DOCKER, [64000, 65536]),
            ("/etc/crio/crio.conf.d/10.conf", '# default_ulimits = ["nofile=1"]\ndefault_ulimits = [', []),
            ("/etc/crio/crio.conf.d/10.conf", 'default_ulimits = [\n  "nofile=1024:2048", "memlock=-1"\n]\n', [1024]),
            ("/etc/containerd/base.json", RUNTIME_SPEC, [65536]),
        ],
    )
    def test_a_limit_that_is_lowered_after_ours_is_refused(self, path: str, text: str, limits: list[int]) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/containerd/config.toml", '  base_runtime_spec = "/etc/containerd/base.json"\n')
        for unit in ("docker", "crio"):
            kernel.tree.add_file(f"/usr/lib/systemd/system/{unit}.service", "")
        kernel.tree.add_file(path, text)
        outcome = applied(kernel, **WISH)
        refused = [step for step in outcome["plan"]["steps"] if step["status"] == "refused"]
        assert [step["from"] for step in refused] == limits
        assert all(path in step["detail"] for step in refused)
        assert kernel.exists(LOGIN_FILE), "what can be had is had"

    def test_a_masked_runtime_is_none(self) -> None:
        kernel = host()
        kernel.tree.add_link("/etc/systemd/system/containerd.service", "/dev/null")
        assert not applied(kernel, **WISH).get("failed")
        assert not kernel.exists(CONTAINERD)


class TestRemoval:
    @pytest.mark.parametrize("how", [{}, {"run": REMOVE}])
    def test_taking_the_wish_back_takes_every_file(self, how: dict[str, Any]) -> None:
        kernel = host()
        before = kernel.state()["files"]
        applied(kernel, **WISH)
        outcome = applied(kernel, **how)
        assert not outcome.get("failed"), outcome["msg"]
        assert kernel.state()["files"].keys() - before.keys() <= {REACHED}
        assert parse_defaults(kernel.read(LIMITS_IN_EFFECT))["memlock"] == 8388608
        kernel.revive()
        assert applied(kernel, **how)["changed"] is False

    def test_one_limit_less_leaves_the_other(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        applied(kernel, limits={"nofile": 1048576})
        assert body(kernel, MANAGER_FILE) == ["[Manager]", "DefaultLimitNOFILE=1048576"]

    def test_files_of_others_stay(self) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/systemd/system/containerd.service.d/10-mine.conf", "[Service]\n")
        applied(kernel, **WISH)
        applied(kernel, run=REMOVE)
        assert kernel.exists("/etc/systemd/system/containerd.service.d/10-mine.conf")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DefaultLimitMEMLOCK=infinity\n", "infinity"),
        ("DefaultLimitMEMLOCK=18446744073709551615\n", "infinity"),
        ("DefaultLimitMEMLOCK=65536\n", 65536),
        ("DefaultLimitMEMLOCK=\n", None),
        ("DefaultLimitMEMLOCK=lots\n", None),
        ("", None),
        ("\x00=\x00\n=\n", None),
    ],
)
def test_what_systemd_says_is_read(text: str, value: Any) -> None:
    assert parse_defaults(text)["memlock"] == value
