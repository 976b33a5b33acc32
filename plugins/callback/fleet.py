# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
type: stdout
short_description: Quiet screen output with equal results of many hosts in one line
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Prints what P(ansible.builtin.default#callback) prints, except for what changed nothing and for equal results of
    many hosts.
  - A play is one line. A task is printed with the first line below it. V(ok) and V(skipping) are printed with C(-v) and
    with O(show_unchanged) only, unless they have a difference or a message, as of P(ansible.builtin.debug#module), or
    one of many hosts has a warning.
  - V(ok), V(changed) and V(skipping) of one task are one line each. It has the number of hosts and their names, folded
    as an inventory writes ranges, such as C(gpu-[0001:0997]), and is printed when every host is done with the task.
  - Failures and hosts that cannot be reached are printed at once and one by one, and so is every result with a
    difference, its own warning, or output of C(-v). A play for one host looks as it always does.
  - A warning that differs from an earlier one only in the host is printed once. The end of the task names the other
    hosts with it.
  - While a task runs on more than one host, a line shows its progress from time to time, see O(progress_seconds).
  - The path of a failed task is printed with its first failure, and with C(-v) for every one.
  - The recap lists hosts with failures first, one per line if there are at most ten. Others with equal counts share a
    line.
  - With the strategies P(ansible.builtin.free#strategy) and P(ansible.builtin.host_pinned#strategy), where hosts
    overtake each other, the results of a task are printed when the last host is done with it.
  - Below the recap the result of a run of this collection is printed, as by P(rdma.fabric.fabric_result#module), even
    if the run failed before that task.
  - While hosts are changed in turn, as by P(rdma.fabric.node_slot#module) in the playbook C(rdma.fabric.upgrade), a
    line says when one of them begins, is drained, changed, rebooted, back or failed, with the numbers of hosts that are
    back, in turn and to go, and an estimate of the remaining time as for O(progress_seconds). Waiting hosts have no
    lines, and V(ok), V(changed) and V(skipping) of single tasks are not printed. Of hosts that get no slot for the same
    reason, such as a node that has failed, the first is printed, and the names of the others at the end.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in configuration
options:
  show_unchanged:
    description: Whether V(ok), V(skipping) and included files are printed, and tasks and plays where they begin.
    type: bool
    default: false
    env:
      - name: RDMA_FABRIC_SHOW_UNCHANGED
    ini:
      - section: callback_fleet
        key: show_unchanged
  progress_seconds:
    description:
      - The shortest time between two progress lines of a task on many hosts. V(0) prints none.
      - A line shows how many hosts are done, how many of them changed or failed, how many are running, which of these
        has run longest and for how long. It estimates the remaining time once as many hosts are done as run at once.
      - Lines are printed only when a host begins or ends.
    type: float
    default: 30
    env:
      - name: RDMA_FABRIC_PROGRESS_SECONDS
    ini:
      - section: callback_fleet
        key: progress_seconds
"""

EXAMPLES = r"""
# In ansible.cfg, or ANSIBLE_STDOUT_CALLBACK=rdma.fabric.fleet in the environment.
ansible_cfg: |
  [defaults]
  stdout_callback = rdma.fabric.fleet

  [callback_fleet]
  progress_seconds = 60
"""

import os
import time
from types import SimpleNamespace
from typing import Any, Callable, Iterator, Mapping

from ansible import constants, context
from ansible.module_utils.common.collections import ImmutableDict
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as DefaultCallback

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold, host_list
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.results import (
    CHANGED,
    FAILED,
    OK,
    SKIPPED,
    TaskOnHosts,
    Wording,
    recap,
    without_host,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.turns import Turns
from ansible_collections.rdma.fabric.plugins.plugin_utils._endings import (
    STATISTIC,
    TITLE,
    block,
    called,
    end_unsaid,
    end_without_a_task,
    is_shown,
    without_passing,
)

COLOURS = {OK: constants.COLOR_OK, CHANGED: constants.COLOR_CHANGED, SKIPPED: constants.COLOR_SKIP}
RESULT_COLOURS = {
    "unchanged": constants.COLOR_OK,
    "valid": constants.COLOR_OK,
    "changed": constants.COLOR_CHANGED,
    "pending": constants.COLOR_CHANGED,
    "refused": constants.COLOR_ERROR,
    "failed": constants.COLOR_ERROR,
}


class CallbackModule(DefaultCallback):
    """Ansible's default output, with equal results of many hosts folded."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "rdma.fabric.fleet"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._overtaking = False
        self._unbegun: Any = None
        self._without_banner = False
        self._hosts: set[str] = set()
        self._lost: set[str] = set()
        self._open: dict[str, tuple[Any, TaskOnHosts]] = {}
        self._with_diff: set[tuple[str, str]] = set()
        self._warnings: set[str] = set()
        self._explained: set[str] = set()
        self._refusals: set[str] = set()
        self._told = clock()
        self._turns = Turns(0)

    def v2_playbook_on_start(self, playbook: Any) -> None:
        # With -vvvv Ansible prints all that the command was given.
        given = context.CLIARGS
        shown = tuple(each if is_shown(each) else MASK for each in map(str, given.get("extra_vars") or ()))
        context.CLIARGS = ImmutableDict({**given, "extra_vars": shown})
        try:
            super().v2_playbook_on_start(playbook)
        finally:
            context.CLIARGS = given

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._close()
        # A play is started anew for each batch of serial.
        self._hosts = set(play.get_variable_manager().get_vars(play=play).get("ansible_play_batch", ())) - self._lost
        self._overtaking = str(play.strategy).endswith(("free", "host_pinned"))
        self._told = self._clock()
        self._turns = Turns(len(self._hosts))
        if not self._is_quiet():
            super().v2_playbook_on_play_start(play)
            return
        self._play = self._unbegun = play

    def v2_playbook_on_no_hosts_matched(self) -> None:
        if not self._is_quiet():
            super().v2_playbook_on_no_hosts_matched()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._between_tasks()
        super().v2_playbook_on_task_start(task, is_conditional)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._between_tasks()
        super().v2_playbook_on_handler_task_start(task)

    def _task_start(self, task: Any, prefix: str | None = None) -> None:
        if self._unbegun is not None:
            self._display.display(f"PLAY [{self._unbegun.get_name().strip()}]")
            self._unbegun = None
        self._without_banner = self._is_quiet()
        super()._task_start(task, prefix)
        self._without_banner = False

    def _print_task_banner(self, task: Any) -> None:
        if not self._without_banner:
            super()._print_task_banner(task)

    def _is_quiet(self) -> bool:
        """Return whether what changes nothing is not printed."""
        return self._display.verbosity == 0 and not self._own_option("show_unchanged", default=False)

    def _own_option(self, name: str, *, default: Any) -> Any:
        """Return an option of this callback; ansible-runner's, which is made from it, has those of Ansible's only."""
        try:
            return self.get_option(name)
        except KeyError:
            return default

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if not self._overtaking:
            self._close()
        elif self._turns.begun and self._display.verbosity == 0:
            return
        if self._is_quiet():
            return
        names = [host.name for host in included_file._hosts]
        folded = [SimpleNamespace(name=host_list(fold(names)))]
        super().v2_playbook_on_include(
            SimpleNamespace(_filename=included_file._filename, _vars=included_file._vars, _hosts=folded)
        )

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._close()
        super().v2_playbook_on_no_hosts_remaining()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._close()
        super().v2_playbook_on_stats(FoldedStats(stats))
        self._tell_result(stats)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        super().v2_runner_on_start(host, task)
        name = host.get_name()
        # No batch has the localhost that inventories leave out, and a failed host is back where its block rescues it.
        self._hosts.add(name)
        self._lost.discard(name)
        self._state(task).start(name, self._clock())
        self._tell_progress(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        host, task, found = parts(result)
        kind = CHANGED if found.get("changed") else OK
        self._tell_turn(host, task, found)
        items_were_lines = task.loop and "results" in found and not any(warnings_of(found))
        if not items_were_lines and not self._held(result, kind):
            super().v2_runner_on_ok(result)
        self._finish(host, task, kind)

    def v2_runner_on_skipped(self, result: Any) -> None:
        host, task, _found = parts(result)
        if not self._held(result, SKIPPED):
            super().v2_runner_on_skipped(result)
        self._finish(host, task, SKIPPED)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        host, task, found = parts(result)
        if not self._refused_again(host, task, found):
            self._explain_once(result)
            super().v2_runner_on_failed(result, ignore_errors)
        self._tell_turn(host, task, found, failed=True)
        self._finish(host, task, FAILED, lost=not ignore_errors)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        host, task, _found = parts(result)
        self._explain_once(result)
        super().v2_runner_on_unreachable(result)
        self._finish(host, task, FAILED, lost=not task.ignore_unreachable)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        _host, _task, found = parts(result)
        label = f" => (item={self._get_item_label(found)})"
        if not self._held(result, CHANGED if found.get("changed") else OK, label):
            super().v2_runner_item_on_ok(result)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        _host, _task, found = parts(result)
        if not self._held(result, SKIPPED, f" => (item={self._get_item_label(found)}) "):
            super().v2_runner_item_on_skipped(result)

    def v2_on_file_diff(self, result: Any) -> None:
        host, task, found = parts(result)
        if found.get("changed") and found.get("diff") and self._get_diff(found["diff"]):
            self._with_diff.add((host, task._uuid))  # its line stays below its difference
        super().v2_on_file_diff(result)

    def _held(self, result: Any, kind: str, item: str = "") -> bool:
        """Keep the line of a result for the end of its task; return False for one that is to be printed by itself."""
        host, task, found = parts(result)
        with_diff = (host, task._uuid) in self._with_diff
        self._with_diff.discard((host, task._uuid))
        hidden = {OK: not self.get_option("display_ok_hosts"), SKIPPED: not self.get_option("display_skipped_hosts")}
        in_turn = self._turns.begun
        says_more = with_diff or found.get("exception") or self._run_is_verbose(result)
        warnings = set(warnings_of(found))
        alone = (len(self._hosts) == 1 and not in_turn) or hidden.get(kind)
        if kind != CHANGED and self._is_quiet() and not says_more and (alone or not warnings):
            for text in warnings_of(found):
                self._display.warning(text)
            return True
        if alone or says_more or (isinstance(task, TaskInclude) and not in_turn):
            return False
        state = self._state(task)
        new = warnings - self._warnings  # Ansible itself says nothing twice in the same words
        words = {without_host(text, host) for text in new}
        repeated = words <= self._warnings
        self._warnings |= new | words
        if not repeated:
            return False
        if in_turn:
            # The line of the host's turn says what became of it.
            return True
        for text in sorted(words):
            state.hold_warning(host, text)
        # Ansible prints skipped hosts without the one that their task is delegated to.
        delegated = "" if kind == SKIPPED else self.host_label(result)[len(host) :]
        state.hold(host, Wording(kind, delegated, item))
        return True

    def _refused_again(self, host: str, task: Any, found: Mapping[str, Any]) -> bool:
        """Keep that a host gets no slot for the end of the task, where another one was refused in the same words."""
        if not self._overtaking or self._display.verbosity > 0 or not self._turns.is_refused(host, str(task.action)):
            return False
        words = without_host(str(found.get("msg")), str(found.get("node") or host))
        if words in self._refusals:
            self._state(task).hold_warning(host, words)
            return True
        self._refusals.add(words)
        return False

    def _explain_once(self, result: Any) -> None:
        """Leave out where a task stands, the many lines of ansible-core 2.19, from all but its first failure."""
        _host, task, found = parts(result)
        if len(self._hosts) > 1 and self._display.verbosity == 0 and hasattr(result, "exception"):
            if task._uuid in self._explained:
                found.pop("exception", None)
            self._explained.add(task._uuid)

    def _state(self, task: Any) -> TaskOnHosts:
        return self._open.setdefault(task._uuid, (task, TaskOnHosts()))[1]

    def _finish(self, host: str, task: Any, kind: str, *, lost: bool = False) -> None:
        """Note that a task is through on a host, and print what was kept of those that are through on every host."""
        if lost:
            self._lost.add(host)
            self._hosts.discard(host)
        self._state(task).finish(host, self._clock(), kind)
        for each, state in list(self._open.values()):
            if self._is_through(each, state):
                self._print_kept(each)
        if task._uuid in self._open:
            self._tell_progress(task)

    def _is_through(self, task: Any, state: TaskOnHosts) -> bool:
        if self._runs_once(task) or state.running:
            return not state.running
        return len(state.done) >= len(self._hosts) and self._hosts <= state.done

    def _runs_once(self, task: Any) -> bool:
        return task.run_once is True and not self._overtaking

    def _between_tasks(self) -> None:
        if not self._overtaking:
            self._close()
            self._told = self._clock()

    def _close(self) -> None:
        """Print what was kept of every task, and forget it."""
        for task, _state in list(self._open.values()):
            self._print_kept(task)

    def _print_kept(self, task: Any) -> None:
        _task, state = self._open.pop(task._uuid)
        for kind, line in state.release():
            self._below_banner(task)
            self._display.display(line, color=COLOURS[kind])
        for text in state.release_warnings():
            self._display.warning(text)

    def _tell_result(self, stats: Any) -> None:
        """Print how a run of this collection ended, also one that stopped before anything could say so."""
        found = (stats.custom or {}).get("_run", {}).get(STATISTIC)
        failed = any(stats.failures.values()) or any(stats.dark.values())
        if found is None and called(context.CLIARGS) and failed:
            found = end_unsaid(without_passing(context.CLIARGS, os.environ))
        if not stats.processed and called(context.CLIARGS) and context.CLIARGS.get("start_at_task"):
            found = end_without_a_task(without_passing(context.CLIARGS, os.environ))
        if not isinstance(found, dict) or "next" not in found:
            return
        self._display.banner(TITLE)
        first, *others = block(found)
        self._display.display(first, color=RESULT_COLOURS.get(found["result"]))
        for line in others:
            self._display.display(line)

    def _tell_turn(self, host: str, task: Any, found: Mapping[str, Any], *, failed: bool = False) -> None:
        """Print what a result changes of the turn of its host."""
        if self._overtaking and not task.check_mode:
            line = self._turns.line(host, str(task.action), found, self._clock(), failed=failed)
            if line:
                self._display.display(line, color=constants.COLOR_VERBOSE)

    def _tell_progress(self, task: Any) -> None:
        seconds, now = self._own_option("progress_seconds", default=30.0), self._clock()
        if not seconds or self._turns.begun or now - self._told < seconds:
            return
        state = self._state(task)
        total = 1 if self._runs_once(task) else len(self._hosts | state.done)
        line = state.progress(now, total, estimate=not self._overtaking)
        if line:
            self._told = now
            self._below_banner(task)
            self._display.display(line, color=constants.COLOR_VERBOSE)

    def _below_banner(self, task: Any) -> None:
        if self._last_task_banner != task._uuid:
            self._print_task_banner(task)


class FoldedStats:
    """The counts of a run with one name for all hosts whose counts are equal, as the default callback asks for them."""

    def __init__(self, stats: Any) -> None:
        lines = recap({host: stats.summarize(host) for host in stats.processed})
        self.processed: Mapping[str, int] = {Place(name, place): 1 for place, (name, _counts) in enumerate(lines)}
        self.custom = stats.custom
        self._counts = dict(lines)

    def summarize(self, name: str) -> Mapping[str, int]:
        """Return the counts of the hosts of one name."""
        return self._counts[str(name)]


class Place(str):
    """A name that is sorted by its place among others."""

    def __new__(cls, name: str, _place: int) -> Place:
        return super().__new__(cls, name)

    def __init__(self, _name: str, place: int) -> None:
        self._place = place

    def __lt__(self, other: Any) -> bool:
        return bool(self._place < other._place)


def parts(result: Any) -> tuple[str, Any, dict[str, Any]]:
    """Return the host's name, the task and the data of a result, with names that ansible-core before 2.19 has, too."""
    return result._host.get_name(), result._task, result._result


def warnings_of(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the warnings of a result say."""
    for warning in found.get("warnings") or ():
        yield str(warning)
    for deprecation in found.get("deprecations") or ():
        yield str(deprecation.get("msg"))
