# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller says of the plan of a host: programs that read once, and VFs that RDMA-CM does not find."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import _REMEDIES, explained

PCI, VF = "0000:18:00.0", "0000:18:00.2"
_PYTHON = "ansible_python_interpreter"
UNLIMITED = {"memlock": "unlimited", "nofile": 1048576}


def step(key: str, **more: Any) -> dict[str, Any]:
    words = {"concern": "c", "action": "act", "interrupts": "nothing", "consent": None}
    return {"id": key, "status": "planned", "when": "now", "target": PCI, "from": None, "detail": "", **words, **more}


def answer(*steps: dict[str, Any], executed: tuple[dict[str, str], ...] = (), **facts: Any) -> dict[str, Any]:
    plan = {"steps": list(steps), "notices": ["of the host"]}
    return {"facts": {"nics": [], "netdevs": [], "rdma": [], **facts}, "plan": plan, "executed": list(executed)}


def said(result: dict[str, Any], **desired: Any) -> list[str]:
    first, *notices = explained(result, desired)["plan"]["notices"]
    assert first == "of the host"
    return list(notices)


class TestStartedBefore:
    def running(self, **limits: Any) -> dict[str, Any]:
        unit = "snap.microk8s.daemon-containerd.service"
        return answer(settings={"limits": {"units": {unit: {"limits": {}, "running": limits or None}}}})

    def test_a_runtime_with_lower_limits_is_named(self) -> None:
        (notice,) = said(self.running(memlock=8388608, nofile=524288), limits=UNLIMITED)
        assert notice == (
            "snap.microk8s.daemon-containerd.service runs with memlock 8192 KiB, nofile 524288 until it is started "
            "again: systemctl restart snap.microk8s.daemon-containerd.service"
        )

    @pytest.mark.parametrize(
        "now", [{"memlock": "infinity", "nofile": 1048576}, {"memlock": None, "nofile": 2097152}, {}]
    )
    def test_one_that_has_them_is_not(self, now: dict[str, Any]) -> None:
        assert said(self.running(**now), limits=UNLIMITED) == []

    def test_kibibytes_are_compared_with_bytes(self) -> None:
        assert said(self.running(memlock=65536 * 1024), limits={"memlock": 65536, "nofile": None}) == []
        assert len(said(self.running(memlock=65536), limits={"memlock": 65536, "nofile": None})) == 1

    def test_a_kubelet_counts_pages_when_it_starts(self) -> None:
        settings = {"hugepages": {"kubelets": ["k3s-agent.service"]}}
        (notice,) = said(answer(step("hugepages:2Mi"), settings=settings))
        assert notice.endswith("until systemctl restart k3s-agent.service")
        executed = {"id": "hugepages:2Mi:1", "line": "planned: hugepages [now; interrupts nothing]"}
        assert said(answer(executed=(executed,), settings=settings)) == [notice], "and so in the run that reserves them"
        assert said(answer(step("hugepages:/etc/tmpfiles.d/x.conf"), settings=settings)) == []
        assert said(answer(step("hugepages:2Mi"), settings={"hugepages": {"kubelets": []}})) == []

    def test_running_containers_have_no_new_device_files(self) -> None:
        (notice,) = said(answer(step("modules:rdma_ucm", when="now+boot"), step("modules:br_netfilter")))
        assert "no device file of rdma_ucm yet" in notice
        assert said(answer(step("modules:rdma_ucm", when="boot"))) == []
        assert said(answer(executed=({"id": "modules:rdma_ucm", "line": "modules [boot; interrupts nothing]"},))) == []

    def test_a_device_plugin_keeps_the_former_functions(self) -> None:
        (notice,) = said(answer(step(f"vfs:{PCI}", **{"from": 4})))
        assert "former VFs of 0000:18:00.0" in notice
        assert said(answer(step(f"vfs:{PCI}", **{"from": 0}))) == []


class TestFunctionsWithoutGuid:
    def port(self, guid: str | None = None, **nic: Any) -> dict[str, Any]:
        there = [] if guid is None else [VF]
        port = {"address": PCI, "vendor": "15b3", "link_layer": "Ethernet", "rdma": ["mlx5_0"], "function": "pf"}
        rdma = [] if guid is None else [{"pci": VF, "node_guid": guid}]
        return answer(
            nics=[{**port, "netdevs": ["rail0"], "sriov": {"vfs": there}, **nic}],
            netdevs=[{"name": "rail0", "pci": PCI, "mac": "a0:88:c2:00:00:01"}],
            rdma=rdma,
        )

    @pytest.mark.parametrize("entry", [{"pci": PCI}, {"current_name": "rail0"}, {"mac": "a0:88:c2:00:00:01"}])
    @pytest.mark.parametrize("guid", [None, "0000:0000:0000:0000"])
    def test_they_are_named_with_the_key_that_gives_them_one(self, guid: str | None, entry: dict[str, str]) -> None:
        (notice,) = said(self.port(guid), interfaces=[{**entry, "vfs": 1}])
        assert "node GUID 0" in notice
        assert "vf_settings: {mac: deterministic}" in notice

    @pytest.mark.parametrize(
        ("nic", "entry"),
        [
            ({}, {"vf_settings": {"mac": "deterministic"}}),
            ({}, {"vf_driver": "vfio-pci"}),
            ({}, {"vfs": 2, "vf_settings": {"0-1": {"mac": "deterministic"}}}),
            ({}, {"vfs": 2, "vf_driver": {"1": "vfio-pci"}, "vf_settings": {"0": {"mac": "deterministic"}}}),
            ({}, {"vfs": 0}),
            ({}, {"pci": "0000:19:00.0"}),
            ({"link_layer": "InfiniBand"}, {}),
            ({"rdma": []}, {}),
            ({"vendor": "8086"}, {}),
        ],
    )
    def test_others_are_not(self, nic: dict[str, Any], entry: dict[str, Any]) -> None:
        assert said(self.port(**nic), interfaces=[{"pci": PCI, "vfs": 1, **entry}]) == []

    def test_those_outside_of_a_range_are(self) -> None:
        entry = {"pci": PCI, "vfs": 2, "vf_driver": {"1": "vfio-pci"}}
        assert len(said(self.port(), interfaces=[entry])) == 1

    def test_one_that_has_a_guid_is_not(self) -> None:
        assert said(self.port("a088:c203:0000:0001"), interfaces=[{"pci": PCI, "vfs": 1}]) == []
        assert len(said(self.port("a088:c203:0000:0001"), interfaces=[{"pci": PCI, "vfs": 2}])) == 1


class TestNames:
    PORT: ClassVar[dict[str, Any]] = {
        "nics": [{"address": PCI, "netdevs": ["enp24s0np0"], "vendor": "15b3", "path": [], "link": {}, "rdma": []}],
        "netdevs": [{"name": "enp24s0np0", "pci": PCI, "mac": "a0:88:c2:00:00:01", "other_names": ["ens1np0"]}],
    }

    @pytest.mark.parametrize(
        ("here", "others", "name", "told"),
        [
            # openshift/openshift-docs 60041, harvester/harvester 9877: a driver or kernel that adds the port's number.
            ("ens7f0np0", [], "ens7f0", "it is what another kernel or driver calls ens7f0np0: write ens7f0np0"),
            ("ens7f0np0", ["enp6s0f0np0"], "enp6s0f0", "it is what another kernel or driver calls ens7f0np0"),
            # coreos/fedora-coreos-tracker 553: the former name stayed, and the new one is an alternative name.
            ("ens7f0", ["ens7f0np0"], "ens7f0np0", "it is an alternative name of ens7f0: write ens7f0"),
            # Mellanox/doca-driver-build, entrypoint.sh: the container cuts the number of the port from VFs as well.
            ("enp8s0f0v12", [], "enp8s0f0np1v12", "it is what another kernel or driver calls enp8s0f0v12"),
            ("enp8s0f0np0v12", [], "enp8s0f0v12", "it is what another kernel or driver calls enp8s0f0np0v12"),
            ("enp8s0f0np0v12", [], "enp8s0f0v1", "nearest here: enp8s0f0np0v12"),
        ],
    )
    def test_a_name_of_another_release_is_told_the_one_of_now(
        self, here: str, others: list[str], name: str, told: str
    ) -> None:
        nic = {**self.PORT["nics"][0], "netdevs": [here]}
        netdev = {**self.PORT["netdevs"][0], "name": here, "other_names": others}
        refused = step(f"naming:current_name={name}", status="refused", detail="this host has no such interface")
        (found,) = explained(answer(refused, nics=[nic], netdevs=[netdev]), {})["plan"]["steps"]
        assert found["detail"].startswith(f"this host has no such interface; {told}")

    @pytest.mark.parametrize(
        ("selector", "told"),
        [
            ("current_name=ens1np0", "it is an alternative name of enp24s0np0: write enp24s0np0"),
            ("current_name=enp25s0np0", "nearest here: enp24s0np0"),
            ("pci=0000:18:00.1", "nearest here: 0000:18:00.0 (enp24s0np0)"),
        ],
    )
    def test_an_entry_without_interface_is_told_what_it_names(self, selector: str, told: str) -> None:
        refused = step(f"naming:{selector}", status="refused", detail="this host has no such interface")
        other = step("naming:mac=a0:88:c2:00:00:09", status="refused", detail="this host has no such interface")
        first, second = explained(answer(refused, other, **self.PORT), {})["plan"]["steps"]
        assert first["detail"].startswith(f"this host has no such interface; {told}")
        assert "nearest here: a0:88:c2:00:00:01 (enp24s0np0); next: correct the entry" in second["detail"]
        (none,) = explained(answer(other, netdevs=[]), {})["plan"]["steps"]
        assert none["detail"].startswith("this host has no such interface; next: ")

    def test_a_policy_by_an_alternative_name_is_told_the_other(self) -> None:
        notice = "p selects this host and none of its ports (by name: ens1np0, ens9; alternative names do not count)"
        found = {**answer(**self.PORT), "plan": {"steps": [], "notices": [notice]}}
        (told,) = explained(found, {})["plan"]["notices"]
        assert told == f"{notice}; ens1np0: it is an alternative name of enp24s0np0: write enp24s0np0"


def test_each_remedy_is_for_words_of_the_host() -> None:
    sources = (Path(__file__).parents[3] / "plugins/module_utils/_host").rglob("*.py")
    trees = [ast.parse(path.read_text("utf-8")) for path in sources]
    said = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    words = [each for each in said if isinstance(each, str)]
    assert [part for part in _REMEDIES if not any(part in each for each in words)] == []


class TestRemedies:
    def refused(self, detail: str, system: str = "rhel") -> dict[str, Any]:
        found = answer(step("boot:x", status="refused", detail=detail), system={"os": {"id": system}})
        line = describe(found["plan"]["steps"][0])
        return {**found, "msg": f"refused:\n  - {line}", "diff": {"prepared": f"{line}\n"}}

    @pytest.mark.parametrize(
        ("detail", "system", "remedy"),
        [
            ("it could not run: /etc/x is on /etc, which is mounted ro", "rhel", "mount it writable"),
            ("it could not run: /home/d/p is a user's, and SELinux lets systemd start nothing there", "rhel", _PYTHON),
            ("it could not run: /apps/p is on /apps, which is on the network", "rhel", _PYTHON),
            ("no supported boot loader was found", "flatcar", "/oem/grub.cfg"),
            ("no supported boot loader was found", "void", "have the boot loader of this host pass it"),
        ],
    )
    def test_a_refusal_says_what_to_do_wherever_it_is_told(self, detail: str, system: str, remedy: str) -> None:
        found = explained(self.refused(detail, system), {})
        texts = (found["plan"]["steps"][0]["detail"], found["msg"], found["diff"]["prepared"])
        assert all(f"{detail}; next: " in text and remedy in text for text in texts)

    @pytest.mark.parametrize(
        ("file", "switch"),
        [
            ("/etc/netplan/50-cloud-init.yaml", "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg"),
            ("/etc/network/interfaces.d/50-cloud-init", "network: {config: disabled}"),
            ("/etc/NetworkManager/system-connections/cloud-init-eth0.nmconnection", "user data"),
            ("/run/systemd/network/10-netplan-eth0.network", "netplan generate"),
            ("/run/NetworkManager/system-connections/netplan-eth0.nmconnection", "netplan generate"),
            ("/etc/netplan/90-NM-f2a1.yaml", "nmcli connection modify"),
            ("/run/NetworkManager/system-connections/default_connection.nmconnection", "kernel arguments"),
            ("/usr/lib/tuned/throughput-performance/tuned.conf", "reapply_sysctl = 1"),
            ("/etc/udev/rules.d/10-pf-name-0000:d8:00.0.rules", "SR-IOV operator"),
            ("/usr/lib/udev/rules.d/60-site.rules", "/dev/null"),
            ("/etc/udev/rules.d/82-net-setup-link.rules", "/dev/null"),
        ],
    )
    def test_who_writes_a_file_again_is_named_with_its_own_switch(self, file: str, switch: str) -> None:
        detail = f"/etc/a, {file} know it as eth0; next: configure rail0 there as well"
        (told,) = explained(self.refused(detail), {})["plan"]["steps"]
        assert told["detail"].startswith(f"{detail}; ") and file in told["detail"][len(detail) :]
        assert switch in told["detail"]
        noted = {**answer(), "plan": {"steps": [], "notices": [f"{file} still has eth0; remove it there"]}}
        assert switch in explained(noted, {})["plan"]["notices"][0]

    @pytest.mark.parametrize(("daemon", "is_told"), [("openshift/machine-config-daemon-abcde", True), (None, False)])
    def test_what_the_machine_config_daemon_keeps_is_changed_there(self, daemon: str | None, is_told: bool) -> None:
        """openshift/machine-config-operator, issue 260: content mismatch for file; okd-project/okd, issue 411."""
        theirs = "/etc/sysctl.d/99-performance.conf"
        files: dict[str, Any] = {"owners": {"machine_config": {"daemon": daemon, "files": [theirs]}}}
        detail = f"{theirs} is applied after ours and sets it to 1: remove it there"
        found = explained(answer(step("sysctl:x", status="refused", detail=detail), **files), {})
        assert ("its MachineConfig has it" in found["plan"]["steps"][0]["detail"]) == is_told
        assert len(said(answer(step(f"sysctl:{theirs}"), **files))) == is_told
        assert said(answer(step("sysctl:/etc/sysctl.d/9"), **files)) == []

    def test_a_file_of_the_user_is_nobody_elses(self) -> None:
        detail = "/etc/netplan/60-fabric.yaml knows it as eth0; next: configure rail0 there as well"
        assert explained(self.refused(detail), {}) == self.refused(detail)

    def test_one_that_nothing_more_is_known_of_stays(self) -> None:
        refused = self.refused("it has no network interface")
        assert explained(refused, {}) == refused


def test_an_answer_without_a_plan_stays_as_it_is() -> None:
    assert explained({"failed": True, "msg": "x"}, {}) == {"failed": True, "msg": "x"}
