# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of interfaces and RDMA devices in the simulated kernel: now, at boot, exchanged, disturbed at every write."""

from __future__ import annotations

import re
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.files import STAMP
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.order import Rename, in_turn
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Netdev, Tree
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import INFINIBAND
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    OLD_KERNEL,
    OTHER,
    PF,
    UPLINK,
    applied,
    booted,
    guest,
    previewed,
    wish,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

LINK = "/etc/systemd/network/05-rdma-fabric-0000-01-00.0.link"
NET = "/sys/class/net"
ALLOWED = {"rdma_fabric_allow_uplink_change": True}
RAIL = "0000:18:00.0"
RAILS = {"0000:18:00.0": "rail0", "0000:40:00.0": "rail1"}


def done(kernel: Kernel, *entries: dict[str, Any], **variables: Any) -> Mapping[str, Any]:
    outcome = applied(kernel, wish(*entries, **variables))
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return outcome


def names(kernel: Kernel) -> dict[str, str]:
    """The name of each interface by the PCI address that it has."""
    found = {}
    for name in kernel.list(NET):
        if kernel.exists(f"{NET}/{name}/device"):
            found[kernel.realpath(f"{NET}/{name}/device").rsplit("/", 1)[-1]] = name
    return found


def with_altname(kernel: Kernel, name: str, alternative: str) -> None:
    kernel.run(("ip", "link", "property", "add", "dev", name, "altname", alternative), 5.0)
    kernel.revive()


def with_initramfs(tree: Tree, configuration: dict[str, str] | None = None) -> Tree:
    tree.files["/usr/sbin/update-initramfs"] = ""
    tree.files[f"/boot/initrd.img-{igb.KERNEL}"] = ""
    tree.files.update(configuration or {})
    return tree


class TestInterfaces:
    def test_it_is_renamed_now_and_at_every_boot(self) -> None:
        kernel = booted()
        done(kernel, {"pci": PF, "name": "rail0"})
        assert names(kernel)[PF] == "rail0"
        sections = re.findall(r"^(?:\[\w+\]|[A-Z]\w+=.*)$", kernel.read(LINK), re.MULTILINE)
        assert sections == [
            "[Match]",
            f"Path=pci-{PF} *-pci-{PF}",
            "Type=ether",
            "[Link]",
            "Name=rail0",
            "AlternativeNamesPolicy=database onboard slot path",
        ]

    def test_a_second_run_writes_nothing(self) -> None:
        kernel = booted()
        done(kernel, {"pci": PF, "name": "rail0"})
        done(kernel, {"pci": PF, "name": "rail0"})
        assert kernel.mutations == []

    def test_a_right_name_that_no_boot_would_give_is_kept_by_a_file(self) -> None:
        kernel = booted()
        (step,) = previewed(kernel, wish({"current_name": "enp1s0f0", "name": "enp1s0f0"}))["plan"]["steps"]
        assert (step["id"], step["when"], step["consent"]) == (f"naming:{PF}", "boot", None)
        done(kernel, {"current_name": "enp1s0f0", "name": "enp1s0f0"})
        assert "Name=enp1s0f0" in kernel.read(LINK)

    @pytest.mark.parametrize("damage", ["removed", "changed"])
    def test_a_file_that_somebody_removed_or_changed_is_put_back(self, damage: str) -> None:
        kernel = booted()
        done(kernel, {"pci": PF, "name": "rail0"})
        text = kernel.read(LINK)
        if damage == "removed":
            kernel.tree.discard(LINK)
        else:
            kernel.tree.add_file(LINK, text.replace("rail0", "rail9"))
        (step,) = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["steps"]
        assert (step["when"], step["action"], step["interrupts"]) == ("boot", "name it rail0 at every boot", "nothing")
        done(kernel, {"pci": PF, "name": "rail0"})
        assert kernel.read(LINK) == text

    def test_an_interface_that_is_up_stays_up(self) -> None:
        kernel = booted()
        outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
        assert [line for line in igb.what_changed(kernel) if "ip link" in line] == [
            "run ip link set dev enp1s0f0 name rail0"
        ]
        assert "its link stays up" in outcome["diff"]["prepared"]

    def test_one_that_is_down_is_renamed_without_interrupting_anything(self) -> None:
        kernel = booted()
        kernel.tree.add_file(f"{kernel.realpath(f'{NET}/enp1s0f0')}/flags", "0x1002\n")
        (step,) = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["steps"]
        assert step["interrupts"] == "nothing"

    def test_only_a_port_of_a_bond_is_to_be_named_there_as_well(self) -> None:
        kernel = booted()
        kernel.tree.add_file("/sys/devices/virtual/net/bond0/flags", "0x1003\n")
        kernel.tree.add_link(f"{kernel.realpath(f'{NET}/enp1s0f0')}/master", "/sys/devices/virtual/net/bond0")
        entries = [{"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"}]
        steps = previewed(kernel, wish(*entries))["plan"]["steps"]
        assert ["it belongs to" in step["detail"] for step in steps] == [True, False]
        assert steps[0]["detail"].endswith("it belongs to bond0: name it there as well")

    def test_an_interface_of_infiniband_is_told_by_its_type(self) -> None:
        kernel = mlx5.booted(link_layer=INFINIBAND)
        done(kernel, {"pci": RAIL, "name": "rail0"})
        assert names(kernel)[RAIL] == "rail0"
        assert "Type=infiniband\n" in kernel.read(LINK.replace("01-00.0", "18-00.0"))

    def test_an_old_kernel_takes_it_down_for_the_rename_and_up_again(self) -> None:
        kernel = booted(guest(OLD_KERNEL))
        outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
        assert not outcome.get("failed"), outcome["msg"]
        assert "its link goes down" in outcome["diff"]["prepared"]
        assert names(kernel)[PF] == "rail0"
        assert int(kernel.read(f"{NET}/rail0/flags"), 16) & 1

    @pytest.mark.parametrize("kernel_release", [igb.KERNEL, OLD_KERNEL])
    def test_two_interfaces_exchange_their_names(self, kernel_release: str) -> None:
        kernel = booted(guest(kernel_release))
        entries = ({"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"})
        done(kernel, *entries)
        done(kernel, {"pci": PF, "name": "rail1"}, {"pci": OTHER, "name": "rail0"})
        assert (names(kernel)[PF], names(kernel)[OTHER]) == ("rail1", "rail0")
        assert "Name=rail1" in kernel.read(LINK)

    def test_the_uplink_gets_its_name_at_the_next_boot_and_only_with_consent(self) -> None:
        kernel = booted()
        applied(kernel, wish({"pci": UPLINK, "name": "mgmt0"}))
        assert kernel.mutations == []
        done(kernel, {"pci": UPLINK, "name": "mgmt0"}, **ALLOWED)
        assert names(kernel)["virtio0"] == "enp2s0"
        outcome = previewed(kernel, wish({"pci": UPLINK, "name": "mgmt0"}, **ALLOWED))
        assert outcome["plan"]["steps"] == []
        assert "from the next boot on" in outcome["plan"]["notices"][0]

    @pytest.mark.parametrize(
        ("wanted", "entries", "says"),
        [
            ("rail1", [], "give that one another name"),
            ("rail1", [{"pci": OTHER, "name": "mgmt0"}], "its own rename is refused"),
            ("mgmt0", [{"pci": UPLINK, "name": "mgmt1"}], "as an uplink it keeps it until the next boot"),
        ],
    )
    def test_a_name_that_another_interface_keeps_is_refused(
        self, wanted: str, entries: list[dict[str, str]], says: str
    ) -> None:
        kernel = booted()
        for old, new in (("enp1s0f1", "rail1"), ("enp2s0", "mgmt0")):
            kernel.run(("ip", "link", "set", "dev", old, "name", new), 5.0)
        steps = previewed(kernel, wish({"pci": PF, "name": wanted}, *entries, **ALLOWED))["plan"]["steps"]
        (why,) = [each["detail"] for each in steps if each["status"] == "refused" and PF in each["id"]]
        assert (why.startswith(f"{wanted} is the name of "), says in why) == (True, True)

    @pytest.mark.parametrize("kernel_release", [igb.KERNEL, OLD_KERNEL])
    def test_an_interface_of_virtio_beside_the_uplink_is_renamed_now(self, kernel_release: str) -> None:
        tree = guest(kernel_release)
        igb.add_virtio(tree, "0000:00:04.0", "0000:03:00.0", Netdev("enp3s0", "52:54:00:aa:00:02", 1500), "virtio1")
        kernel = booted(tree)
        done(kernel, {"pci": "0000:03:00.0", "name": "storage0"})
        assert names(kernel)["virtio1"] == "storage0"
        done(kernel, {"pci": "0000:03:00.0", "name": "storage0"})
        assert kernel.mutations == []

    def test_a_name_taken_behind_the_plans_back_is_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = booted()
        kernel.tree.add_link(f"{NET}/rail0", "../../devices/virtual/net/rail0")
        kernel.tree.add_file("/sys/devices/virtual/net/rail0/flags", "0x1003\n")
        before = names(kernel)
        outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
        assert outcome["failed"] and "alternative name" in outcome["msg"]
        assert names(kernel) == before
        assert not kernel.exists(LINK), "what was done is taken back"

    @pytest.mark.parametrize("kernel_release", [igb.KERNEL, igb.OLD_KERNEL])
    def test_its_own_alternative_name_becomes_its_name(self, kernel_release: str) -> None:
        kernel = booted(guest(kernel_release))
        with_altname(kernel, "enp1s0f0", "rail0")
        done(kernel, {"pci": PF, "name": "rail0"})
        assert names(kernel)[PF] == "rail0"
        assert "altnames" not in kernel.run(("ip", "-json", "link", "show", "dev", "rail0"), 5.0).stdout

    def test_a_rename_that_fails_leaves_the_alternative_name(self) -> None:
        def prepared() -> Kernel:
            kernel = booted()
            with_altname(kernel, "enp1s0f0", "rail0")
            return kernel

        kernel = prepared()
        applied(kernel, wish({"pci": PF, "name": "rail0"}))
        number = next(i for i, (_kind, what) in enumerate(kernel.mutations) if what.endswith("enp1s0f0 name rail0"))
        kernel = prepared()
        kernel.disturb(number, "EBUSY")
        outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
        assert outcome["failed"]
        assert names(kernel)[PF] == "enp1s0f0"
        assert "rail0" in kernel.run(("ip", "-json", "link", "show", "dev", "enp1s0f0"), 5.0).stdout

    def test_an_alternative_name_of_another_interface_stays(self) -> None:
        kernel = booted()
        with_altname(kernel, "enp1s0f1", "rail0")
        outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
        assert outcome["failed"] and "ip link property del" in outcome["msg"]
        assert names(kernel)[PF] == "enp1s0f0"

    def test_a_port_in_switchdev_mode_is_told_from_its_representors(self) -> None:
        document = FLEET["roce-h100-01"]().document()
        place = next(path for path in document["files"] if path.endswith("/net/enp24s0np0/address")).rsplit("/", 1)[0]
        document["errors"].pop(f"{place}/phys_switch_id")
        document["files"][f"{place}/phys_switch_id"] = "e41d2d0003a1b2c3\n"
        kernel = Kernel(document)
        assert not applied(kernel, wish({"pci": RAIL, "name": "rail0"})).get("failed")
        matches = f'SUBSYSTEM=="net", ACTION=="add", DEVPATH=="*/{RAIL}/net/*"'
        assert kernel.read("/etc/udev/rules.d/70-rdma-fabric-0000-18-00.0.rules").splitlines()[1:] == [
            f'{matches}, ATTR{{phys_port_name}}=="*pf*", GOTO="rdma_fabric_end"',
            f'{matches}, NAME="rail0"',
            'LABEL="rdma_fabric_end"',
        ]

    def test_a_file_for_a_name_that_nobody_wants_any_more_goes(self) -> None:
        kernel = booted()
        done(kernel, {"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"})
        done(kernel, {"pci": OTHER, "name": "rail1"})
        assert not kernel.exists(LINK)
        assert kernel.exists(LINK.replace("00.0", "00.1"))

    @pytest.mark.parametrize("selector", [{"pci": PF}, {"mac": "52:54:00:77:01:00"}, {"current_name": "enp1s0f0"}])
    @pytest.mark.parametrize("gone", [f"/sys/bus/pci/devices/{PF}", f"/sys/bus/pci/devices/{PF}/net"])
    def test_the_file_of_a_card_that_is_away_stays(self, selector: dict[str, str], gone: str) -> None:
        kernel = booted()
        entry = {**selector, "name": "rail0"}
        done(kernel, entry)
        kernel.tree.discard(gone)
        kernel.tree.discard(f"{NET}/rail0")
        applied(kernel, wish(entry))
        assert kernel.exists(LINK)
        applied(kernel, wish({**(selector if "pci" not in selector else {"pci": OTHER}), "name": "rail1"}))
        assert not kernel.exists(LINK)

    def test_an_interface_that_takes_the_former_name_is_another_one(self) -> None:
        kernel = booted()
        entry = {"current_name": "enp1s0f0", "name": "rail0", "vfs": 1}
        done(kernel, entry)
        kernel.run(("ip", "link", "set", "dev", "enp1s0f0v0", "name", "enp1s0f0"), 5.0)
        kernel.revive()
        done(kernel, entry)
        assert kernel.mutations == []

    def test_names_move_on_between_entries_of_both_kinds(self) -> None:
        kernel = booted()
        done(kernel, {"pci": PF, "name": "rail0"})
        done(kernel, {"pci": PF, "name": "rail1"}, {"current_name": "enp1s0f1", "name": "rail0"})
        assert (names(kernel)[PF], names(kernel)[OTHER]) == ("rail1", "rail0")

    def test_the_file_at_a_former_place_of_a_card_goes(self) -> None:
        kernel = booted()
        done(kernel, {"pci": PF, "name": "rail0"})
        done(kernel, {"pci": PF, "name": "rail2"}, {"mac": "52:54:00:77:01:01", "name": "rail0"})
        assert "Name=rail2\n" in kernel.read(LINK)
        assert "Name=rail0\n" in kernel.read(LINK.replace("00.0", "00.1"))

    def test_removal_gives_the_former_name_back(self) -> None:
        kernel = booted()
        before = kernel.state()
        done(kernel, {"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"})
        outcome = applied(kernel, wish(), igb.REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert names(kernel)[PF] == "enp1s0f0"
        left = {path for path in kernel.state()["files"] if path.startswith(("/etc", "/var"))} - set(before["files"])
        assert left == set()


class TestInitramfs:
    def test_it_is_made_again_with_the_new_files(self) -> None:
        kernel = booted(with_initramfs(guest()))
        done(kernel, {"pci": PF, "name": "rail0"})
        assert f"{LINK}\n" in kernel.read(f"/boot/initrd.img-{igb.KERNEL}")
        outcome = done(kernel, {"pci": PF, "name": "rail0"})
        assert (kernel.mutations, outcome["plan"]["notices"]) == ([], [])

    def test_a_run_that_was_killed_before_it_is_made_up_for(self) -> None:
        kernel = booted(with_initramfs(guest()))
        done(kernel, {"pci": PF, "name": "rail0"})
        kernel.tree.discard(STAMP)
        (step,) = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["steps"]
        assert (step["action"], step["when"]) == ("rebuild the initramfs", "boot")

    def test_a_name_that_nobody_wants_any_more_is_not_in_it_either(self) -> None:
        kernel = booted(with_initramfs(guest()))
        done(kernel, {"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"})
        done(kernel, {"pci": OTHER, "name": "rail1"})
        assert LINK not in kernel.read(f"/boot/initrd.img-{igb.KERNEL}")
        assert previewed(kernel, wish({"pci": OTHER, "name": "rail1"}))["plan"]["steps"] == []

    def test_one_without_network_drivers_is_left_alone(self) -> None:
        kernel = booted(with_initramfs(guest(), {"/etc/initramfs-tools/initramfs.conf": "MODULES=dep\n"}))
        done(kernel, {"pci": PF, "name": "rail0"})
        assert kernel.read(f"/boot/initrd.img-{igb.KERNEL}") == ""

    @pytest.mark.parametrize(
        ("configuration", "made"),
        [
            ({}, True),
            ({"/etc/initramfs-tools/initramfs.conf": "MODULES=most\n"}, True),
            ({"/etc/initramfs-tools/initramfs.conf": "# MODULES=dep\nMODULES=most # the default\n"}, True),
            ({"/etc/initramfs-tools/conf.d/driver-policy": "MODULES=dep\n"}, False),
            (
                {"/etc/initramfs-tools/initramfs.conf": "MODULES=dep\n", "/etc/initramfs-tools/modules": "# none\n"},
                False,
            ),
            ({"/etc/initramfs-tools/initramfs.conf": "MODULES=dep\n", "/etc/initramfs-tools/modules": "igb\n"}, True),
            ({"/etc/initramfs-tools/initramfs.conf": 'MODULES="unfinished\n'}, True),
            ({"/usr/bin/dracut": ""}, False),
            ({"/usr/bin/dracut": "", "/etc/dracut.conf.d/a.conf": 'add_drivers+=" mlx5_core "\n'}, True),
            ({"/usr/bin/dracut": "", "/etc/dracut.conf.d/a.conf": 'add_dracutmodules+=" nfs "\n'}, True),
            ({"/usr/bin/dracut": "", "/etc/dracut.conf": "hostonly=no\n"}, True),
            ({"/usr/bin/dracut": "", "/etc/dracut.conf.d/a.conf.rpmsave": "hostonly=no\n"}, False),
        ],
    )
    def test_whether_it_names_interfaces_is_read_from_its_configuration(
        self, configuration: dict[str, str], made: bool
    ) -> None:
        kernel = booted(with_initramfs(guest(), configuration))
        steps = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["steps"]
        assert ("rebuild the initramfs" in [step["action"] for step in steps]) == made

    @pytest.mark.parametrize("image", [f"/boot/initramfs-{igb.KERNEL}.img", f"/boot/initrd-{igb.KERNEL}"])
    def test_red_hat_and_suse_make_theirs_with_dracut(self, image: str) -> None:
        tree = guest()
        tree.files.update({image: "", "/usr/bin/dracut": "", "/etc/dracut.conf": 'hostonly="no"\n'})
        kernel = booted(tree)
        done(kernel, {"pci": PF, "name": "rail0"})
        assert LINK in kernel.read(image)

    def test_one_that_nothing_here_can_make_is_told(self) -> None:
        tree = guest()
        tree.files[f"/boot/initramfs-{igb.KERNEL}.img"] = ""
        (notice,) = previewed(booted(tree), wish({"pci": PF, "name": "rail0"}))["plan"]["notices"]
        assert "rebuild it with the program that built it" in notice
        kernel = booted(tree)
        done(kernel, {"pci": PF, "name": "rail0"})
        assert previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["notices"] == []

    def test_that_of_an_ostree_is_left_to_its_own_program_which_is_told(self) -> None:
        tree = with_initramfs(guest())
        tree.files["/run/ostree-booted"] = ""
        kernel = booted(tree)
        (notice,) = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["notices"]
        assert f"rpm-ostree initramfs-etc --force-sync --track={LINK}, or" in notice
        done(kernel, {"pci": PF, "name": "rail0"})
        assert (kernel.read(f"/boot/initrd.img-{igb.KERNEL}"), kernel.exists(STAMP)) == ("", False)
        (notice,) = previewed(kernel, wish({"pci": OTHER, "name": "rail1"}))["plan"]["notices"]
        assert f"--untrack={LINK}" in notice

    def test_that_of_a_read_only_snapshot_is_left_to_the_program_that_makes_the_next(self) -> None:
        tree = guest()
        image = f"/boot/initrd-{igb.KERNEL}"
        tree.files.update({image: "", "/usr/bin/dracut": "", "/etc/dracut.conf": "hostonly=no\n"})
        tree.files["/usr/sbin/transactional-update"] = ""
        tree.files["/proc/self/mountinfo"] = "22 1 0:20 /@/.snapshots/1/snapshot / ro - btrfs /dev/sda3 rw\n"
        kernel = booted(tree)
        (notice,) = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["notices"]
        assert "transactional-update initrd" in notice
        done(kernel, {"pci": PF, "name": "rail0"})
        assert (kernel.read(image), kernel.exists(STAMP)) == ("", False)

    def test_removal_makes_it_again_without_our_files(self) -> None:
        kernel = booted(with_initramfs(guest()))
        done(kernel, {"pci": PF, "name": "rail0"})
        outcome = applied(kernel, wish(), igb.REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert "rdma-fabric" not in kernel.read(f"/boot/initrd.img-{igb.KERNEL}")
        assert not kernel.exists(STAMP)


def rails(with_program: bool = True) -> Kernel:
    """A host with eight RoCE rails."""
    tree = FLEET["roce-h100-01"]()
    for path in ("/usr/sbin/rdma", "/usr/bin/udevadm") if with_program else ("/usr/bin/udevadm",):
        tree.files[path] = ""
    return Kernel(tree.document())


def rdma_names(kernel: Kernel) -> list[str]:
    return [kernel.list(f"/sys/bus/pci/devices/{address}/infiniband")[0] for address in RAILS]


class TestRdmaDevices:
    def test_they_are_renamed_now_and_at_every_boot(self) -> None:
        kernel = rails()
        done(kernel, *({"pci": address, "rdma_name": f"rdma_{name}"} for address, name in RAILS.items()))
        assert rdma_names(kernel) == ["rdma_rail0", "rdma_rail1"]
        (rule,) = kernel.read("/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules").splitlines()[1:]
        assert f'DEVPATH=="*/{RAIL}/infiniband/*"' in rule
        assert 'KERNEL!="rdma_rail0"' in rule, "a device that has its name is not renamed to it"
        assert rule.endswith('PROGRAM="/usr/sbin/rdma dev set %k name rdma_rail0"')
        done(kernel, *({"pci": address, "rdma_name": f"rdma_{name}"} for address, name in RAILS.items()))
        assert kernel.mutations == []

    def test_they_exchange_their_names(self) -> None:
        kernel = rails()
        done(kernel, *({"pci": address, "rdma_name": f"rdma_{name}"} for address, name in RAILS.items()))
        done(kernel, {"pci": RAIL, "rdma_name": "rdma_rail1"}, {"pci": "0000:40:00.0", "rdma_name": "rdma_rail0"})
        assert rdma_names(kernel) == ["rdma_rail1", "rdma_rail0"]

    def test_the_way_back_is_told_as_it_is_gone(self) -> None:
        kernel, path = rails(), "/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules"
        (former,) = rdma_names(kernel)[:1]
        for name, file in (("rdma_rail0", f"remove {path}"), ("rdma_first", f"write the former {path}")):
            desired = wish({"pci": RAIL, "rdma_name": name})
            (step,) = previewed(kernel, desired)["plan"]["steps"]
            assert step["undo"] == f"{file} and rename {name} to {former}"
            applied(kernel, desired)
            former = name

    def test_a_rule_that_somebody_removed_is_put_back_and_the_device_is_left_alone(self) -> None:
        kernel, path = rails(), "/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules"
        done(kernel, {"pci": RAIL, "rdma_name": "rdma_rail0"})
        text = kernel.read(path)
        kernel.tree.discard(path)
        (step,) = previewed(kernel, wish({"pci": RAIL, "rdma_name": "rdma_rail0"}))["plan"]["steps"]
        assert (step["id"], step["when"], step["interrupts"]) == (f"naming:{RAIL}:rdma", "boot", "nothing")
        assert step["action"] == "name the RDMA device rdma_rail0 at every boot"
        done(kernel, {"pci": RAIL, "rdma_name": "rdma_rail0"})
        assert (kernel.read(path), rdma_names(kernel)[0]) == (text, "rdma_rail0")

    def test_a_name_that_another_device_keeps_is_refused(self) -> None:
        kernel = rails()
        done(kernel, {"pci": RAIL, "rdma_name": "rdma_rail0"})
        steps = previewed(kernel, wish({"pci": "0000:40:00.0", "rdma_name": "rdma_rail0"}))["plan"]["steps"]
        refused = next(step for step in steps if step["status"] == "refused")
        assert RAIL in refused["detail"]

    def test_the_rule_of_a_port_that_is_away_stays(self) -> None:
        kernel = rails()
        entry = {"mac": kernel.read(f"{NET}/enp24s0np0/address").strip(), "rdma_name": "rdma_rail0"}
        done(kernel, entry)
        kernel.tree.discard(f"/sys/bus/pci/devices/{RAIL}/net")
        kernel.tree.discard(f"{NET}/enp24s0np0")
        applied(kernel, wish(entry))
        assert kernel.exists("/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules")

    def test_a_port_without_an_rdma_device_is_refused_with_the_cause(self) -> None:
        (step,) = previewed(booted(), wish({"pci": PF, "rdma_name": "rdma_rail0"}))["plan"]["steps"]
        assert (step["status"], "mlx5_ib" in step["detail"]) == ("refused", True)

    def test_without_the_program_it_is_refused(self) -> None:
        steps = previewed(rails(with_program=False), wish({"pci": RAIL, "rdma_name": "rdma_rail0"}))["plan"]["steps"]
        assert [(step["status"], "iproute2" in step["detail"]) for step in steps] == [("refused", True)]

    def test_removal_gives_the_former_name_back(self) -> None:
        kernel = rails()
        before = rdma_names(kernel)
        done(kernel, {"pci": RAIL, "rdma_name": "rdma_rail0"})
        outcome = applied(kernel, wish(), igb.REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        executed = [entry["id"] for entry in outcome["executed"] if entry["id"].startswith("naming:")]
        assert executed == [f"naming:{RAIL}:rdma"], "the rule goes with the name"
        assert rdma_names(kernel) == before
        assert not kernel.exists("/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules")

    def test_removal_waits_for_no_device_that_is_gone(self) -> None:
        kernel = rails()
        done(kernel, {"pci": RAIL, "rdma_name": "rdma_rail0"})
        kernel.tree.discard(f"/sys/bus/pci/devices/{RAIL}/infiniband")
        kernel.tree.discard("/sys/class/infiniband/rdma_rail0")
        outcome = applied(kernel, wish(), igb.REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert not kernel.exists("/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules")
        assert applied(kernel, wish(), igb.REMOVE)["plan"]["steps"] == []


class TestOrder:
    def test_a_temporary_name_of_a_killed_run_is_not_taken_again(self) -> None:
        turns = in_turn([Rename("a", "x", "y"), Rename("b", "y", "x")], {"x", "y", "rdmatmp0"})
        assert turns[0].parking is not None and turns[0].parking.temporary == "rdmatmp1"
        assert turns[1].current == "rdmatmp1"


SWEPT: dict[str, list[dict[str, Any]]] = {
    "renamed": [{"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1", "mtu": 9000}],
    "exchanged": [{"pci": PF, "name": "rail1"}, {"pci": OTHER, "name": "rail0"}],
    "staged": [{"pci": UPLINK, "name": "mgmt0"}],
}


@pytest.mark.parametrize("kernel_release", first_of([igb.KERNEL, OLD_KERNEL]))
@pytest.mark.parametrize("case", first_of(SWEPT))
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str, kernel_release: str) -> None:
    def start() -> Kernel:
        tree = guest(kernel_release)
        if case == "renamed":
            with_initramfs(tree)
        kernel = booted(tree)
        if case == "exchanged":
            done(kernel, {"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"})
        return kernel

    errors = ("EIO", "EROFS") if kernel_release == OLD_KERNEL else ("EIO", "ENOSPC", "EROFS", "EBUSY")
    assert sweep(start, lambda kernel: applied(kernel, wish(*SWEPT[case], **ALLOWED)), errors) >= 4


@pytest.mark.slow
def test_whatever_disturbs_rdma_names_the_next_run_gets_there() -> None:
    entries = [{"pci": address, "rdma_name": f"rdma_{name}"} for address, name in RAILS.items()]
    assert sweep(rails, lambda kernel: applied(kernel, wish(*entries)), ("EIO",)) >= 6
