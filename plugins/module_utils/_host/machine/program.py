# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the program of the boot unit: the sources of this room as a single file that Python runs.

The sources come from wherever this code was loaded from: the collection's directory on a controller, or the archive
that Ansible sends to a host, where they already lack comments. Members are stored without compression and with a fixed
date, so equal sources give equal bytes everywhere, and the file name identifies the sources.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import posixpath
import re
import zipfile

from . import importing
from .host_files import PROGRAM_DIRECTORY

# A docstring starts a line and ends one. A test over all sources ensures that no other text of this collection does.
_TOKENS = re.compile(
    r"""
    ^(?P<indent>[ \t]*) r?(?P<docstring>\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\") (?=[ \t]*$)
    | \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\" | '''(?:[^'\\]|\\.|'(?!''))*'''
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?P<comment>[ \t]*\#[^\n]*) | (?P<depth>^[ ]+)
    | (?<=\))(?P<returned>[ ]->[ ][^\n]+?)(?=:[ \t]*(?:\#[^\n]*)?$)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


def _nested(depth: int) -> str:
    """Return the pattern of a bracket with up to ``depth`` brackets within brackets."""
    inner = rf"(?:{_nested(depth - 1)}[^\[\]]*)*" if depth else ""
    return rf"\[[^\[\]]*{inner}\]"


# What only type checkers read of a bare source: in these places all that is found by the second pattern.
_FOR_CHECKERS = (
    # The fields of a TypedDict, but for one with total=True; its docstring keeps it a class.
    (r"^class \w+\(TypedDict(?:, total=False)?\):\n \"\"\n(?:(?: .*)?\n)+", r"^ \w+: .+"),
    # The types of parameters; _without_types leaves functions with a lambda, which has colons, too.
    (
        r"^ *def \w+\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)",
        rf"(?<=\w): [^,=()\[\]]*(?:{_nested(3)}[^,=()\[\]]*)*",
    ),
)
PREFIX = "host-"
SUFFIX = ".pyz"
_COLLECTION = "ansible_collections.rdma.fabric."
# The entry point; run/converge.py imports it, so that Ansible includes it in the archive.
ENTRY = f"{_COLLECTION}plugins.module_utils._host.run.at_boot"
_IMPORT = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?:[ \t]+as[ \t]+\w+)?")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_DIGITS = 16
_START = """import sys

from {importing} import compile_once

compile_once()

from {module} import main

sys.exit(main(sys.argv[1:]))
"""


def bare_source(source: str) -> str:
    """Return the source as it is on hosts: without comments, docstrings, most types, and with single blanks.

    Line numbers stay the same, so that a traceback from a host refers to the original source. A source starts with its
    licence, which is a comment: one that does not is already bare, as all are on a host, and stays unchanged.
    """
    if not source.startswith("#"):
        return source
    bare = _TOKENS.sub(_without, source)
    # A host, where all is bare, need not compile these.
    for place, what in _FOR_CHECKERS:
        bare = re.sub(place, functools.partial(_without_types, what), bare, flags=re.MULTILINE)
    return bare


def _without_types(what: str, place: re.Match[str]) -> str:
    if "lambda" in place[0]:
        return place[0]
    return re.sub(what, lambda found: "\n" * found[0].count("\n"), place[0], flags=re.MULTILINE)


def _without(token: re.Match[str]) -> str:
    if token["docstring"] is not None:
        return token["indent"][::4] + '""' + "\n" * token["docstring"].count("\n")
    if token["depth"] is not None:
        return token[0][::4]
    return "" if token["comment"] or token["returned"] else token[0]


class NoSource(Exception):
    """A module whose source can't be found, so that no program can be built."""


@functools.lru_cache(maxsize=1)
def members() -> dict[str, bytes]:
    """Return the files of the program by path in the archive: the entry point and all our modules it imports."""
    found: dict[str, bytes] = {"__main__.py": _START.format(importing=importing.__name__, module=ENTRY).encode("ascii")}
    waiting = [ENTRY, importing.__name__]
    while waiting:
        module = waiting.pop()
        path = f"{module.replace('.', '/')}.py"
        if path in found:
            continue
        found[path] = _source(module)
        _add_packages(found, module)
        waiting += _imported(module, found[path].decode("utf-8"))
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=1)
def program_path() -> str:
    """Return the program's path on a host, which differs for every program."""
    summary = hashlib.sha256()
    for path, data in members().items():
        summary.update(f"{path}\0{len(data)}\0".encode())
        summary.update(data)
    return f"{PROGRAM_DIRECTORY}/{PREFIX}{summary.hexdigest()[:_DIGITS]}{SUFFIX}"


def program_bytes() -> bytes:
    """Return the content of the program."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path, data in members().items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            # zipfile's defaults for system and permissions depend on where it runs.
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


@functools.lru_cache(maxsize=1)
def program_text() -> str:
    """Return the program as text in which surrogates stand for bytes (``surrogateescape``), as operations need it."""
    return program_bytes().decode("utf-8", "surrogateescape")


def is_program(path: str) -> bool:
    """Return whether a path is that of a program of ours, of any release."""
    directory, name = posixpath.split(path)
    return directory == PROGRAM_DIRECTORY and name.startswith(PREFIX) and name.endswith(SUFFIX)


def _source(module: str) -> bytes:
    source = _source_or_none(module)
    if source is None:
        raise NoSource(f"{module} has no source here, so the boot unit's program can't be made")
    return source


@functools.lru_cache(maxsize=None)
def _source_or_none(module: str) -> bytes | None:
    """Return a module's bare source from the loader it came from; None for a package."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    get_source = getattr(spec.loader, "get_source", None) if spec is not None else None
    if get_source is None or spec is None or spec.submodule_search_locations is not None:
        return None
    source = get_source(module)
    # Ansible's loader of collections returns bytes, Python's own returns text.
    text = source.decode("utf-8") if isinstance(source, bytes) else source
    return bare_source(text).encode("utf-8")


def _add_packages(found: dict[str, bytes], module: str) -> None:
    """Make every level above a module a package; those of this collection are empty."""
    parts = module.split(".")[:-1]
    for depth in range(1, len(parts) + 1):
        found.setdefault("/".join([*parts[:depth], "__init__.py"]), b"")


def _imported(module: str, source: str) -> list[str]:
    """Return the modules of this collection that a module's source imports."""
    modules = []
    for statement in _IMPORT.finditer(source):
        origin = _absolute(module, statement[1])
        if not origin.startswith(_COLLECTION):
            continue
        if _source_or_none(origin) is not None:
            modules.append(origin)
            continue
        names = statement[2].strip("()")
        modules += [f"{origin}.{found[1]}" for found in map(_NAME.search, names.split(",")) if found]
    return modules


def _absolute(module: str, origin: str) -> str:
    """Return the full name of an imported module, which modules of this room write with leading dots."""
    name = origin.lstrip(".")
    above = len(origin) - len(name)
    return ".".join([*module.split(".")[:-above], name]).rstrip(".") if above else name
