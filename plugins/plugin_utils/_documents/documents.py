# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML and JSON files as documents that know their lines.

Files are data from strangers: they are never templated, build no objects, and cannot grow by aliases. Unquoted scalars
mean what they mean to kubectl: ``12:30`` and ``2024-01-01`` are text, ``yes`` is true, ``11.0`` is a number.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Callable, Iterator, Mapping

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import b_HEADER

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, Path, path_text
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.jsontext import parse_json
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.typography import (
    begins_typeset,
    cleaned,
    hidden,
    led_by,
    lost_indentation,
    no_field,
    repaired,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Violation,
    described,
    shown,
)

MAX_BYTES = 1024 * 1024
MAX_VALUES = 100_000
MAX_DEPTH = 64
VAULT_HINT = "give its secret: --vault-id or --vault-password-file, or the template's credential of type Vault"

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.ASCII)
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_FIELD = re.compile(r":(?:\s|$)")
_NO_COLON, _NO_VALUES = "could not find expected ':'", "mapping values are not allowed"
_NO_KEY = "did not find expected key"
_MOST_DIGITS = 100
# Of signed and of unsigned numbers: API servers refuse or round what is beyond.
_LEAST, _MOST = -(2**63), 2**64 - 1
_TOO_LARGE, _SMALLER = "which 64 bits do not hold", "quote it, or give a smaller number"
_NO_TEMPLATE = "keys are text; {{ ... }} of Helm or Ansible is not filled in here: give the text that it makes"
_FIRST_FIELDS = (("apiVersion",), ("kind",))
_TRUE = ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON")
_FALSE = ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")


class _Flaw(Exception):
    """What is wrong at one node of a document."""

    def __init__(self, node: Any, path: Path, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.line = node.start_mark.line + 1
        self.path, self.problem, self.hint = path, problem, hint


@dataclass
class _Reading:
    """The state of reading one file."""

    source: str
    text: list[str]
    violations: list[Violation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    values: int = 0

    def refuse_typeset(self, node: Any, path: Path) -> None:
        """Note an unquoted word that begins as no program writes it."""
        begins = "" if node.style else begins_typeset(node.value)
        if begins:
            line = node.start_mark.line
            hint = f"write: {repaired(self.text[line])}; or put it into quotes if it is meant"
            self.note(f"begins with {begins}", hint, line + 1, path)

    def note(self, problem: str, hint: str = "", line: int | None = None, path: Path = ()) -> None:
        """Note a violation of the file."""
        self.violations.append(Violation(self.source, path_text(path), problem, hint, line))


def read_files(names: list[str], find: Callable[[str], FilePath]) -> tuple[list[Document], list[Violation]]:
    """Read files of the controller; ``find`` turns a name into its path. Sources are the names as given."""
    documents: list[Document] = []
    violations: list[Violation] = []
    for name in names:
        try:
            documents += read_text(name, _read(name, find(name)))
        except OSError as error:
            there = FilePath(name).expanduser().is_absolute()
            hint = "check the path" if there else f"check the path; it was looked for in {FilePath.cwd()}"
            violations.append(Violation(name, "", f"cannot be read: {error.strerror or error}", hint))
        except InvalidInput as invalid:
            violations += invalid.violations
    return documents, violations


@contextmanager
def decrypted(find: Callable[[str], FilePath], loader: DataLoader) -> Iterator[Callable[[str], FilePath]]:
    """Give what turns a name into the path of its text, which ansible-vault may have encrypted as a whole.

    ``find`` returns the path of the file. Decrypted texts stay on disk no longer than that.
    """
    try:
        yield lambda name: in_the_clear(name, find(name), loader)
    finally:
        loader.cleanup_all_tmp_files()


def in_the_clear(name: str, path: FilePath, loader: DataLoader) -> FilePath:
    """Return the path of a file's text: the file, or where the loader has decrypted it to if ansible-vault wrote it.

    Raises OSError, and InvalidInput where no secret of the run fits.
    """
    if not path.is_file():
        return path
    with path.open("rb") as file:
        if file.read(len(b_HEADER)) != b_HEADER:
            return path
    try:
        return FilePath(loader.get_real_file(str(path.absolute())))
    except AnsibleError as error:
        problem = f"is encrypted and cannot be decrypted: {str(error).splitlines()[0]}"
        raise InvalidInput([Violation(name, "", problem, VAULT_HINT)]) from error


def _read(name: str, path: FilePath) -> str:
    """Return the text of a file; a big or binary one is refused before it is looked at."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        hint = "etcd stores no object above 1.5 MB; give files of manifests only"
        raise InvalidInput([Violation(name, "", f"is {size} bytes long, at most {MAX_BYTES} are read", hint)])
    if not path.is_file():
        raise InvalidInput([Violation(name, "", "is not a regular file", "give the files, not their folder")])
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        what = "is a binary file" if b"\0" in content else "is not UTF-8 text"
        raise InvalidInput([Violation(name, "", what, "save it as UTF-8", line)]) from error


def read_text(source: str, text: str) -> list[Document]:
    """Return the documents of a YAML or JSON text, empty ones left out.

    Raises InvalidInput with what is wrong: text that is no YAML, keys given twice, tags, too many or too deep values.
    """
    text, blanks, line = cleaned(text)
    reading = _Reading(source, text.splitlines())
    if blanks:
        problem = f"has {blanks} characters of white space that YAML does not know; they are taken for blanks"
        reading.notices.append(Notice(source, "", problem, "they come from a web page or a word processor", line))
    for line in hidden(text):
        problem = "has a character of no width inside a text: what is named with it is another name"
        reading.notices.append(Notice(source, "", problem, "type that text anew if it is not meant", line))
    control = _CONTROL.search(text)
    if control is not None:
        line = text.count("\n", 0, control.start()) + 1
        reading.note("is a binary file", f"it holds the character {control.group()!a}", line)
        raise InvalidInput(reading.violations)
    is_json = text.lstrip()[:1] in ("{", "[") and source.endswith(".json")
    led = led_by(reading.text)
    if led:
        reading.note(f"has {led} before each line", "paste it without", 1)
        raise InvalidInput(reading.violations)
    flat = None if is_json else lost_indentation(text)
    if flat is not None:
        names = ", ".join(flat[1][:4]) + (", ..." if len(flat[1]) > 4 else "")
        hint = "paste it with its blanks, or indent the fields of each of these"
        reading.note(f"has lost its indentation: nothing stands below {names}", hint, flat[0])
        raise InvalidInput(reading.violations)
    documents = _json_document(text, reading) if is_json else list(_yaml_documents(text, reading))
    if not documents and not reading.violations:
        reading.note("holds no document", "give at least one object")
    if reading.violations:
        raise InvalidInput(reading.violations)
    return documents


def _json_document(text: str, reading: _Reading) -> list[Document]:
    content, problems = parse_json(text)
    for problem in problems:
        found = re.search(r"at line (\d+)", problem.problem)
        several = "give several objects as items of one List, as kubectl get --output=json does; "
        hint = several if "Extra data" in problem.problem else ""
        reading.note(problem.problem, f"{hint}{problem.hint}", int(found[1]) if found else None)
    for path, number in _large_numbers(content, ()):
        reading.note(f"is {number}, {_TOO_LARGE}", _SMALLER, None, path)
    if reading.violations:
        return []
    return [Document(reading.source, content, _LinesOfJson(text, reading.source), notices=reading.notices)]


def _large_numbers(value: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _large_numbers(item, (*path, key))


class _LinesOfJson(Mapping[Path, int]):
    """The lines of the values of a JSON text, which are looked for when there is something to say of one.

    That takes many times what reading the text does.
    """

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source = text, source

    def __getitem__(self, path: Path) -> int:
        return self._found[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[Path, int]:
        # Tabs and escaped surrogates are fine in JSON and errors in YAML: the lines are taken from a text without.
        as_yaml = _SURROGATE.sub("x", self._text.replace("\t", " "))
        located = list(_yaml_documents(as_yaml, _Reading(self._source, as_yaml.splitlines())))
        return located[0].lines if located else {}


def _yaml_documents(text: str, reading: _Reading) -> Iterator[Document]:
    try:
        _refuse_depth(text)
        for node in yaml.compose_all(text, Loader=_LOADER):
            if node is None:
                continue
            builder = _Builder(reading)
            content = builder.build(node, ())
            if content is not None:
                lines, notices = builder.lines, reading.notices
                yield Document(reading.source, content, lines, builder.written, builder.blocks, notices)
    except yaml.MarkedYAMLError as error:
        about = " ".join(part for part in (error.problem, error.context) if part)
        line = _culprit(reading.text, error)
        hint = _yaml_hint(reading.text, line, about)
        reading.note(f"is not valid YAML: {about}", hint, None if line is None else line + 1)
    except (yaml.YAMLError, ValueError) as error:
        reading.note(f"is not valid YAML: {str(error).splitlines()[0]}")
    except _Flaw as flaw:
        reading.note(flaw.problem, flaw.hint, flaw.line, flaw.path)


def _refuse_depth(text: str) -> None:
    """Raise a flaw for nesting that libyaml's composer, which recurses in C, would pay for with the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _Flaw(event, (), f"is deeper than {MAX_DEPTH} levels", "flatten it")


def _culprit(lines: list[str], error: Any) -> int | None:
    """Return the line that an error comes from, counted from 0.

    One that is no field, or has a quote that is not closed, shows only further down.
    """
    mark, problem = error.problem_mark or error.context_mark, error.problem or ""
    if mark and problem.startswith(_NO_VALUES):
        above = max((number for number in range(mark.line) if lines[number].strip()), default=mark.line)
        if not _FIELD.search(lines[above]):
            return above
    if mark and problem.startswith(_NO_KEY):
        odd = [number for number in range(mark.line + 1) if _has_odd_quote(lines, number)]
        return odd[-1] if len(odd) % 2 else mark.line
    if error.context_mark and (problem.startswith(_NO_COLON) or "quoted scalar" in (error.context or "")):
        mark = error.context_mark
    return mark.line if mark else None


def _has_odd_quote(lines: list[str], number: int) -> bool:
    return number < len(lines) and lines[number].replace('\\"', "").count('"') % 2 == 1


def _yaml_hint(lines: list[str], number: int | None, problem: str) -> str:
    """Return the next step after a syntax error, from the line that it comes from."""
    if number is None or number >= len(lines):
        return "the text ends too early: a quote or bracket is not closed"
    line = lines[number]
    if line.startswith("\t") or "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with blanks: YAML allows no tabs there"
    stray = no_field(line, surely=problem.startswith((_NO_COLON, _NO_VALUES)) and not _FIELD.search(line))
    if stray or repaired(line):
        return stray or f"write: {repaired(line)[:60]}"
    if problem.startswith(_NO_VALUES) and number and ":" in lines[number - 1]:
        above = lines[number - 1].strip()[:60]
        return f"it stands below a line with a value ({above}): a line is missing between them, or blanks are too many"
    return f"{_reason(problem, _has_odd_quote(lines, number))}: {line.strip()[:60]}"


def _reason(problem: str, is_odd: bool) -> str:
    """Return what to do about a line with a syntax error; ``is_odd``: it has a quote without another."""
    if "escape character" in problem:
        return "a backslash needs a second one inside double quotes, or take single ones"
    if is_odd or "quoted scalar" in problem:
        return "a quote is not closed"
    if problem.startswith(_NO_KEY):
        return "the blanks in front of it, or quotes in it, do not fit; near"
    return "if another document begins here, put --- above it; near" if "<document start>" in problem else "near"


@dataclass
class _Builder:
    """Builds plain data from the nodes of one document and notes where every value stands."""

    reading: _Reading
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    blocks: dict[Path, int] = field(default_factory=dict)
    open_nodes: list[int] = field(default_factory=list)

    def build(self, node: Any, path: Path) -> Any:
        """Return the value of a node."""
        self.reading.values += 1
        if self.reading.values > MAX_VALUES:
            raise _Flaw(node, (), f"holds more than {MAX_VALUES} values", "aliases count as often as they are used")
        if len(path) > 2 * MAX_DEPTH:
            raise _Flaw(node, (), f"is deeper than {2 * MAX_DEPTH} levels through its aliases", "flatten it")
        if id(node) in self.open_nodes:
            raise _Flaw(node, path, "contains itself through an alias", "write the value out")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self.open_nodes.append(id(node))
        self._refuse_tag(node, path)
        if isinstance(node, yaml.SequenceNode):
            value: Any = [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            value = self._mapping(node, path)
        self.open_nodes.pop()
        return value

    def _refuse_tag(self, node: Any, path: Path) -> None:
        plain = "seq" if isinstance(node, yaml.SequenceNode) else "map"
        if node.tag != f"{_STANDARD}{plain}":
            raise _tagged(node, path)

    def _key(self, node: Any, path: Path) -> str | None:
        """Return a key, None for one that is no text: API servers take none, and programs differ in what it becomes."""
        key = self._scalar(node, (*path, str(node.value)))
        if isinstance(key, str):
            return key
        text = shown(node.value)
        problem = f"has the key {text[1:-1]}, which is {described(key)}; a key is text"
        self.reading.note(problem, f"quote it: {text}", node.start_mark.line + 1, path)
        return None

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Flaw(key_node, path, "has a list or a mapping as key", _NO_TEMPLATE)
            if key_node.tag == f"{_STANDARD}merge":
                merged.update(self._merge(value_node, path))
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            member: Path = (*path, key)
            if key in found:
                line = self.lines.get(member)
                line_now = key_node.start_mark.line + 1
                begins = "put --- above it if another document begins here; " if member in _FIRST_FIELDS else ""
                hint = f"{begins}it is also at line {line}"
                self.reading.note("is given twice in one mapping", hint, line_now, member)
                continue
            is_scalar = isinstance(value_node, yaml.ScalarNode)
            self.lines[member] = (value_node if is_scalar else key_node).start_mark.line + 1
            found[key] = self.build(value_node, member)
        return {**merged, **found}

    def _merge(self, node: Any, path: Path) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in reversed(sources):
            if not isinstance(source, yaml.MappingNode):
                raise _Flaw(node, path, "merges something that is not a mapping", "<<: takes an alias of a mapping")
            value = _Builder(self.reading, open_nodes=self.open_nodes).build(source, path)
            merged.update(value)
        return merged

    def _scalar(self, node: Any, path: Path) -> Any:
        """Return what a scalar means; only plain (unquoted) ones mean anything but text."""
        kind = node.tag[len(_STANDARD) :] if node.tag.startswith(_STANDARD) else ""
        if kind not in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge"):
            raise _tagged(node, path)
        self.reading.refuse_typeset(node, path)
        if node.style == "|":
            self.blocks[path] = node.start_mark.line + 2
        if kind == "str" or (node.style is not None and kind in ("timestamp", "value", "merge")):
            return node.value
        value = _plain_scalar(node.value)
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise _Flaw(node, path, f"is {node.value}, {_TOO_LARGE}", _SMALLER)
        if isinstance(value, float) and not math.isfinite(value):
            raise _Flaw(node, path, f"is {shown(node.value)}, which JSON cannot hold", "quote it, or give a number")
        if value is not None and not isinstance(value, str):
            self.written[path] = node.value
        return value


def _plain_scalar(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(text):
        if len(digits) > _MOST_DIGITS:
            return math.inf
        octal = re.fullmatch(r"([-+]?)0([0-7]+)", digits)
        return int(f"{octal[1]}{octal[2]}", 8) if octal else int(digits, 0)
    if _FLOAT.fullmatch(text):
        return float(digits)
    special = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
    return special.get(text.lower(), text)


def _tagged(node: Any, path: Path) -> _Flaw:
    tag = shown(node.tag.replace(_STANDARD, "!!"))
    vaulted = node.tag == "!vault"
    hint = "encrypt the file as a whole: ansible-vault encrypt" if vaulted else "only plain data is read: drop the tag"
    return _Flaw(node, path, f"has the tag {tag}", hint)
