# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of an InfiniBand subnet that OpenSM manages and ibsim simulates: two switches, four hosts.

Switches and ports are ibsim's, which answers management datagrams; libumad2sim shows programs the port of a host, and
lays out its values as the kernel does in sysfs, all but ``link_layer`` and the counters. The cards' PCI functions are
composed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nad import check_attachment
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.cabling import read_cabling
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.port_counters import read_counters
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._port_counters import SET_BACK, WIDTHS
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.readers import Readers, gather_subnet
from ansible_collections.rdma.fabric.tests.lab.unpacked import libraries
from ansible_collections.rdma.fabric.tests.unit._host.families import HCAS, INFINIBAND, PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import CONNECTX7
from ansible_collections.rdma.fabric.tests.unit._report.test_report_remarks import remarks_on

# Switch, its port, and the width of the link as PortInfo has it (1: 1X, 2: 4X): the third host's lost lanes, the fourth
# has no cable. The counters of the second stand at as much as they can count.
CABLES = {"gpu-1": ("leaf-1", 1, 2), "gpu-2": ("leaf-1", 2, 2), "gpu-3": ("leaf-2", 1, 1), "gpu-4": None}
MANAGER, WORN, SLOW, UNPLUGGED = CABLES
PLUGGED = [host for host, cable in CABLES.items() if cable]
PARTITIONS = "Default=0x7fff, ipoib : ALL=limited, SELF=full;\nstorage=0x0012 : ALL=full;\n"
DEVICE, CARD = "ibsim0", HCAS[INFINIBAND]
# perfquery has the names of sysfs without underscores, and with Counter behind these.
LONGER = ("symbol_error", "link_error_recovery", "link_downed")
FIELDS = {f"{name.replace('_', '')}{'counter' * (name in LONGER)}".lower(): name for name in WIDTHS}
DUMP = f"""
import json, os, pathlib
os.listdir("/sys/class/infiniband")
place = pathlib.Path(f"sys-{{os.getpid()}}/sys/class/infiniband/{DEVICE}")
print(json.dumps({{str(file.relative_to(place)): file.read_text() for file in place.rglob("*") if file.is_file()}}))
"""
MANAGED_SECONDS = 60.0


def topology() -> str:
    """Write the subnet as ibsim reads it."""
    nodes = {f'Switch 8 "leaf-{n}"': [f'[8] "leaf-{3 - n}"[8] w=2'] for n in (1, 2)}
    for host, cable in CABLES.items():
        leaf, port, width = cable or ("", 0, 0)
        nodes[f'Hca 1 "{host}"'] = [f'[1] "{leaf}"[{port}] w={width}'] if cable else []
        nodes.get(f'Switch 8 "{leaf}"', []).append(f'[{port}] "{host}"[1] w={width}')
    worn = [f'do PerformanceSet "{WORN}"[1] PortCounters.{field}=4294967295\n' for field in FIELDS]
    return "".join(["\n".join([head, *lines, "\n"]) for head, lines in nodes.items()] + worn)


class Subnet:
    """The subnet, and the programs that run on its hosts."""

    def __init__(self, programs: Readers, folder: Path, stack: ExitStack) -> None:
        self._programs, self._folder, self._stack = programs, folder, stack
        (folder / "net").write_text(topology(), encoding="utf-8")
        (folder / "partitions").write_text(PARTITIONS, encoding="utf-8")
        self._start("", "usr/bin/ibsim", "-s", "-n", "net")
        self.early = remarks_on(*({**gather(self.host(host))} for host in CABLES))
        self._start(MANAGER, "usr/sbin/opensm", "-d", "2", "-f", "log", "-P", "partitions")
        end = time.monotonic() + MANAGED_SECONDS
        while "SUBNET UP" not in ((folder / "log").read_text() if (folder / "log").exists() else ""):
            assert time.monotonic() < end, "OpenSM does not bring the subnet up"
            time.sleep(0.2)
        self.facts: dict[str, Any] = {host: {**gather(self.host(host))} for host in CABLES}

    def _environment(self, host: str) -> dict[str, str]:
        own = {"IBSIM_SOCKNAME": f"subnet-{os.getpid()}", "OSM_CACHE_DIR": str(self._folder)}
        (library,) = self._programs.root.glob("usr/lib/*/umad2sim/libumad2sim.so")
        simulated = {"LD_PRELOAD": str(library), "SIM_HOST": host} if host else {}
        return {**os.environ, "LC_ALL": "C", **libraries(self._programs.root), **own, **simulated}

    def _start(self, host: str, program: str, *words: str) -> None:
        argv, quiet = [str(self._programs.program(program)), *words], subprocess.DEVNULL
        started = subprocess.Popen(argv, cwd=self._folder, env=self._environment(host), stdout=quiet, stderr=quiet)
        self._stack.callback(started.wait)
        self._stack.callback(started.kill)

    def run(self, host: str, program: str, *words: str) -> str:
        """Run a program on a host's port; fail with what it says."""
        path = program if program == sys.executable else self._programs.program(f"usr/sbin/{program}")
        argv = [str(path), *(DEVICE if word == CARD else word for word in words)]
        environment = self._environment(host)
        done = subprocess.run(argv, cwd=self._folder, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stderr, done.stdout)
        return done.stdout

    def host(self, name: str, **counters: int) -> RecordedHost:
        """Give a host with one card as files, of which those of its port are what the subnet made of it."""
        tree = host_with(CONNECTX7, INFINIBAND)
        base = f"{tree.place(PF)}/infiniband/{CARD}"
        shown = json.loads(self.run(name, sys.executable, "-c", DUMP))
        tree.files.update({f"{base}/{path}": text for path, text in shown.items()})
        tree.attributes(f"{base}/ports/1/counters", counters)
        return RecordedHost(tree.document())


@pytest.fixture(scope="module")
def subnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subnet]:
    """A subnet that is managed, with what its hosts were remarked on before."""
    try:
        programs = gather_subnet(os.environ)
    except ProgramsUnavailable as reason:
        do_without(f"no programs of a subnet: {reason}")
    with ExitStack() as stack:
        yield Subnet(programs, tmp_path_factory.mktemp("subnet"), stack)


def test_ports_wait_for_a_manager_and_then_only_the_bad_ones_are_remarked_on(subnet: Subnet) -> None:
    def told(remarks: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
        hosts = {f"host-{number}": host for number, host in enumerate(CABLES)}
        return {kind: [(hosts[each["host"]], each["devices"][0]["seen"]) for each in remarks[kind]] for kind in remarks}

    unplugged = {"port_down": [(UNPLUGGED, "down, Polling")]}
    assert told(subnet.early) == {"no_subnet_manager": [(host, "INIT, LinkUp") for host in PLUGGED], **unplugged}
    slow = {"link_rate_differs": [(SLOW, "2.5 Gb/s, elsewhere 10 Gb/s")]}
    assert told(remarks_on(*subnet.facts.values())) == {**unplugged, **slow}


def test_facts_of_a_port_are_those_that_the_subnet_tells(subnet: Subnet) -> None:
    for host, cable in CABLES.items():
        (port,) = subnet.facts[host]["rdma"][0]["ports"]
        info = dict(re.findall(r"^(\w+):\.*(.*)$", subnet.run(host, "smpquery", "-D", "portinfo", "0"), re.M))
        lanes, speed = (float(re.findall(r"[\d.]+", info[f"Link{each}Active"])[0]) for each in ("Width", "Speed"))
        assert (port["state"], port["physical"]) == (info["LinkState"].upper(), info["PhysLinkState"])
        assert (port["lid"], port["sm_lid"]) == (int(info["Lid"]), int(info["SMLid"]))
        assert port["rate_gbps"] == (lanes * speed if cable else None)


def test_ports_are_cabled_as_the_subnet_is(subnet: Subnet) -> None:
    def found(host: str) -> Any:
        def answer(argv: Sequence[str], _timeout: float) -> CommandResult:
            return CommandResult(0, subnet.run(host, *argv) if argv[0] == "smpquery" else "", "")

        programs: Any = SimpleNamespace(run=answer)
        return read_cabling(programs, subnet.facts[host]["rdma"])

    told = {host: [{"switch": cable[0], "port": str(cable[1])}] for host, cable in CABLES.items() if cable}
    assert {host: found(host) for host in CABLES} == {
        host: {CARD: told[host]} if host in told else {} for host in CABLES
    }


def test_counters_saturate_at_their_widths_and_are_reset_as_advised(subnet: Subnet) -> None:
    def counted() -> dict[str, int]:
        lines = re.findall(r"^(\w+):\.*(\d+)$", subnet.run(WORN, "perfquery"), re.M)
        return {FIELDS[name.lower()]: int(value) for name, value in lines if name.lower() in FIELDS}

    assert counted() == {name: (1 << width) - 1 for name, width in WIDTHS.items()}
    (port,) = read_counters(subnet.host(WORN, **counted()))
    assert port["saturated"] == sorted(WIDTHS)
    subnet.run(WORN, *SET_BACK.replace("DEVICE", DEVICE).replace("PORT", "1").split())
    assert {*counted().values()} == {0}


def test_the_key_of_a_full_member_is_told_as_its_partition(subnet: Subnet) -> None:
    keys = subnet.run(WORN, "smpquery", "-D", "pkeys", "0").split()[1:3]
    (problem,) = check_attachment(json.dumps({"type": "ib-sriov", "pkey": keys[1]}))
    assert (keys, problem.hint.rpartition(" ")[2]) == (["0x7fff", "0x8012"], '"0x0012"')
