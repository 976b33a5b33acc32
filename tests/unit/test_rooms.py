# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules between rooms that import-linter has no words for, and the size of what is in them."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Any, Iterator

import yaml
from graphlib import CycleError, TopologicalSorter

from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[2]
PLUGINS = CHECKOUT / "plugins"
UTILS = "ansible_collections.rdma.fabric.plugins.module_utils"
LEAVES = tuple(
    f"{UTILS}.{each}"
    for each in (
        "_violations",
        "_port_counters",
        "_cpu_lists",
        "_pcie_links",
        "_label_requirements",
        "_needs",
        "_version",
    )
)
NEWER_THAN_PYTHON_3_8 = {"graphlib", "tomllib", "zoneinfo"}
MOST_CODE_LINES = 600
MOST_FUNCTION_LINES = 80
# Of the path of a file that is directly in ``plugins/module_utils`` or ``plugins/plugin_utils``.
MODULE_DEPTH = 3

PYTHON_FILES = sorted(path.relative_to(CHECKOUT) for path in PLUGINS.rglob("*.py"))
WITH_CODE = [path for path in PYTHON_FILES if path.name != "__init__.py"]
PURE_ROOMS = ("_host", "_fabric", "_proof", "_report", "_rollout")
# Where programs of a host are started, as lists of words.
STARTS_PROGRAMS = {"plugins/module_utils/_host/machine/access.py", "plugins/module_utils/_host/guard/revert.py"}
SHELLS = {"sh", "bash", "dash", "ksh", "zsh", "env -S", "eval", "xargs"}
SHELL_MODULES = {"shell", "command", "raw", "script", "expect"}


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file as Python 3.8 reads it."""
    return ast.parse((CHECKOUT / path).read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 8))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file, as many rules ask for them."""
    return tuple(ast.walk(parsed(path)))


def imports(path: Path) -> Iterator[str]:
    """Yield every module that a file imports by its full name, wherever the import stands."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield origin(path, node)


def origin(path: Path, node: ast.ImportFrom) -> str:
    """Return the full name of what a file imports from, of ``from ..facts import links`` that of the room ``facts``."""
    if not node.level:
        return node.module or ""
    above = path.parts[: -node.level]
    return ".".join(filter(None, ("ansible_collections.rdma.fabric", *above, node.module)))


def docstring_lines(path: Path) -> set[int]:
    """Return the numbers of lines that documentation takes, so that it never counts against a file."""
    lines: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for statement in parsed(path).body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in {"DOCUMENTATION", "EXAMPLES", "RETURN"}
            for target in statement.targets
        ):
            lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines


def code_lines(path: Path) -> int:
    documentation = docstring_lines(path)
    text = (CHECKOUT / path).read_text(encoding="utf-8").splitlines()
    return sum(
        1
        for number, line in enumerate(text, 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in documentation
    )


def functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield every function of a file: its name, the line it starts at, and its lines without documentation."""
    documentation = docstring_lines(path)
    for node in nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = set(range(node.lineno, (node.end_lineno or node.lineno) + 1)) - documentation
            yield node.name, node.lineno, len(lines)


def test_there_is_something_to_judge() -> None:
    for room in (*PURE_ROOMS, "_k8s"):
        assert any(f"module_utils/{room}/" in path.as_posix() for path in WITH_CODE), room


def may_import(room: str) -> tuple[str, ...]:
    """Return a pure room and what it stands on beside the leaves: the report tells what proofs found."""
    rooms = (room, "_proof") if room == "_report" else (room,)
    return (*LEAVES, *(f"{UTILS}.{each}" for each in rooms))


def test_a_pure_room_imports_the_standard_library_itself_and_the_leaves_only() -> None:
    allowed = set(sys.stdlib_module_names) - NEWER_THAN_PYTHON_3_8
    none_of(
        f"{path}: {name}"
        for room in PURE_ROOMS
        for path in WITH_CODE
        if f"module_utils/{room}/" in path.as_posix()
        for name in imports(path)
        if name.split(".")[0] not in allowed and not name.startswith(may_import(room))
    )


def folders_of(room: Path) -> list[Path]:
    """Return a room and every package in it, relative to the checkout."""
    return [room, *(path.parent for path in PYTHON_FILES if path.name == "__init__.py" and room in path.parent.parents)]


def standing_on(folder: Path) -> dict[str, set[str]]:
    """Return what is directly in a folder, files and packages, each with what else in it it imports from."""
    prefix = f"ansible_collections.rdma.fabric.{'.'.join(folder.parts)}."
    found: dict[str, set[str]] = {}
    for path in WITH_CODE:
        if folder not in path.parents:
            continue
        name = path.relative_to(folder).parts[0].removesuffix(".py")
        below = {part[len(prefix) :].split(".")[0] for part in imported(path) if part.startswith(prefix)}
        found.setdefault(name, set()).update(below - {name})
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield the full name of everything that a file imports, ``from a import b`` as ``a.b``."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{origin(path, node)}.{alias.name}" for alias in node.names)


def test_nothing_in_the_host_core_stands_on_itself() -> None:
    """Its rooms, and what is in each of them, import in one direction, also in a roundabout way."""

    def circle_in(folder: Path) -> str:
        try:
            TopologicalSorter(standing_on(folder)).prepare()
        except CycleError as error:
            return f"{folder}: {' -> '.join(error.args[1])}"
        return ""

    none_of(filter(None, map(circle_in, folders_of(Path("plugins/module_utils/_host")))))


def test_the_leaves_import_the_standard_library_only() -> None:
    for leaf in LEAVES:
        path = PLUGINS / "module_utils" / f"{leaf.rpartition('.')[2]}.py"
        assert {name.split(".")[0] for name in imports(path)} <= set(sys.stdlib_module_names)


def test_a_room_imports_itself_by_dots_and_everything_else_by_its_full_name() -> None:
    none_of(
        f"{path}:{node.lineno}: {origin(path, node)}"
        for path in WITH_CODE
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and bool(node.level) != is_within(room_of(path), origin(path, node))
    )


def room_of(path: Path) -> str:
    """Return the full name of the room that a file is in, an empty one for a file in none."""
    of_rooms = path.parts[1] in {"module_utils", "plugin_utils"} and len(path.parts) > MODULE_DEPTH
    return ".".join(("ansible_collections.rdma.fabric", *path.parts[:MODULE_DEPTH])) if of_rooms else ""


def is_within(room: str, name: str) -> bool:
    return bool(room) and f"{name}.".startswith(f"{room}.")


def test_annotations_are_never_evaluated() -> None:
    for_all = "from __future__ import annotations"
    none_of(f"{path}: not exactly `{for_all}`" for path in WITH_CODE if future_imports(path) != ["annotations"])


def future_imports(path: Path) -> list[str]:
    """Return what a file takes from the Pythons to come."""
    statements = parsed(path).body
    future = [node for node in statements if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return [alias.name for node in future for alias in node.names]


def test_every_file_parses_as_python_3_8() -> None:
    none_of(error for path in PYTHON_FILES for error in newer_syntax(path))


def newer_syntax(path: Path) -> Iterator[str]:
    """Yield where a file stops being Python 3.8."""
    try:
        parsed(path)
    except SyntaxError as error:
        yield f"{path}:{error.lineno}: {error.msg}"


def test_package_files_are_empty() -> None:
    none_of(str(path) for path in PYTHON_FILES if path.name == "__init__.py" and (CHECKOUT / path).read_bytes())


def test_a_file_holds_one_idea() -> None:
    none_of(
        f"{path}: {size} lines of code, {MOST_CODE_LINES} at most"
        for path in WITH_CODE
        for size in [code_lines(path)]
        if size > MOST_CODE_LINES
    )


def test_a_function_fits_on_a_page() -> None:
    none_of(
        f"{path}:{line}: {name} has {size} lines, {MOST_FUNCTION_LINES} at most"
        for path in WITH_CODE
        for name, line, size in functions(path)
        if size > MOST_FUNCTION_LINES
    )


def test_nothing_of_a_host_goes_through_a_shell() -> None:
    """Names and values come from variables and from hosts: a shell would read more in them than they say."""
    found = []
    for path in WITH_CODE:
        if "module_utils/_host/" not in path.as_posix():
            continue
        starts = {name for name in imports(path) if name.split(".")[0] in {"subprocess", "pty", "commands"}}
        if starts and path.as_posix() not in STARTS_PROGRAMS:
            found.append(f"{path}: starts programs by itself")
        for node in nodes(path):
            if isinstance(node, ast.keyword) and node.arg == "shell":
                found.append(f"{path}:{node.value.lineno}: shell=")
            elif isinstance(node, ast.Attribute) and node.attr in {"system", "popen"}:
                found.append(f"{path}:{node.lineno}: os.{node.attr}")
            elif isinstance(node, ast.Constant) and str(node.value).rpartition("/")[2] in SHELLS:
                found.append(f"{path}:{node.lineno}: {node.value!r}")
    none_of(found)


def test_roles_and_playbooks_run_no_commands() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {key}"
        for folder in ("roles", "playbooks")
        for path in sorted((CHECKOUT / folder).rglob("*.yml"))
        for key in keys_of(yaml.safe_load(path.read_text(encoding="utf-8")))
        if key.rpartition(".")[2] in SHELL_MODULES and key.startswith(("ansible.", *SHELL_MODULES))
    ]
    none_of(found)


def keys_of(node: Any) -> Iterator[str]:
    """Yield every key of a document, wherever it stands."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield str(key)
            yield from keys_of(value)
    elif isinstance(node, list):
        for item in node:
            yield from keys_of(item)
