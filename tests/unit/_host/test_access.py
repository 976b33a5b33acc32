# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is reached below one root only; every refusal has the errno's name; nothing is read without bound."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.settings import parse_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    OUTPUT_LIMIT,
    READ_LIMIT,
    HostError,
    LiveHost,
    LiveMachine,
    follow,
    temporary_name,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import Recorder
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._module import end_with
from ansible_collections.rdma.fabric.tests.unit.processes import is_gone


@pytest.fixture
def host(tmp_path: Path) -> LiveHost:
    (tmp_path / "sys/devices/pci0/net/eth0").mkdir(parents=True)
    (tmp_path / "sys/devices/pci0/net/eth0/mtu").write_text("1500\n")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0").symlink_to("../../devices/pci0/net/eth0")
    return LiveHost(str(tmp_path))


def refusal(call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(HostError) as refused:
        call(*arguments)
    return refused.value.code


def test_a_path_leads_through_links(host: LiveHost) -> None:
    assert host.read("/sys/class/net/eth0/mtu") == "1500\n"
    assert host.read_bytes("/sys/class/net/eth0/mtu") == b"1500\n"
    assert host.realpath("/sys/class/net/eth0") == "/sys/devices/pci0/net/eth0"
    assert host.link("/sys/class/net/eth0") == "../../devices/pci0/net/eth0"
    assert host.list("/sys/class/net") == ["eth0"]
    assert host.exists("/sys/class/net/eth0/mtu")


@pytest.mark.parametrize("target", ["/outside", "../../outside", "/../../outside"])
def test_no_link_leads_out_of_the_root(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_text("secret")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/link").symlink_to(target)
    host = LiveHost(str(root))
    assert refusal(host.read, "/etc/link") == "ENOENT"
    assert not host.exists("/etc/link")
    (root / "outside").write_text("inside")
    assert host.read("/etc/link") == "inside"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("read", "/none", "ENOENT"),
        ("read", "/sys", "EISDIR"),
        ("read", "/sys/class/net/eth0/mtu/more", "ENOTDIR"),
        ("list", "/none", "ENOENT"),
        ("list", "/sys/class/net/eth0/mtu", "ENOTDIR"),
        ("link", "/sys", "EINVAL"),
        ("link", "/none", "ENOENT"),
        ("realpath", "/none", "ENOENT"),
    ],
)
def test_a_refusal_has_the_name_of_its_errno(host: LiveHost, method: str, path: str, code: str) -> None:
    assert refusal(getattr(host, method), path) == code


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    host = LiveHost(str(tmp_path))
    assert refusal(host.read, "/a/file") == "ELOOP"
    assert not host.exists("/a")


def test_a_large_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (10 * 1024 * 1024))
    assert len(LiveHost(str(tmp_path)).read("/large")) == READ_LIMIT


def test_tables_of_the_network_are_read_further_than_other_files(tmp_path: Path) -> None:
    """A node of a large cluster has thousands of routes; the default route of IPv6 is the last one."""
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/ipv6_route").write_bytes(b"x" * (10 * 1024 * 1024))
    assert len(LiveHost(str(tmp_path)).read("/proc/net/ipv6_route")) == OUTPUT_LIMIT


def test_a_fifo_in_the_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    started = time.monotonic()
    assert LiveHost(str(tmp_path)).read("/fifo") == ""
    # Neither does one that somebody has open to write to.
    writer = os.open(tmp_path / "fifo", os.O_RDWR)
    assert LiveHost(str(tmp_path)).read("/fifo") == ""
    os.close(writer)
    assert time.monotonic() - started < 60


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb")
    assert LiveHost(str(tmp_path)).read("/file") == "a\N{REPLACEMENT CHARACTER}b"


def test_the_kernel_s_own_word_is_used_where_one_number_has_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(LiveHost(str(tmp_path)).read, "/phys_switch_id") == "EOPNOTSUPP"


@pytest.mark.parametrize("look", [LiveHost, RecordedHost, Recorder])
def test_what_is_looked_at_can_not_be_changed(look: type) -> None:
    assert [name for name in ("replace", "remove", "set_attribute", "write") if hasattr(look, name)] == []


def test_a_program_runs_without_shell_and_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    code = "import os, sys; print(os.environ['LC_ALL'], sys.argv[1]); sys.exit(3)"
    result = LiveHost().run([sys.executable, "-c", code, "$(id)"], 20)
    assert (result.rc, result.stdout) == (3, "C $(id)\n")


def test_the_programs_of_a_module_write_what_others_can_read_whatever_the_umask_of_root() -> None:
    """netplan generate leaves networkd without its files (konstruktoid/ansible-collection-hardening#95)."""
    found: list[str] = []

    def write(_module: AnsibleModule) -> dict[str, Any]:
        found.append(LiveHost().run([sys.executable, "-c", "import os; print(oct(os.umask(0)))"], 20).stdout)
        return {}

    former = os.umask(0o077)
    try:
        end_with(cast(AnsibleModule, SimpleNamespace(exit_json=lambda **_result: None)), write)
    finally:
        os.umask(former)
    assert found == ["0o22\n"]


def test_the_addresses_of_a_node_with_a_thousand_pods_are_read_to_the_end() -> None:
    of_a_pod = "{'ifname': f'cali{n:011x}', 'mtu': 1450, 'operstate': 'UP', 'addr_info': [{'family': 'inet6', **more}]}"
    more = "more = {'local': 'fe80::ecee:eeff:feee:eeee', 'prefixlen': 64, 'scope': 'link', 'valid_life_time': 2**32}"
    code = f"import json; {more}; print(json.dumps([{of_a_pod} for n in range(1000)]))"
    result = LiveHost().run([sys.executable, "-c", code], 20)
    assert len(result.stdout) > READ_LIMIT and len(parse_addresses(result.stdout) or ()) == 1000


def test_the_output_of_a_program_is_cut() -> None:
    result = LiveHost().run([sys.executable, "-c", f"print('x' * {OUTPUT_LIMIT * 2})"], 20)
    assert len(result.stdout) == OUTPUT_LIMIT


def test_a_program_that_hangs_or_is_missing_is_a_refusal() -> None:
    assert refusal(LiveHost().run, [sys.executable, "-c", "import time; time.sleep(60)"], 0.2) == ("ETIMEDOUT")
    assert refusal(LiveHost().run, ["no-such-program-here"], 1) == "ENOENT"


def test_programs_of_this_machine_do_not_answer_for_another_tree(tmp_path: Path) -> None:
    assert refusal(LiveHost(str(tmp_path)).run, ["uname", "-m"], 1) == "ENOSYS"


def test_paths_are_followed_as_the_kernel_does(tmp_path: Path) -> None:
    """The same links, once real and once as data, lead to the same places."""
    links = {"a": "b/c", "b/up": "..", "b/self": ".", "b/far": "../b/c/../c", "d": "/b"}
    (tmp_path / "b/c").mkdir(parents=True)
    for place, target in links.items():
        (tmp_path / place).symlink_to(str(tmp_path) + target if target.startswith("/") else target)
    data = {f"/{place}": target for place, target in links.items()}
    for path in ("/a", "/b/up/a", "/b/self/self/far", "/d/c", "/d/up/b/far/..", "/a/../up/d", "/"):
        real = os.path.realpath(f"{tmp_path}{path}")
        assert follow(path, data.get) == (real[len(str(tmp_path)) :] or "/"), path


class TestMachine:
    @pytest.fixture
    def machine(self, tmp_path: Path) -> LiveMachine:
        return LiveMachine(str(tmp_path))

    def test_a_file_is_replaced_with_its_mode_and_parents(self, machine: LiveMachine, tmp_path: Path) -> None:
        machine.replace("/etc/a/b.conf", "one\n", 0o600)
        machine.replace("/etc/a/b.conf", "two\n", 0o640)
        path = tmp_path / "etc/a/b.conf"
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two\n", 0o640)
        assert [entry.name for entry in path.parent.iterdir()] == ["b.conf"]

    def test_a_directory_has_its_mode_from_the_start_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run that is killed once it is made leaves one that others than root can read."""
        make = Path.mkdir

        def killed(path: Path, mode: int) -> None:
            make(path, mode)
            raise KeyboardInterrupt

        former = os.umask(0o077)
        try:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(Path, "mkdir", killed)
                LiveMachine(str(tmp_path)).replace("/etc/rdma-fabric/file", "text", 0o644)
            assert os.umask(0o077) == 0o077
        finally:
            os.umask(former)
        assert (tmp_path / "etc").stat().st_mode & 0o777 == 0o755

    @pytest.mark.parametrize("mask", [0o000, 0o027, 0o077])
    def test_files_and_their_directories_have_the_same_modes_under_every_umask(
        self, machine: LiveMachine, tmp_path: Path, mask: int
    ) -> None:
        former = os.umask(mask)
        try:
            machine.replace("/etc/systemd/network/20-x.network.d/90.conf", "x", 0o644)
        finally:
            os.umask(former)
        made = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
        assert made.pop("etc/systemd/network/20-x.network.d/90.conf") == 0o644
        assert set(made.values()) == {0o755}, made

    def test_a_reader_sees_the_old_text_or_the_new(self, machine: LiveMachine, tmp_path: Path) -> None:
        machine.replace("/file", "old", 0o644)
        with (tmp_path / "file").open() as reader:
            machine.replace("/file", "new", 0o644)
            assert reader.read() == "old"

    @pytest.mark.parametrize("call", ["rename", "fsync", "fchmod", "write"])
    def test_a_refused_replacement_leaves_the_old_text_and_nothing_else(
        self, machine: LiveMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        machine.replace("/file", "old", 0o644)

        def full(*_arguments: object, **_keywords: object) -> None:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(Path if call == "rename" else os, call, full)
        assert refusal(machine.replace, "/file", "new", 0o644) == "ENOSPC"
        assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file", "old")]

    def test_what_a_killed_run_has_left_is_no_obstacle(self, machine: LiveMachine, tmp_path: Path) -> None:
        (tmp_path / temporary_name("/file")[1:]).write_text("half")
        machine.replace("/file", "new", 0o644)
        assert [entry.name for entry in tmp_path.iterdir()] == ["file"]

    def test_a_link_in_the_place_of_the_prepared_file_is_not_written_through(
        self, machine: LiveMachine, tmp_path: Path
    ) -> None:
        (tmp_path / "precious").write_text("precious")
        (tmp_path / temporary_name("/file")[1:]).symlink_to("precious")
        machine.replace("/file", "new", 0o644)
        assert ((tmp_path / "precious").read_text(), (tmp_path / "file").read_text()) == ("precious", "new")

    def test_removing_takes_the_file_and_the_directory_that_was_made_for_it(
        self, machine: LiveMachine, tmp_path: Path
    ) -> None:
        for path in ("/etc/x.d/rdma-fabric.conf", "/etc/unit.service.d/rdma-fabric.conf", "/lib/rdma-fabric/a"):
            machine.replace(path, "x", 0o644)
            machine.remove(path)
            machine.remove(path)
        assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["etc", "etc/x.d", "lib"]

    def test_a_directory_with_something_of_others_stays(self, machine: LiveMachine, tmp_path: Path) -> None:
        machine.replace("/etc/unit.service.d/rdma-fabric.conf", "x", 0o644)
        machine.replace("/etc/unit.service.d/other.conf", "x", 0o644)
        machine.remove("/etc/unit.service.d/rdma-fabric.conf")
        assert (tmp_path / "etc/unit.service.d/other.conf").exists()
        assert refusal(machine.remove, "/etc/unit.service.d") in {"EISDIR", "EPERM"}

    def test_an_attribute_is_written_in_one_call_and_never_made(self, machine: LiveMachine, tmp_path: Path) -> None:
        (tmp_path / "sriov_numvfs").write_text("16\n")
        machine.set_attribute("/sriov_numvfs", "4", 5)
        assert (tmp_path / "sriov_numvfs").read_text() == "4" + "6\n"  # nothing is cut off, as in sysfs
        assert refusal(machine.set_attribute, "/none", "4", 5) == "ENOENT"
        assert refusal(machine.set_attribute, "/", "4", 5) == "EISDIR"
        assert refusal(LiveMachine().set_attribute, "/a\0b", "4", 5) == "EINVAL"

    def test_bytes_are_written_at_their_place_and_nothing_else(self, machine: LiveMachine, tmp_path: Path) -> None:
        (tmp_path / "config").write_bytes(bytes(range(8)))
        machine.write_at("/config", 4, b"\xff\xfe")
        assert (tmp_path / "config").read_bytes() == bytes((0, 1, 2, 3, 0xFF, 0xFE, 6, 7))
        assert refusal(machine.write_at, "/none", 0, b"x") == "ENOENT"
        assert refusal(machine.write_at, "/", 0, b"x") == "EISDIR"

    def test_the_kernel_s_refusal_of_a_value_is_told(self) -> None:
        assert refusal(LiveMachine().set_attribute, "/proc/self/oom_score_adj", "5000", 5) == "EINVAL"

    def test_the_wait_for_an_attribute_ends(self, machine: LiveMachine, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "stuck")
        started = time.monotonic()
        assert refusal(machine.set_attribute, "/stuck", "4", 0.2) == "ETIMEDOUT"
        assert time.monotonic() - started < 60

    def test_a_program_that_does_not_end_is_killed_with_its_children(self, tmp_path: Path) -> None:
        child = tmp_path / "child"
        child.touch()
        for seconds in (0.5, 10):  # that a shell needs to start on a busy machine
            script = f"sleep 600 & echo $! > {child}; wait"
            assert refusal(LiveMachine().run, ["sh", "-c", script], seconds) == "ETIMEDOUT"
            if child.read_text():
                break
        assert is_gone(int(child.read_text()))
