# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import modules from a zip file with a single compilation each.

Ansible sends sources in a zip file, and the boot unit's program is one. Python's own importer for zip files compiles a
module to find its file name, compiles it again to run it, and caches neither: on a slow machine, this takes most of a
run's time. Interfaces as in importlib.abc and zipimport, Python 3.8 and newer.
"""

from __future__ import annotations

import sys
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Sequence
from zipimport import ZipImportError, zipimporter

_COLLECTION = "ansible_collections.rdma.fabric."


def compile_once() -> None:
    """Import the rest of this collection this way, if this module itself came from a zip file."""
    loader = sys.modules[__name__].__loader__
    if isinstance(loader, zipimporter) and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Loader(ExecutionLoader):
    """Load the modules that are directly in one directory of a zip file."""

    def __init__(self, directory: zipimporter) -> None:
        self._directory = directory

    def get_source(self, fullname: str) -> str | None:
        return self._directory.get_source(fullname)

    def is_package(self, fullname: str) -> bool:
        return self._directory.is_package(fullname)

    def get_filename(self, fullname: str) -> str:
        place = self.place(fullname)
        return f"{place}/__init__.py" if self.is_package(fullname) else f"{place}.py"

    def place(self, fullname: str) -> str:
        """Return the module's path without the file extension."""
        return f"{self._directory.archive}/{self._directory.prefix}{fullname.rpartition('.')[2]}"


class _Finder(MetaPathFinder):
    """Find modules of this collection in zip files; leave all others to the next finders."""

    def __init__(self) -> None:
        self._loaders: dict[str, _Loader | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(_COLLECTION):
            return None
        for entry in path:
            loader = self._loader_of(entry)
            try:
                is_package = loader is not None and loader.is_package(fullname)
            except ZipImportError:
                continue
            if loader is not None:
                spec = ModuleSpec(fullname, loader, origin=loader.get_filename(fullname), is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [loader.place(fullname)]
                return spec
        return None

    def _loader_of(self, entry: str) -> _Loader | None:
        if entry not in self._loaders:
            try:
                self._loaders[entry] = _Loader(zipimporter(entry))
            except ZipImportError:
                self._loaders[entry] = None
        return self._loaders[entry]
