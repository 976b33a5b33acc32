# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Days in a row whose steps meddle with each other: modes, names, links and killed runs."""

from __future__ import annotations

import contextlib
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.qos_paths import RDMA_CM, tos
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host import full_hosts, igb
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import queues
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.qos import tos_memory
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import DEVICE, PORT
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
CONSENTS = {"consents": {"vf_reset": True}}


def day(kernel: Kernel, entry: dict[str, Any]) -> Mapping[str, Any]:
    """Ask this of the port, or with nothing remove all, and let the host come to rest."""
    asked = {"interfaces": [entry]} if entry else {}
    outcome = apply(kernel, check_spec({**asked, **CONSENTS}), APPLY if entry else REMOVE, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return outcome


def test_what_a_mode_of_ours_gave_a_port_is_no_original_value() -> None:
    kernel = full_hosts.HOSTS["mlx5"].host()
    kernel.run(("ethtool", "-L", PORT, "combined", "32"), 1.0)
    before = queues.numbers(kernel, PORT)
    day(kernel, {"pci": PF, "eswitch_mode": "switchdev"})
    assert queues.numbers(kernel, PORT)["combined"] == 1
    day(kernel, {"pci": PF, "eswitch_mode": "switchdev", "queues": {"channels": 8}})
    day(kernel, {"pci": PF, "eswitch_mode": "legacy", "queues": {"rx_ring": 2048}})
    day(kernel, {})
    assert queues.numbers(kernel, PORT) == before


def test_what_a_mode_makes_a_port_forget_is_told_before_it_is_set_again() -> None:
    kernel = full_hosts.HOSTS["mlx5"].host()
    entry = {"pci": PF, "queues": {"channels": 16}, "qos": {"trust": "dscp"}}
    assert "set again" not in str(day(kernel, entry))
    wish = check_spec({"interfaces": [{**entry, "eswitch_mode": "switchdev"}], **CONSENTS})
    notices = preview(kernel, wish, CHECK, None)["plan"]["notices"]
    told = [each.partition("away: ")[2] for each in notices if "set again after the change of its e-switch" in each]
    assert told == ["channels to 16", "trust to dscp"]
    outcome = apply(kernel, wish, APPLY, None, kernel)
    assert (outcome["executed"][-1]["id"], queues.numbers(kernel, PORT)["combined"]) == (f"queues:{PF}", 16)


def test_a_link_that_goes_down_takes_the_routes_that_go_with_it() -> None:
    kernel = full_hosts.HOSTS["igb"].host()
    day(kernel, {"pci": igb.PF, "routes": [{"to": "default", "via": "10.1.0.1", "table": 101}]})
    outcome = day(kernel, {"pci": igb.PF, "state": "down"})
    assert [step["id"].split(":")[0] for step in outcome["executed"]] == ["link", "routing", "boot"]
    assert not day(kernel, {"pci": igb.PF, "state": "down"})["changed"]


def test_a_rule_that_is_lost_is_written_again_and_takes_nothing_away() -> None:
    kernel = full_hosts.HOSTS["mlx5"].host()
    wish = {"pci": PF, "rdma_name": "mlx5_rail0", "qos": {"tos": 106}}
    day(kernel, wish)
    for path in [path for path in kernel.tree.files if path.startswith("/etc/udev/rules.d/60-rdma-fabric")]:
        kernel.tree.discard(path)
    assert [step["id"] for step in day(kernel, wish)["executed"]] == [f"naming:{PF}:rdma"]
    assert kernel.read(tos("mlx5_rail0")) == "106\n"
    assert not day(kernel, wish)["changed"]


def test_directories_of_former_names_go_with_the_setting() -> None:
    kernel = full_hosts.HOSTS["mlx5"].host()
    day(kernel, {"pci": PF, "qos": {"tos": 106}})
    for name in ("mlx5_rail0", "mlx5_rail1"):
        day(kernel, {"pci": PF, "rdma_name": name})
    day(kernel, {"pci": PF, "rdma_name": "mlx5_rail2", "qos": {"tos": 104}})
    assert kernel.list(RDMA_CM) == ["mlx5_rail2"]
    day(kernel, {})
    assert kernel.list(RDMA_CM) == []


def test_a_removal_that_is_killed_once_the_device_has_its_name_back_still_resets_its_type_of_service() -> None:
    kernel = full_hosts.HOSTS["mlx5"].host()
    day(kernel, {"pci": PF, "rdma_name": "mlx5_rail0", "qos": {"tos": 106}})
    calm = kernel.twin()
    apply(calm, check_spec(CONSENTS), REMOVE, None, calm)
    for number in range(len(calm.mutations)):
        killed = kernel.twin()
        killed.disturb(number, KILL)
        with contextlib.suppress(Killed):
            apply(killed, check_spec(CONSENTS), REMOVE, None, killed)
        killed.revive()
        day(killed, {})
        assert (killed.list(RDMA_CM), killed.read(tos_memory(DEVICE))) == ([], "0\n"), number


def test_a_killed_run_whose_wish_is_dropped_leaves_no_file_behind() -> None:
    wish = check_spec(
        {
            "limits": {"memlock": "unlimited"},
            "sysctls": {"net.core.rmem_max": "33554432"},
            "pcie": {"max_read_request": 4096},
        }
    )
    kernel = full_hosts.HOSTS["mlx5"].host()
    calm = kernel.twin()
    apply(calm, wish, APPLY, None, calm)
    none_of(
        f"killed at {mutation.kind} {mutation.what}: {path} stays"
        for number, mutation in enumerate(calm.mutations)
        for path in left_after_a_kill(kernel.twin(), wish, number)
    )


def left_after_a_kill(kernel: Kernel, wish: Any, number: int) -> list[str]:
    """Return our files after a killed run, a run that asks for nothing, and a removal."""
    kernel.disturb(number, KILL)
    with contextlib.suppress(Killed):
        apply(kernel, wish, APPLY, None, kernel)
    for run in (APPLY, REMOVE):
        kernel.revive()
        apply(kernel, check_spec({}), run, None, kernel)
    return [path for path in kernel.tree.files if "rdma-fabric" in path and not path.startswith("/run")]
