# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations of the device plugins, given to the real programs: they start with what the input's checks take.

A plugin that has read and judged its configuration goes on to look for devices, and ends: this machine has none.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin import CHECKS, config_text
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.versions import sriov_resource_problems
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.node_programs import RDMA_SHARED_DEVICE_PLUGIN, SRIOV_DEVICE_PLUGIN
from ansible_collections.rdma.fabric.tests.lab.programs import built, to_standard_error
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS

SHARED, SRIOV = "rdma_shared", "sriov"
ITEM: dict[str, Any] = {"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}
DEVICE: dict[str, Any] = {"resourceName": "a", "selectors": {"vendors": ["15b3"]}}
# What comes next once the program has taken its configuration.
NEXT = {SHARED: "Exiting.. can not change", SRIOV: "Discovering host devices"}


def shared(*items: Any, **top: Any) -> tuple[str, str]:
    return SHARED, json.dumps({"configList": list(items), **top})


def sriov(*items: Any) -> tuple[str, str]:
    return SRIOV, json.dumps({"resourceList": list(items)})


def selected(**selectors: Any) -> tuple[str, str]:
    return sriov({**DEVICE, "selectors": selectors})


TAKEN: dict[str, tuple[str, str]] = {
    "everything of the shared plugin": shared(
        {
            **ITEM,
            "resourcePrefix": "nvidia.com",
            "selectors": {
                "vendors": ["15b3"],
                "deviceIDs": ["101d"],
                "drivers": ["mlx5_core"],
                "ifNames": ["rail0"],
                "linkTypes": ["ether"],
            },
        },
        periodicUpdateInterval=0,
    ),
    "the list of before 1.1.0": shared({"resourceName": "a", "rdmaHcaMax": 1, "devices": ["rail0"]}),
    "no pod at all": shared({**ITEM, "rdmaHcaMax": 0}),
    "everything of a network device": sriov(
        {
            "resourceName": "a",
            "resourcePrefix": "nvidia.com",
            "deviceType": "netDevice",
            "excludeTopology": True,
            "selectors": {
                "vendors": ["15b3"],
                "devices": ["101e"],
                "drivers": ["mlx5_core"],
                "pciAddresses": ["0000:18:00.1"],
                "pfNames": ["rail0#0-3,5"],
                "rootDevices": ["0000:18:00.0"],
                "linkTypes": ["ether"],
                "isRdma": True,
            },
        }
    ),
    "an accelerator": sriov({"resourceName": "a", "deviceType": "accelerator", "selectors": {"vendors": ["15b3"]}}),
    "no selector": selected(),
    "one name under two prefixes": sriov({**DEVICE, "resourcePrefix": "a.com"}, {**DEVICE, "resourcePrefix": "b.com"}),
}
# What releases after the one that is built here take, and what it refuses; 3.5.1 is the last one before them.
NEWER: dict[str, tuple[str, str]] = {
    "a dash in a name of the SR-IOV plugin": sriov({**DEVICE, "resourceName": "a-b"}),
    "selectors in a list": sriov({**DEVICE, "selectors": [{"vendors": ["15b3"]}]}),
    "a sub-function": sriov(
        {"resourceName": "a", "deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"], "pfNames": ["rail0"]}}
    ),
}
REFUSED: dict[str, tuple[str, str]] = {
    "no JSON": (SHARED, "{"),
    "no resource": shared(),
    "a blank in a name": shared({**ITEM, "resourceName": "a b"}),
    "a dash in a name": shared({**ITEM, "resourceName": "a-b"}),
    "no name": shared({**ITEM, "resourceName": ""}),
    "one name twice": shared(ITEM, ITEM),
    "one name under two prefixes of the shared plugin": shared(
        {**ITEM, "resourcePrefix": "a.com"}, {**ITEM, "resourcePrefix": "b.com"}
    ),
    "fewer pods than none": shared({**ITEM, "rdmaHcaMax": -1}),
    "a number in quotes": shared({**ITEM, "rdmaHcaMax": "63"}),
    "no device": shared({"resourceName": "a", "rdmaHcaMax": 63}),
    "empty selectors": shared({**ITEM, "selectors": {"vendors": []}}),
    "devices beside selectors": shared({**ITEM, "devices": ["rail0"]}),
    "a list of selectors for the shared plugin": shared({**ITEM, "selectors": [{"vendors": ["15b3"]}]}),
    "an interval below none": shared(ITEM, periodicUpdateInterval=-1),
    "no JSON of the SR-IOV plugin": (SRIOV, "{"),
    "no resource of the SR-IOV plugin": sriov(),
    "a blank in a name of the SR-IOV plugin": sriov({**DEVICE, "resourceName": "a b"}),
    "one full name twice": sriov(DEVICE, DEVICE),
    "a type of device that there is not": sriov({**DEVICE, "deviceType": "netdev"}),
    "text for selectors": sriov({**DEVICE, "selectors": "15b3"}),
    "text for a list": selected(vendors="15b3"),
    "text for a flag": selected(isRdma="yes"),
    "vDPA and RDMA": selected(vendors=["15b3"], isRdma=True, vdpaType="vhost"),
    "a sub-function of no type": sriov({"resourceName": "a", "deviceType": "auxNetDevice", "selectors": {}}),
}


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """The device plugins."""
    names = {SHARED: (RDMA_SHARED_DEVICE_PLUGIN, "k8s-rdma-shared-dp"), SRIOV: (SRIOV_DEVICE_PLUGIN, "sriovdp")}
    try:
        return {kind: built(recipe, os.environ, to_standard_error) / name for kind, (recipe, name) in names.items()}
    except ProgramsUnavailable as reason:
        do_without(f"no device plugins: {reason}")


def starts(program: Path, kind: str, text: str, folder: Path) -> tuple[bool, str]:
    """Whether a plugin takes a configuration, and what it said; it finds nothing of this machine's kubelet."""
    (folder / "config.json").write_text(text, encoding="utf-8")
    options = ["-config-file", str(folder / "config.json"), *(["-logtostderr", "-v", "10"] if kind == SRIOV else [])]
    script = 'mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/kubelet && exec "$@"'
    done = subprocess.run(
        [*apart("net", "mount"), "sh", "-c", script, "sh", program, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = done.stdout + done.stderr
    return NEXT[kind] in said, said


@pytest.mark.parametrize(("kind", "text"), TAKEN.values(), ids=TAKEN)
def test_what_the_input_takes_the_plugin_takes(programs: dict[str, Path], tmp_path: Path, kind: str, text: str) -> None:
    config, problems = CHECKS[kind](text)
    assert problems == []
    taken, said = starts(programs[kind], kind, config_text(config), tmp_path)
    assert taken, said


@pytest.mark.parametrize(("kind", "text"), REFUSED.values(), ids=REFUSED)
def test_what_the_plugin_refuses_the_input_refuses(
    programs: dict[str, Path], tmp_path: Path, kind: str, text: str
) -> None:
    taken, said = starts(programs[kind], kind, text, tmp_path)
    assert (taken, CHECKS[kind](text)[1] != []) == (False, True), said


@pytest.mark.parametrize(("kind", "text"), NEWER.values(), ids=NEWER)
def test_what_only_newer_releases_take_is_refused_for_older_ones(
    programs: dict[str, Path], tmp_path: Path, kind: str, text: str
) -> None:
    config, problems = CHECKS[kind](text)
    assert (problems, sriov_resource_problems(config, "v3.6.0")) == ([], [])
    taken, said = starts(programs[kind], kind, text, tmp_path)
    assert (taken, len(sriov_resource_problems(config, "v3.5.1"))) == (False, 1), said


def test_every_rendered_configuration_is_taken(programs: dict[str, Path], tmp_path: Path) -> None:
    found = {}
    for name, make in SPECS.items():
        for each in objects_of(render(make())):
            for text in each["data"].values() if each["kind"] == "ConfigMap" else ():
                kind = SHARED if '"configList"' in text else SRIOV if '"resourceList"' in text else None
                if kind is not None:
                    found[name, each["metadata"]["name"]] = starts(programs[kind], kind, text, tmp_path)
    assert len(found) >= 9
    assert [(where, said) for where, (taken, said) in found.items() if not taken] == []
