# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of representors in the simulated kernel: got when made, got later, exchanged, disturbed, given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persisted import boot_entries
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.apply import BATCH
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.representors import wanted_name
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import INFINIBAND, KERNEL, PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.naming import give_name
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import LINK_SETTINGS
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import ALLOWED, CONNECTX7, booted, the_step, wish

CONCERNS = ("naming", *mlx5.CONCERNS)
APPLY = replace(mlx5.APPLY, concerns=CONCERNS)
REMOVE = replace(mlx5.REMOVE, concerns=CONCERNS)
RULE = "/etc/udev/rules.d/71-rdma-fabric-0000-18-00.0.rules"
NET = "/sys/class/net"
PORT = "enp24s0f0np0"
SWITCHDEV: dict[str, Any] = {"vfs": 2, "eswitch_mode": "switchdev"}
RENAME = "naming:representors"


def done(kernel: Kernel, desired: HostSpec, run: Any = APPLY) -> Mapping[str, Any]:
    return mlx5.done(kernel, desired, run)


def applied(kernel: Kernel, desired: HostSpec) -> Mapping[str, Any]:
    return mlx5.applied(kernel, desired, APPLY)


def representors(kernel: Kernel) -> dict[str, str]:
    """The representors of the port: names by what each stands for."""
    names = kernel.list(f"/sys/bus/pci/devices/{PF}/net")
    told = {kernel.read(f"{NET}/{name}/phys_port_name").strip(): name for name in names}
    return {port_name: name for port_name, name in told.items() if port_name.startswith("pf")}


def switched(kernel: Kernel | None = None, **entry: Any) -> Kernel:
    """A host with two functions behind an e-switch in switchdev mode."""
    kernel = kernel or booted()
    done(kernel, wish(**SWITCHDEV, **entry))
    return kernel


def swap(kernel: Kernel, one: str, other: str) -> None:
    for name, wanted in ((one, "away"), (other, one), ("away", other)):
        give_name(kernel, name, wanted)


def unseen_interface(kernel: Kernel, name: str) -> None:
    """Take a name that is not in the facts, as an alternative name is that only netlink tells."""
    kernel.tree.add_file(f"/sys/devices/virtual/net/{name}/flags", "0x1003\n")
    kernel.tree.add_link(f"{NET}/{name}", f"../../devices/virtual/net/{name}")


class TestMade:
    def test_they_have_their_names_as_soon_as_the_mode_is_set(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        assert representors(kernel) == {"pf0vf0": "rail0_0", "pf0vf1": "rail0_1"}

    def test_a_second_run_does_nothing(self) -> None:
        kernel = switched(representor_prefix="rail0_", name="rail0")
        outcome = applied(kernel, wish(**SWITCHDEV, representor_prefix="rail0_", name="rail0"))
        assert (outcome["plan"]["steps"], kernel.mutations) == ([], [])

    def test_more_functions_have_more_of_them(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        done(kernel, wish(ALLOWED, vfs=3, eswitch_mode="switchdev", representor_prefix="rail0_"))
        assert representors(kernel) == {f"pf0vf{number}": f"rail0_{number}" for number in range(3)}

    def test_the_rule_tells_them_by_place_switch_and_port_name(self) -> None:
        functions, subfunctions = switched(representor_prefix="rail0_").read(RULE).splitlines()[1:]
        for line in (functions, subfunctions):
            assert line.startswith(f'SUBSYSTEM=="net", ACTION=="add", DEVPATH=="*/{PF}/net/*"')
            assert 'ATTR{phys_switch_id}=="?*"' in line
            assert 'PROGRAM="/usr/bin/cut -d f -f 3 $sys$devpath/phys_port_name"' in line
        assert 'ATTR{phys_port_name}=="pf[0-9]vf[0-9]|pf[0-9]vf[0-9][0-9]|pf[0-9]vf[0-9][0-9][0-9]"' in functions
        assert functions.endswith('NAME="rail0_%c"') and subfunctions.endswith('NAME="rail0_sf%c"')

    def test_the_rule_is_removed_when_nobody_asks_for_names_any_more(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        done(kernel, wish(**SWITCHDEV))
        assert not kernel.exists(RULE)

    def test_the_rule_of_a_card_that_is_away_stays(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        by_address = igb.wish({"mac": kernel.read(f"{NET}/{PORT}/address").strip(), "representor_prefix": "rail0_"})
        kernel.tree.discard(f"/sys/bus/pci/devices/{PF}")
        kernel.tree.discard(f"{NET}/{PORT}")
        applied(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"))
        assert kernel.exists(RULE)
        applied(kernel, by_address)
        assert kernel.exists(RULE)

    def test_no_initramfs_is_made_for_them(self) -> None:
        tree = host_with(CONNECTX7)
        tree.files.update({"/usr/sbin/update-initramfs": "", f"/boot/initrd.img-{KERNEL}": ""})
        kernel = switched(Kernel(tree.document()), representor_prefix="rail0_")
        assert kernel.read(f"/boot/initrd.img-{KERNEL}") == ""

    def test_the_boot_unit_has_nothing_to_do_for_them(self) -> None:
        kernel = booted()
        desired = wish(**SWITCHDEV, representor_prefix="rail0_")
        (found,) = boot_entries(plan_with_context(desired, gather(kernel, desired=desired))[1])
        assert found == {"pci": PF, **SWITCHDEV}


class TestPortInSwitchdevMode:
    """The port's own name, where representors share its place."""

    def test_it_gets_a_rule_before_the_mode_is_set(self) -> None:
        kernel = switched(name="rail0")
        assert not kernel.exists("/etc/systemd/network/05-rdma-fabric-0000-18-00.0.link")
        assert 'NAME="rail0"' in kernel.read("/etc/udev/rules.d/70-rdma-fabric-0000-18-00.0.rules")

    def test_no_representor_takes_it(self) -> None:
        kernel = switched(name="rail0")
        assert sorted(representors(kernel).values()) == ["rail0r0", "rail0r1"]

    def test_back_in_legacy_mode_it_is_a_link_file_again(self) -> None:
        kernel = switched(name="rail0")
        done(kernel, wish(ALLOWED, vfs=2, eswitch_mode="legacy", name="rail0"))
        assert kernel.exists("/etc/systemd/network/05-rdma-fabric-0000-18-00.0.link")
        assert not kernel.exists("/etc/udev/rules.d/70-rdma-fabric-0000-18-00.0.rules")

    def test_a_representor_that_took_it_gives_it_back(self) -> None:
        kernel = switched()
        give_name(kernel, representors(kernel)["pf0vf1"], "rail0")
        done(kernel, wish(**SWITCHDEV, representor_prefix="rail0_", name="rail0"))
        assert representors(kernel) == {"pf0vf0": "rail0_0", "pf0vf1": "rail0_1"}
        assert kernel.read(f"{NET}/rail0/phys_port_name").strip() == "p0"


class TestThere:
    def test_those_there_are_renamed_in_one_step_and_one_process(self) -> None:
        kernel = switched()
        outcome = applied(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"))
        assert (
            "rename 2 representors (enp24s0fr0 to rail0_0, enp24s0fr1 to rail0_1) [now; " in outcome["diff"]["prepared"]
        )
        assert [line for line in igb.what_changed(kernel) if line.startswith("run ip")] == [
            "run ip -batch /etc/systemd/network/rdma-fabric-rename"
        ]
        assert representors(kernel) == {"pf0vf0": "rail0_0", "pf0vf1": "rail0_1"}
        assert not kernel.exists("/etc/systemd/network/rdma-fabric-rename")

    def test_swapped_names_settle(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        swap(kernel, "rail0_0", "rail0_1")
        outcome = done(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"))
        assert [entry["id"] for entry in outcome["executed"]] == [RENAME]
        assert representors(kernel) == {"pf0vf0": "rail0_0", "pf0vf1": "rail0_1"}

    def test_another_prefix_renames_them(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        done(kernel, wish(**SWITCHDEV, representor_prefix="ovs0_"))
        assert representors(kernel) == {"pf0vf0": "ovs0_0", "pf0vf1": "ovs0_1"}
        assert 'NAME="ovs0_%c"' in kernel.read(RULE)

    def test_one_that_is_up_goes_down_on_an_old_kernel_and_comes_up_again(self) -> None:
        kernel = switched(Kernel(host_with(CONNECTX7, kernel="6.1.0-28-amd64").document()))
        kernel.tree.add_file(f"{NET}/enp24s0fr0/flags", "0x1003\n")
        outcome = done(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"))
        assert "enp24s0fr0: kernels before 6.2" in outcome["diff"]["prepared"]
        assert int(kernel.read(f"{NET}/rail0_0/flags"), 16) & 1
        assert not int(kernel.read(f"{NET}/rail0_1/flags"), 16) & 1

    def test_a_name_that_something_else_keeps_is_told_and_the_others_are_given(self) -> None:
        kernel = switched()
        give_name(kernel, "eno1", "rail0_1")
        outcome = done(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"))
        assert representors(kernel) == {"pf0vf0": "rail0_0", "pf0vf1": "enp24s0fr1"}
        (notice,) = [said for said in outcome["plan"]["notices"] if "representor" in said]
        assert "enp24s0fr1" in notice and "rail0_1 is the name of 0000:0b:00.0 now" in notice

    def test_one_that_carries_the_uplink_keeps_its_name(self) -> None:
        kernel = switched()
        outcome = done(
            kernel, wish({"rdma_fabric_protected_interfaces": ["enp24s0fr0"]}, **SWITCHDEV, representor_prefix="rail0_")
        )
        assert representors(kernel) == {"pf0vf0": "enp24s0fr0", "pf0vf1": "rail0_1"}
        assert any("it carries the uplink" in said for said in outcome["plan"]["notices"])

    def test_what_a_failed_rename_has_done_is_taken_back(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        swap(kernel, "rail0_0", "rail0_1")
        before = representors(kernel)
        unseen_interface(kernel, "ovs0_1")
        outcome = applied(kernel, wish(**SWITCHDEV, representor_prefix="ovs0_"))
        assert outcome["failed"] and "has this name" in outcome["msg"]
        assert representors(kernel) == before
        assert not kernel.exists(BATCH), "nothing of the rename is left in /etc"

    def test_an_exchange_that_fails_half_way_is_taken_back(self) -> None:
        kernel = booted()
        desired = wish(vfs=3, eswitch_mode="switchdev", representor_prefix="rail0_")
        done(kernel, desired)
        swap(kernel, "rail0_0", "rail0_1")
        give_name(kernel, "rail0_2", "other")
        before = representors(kernel)
        unseen_interface(kernel, "rail0_2")
        outcome = applied(kernel, desired)
        assert outcome["failed"] and "has this name" in outcome["msg"]
        assert representors(kernel) == before

    def test_a_name_that_ends_at_another_one_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = switched()
        real = LINK_SETTINGS["name"]

        def interfering(kernel: Kernel, name: str, words: Any) -> Any:
            result = real(kernel, name, words)
            if kernel.exists(f"{NET}/rail0_1"):
                swap(kernel, "rail0_0", "rail0_1")
            return result

        monkeypatch.setitem(LINK_SETTINGS, "name", interfering)
        outcome = applied(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"))
        assert "rail0_0 is the representor pf0vf1, not pf0vf0" in outcome["msg"]

    def test_representors_that_nothing_ties_to_their_port_are_told(self) -> None:
        kernel = switched()
        for name in representors(kernel).values():
            kernel.tree.discard(f"{NET}/{name}")
            kernel.tree.discard(f"/sys/bus/pci/devices/{PF}/net/{name}")
        outcome = mlx5.applied(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"), replace(APPLY, check=True))
        assert any("kernels before 5.8" in said for said in outcome["plan"]["notices"])

    def test_functions_of_legacy_mode_are_not_told_to_lack_them(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2))
        place = f"{kernel.realpath(f'{NET}/{PORT}')}/phys_switch_id"
        kernel.tree.errors.pop(place, None)
        kernel.tree.add_file(place, "e41d2d0003a1b2c3\n")
        outcome = mlx5.applied(kernel, wish(**SWITCHDEV, representor_prefix="rail0_"), replace(APPLY, check=True))
        assert not any("kernels before 5.8" in said for said in outcome["plan"]["notices"])


class TestTwoPorts:
    RAILS = ("0000:18:00.0", "0000:40:00.0")

    def host(self) -> Kernel:
        """Start a host with eight rails; its recorded answers of devlink would not follow its mode."""
        document = FLEET["roce-h100-01"]().document()
        document["commands"] = {line: said for line, said in document["commands"].items() if "devlink" not in line}
        return Kernel(document)

    def both(self, **prefixes: str) -> HostSpec:
        given = {address: {"representor_prefix": prefix} for address, prefix in zip(self.RAILS, prefixes.values())}
        entries = [{"pci": address, "vfs": 1, "eswitch_mode": "switchdev"} for address in self.RAILS]
        return igb.wish(*({**entry, **given.get(str(entry["pci"]), {})} for entry in entries))

    def names(self, kernel: Kernel) -> list[str]:
        found = [kernel.list(f"/sys/bus/pci/devices/{address}/net") for address in self.RAILS]
        return [name for names in found for name in names if kernel.read(f"{NET}/{name}/phys_port_name") == "pf0vf0\n"]

    def test_each_goes_by_its_own_prefix(self) -> None:
        kernel = self.host()
        done(kernel, self.both())
        done(kernel, self.both(first="rail0_"))
        assert self.names(kernel) == ["rail0_0", "enp64s0nr0"]
        done(kernel, self.both(first="rail0_", second="rail1_"))
        assert self.names(kernel) == ["rail0_0", "rail1_0"]

    def test_they_exchange_their_prefixes(self) -> None:
        kernel = self.host()
        done(kernel, self.both(first="rail0_", second="rail1_"))
        outcome = done(kernel, self.both(first="rail1_", second="rail0_"))
        assert self.names(kernel) == ["rail1_0", "rail0_0"]
        assert "some exchange names" in outcome["diff"]["prepared"]


class TestRemoval:
    def test_those_there_get_their_former_names_and_the_rule_goes(self) -> None:
        kernel = switched()
        before = representors(kernel)
        kernel.tree.discard("/var/lib/rdma-fabric/baseline.json")
        done(kernel, wish(representor_prefix="rail0_", name="rail0"))
        outcome = done(kernel, wish(), REMOVE)
        assert f"naming:{RULE}" in [entry["id"] for entry in outcome["executed"]]
        assert (representors(kernel), kernel.exists(RULE)) == (before, False)
        assert not kernel.exists("/var/lib/rdma-fabric/baseline.json")

    def test_those_that_came_with_our_functions_go_with_them(self) -> None:
        kernel = switched(representor_prefix="rail0_")
        done(kernel, wish(ALLOWED), REMOVE)
        assert (representors(kernel), kernel.exists(RULE)) == ({}, False)


class TestRefusals:
    def refusal(self, kernel: Kernel, desired: HostSpec, address: str = PF) -> str:
        step = the_step(applied(kernel, desired), f"naming:{address}:representors")
        assert step["status"] == "refused"
        assert kernel.mutations == []
        return str(step["detail"])

    def test_an_infiniband_port_has_none(self) -> None:
        assert "InfiniBand" in self.refusal(booted(link_layer=INFINIBAND), wish(representor_prefix="rail0_"))

    def test_a_virtual_function_has_none(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=1))
        (function,) = mlx5.functions(kernel)
        desired = igb.wish({"pci": function, "representor_prefix": "rail0_"})
        assert "PF" in self.refusal(kernel, desired, function)


class TestInput:
    def problems(self, *entries: dict[str, Any]) -> list[Violation]:
        return parse_host_variables("gpu01", {"rdma_fabric_interfaces": list(entries)})[1]

    @pytest.mark.parametrize(
        ("prefix", "says"),
        [
            ("rail0", "ends with a digit"),
            ("rail0_compute_", "longer than 10"),
            ("eth_", "kernel and udev"),
            ("rail 0_", ""),
            ("", ""),
            ('r"_', ""),
            (7, "the number 7"),
            (["rail0_"], "a list"),
        ],
    )
    def test_a_prefix_that_can_not_begin_a_name_is_refused(self, prefix: Any, says: str) -> None:
        (found,) = self.problems({"pci": PF, "representor_prefix": prefix})
        assert (found.path, says in found.sentence()) == ("[0].representor_prefix", True), found.sentence()

    def test_the_longest_one_leaves_room_for_every_number(self) -> None:
        assert self.problems({"pci": PF, "representor_prefix": "p" * 10}) == []
        assert len(wanted_name("p" * 10, "pf0sf999") or "") == 15

    @pytest.mark.parametrize("other", ["rail0_", "rail0_sf"])
    def test_two_ports_can_not_give_the_same_names(self, other: str) -> None:
        entries = [{"pci": PF, "representor_prefix": "rail0_"}, {"pci": "0000:40:00.0", "representor_prefix": other}]
        for given in (entries, entries[::-1]):
            assert [found.path for found in self.problems(*given)] == ["[1].representor_prefix"]

    @pytest.mark.parametrize(("name", "count"), [("rail0_3", 1), ("rail0_sf3", 1), ("rail0_x", 0), ("rail0_1234", 0)])
    def test_an_interface_can_not_have_the_name_of_a_representor(self, name: str, count: int) -> None:
        found = self.problems({"pci": PF, "representor_prefix": "rail0_"}, {"pci": "0000:40:00.0", "name": name})
        assert [violation.path for violation in found] == ["[1].name"] * count

    def test_in_legacy_mode_there_are_none(self) -> None:
        (found,) = self.problems({"pci": PF, "representor_prefix": "rail0_", "eswitch_mode": "legacy"})
        assert "no representors" in found.sentence()

    @pytest.mark.parametrize(
        ("port_name", "name"),
        [
            ("pf0vf0", "r_0"),
            ("pf1vf126", "r_126"),
            ("pf0sf88", "r_sf88"),
            ("pf0sf1000", None),
            ("pf0hpf", None),
            ("c1pf0vf0", None),
            ("p0", None),
        ],
    )
    def test_functions_of_this_host_are_numbered_and_others_keep_their_names(
        self, port_name: str, name: str | None
    ) -> None:
        assert wanted_name("r_", port_name) == name


@pytest.mark.slow
@pytest.mark.parametrize("case", ["made", "there", "swapped"])
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str) -> None:
    def start() -> Kernel:
        if case == "made":
            return booted()
        kernel = switched(representor_prefix="rail0_" if case == "swapped" else None)
        if case == "swapped":
            swap(kernel, "rail0_0", "rail0_1")
        kernel.revive()
        return kernel

    desired = wish(ALLOWED, **SWITCHDEV, representor_prefix="rail0_", name="rail0")
    assert sweep(start, lambda kernel: applied(kernel, desired), ("EIO", "ENOSPC")) >= 8
