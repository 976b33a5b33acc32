# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of the host over values of real hosts, laid out as the programs print them.

``tests/fixtures/captures.yml`` has the values, and says of each where it was published.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import (
    devices,
    firmware,
    firmware_image,
    queues,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.read import parse_modinfo, read_driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.status import is_inbox_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.kernel import parse_modules
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.next_boot import read_next_boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import qos_values
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import (
    INBOX,
    VENDOR_FLAVOURS,
    family_of,
    is_vendor_build,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import image_text
from ansible_collections.rdma.fabric.tests.unit._host import printed
from ansible_collections.rdma.fabric.tests.unit._host.families import host_with
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import CONNECTX7
from ansible_collections.rdma.fabric.tests.unit.captures import Facts, each_of

# What a query with -e shows of each parameter.
THREE = ["Default", "Current", "Next Boot"]


@each_of("mstconfig")
def test_a_query_with_three_columns_tells_every_value_and_another_nothing(facts: Facts) -> None:
    text = printed.mstconfig(facts["device"], facts["columns"], facts["values"])
    values = {name: each if len(each) == 3 else each * 3 for name, each in facts["values"].items()}
    assert firmware.parse(text) == (values if facts["columns"] == THREE else {})


@each_of("flint")
def test_a_query_of_a_flash_tells_version_product_and_security(facts: Facts) -> None:
    told = {key: facts[key] for key in ("version", "psid", "security")}
    assert firmware_image.parse(image_text(told)) == {**told, "running": told["version"], "problem": ""}


@each_of("ethtool")
def test_rings_and_channels_have_what_they_are_and_may_be(facts: Facts) -> None:
    text = printed.ethtool("eth0", facts["most"], facts["now"])
    assert queues.parse(text) == {key: {"now": now, "most": most} for key, (now, most) in facts["read"].items()}


@each_of("dcb")
def test_entries_of_dcb_are_a_table(facts: Facts) -> None:
    assert qos_values.app_table(printed.dcb_app(facts["dscp_prio"])) == facts["read"]


@each_of("modinfo")
def test_modinfo_tells_build_and_dependencies(facts: Facts) -> None:
    path = f"{facts['kernel']}/{facts['module']}"
    told = {"version": facts["version"]} if "version" in facts else {}
    depends = ",".join(facts.get("depends", ()))
    fields = {"filename": path, **told, "srcversion": "0123456789ABCDEF01234567", "depends": depends, "signer": ""}
    assert parse_modinfo(printed.modinfo(fields)) == fields
    assert is_inbox_path(path) is facts["inbox"]


def booted_by_grub(facts: Facts) -> RecordedHost:
    """A host with the menu of a capture; kernels and initial RAM disks that its entries name are there."""
    document = host_with(CONNECTX7).document()
    body = "insmod blscfg\nblscfg\n"
    kernels = facts.get("kernels")
    if kernels is not None:
        body = printed.grub_entries(facts["titles"], kernels)
    for name in facts.get("files", ()):
        kernel = name.split("-", 1)[1]
        initrds = [f"/initramfs-{kernel}.img", *facts.get("more_initrds", ())]
        text = printed.loader_entry("Linux", kernel, initrds)
        document["files"].update({f"/boot/loader/entries/{name}.conf": text, f"/boot/initramfs-{kernel}.img": ""})
    for kernel in kernels or [name.split("-", 1)[1] for name in facts["files"]]:
        document["files"][f"/boot/vmlinuz-{kernel}"] = ""
    document["files"].update({initrd: "" for initrd in (kernels or {}).values() if initrd})
    document["files"]["/boot/grub2/grub.cfg"] = printed.grub_menu(facts["default"], body)
    document["files"]["/boot/grub2/grubenv"] = printed.grub_environment(facts.get("environment", {}))
    return RecordedHost(document)


@each_of("grub")
def test_the_kernel_that_grub_takes_is_the_one_of_the_host(facts: Facts) -> None:
    found: dict[str, Any] = {**read_next_boot(Probe(booted_by_grub(facts)), "5.0.0", ())}
    assert {key: found[key] for key in facts["takes"]} == facts["takes"]
    assert found["absent"] == []


def stack_with(path: str, text: str) -> Any:
    """The driver stack of a host with one file."""
    document = host_with(CONNECTX7).document()
    document["files"][path] = text
    stack: Any = gather(RecordedHost(document))["stack"]
    return stack


@each_of("nvidia")
@pytest.mark.parametrize("built", ["Mon Jan  1 00:00:00 UTC 2024", "Пн 01 янв 2024 00:00:00 MSK", ""])
def test_the_gpu_driver_has_its_version_and_flavour(facts: Facts, built: str) -> None:
    stack = stack_with("/proc/driver/nvidia/version", printed.nvidia_version(facts["version"], built))
    assert (stack["gpu_driver"], stack["gpu_driver_flavour"]) == (facts["version"], "open")


@each_of("ofed_info")
def test_ofed_info_tells_what_is_installed(facts: Facts) -> None:
    document = host_with(CONNECTX7).document()
    document["files"]["/usr/bin/ofed_info"] = ""
    shown = {"rc": 0, "stdout": printed.ofed_info(facts["release"]), "stderr": ""}
    document["commands"]["/usr/bin/ofed_info -s"] = shown
    assert gather(RecordedHost(document))["stack"]["installed"] == facts["release"]


@each_of("mlx5_core")
def test_the_version_of_the_loaded_driver_tells_whose_it_is(facts: Facts) -> None:
    stack = stack_with("/sys/module/mlx5_core/version", f"{facts['version']}\n")
    assert stack["flavour"] in (VENDOR_FLAVOURS if facts["vendor"] else (INBOX,))
    assert stack["version"] == (facts["version"] if facts["vendor"] else None)


@each_of("dkms")
def test_what_dkms_has_built_of_the_driver_is_told(facts: Facts) -> None:
    """dkms status makes a row of each directory NAME/VERSION/KERNEL/ARCH below /var/lib/dkms (dkms, show_status)."""
    document = host_with(CONNECTX7).document()
    for name, version, kernel in facts["rows"]:
        document["files"][f"/var/lib/dkms/{name}/{version}/{kernel}/x86_64/module/module.ko"] = ""
    host = RecordedHost(document)
    built = read_driver(Probe(host), gather(host)["system"], None)["built"]
    assert len(built) == facts["driver"]
    assert all([build["name"], build["version"], build["kernel"]] in facts["rows"] for build in built)
    assert {build["name"] for build in built} == {"mlnx-ofed-kernel"}


@each_of("os_release")
def test_the_distribution_is_told(facts: Facts) -> None:
    document = host_with(CONNECTX7).document()
    quoted = "".join(f'{key}="{value}"\n' for key, value in facts["fields"].items())
    document["files"]["/usr/lib/os-release"] = quoted
    told = gather(RecordedHost(document))["system"]["os"]
    assert (told["id"], told["version_id"]) == (facts["fields"]["ID"], facts["fields"]["VERSION_ID"])
    family = family_of(told)
    assert (family.name if family else None) == facts["family"]


@each_of("packages")
def test_the_version_of_a_package_tells_who_built_it(facts: Facts) -> None:
    assert [[name, version, is_vendor_build(version)] for name, version, _own in facts["rows"]] == facts["rows"]


@each_of("lsmod")
def test_loaded_modules_have_their_users(facts: Facts) -> None:
    text = printed.modules(facts["rows"])
    loaded = {name: (references, users) for name, _size, references, users in facts["rows"]}
    assert parse_modules(text) == loaded
    assert stack_with("/proc/modules", text)["peer_memory"] == "nvidia-peermem"


@each_of("pci")
def test_an_id_names_the_family_and_a_virtual_function(facts: Facts) -> None:
    found = [devices.PciId("15b3", device, "", "020000") for device in facts["ids"]]
    assert {devices.nic_family(each, None, None) for each in found} == {facts["family"]}
    assert [each.is_vf_by_id for each in found] == [False, True][: len(found)]


@each_of("ibv_devinfo")
def test_the_part_names_the_family_and_firmware_that_of_a_shared_virtual_function(facts: Facts) -> None:
    function = devices.PciId("15b3", f"{facts['part']:04x}", "", "020700")
    shared = devices.PciId("15b3", devices.SHARED_VF, "", "020700")
    assert devices.nic_family(function, None, facts["firmware"]) == facts["family"]
    assert devices.nic_family(shared, None, facts["firmware"]) == facts.get("generation", facts["family"])
    assert function.is_vf_by_id is (function.device == devices.SHARED_VF)
