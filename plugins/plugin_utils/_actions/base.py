# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of this collection's action plugins.

An action plugin ``plugins/action/NAME.py`` derives from :class:`FabricAction` and implements ``execute``. Its arguments
are checked against the documentation of ``plugins/modules/NAME.py``, so the two cannot drift apart.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import json
import os
import traceback
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, ClassVar, Iterable, Mapping

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import fragment_loader
from ansible.utils.display import Display
from ansible.utils.plugin_docs import get_docstring

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    Finding,
    InvalidInput,
    Violation,
    one_line,
    shortened,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.said import hidden
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.vaulted import HIDDEN, opens_vaults, texts_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.of_facts import set_by_facts, violations_of_facts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.texts import Unreadable, is_blank, read_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.validated import raw_of_controller, validated_of

display = Display()

JSON_CALLBACKS = ("json", "jsonl")
NO_PREFLIGHT = (
    "nothing was validated: run the role rdma.fabric.preflight before this task, in a play for localhost or once for "
    "the hosts of this play (run_once: true), as the playbooks of this collection do"
)
SHOW_SECRETS = "rdma_fabric_show_secrets"
_TOLD = ("notices", "unmet")
_ROOT = f"{Path(__file__).parents[3]}/"
SPEC_KEYS = ("type", "elements", "required", "default", "choices", "aliases")


class ActionFailure(Exception):
    """Ends an action as failed. ``facts`` are result keys that go with the message (what was done, what was not)."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


class ActionSkipped(Exception):
    """Ends an action that is not for this host, as a condition of its task would."""


class FabricAction(ActionBase):
    """An action that validates its arguments, runs ``execute`` and reports errors and notices in one way."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    constraints: ClassVar[Mapping[str, Any]] = {}
    """Rules between options as ``ArgumentSpecValidator`` takes them: ``mutually_exclusive``, ``required_if``, ..."""

    checked_in_execute: ClassVar[tuple[str, ...]] = ()
    """Options whose elements and suboptions ``execute`` checks itself; large values belong here."""

    hands_on: ClassVar[tuple[str, ...]] = ()
    """Keys of the result that hold what was given, for later tasks. Who only prints results is told nothing of it."""

    variables: ClassVar[Mapping[str, str]] = {}
    """Options with the variable that says them in a task with ``role_variables``. A new one is entered here."""

    validated: ClassVar[Mapping[str, str]] = {}
    """Options with the place of what says them then of all that preflight has validated, such as ``spec.namespace``."""

    user_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Families of exceptions whose text is written for the user: they end the task without a traceback."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the work with validated ``arguments`` and return the task's result."""
        raise NotImplementedError(type(self).__name__)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task; see ActionBase."""
        # The worker ends with this task; what its parent gave it is not searched for garbage until then.
        gc.freeze()
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            self._refuse_facts(task_vars or {})
            result.update(self.execute(self._validated_arguments(task_vars or {}), task_vars or {}))
        except ActionSkipped as skipped:
            result.update(skipped=True, skip_reason=str(skipped))
        except InvalidInput as invalid:
            violations = [violation.as_dict() for violation in invalid.violations]
            result.update(failed=True, msg=str(invalid), violations=violations)
        except ActionFailure as failure:
            result.update(failed=True, msg=str(failure), **failure.facts)
        except OSError as error:
            result.update(failed=True, msg=describe_os_error(error))
        except self.user_errors as error:
            result.update(failed=True, msg=str(error))
        except AnsibleError:
            raise
        except Exception as error:  # the last resort: Ansible itself would say the error's own words and nothing else
            msg = describe_defect(error, self._task, (task_vars or {}).get("inventory_hostname"))
            result.update(failed=True, msg=msg, exception=traceback.format_exc())
        result.update({name: notice_texts(result[name]) for name in _TOLD if name in result})
        self._hide_secrets(result, task_vars or {})
        for notice in result.get("notices", ()):
            display.warning(printable(notice))
        if isinstance(result.get("msg"), str):
            result["msg"] = printable(result["msg"])
        return result

    def _refuse_facts(self, task_vars: Mapping[str, Any]) -> None:
        """Raise InvalidInput where facts of the task's host set what the task may have been given by."""
        names = set_by_facts(task_vars)
        if names:
            raise InvalidInput(violations_of_facts(str(task_vars.get("inventory_hostname", "")), names))

    def learn(self, value: Any) -> None:
        """Remember plain data that the action has read beside its arguments: no secret of it is told."""
        self._learnt = [*getattr(self, "_learnt", []), value]

    def _hide_secrets(self, result: dict[str, Any], task_vars: Mapping[str, Any]) -> None:
        """Take secrets out of what is said: of what failed that is all, else notices and differences."""
        handed_on = not result.get("failed") and any(name in result for name in self.hands_on)
        told = result if result.get("failed") else {key: result[key] for key in (*_TOLD, "diff") if result.get(key)}
        if not (handed_on or told) or self._shows_secrets(task_vars):
            return
        if handed_on:
            result["_ansible_no_log"] = True
        if told:
            # The patterns take a while to compile, and most tasks have nothing to say.
            from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub import shown  # noqa: PLC0415

            diff = told.get("diff")
            if diff:
                each = shown.shown_difference
                told["diff"] = [each(entry) for entry in diff] if isinstance(diff, list) else each(diff)
            if opens_vaults(self._loader):
                told = hidden(told, self._vaulted(task_vars), HIDDEN)
            result.update(shown.without_secrets(told, [plain(self._task.args), *getattr(self, "_learnt", [])]))

    def _vaulted(self, task_vars: Mapping[str, Any]) -> set[str]:
        """Return every text from a vault that may be quoted."""
        # The table of all variables, which most actions need not know.
        from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import REGISTERED  # noqa: PLC0415

        controller = raw_of_controller(task_vars) if self._task.args.get("role_variables") else {}
        return texts_of([self._task.args, task_vars, controller, *self.quoted_hosts(task_vars)], REGISTERED)

    def _shows_secrets(self, task_vars: Mapping[str, Any]) -> bool:
        """Return whether the user wants results in full; of a run that is localhost's wish."""
        for variables in (task_vars, (task_vars.get("hostvars") or {}).get("localhost") or {}):
            if SHOW_SECRETS in variables:
                return bool(boolean(self.templated(variables[SHOW_SECRETS]), strict=False))
        return False

    def quoted_hosts(self, task_vars: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Return the variables, as they are before templates are filled in, of other hosts whose values are quoted."""
        return ()

    def arguments_of(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are given, before they are checked: those of the task go before variables."""
        given = dict(self._task.args)
        if not given.get("role_variables"):
            return given
        return {**self.role_arguments(task_vars), **given}

    def variables_read(self) -> Mapping[str, str]:
        """Return the options with the variables that say them in this task."""
        return self.variables

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that variables and what preflight has validated say; raises ActionFailure."""
        # The table of all variables, which other tasks need not know.
        from .given import Given  # noqa: PLC0415

        given = Given(task_vars, self.templated)
        values = {option: given.value(name) for option, name in self.variables_read().items()}
        result = validated_result(task_vars, self.templated) if self.validated else {}
        values.update({option: at(place, result) for option, place in self.validated.items()})
        found = {option: value for option, value in values.items() if value is not None}
        self.learn(found)
        return found

    @property
    def check_mode(self) -> bool:
        """Whether nothing may be changed."""
        return bool(self._task.check_mode)

    @property
    def diff_mode(self) -> bool:
        """Whether the user asked for differences."""
        return bool(self._task.diff)

    def templated(self, value: Any) -> Any:
        """Return the value of a variable as plain data, with its templates filled in."""
        return plain(self._templar.template(value))

    def find_file(self, path: str) -> Path:
        """Return a controller file: as the user's shell sees the name, or beside the playbook.

        Raises InvalidInput for what can be no name: too long, with a null byte, or in the home of nobody.
        """
        try:
            given = Path(path).expanduser()
            # Which of both Python's own functions take, differs from release to release.
            if b"\0" in os.fsencode(path):
                raise ValueError("it has a null byte")
            beside_playbook = Path(self._loader.path_dwim(str(given)))
            return beside_playbook if not given.exists() and beside_playbook.exists() else given
        except (OSError, RuntimeError, ValueError) as error:
            problem = f"is no name of a file on the controller: {getattr(error, 'strerror', '') or error}"
            raise InvalidInput([Violation(path, "", problem, "give the path of a file")]) from error

    def _validated_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task's arguments, checked and converted as documented, as plain data."""
        module = Path(inspect.getfile(type(self))).resolve().parent.parent / "modules" / f"{self._name()}.py"
        specification = {
            name: {
                key: value for key, value in option.items() if key != "options" or name not in self.checked_in_execute
            }
            for name, option in argument_specification(str(module)).items()
        }
        arguments = read_texts(plain(self.arguments_of(task_vars)), specification)
        # The validator copies and walks every value, to the last leaf.
        checked_later = {
            name: value
            for name, value in arguments.items()
            if name in self.checked_in_execute and isinstance(value, (dict, list))
        }
        shells = {name: type(value)() for name, value in checked_later.items()}
        validation = ArgumentSpecValidator(specification, **self.constraints).validate({**arguments, **shells})
        if validation.error_messages:
            problems = "; ".join(map(describe_argument_error, validation.errors.errors))
            for option, name in self.variables_read().items() if self._task.args.get("role_variables") else ():
                problems = problems.replace(f"argument '{option}'", f"argument '{option}' ({name})")
            raise ActionFailure(f"{self._name()}: {problems}")
        validated: dict[str, Any] = validation.validated_parameters
        return {**validated, **checked_later}

    def _name(self) -> str:
        return Path(inspect.getfile(type(self))).stem


@lru_cache(maxsize=None)
def argument_specification(module: str) -> dict[str, Any]:
    """Return the argument specification that the DOCUMENTATION of a module file declares, fragments included.

    Every task of every host has a process of its own. The first one that parses the documentation leaves the result to
    the others of the run.
    """
    key = hashlib.sha256(module.encode("utf-8")).hexdigest()
    kept = Path(constants.DEFAULT_LOCAL_TMP) / "rdma_fabric_arguments" / f"{key}.json"
    if kept.exists():
        known: dict[str, Any] = json.loads(kept.read_bytes())
        return known
    try:
        documentation = get_docstring(module, fragment_loader, is_module=True)[0]
    except AnsibleError as error:
        # "unknown doc_fragment(s) in file FILE: NAMESPACE.COLLECTION.FRAGMENT", which names no way out.
        raise ActionFailure(
            f"the options of {Path(module).stem} are not known: {error} (next: install the collection that has the "
            "fragment, such as ansible-galaxy collection install kubernetes.core)"
        ) from error
    if not documentation:
        raise ActionFailure(f"{module} holds no documentation to check arguments against; reinstall the collection")
    specification = option_specification(documentation.get("options") or {})
    write_if_different(kept, json.dumps(specification))
    return specification


def option_specification(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate documented options to an argument specification, suboptions included."""
    specification: dict[str, Any] = {}
    for name, option in options.items():
        entry = {key: plain(option[key]) for key in SPEC_KEYS if key in option}
        if "suboptions" in option:
            entry["options"] = option_specification(option["suboptions"])
        specification[str(name)] = entry
    return specification


def describe_argument_error(error: Exception) -> str:
    """Return one error of the argument validation as a person should read it."""
    return shortened(f"unknown option {error}" if isinstance(error, UnsupportedError) else str(error))


def read_texts(arguments: dict[str, Any], specification: Mapping[str, Any]) -> dict[str, Any]:
    """Read arguments that came as text, as those of surveys and ``-e name=value`` do; blank text is not given.

    Other text that can't be read is left for the validation, which says what the option takes.
    """
    read = dict(arguments)
    for name, value in arguments.items():
        if not isinstance(value, str) or name not in specification:
            continue
        option = specification[name]
        if is_blank(value):
            del read[name]
            continue
        try:
            read[name] = read_text(value, option.get("type", "str"), chosen="choices" in option)
        except Unreadable as error:
            # Ansible would split it at its commas.
            if option.get("type") == "list":
                raise ActionFailure(f"{name}: {shortened(repr(value))} is not a list") from error
    return read


def printable(text: str) -> str:
    """Return text for a terminal: line ends stay, and what else does not print is spelled out.

    Words of pods, registries and hosts are in messages, and an escape sequence could rewrite what the screen shows.
    """
    return "\n".join(map(one_line, text.split("\n")))


def stdout_callback() -> str:
    """Return the name of the callback that prints; ansible-runner's own does so by that of its environment."""
    name = str(constants.DEFAULT_STDOUT_CALLBACK)
    return os.environ.get("ORIGINAL_STDOUT_CALLBACK", name) if name == "awx_display" else name


def json_on_stdout() -> bool:
    """Return whether a program reads what Ansible prints as JSON, which any line of ours on stdout would spoil."""
    return stdout_callback().rpartition(".")[2] in JSON_CALLBACKS


_PLAIN = frozenset((str, bool, int, float, type(None)))


def plain(value: Any) -> Any:
    """Return a value as builtin types only: without tags, lazy containers or trust for templating.

    Text that came from a host or a file therefore never becomes a template. Dates, which YAML makes of unquoted text
    such as ``2024-01-01``, become text again; so does a key that is a tuple, which only a template can make.
    """
    # Most values are such, and typing's Mapping is slow to ask.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {plain(str(key) if isinstance(key, tuple) else key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        # str(value) asks the value, and the unsafe text of ansible-core before 2.19 answers with itself.
        return str.__str__(value)
    for builtin in (int, float):
        if isinstance(value, builtin):
            return builtin.__call__(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def notice_texts(notices: Iterable[Any]) -> list[str]:
    """Return notices as one line of text each, every text once, in their order."""
    texts = [notice.sentence() if isinstance(notice, Finding) else str(notice) for notice in notices]
    return list(dict.fromkeys(texts))


def describe_defect(error: Exception, task: Any, host: object) -> str:
    """Return what nobody foresaw, with the task that met it, whom that was for, and the place in this collection."""
    frames = traceback.extract_tb(error.__traceback__)
    last = ([frame for frame in frames if frame.filename.startswith(_ROOT)] or frames)[-1]
    place = f"{last.filename.replace(_ROOT, '', 1)}:{last.lineno} in {last.name}"
    said = shortened(one_line(str(error)))
    whom = f" for {one_line(str(host))}" if host else ""
    return (
        f"{task.action}: the task {task.get_name()!r} ({task.get_path()}){whom} met what was not foreseen: "
        f"{type(error).__name__}: {said}, at {place} (next: look at what it was given; "
        "the traceback is shown with -vvv, and belongs into a report of this defect)"
    )


def describe_os_error(error: OSError) -> str:
    """Return what the operating system refused, with the file it was about."""
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def validated_result(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return what preflight has registered; raises ActionFailure where it did not run.

    Before ansible-core 2.19 a template that hands it on writes out all hosts and reads them again, for each host.
    """
    found: Any = validated_of(task_vars)
    # A play hands it on.
    result: Mapping[str, Any] = template(found) if isinstance(found, str) else found
    if result.get("spec") is None:
        raise ActionFailure(NO_PREFLIGHT)
    return result


def at(place: str, result: Mapping[str, Any]) -> Any:
    """Return what is at a place (``spec.settings``) of what preflight has validated, of all hosts their names."""
    value: Any = result
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return [*value] if place == "spec.hosts" and value is not None else value
