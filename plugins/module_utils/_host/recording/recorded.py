# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded hosts: a document that can be read like a host.

The document is JSON, plain or compressed with gzip::

    {"format": "rdma.fabric/recorded-host/v1", "hostname": "...", "recorded_by": "...", "stand_in": "..." or null,
     "files": {path: text}, "binary": {path: base64}, "links": {path: raw target}, "dirs": [empty directory],
     "errors": {path: errno name}, "commands": {"program argument ...": {"rc": 0, "stdout": "", "stderr": ""}}}

A command that could not be run has ``{"error": errno name}``.

Directories are implied by the paths below them. Keys may lead through links: they are resolved when the host is built.
"""

from __future__ import annotations

import base64
import binascii
import builtins
import gzip
import io
import json
import posixpath
import re
import zlib
from typing import Any, Dict, Mapping, Sequence

from ..machine.access import READ_LIMIT, CommandResult, HostError, follow, read_text

FORMAT = "rdma.fabric/recorded-host/v1"
SIZE_LIMIT = 32 * 1024 * 1024
PATH_MAX = 4096
_GZIP_MAGIC = b"\x1f\x8b"
_AGAIN = "record the host again with rdma.fabric.rdma_record"
_SECTIONS: dict[str, type[Any]] = {"files": str, "binary": str, "links": str, "errors": str, "commands": dict}
_ERRNO_NAME = re.compile(r"E[A-Z0-9]{1,15}")

Document = Dict[str, Any]


class BadRecording(Exception):
    """A recording that can't be used; the text says what is wrong with it and what to do."""


def load_recording(data: bytes) -> Document:
    """Return the checked document in ``data`` (JSON, plain or gzip); raises BadRecording."""
    document = _parse(_inflate(data))
    if not isinstance(document, dict):
        raise BadRecording(f"a recorded host is a JSON object, this is {_kind(document)}; {_AGAIN}")
    _check_format(document)
    problems = list(_problems(document))
    if problems:
        raise BadRecording(f"not usable as a recorded host: {'; '.join(problems[:5])}; {_AGAIN}")
    return document


def dump_recording(document: Document, compress: bool) -> bytes:
    """Return the document as a file; the same content gives the same bytes (gzip without name and time)."""
    text = json.dumps(document, separators=(",", ":") if compress else None, indent=None if compress else 1)
    data = f"{text}\n".encode()
    if not compress:
        return data
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as stream:
        stream.write(data)
    return buffer.getvalue()


def describe_entries(before: Document, after: Document) -> tuple[str, str]:
    """Return the differences of two recordings, one entry per line, old and new."""
    old, new = _entries(before), _entries(after)
    differing = [key for key in sorted({**old, **new}) if old.get(key) != new.get(key)]
    texts = ["".join(f"{key}: {side[key]}\n" for key in differing if key in side) for side in (old, new)]
    return texts[0], texts[1]


def _entries(document: Document) -> dict[str, str]:
    entries = {f"dirs {path}": "" for path in document.get("dirs", [])}
    for section in _SECTIONS:
        for key, value in document.get(section, {}).items():
            entries[f"{section} {key}"] = json.dumps(value)
    return entries


def _inflate(data: bytes) -> bytes:
    if not data:
        raise BadRecording(f"the file is empty; {_AGAIN}")
    if data.startswith(_GZIP_MAGIC):
        data = _gunzip(data)
    if len(data) > SIZE_LIMIT:
        raise BadRecording(f"it holds more than {SIZE_LIMIT >> 20} MiB, no recorded host does; {_AGAIN}")
    return data


def _gunzip(data: bytes) -> bytes:
    """Return the content, at most one byte more than SIZE_LIMIT, so that a gzip bomb is not inflated further."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = inflater.decompress(data, SIZE_LIMIT + 1)
    except zlib.error as error:
        raise BadRecording(f"the gzip data is damaged ({error}); copy it again or {_AGAIN}") from error
    if len(content) <= SIZE_LIMIT and not inflater.eof:
        raise BadRecording(f"the gzip data ends too early; copy it again or {_AGAIN}")
    return content


def _parse(data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadRecording(f"it is neither JSON nor gzip but binary data; {_AGAIN}") from error
    except RecursionError as error:
        raise BadRecording(f"it is nested too deeply for a recorded host; {_AGAIN}") from error
    except ValueError as error:
        raise BadRecording(f"it is not JSON, or not all of it ({error}); copy it again or {_AGAIN}") from error


def _check_format(document: Document) -> None:
    found = document.get("format")
    if found == FORMAT:
        return
    if isinstance(found, str) and found.startswith("rdma.fabric/recorded-host/"):
        raise BadRecording(f"its format {found[:80]!r} is not the one this release reads ({FORMAT}); {_AGAIN}")
    raise BadRecording(f"it does not say format: {FORMAT}, so it is not a recorded host; {_AGAIN}")


def _problems(document: Document) -> list[str]:
    problems = [
        f"{key} is {_kind(document[key])}, not text"
        for key in ("hostname", "recorded_by", "stand_in")
        if document.get(key) is not None and not isinstance(document[key], str)
    ]
    for section, kind in _SECTIONS.items():
        problems += _section_problems(section, document.get(section, {}), kind)
    dirs = document.get("dirs", [])
    if not isinstance(dirs, list) or not all(map(_is_path, dirs)):
        problems.append("dirs is not a list of absolute paths")
    return problems


def _section_problems(section: str, entries: Any, kind: type[Any]) -> list[str]:
    if not isinstance(entries, dict):
        return [f"{section} is {_kind(entries)}, not an object"]
    problems: list[str] = []
    value: Any
    for key, value in entries.items():
        if section != "commands" and not _is_path(key):
            problems.append(f"{section} has {key[:80]!r}, which is not an absolute path")
        elif not isinstance(value, kind):
            problems.append(f"{section}[{key[:80]!r}] is {_kind(value)}")
        elif section == "links" and len(value) > PATH_MAX:
            problems.append(f"links[{key[:80]!r}] is longer than a path can be")
        elif section == "commands" and not _is_command_result(value):
            problems.append(
                f"commands[{key[:80]!r}] lacks rc (a number), stdout and stderr (text), or error (an errno)"
            )
        elif section == "binary" and not _is_base64(value):
            problems.append(f"binary[{key[:80]!r}] is not base64")
        elif section == "errors" and not _ERRNO_NAME.fullmatch(value):
            problems.append(f"errors[{key[:80]!r}] is {value[:40]!r}, no name of an errno")
    return problems


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and len(value) <= PATH_MAX


def _is_command_result(value: Mapping[str, object]) -> bool:
    if "error" in value:
        return _ERRNO_NAME.fullmatch(str(value["error"])) is not None
    status = value.get("rc")
    if not isinstance(status, int) or isinstance(status, bool):
        return False
    return isinstance(value.get("stdout"), str) and isinstance(value.get("stderr"), str)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


class RecordedHost:
    """A document read as a host: with its links and errors; nothing can be changed or started."""

    def __init__(self, document: Document) -> None:
        self._directories: dict[str, str] = {}
        self._links: dict[str, str] = {_plain(path): target for path, target in document.get("links", {}).items()}
        self._links = self._resolved(self._links)
        self._directories.clear()
        self._files = self._resolved(document.get("files", {}))
        self._binary = self._resolved(document.get("binary", {}))
        self._errors = self._resolved(document.get("errors", {}))
        self._commands: dict[str, Any] = document.get("commands", {})
        self._not_held: dict[str, None] = {}
        self._children: dict[str, dict[str, None]] = {"/": {}}
        for entries in self._files, self._binary, self._errors, self._links:
            for path in entries:
                self._plant(path)
        for path in document.get("dirs", []):
            self._plant(_joined(self._place(path), "."))

    def read(self, path: str) -> str:
        """Return a file's text, or raise the recorded error."""
        return read_text(path, self.read_bytes)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return a file's bytes, or raise the recorded error."""
        place = self._reach(path)
        if place in self._files:
            return str(self._files[place]).encode("utf-8")[:limit]
        if place in self._binary:
            return base64.b64decode(self._binary[place])[:limit]
        raise HostError("EISDIR" if place in self._children else "ENOENT", path)

    def exists(self, path: str) -> bool:
        """Return whether the path exists; a file that could not be read does."""
        try:
            place = self._follow(path)
        except HostError:
            return False
        if place in self._errors:
            return self._errors[place] != "ENOENT"
        return place in self._files or place in self._binary or place in self._children

    def list(self, path: str) -> builtins.list[str]:
        """Return the names in a directory, sorted."""
        place = self._reach(path)
        if place in self._children:
            return sorted(self._children[place])
        raise HostError("ENOTDIR" if self.exists(place) else "ENOENT", path)

    def link(self, path: str) -> str:
        """Return the raw target of a symbolic link."""
        place = self._place(path)
        if place in self._links:
            return str(self._links[place])
        if place in self._errors:
            raise HostError(self._errors[place], path)
        raise HostError("EINVAL" if self.exists(place) else "ENOENT", path)

    def realpath(self, path: str) -> str:
        """Return the path with every link followed."""
        place = self._follow(path)
        if not self.exists(place):
            raise HostError("ENOENT", path)
        return place

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Return the recorded result of the program."""
        found = self._commands.get(" ".join(argv))
        if found is None:
            self._not_held[posixpath.basename(argv[0])] = None
            # The recording does not say whether the host had the program: a missing result gives ENOENT.
            raise HostError("ENODATA", argv[0])
        if "error" in found:
            raise HostError(found["error"], argv[0])
        return CommandResult(found["rc"], found["stdout"], found["stderr"])

    def gaps(self) -> str:
        """Return a notice about everything that was read and is not in the recording, empty if nothing."""
        programs = f"what {', '.join(sorted(self._not_held))} would answer, nor " if self._not_held else ""
        return (
            f"the recording does not hold {programs}files that it was made without; where a step is refused because "
            "such a program or file is missing, the host itself may have it; next: record the host again, or preview "
            "the host itself"
        )

    def _reach(self, path: str) -> str:
        place = self._follow(path)
        if place in self._errors:
            raise HostError(self._errors[place], path)
        return place

    def _place(self, path: str) -> str:
        """Return the path of an entry with links on the way followed, but not the entry itself."""
        parent, _slash, name = _plain(path).rpartition("/")
        return _joined(self._directory(parent), name)

    def _follow(self, path: str) -> str:
        """Return the path with every link followed; most are no link, in a directory resolved before."""
        parent, _slash, name = path.rpartition("/")
        place = _joined(self._directory(parent), name)
        if name in {"", ".", ".."} or place in self._links:
            return follow(path, self._links.get)
        return place

    def _directory(self, path: str) -> str:
        place = self._directories.get(path)
        if place is None:
            place = self._directories[path] = follow(path, self._links.get)
        return place

    def _resolved(self, entries: dict[str, str]) -> dict[str, str]:
        return {self._place(path): value for path, value in entries.items()}

    def _plant(self, path: str) -> None:
        """Add an entry to every directory above it."""
        while path != "/":
            parent, _slash, name = path.rpartition("/")
            parent = parent or "/"
            known = parent in self._children
            names = self._children.setdefault(parent, {})
            if name != ".":
                names[name] = None
            if known:
                return
            path = parent


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory != "/" else f"/{name}"


def _plain(path: str) -> str:
    return path.rstrip("/") or "/"
