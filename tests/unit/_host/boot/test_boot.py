# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan leaves to the boot unit, how the unit comes and goes, and what it does when the host starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import unit_text
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.boot import RESULT
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.remote_storage import public_mounts
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    BOOT_SPEC_FILE,
    ENABLED_BY,
    MARKER,
    PROGRAM_DIRECTORY,
    RESULT_FILE,
    UNIT,
    UNIT_FILE,
    BrokenState,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import is_program, program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.reached import PATH as REACHED
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import add_routes
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Tree
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
PF = "0000:18:00.0"
PORT = "0000:37:00.0"
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
DROP_IN = "/etc/systemd/network/20-x.network.d/90-rdma-fabric.conf"
WISH = {"interfaces": [{"pci": PORT, "mtu": 9000, "state": "up"}]}


def host(**files: str) -> Kernel:
    document = FLEET["egx-01"]().document()
    document["files"].update({BOOT_ID: "5f2a\n", **files})
    document.setdefault("dirs", []).append("/etc/systemd/system")
    return Kernel(document)


def of_networkd(text: str = "[Match]\nName=ens2f0\n") -> Kernel:
    return host(**{NETWORKD: "", "/etc/systemd/network/20-x.network": text})


def applied(kernel: Kernel, wish: Any, run: Run = APPLY) -> Any:
    outcome = apply(kernel, check_spec(wish), run, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    return outcome


def files_of(kernel: Kernel) -> set[str]:
    """The paths of all files; what systemd keeps while it runs is none."""
    return {path for path in kernel.state()["files"] if not path.startswith("/run/")}


def ids(kernel: Kernel, wish: Any) -> list[str]:
    plan = preview(kernel, check_spec(wish), CHECK, None)["plan"]
    return [step["id"] for step in plan["steps"] if step["concern"] in {"boot", "leftovers"}]


def wishes_of(*interfaces: Any, state: Any = None, **changes: Any) -> Any:
    """What the boot unit is to do for wanted interfaces, None when there is no step for it."""
    plan = make_plan(given.desired(*interfaces, **changes), state or given.two_ports())
    return next((step["to"] for step in plan["steps"] if step["id"] == f"boot:{UNIT_FILE}"), None)


class TestWishes:
    def test_what_the_kernel_forgets_is_selected_by_its_pci_function(self) -> None:
        wanted = given.interface(current_name="ens1", name="rail0", mtu=9000, state="up", vfs=4, vf_mtu=9000)
        assert wishes_of(wanted) == [{"pci": PF, "mtu": 9000, "state": "up", "vf_mtu": 9000, "vfs": 4}]

    def test_a_port_that_shares_its_function_is_selected_by_its_name(self) -> None:
        ports = [given.netdev("ens1", PF), given.netdev("ens1d1", PF, mac="a0:88:c2:47:11:d9", port_name="p1")]
        state = given.facts([given.nic(PF, netdevs=["ens1", "ens1d1"])], ports)
        wanted = given.interface(current_name="ens1d1", mtu=9000)
        assert wishes_of(wanted, state=state) == [{"current_name": "ens1d1", "mtu": 9000}]

    def test_names_are_kept_by_files_of_their_own(self) -> None:
        assert wishes_of(given.interface(pci=PF, name="rail0")) is None

    def test_nothing_asked_needs_no_unit(self) -> None:
        assert wishes_of() is None
        assert wishes_of(given.interface(pci=PF, vfs=0)) is None

    def test_a_virtual_machines_function_gets_none_of_its_own(self) -> None:
        state = given.facts([given.vf("0000:00:05.0", None, "ens5")], [given.netdev("ens5", "0000:00:05.0")])
        assert wishes_of(given.interface(pci="0000:00:05.0", vfs=4), state=state) is None

    def test_a_number_that_waits_for_consent_or_is_refused_stays_what_it_is(self) -> None:
        state = given.with_functions(given.two_ports(), PF, 2)
        assert wishes_of(given.interface(pci=PF, vfs=4), state=state) == [{"pci": PF, "vfs": 2}]
        assert wishes_of(given.interface(pci=PF, vfs=99), state=state) == [{"pci": PF, "vfs": 2}]
        assert wishes_of(given.interface(pci=PF, vfs=99)) is None

    def test_an_mtu_for_functions_that_are_not_made_is_left_out(self) -> None:
        assert wishes_of(given.interface(pci=PF, vf_mtu=9000)) is None

    @pytest.mark.parametrize("mtu", [9000, 9216])
    def test_a_port_keeps_the_mtu_that_it_has_of_others_for_its_functions(self, mtu: int) -> None:
        state = given.two_ports()
        state["netdevs"][0]["mtu"] = mtu
        wanted = given.interface(pci=PF, vfs=2, vf_mtu=9000)
        assert wishes_of(wanted, state=state) == [{"pci": PF, "mtu": mtu, "vf_mtu": 9000, "vfs": 2}]
        assert wishes_of(given.interface(pci=PF, vfs=2), state=state) == [{"pci": PF, "vfs": 2}]

    def test_a_port_gets_the_mtu_of_its_bond_for_its_functions(self) -> None:
        state = given.two_ports()
        state["netdevs"][0]["master"] = "bond0"
        state["netdevs"].append(given.netdev("bond0", None, kind="bond", lower=["ens1"]))
        wanted = given.interface(pci=PF, vfs=2, vf_mtu=9000)
        (wish, *_bond) = wishes_of(wanted, given.interface(current_name="bond0", mtu=9000), state=state)
        assert wish == {"pci": PF, "mtu": 9000, "vf_mtu": 9000, "vfs": 2}

    def test_a_port_keeps_its_mtu_for_a_function_with_an_entry_of_its_own(self) -> None:
        state = given.with_functions(given.two_ports(), PF, 1)
        state["netdevs"][0]["mtu"] = 9000
        own = given.interface(pci="0000:18:00.1", mtu=4200)
        assert wishes_of(given.interface(pci=PF, vfs=1), own, state=state) == [
            {"pci": PF, "mtu": 9000, "vfs": 1},
            {"pci": "0000:18:00.1", "pf": PF, "mtu": 4200},
        ]

    def test_an_mtu_of_functions_that_is_refused_now_is_not_tried_at_boot(self) -> None:
        assert wishes_of(given.interface(pci=PF, vfs=2, vf_mtu=9000)) == [{"pci": PF, "vfs": 2}]

    def test_a_managed_interface_is_only_prepared_for_its_functions(self) -> None:
        state = given.two_ports()
        file = {
            "path": "/etc/systemd/network/20-x.network",
            "set_by": {},
            "match": {"Name": ["ens1"]},
            "mtu": None,
            "activation": None,
            "unmanaged": False,
        }
        state["boot"]["managers"] = {"networkd": {"files": [file], "links": {}}}
        assert wishes_of(given.interface(pci=PF, mtu=9000, state="up"), state=state) is None
        with_functions = given.interface(pci=PF, mtu=9000, state="up", vfs=2, vf_mtu=9000)
        assert wishes_of(with_functions, state=state) == [{"pci": PF, "mtu": 9000, "vf_mtu": 9000, "vfs": 2}]


class TestPlan:
    def test_a_refusal_of_a_manager_is_a_refused_step(self) -> None:
        kernel = of_networkd("[Match]\nName=ens*\n[Link]\nMTUBytes=1500\n")
        plan = preview(kernel, check_spec(WISH), CHECK, None)["plan"]
        (step,) = [step for step in plan["steps"] if step["id"] == f"boot:{PORT}:systemd-networkd"]
        assert step["status"] == "refused"
        assert "/etc/systemd/network/20-x.network has MTUBytes=1500" in step["detail"]

    def test_what_is_made_after_the_boot_unit_has_run_is_refused_to_keep(self) -> None:
        state = given.two_ports()
        state["netdevs"].append(given.netdev("bond0", None, kind="bond"))
        plan = make_plan(given.desired(given.interface(current_name="bond0", mtu=9000)), state)
        (step,) = [step for step in plan["steps"] if step["concern"] == "boot"]
        assert (step["status"], step["reason"]) == ("refused", "no manager configures bond0 at boot")
        assert "next: set this where bond0 is created" in step["detail"]

    def test_a_failed_start_of_this_boot_is_told_until_it_succeeds(self) -> None:
        kernel = host()
        applied(kernel, WISH)
        kernel.tree.add_file(RESULT_FILE, RESULT.text({"boot_id": "5f2a", "ok": False, "problems": ["late"]}))
        (notice,) = preview(kernel, check_spec(WISH), CHECK, None)["plan"]["notices"]
        assert notice == "the boot unit finished with errors at the last boot: late"
        kernel.tree.add_file(BOOT_ID, "77\n")
        assert preview(kernel, check_spec(WISH), CHECK, None)["plan"]["notices"] == []

    @pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"problems": 7}'])
    def test_a_damaged_result_is_told_with_what_to_do(self, text: str) -> None:
        kernel = host(**{RESULT_FILE: text})
        with pytest.raises(BrokenState, match=f"{RESULT_FILE} does not hold .*; next: read the journal"):
            preview(kernel, check_spec(WISH), CHECK, None)
        start(kernel, kernel)
        assert not preview(kernel, check_spec(WISH), CHECK, None).get("failed")


def programs(kernel: Kernel) -> list[str]:
    return list(filter(is_program, (f"{PROGRAM_DIRECTORY}/{name}" for name in kernel.list(PROGRAM_DIRECTORY))))


class TestUnfit:
    """What the unit would keep is refused before the first step, where it could not be written or run."""

    OWN = "/home/deploy/python/bin/python3.12"

    @pytest.mark.parametrize(
        ("mounts", "enforcing", "reason"),
        [
            ("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:2 / /etc rw - erofs /dev/sda2 ro\n", "0", "mounted ro"),
            ("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:2 / /var/lib ro,nodev - xfs /dev/sda2 rw\n", "0", "mounted ro"),
            (
                "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:2 / /home rw,noexec - xfs /dev/sda2 rw\n",
                "0",
                "mounted noexec",
            ),
            ("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 0:44 / /home rw - nfs4 nas:/home rw\n", "0", "on the network"),
            ("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", "1", "SELinux"),
        ],
    )
    def test_nothing_is_set_that_the_next_boot_loses(self, mounts: str, enforcing: str, reason: str) -> None:
        kernel = host(**{self.OWN: "", "/proc/self/mountinfo": mounts, "/sys/fs/selinux/enforce": enforcing})
        kernel.tree.add_link("/proc/self/exe", self.OWN)
        outcome = apply(kernel, check_spec(WISH), APPLY, None, kernel)
        assert outcome.get("failed")
        assert {step["status"] for step in outcome["plan"]["steps"]} == {"refused"}
        assert {step["id"].partition(":")[0] for step in outcome["plan"]["steps"]} == {"boot", "mtu"}
        assert all(reason in step["detail"] for step in outcome["plan"]["steps"])
        assert outcome["executed"] == [] and not kernel.exists(UNIT_FILE)

    SHIPPED = (
        "%languages=application/java-archive,text/x-python\nallow perm=any uid=0 : dir=/var/tmp/\n"
        "allow perm=any uid=0 trust=1 : all\nallow perm=open exe=/usr/bin/python3.9 comm=dnf : all\n"
        "deny_audit perm=any pattern=ld_so : all\nallow perm=open all : ftype=application/x-sharedlib trust=1\n"
        "allow perm=open all : ftype=%languages trust=1\ndeny_audit perm=any all : ftype=%languages\n"
        "deny_audit perm=execute all : all\nallow perm=open all : all\n"
    )
    SITE = "allow perm=any all : trust=1\n{}deny_audit perm=any pattern=ld_so : all\ndeny perm=any all : all\n"

    @pytest.mark.parametrize(
        ("rules", "more", "is_told"),
        [
            (SITE.format(""), {}, True),
            (SITE.format("allow perm=execute exe=/usr/bin/bash trust=1 : dir=/var/tmp/ trust=0\n"), {}, True),
            (SITE.format("allow perm=open uid=0 : dir=/var/lib/rdma-fabric/program/\n"), {}, False),
            (SITE.format("allow perm=open exe=/usr/bin/python3.9 : ftype=text/plain trust=0 dir=%site\n"), {}, True),
            (SITE.format("allow perm=open exe=/usr/bin/python3.9 : all\n"), {}, False),
            (SITE.format("allow perm=open comm=ansible : all\n"), {}, False),
            (SITE.format(""), {"/etc/fapolicyd/fapolicyd.conf": "permissive = 1\n"}, False),
            (SITE.format(""), {"/etc/fapolicyd/trust.d/s": f"{PROGRAM_DIRECTORY}/host-1.pyz 1 2\n"}, False),
            (SHIPPED, {}, False),
            ("deny_audit perm=open all : ftype=%languages trust=0\n", {}, False),
        ],
    )
    def test_a_program_that_fapolicyd_denies_is_told_before_the_first_step(
        self, rules: str, more: dict[str, str], is_told: bool
    ) -> None:
        """fapolicyd 135 (what it ships) and 301, RHEL 9 with the STIG's rule to deny all at the end."""
        kernel = host(**{"/etc/fapolicyd/compiled.rules": rules, "/run/fapolicyd/fapolicyd.fifo": "", **more})
        outcome = apply(kernel, check_spec(WISH), APPLY, None, kernel)
        assert bool(outcome.get("failed")) == is_told
        assert kernel.exists(UNIT_FILE) != is_told
        reason = "fapolicyd does not let Python open what is in"
        assert all(reason in step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused")

    @pytest.mark.parametrize(
        ("unit", "is_told"),
        [
            ("remote-fs.target.requires/var-lib.mount", True),
            ("remote-fs.target.wants/var-lib.mount", True),
            ("local-fs.target.requires/var-lib.mount", False),
        ],
    )
    def test_a_place_that_systemd_mounts_after_the_network_is_told_before_the_first_step(
        self, unit: str, is_told: bool
    ) -> None:
        """systemd 3028 and 39459: what is on NFS, or of _netdev as on iSCSI, is mounted after networks are up."""
        mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:2 / /var/lib rw - ext4 /dev/sdb rw\n"
        kernel = host(**{"/proc/self/mountinfo": mounts, f"/run/systemd/generator/{unit}": ""})
        outcome = apply(kernel, check_spec(WISH), APPLY, None, kernel)
        refused = [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]
        assert bool(refused) == is_told
        assert all("is on /var/lib, which is on the network" in each for each in refused)

    @pytest.mark.parametrize(
        "mounts",
        [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 254:0 / /usr ro - btrfs /dev/mapper/usr ro\n",
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:2 / /etc/hosts ro - ext4 /dev/sda2 ro\n",
            "1 0 0:20 / / rw - nfs4 nas:/root rw\n",
        ],
    )
    def test_a_system_of_an_image_keeps_it(self, mounts: str) -> None:
        kernel = host(**{self.OWN: "", "/proc/self/mountinfo": mounts, "/sys/fs/selinux/enforce": "0"})
        kernel.tree.add_link("/proc/self/exe", self.OWN)
        assert not applied(kernel, WISH).get("failed")
        assert kernel.exists(ENABLED_BY)

    def test_what_needs_no_unit_is_done(self) -> None:
        mounts = "1 0 8:1 / /etc ro - ext4 /dev/sda1 rw\n"
        kernel = host(**{"/proc/self/mountinfo": mounts})
        assert applied(kernel, {"limits": {"memlock": 65536}})["executed"]

    def test_a_recording_has_what_tells_it(self) -> None:
        text = (
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:2 / /etc ro - xfs /dev/sda2 ro\n1 0 8:3 / /var/x ro - xfs a ro\n"
        )
        assert public_mounts(text).splitlines() == [
            "0 0 8:1 / / rw - disk none rw",
            "0 0 8:2 / /etc ro - disk none rw",
            "0 0 8:3 / /var rw - disk none rw",
        ]


class TestUnit:
    def test_it_comes_with_program_and_wishes_and_is_enabled(self) -> None:
        kernel = host()
        outcome = applied(kernel, WISH)
        assert outcome["plan"]["steps"] == []
        assert programs(kernel) == [program_path()]
        assert kernel.link(ENABLED_BY) == UNIT_FILE
        assert kernel.read(UNIT_FILE) == unit_text("/usr/bin/python3", program_path(), [{"mtu": 9000, "state": "up"}])
        assert json.loads(kernel.read(BOOT_SPEC_FILE)) == {
            "managed_by": MARKER,
            "format": 1,
            "interfaces": [{"pci": PORT, "mtu": 9000, "state": "up"}],
            "cards": {PORT: {"model": "0x15b3 0x1017", "serial": ""}},
        }

    def test_it_starts_before_whoever_uses_the_network_and_after_the_drivers(self) -> None:
        lines = dict(line.split("=", 1) for line in unit_text("/usr/bin/python3", "/p").splitlines() if "=" in line)
        before = set(lines["Before"].split())
        assert before >= {"network-pre.target", "kubelet.service", "containerd.service", "docker.service"}
        assert {"systemd-modules-load.service", "openibd.service"} <= set(lines["After"].split())
        assert lines["ExecStart"] == "/usr/bin/python3 -I -S /p boot"
        assert lines["DefaultDependencies"] == "no"

    def test_with_wicked_it_only_starts_before_what_brings_interfaces_up(self) -> None:
        """openibd.service of MLNX_OFED starts after wickedd.service, and that after network-pre.target: a cycle."""
        kernel = host(**{"/etc/systemd/system/multi-user.target.wants/wicked.service": ""})
        applied(kernel, WISH)
        text = kernel.read(UNIT_FILE)
        lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        assert "network-pre.target" not in text
        assert {"wicked.service", "kubelet.service"} <= set(lines["Before"].split())
        assert "openibd.service" in lines["After"].split()

    def test_the_interpreter_that_runs_the_module_runs_the_unit(self) -> None:
        kernel = host(**{"/opt/python/bin/python3.12": ""})
        kernel.tree.add_link("/proc/self/exe", "/opt/python/bin/python3.12")
        applied(kernel, WISH)
        assert "ExecStart=/opt/python/bin/python3.12 -I -S" in kernel.read(UNIT_FILE)

    @pytest.mark.parametrize(("general", "used"), [("python3.9", True), ("python3.6", False), ("python3.13", True)])
    @pytest.mark.parametrize("own", ["/home/deploy/.pyenv/versions/3.12.1/bin/python3.12", "/usr/bin/python3.12"])
    def test_an_interpreter_of_a_user_and_a_second_one_give_way_to_the_one_of_the_system(
        self, general: str, used: bool, own: str
    ) -> None:
        kernel = host(**{own: "", f"/usr/bin/{general}": ""})
        kernel.tree.add_link("/usr/bin/python3", general)
        kernel.tree.add_link("/proc/self/exe", own)
        applied(kernel, WISH)
        text = kernel.read(UNIT_FILE)
        assert f"ExecStart={'/usr/bin/python3' if used else own} -I -S" in text
        assert f"{PROGRAM_DIRECTORY} {'/usr/bin' if used else own[: own.rindex('/')]}\n" in text, "it is mounted before"

    def test_its_general_name_is_used_where_it_leads_there(self) -> None:
        kernel = host(**{"/usr/bin/python3.11": ""})
        kernel.tree.add_link("/usr/bin/python3", "python3.11")
        kernel.tree.add_link("/proc/self/exe", "/usr/bin/python3.11")
        applied(kernel, WISH)
        assert "ExecStart=/usr/bin/python3 -I -S" in kernel.read(UNIT_FILE)

    def test_an_interpreter_that_was_replaced_meanwhile_is_followed_by_its_successor(self) -> None:
        kernel = host(**{"/usr/bin/python3.11": ""})
        kernel.tree.add_link("/usr/bin/python3", "python3.11")
        kernel.tree.add_link("/proc/self/exe", "/usr/bin/python3.11 (deleted)")
        applied(kernel, WISH)
        assert "ExecStart=/usr/bin/python3 -I -S" in kernel.read(UNIT_FILE)

    def test_a_disabled_one_is_enabled_again(self) -> None:
        kernel = host()
        applied(kernel, WISH)
        kernel.tree.discard(ENABLED_BY)
        assert ids(kernel, WISH) == [f"boot:{UNIT_FILE}"]
        applied(kernel, WISH)
        assert kernel.exists(ENABLED_BY)

    def test_the_program_of_another_release_is_replaced(self) -> None:
        kernel = host()
        applied(kernel, WISH)
        kernel.tree.add_file(f"{PROGRAM_DIRECTORY}/host-0123456789abcdef.pyz", "old")
        applied(kernel, WISH)
        assert programs(kernel) == [program_path()]

    def test_it_goes_when_nothing_is_left_for_it(self) -> None:
        kernel = host()
        before = files_of(kernel)
        applied(kernel, WISH)
        start(kernel, kernel)
        applied(kernel, {"interfaces": []})
        assert files_of(kernel) - before == {"/var/lib/rdma-fabric/baseline.json", REACHED}
        assert not kernel.tree.links.get(ENABLED_BY)

    def test_a_removal_takes_everything_of_it(self) -> None:
        kernel = host()
        before, links = files_of(kernel), kernel.state()["links"]
        applied(kernel, WISH)
        start(kernel, kernel)
        applied(kernel, {}, REMOVE)
        assert (files_of(kernel), kernel.state()["links"]) == (before, links)

    @pytest.mark.slow
    @pytest.mark.parametrize("make", [host, of_networkd])
    def test_whatever_disturbs_the_run_the_next_one_gets_there(self, make: Any) -> None:
        assert sweep(make, lambda kernel: apply(kernel, check_spec(WISH), APPLY, None, kernel)) > 3

    @pytest.mark.slow
    def test_whatever_disturbs_the_removal_the_next_one_gets_there(self) -> None:
        def installed() -> Kernel:
            kernel = host()
            applied(kernel, WISH)
            start(kernel, kernel)
            kernel.revive()
            return kernel

        assert sweep(installed, lambda kernel: apply(kernel, check_spec({}), REMOVE, None, kernel)) > 5


class TestManagers:
    def test_a_managers_file_is_written_lowered_and_removed(self) -> None:
        kernel = of_networkd()
        assert ids(kernel, WISH) == [f"boot:{DROP_IN}"]
        applied(kernel, WISH)
        assert kernel.read(DROP_IN) == f"# {MARKER}\n[Link]\nMTUBytes=9000\n"
        assert ids(kernel, WISH) == []
        lower = {"interfaces": [{"pci": PORT, "mtu": 1500}]}
        assert ids(kernel, lower) == [f"boot:{DROP_IN}"]
        applied(kernel, lower)
        assert "MTUBytes=1500" in kernel.read(DROP_IN)
        (step,) = preview(kernel, check_spec({}), CHECK, None)["plan"]["steps"]
        assert (step["id"], step["when"]) == (f"leftovers:{DROP_IN}", "boot")
        assert step["interrupts"] == "MTU 1500 that it keeps, from the next boot on"
        applied(kernel, {})
        assert not kernel.exists(DROP_IN.rpartition("/")[0])

    def test_a_file_that_somebody_changed_is_written_again(self) -> None:
        kernel = of_networkd()
        applied(kernel, WISH)
        kernel.tree.add_file(DROP_IN, f"# {MARKER}\n[Link]\nMTUBytes=4200\n")
        applied(kernel, WISH)
        assert "MTUBytes=9000" in kernel.read(DROP_IN)

    def test_an_interface_that_gets_a_manager_leaves_the_boot_unit(self) -> None:
        kernel = host()
        applied(kernel, WISH)
        kernel.tree.add_file(NETWORKD, "")
        kernel.tree.add_file("/etc/systemd/network/20-x.network", "[Match]\nName=ens2f0\n")
        applied(kernel, WISH)
        assert kernel.exists(DROP_IN)
        assert not kernel.exists(UNIT_FILE)


class TestStart:
    def started(self, kernel: Kernel) -> Any:
        start(kernel, kernel)
        document: Any = json.loads(kernel.read(RESULT_FILE))
        return document

    def forgetful(self) -> Kernel:
        """A host after a reboot: everything is as the kernel makes it, and the files are still there."""
        done, kernel = host(), host()
        applied(done, WISH)
        kernel.tree.add_file(BOOT_SPEC_FILE, done.read(BOOT_SPEC_FILE))
        return kernel

    def first_change(self) -> int:
        """The number of the first mutation after the result says that the unit runs, and after the wait for udev."""
        calm = self.forgetful()
        start(calm, calm)
        return next(
            i for i, (_kind, what) in enumerate(calm.mutations) if "udevadm" not in what and not what.startswith("/var")
        )

    def test_the_running_host_gets_what_it_had(self) -> None:
        kernel = self.forgetful()
        result = self.started(kernel)
        assert (result["ok"], result["boot_id"], len(result["executed"])) == (True, "5f2a", 1)
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "9000\n"
        assert self.started(kernel)["executed"] == []

    def test_a_consented_uplink_gets_what_it_had_where_its_route_is_there_already(self) -> None:
        """As where the initramfs brings the network up: for a root over NFS or iSCSI."""
        done, kernel = host(), host()
        for machine in (done, kernel):
            tree = Tree(hostname="egx-01", stand_in="")
            add_routes(tree, "ens2f0", "192.0.2.7/24", "192.0.2.1")
            for path, text in tree.files.items():
                machine.tree.add_file(path, text)
        applied(done, {**WISH, "consents": {"uplink_change": True}})
        kernel.tree.add_file(BOOT_SPEC_FILE, done.read(BOOT_SPEC_FILE))
        assert self.started(kernel)["problems"] == []
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "9000\n"

    def test_files_and_other_concerns_are_left_alone(self) -> None:
        kernel = self.forgetful()
        self.started(kernel)
        changed = {what for kind, what in kernel.mutations if kind != "run"}
        assert {path for path in changed if not path.startswith("/var")} == set()

    def test_a_function_that_appears_late_is_waited_for(self) -> None:
        kernel = self.forgetful()
        place = kernel.tree.links[f"/sys/bus/pci/devices/{PORT}"]
        kernel.tree.discard(f"/sys/bus/pci/devices/{PORT}")
        kernel.later(20, lambda: kernel.tree.add_link(f"/sys/bus/pci/devices/{PORT}", place))
        assert self.started(kernel)["ok"]
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "9000\n"

    def test_a_function_that_never_appears_is_told_and_the_others_are_served(self) -> None:
        wishes = {"format": 1, "interfaces": [{"pci": "0000:ff:00.0", "mtu": 9000}, {"pci": PORT, "mtu": 9000}]}
        kernel = host(**{BOOT_SPEC_FILE: json.dumps(wishes)})
        result = self.started(kernel)
        assert not result["ok"]
        assert result["problems"] == ["0000:ff:00.0: there is no such PCI function after 90 seconds"]
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "9000\n"
        assert kernel.now() < 120

    def test_an_interface_that_is_not_there_is_told_without_a_wait(self) -> None:
        wishes = {"format": 1, "interfaces": [{"current_name": "bond0", "mtu": 9000}, {"pci": PORT, "mtu": 9000}]}
        kernel = host(**{BOOT_SPEC_FILE: json.dumps(wishes)})
        result = self.started(kernel)
        assert result["problems"] == ["bond0: there is no such interface"]
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "9000\n"
        assert kernel.now() < 10

    @pytest.mark.parametrize("wanted", [{"mtu": 9000}, {"queues": {"channels": 8}}])
    def test_the_wait_is_for_driver_and_interface_too(self, wanted: Any) -> None:
        wishes = {"format": 1, "interfaces": [{"pci": PORT, **wanted}]}
        kernel = host(**{BOOT_SPEC_FILE: json.dumps(wishes)})
        kernel.tree.discard(kernel.realpath(f"/sys/bus/pci/devices/{PORT}") + "/net")
        kernel.tree.discard("/sys/class/net/ens2f0")
        assert "0000:37:00.0: it has no network interface after 90 seconds" in self.started(kernel)["problems"]

    def test_a_fault_is_in_the_result_with_what_to_do(self) -> None:
        kernel = self.forgetful()
        kernel.disturb(self.first_change(), "EIO")
        (problem,) = self.started(kernel)["problems"]
        assert "set the MTU to 9000" in problem
        assert "next: " in problem

    def test_wishes_that_can_not_be_read_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = self.forgetful()
        known = kernel.read

        def read(path: str) -> str:
            if path == BOOT_SPEC_FILE:
                raise HostError("EIO", path)
            return known(path)

        monkeypatch.setattr(kernel, "read", read)
        result = self.started(kernel)
        assert (result["ok"], result["executed"]) == (False, [])
        assert BOOT_SPEC_FILE in result["problems"][0] and "; next: " in result["problems"][0]

    def test_a_disk_that_is_full_does_not_keep_the_host_from_its_settings(self) -> None:
        kernel = self.forgetful()
        kernel.disturb(self.first_change() + 1, "ENOSPC")
        outcome = start(kernel, kernel)
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "9000\n"
        assert "the result could not be kept" in outcome.problems[-1]

    def test_one_that_is_killed_leaves_word(self) -> None:
        kernel = self.forgetful()
        kernel.disturb(self.first_change(), KILL)
        with pytest.raises(Killed):
            start(kernel, kernel)
        kernel.revive()
        (notice,) = preview(kernel, check_spec({}), CHECK, None)["plan"]["notices"]
        assert "the boot unit did not finish when this host booted" in notice
        assert f"journalctl -b -u {UNIT}" in notice

    def test_a_port_that_fails_keeps_no_other_from_its_settings(self) -> None:
        other = "0000:37:00.1"
        entries = [{"pci": address, "mtu": 9000, "state": "up"} for address in (PORT, other)]
        kernel = host(**{BOOT_SPEC_FILE: json.dumps({"format": 1, "interfaces": entries})})
        for name in ("ens2f0", "ens2f1"):
            kernel.tree.add_file(f"/sys/class/net/{name}/flags", "0x1002\n")
        kernel.disturb(self.first_change(), "EIO")
        result = self.started(kernel)
        assert kernel.read("/sys/class/net/ens2f0/mtu") == "1500\n"
        assert kernel.read("/sys/class/net/ens2f1/mtu") == "9000\n"
        assert [problem.split(": ")[0] for problem in result["problems"]] == ["planned", "not reached"]
        assert all(PORT in problem for problem in result["problems"])

    def test_the_unit_is_named_in_a_notice_without_details(self) -> None:
        kernel = host()
        applied(kernel, WISH)
        kernel.tree.add_file(RESULT_FILE, RESULT.text({"boot_id": "5f2a", "ok": False}))
        (notice,) = preview(kernel, check_spec(WISH), CHECK, None)["plan"]["notices"]
        assert UNIT in notice
