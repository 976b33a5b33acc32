# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that name interfaces and RDMA devices or are about functions, read by udev and ip, in namespaces of their own.

The files are made by the collection's own plan for a recorded host, never by hand.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions.unmanaged import RULES
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions.unmanaged import (
    boot_files as functions_files,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming import apply as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.files import boot_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import PutFile
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._host.families import host_with
from ansible_collections.rdma.fabric.tests.unit._host.igb import OLD_KERNEL
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import CONNECTX7, wish
from ansible_collections.rdma.fabric.tests.unit._host.naming.test_representors import SWITCHDEV as SWITCHED
from ansible_collections.rdma.fabric.tests.unit._host.naming.test_representors import swap, switched

RAIL, SWITCHDEV = "0000:18:00.0", "0000:40:00.0"
# udev reads every file before it looks at the device, here the loopback interface of a new network namespace.
READ = """
mount --make-rprivate /
mount -t sysfs sysfs /sys
echo "$3" > /sys/class/net/lo/ifalias
mount -o remount,bind,ro /sys
mount -t tmpfs tmpfs /run
mkdir -p /etc/systemd/network /etc/udev/rules.d
mount -t tmpfs tmpfs /etc/systemd/network
mount -t tmpfs tmpfs /etc/udev/rules.d
cp -r "$1"/etc/. /etc/
SYSTEMD_LOG_LEVEL=debug exec "$2" test --action=add /sys/class/net/lo
"""


# Two interfaces that are up; the batch is ip's, in a network namespace of its own.
RENAME = """
ip link add "$1" address 02:00:00:00:00:01 type veth peer name "$2" address 02:00:00:00:00:02
ip link set dev "$1" up
ip link set dev "$2" up
ip -batch "$3"
echo "rc $?"
ip -brief link show type veth
"""


def naming_files() -> dict[str, str]:
    """Every kind of file: a .link, rules for switchdev mode, for an RDMA device, and for representors."""
    tree = FLEET["roce-h100-01"]()
    tree.files["/usr/sbin/rdma"] = ""
    switch_id = f"{tree.place(SWITCHDEV)}/net/enp64s0np0/phys_switch_id"
    tree.errors.pop(switch_id)
    tree.files[switch_id] = "e41d2d0003a1b2c3\n"
    desired = check_spec(
        {
            "interfaces": [
                {"pci": RAIL, "name": "rail0", "rdma_name": "rdma_rail0"},
                {"pci": SWITCHDEV, "name": "rail1", "representor_prefix": "rail1_"},
            ]
        }
    )
    return boot_files(plan_with_context(desired, gather(RecordedHost(tree.document())))[1])


def read_by_udev(readers: Readers, root: Path, files: dict[str, str], alias: str = "") -> str:
    """What udev says of an interface that has this alias."""
    for path, text in files.items():
        place = root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    udevadm = readers.program("usr/bin/udevadm", "bin/udevadm")
    done: subprocess.CompletedProcess[str] = readers.run(
        [*apart("mount", "net"), "bash", "-c", READ, "bash", root, udevadm, alias]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def complaints(said: str) -> list[str]:
    """What udev says about a line of a file of ours: the file's name and the number of the line go before it."""
    return [line for line in said.splitlines() if re.match(r"/\S*-rdma-fabric-\S*:\d+", line)]


def test_udev_reads_every_file_without_a_complaint(readers: Readers, tmp_path: Path) -> None:
    files = naming_files()
    assert len(files) == 4
    said = read_by_udev(readers, tmp_path, files)
    for path in files:
        reading = "Parsed configuration file" if path.endswith(".link") else "Reading rules file:"
        assert re.search(rf"{reading} \"?{re.escape(path)}", said), said
    assert complaints(said) == []


def test_udev_reads_what_ours_takes_over_from_another_file(readers: Readers, tmp_path: Path) -> None:
    document = FLEET["roce-h100-01"]().document()
    site = "[Link]\nMTUBytes=2000\nRxBufferSize=4096\nMACAddressPolicy=persistent\nSR-IOVVirtualFunctions=2\n"
    site += "[SR-IOV]\nVirtualFunction=0\nTrust=yes\n[SR-IOV]\nVirtualFunction=1\nMACSpoofCheck=no\n"
    document["files"]["/etc/systemd/network/10-site.link"] = f"[Match]\nPath=pci-{RAIL}\n{site}"
    desired = check_spec({"interfaces": [{"pci": RAIL, "name": "rail0"}]})
    facts = gather(RecordedHost(document), desired=desired)
    files = boot_files(plan_with_context(desired, facts)[1])
    path, text = next(iter(files.items()))
    assert list(files) == [path]
    assert "# Other settings are those of /etc/systemd/network/10-site.link" in text
    assert set(site.splitlines()) <= set(text.splitlines())
    said = read_by_udev(readers, tmp_path, {path: text})
    assert re.search(rf"Parsed configuration file \"?{re.escape(path)}", said), said
    assert complaints(said) == []


@pytest.mark.parametrize(
    ("port_name", "name"),
    [
        ("pf0vf0", "rail1_0"),
        ("pf1vf126", "rail1_126"),
        ("pf0sf88", "rail1_sf88"),
        ("pf0hpf", None),
        ("p0", "rail1"),
        ("", "rail1"),
    ],
)
def test_udev_names_ports_and_representors_by_what_they_stand_for(
    readers: Readers, tmp_path: Path, port_name: str, name: str | None
) -> None:
    """The interface here has another place than a card's, and shows an alias and an address but no name of its port."""
    place = f"*/{SWITCHDEV}/net/*"
    stands_for = {place: "*/virtual/net/*", "phys_port_name": "ifalias", "phys_switch_id": "address"}
    rules = {path: text for path, text in naming_files().items() if place in text}
    assert len(rules) == 2
    for there, here in stands_for.items():
        rules = {path: text.replace(there, here) for path, text in rules.items()}
    said = read_by_udev(readers, tmp_path, rules, port_name)
    assert re.findall(r"rdma-fabric-\S* NAME '(\w+)'", said) == ([name] if name else []), said


@pytest.mark.parametrize(("port", "properties"), [("net", 2), ("other", 0)])
def test_udev_tells_managers_to_leave_functions_of_our_ports_alone(
    readers: Readers, tmp_path: Path, port: str, properties: int
) -> None:
    """The interface here has no port; what leads to its class takes the place of what leads there."""
    document = FLEET["roce-h100-01"]().document()
    document["files"]["/etc/systemd/system/multi-user.target.wants/NetworkManager.service"] = ""
    desired = check_spec({"interfaces": [{"pci": RAIL, "vfs": 4}]})
    text = functions_files(plan_with_context(desired, gather(RecordedHost(document), desired=desired))[1])[RULES]
    assert text.count("device/physfn") == 2
    assert f"*/{RAIL}" in text
    rule = text.replace("device/physfn", "subsystem").replace(f"*/{RAIL}", f"*/{port}")
    said = read_by_udev(readers, tmp_path, {RULES: rule})
    assert complaints(said) == []
    assert len(re.findall(r"^\s*(?:NM_UNMANAGED=1|ID_NET_MANAGED_BY=rdma\.fabric)$", said, re.MULTILINE)) == properties


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/systemd/network/05-rdma-fabric-x.link", "[Match]\nPath=pci-0000:18:00.0\n[Link]\nNamed=rail0\n"),
        ("/etc/udev/rules.d/70-rdma-fabric-x.rules", 'SUBSYSTEM=="net", NAMED="rail0"\n'),
    ],
)
def test_a_file_that_udev_does_not_understand_is_noticed(
    readers: Readers, tmp_path: Path, path: str, text: str
) -> None:
    """The test above can fail: udev says so, and where."""
    assert complaints(read_by_udev(readers, tmp_path, {path: text}))


@pytest.mark.parametrize("old_kernel", [False, True])
def test_ip_renames_representors_as_our_batch_says(readers: Readers, tmp_path: Path, old_kernel: bool) -> None:
    """They swap their names, through a temporary one, and an old kernel has them go down meanwhile."""
    desired = wish(**SWITCHED, representor_prefix="rail0_")
    tree = host_with(CONNECTX7, kernel=OLD_KERNEL) if old_kernel else host_with(CONNECTX7)
    kernel = switched(Kernel(tree.document()), representor_prefix="rail0_")
    swap(kernel, "rail0_0", "rail0_1")
    for name in ("rail0_0", "rail0_1"):
        kernel.tree.add_file(f"/sys/class/net/{name}/flags", "0x1003\n")
    plan, context = plan_with_context(desired, gather(kernel, desired=desired))
    (step,) = [step for step in plan["steps"] if step["concern"] == "naming"]
    operations = naming.work(context, step).do
    (text,) = [operation.text for operation in operations if isinstance(operation, PutFile)]
    batch = tmp_path / "batch"
    batch.write_text(text)
    assert (" down\n" in text) is old_kernel
    said = readers.run([*apart("net"), "bash", "-c", RENAME, "bash", "rail0_0", "rail0_1", batch])
    lines = said.stdout.splitlines()
    assert (lines[0], said.stderr) == ("rc 0", "")
    words = [line.split() for line in lines[1:]]
    addresses = {word[0].split("@")[0]: word[2] for word in words}
    assert addresses == {"rail0_0": "02:00:00:00:00:02", "rail0_1": "02:00:00:00:00:01"}
    assert all("UP" in word[3] for word in words)
