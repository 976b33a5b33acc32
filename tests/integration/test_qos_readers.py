# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What RoCE QoS writes and runs, read by the programs of real hosts: dcb, udev, systemd.

No port here has DCB operations, so dcb gets as far as the kernel's refusal. Where it asks the kernel before it reads
its arguments (pfc, ets, app replace), these are not judged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.qos.settings import RULES_FILE, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.qos import dcb_command
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_bytes, program_path
from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.integration.test_udev_reads_names import complaints, read_by_udev
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import LOSSLESS, PORT, REMOVE, applied, host
from ansible_collections.rdma.fabric.tests.unit._host.qos.test_qos_boot import guest, with_tos

UNSUPPORTED = "Operation not supported"


def commands() -> list[str]:
    """Every command for dcb of a port that is set up and of one that gets its first values back, on this machine."""
    kernel = host(app={"10": 1})
    lines = []
    for settings, run in ((LOSSLESS, None), (None, REMOVE)):
        outcome = applied(kernel, settings, run) if run else applied(kernel, settings)
        assert not outcome.get("failed"), outcome["msg"]
        lines += [what for kind, what in kernel.mutations if kind == "run" and what.startswith("dcb ")]
        kernel.revive()
    lines.append(f"dcb app flush dev {PORT} dscp-prio")
    lines += [" ".join(dcb_command(what, PORT)) for what in ("app", "dcbx", "ets", "pfc")]
    return [line.replace(PORT, "lo") for line in dict.fromkeys(lines)]


def test_dcb_understands_every_command(readers: Readers) -> None:
    lines = commands()
    assert {line.split()[1] for line in lines} >= {"app", "dcbx", "ets", "pfc", "--json"}
    for line in lines:
        done = readers.run([*apart("net"), readers.program("usr/sbin/dcb", "sbin/dcb"), *line.split()[1:]])
        assert (done.returncode, done.stderr.strip().rpartition(": ")[2]) == (1, UNSUPPORTED), (line, done.stderr)


@pytest.mark.parametrize("line", ["-json dcbx show dev lo", "dcbx set dev lo hosts", "app add dev lo dscp-prio 64:0"])
def test_a_command_that_dcb_does_not_understand_is_noticed(readers: Readers, line: str) -> None:
    done = readers.run([*apart("net"), readers.program("usr/sbin/dcb", "sbin/dcb"), *line.split()])
    assert done.stderr.strip().rpartition(": ")[2] != UNSUPPORTED


def test_udev_reads_the_rule_for_soft_devices(readers: Readers, tmp_path: Path) -> None:
    kernel = guest()
    with_tos(kernel)
    said = read_by_udev(readers, tmp_path, {RULES_FILE: kernel.read(RULES_FILE)})
    assert f"{RULES_FILE}" in said
    assert complaints(said) == []


def test_systemd_takes_the_unit_for_soft_devices(readers: Readers, tmp_path: Path) -> None:
    kernel = guest()
    with_tos(kernel)
    program = tmp_path / "host.pyz"
    program.write_bytes(program_bytes())
    unit = tmp_path / Path(UNIT_FILE).name
    unit.write_text(kernel.read(UNIT_FILE).replace(program_path(), str(program)))
    done = readers.run(
        [readers.program("usr/bin/systemd-analyze"), "verify", "--man=no", "--recursive-errors=one", unit]
    )
    assert (done.returncode, done.stderr) == (0, "")
