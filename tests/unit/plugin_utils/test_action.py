# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments are held to the documentation; errors of users become one message; notices are said once."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation, nearest
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import base
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    SHOW_SECRETS,
    ActionFailure,
    FabricAction,
    plain,
)

DOCUMENTATION = '''
DOCUMENTATION = r"""
module: greet
short_description: Greet
description: Greets.
options:
  names:
    description: Whom.
    type: list
    elements: str
    required: true
  times:
    description: How often.
    type: int
    default: 1
  manner:
    description: How.
    type: dict
    suboptions:
      loud:
        description: Loudly.
        type: bool
        default: false
  colour:
    description: Which.
    type: str
    choices: [red, blue]
author: The rdma.fabric contributors
"""
'''

ACTION = """
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import FabricAction

class ActionModule(FabricAction):
    behaviour = None
    hands_on = ("given",)

    def execute(self, arguments, task_vars):
        return type(self).behaviour(arguments)
"""

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs an action of its own collection tree with the given arguments."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "greet.py").write_text(DOCUMENTATION)
    (tmp_path / "action").mkdir()
    source = tmp_path / "action" / "greet.py"
    source.write_text(ACTION)
    spec = importlib.util.spec_from_file_location("greet", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "greet", module)
    spec.loader.exec_module(module)

    def start(
        arguments: dict[str, Any], behaviour: Callable[[dict[str, Any]], dict[str, Any]] = dict, **variables: Any
    ) -> Any:
        module.ActionModule.behaviour = staticmethod(behaviour)
        task = SimpleNamespace(
            args=arguments,
            check_mode=True,
            diff=False,
            async_val=0,
            action="greet",
            get_name=lambda: "Greet all",
            get_path=lambda: "/site.yml:7",
        )
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere"))
        loader = SimpleNamespace(path_dwim=lambda name: str(tmp_path / name))
        templar = SimpleNamespace(template=lambda value: value)
        return module.ActionModule(task, connection, SimpleNamespace(), loader, templar, None).run(
            task_vars={"inventory_hostname": "node\x1b1", **variables}
        )

    return start


def test_arguments_are_converted_and_defaulted_as_documented(run: Run) -> None:
    result = run({"names": "ann,bob", "times": "3", "manner": {}})
    assert result["names"] == ["ann", "bob"]
    assert result["times"] == 3
    assert result["manner"] == {"loud": False}
    assert result["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required arguments: names"),
        ({"names": [], "tims": 1}, "unknown option tims"),
        ({"names": [], "times": "often"}, "times"),
        ({"names": [], "colour": "green"}, "red, blue"),
        ({"names": [], "manner": {"lout": True}}, "lout"),
        ({"names": "[a, "}, "not a list"),
    ],
)
def test_arguments_against_the_documentation_are_refused(run: Run, arguments: dict[str, Any], words: str) -> None:
    result = run(arguments)
    assert result["failed"]
    assert words in result["msg"]
    assert result["msg"].startswith("greet: ") or "names" in result["msg"]


def test_options_of_a_collection_that_is_not_there_are_named_with_the_next_step(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "modules" / "greet.py"
    fragment = "extends_documentation_fragment: [lost.collection.options]\n"
    module.write_text(DOCUMENTATION.replace("options:\n", f"{fragment}options:\n", 1))
    result = run({"names": []})
    assert result["failed"]
    assert result["msg"].startswith("the options of greet are not known: ")
    assert "lost.collection.options" in result["msg"]
    assert "ansible-galaxy collection install" in result["msg"]


def test_all_wrong_arguments_are_named_at_once(run: Run) -> None:
    message = run({"names": [], "times": "often", "colour": "green"})["msg"]
    assert "times" in message
    assert "colour" in message


def test_a_list_given_as_text_on_the_command_line_is_a_list(run: Run) -> None:
    assert run({"names": "[a.yaml, 'b,c.yaml']"})["names"] == ["a.yaml", "b,c.yaml"]


def test_messages_and_notices_have_no_escape_sequence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(base.display, "warning", warned.append)

    def fail(arguments: dict[str, Any]) -> dict[str, Any]:
        raise ActionFailure("a pod said:\n  \x1b[2Jall is well\u202e")

    assert run({"names": []}, fail)["msg"] == "a pod said:\n  \\x1b[2Jall is well\\u202e"
    assert run({"names": []}, lambda _arguments: {"msg": "\x9b2J", "notices": ["\x1b]0;title\x07"]})["msg"] == "\\x9b2J"
    assert warned == ["\\x1b]0;title\\x07"]


def test_invalid_input_fails_with_every_violation(run: Run) -> None:
    def refuse(arguments: dict[str, Any]) -> dict[str, Any]:
        raise InvalidInput([Violation("b.yaml", "spec", "is wrong", "fix it", 3), Violation("a.yaml", "", "is empty")])

    result = run({"names": []}, refuse)
    assert result["failed"]
    assert [violation["source"] for violation in result["violations"]] == ["a.yaml", "b.yaml"]
    assert "b.yaml:3: spec: is wrong (fix it)" in result["msg"]
    assert "2 problems" in result["msg"]


def test_a_refusing_operating_system_is_named_with_its_file(run: Run) -> None:
    def read(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"text": Path("/nonexistent/policy.yaml").read_text()}

    assert run({"names": []}, read)["msg"] == "/nonexistent/policy.yaml: No such file or directory"


def test_a_failure_carries_what_was_done(run: Run) -> None:
    def fail(arguments: dict[str, Any]) -> dict[str, Any]:
        raise ActionFailure("the server refused", applied=2)

    result = run({"names": []}, fail)
    assert (result["failed"], result["msg"], result["applied"]) == (True, "the server refused", 2)


def test_what_nobody_foresaw_names_its_task_and_place_and_keeps_the_traceback(run: Run) -> None:
    def crash(arguments: dict[str, Any]) -> dict[str, Any]:
        with pytest.raises(InvalidInput):
            raise InvalidInput([])
        nearest(5, ["typ"])  # type: ignore[arg-type]  # which is the defect
        return {}

    result = run({"names": []}, crash)
    assert result["failed"]
    assert result["msg"].startswith(
        "greet: the task 'Greet all' (/site.yml:7) for node\\x1b1 met what was not foreseen: "
    )
    assert "AttributeError: 'int' object has no attribute 'lower'" in result["msg"]
    assert "at plugins/module_utils/_violations.py:" in result["msg"]
    assert " in folded (next: " in result["msg"]
    assert result["exception"].startswith("Traceback (most recent call last):")
    assert "in crash" in result["exception"]


def test_of_what_nobody_foresaw_the_words_are_bounded(run: Run) -> None:
    def crash(arguments: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("x\n" * 5000)

    assert len(run({"names": []}, crash)["msg"]) < 2000
    assert "\n" not in run({"names": []}, crash)["msg"]


def test_errors_of_ansible_stay_its_own(run: Run) -> None:
    def fail(arguments: dict[str, Any]) -> dict[str, Any]:
        raise AnsibleError("a variable is undefined")

    with pytest.raises(AnsibleError, match="a variable is undefined"):
        run({"names": []}, fail)


@pytest.mark.parametrize("argument", [{"times": "9" * 5000 + "x"}, {"colour": "x" * 5000}, {"names": "[" + "x" * 5000}])
def test_refused_values_are_not_repeated_in_full(run: Run, argument: dict[str, Any]) -> None:
    result = run({"names": [], **argument})
    assert result["failed"]
    assert len(result["msg"]) < 2000


def test_notices_are_listed_and_said_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(base.display, "warning", said.append)
    notice = Notice("policy.yaml", "spec.devicePlugin", "is retired", "use rdmaSharedDevicePlugin", 7)
    result = run({"names": []}, lambda arguments: {"notices": [notice, notice, "plain text"]})
    expected = ["policy.yaml:7: spec.devicePlugin: is retired (use rdmaSharedDevicePlugin)", "plain text"]
    assert result["notices"] == expected
    assert said == expected


URL = "http://me:hunter2@proxy.example"


def refuse(arguments: dict[str, Any]) -> dict[str, Any]:
    raise ActionFailure(f"{URL} does not answer", seen=["hunter2", {"hunter2": URL}])


def crash_by_it(arguments: dict[str, Any]) -> dict[str, Any]:
    raise KeyError(URL)


def violate(arguments: dict[str, Any]) -> dict[str, Any]:
    raise InvalidInput([Violation(URL, "spec", "has hunter2", "drop hunter2")])


def notice(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"notices": [f"{URL}: hunter2"], "diff": [{"before": {}, "after": {"http_proxy": URL}}], "given": URL}


@pytest.mark.parametrize("behaviour", [refuse, crash_by_it, violate, notice])
def test_secrets_of_arguments_are_told_on_request_only(
    run: Run, behaviour: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    def told(**variables: Any) -> str:
        result = run({"names": [URL]}, behaviour, **variables)
        return str({key: value for key, value in result.items() if key != "given"})

    assert "hunter2" not in told() and "********" in told()
    assert "hunter2" in told(rdma_fabric_show_secrets="yes")
    assert "hunter2" in told(hostvars={"localhost": {"rdma_fabric_show_secrets": True}})
    assert "hunter2" not in told(rdma_fabric_show_secrets=False, hostvars={"localhost": {SHOW_SECRETS: True}})


def test_what_is_handed_on_stays_whole_and_is_not_printed(run: Run) -> None:
    result = run({"names": [URL]}, notice)
    assert (result["given"], result["_ansible_no_log"]) == (URL, True)
    assert "_ansible_no_log" not in run({"names": [URL]}, notice, rdma_fabric_show_secrets=True)
    assert "_ansible_no_log" not in run({"names": [URL]}, refuse), "or its message would not be printed"
    assert "_ansible_no_log" not in run({"names": [URL]})


class Tagged(str):
    """Stands for text that Ansible tagged as trusted for templating."""

    __slots__ = ()


class Unsafe(str):
    """Stands for what ansible-core before 2.19 makes of results: text that says of itself what it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


@pytest.mark.parametrize("kind", [Tagged, Unsafe])
def test_plain_data_keeps_values_and_loses_tags(kind: type[str]) -> None:
    data = plain({kind("a"): [kind("{{ lookup('pipe', 'id') }}"), 1, 1.5, True, None, (2,)]})
    assert data == {"a": ["{{ lookup('pipe', 'id') }}", 1, 1.5, True, None, [2]]}
    assert [type(data["a"][0])] == [str]
    assert [type(key) for key in data] == [str]


def test_a_file_is_found_beside_the_playbook_when_the_shell_does_not_see_it(tmp_path: Path) -> None:
    beside = tmp_path / "policy.yaml"
    beside.write_text("")
    action = SimpleNamespace(_loader=SimpleNamespace(path_dwim=lambda name: str(tmp_path / name)))
    assert FabricAction.find_file(action, "policy.yaml") == beside  # type: ignore[arg-type]  # only the loader is used
    assert FabricAction.find_file(action, "other.yaml") == Path("other.yaml")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, "x/" * 3000, "~nobody-of-this-name/x"])
def test_what_can_be_no_name_of_a_file_is_refused_in_one_line(name: str) -> None:
    action = SimpleNamespace(_loader=DataLoader())
    with pytest.raises(InvalidInput, match=": is no name of a file on the controller: ") as refused:
        FabricAction.find_file(action, name)  # type: ignore[arg-type]  # only the loader is used
    assert refused.value.violations[0].sentence().isprintable()
