# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback ``fleet`` on events as Ansible sends them: what it prints, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from ansible import context

from ansible_collections.rdma.fabric.plugins.callback import fleet
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

OPTIONS = {
    "display_ok_hosts": True,
    "display_skipped_hosts": True,
    "display_included_hosts": True,
    "display_failed_stderr": False,
    "show_per_host_start": False,
    "show_custom_stats": False,
    "check_mode_markers": False,
    "show_task_path_on_failure": False,
    "result_format": "json",
    "pretty_results": None,
    "progress_seconds": 30.0,
    # What most of these tests are about; a quiet run has its own.
    "show_unchanged": True,
}


class Display:
    """Keeps what is printed on the screen."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.verbosity = 0

    def display(self, text: str, *, log_only: bool = False, **_how: Any) -> None:
        self.lines += [] if log_only else [text]

    def banner(self, text: str) -> None:
        self.lines.append(f"== {text}")

    def warning(self, text: str) -> None:
        self.lines.append(f"warning: {text}")

    def _warning(self, text: str) -> None:
        self.warning(text)

    def _error(self, text: str, **_how: Any) -> None:
        self.lines.append(f"error: {text}")


class Run:
    """A run on hosts, told to the callback event by event, on a clock of its own."""

    def __init__(self, hosts: list[str], strategy: str = "linear", **options: Any) -> None:
        self.now, self.screen = 0.0, Display()
        self.callback = fleet.CallbackModule(clock=lambda: self.now)
        self.callback._display = self.screen
        self.callback.get_option = {**OPTIONS, **options}.__getitem__
        self.stats = SimpleNamespace(
            processed=dict.fromkeys(hosts, 1), custom={}, failures={}, dark={}, summarize=self.counts
        )
        self.failed: set[str] = set()
        self.play(hosts, strategy)

    def play(self, hosts: list[str], strategy: str = "linear") -> None:
        variables = SimpleNamespace(get_vars=lambda play: {"ansible_play_batch": hosts})
        self.callback.v2_playbook_on_play_start(
            SimpleNamespace(
                get_name=lambda: "play",
                get_variable_manager=lambda: variables,
                strategy=strategy,
                check_mode=False,
            )
        )

    def task(self, name: str, **fields: Any) -> Any:
        given = {"loop": None, "delegate_to": None, "run_once": False, "ignore_unreachable": False, **fields}
        task = SimpleNamespace(
            _uuid=name, get_name=lambda: name, no_log=False, check_mode=False, action="command", args={}, **given
        )
        self.callback.v2_playbook_on_task_start(task, is_conditional=False)
        return task

    def start(self, task: Any, *hosts: str) -> None:
        for host in hosts:
            self.callback.v2_runner_on_start(named(host), task)

    def end(self, task: Any, *hosts: str, event: str = "ok", **data: Any) -> None:
        for host in hosts:
            given = dict(data)
            result = SimpleNamespace(
                _host=named(host), _task=task, _result=given, host=named(host), task=task, result=given
            )
            result.warnings, result.deprecations = data.get("warnings"), None
            result.exception = data.get("exception")
            self.callback._current_task_result = result
            if event == "failed":
                self.failed.add(host)
            names = {"on_file_diff": "v2_on_file_diff", "item_on_ok": "v2_runner_item_on_ok"}
            getattr(self.callback, names.get(event, f"v2_runner_on_{event}"))(result)

    def whole(self, task: Any, *hosts: str, **data: Any) -> None:
        self.start(task, *hosts)
        self.end(task, *hosts, **data)

    def counts(self, host: str) -> dict[str, int]:
        keys = ("ok", "failures", "unreachable", "changed", "skipped", "rescued", "ignored")
        return {**dict.fromkeys(keys, 0), "failures": int(host in self.failed)}

    def printed(self) -> list[str]:
        lines, self.screen.lines = self.screen.lines, []
        return lines


def named(host: str) -> Any:
    return SimpleNamespace(get_name=lambda: host, name=host)


FLEET = [f"gpu-{number}" for number in range(1, 7)]


@pytest.fixture(autouse=True)
def no_check_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible.context.CLIARGS", {"check": False})


@pytest.fixture
def run() -> Run:
    run = Run(FLEET)
    assert run.printed() == ["== PLAY [play]"]
    return run


def test_results_wait_for_the_last_host_of_their_task(run: Run) -> None:
    task = run.task("one")
    run.start(task, *FLEET)
    run.end(task, "gpu-3", changed=True)
    run.end(task, "gpu-5", event="skipped")
    run.end(task, "gpu-6", "gpu-1", "gpu-2")
    assert run.printed() == ["== TASK [one]"]
    run.end(task, "gpu-4")
    assert run.printed() == [
        "ok: 4 hosts: gpu-1, gpu-2, gpu-4, gpu-6",
        "changed: [gpu-3]",
        "skipping: [gpu-5]",
    ]


def test_results_of_a_task_that_not_every_host_runs_come_before_the_next_one(run: Run) -> None:
    run.whole(run.task("handler"), "gpu-1", "gpu-2", "gpu-3")
    run.task("next")
    assert run.printed() == ["== TASK [handler]", "ok: 3 hosts: gpu-[1:3]", "== TASK [next]"]


def test_results_that_still_wait_at_the_end_of_a_run_come_before_the_recap(run: Run) -> None:
    run.whole(run.task("one"), "gpu-1", "gpu-2")
    run.callback.v2_playbook_on_stats(run.stats)
    assert run.printed()[1:3] == ["ok: 2 hosts: gpu-1, gpu-2", "== PLAY RECAP"]


def test_a_failure_is_printed_at_once_and_its_host_is_waited_for_no_more(run: Run) -> None:
    task = run.task("one")
    run.start(task, *FLEET)
    run.end(task, "gpu-1")
    run.end(task, "gpu-2", event="failed", msg="broken")
    run.end(task, "gpu-3", event="unreachable", msg="gone")
    assert run.printed() == [
        "== TASK [one]",
        'fatal: [gpu-2]: FAILED! => {"msg": "broken"}',
        'fatal: [gpu-3]: UNREACHABLE! => {"msg": "gone"}',
    ]
    run.end(task, "gpu-4", "gpu-5", "gpu-6")
    assert run.printed() == ["ok: 4 hosts: gpu-1, gpu-[4:6]"]
    run.play(FLEET)
    run.whole(run.task("two"), "gpu-1", "gpu-4", "gpu-5", "gpu-6")
    assert run.printed()[-1] == "ok: 4 hosts: gpu-1, gpu-[4:6]"


def test_where_a_task_stands_is_told_with_its_first_failure(run: Run) -> None:
    for name in ("one", "two"):
        task = run.task(name)
        run.start(task, *FLEET)
        run.end(task, "gpu-1", "gpu-2", event="failed", msg="broken", exception="line 3 of tasks.yml")
        first, *fatal = run.printed()[-3:]
        assert first.endswith("line 3 of tasks.yml")
        assert fatal == [
            'fatal: [gpu-1]: FAILED! => {"msg": "broken"}',
            'fatal: [gpu-2]: FAILED! => {"msg": "broken"}',
        ]


def test_a_play_for_one_host_is_printed_as_it_comes() -> None:
    run = Run(["localhost"])
    run.whole(run.task("one"), "localhost", changed=True)
    run.whole(run.task("two"), "localhost", event="skipped")
    assert run.printed()[1:] == ["== TASK [one]", "changed: [localhost]", "== TASK [two]", "skipping: [localhost]"]


def test_the_localhost_that_no_batch_has_is_one_host_too() -> None:
    run = Run([])
    task = run.task("one")
    run.whole(task, "localhost")
    assert run.printed()[-1] == "ok: [localhost]"


def test_what_says_something_by_itself_stays_a_line_below_it(run: Run) -> None:
    task = run.task("one")
    run.start(task, *FLEET)
    diff = {"before": "a\n", "after": "b\n"}
    run.end(task, "gpu-1", event="on_file_diff", changed=True, diff=diff)
    run.end(task, "gpu-1", changed=True, diff=diff)
    run.end(task, "gpu-2", warnings=["the file of gpu-2 is old"])
    run.end(task, "gpu-3", _ansible_verbose_always=True, msg="hello")
    lines = run.printed()
    assert lines[1].startswith("--- before")
    assert lines[2] == "changed: [gpu-1]"
    assert lines[4] == "ok: [gpu-2]"
    assert lines[5].startswith("ok: [gpu-3] => {")
    run.end(task, "gpu-4", warnings=["the file of gpu-4 is old"])
    run.end(task, "gpu-5", "gpu-6")
    assert run.printed() == ["ok: 3 hosts: gpu-[4:6]", "warning: on 1 more host, gpu-4: the file of HOST is old"]


def test_more_words_are_asked_for_with_v() -> None:
    run = Run(FLEET)
    run.screen.verbosity = 1
    run.whole(run.task("one"), *FLEET, rc=0)
    assert [line for line in run.printed() if line.startswith("ok: ")] == [
        f'ok: [{host}] => {{"rc": 0}}' for host in FLEET
    ]


@pytest.mark.parametrize(("option", "event"), [("display_ok_hosts", "ok"), ("display_skipped_hosts", "skipped")])
def test_hosts_that_nobody_wants_to_see_are_not_printed(option: str, event: str) -> None:
    hidden: dict[str, Any] = {option: False}
    run = Run(FLEET, **hidden)
    run.whole(run.task("one"), *FLEET, event=event)
    assert run.printed() == ["== PLAY [play]"]


def test_a_quiet_run_prints_plays_and_what_changed_failed_or_has_something_to_say() -> None:
    run = Run(FLEET, show_unchanged=False)
    run.callback.v2_playbook_on_no_hosts_matched()
    run.play(FLEET)
    run.whole(run.task("nothing"), *FLEET, event="skipped")
    run.whole(run.task("same"), *FLEET)
    run.callback.v2_playbook_on_include(SimpleNamespace(_filename="/in.yml", _vars={}, _hosts=[named("gpu-1")]))
    assert run.printed() == ["PLAY [play]"]
    task = run.task("one")
    run.start(task, *FLEET)
    run.end(task, *FLEET[:3], changed=True)
    run.end(task, "gpu-4")
    run.end(task, "gpu-5", warnings=["odd"])
    run.end(task, "gpu-6", event="failed", msg="broken")
    lines = run.printed()
    assert [line for line in lines if "odd" not in line] == [
        "== TASK [one]",
        "ok: [gpu-5]",
        'fatal: [gpu-6]: FAILED! => {"msg": "broken"}',
        "changed: 3 hosts: gpu-[1:3]",
    ]
    assert len(lines) == 5
    alone = Run(["localhost"], show_unchanged=False)
    for name, data in (("odd", {"warnings": ["odd"]}), ("said", {"_ansible_verbose_always": True, "msg": "hello"})):
        alone.whole(alone.task(name), "localhost", **data)
    assert alone.printed()[:3] == ["PLAY [play]", "warning: odd", "== TASK [said]"]


def test_where_ansible_runner_takes_its_place_the_options_have_their_defaults() -> None:
    """Its awx_display is made from this callback, and documents Ansible's options only."""
    run = Run(FLEET)
    run.printed()
    own = ("show_unchanged", "progress_seconds")
    run.callback.get_option = {name: value for name, value in OPTIONS.items() if name not in own}.__getitem__
    run.play(FLEET)
    task = run.task("one")
    run.start(task, *FLEET)
    run.now = 31.0
    run.end(task, *FLEET)
    assert run.printed()[:3] == ["PLAY [play]", "== TASK [one]", ANY]


def test_a_quiet_run_says_how_far_a_long_task_is() -> None:
    run = Run(FLEET, show_unchanged=False)
    task = run.task("one")
    run.start(task, *FLEET[:2])
    run.now = 31.0
    run.end(task, "gpu-1")
    assert run.printed() == [
        "PLAY [play]",
        "== TASK [one]",
        "  ... 1 of 6 hosts done, 1 running, longest gpu-2 for 31 s",
    ]


def test_items_of_a_loop_are_a_line_for_each_item(run: Run) -> None:
    task = run.task("one", loop=["a", "b"])
    run.start(task, *FLEET)
    for item in ("a", "b"):
        run.end(task, *FLEET, event="item_on_ok", item=item, changed=item == "b")
    run.end(task, *FLEET, results=[{}, {}], changed=True)
    assert run.printed() == [
        "== TASK [one]",
        "ok: 6 hosts: gpu-[1:6] => (item=a)",
        "changed: 6 hosts: gpu-[1:6] => (item=b)",
    ]


def test_hosts_that_overtake_each_other_are_still_one_line_for_each_task() -> None:
    run = Run(FLEET, "free")
    for host in FLEET:
        run.start(run.task("one"), host)
    task, second = run.task("one"), "two"
    run.end(task, *FLEET[:5])
    run.whole(run.task(second), *FLEET[:5])
    assert run.printed() == ["== PLAY [play]"]
    run.end(task, FLEET[5])
    run.whole(run.task(second), FLEET[5], event="failed", msg="broken")
    assert run.printed() == [
        "== TASK [one]",
        "ok: 6 hosts: gpu-[1:6]",
        "== TASK [two]",
        'fatal: [gpu-6]: FAILED! => {"msg": "broken"}',
        "ok: 5 hosts: gpu-[1:5]",
    ]


def test_progress_comes_with_an_event_after_the_interval_and_not_more_often(run: Run) -> None:
    task = run.task("one")
    run.start(task, "gpu-1", "gpu-2")
    run.now = 29.0
    run.end(task, "gpu-1")
    assert run.printed() == ["== TASK [one]"]
    run.now = 31.0
    run.start(task, "gpu-3")
    assert run.printed() == ["  ... 1 of 6 hosts done, 2 running, longest gpu-2 for 31 s"]
    run.now = 60.0
    run.start(task, "gpu-4")
    assert run.printed() == []
    run.now = 62.0
    run.end(task, "gpu-2", event="failed", msg="broken")
    assert run.printed()[1].startswith("  ... 2 of 6 hosts done (1 failed), 2 running, longest gpu-3 for 31 s")


def test_no_progress_is_printed_of_a_short_task_of_one_host_or_where_nobody_wants_it() -> None:
    for run in (Run(["localhost"]), Run(FLEET, progress_seconds=0.0)):
        task = run.task("one")
        run.start(task, "localhost")
        run.now = 1000.0
        run.start(task, "localhost")
        assert run.printed() == ["== PLAY [play]", "== TASK [one]"]
    once = Run(FLEET)
    task = once.task("one", run_once=True)
    once.start(task, "gpu-1")
    once.now = 1000.0
    once.end(task, "gpu-1")
    assert once.printed()[-1] == "ok: [gpu-1]"


def test_an_included_file_is_one_line_of_folded_names(run: Run) -> None:
    hosts = [named(host) for host in FLEET]
    run.callback.v2_playbook_on_include(SimpleNamespace(_filename="/in.yml", _vars={}, _hosts=hosts))
    assert run.printed() == ["included: /in.yml for gpu-[1:6]"]


def test_the_recap_is_a_line_for_each_failing_host_and_one_for_equal_ones(run: Run) -> None:
    run.failed |= {"gpu-6"}
    run.callback.v2_playbook_on_stats(run.stats)
    lines = [line.split(" : ")[0].rstrip() for line in run.printed()]
    assert lines == ["== PLAY RECAP", "gpu-6", "gpu-[1:5] (5 hosts)", ""]


def test_how_the_run_ended_comes_below_the_recap(run: Run) -> None:
    found = {"result": "pending", "counts": "2 hosts", "findings": ["odd"], "paths": {"report": "/r"}, "next": "again"}
    run.stats.custom = {"_run": {"rdma_fabric_result": found}}
    run.callback.v2_playbook_on_stats(run.stats)
    lines = run.printed()
    said = ["result:   pending", "counts:   2 hosts", "odd", "report:   /r", "next:     again"]
    assert lines[-6:] == ["== RUN RESULT", *said]
    assert lines.index("== PLAY RECAP") < len(lines) - 6


@pytest.mark.parametrize(("playbook", "failures", "said"), [("rdma.fabric.site", 1, 1), ("mine.yml", 1, 0)])
def test_a_run_of_ours_that_failed_before_it_could_say_so_ends_with_it_too(
    run: Run, monkeypatch: pytest.MonkeyPatch, playbook: str, failures: int, said: int
) -> None:
    cli = {"args": (playbook,), "inventory": ("hosts.yml",), "check": False}
    monkeypatch.setattr(context, "CLIARGS", cli)
    run.stats.failures = {"gpu-1": failures}
    run.callback.v2_playbook_on_stats(run.stats)
    lines = run.printed()
    assert lines.count("result:   failed") == said
    assert [line for line in lines if line.startswith("next:")] == [
        "next:     fix what is named above, then: ansible-playbook rdma.fabric.site -i hosts.yml"
    ] * said


def test_the_next_step_names_no_inventory_that_ansible_rulebook_removes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = "/scratch/eda_k3x9q2b"
    cli = {"args": ("rdma.fabric.drift",), "inventory": (f"{folder}/inventory",), "check": False}
    monkeypatch.setattr(context, "CLIARGS", cli)
    monkeypatch.setenv("AWX_ISOLATED_DATA_DIR", f"{folder}/artifacts/1")
    step = "fix what is named above, then: ansible-playbook rdma.fabric.drift -i INVENTORY"
    run.stats.failures = {"gpu-1": 1}
    run.callback.v2_playbook_on_stats(run.stats)
    assert run.printed()[-1] == f"next:     {step}"
    failed = {"kind": "drift", "result": {"failed": True, "msg": "no"}}
    assert run_action("fabric_result", failed)["statistic"]["next"] == step


def test_a_run_that_started_in_the_middle_and_failed_is_told_to_start_at_the_beginning(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = {
        "args": ("rdma.fabric.site",),
        "inventory": ("hosts.yml",),
        "start_at_task": "Write the report",
        "check": False,
    }
    monkeypatch.setattr(context, "CLIARGS", cli)
    run.stats.failures, run.stats.processed = {"localhost": 1}, {"localhost": 1}
    run.callback.v2_playbook_on_stats(run.stats)
    assert run.printed()[-2:] == [
        "counts:   ended before its report: --start-at-task left out what comes before Write the report",
        "next:     leave --start-at-task out: ansible-playbook rdma.fabric.site -i hosts.yml",
    ]


@pytest.mark.parametrize(
    ("playbook", "processed", "said"),
    [("rdma.fabric.site", {}, 1), ("rdma.fabric.site", {"gpu-1": 1}, 0), ("mine.yml", {}, 0)],
    ids=["no such task", "a task", "a playbook of somebody else"],
)
def test_a_run_that_found_no_task_to_start_at_has_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch, playbook: str, processed: dict[str, int], said: int
) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"args": (playbook,), "start_at_task": "NOSUCH", "check": False})
    run.stats.processed = processed
    run.callback.v2_playbook_on_stats(run.stats)
    assert run.printed().count("counts:   nothing was done: no task is called NOSUCH") == said


class InTurn(Run):
    """A run that takes hosts in turn, told task by task."""

    def __init__(self, hosts: list[str]) -> None:
        super().__init__(hosts, strategy="ansible.builtin.host_pinned")
        self.names = {name: self.task(name) for name in ("node_slot", "node_drain", "rdma_host", "reboot", "end")}
        for name, task in self.names.items():
            task.action = {"reboot": "ansible.builtin.reboot", "end": "rdma.fabric.node_slot"}.get(
                name, f"rdma.fabric.{name}"
            )
        for host in hosts:
            self.start(self.names["node_slot"], host)
        self.printed()

    def told(self, name: str, host: str, event: str = "ok", **data: Any) -> list[str]:
        self.start(self.names[name], host)
        self.end(self.names[name], host, event=event, **data)
        return [line for line in self.printed() if line.startswith("  ... gpu")]

    def whole_turn(self, host: str, seconds: float = 100.0) -> list[str]:
        lines = self.told("node_slot", host, state="taken", lease="rdma-fabric-slot-upgrade-3", changed=True)
        lines += self.told("node_drain", host, cordoned=True, changed=True, before={"uid": "a"})
        lines += self.told("node_drain", host, cordoned=True, before={})
        lines += self.told("rdma_host", host, reboot_due=True, changed=True)
        self.now += seconds
        lines += self.told("reboot", host, rebooted=True, changed=True)
        lines += self.told("rdma_host", host, reboot_due=False)
        lines += self.told("node_drain", host, cordoned=False, changed=True)
        return lines + self.told("end", host, state="given_back", changed=True)


def test_each_change_of_a_turn_is_a_line_with_how_far_all_are() -> None:
    run = InTurn(FLEET)
    assert run.whole_turn("gpu-1") == [
        "  ... gpu-1 begins, slot 3; 0 of 6 back, 1 in turn, 5 to go",
        "  ... gpu-1 drained; 0 of 6 back, 1 in turn, 5 to go",
        "  ... gpu-1 changed, reboots; 0 of 6 back, 1 in turn, 5 to go",
        "  ... gpu-1 rebooted; 0 of 6 back, 1 in turn, 5 to go",
        "  ... gpu-1 looked at again; 0 of 6 back, 1 in turn, 5 to go",
        "  ... gpu-1 back after 1 min 40 s; 1 of 6 back, 0 in turn, 5 to go, about 8 min 20 s left",
    ]


def test_the_time_left_comes_of_turns_that_have_ended_and_shrinks_with_those_that_go_on() -> None:
    run = InTurn(FLEET)
    for host in FLEET[:2]:
        run.told("node_slot", host, state="taken", lease="slot-0")
    run.now = 100.0
    assert "left" not in run.told("end", "gpu-1", state="given_back")[0]
    run.told("node_slot", "gpu-3", state="taken", lease="slot-0")
    assert run.told("end", "gpu-2", state="given_back")[0].endswith(
        "2 of 6 back, 1 in turn, 3 to go, about 3 min 20 s left"
    )


def test_a_failed_turn_and_those_that_do_not_begin_are_counted_and_no_sample_of_the_time() -> None:
    run = InTurn(FLEET)
    run.told("node_slot", "gpu-1", state="taken", lease="slot-0")
    run.now = 60.0
    assert run.told("end", "gpu-1", state="failed", changed=True) == [
        "  ... gpu-1 failed; 0 of 6 back, 1 failed, 0 in turn, 5 to go, about 5 min left"
    ]
    assert run.told("node_slot", "gpu-2", event="failed", msg="no slot") == []
    assert run.told("node_slot", "gpu-3", state="taken", lease="slot-1")[0].endswith(
        "1 failed, 1 not begun, 1 in turn, 3 to go, about 4 min left"
    )


STOPPED = "no further node begins, as one has failed: x (run r, failed: no links)"


def refuse(run: InTurn, host: str, why: str) -> list[str]:
    run.end(run.names["node_slot"], host, event="failed", msg=f"node n-{host}: {why}", node=f"n-{host}")
    return [line for line in run.printed() if line.startswith(("fatal", "warning"))]


def test_who_gets_no_slot_for_the_same_reason_is_told_once_and_with_the_names_of_all_at_the_end() -> None:
    run = InTurn(FLEET)
    assert len(refuse(run, "gpu-1", STOPPED)) == 1
    assert refuse(run, "gpu-2", STOPPED) == []
    assert len(refuse(run, "gpu-3", "no slot")) == 1
    assert refuse(run, "gpu-4", STOPPED) == refuse(run, "gpu-5", STOPPED) == []
    run.end(run.names["node_slot"], "gpu-6", state="taken", lease="slot-1")
    assert [line for line in run.printed() if line.startswith(("  ...", "warning"))] == [
        "  ... gpu-6 begins, slot 1; 0 of 6 back, 5 not begun, 1 in turn, 0 to go",
        f"warning: on 3 more hosts, gpu-2, gpu-4, gpu-5: node HOST: {STOPPED}",
    ]


def test_each_host_that_fails_in_its_turn_is_told_by_itself_and_with_v_each_that_gets_no_slot() -> None:
    run = InTurn(FLEET)
    for host in FLEET[:2]:
        run.told("node_slot", host, state="taken", lease="slot-0")
        run.start(run.names["end"], host)
        run.end(run.names["end"], host, event="failed", msg="no answer", node="n")
        assert [line for line in run.printed() if line.startswith("fatal")]
    run.screen.verbosity = 1
    assert len(refuse(run, "gpu-3", STOPPED)) == len(refuse(run, "gpu-4", STOPPED)) == 1


def test_tasks_of_turns_have_neither_progress_of_their_own_nor_a_line_for_each_file_that_is_included() -> None:
    run = InTurn(FLEET)
    run.told("node_slot", "gpu-1", state="taken", lease="slot-0")
    run.now = 1000.0
    run.start(run.names["rdma_host"], "gpu-1")
    run.whole(run.task("another"), "gpu-1", event="skipped")
    run.callback.v2_playbook_on_include(SimpleNamespace(_filename="main.yml", _vars={}, _hosts=[named("gpu-1")]))
    assert run.printed() == []


def test_failures_and_what_a_hook_says_are_printed_in_turns_too() -> None:
    run = InTurn(FLEET)
    run.told("node_slot", "gpu-1", state="taken", lease="slot-0")
    run.whole(run.task("hook"), "gpu-1", msg="hello", _ansible_verbose_always=True)
    run.whole(run.task("broken"), "gpu-1", event="failed", msg="no")
    printed = run.printed()
    assert [line for line in printed if "hello" in line]
    assert 'fatal: [gpu-1]: FAILED! => {"msg": "no"}' in printed


def test_a_play_in_check_mode_and_one_for_one_host_print_no_turns() -> None:
    assert InTurn(["gpu-1"]).whole_turn("gpu-1") == []
    run = InTurn(FLEET)
    for task in run.names.values():
        task.check_mode = True
    assert run.whole_turn("gpu-1") == []
