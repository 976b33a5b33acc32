# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A boot unit that would close a cycle of units is not enabled. What is printed is that of systemd 257 (Debian 13)."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.apply import VERIFY
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    ENABLED_BY,
    PROGRAM_DIRECTORY,
    UNIT,
    UNIT_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import PREFIX, program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

WISH = {"interfaces": [{"pci": "0000:37:00.0", "vfs": 2}]}
MORE = {"interfaces": [{"pci": "0000:37:00.0", "vfs": 2, "mtu": 9000}]}
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CYCLE = f"""\
{UNIT}: Found ordering cycle on openibd.service/start
{UNIT}: Found dependency on wickedd.service/start
{UNIT}: Found dependency on network-pre.target/start
{UNIT}: Found dependency on {UNIT}/start
{UNIT}: Job openibd.service/start deleted to break ordering cycle starting with {UNIT}/start
"""
OF_OTHERS = CYCLE.replace(UNIT, "other.service")
OLD_PROGRAM = f"{PROGRAM_DIRECTORY}/host-0123456789abcdef.pyz"


class Host(Kernel):
    """A host that keeps with which mode each file was written last, and what its systemd-analyze says."""

    def __init__(self, text: str | None) -> None:
        document = FLEET["egx-01"]().document()
        document.setdefault("dirs", []).append("/etc/systemd/system")
        super().__init__(document)
        self.modes: dict[str, int] = {}
        self.says(text)

    def says(self, text: str | None) -> None:
        """Let systemd-analyze print this; None where the host has none."""
        self._commands.pop(" ".join(VERIFY), None)
        if text is not None:
            self._commands[" ".join(VERIFY)] = {"rc": 1, "stdout": "", "stderr": text}

    def replace(self, path: str, text: str, mode: int) -> None:
        super().replace(path, text, mode)
        self.modes[path] = mode

    def of_the_unit(self) -> dict[str, tuple[bytes, int]]:
        """Bytes and mode of every file of the boot unit."""
        places = ("/etc/systemd/system/", "/etc/rdma-fabric/", f"{PROGRAM_DIRECTORY}/{PREFIX}")
        return {
            path: (data, self.modes.get(path, 0)) for path, data in self.tree.files.items() if path.startswith(places)
        }


def applied(text: str | None) -> tuple[Host, str]:
    """A host after a run, and why that failed; ``text`` is what its systemd-analyze says, None where it has none."""
    kernel = Host(text)
    return kernel, why_not(kernel, WISH)


def why_not(kernel: Kernel, wish: Any) -> str:
    outcome = apply(kernel, check_spec(wish), APPLY, None, kernel)
    return str(outcome["msg"]) if outcome.get("failed") else ""


def test_a_cycle_is_told_with_its_units_and_the_unit_goes_again() -> None:
    kernel, why = applied(CYCLE)
    assert f"{UNIT}, openibd.service, wickedd.service, network-pre.target would form an ordering cycle at boot" in why
    assert not kernel.exists(ENABLED_BY)
    assert not kernel.exists(UNIT_FILE)


def test_a_cycle_of_others_and_a_host_that_is_not_judged_keep_no_unit_away() -> None:
    for text in (OF_OTHERS, f"other.service: Command /bin/x is not executable: No such file\n{OF_OTHERS}", "", None):
        kernel, why = applied(text)
        assert (kernel.exists(ENABLED_BY), why) == (True, "")


def of_another_release(kernel: Host) -> None:
    """Let the unit and its program be those of another release, whose unit was ordered otherwise."""
    text = kernel.read(UNIT_FILE).replace(program_path(), OLD_PROGRAM).replace(" openibd.service", "")
    kernel.tree.discard(program_path())
    for path, former in ((UNIT_FILE, text), (OLD_PROGRAM, "old")):
        kernel.tree.add_file(path, former)


@pytest.mark.parametrize("former", [None, of_another_release])
def test_a_unit_whose_new_text_closes_a_cycle_is_as_before(former: Callable[[Host], None] | None) -> None:
    kernel, _why = applied("")
    if former is not None:
        former(kernel)
    before = kernel.of_the_unit()
    kernel.says(CYCLE)
    assert "would form an ordering cycle at boot" in why_not(kernel, MORE)
    assert kernel.of_the_unit() == before
    assert kernel.exists(ENABLED_BY)
    assert [argv for kind, argv in kernel.mutations if kind == "run"][-1] == "systemctl daemon-reload"
    kernel.says("")
    assert why_not(kernel, MORE) == ""
    assert kernel.of_the_unit() != before


def test_a_unit_never_gets_a_text_back_whose_program_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, _why = applied("")
    of_another_release(kernel)
    remove = kernel.remove

    def disabled_meanwhile(path: str) -> None:
        remove(path)
        kernel.tree.discard(ENABLED_BY)

    monkeypatch.setattr(kernel, "remove", disabled_meanwhile)
    assert "is not enabled" in why_not(kernel, MORE)
    named = next(line for line in kernel.read(UNIT_FILE).splitlines() if line.startswith("ExecStart="))
    assert program_path() in named and kernel.exists(program_path())
