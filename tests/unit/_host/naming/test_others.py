# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of udev and ``.link`` files of others that would give an interface another name at boot."""

from __future__ import annotations

import json
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.tests.unit._host import mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.igb import APPLY, MAC, OTHER_MAC, REMOVE, applied, booted, wish
from ansible_collections.rdma.fabric.tests.unit._host.igb import PF as PORT
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

NETPLAN = "/run/udev/rules.d/99-netplan-rails.rules"
PERSISTENT = "/etc/udev/rules.d/70-persistent-net.rules"
OURS = "/etc/systemd/network/05-rdma-fabric-0000-01-00.0.link"
# As netplan writes it for set-name beside a MAC address.
BY_MAC = f'SUBSYSTEM=="net", ACTION=="add", DRIVERS=="?*", ATTR{{address}}=="{MAC}", NAME="fabric7"\n'
WISH = wish({"pci": PORT, "name": "rail0"})


def host(**files: str) -> Kernel:
    """The guest, with these files by path."""
    kernel = booted()
    for path, text in files.items():
        kernel.tree.add_file(path, text)
    return kernel


def refusals(outcome: Mapping[str, Any]) -> list[str]:
    return [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]


class TestRules:
    def test_a_name_that_netplan_gives_at_boot_is_in_the_way(self) -> None:
        kernel = host(**{NETPLAN: BY_MAC})
        outcome = applied(kernel, WISH)
        (why,) = refusals(outcome)
        assert NETPLAN in why and "fabric7" in why and "set-name" in why
        assert kernel.mutations == []
        kernel.tree.discard(NETPLAN)
        assert not applied(kernel, WISH).get("failed")
        assert kernel.exists("/sys/class/net/rail0")

    @pytest.mark.parametrize("place", ["/etc", "/run", "/usr/lib", "/lib"])
    @pytest.mark.parametrize("number", ["10", "70", "99"])
    def test_a_rule_goes_before_our_link_file_wherever_it_is(self, place: str, number: str) -> None:
        path = f"{place}/udev/rules.d/{number}-site.rules"
        (why,) = refusals(applied(host(**{path: BY_MAC}), WISH))
        assert path in why and "remove that rule" in why

    def test_a_name_that_is_right_and_lost_at_boot_is_told(self) -> None:
        kernel = host()
        applied(kernel, WISH)
        kernel.revive()
        kernel.tree.add_file(PERSISTENT, BY_MAC)
        outcome = applied(kernel, WISH)
        (step,) = outcome["plan"]["steps"]
        assert (step["id"], step["status"]) == (f"naming:{PORT}:boot", "refused")
        assert PERSISTENT in step["detail"]
        assert kernel.mutations == []
        assert not applied(kernel, wish(), REMOVE).get("failed"), "a removal asks for no name"
        assert kernel.exists("/sys/class/net/enp1s0f0")

    def test_the_last_name_counts(self) -> None:
        same = BY_MAC.replace("fabric7", "rail0")
        assert refusals(applied(host(**{PERSISTENT: BY_MAC, NETPLAN: same}), WISH)) == []
        (why,) = refusals(applied(host(**{PERSISTENT: same, NETPLAN: BY_MAC}), WISH))
        assert NETPLAN in why
        (why,) = refusals(applied(host(**{PERSISTENT: BY_MAC.replace("NAME=", "NAME:="), NETPLAN: same}), WISH))
        assert PERSISTENT in why

    def test_a_file_of_the_same_name_in_etc_hides_the_other(self) -> None:
        hidden = NETPLAN.replace("/run/", "/etc/")
        assert refusals(applied(host(**{NETPLAN: BY_MAC, hidden: "# nothing\n"}), WISH)) == []

    @pytest.mark.parametrize(
        "rule",
        [
            BY_MAC.replace("ATTR{address}==", 'ATTR{type}=="1", ATTR{dev_port}=="0", KERNEL=="eth*", ATTR{address}=='),
            f'SUBSYSTEM=="net", ACTION=="add|change", KERNELS=="{PORT}", NAME="fabric7"',
            f'SUBSYSTEM=="net", ENV{{ID_PATH}}=="pci-{PORT}", NAME="fabric7"',
            f'ACTION!="add", GOTO="end"\nSUBSYSTEM=="net", \\\n DEVPATH=="*/{PORT}/net/*", NAME="fabric7"\nLABEL="end"',
            f'SUBSYSTEM=="net", DRIVERS=="igb", ATTR{{address}}=="{OTHER_MAC}|{MAC}", NAME:="fabric7"',
        ],
    )
    def test_what_plainly_fits_is_found(self, rule: str) -> None:
        assert len(refusals(applied(host(**{PERSISTENT: f"# mine\n\n{rule}\n"}), WISH))) == 1

    @pytest.mark.parametrize(
        "rule",
        [
            BY_MAC.replace(MAC, OTHER_MAC),
            BY_MAC.replace("net", "tty"),
            BY_MAC.replace('"add"', '"remove"'),
            BY_MAC.replace("==", "!="),
            BY_MAC.replace("NAME=", 'ENV{SITE}=="1", NAME='),
            BY_MAC.replace("NAME=", "ENV{MY_NAME}="),
            BY_MAC.replace("NAME=", "SYMLINK+="),
            BY_MAC.replace('"fabric7"', "fabric7"),
            BY_MAC.replace("ATTR{address}==", 'ATTR{no_such}=="1", ATTR{address}=='),
            'SUBSYSTEM=="net", KERNEL=="eth0", NAME="fabric7"',
            f'ENV{{SITE}}!="1", GOTO="end"\n{BY_MAC}LABEL="end"',
            f'SUBSYSTEM=="net", GOTO="end"\n{BY_MAC}LABEL="end"',
            f"# {BY_MAC}",
            "\\",
            '"' * 5000,
            "NAME=" * 5000,
        ],
    )
    def test_what_does_not_or_may_not_fit_is_in_nobodys_way(self, rule: str) -> None:
        outcome = applied(host(**{PERSISTENT: f"{rule}\n"}), WISH)
        assert (refusals(outcome), outcome.get("failed")) == ([], None)

    @pytest.mark.parametrize(
        "rule",
        [
            BY_MAC.replace("NAME=", 'PROGRAM="/bin/false", NAME='),
            BY_MAC.replace("fabric7", "$env{ID_NET_NAME_PATH}"),
            BY_MAC.replace("NAME=", 'PROGRAM=="/usr/bin/site-name %k", NAME=').replace("fabric7", "%c"),
            # kernel-boot/82-net-setup-link.rules of Mellanox/mlnx-tools, of which its issue 5 tells.
            'SUBSYSTEM=="net", ACTION=="add", ATTR{phys_port_name}!="", \\\n'
            '\tIMPORT{program}="/lib/udev/vf-net-link-name.sh $attr{phys_port_name}" \\\n\tNAME="$env{NAME}"',
        ],
    )
    def test_a_name_that_a_program_gives_is_told(self, rule: str) -> None:
        kernel = host(**{PERSISTENT: f"{rule}\n"})
        attribute = f"{kernel.realpath('/sys/class/net/enp1s0f0')}/phys_port_name"
        kernel.tree.errors.pop(attribute)
        kernel.tree.add_file(attribute, "p0\n")
        outcome = applied(kernel, WISH)
        (notice,) = outcome["plan"]["notices"]
        assert notice == f"{PORT} (rail0): {PERSISTENT} has a program name it at each boot, after ours"
        assert kernel.exists("/sys/class/net/rail0")

    @pytest.mark.parametrize(
        "rule",
        [
            # 80-net-setup-link.rules of systemd, 60-net.rules of initscripts, 71-biosdevname.rules.
            'NAME=="", ENV{ID_NET_NAME}!="", NAME="$env{ID_NET_NAME}"',
            f'ATTR{{address}}=="{MAC}", PROGRAM="/lib/udev/rename_device", RESULT=="?*", NAME="$result"',
            'NAME=="?*", GOTO="end"\nPROGRAM="/sbin/biosdevname -i %k", NAME="%c"\nLABEL="end"',
            # udev/rules.d/82-net-setup-link.rules of mlnx-tools, which names no ConnectX any more.
            'SUBSYSTEM=="net", ENV{ID_MODEL_ID}!="0x10*", IMPORT{program}="/lib/udev/x" NAME="$env{NAME}"',
            # entrypoint.sh of Mellanox/doca-driver-build: what systemd names by, not a name.
            'DRIVERS=="igb", PROGRAM="/bin/sh -c x", ENV{ID_NET_NAME_PATH}="$result"',
            f'ATTR{{address}}==i"{MAC}", NAME="$env{{SITE}}"',
        ],
    )
    def test_what_may_not_apply_is_not(self, rule: str) -> None:
        assert applied(host(**{PERSISTENT: f"{rule}\n"}), WISH)["plan"]["notices"] == []

    def test_beside_our_rule_only_later_ones_count(self) -> None:
        """In switchdev mode ours is a rule itself."""
        wanted = mlx5.wish(name="rail0", eswitch_mode="switchdev")
        rule = f'SUBSYSTEM=="net", KERNELS=="{PF}", NAME="fabric7"\n'

        def refused(path: str, text: str) -> list[str]:
            kernel = mlx5.booted()
            kernel.tree.add_file(path, text)
            outcome = applied(kernel, wanted)
            assert kernel.exists("/etc/udev/rules.d/70-rdma-fabric-0000-18-00.0.rules") == (not refusals(outcome))
            return refusals(outcome)

        assert refused(PERSISTENT, rule) == []
        assert refused("/etc/systemd/network/00-site.link", f"[Match]\nPath=pci-{PF}\n[Link]\nName=fabric7\n") == []
        (why,) = refused(NETPLAN, rule)
        assert NETPLAN in why
        (why,) = refused(PERSISTENT, rule.replace("NAME=", "NAME:="))
        assert PERSISTENT in why


class TestCloudInit:
    """It renames after udev at each boot, even where it configures nothing (canonical/cloud-init, issue 4074)."""

    FILE = "/var/lib/cloud/instance/network-config.json"
    PHYSICAL: Mapping[str, Any] = {
        "version": 1,
        "config": [{"type": "physical", "name": "fabric7", "mac_address": MAC.upper(), "subnets": [{"type": "dhcp"}]}],
    }
    ETHERNETS: Mapping[str, Any] = {
        "version": 2,
        "ethernets": {"port": {"match": {"macaddress": MAC}, "set-name": "fabric7", "dhcp4": True}},
    }
    OFF = "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg"

    def files(self, given: Any) -> dict[str, str]:
        return {"/run/cloud-init/enabled": "", "/etc/cloud/cloud.cfg": "users: []\n", self.FILE: json.dumps(given)}

    @pytest.mark.parametrize("given", [PHYSICAL, ETHERNETS], ids=["physical", "set-name"])
    def test_a_name_that_cloud_init_gives_by_mac_address_is_in_the_way(self, given: Any) -> None:
        kernel = host(**self.files(given))
        (why,) = refusals(applied(kernel, WISH))
        assert f"{self.FILE} names it fabric7 at every boot, whatever {OURS} says: switch that off" in why
        assert kernel.mutations == []
        recorded = record(kernel, "host")
        assert "dhcp" not in "".join(text for path, text in recorded["files"].items() if "cloud" in path)
        kernel.tree.add_file(self.OFF, "network: {config: disabled}\n")
        assert not applied(kernel, WISH).get("failed")

    @pytest.mark.parametrize(
        "given",
        [
            {"version": 1, "config": [{"type": "bond", "name": "fabric7", "mac_address": MAC}]},
            {"version": 1, "config": [{"type": "physical", "name": "fabric7", "mac_address": OTHER_MAC}]},
            {"version": 2, "ethernets": {"fabric7": {"match": {"macaddress": MAC}}}},
            {"version": 2, "ethernets": {"port": {"match": MAC, "set-name": ["fabric7"]}}},
            ["physical"],
        ],
    )
    def test_what_it_does_not_name_is_in_nobodys_way(self, given: Any) -> None:
        assert refusals(applied(host(**self.files(given)), WISH)) == []

    def test_what_is_left_of_it_is_in_nobodys_way(self) -> None:
        assert refusals(applied(host(**{self.FILE: json.dumps(self.PHYSICAL)}), WISH)) == []


class TestLinkFiles:
    EARLIER = "/etc/systemd/network/00-site.link"

    @pytest.mark.parametrize(
        "match",
        [
            f"PermanentMACAddress={MAC}",
            f"MACAddress={OTHER_MAC} {MAC.upper().replace(':', '-')}",
            f"PermanentMACAddress={MAC[:5]}.{MAC[6:11]}.{MAC[12:]}".replace(":", ""),
            f"Path=pci-{PORT}",
            "Path=!pci-0000:ff:*",
            "Path=pci-0000:01:*\nType=ether",
            "Driver=igb",
            "OriginalName=*",
        ],
    )
    def test_one_that_sorts_before_ours_is_used_in_its_place(self, match: str) -> None:
        text = f"# site\n[Match]\n{match}\n[Link]\nName=fabric7\n"
        (why,) = refusals(applied(host(**{self.EARLIER: text}), WISH))
        assert self.EARLIER in why and OURS in why and "fabric7" in why and "Name=rail0" in why

    @pytest.mark.parametrize(
        "match",
        [
            f"PermanentMACAddress={OTHER_MAC}",
            f"PermanentMACAddress={MAC}\nKernelCommandLine=site",
            f"PermanentMACAddress={MAC}\nDriver=mlx5_core",
            f"Path=!pci-{PORT}",
            "OriginalName=eth0",
            "",
        ],
    )
    def test_one_that_may_not_fit_is_in_nobodys_way(self, match: str) -> None:
        text = f"[Match]\n{match}\n[Link]\nName=fabric7\n"
        assert refusals(applied(host(**{self.EARLIER: text}), WISH)) == []

    def test_one_that_sorts_after_ours_is_never_used(self) -> None:
        netplan = "/run/systemd/network/10-netplan-rails.link"
        text = f"[Match]\nPermanentMACAddress={MAC}\n[Link]\nName=fabric7\n"
        assert refusals(applied(host(**{netplan: text}), WISH)) == []

    def test_one_that_gives_the_same_name_is_fine_and_one_with_a_policy_is_not(self) -> None:
        text = f"[Match]\nPermanentMACAddress={MAC}\n[Link]\nName=rail0\n"
        assert refusals(applied(host(**{self.EARLIER: text}), WISH)) == []
        (why,) = refusals(applied(host(**{self.EARLIER: f"{text}NamePolicy=path\n"}), WISH))
        assert "policy" in why


class TestReplaced:
    """udev uses one ``.link`` file alone, so ours has what the one says that it takes the place of."""

    SITE = "/etc/systemd/network/10-rail.link"
    DEFAULT = "/usr/lib/systemd/network/99-default.link"
    # As systemd 255 installs it (network/99-default.link).
    DEFAULT_TEXT = (
        "# SPDX-License-"
        "Identifier: MIT-0\n[Match]\nOriginalName=*\n\n[Link]\n"
        "NamePolicy=keep kernel database onboard slot path\n"
        "AlternativeNamesPolicy=database onboard slot path mac\nMACAddressPolicy=persistent\n"
    )
    RAIL = (
        f"[Match]\nPermanentMACAddress={MAC}\n[Link]\nName=fabric7\nMTUBytes=2000\nRxBufferSize=4096\n"
        "MACAddressPolicy=none\nSR-IOVVirtualFunctions=2\n[SR-IOV]\nVirtualFunction=0\nTrust=yes\n"
        "[SR-IOV]\nVirtualFunction=1\nTrust=no\n"
    )
    UDEV = "/run/udev/data/n7"

    def written(self, **files: str) -> list[str]:
        kernel = host(**{self.DEFAULT: self.DEFAULT_TEXT, **files})
        outcome = applied(kernel, WISH)
        assert not outcome.get("failed"), outcome["msg"]
        kernel.revive()
        assert (applied(kernel, WISH)["changed"], kernel.mutations) == (False, [])
        return kernel.read(OURS).splitlines()[1:]

    def test_the_policy_for_addresses_stays_that_of_the_host(self) -> None:
        assert self.written() == [
            f"# Other settings are those of {self.DEFAULT}",
            "[Match]",
            f"Path=pci-{PORT} *-pci-{PORT}",
            "Type=ether",
            "",
            "[Link]",
            "Name=rail0",
            "AlternativeNamesPolicy=database onboard slot path mac",
            "MACAddressPolicy=persistent",
        ]

    def test_a_users_file_for_the_card_keeps_all_but_the_name(self) -> None:
        lines = self.written(**{self.SITE: self.RAIL})
        assert lines[0] == f"# Other settings are those of {self.SITE}"
        assert lines[5:8] == ["[Link]", "Name=rail0", "AlternativeNamesPolicy=database onboard slot path"]
        assert lines[8:] == self.RAIL.split("Name=fabric7\n")[1].splitlines()

    def test_drop_ins_count(self) -> None:
        lines = self.written(**{f"{self.DEFAULT}.d/10-a.conf".replace("/usr/lib", "/etc"): "[Link]\nMTUBytes=4200\n"})
        assert lines[-2:] == ["[Link]", "MTUBytes=4200"]

    def test_the_plan_says_what_is_taken_over(self) -> None:
        outcome = applied(host(**{self.SITE: self.RAIL}), WISH)
        assert "it has MTUBytes=2000, RxBufferSize=4096, " in outcome["diff"]["prepared"]
        assert f"of {self.SITE}, which udev no longer uses for it" in outcome["diff"]["prepared"]

    def test_a_change_of_that_file_is_followed(self) -> None:
        kernel = host(**{self.SITE: self.RAIL})
        applied(kernel, WISH)
        kernel.tree.add_file(self.SITE, self.RAIL.replace("2000", "3000"))
        assert not applied(kernel, WISH).get("failed")
        assert "MTUBytes=3000" in kernel.read(OURS)

    @pytest.mark.parametrize("match", [f"MACAddress={OTHER_MAC}", "Driver=mlx5_core", "Type=wlan", "Path=*-usb-*"])
    def test_a_file_for_another_card_is_left_out(self, match: str) -> None:
        lines = self.written(**{self.SITE: f"[Match]\n{match}\nProperty=ID_X=1\n[Link]\nMTUBytes=2000\n"})
        assert "MTUBytes=2000" not in lines

    def test_one_of_which_it_can_not_be_told_is_refused_with_its_name(self) -> None:
        text = "[Match]\nProperty=ID_MODEL_ID=0x10c9\n[Link]\nMTUBytes=2000\n"
        kernel = host(**{self.SITE: text, self.DEFAULT: self.DEFAULT_TEXT})
        (why,) = refusals(applied(kernel, WISH))
        assert f"would take the place of {self.SITE}, of which it can't be told" in why and "next: " in why
        assert kernel.mutations == []
        assert refusals(applied(host(**{self.SITE: text.replace("MTUBytes=2000", "Name=x")}), WISH)) == []

    @pytest.mark.parametrize("used", [True, False])
    def test_udevs_notes_tell_which_one_it_used(self, used: bool) -> None:
        """/run/udev/data as udevadm info shows it: E:ID_NET_LINK_FILE=/usr/lib/systemd/network/99-default.link."""
        text = "[Match]\nProperty=ID_MODEL_ID=0x10c9\n[Link]\nMTUBytes=2000\n"
        files = {self.SITE: text, self.DEFAULT: self.DEFAULT_TEXT, "/sys/class/net/enp1s0f0/ifindex": "7\n"}
        kernel = host(**files, **{self.UDEV: f"I:1\nE:ID_NET_LINK_FILE={self.SITE if used else self.DEFAULT}\n"})
        assert not applied(kernel, WISH).get("failed")
        assert ("MTUBytes=2000" in kernel.read(OURS)) == used
        # After the boot it has used ours, and what it was made from still holds.
        kernel.tree.add_file(self.UDEV, f"I:1\nE:ID_NET_LINK_FILE={OURS}\n")
        kernel.revive()
        assert (applied(kernel, WISH)["changed"], kernel.mutations) == (False, [])

    def test_one_that_goes_before_ours_is_not_replaced(self) -> None:
        early = "/etc/systemd/network/00-site.link"
        lines = self.written(**{early: f"[Match]\nPermanentMACAddress={MAC}\n[Link]\nName=rail0\nMTUBytes=2000\n"})
        assert "MTUBytes=2000" not in lines and "MACAddressPolicy=persistent" not in lines


class TestReading:
    FILES = frozenset({PERSISTENT, TestLinkFiles.EARLIER})

    @pytest.mark.parametrize("variables", [{}, {"state": "up"}, {"rdma_name": "mlx5_rail0"}])
    def test_nothing_is_read_unless_a_name_is_asked_for(
        self, variables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = host(**dict.fromkeys(self.FILES, BY_MAC))
        seen: list[str] = []

        def read(path: str) -> str:
            seen.append(path)
            return kernel.tree.read(path)

        monkeypatch.setattr(kernel, "read", read)
        facts = gather(kernel, desired=wish({"pci": PORT, **variables}))
        assert facts["naming"]["others"] == {} and not self.FILES & set(seen)
        assert gather(kernel, desired=WISH)["naming"]["others"] and self.FILES & set(seen)

    def test_a_second_run_finds_nothing_in_the_way_of_what_it_wrote(self) -> None:
        kernel = host()
        applied(kernel, WISH, APPLY)
        kernel.revive()
        assert (applied(kernel, WISH)["changed"], kernel.mutations) == (False, [])


def test_the_other_names_of_an_interface_are_read_of_udevs_database_and_recorded() -> None:
    database = "/run/udev/data/n77"
    text = "I:1\nE:ID_NET_NAME_SLOT=ens9\nE:ID_NET_NAME_PATH=enp1s0f0\nE:ID_NET_NAME_MAC=enx0\nE:ID_SERIAL=secret\n"
    kernel = host(**{"/sys/class/net/enp1s0f0/ifindex": "77\n", database: text})
    found = {each["name"]: each.get("other_names") for each in gather(kernel)["netdevs"]}
    assert found.pop("enp1s0f0") == ["ens9"]
    assert not any(found.values())
    recorded = record(kernel, "a")["files"][database]
    assert "ens9" in recorded and "secret" not in recorded
