# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the value of a variable as its row of the table says, wherever it came from, and says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import label_selector
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, mismatch, named, one_line

from .table import OF_CONTROLLER
from .texts import Unreadable, is_blank, read_text
from .unread import SOURCE
from .variable import Variable


def value_of(row: Variable, given: Any) -> tuple[Any, str]:
    """Return the value that ``given`` stands for, None when nothing is given, and what is wrong with it, if anything.

    Nothing is given by null and by blank text. Entries of lists and members of mappings are left as they are: they are
    checked by what reads them.
    """
    if given is None or is_blank(given):
        return None, ""
    # Inventories in INI give 1 and 0 as numbers.
    value = bool(given) if row.type == "bool" and isinstance(given, int) and given in (0, 1) else given
    if isinstance(given, str):
        try:
            value = read_text(given, row.type, chosen=bool(row.choices))
        except Unreadable:
            return None, _refused(row, given)
    if not _fits(row, value):
        return None, _refused(row, given)
    problem = "; ".join(f"{each.problem} ({each.hint})" for each in label_selector(str(value))) if row.selects else ""
    return (None, problem) if problem else (value, "")


def _refused(row: Variable, given: Any) -> str:
    return mismatch(given, row.allowed)


def _fits(row: Variable, value: Any) -> bool:
    """Return whether a value is of the type of the row and in its range."""
    if row.choices:
        return value in row.choices
    if isinstance(value, bool):
        return row.type == "bool"
    if not isinstance(value, _TYPES[row.type]):
        return False
    return not _outside(row, value)


def _outside(row: Variable, value: Any) -> bool:
    return (row.least is not None and value < row.least) or (row.most is not None and value > row.most)


# Numbers stand for text where text is needed, as Ansible has it: a context may be named 5.
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str, int, float),
    "path": (str,),
    "list": (list, tuple),
    "dict": (dict,),
}


def of_controller(
    of_task: Mapping[str, Any], of_controller_host: Mapping[str, Any], convert: Callable[[Any], Any]
) -> list[Violation]:
    """Return what is wrong with the variables that count once per run, whoever reads them later.

    ``of_task`` are those that a task sees, which win, and ``of_controller_host`` those of localhost. ``convert`` makes
    a value plain, or raises AnsibleError: what has no value is said by who reads it.
    """
    violations = []
    for row in OF_CONTROLLER:
        variables = of_task if row.name in of_task else of_controller_host
        if row.name not in variables:
            continue
        try:
            problem = value_of(row, convert(variables[row.name]))[1]
        except AnsibleError:
            continue
        if problem:
            violations.append(Violation(row.name, "", problem, hint_of(row)))
    return violations


class HostValues:
    """Reads variables of one host after the other, and remembers what is wrong, once with all hosts that have it.

    ``convert`` makes a value plain, or raises AnsibleError.
    """

    def __init__(self, rows: tuple[Variable, ...], convert: Callable[[Any], Any]) -> None:
        self._rows = rows
        self._convert = convert
        self._found: dict[tuple[Variable, str], list[str]] = {}

    def look(self, host: str, variables: Mapping[str, Any]) -> None:
        """Take the variables of one host of the fabric into account."""
        for row in self._rows:
            problem = self._problem(row, variables) if row.name in variables else ""
            if problem:
                self._found.setdefault((row, one_line(problem)), []).append(host)

    def violations(self) -> list[Violation]:
        """Return what is wrong."""
        return [
            Violation(SOURCE, row.name, f"{problem} (on {named(hosts)})", hint_of(row))
            for (row, problem), hosts in self._found.items()
        ]

    def _problem(self, row: Variable, variables: Mapping[str, Any]) -> str:
        try:
            value = self._convert(variables[row.name])
        except AnsibleError as error:
            return f"has no value: {error}"
        found, problem = value_of(row, value)
        return problem or (_no_files(found or ()) if row.on_controller else "")


def _no_files(paths: Iterable[Any]) -> str:
    """Return which of the paths are no files on the controller by their full paths."""
    files = [Path(str(path)) for path in paths]
    wrong = [str(path) for path in files if not (path.is_absolute() and path.is_file())]
    return f"names {named(wrong)}, no file of the controller by its full path" if wrong else ""


def hint_of(row: Variable) -> str:
    """Return the next step for a value that was refused."""
    if row.on_controller:
        return 'give full paths, such as "{{ inventory_dir }}/hooks/NAME.yml"'
    if row.default not in (None, "", [], {}):
        return f"leave it out, or empty, for {_written(row.default)}"
    return "leave it out, or empty, where nothing is meant"


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
