# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that the host's own configuration makes, too: another number of VFs is refused, the same one is told."""

from __future__ import annotations

import re
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.tests.unit._host import mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import PF as CONNECTX
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    MAC,
    PF,
    REMOVE,
    applied,
    booted,
    guest,
    previewed,
    wish,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

ETHERNETS = "network:\n  version: 2\n  ethernets:\n"
NETPLAN, PROFILE = "/etc/netplan/50-site.yaml", "/etc/NetworkManager/system-connections/rail.nmconnection"
RULES = "/etc/udev/rules.d/80-sriov.rules"
LINK, STANZAS = "/etc/systemd/network/30-rail.link", "/etc/network/interfaces"
NUMBER = "/sys/class/net/{port}/device/sriov_numvfs"
WRITE = f"    pre-up echo 0 > {NUMBER}\n    up echo 8 > {NUMBER}\n"
# netplan's examples/sriov.yaml and sriov_vlan.yaml, nm-settings-keyfile(5), test/test-network/conf/25-sriov.link of
# systemd: with other names and numbers.
EIGHT = {
    "netplan": (NETPLAN, f"{ETHERNETS}    enp1s0f0:\n      virtual-function-count: 8\n      dhcp4: true\n"),
    "netplan, on one line": (NETPLAN, f"{ETHERNETS}    enp1s0f0: {{dhcp4: true, virtual-function-count: 8}}\n"),
    "netplan, by address": (
        NETPLAN,
        f'{ETHERNETS}    rail:\n      match:\n        macaddress: "{MAC}"\n      virtual-function-count: 8 # all\n',
    ),
    "netplan, by its VFs": (
        NETPLAN,
        f"{ETHERNETS}    enp1s0f0: {{}}\n" + "".join(f"    v{n}:\n      link: enp1s0f0\n" for n in range(8)),
    ),
    "NetworkManager": (PROFILE, "[connection]\ninterface-name=enp1s0f0\n[sriov]\ntotal-vfs=8\n"),
    "NetworkManager, by address": (PROFILE, f"[ethernet]\nmac-address={MAC.upper()}\n[sriov]\ntotal-vfs=8\n"),
    "NetworkManager itself": (
        "/usr/lib/NetworkManager/conf.d/10-vfs.conf",
        "[device-x]\nmatch-device=interface-name:enp9*, driver:igb\nsriov-num-vfs=8\n",
    ),
    "NetworkManager itself, for all": ("/etc/NetworkManager/conf.d/10-vfs.conf", "[device]\nsriov-num-vfs=8\n"),
    "ifupdown": (STANZAS, f"iface enp1s0f0 inet manual\n{WRITE.format(port='enp1s0f0')}"),
    "ifupdown, by its variable": (f"{STANZAS}.d/rail", f"iface enp1s0f0 inet manual\n{WRITE.format(port='$IFACE')}"),
    "ifupdown, by its VF": (
        STANZAS,
        f"iface lo inet loopback\n    post-up echo 8 >/sys/bus/pci/devices/{PF}/sriov_numvfs || true\n",
    ),
    "udev": (RULES, f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{PF}", ATTR{{device/sriov_numvfs}}="8"\n'),
    "sysfsutils": ("/etc/sysfs.d/sriov.conf", "class/net/enp1s0f0/device/sriov_numvfs = 8\n"),
    "rc.local": ("/etc/rc.local", f"#!/bin/sh -e\nPORT='enp1s0f0'\n{WRITE.format(port='${PORT}')}"),
    "a script of NetworkManager": (
        "/etc/NetworkManager/dispatcher.d/50-vfs",
        f'#!/bin/sh\n[ "$2" = up ] && echo 8 > /sys/bus/pci/devices/{PF}/sriov_numvfs\n',
    ),
    "a condition on the interface": (
        "/etc/network/if-up.d/vfs",
        f'#!/bin/sh\nif [ "$IFACE" = "enp1s0f0" ]; then\n{WRITE.format(port="$IFACE")}fi\n',
    ),
    "a condition that ends the script": (
        "/etc/network/if-up.d/vfs",
        f'#!/bin/sh\n[ "${{IFACE}}" = enp1s0f0 ] || exit 0\n{WRITE.format(port="${IFACE}")}',
    ),
    "a case of the interface": (
        "/etc/NetworkManager/dispatcher.d/50-vfs",
        f'#!/bin/sh\ncase "$1" in\n  lo)\n    exit 0 ;;\n  enp1s0f0|enp9s0)\n{WRITE.format(port="$1")}    ;;\nesac\n',
    ),
    "systemd": (LINK, f"[Match]\nPath=pci-{PF}\n[Link]\nSR-IOVVirtualFunctions=8\n"),
    "systemd, by its VFs": (LINK, f"[Match]\nMACAddress={MAC}\n[SR-IOV]\nVirtualFunction=7\nTrust=yes\n"),
}
NONE = {
    "another port of netplan": (NETPLAN, f"{ETHERNETS}    enp1s0f1:\n      virtual-function-count: 8\n"),
    "a comment": (NETPLAN, f"{ETHERNETS}    enp1s0f0:\n      # virtual-function-count: 8\n      dhcp4: true\n"),
    "a VLAN": (NETPLAN, "network:\n  vlans:\n    v1:\n      id: 1\n      link: enp1s0f0\n"),
    "another profile": (PROFILE, "[connection]\ninterface-name=enp1s0f1\n[sriov]\ntotal-vfs=8\n"),
    "another device of NetworkManager": (
        "/etc/NetworkManager/conf.d/10-vfs.conf",
        "[device]\nmatch-device=interface-name:enp9*\nsriov-num-vfs=8\n[connection]\nsriov-num-vfs=8\n",
    ),
    "a stanza of another port": (STANZAS, f"iface enp1s0f1 inet manual\n{WRITE.format(port='$IFACE')}"),
    "a condition on another interface": (
        "/etc/network/if-up.d/vfs",
        f'[ "$IFACE" = enp1s0f0 ] && exit 0\nif [ "$IFACE" = enp1s0f0 ]; then\n  exit\n'
        f'elif [ "$IFACE" = enp9s0 ]; then\n{WRITE.format(port="$IFACE")}fi\n',
    ),
    "a case of another interface": (
        "/etc/NetworkManager/dispatcher.d/50-vfs",
        f'case "$1" in\nenp1s0f0)\n  exit\n;;\n*)\n{WRITE.format(port="$1")};;\nesac\n',
    ),
    "what ifdown does": (
        STANZAS,
        "iface enp1s0f0 inet manual\n    down echo 0 > /sys/class/net/$IFACE/device/sriov_numvfs\n",
    ),
    "a rule of another port": (
        RULES,
        'ACTION=="add", SUBSYSTEM=="net", KERNELS=="0000:ff:00.0", ATTR{device/sriov_numvfs}="8"\n',
    ),
    "a comment in rc.local": ("/etc/rc.local", f"#!/bin/sh\n# echo 8 > {NUMBER.format(port='enp1s0f0')}\n"),
    "another card": (LINK, "[Match]\nPath=pci-0000:ff:00.0\n[Link]\nSR-IOVVirtualFunctions=8\n"),
    "no number": (PROFILE, "[connection]\ninterface-name=enp1s0f0\n[sriov]\nautoprobe-drivers=0\n"),
}


def host(path: str, text: str) -> Kernel:
    tree = guest()
    tree.files[path] = text
    return booted(tree)


def refusals(outcome: Mapping[str, Any]) -> list[str]:
    return [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]


@pytest.mark.parametrize("owner", EIGHT)
def test_another_number_is_refused_with_the_file(owner: str) -> None:
    kernel = host(*EIGHT[owner])
    outcome = applied(kernel, wish({"pci": PF, "vfs": 4}))
    (why,) = refusals(outcome)
    assert f"{EIGHT[owner][0]} asks for 8, and each boot" in why and "next: ask for 4 there" in why
    assert kernel.mutations == []


@pytest.mark.parametrize("owner", [owner for owner, (_path, text) in EIGHT.items() if "8" in text])
def test_the_same_number_is_told(owner: str) -> None:
    path, text = EIGHT[owner]
    plan = previewed(
        host(path, re.sub(r"(count: |vfs=|Functions=|echo |numvfs(?:}=\"| = ))8", r"\g<1>1", text)),
        wish({"pci": PF, "vfs": 1}),
    )["plan"]
    assert [step["status"] for step in plan["steps"]] == ["planned"]
    assert f"{path} asks for vfs 1 as well: keep one" in plan["notices"][0]


@pytest.mark.parametrize("owner", NONE)
def test_what_is_about_something_else_is_in_nobodys_way(owner: str) -> None:
    plan = previewed(host(*NONE[owner]), wish({"pci": PF, "vfs": 4}))["plan"]
    assert ([step["status"] for step in plan["steps"]], plan["notices"]) == (["planned"], [])


def test_functions_that_nobody_asks_us_for_are_left_to_their_owner() -> None:
    kernel = host(*EIGHT["netplan"])
    assert previewed(kernel, wish({"pci": PF, "mtu": 9000}))["plan"]["notices"] == []
    kernel.tree.discard(NETPLAN)
    assert not applied(kernel, wish({"pci": PF, "vfs": 4})).get("failed")
    kernel.revive()
    kernel.tree.add_file(NETPLAN, EIGHT["netplan"][1])
    assert len(refusals(applied(kernel, wish({"pci": PF, "vfs": 4})))) == 1, "it has them now, and not after a boot"
    assert not applied(kernel, wish(rdma_fabric_allow_vf_reset=True), REMOVE).get("failed")


UNIT, WANTS = "/etc/systemd/system/site-nics.service", "/etc/systemd/system/multi-user.target.wants/site-nics.service"
# netplan's examples/sriov_vlan.yaml; nm-settings-keyfile(5); the unit that Mellanox's scripts for OVS offload set up.
SWITCHDEV = {
    "netplan": (NETPLAN, f"{ETHERNETS}    enp24s0f0np0:\n      embedded-switch-mode: switchdev\n"),
    "NetworkManager": (PROFILE, "[connection]\ninterface-name=enp24s0f0np0\n[sriov]\neswitch-mode=1\n"),
    "ifupdown": (
        STANZAS,
        f"iface enp24s0f0np0 inet manual\n    up devlink dev eswitch set pci/{CONNECTX} mode switchdev\n",
    ),
    "a unit": (
        UNIT,
        f"[Service]\nExecStart=/bin/sh -c \\\n 'devlink dev eswitch set pci/{CONNECTX} mode switchdev'\n",
    ),
}


def switching(path: str, text: str, *, enabled: bool = True) -> Kernel:
    kernel = mlx5.booted()
    kernel.tree.add_file(path, text)
    if path == UNIT and enabled:
        kernel.tree.add_link(WANTS, UNIT)
    return kernel


@pytest.mark.parametrize("owner", SWITCHDEV)
def test_another_mode_of_the_e_switch_is_refused_with_the_file_also_where_the_host_has_ours_now(owner: str) -> None:
    path = SWITCHDEV[owner][0]
    plan = mlx5.applied(switching(*SWITCHDEV[owner]), mlx5.wish(eswitch_mode="legacy"))["plan"]
    (why,) = [step["detail"] for step in plan["steps"] if step["status"] == "refused"]
    assert f"{path} asks for switchdev, and each boot" in why and "leave eswitch_mode out here" in why
    plan = mlx5.applied(switching(*SWITCHDEV[owner]), mlx5.wish(vfs=2, eswitch_mode="switchdev"))["plan"]
    assert any(f"{path} asks for eswitch_mode switchdev as well: keep one" in text for text in plan["notices"])


SCRIPT = "/usr/local/sbin/site-nics"


@pytest.mark.parametrize("start", [SCRIPT, f"-/bin/bash {SCRIPT} --now"])
def test_the_script_of_a_unit_is_read_and_a_program_is_not(start: str) -> None:
    kernel = host(UNIT, f"[Service]\nExecStart={start}\nExecStop=/bin/sh -c 'echo 0 > {NUMBER}'\n")
    kernel.tree.add_link(WANTS, UNIT)
    kernel.tree.add_file(SCRIPT, f"#!/bin/sh\n{WRITE.format(port='enp1s0f0')}")
    (why,) = refusals(previewed(kernel, wish({"pci": PF, "vfs": 4})))
    assert f"{SCRIPT} asks for 8" in why
    kernel.tree.add_file(SCRIPT, f"\x7fELF\n{WRITE.format(port='enp1s0f0')}")
    assert refusals(previewed(kernel, wish({"pci": PF, "vfs": 4}))) == []


def test_an_mtu_of_netplan_counts_where_its_file_comes_after_ours() -> None:
    text = f"{ETHERNETS}    enp1s0f0:\n      mtu: 1500\n"
    later = "/etc/netplan/99_config.yaml"
    for path, told in (
        (NETPLAN, []),
        (later, [f"{later} sets mtu to 1500 at boot, and rdma_fabric_interfaces to 9000"]),
    ):
        notices = previewed(host(path, text), wish({"pci": PF, "mtu": 9000}))["plan"]["notices"]
        assert [each.partition("): ")[2].partition(": keep")[0] for each in notices if "keep one" in each] == told


@pytest.mark.parametrize(
    "command",
    [
        "mlnx_qos -i enp24s0f0np0 --trust dscp --pfc 0,0,0,0,1,0,0,0",
        "mlnx_qos --pfc=0,0,0,1,0,0,0,0 --interface=enp24s0f0np0",
        "cma_roce_tos -d rocep24s0f0 -t 136",
        "dcb pfc set dev enp24s0f0np0 prio-pfc all:off",
        "lldptool -T -i enp24s0f0np0 -V PFC enabled=3",
        "ethtool -A enp24s0f0np0 rx on tx on",
        "echo 106 > /sys/class/infiniband/rocep24s0f0/tc/1/traffic_class",
    ],
)
def test_qos_that_others_set_at_boot_is_told_beside_ours(command: str) -> None:
    kernel = switching(UNIT, f"[Service]\nExecStart=/bin/sh -c '{command} && echo done'\n")
    notices = mlx5.applied(kernel, mlx5.wish(qos={"trust": "dscp"}))["plan"]["notices"]
    assert [f"{UNIT} runs {command} at boot, beside rdma_fabric_roce_qos" in each for each in notices].count(True) == 1
    notices = mlx5.applied(switching(UNIT, f"[Service]\nExecStart=/bin/sh -c '{command}'\n"), mlx5.wish(mtu=9000))
    assert command not in str(notices["plan"]["notices"])


def test_a_unit_that_nothing_starts_sets_nothing() -> None:
    kernel = switching(*SWITCHDEV["a unit"], enabled=False)
    assert mlx5.applied(kernel, mlx5.wish(eswitch_mode="legacy"))["plan"]["steps"] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (LINK, f"[Match]\nMACAddress={MAC}\n[Link]\nMTUBytes=1500\nRxBufferSize=512\nCombinedChannels=2\n"),
        (
            STANZAS,
            "iface enp1s0f0 inet manual\n    up ip link set dev $IFACE up mtu 1500\n"
            "    up ethtool -G $IFACE rx 512\n    up ethtool -L $IFACE combined 2\n",
        ),
        (
            UNIT,
            "[Service]\nExecStart=/sbin/ip link set enp1s0f0 up mtu 1500\n"
            "ExecStartPost=/sbin/ethtool -G enp1s0f0 rx 512\nExecStartPost=/sbin/ethtool -L enp1s0f0 combined 2\n",
        ),
    ],
    ids=["systemd.link", "ifupdown", "a unit"],
)
def test_another_mtu_and_other_rings_and_channels_are_told(path: str, text: str) -> None:
    kernel = host(path, text)
    if path == UNIT:
        kernel.tree.add_link(WANTS, UNIT)
    wanted = {"pci": PF, "mtu": 9000, "queues": {"rx_ring": 1024, "channels": 2}}
    notices = [each for each in previewed(kernel, wish(wanted))["plan"]["notices"] if "keep one" in each]
    assert [f"{path} sets {key}" in each for key, each in zip(("mtu to 1500", "rx_ring to 512"), notices)] == [True] * 2
    assert len(notices) == 2, "the same number of channels is no harm"


TUNED = "/usr/lib/tuned/{}/tuned.conf"


def tuned(text: str, *, enabled: bool = True) -> Kernel:
    """A host whose active profile of TuneD includes one with this text, as those of openshift-kni/telco-reference."""
    kernel = host("/etc/tuned/active_profile", "nic-queues\n")
    kernel.tree.add_file(TUNED.format("nic-queues"), "[main]\nsummary=x\ninclude=${f:x}\ninclude=base\n")
    kernel.tree.add_file(TUNED.format("base"), text)
    if enabled:
        kernel.tree.add_file(WANTS.replace("site-nics", "tuned"), "")
    return kernel


@pytest.mark.parametrize(
    ("section", "is_told"),
    [
        ("[net]\nchannels=combined 32", True),
        ("[nics]\ntype=net\nchannels=combined 32\ndevices=enp*, !enp2*", True),
        ("[net]\nchannels=combined 32\ndevices_udev_regex=^INTERFACE=enp1s0f0$", True),
        ("[net]\nchannels=combined 32\ndevices_udev_regex=^ID_MODEL_ID=0x10c9[\\s\\S]*^ID_VENDOR_ID=0x8086", True),
        ("[net]\nchannels=combined 32\ndevices_udev_regex=^ID_VENDOR_ID=0x15b3", False),
        ("[net]\nchannels=combined 32\ndevices_udev_regex=(", False),
        ("[net]\nchannels=combined 32\ndevices=enp*,!enp1*", False),
        ("[net]\nchannels=combined 32\nenabled=false", False),
        ("[net]\nchannels=combined ${f:get_queue_count}", False),
        ("[net]\nchannels=rx 32", False),
        ("[sysctl]\nchannels=combined 32", False),
    ],
)
def test_channels_of_a_profile_of_tuned_are_told(section: str, is_told: bool) -> None:
    entry = wish({"pci": PF, "queues": {"channels": 2}})
    notices = previewed(tuned(f"{section}\n"), entry)["plan"]["notices"]
    wanted = f"{PF} (enp1s0f0): {TUNED.format('base')} sets channels to 32 at boot, and rdma_fabric_interfaces to 2"
    assert [each.startswith(wanted) for each in notices if TUNED.format("base") in each] == [True] * is_told
    assert not [each for each in previewed(tuned(section, enabled=False), entry)["plan"]["notices"] if "tuned" in each]


def test_rings_and_mtus_of_tuned_are_told_and_a_circle_of_profiles_ends() -> None:
    wanted = {"pci": PF, "mtu": 9000, "queues": {"rx_ring": 1024, "tx_ring": 256}}
    kernel = tuned("[main]\ninclude=base\n[net]\nmtu=1500\nring=rx 512 tx 256\n")
    notices = {each.partition(" sets ")[2] for each in previewed(kernel, wish(wanted))["plan"]["notices"]}
    assert {each.partition(" at boot")[0] for each in notices if each} == {"mtu to 1500", "rx_ring to 512"}


def test_what_netplan_generates_is_no_other_owner() -> None:
    """It makes the file anew of its definitions, ours among them."""
    generated = "/run/systemd/network/10-netplan-enp1s0f0.link"
    kernel = host(generated, f"[Match]\nMACAddress={MAC}\n[Link]\nMTUBytes=1500\n")
    notices = previewed(kernel, wish({"pci": PF, "mtu": 9000}))["plan"]["notices"]
    assert not [each for each in notices if generated in each]
