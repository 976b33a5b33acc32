# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations that only the host can tell at the moment of their execution."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Handler
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.execute import execute
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.execution import Execution
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    Found,
    PutFile,
    RemoveFile,
    Run,
    SetAttribute,
    Work,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Plan, make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

WORDS: dict[str, Any] = {"target": "gpu01", "action": "write", "before": 0, "after": 1, "reason": "a test asks for it"}


def _written(text: str) -> Found:
    """Write to every file of a directory that is there when the step runs."""
    return Found("write all", lambda host: [SetAttribute(f"/sys/x/{name}", text) for name in host.list("/sys/x")])


_ALL = Work([_written("1")], [_written("0")])
_ONE = Work([SetAttribute("/sys/x/a", "1")], [SetAttribute("/sys/x/a", "0")])


def _executed(kernel: Kernel, work: Work = _ALL) -> Execution:
    steps = [make_step("some", "thing", **WORDS)]
    plan: Plan = {"format": 1, "steps": steps, "notices": [], "digest": ""}
    handler = Handler(lambda _context, _step: work)
    context: Any = None
    return execute(plan, context, kernel, kernel, handler_of=lambda _concern: handler)


def _host() -> Kernel:
    return Kernel({"files": {"/sys/x/a": "0\n", "/sys/x/b": "0\n"}, "dirs": ["/sys", "/sys/x"]})


def test_what_is_there_when_the_step_runs_is_done() -> None:
    kernel = _host()
    assert _executed(kernel).failure is None
    assert [kernel.read(f"/sys/x/{name}") for name in "ab"] == ["1\n", "1\n"]


def test_a_part_that_was_done_is_taken_back() -> None:
    kernel = _host()
    kernel.disturb(1, "EINVAL")
    failure = _executed(kernel).failure
    assert failure is not None and "could not write all: /sys/x/b" in failure.error
    assert [kernel.read(f"/sys/x/{name}") for name in "ab"] == ["0\n", "0\n"]


@pytest.mark.parametrize(("code", "undone"), [("ETIMEDOUT", ("write 0 to /sys/x/a",)), ("EBUSY", ())])
def test_what_is_late_is_taken_back_and_what_is_refused_at_once_has_changed_nothing(
    code: str, undone: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = _host()
    known = kernel.set_attribute

    def fails(path: str, text: str, timeout: float) -> None:
        if text == "1":
            raise HostError(code, path)
        known(path, text, timeout)

    monkeypatch.setattr(kernel, "set_attribute", fails)
    failure = _executed(kernel, _ONE).failure
    assert failure is not None and (failure.undone, failure.not_undone) == (undone, ())


def test_files_of_ours_get_the_text_back_that_they_had_and_new_ones_go() -> None:
    state = given.two_ports()
    state["boot"]["files"] = {"/etc/a": "former"}
    context = plan_with_context(given.desired(), state)[1]
    undo = context.boot_undo({"/etc/a": "new", "/etc/b": "new"})
    assert [(type(each), getattr(each, "path", ""), getattr(each, "text", None)) for each in undo] == [
        (RemoveFile, "/etc/b", None),
        (PutFile, "/etc/a", "former"),
    ]


@pytest.mark.parametrize(("accepted", "fails"), [((0,), True), ((0, 3), False)])
def test_a_program_has_done_its_work_where_its_status_is_one_that_means_so(
    accepted: tuple[int, ...], fails: bool
) -> None:
    kernel = Kernel({"commands": {"/sbin/tool": {"rc": 3, "stdout": "", "stderr": "no such device"}}})
    failure = _executed(kernel, Work([Run(("/sbin/tool",), accepted=accepted)])).failure
    assert (failure is not None) is fails
    assert failure is None or "no such device" in failure.error
