# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has the playbooks of the tests cost less; they do what they did.

The bytecode of this collection is kept from one to the next. Python keeps that of the files it imports; Ansible's
loader of collections compiles every source in every process, and so does a module on a host with those it was sent:
together a quarter of what a playbook takes, and the tests run hundreds over the same sources. So is what a playbook
sends of a module: Ansible follows the module's imports and packs what it finds once in every run, and this collection
makes that smaller, which takes more than the rest of a short run. So is what templates and conditions compile to, and
the options of an action as its documentation has them: each task has a process of its own, which compiles and reads
them anew, for a third of its time. And so is what apt makes of its lists: images of containers have it read them all
whenever it is asked whether there are headers of the kernel. And Ansible looks a hundred times a second for what its
workers have done, not a thousand times, or ten thousand when all are busy, and nobody collects the garbage of processes
that live for seconds. Nor are the objects of a playbook taken apart one by one as it ends, which takes as long as some
tasks of it. ``RDMA_FABRIC_BYTECODE`` names the folder of what is kept.

Python imports this module before a program starts where its folder is in PYTHONPATH.
"""

from __future__ import annotations

import atexit
import gc
import importlib.abc
import marshal
import os
import shutil
import sys
import time
import zipimport
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Callable, Sequence

POLL_SECONDS = 0.01
KEPT = Path(os.environ["RDMA_FABRIC_BYTECODE"]) / str(sys.implementation.cache_tag)
# Where in a run ansible-core (``module_common``) and the collection (``_actions``) look for what was made of a module,
# and how the names there begin: those of modules beside a playbook say not whose they are.
PAYLOADS = {
    "ansiballz_cache": "ansible_collections.rdma.fabric.",
    "rdma_fabric_payloads": "",
    "rdma_fabric_arguments": "",
}
UNFINISHED = (".lock", "-part")
DAY = 24 * 60 * 60.0


def kept(source: bytes, compiled: Callable[[], Any], folder: Path = KEPT) -> Any:
    """Return what ``compiled`` makes of a source, from the folder where it was made before."""
    place = folder / sha256(source).hexdigest()
    try:
        return marshal.loads(place.read_bytes())  # noqa: S302 - runs of the tests wrote it
    except FileNotFoundError:
        code = compiled()
    put(place, marshal.dumps(code))
    return code


def put(place: Path, content: bytes) -> None:
    """Write a file that runs beside this one see whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(place)


def keep(owner: Any, name: str, of: Callable[..., Any]) -> None:
    """Put ``of`` in the place of a function; it is given what that was."""
    setattr(owner, name, of(getattr(owner, name)))


def of_collections(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return how a controller gets the code of a module of a collection; the file's name is in that."""

    def code(loader: Any, fullname: str) -> Any:
        source, name = loader.get_source(fullname), os.fsencode(str(loader.get_filename(fullname)))
        return kept(name + b"\0" + source, lambda: compiled(loader, fullname)) if source else compiled(loader, fullname)

    return code


def of_metadata(folder: Path, read: Callable[..., Any]) -> Callable[..., Any]:
    """Return how a collection's metadata are read; those of ansible-core are long, and texts alone."""
    return lambda text, whose: kept(text, lambda: read(text, whose), folder)


def of_texts(compiled: Callable[..., Any]) -> Any:
    """Return how a host gets the code of a source it was sent; the file's name in it is that of the first time."""

    def code(data: Any, path: str = "<string>") -> Any:
        return kept(data.encode() if isinstance(data, str) else data, lambda: compiled(data, path))

    return staticmethod(code)


def of_archives(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return how Python's own importer gets the code of one in an archive."""
    return lambda path, source: kept(source, lambda: compiled(path, source))


class Templates:
    """Keeps the code of templates and conditions, which depends on what filters there are, too.

    ``bits`` is ansible-core's module of that. A condition is parsed before its code is asked for.
    """

    def __init__(self, folder: Path, bits: Any) -> None:
        self._folder, self._bits = folder, bits
        self._last: Any = None
        keep(bits.AnsibleEnvironment, "compile", self._of_templates)
        keep(bits.AnsibleEnvironment, "compile_expression", self._of_conditions)

    def _kept(self, kind: str, environment: Any, source: str, compiled: Callable[[], Any]) -> Any:
        settings = [getattr(environment, name) for name in self._bits._TEMPLATE_OVERRIDE_FIELD_NAMES]
        how = self._bits._TemplateCompileContext.current(optional=True)
        key = (kind, str(source), settings, sorted(environment.extensions), how and how.escape_backslashes)
        return kept(repr(key).encode(), compiled, self._folder)

    def _of_templates(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def code(environment: Any, source: Any, *others: Any, **named: Any) -> Any:
            if isinstance(source, str) and not (others or named):
                return self._kept("template", environment, source, lambda: compiled(environment, source))
            self._last = compiled(environment, source, *others, **named)
            return self._last

        return code

    def _of_conditions(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def condition(environment: Any, source: str, undefined_to_none: bool = True) -> Any:
            def made() -> Any:
                compiled(environment, source, undefined_to_none)
                return self._last

            code = self._kept("condition", environment, source, made)
            template = environment.template_class.from_code(environment, code, environment.make_globals(None), None)
            return self._bits.TemplateExpression(template, undefined_to_none)

        return condition


def of_files(folder: Path, loaded: Callable[..., Any]) -> Callable[..., Any]:
    """Return how a template is loaded from a file, such as those of the report's page: Jinja keeps its code itself."""
    folder.mkdir(parents=True, exist_ok=True)
    cache = FileSystemBytecodeCache(str(folder))

    def load(loader: Any, environment: Any, *others: Any, **named: Any) -> Any:
        # What a playbook includes is compiled with settings of its own.
        if type(environment) is Environment:
            environment.bytecode_cache = cache
        return loaded(loader, environment, *others, **named)

    return load


def content_of(collections: Sequence[str]) -> str:
    """Return a name for the sources of all plugins of this collection."""
    found = sha256()
    for each in collections:
        plugins = Path(each) / "ansible_collections" / "rdma" / "fabric" / "plugins"
        for path in sorted(plugins.rglob("*.py")):
            source = path.read_bytes()
            found.update(f"{path}\0{len(source)}\0".encode() + source)
    return found.hexdigest()


def lend_payloads(kept_ones: Path, run: Path) -> None:
    """Have a run find what one before it has made of the same sources, and keep what it makes when it ends."""
    for name, beginning in PAYLOADS.items():
        (run / name).mkdir()
        for path in (kept_ones / name).glob(f"{beginning}*"):
            (run / name / path.name).symlink_to(path)
    atexit.register(keep_payloads, kept_ones, run)


def keep_payloads(kept_ones: Path, run: Path) -> None:
    """Keep what a run has made; what was made of other sources goes after a day, when no run looks at it any more."""
    found = [path for name, beginning in PAYLOADS.items() for path in (run / name).glob(f"{beginning}*")]
    made = [path for path in found if not path.is_symlink() and not path.name.endswith(UNFINISHED)]
    for other in kept_ones.parent.glob("*") if made else ():
        # A run that ends at the same time removes the same.
        with suppress(OSError):
            if other != kept_ones and time.time() - other.stat().st_mtime > DAY:
                shutil.rmtree(other)
    for path in made:
        place = kept_ones / path.parent.name / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = KEPT / f"{path.name}.{os.getpid()}"
        shutil.copyfile(path, unfinished)
        unfinished.replace(place)


def settings_of_apt(place: Path) -> Path:
    """Return settings of apt that have it keep its cache, in place of the machine's, which may tell it not to."""
    (place / "parts").mkdir(parents=True, exist_ok=True)
    settings = place / "apt.conf"
    if not settings.exists():
        put(settings, f'Dir::Cache "{place}";\nDir::Etc::Parts "{place}/parts";\n'.encode())
    return settings


def at_once(ended: Callable[..., Any]) -> Callable[..., Any]:
    """Return how a run ends: it does what was to be done at its end, and leaves its memory to the kernel."""
    run = os.getpid()

    def end(status: Any = None) -> None:
        # A worker, and an end that has something to say, go Python's way.
        if os.getpid() != run or not isinstance(status, int):
            ended(status)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)

    return end


gc.disable()
# The modules that it runs on hosts are programs of their own, with the same variables.
if any(argument.endswith("/ansible-playbook") for argument in getattr(sys, "orig_argv", ())[:2]):
    from ansible import constants, release
    from ansible.utils.collection_loader import _collection_finder
    from jinja2 import BaseLoader, Environment, FileSystemBytecodeCache

    constants.DEFAULT_INTERNAL_POLL_INTERVAL = POLL_SECONDS
    keep(time, "sleep", lambda sleep: lambda seconds: sleep(max(seconds, POLL_SECONDS)))
    keep(_collection_finder._AnsibleCollectionPkgLoaderBase, "get_code", of_collections)
    payloads = KEPT / "payloads" / release.__version__ / content_of(constants.COLLECTIONS_PATHS)
    lend_payloads(payloads, Path(constants.DEFAULT_LOCAL_TMP))
    os.environ["APT_CONFIG"] = str(settings_of_apt(KEPT.parent.resolve() / "apt"))
    keep(BaseLoader, "load", partial(of_files, payloads / "files"))
    # Older releases have conditions in templates, all in one environment, and dates in metadata.
    with suppress(ModuleNotFoundError):
        from ansible._internal._templating import _jinja_bits

        Templates(payloads / "templates", _jinja_bits)
        keep(_collection_finder, "_meta_yml_to_dict", partial(of_metadata, payloads / "metadata"))
    keep(sys, "exit", at_once)
else:
    keep(importlib.abc.InspectLoader, "source_to_code", of_texts)
    keep(zipimport, "_compile_source", of_archives)
