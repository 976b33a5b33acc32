# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources as hosts get them: the code of every file of the collection, without what only people read."""

from __future__ import annotations

import ast
from dis import findlinestarts
from pathlib import Path
from types import CodeType

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import bare_source

PLUGINS = Path(__file__).parents[3] / "plugins"
SENT = sorted([*(PLUGINS / "module_utils").rglob("*.py"), *(PLUGINS / "modules").glob("*.py")])


def code(source: str) -> CodeType:
    """Return what a source does; without docstrings, as with ``python -OO``, and types that nothing reads."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.ClassDef) and ast.get_docstring(node) and is_for_checkers(node):
            node.body = node.body[:1]
    return compile(tree, "source", "exec", dont_inherit=True, optimize=2)


def is_for_checkers(node: ast.ClassDef) -> bool:
    is_total = any(getattr(each.value, "value", None) is True for each in node.keywords)
    return not is_total and any(getattr(each, "id", "") == "TypedDict" for each in node.bases)


def parts(unit: CodeType) -> list[object]:
    """Return what a compiled source does and in which lines; where in its line an instruction ends does not count."""
    own = (unit.co_name, unit.co_code, unit.co_names, unit.co_varnames, unit.co_freevars, unit.co_cellvars)
    inner = [parts(each) if isinstance(each, CodeType) else (type(each), each) for each in unit.co_consts]
    return [own, unit.co_flags, list(findlinestarts(unit)), inner]


@pytest.mark.slow
def test_every_file_of_the_collection_keeps_its_code_and_its_lines() -> None:
    assert len(SENT) > 200
    for path in SENT:
        source = path.read_text(encoding="utf-8")
        bare = bare_source(source)
        assert parts(code(bare)) == parts(code(source)), path
        assert source[:1] in ("#", "") and bare[:1] != "#", path
        assert bare_source(bare) == bare, path
        assert "SPDX" not in bare, path
        assert bare.count("\n") == source.count("\n"), path


@pytest.mark.parametrize(
    "source",
    [
        "a = '# no comment'\n",
        'a = "# no \\" comment"\n',
        "a = f'{b}#{c}'\n",
        'a = """text\n# of it\n"""\n',
        "a = '''text\n# of it\n'''\n",
        "a = rb'\\\\'\n",
    ],
)
def test_text_that_looks_like_a_comment_stays(source: str) -> None:
    assert bare_source(f"# licence\n{source}") == f"\n{source}"


def test_comments_docstrings_and_most_of_the_indentation_go_and_the_lines_stay() -> None:
    source = '# licence\ndef f():\n    """Text.\n\n    More "text".\n    """\n    # why\n    return 1  # one\n'
    assert bare_source(source) == '\ndef f():\n ""\n\n\n\n\n return 1\n'


def test_types_of_functions_go() -> None:
    source = "# licence\ndef f(a: int) -> Callable[[int], str]:  # why\n    return ') -> {b}:'\ndef g(\n) -> None:\n"
    assert bare_source(source) == "\ndef f(a):\n return ') -> {b}:'\ndef g(\n):\n"
    several = "def f(\n    a: dict[str, tuple[int, list[str]]], /, *b: int, c: str, e: int = f(g(), h=1), **i: J\n):\n"
    assert bare_source(f"# licence\n{several}") == "\ndef f(\n a, /, *b, c, e= f(g(), h=1), **i\n):\n"
    assert bare_source("# licence\ndef f(a: B = lambda c, d: e):\n") == "\ndef f(a: B = lambda c, d: e):\n"


def test_fields_of_types_go_and_those_that_the_program_reads_stay() -> None:
    fields = '    """Text."""\n\n    a: int\n    b: dict[str, int]\n\n\nC = 1\n'
    bare = ' ""\n\n{}\n{}\n\n\nC = 1\n'
    for head in ("class D(TypedDict):\n", "class D(TypedDict, total=False):\n"):
        assert bare_source(f"# licence\n{head}{fields}") == f"\n{head}{bare.format('', '')}"
    for head in ("class D(TypedDict, total=True):\n", "class D(NamedTuple):\n"):
        assert bare_source(f"# licence\n{head}{fields}") == f"\n{head}{bare.format(' a: int', ' b: dict[str, int]')}"
