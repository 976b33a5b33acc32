# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for the files of a host: a recorded document as a tree that can be changed. Only tests use it."""

from __future__ import annotations

import base64
import copy
from typing import Any, Dict, List, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    READ_LIMIT,
    HostError,
    encoded,
    follow,
    read_text,
)

Names = List[str]
State = Dict[str, Any]


def _parted(path: str) -> tuple[str, str]:
    """Return the directory of an entry and the entry's name there."""
    parent, _slash, name = path.rpartition("/")
    return parent or "/", name


class Tree:
    """Files (bytes), links and directories by their absolute path; parents come and go with what is in them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.dirs: set[str] = {"/"}
        self.errors: dict[str, str] = {}
        # What reads ask for again and again: where paths lead, and the names in each directory. Twins have the first in
        # common until a link of one changes, so this dict is replaced then and not emptied.
        self._resolved: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}
        self._refused: dict[str, set[str]] = {}
        self._refused_for: dict[str, str] = {}
        # Links with short ways first: the place of a link may lead through others.
        for path, target in sorted(document.get("links", {}).items(), key=lambda item: item[0].count("/")):
            self.add_link(path, target)
        for path in document.get("dirs", []):
            self.add_dir(path)
        for path, text in document.get("files", {}).items():
            self.add_file(path, text)
        for path, data in document.get("binary", {}).items():
            self.add_file(path, base64.b64decode(data))
        for path, code in document.get("errors", {}).items():
            self.errors[self._entry(path)] = code

    def twin(self) -> Tree:
        """Return an equal tree that changes on its own."""
        other = copy.copy(self)
        other.files, other.links, other.dirs = dict(self.files), dict(self.links), set(self.dirs)
        other.errors = dict(self.errors)
        other._names = {directory: set(names) for directory, names in self._names.items()}
        return other

    def resolve(self, path: str) -> str:
        """Return the path with every link followed."""
        place = self._resolved.get(path)
        if place is None:
            place = self._resolved[path] = self._followed(path)
        return place

    def _followed(self, path: str) -> str:
        """Return where a path leads: mostly to a name that is no link, in a directory that was asked for before."""
        parent, _slash, name = path.rpartition("/")
        if parent and name not in {"", ".", ".."}:
            directory = self.resolve(parent)
            place = f"{directory}/{name}" if directory != "/" else f"/{name}"
            if place not in self.links:
                return place
        return follow(path, self.links.get)

    def add_file(self, path: str, content: str | bytes) -> None:
        """Make a file, with the directories above it."""
        place = self.resolve(path)
        self._enter(place)
        self.files[place] = encoded(content) if isinstance(content, str) else content

    def add_link(self, path: str, target: str) -> None:
        """Make a symbolic link, with the directories above it."""
        place = self._entry(path)
        self._enter(place)
        self.links[place] = target
        self._resolved = {}

    def add_dir(self, path: str) -> None:
        """Make a directory, with those above it."""
        place = self.resolve(path)
        self._enter(place)
        self.dirs.add(place)

    def discard(self, path: str) -> None:
        """Remove whatever is at ``path`` (a link itself, not where it leads) with everything below it."""
        place = self._entry(path)
        below = f"{place}/"
        for known in [known for known in self.errors if known == place or known.startswith(below)]:
            del self.errors[known]
        if place not in self.dirs:
            self._take(place)
            return
        if not self._names:
            self._list_all()
        parent, name = _parted(place)
        self._names[parent].discard(name)
        waiting = [place]
        while waiting:
            known = waiting.pop()
            waiting += [f"{known}/{name}" for name in self._names.pop(known, ())]
            self.files.pop(known, None)
            self.links.pop(known, None)
            self.dirs.discard(known)
        self._resolved = {}

    def relink(self, links: Mapping[str, str]) -> None:
        """Put other links in the place of those that are there."""
        self.links = dict(links)
        self._forget()

    def move(self, path: str, to: str) -> None:
        """Rename a file, link or directory with everything below it."""
        source, target = self._entry(path), self._entry(to)
        if source == target:
            return
        self.discard(target)

        def moved(place: str) -> str:
            return target + place[len(source) :] if place == source or place.startswith(f"{source}/") else place

        self.errors = {moved(place): code for place, code in self.errors.items()}
        if source in self.dirs:
            self.files = {moved(place): content for place, content in self.files.items()}
            self.links = {moved(place): link for place, link in self.links.items()}
            self.dirs = {moved(place) for place in self.dirs}
            self._forget()
        else:
            content, link = self._take(source)
            if content is not None:
                self.files[target] = content
            if link is not None:
                self.links[target] = link
            if content is None and link is None:
                return
        self._enter(target)

    def read(self, path: str) -> str:
        return read_text(path, self.read_bytes)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        place = self._reach(path)
        if place in self.files:
            return self.files[place][:limit]
        raise HostError("EISDIR" if place in self.dirs else "ENOENT", path)

    def exists(self, path: str) -> bool:
        try:
            place = self.resolve(path)
        except HostError:
            return False
        if place in self.errors:
            return self.errors[place] != "ENOENT"
        return place in self.files or place in self.dirs

    def list(self, path: str) -> Names:
        place = self._reach(path)
        if place not in self.dirs:
            raise HostError("ENOTDIR" if place in self.files else "ENOENT", path)
        if not self._names:
            self._list_all()
        return sorted(self._names.get(place, set()) | self._unreadable().get(place, set()))

    def link(self, path: str) -> str:
        place = self._entry(path)
        if place in self.links:
            return self.links[place]
        if place in self.errors:
            raise HostError(self.errors[place], path)
        raise HostError("EINVAL" if self.exists(place) else "ENOENT", path)

    def realpath(self, path: str) -> str:
        place = self.resolve(path)
        if not self.exists(place):
            raise HostError("ENOENT", path)
        return place

    def state(self) -> State:
        """Return everything that is there, to compare."""
        return {"files": dict(self.files), "links": dict(self.links), "dirs": sorted(self.dirs)}

    def _reach(self, path: str) -> str:
        place = self.resolve(path)
        if place in self.errors:
            raise HostError(self.errors[place], path)
        return place

    def _entry(self, path: str) -> str:
        """Return where an entry stands: links on the way are followed, the entry itself is not."""
        parent, name = _parted(path.rstrip("/"))
        directory = self.resolve(parent)
        return f"{directory}/{name}" if directory != "/" else f"/{name}"

    def _take(self, place: str) -> tuple[bytes | None, str | None]:
        """Take out a single entry and return the file's content and the link's target; only a link moves other ways."""
        content, link = self.files.pop(place, None), self.links.pop(place, None)
        if link is not None:
            self._resolved = {}
        parent, name = _parted(place)
        self._names.get(parent, set()).discard(name)
        return content, link

    def _enter(self, place: str) -> None:
        """Make the directories above an entry, and have them list it; above one that is there, all are."""
        while place != "/":
            parent, name = _parted(place)
            if self._names:
                self._names.setdefault(parent, set()).add(name)
            if parent in self.dirs:
                return
            self.dirs.add(parent)
            place = parent

    def _forget(self) -> None:
        """Follow links and list directories anew from now on."""
        self._resolved = {}
        self._names.clear()

    def _unreadable(self) -> dict[str, set[str]]:
        """Return by directory the names that errors are below; tests change ``errors`` as they like."""
        if self.errors != self._refused_for:
            self._refused, self._refused_for = {}, dict(self.errors)
            for place in self.errors:
                parent, _slash, name = place.rpartition("/")
                while name:
                    self._refused.setdefault(parent or "/", set()).add(name)
                    parent, _slash, name = parent.rpartition("/")
        return self._refused

    def _list_all(self) -> None:
        for place in (*self.files, *self.links, *self.dirs):
            if place != "/":
                parent, name = _parted(place)
                self._names.setdefault(parent, set()).add(name)
