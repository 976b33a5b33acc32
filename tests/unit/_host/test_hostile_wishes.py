# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile values in every place of a host's variables: each is refused in one line, or planned like any other."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import PutFile, Run, SetAttribute
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe, is_executable
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import handler_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import driver, functions, interfaces, syntax
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import qos as wanted_qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import (
    CONSENTS,
    HOST_VARIABLES,
    HostSpec,
    check_spec,
    parse_host_variables,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of

PF = "0000:18:00.0"
NUMBERS: list[Any] = [0, -1, 1, 10**40, 2**63, 1.5, float("nan"), float("inf"), True, False]
SHELL = ["$(reboot)", "`reboot`", "; reboot", "-e", "--help", "../../etc/passwd", "*", "%d", "{{ 7 * 7 }}"]
BROKEN = ["", " ", "a\nb", "a\x00b", "\u202e", "\ud800", "é", "x" * 100_000, "9" * 400, f"{{port:{PF}}}", "1e3", "0x10"]
NESTED: list[Any] = [[], {}, [None], [[]], [True], [{}], {1: 2}, {None: None}, {True: 1}, {("a",): 1}, {"": ""}]
MIXED: list[Any] = [{"0": 10**40}, {0: "02:00:00:00:00:01"}, {"x\n": "y\n"}, [{"a": "b"}], ["a\nb"], ["$(reboot)"]]
FOREIGN: list[Any] = [b"x", object(), {1, 2}, (1, 2)]
HOSTILE = [*NUMBERS, *SHELL, *BROKEN, *NESTED, *MIXED, *FOREIGN]
# What no plan reads: text of Ansible about the way to the host, and a path on the controller.
_OF_ANSIBLE = ("ansible_host", "rdma_fabric_recording")


@lru_cache(maxsize=None)
def recording() -> dict[str, Any]:
    return FLEET["roce-h100-01"]().document()


def on_port(**entry: Any) -> dict[str, Any]:
    return {"rdma_fabric_interfaces": [{"pci": PF, "vfs": 2, **entry}]}


def of_variables(value: Any) -> Iterator[dict[str, Any]]:
    for variable in HOST_VARIABLES:
        yield {variable: value}
        yield {variable: [value]}


def of_interfaces(value: Any) -> Iterator[dict[str, Any]]:
    for key in interfaces.INTERFACE_KEYS:
        entry = {"pci": PF, "vfs": 2} if key not in syntax.SELECTORS else {}
        yield {"rdma_fabric_interfaces": [{**entry, key: value}]}
        yield {"rdma_fabric_interfaces": [{**entry, key: {"rx_ring": value, "NUM_OF_VFS": value, "mac": value}}]}


def of_parts(value: Any) -> Iterator[dict[str, Any]]:
    """One key of each mapping below an interface."""
    for key in functions.VF_KEYS:
        yield on_port(vf_settings={key: value})
    for key in interfaces.QUEUE_KEYS:
        yield on_port(queues={key: value})
    for key in wanted_qos.QOS_KEYS:
        yield on_port(qos={key: value})
        yield {"rdma_fabric_roce_qos": {key: value}}
    for key in ("first", "last"):
        guids = {"first": "02:00:00:00:00:01:00:00", "last": "02:00:00:00:00:01:00:0f"}
        yield on_port(vf_guids={**guids, key: value})
    yield on_port(vf_guids=[value])
    yield on_port(firmware={"NUM_OF_VFS": value})


def of_host(value: Any) -> Iterator[dict[str, Any]]:
    """One key of each mapping about the host."""
    release = {"flavour": "doca-ofed", "version": "25.10", "source": "repository"}
    for key in driver.DRIVER_KEYS:
        yield {"rdma_fabric_driver": {"flavour": "doca-ofed", key: value}}
    for key in driver.REPOSITORY_KEYS:
        repository = {"url": "https://mirror.example/doca", "gpg_check": False, key: value}
        yield {"rdma_fabric_driver": {**release, "repository": repository}}
    for key in driver.PEER_MEMORY_KEYS:
        yield {"rdma_fabric_peer_memory": {key: value}}
    for variable, keys in (
        ("pcie", ("acs", "max_read_request")),
        ("limits", ("memlock", "nofile")),
        ("hugepages", ("2Mi", "1Gi")),
        ("sysctls", ("net.core.rmem_max", "net/ipv4/conf/eth0.1/rp_filter", "net.ipv4.conf.*.rp_filter")),
        ("node_labels", ("example.com/rack",)),
    ):
        for key in keys:
            yield {f"rdma_fabric_{variable}": {key: value}}


def of_keys(value: Any) -> Iterator[dict[str, Any]]:
    """The value as a key, where YAML has such keys."""
    if isinstance(value, (str, int, float, bytes, tuple)):
        for variable in ("sysctls", "node_labels", "hugepages", "limits", "pcie", "driver", "peer_memory", "roce_qos"):
            yield {f"rdma_fabric_{variable}": {value: "1"}}
        for key in ("firmware", "vf_settings", "queues", "qos"):
            yield on_port(**{key: {value: 1}})
        yield {"rdma_fabric_interfaces": [{"pci": PF, value: 1}]}


@pytest.mark.parametrize("place", first_of([of_keys, of_variables, of_interfaces, of_parts, of_host]))
def test_a_hostile_value_is_refused_in_one_line_or_planned_like_any_other(place: Any) -> None:
    refused = 0
    for value in HOSTILE:
        for variables in place(value):
            desired, violations, notices = parse_host_variables("gpu01", variables)
            for said in map(str, (*violations, *notices)):
                assert said.isprintable() and len(said) < 2000, said
            refused += bool(violations)
            if not violations:
                assert check_spec(desired) == desired
                _is_planned(desired, variables)
    assert refused > len(HOSTILE)


def _is_planned(desired: HostSpec, variables: dict[str, Any]) -> None:
    if set(variables) <= {*CONSENTS.values(), *_OF_ANSIBLE}:
        return
    plan, context = plan_with_context(desired, gather(RecordedHost(recording()), desired=desired))
    for step in plan["steps"]:
        assert describe(step).isprintable()
        handler = handler_of(step["concern"])
        if not is_executable(step) or handler is None:
            continue
        work = handler.work(context, step)
        for operation in (*work.do, *work.undo):
            if isinstance(operation, Run):
                assert all(word.isprintable() for word in operation.argv)
            elif isinstance(operation, SetAttribute):
                assert operation.text.strip().isprintable()
            elif isinstance(operation, PutFile) and operation.path != program_path():
                assert operation.path.isprintable()
                assert all(line.isprintable() for line in operation.text.split("\n"))
