# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A boot unit that would close a cycle of units is not enabled. What is printed is that of systemd 257 (Debian 13)."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.order import VERIFY
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.paths import ENABLED_BY, UNIT, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

WISH = {"interfaces": [{"pci": "0000:37:00.0", "vfs": 2}]}
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CYCLE = f"""\
{UNIT}: Found ordering cycle on openibd.service/start
{UNIT}: Found dependency on wickedd.service/start
{UNIT}: Found dependency on network-pre.target/start
{UNIT}: Found dependency on {UNIT}/start
{UNIT}: Job openibd.service/start deleted to break ordering cycle starting with {UNIT}/start
"""
OF_OTHERS = CYCLE.replace(UNIT, "other.service")


def applied(text: str | None) -> tuple[Kernel, str]:
    """A host after a run, and why that failed; ``text`` is what its systemd-analyze says, None where it has none."""
    document = FLEET["egx-01"]().document()
    document.setdefault("dirs", []).append("/etc/systemd/system")
    if text is not None:
        document["commands"][" ".join(VERIFY)] = {"rc": 1, "stdout": "", "stderr": text}
    kernel = Kernel(document)
    outcome = apply(kernel, check_spec(WISH), APPLY, None, kernel)
    return kernel, outcome["msg"] if outcome.get("failed") else ""


def test_a_cycle_is_told_with_its_units_and_the_unit_goes_again() -> None:
    kernel, why = applied(CYCLE)
    assert f"{UNIT}, openibd.service, wickedd.service, network-pre.target would be in an ordering cycle at boot" in why
    assert not kernel.exists(ENABLED_BY)
    assert not kernel.exists(UNIT_FILE)


def test_a_cycle_of_others_and_a_host_that_is_not_judged_keep_no_unit_away() -> None:
    for text in (OF_OTHERS, f"other.service: Command /bin/x is not executable: No such file\n{OF_OTHERS}", "", None):
        kernel, why = applied(text)
        assert (kernel.exists(ENABLED_BY), why) == (True, "")
