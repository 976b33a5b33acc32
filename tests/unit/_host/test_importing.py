# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules out of a zip file: compiled once each, found as Python itself finds them, and told of where they fail."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine import importing
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET

ROOT = "ansible_collections/rdma/fabric/plugins/module_utils"
HOST = "ansible_collections.rdma.fabric.plugins.module_utils._host"
COUNTED = """
import builtins, json, sys
counts, real = {{}}, builtins.compile

def counting(source, filename, *arguments, **options):
    counts[str(filename).rsplit('.zip/', 1)[-1]] = counts.get(str(filename).rsplit('.zip/', 1)[-1], 0) + 1
    return real(source, filename, *arguments, **options)

builtins.compile = counting
sys.dont_write_bytecode = True
sys.path.insert(0, {archive!r})
from {host}.machine.importing import compile_once
{call}
{body}
print(json.dumps({{"counts": counts, "found": found, "finders": len(sys.meta_path)}}))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Sources as Ansible sends them, with a package, a module that fails, and one that has to be found."""
    path = tmp_path / "sent.zip"
    files = {
        f"{ROOT}/_host/machine/importing.py": Path(importing.__file__).read_text(encoding="utf-8"),
        f"{ROOT}/_host/one.py": f"from {HOST}.part import two\nVALUE = two.VALUE\n",
        f"{ROOT}/_host/part/two.py": "VALUE = __file__\n",
        f"{ROOT}/_host/broken.py": "VALUE = 1\nraise ValueError('first line')\n",
        f"{ROOT}/_host/wrong.py": "VALUE = (\n",
    }
    for part in ("part", "machine"):
        parts = (*ROOT.split("/"), "_host", part)
        files.update({f"{'/'.join(parts[:depth])}/__init__.py": "" for depth in range(1, len(parts) + 1)})
    with zipfile.ZipFile(path, "w") as sent:
        for name, text in files.items():
            sent.writestr(name, text)
    return path


def run(archive: Path, body: str, call: str = "compile_once()") -> dict[str, Any]:
    program = COUNTED.format(archive=str(archive), host=HOST, call=call, body=body)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_each_module_is_compiled_once_and_without_it_twice(archive: Path) -> None:
    body = f"import {HOST}.one as found; found = found.VALUE"
    names = [f"{ROOT}/_host/{name}" for name in ("one.py", "part/__init__.py", "part/two.py")]
    counts = run(archive, body)["counts"]
    assert [counts[name] for name in names] == [1, 1, 1]
    plain = run(archive, body, call="")
    assert plain["counts"][names[0]] > 1, "Python compiles once now: this importer has nothing left to do"


def test_modules_are_what_they_were(archive: Path) -> None:
    body = (
        f"import {HOST}.part.two as two, {HOST}.part as part\n"
        "source = two.__spec__.loader.get_source(two.__name__)\n"
        "found = [two.__file__, two.__package__, part.__path__, part.__file__, source]"
    )
    assert run(archive, body)["found"] == run(archive, body, call="")["found"]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """The collection itself, as one archive."""
    path, sources = tmp_path / "sent.zip", Path(importing.__file__).parents[2]
    with zipfile.ZipFile(path, "w") as sent:
        for source in sources.rglob("*.py"):
            sent.writestr(f"{ROOT}/{source.relative_to(sources)}", source.read_bytes())
        parts = ROOT.split("/")
        for depth in range(1, len(parts) + 1):
            sent.writestr("/".join([*parts[:depth], "__init__.py"]), b"")
    return path


def assessed(host: str, wish: dict[str, Any], folder: Path) -> str:
    """Return lines of Python that read a host and plan it."""
    (folder / "host.json").write_text(json.dumps(FLEET[host]().document()))
    return (
        f"from {HOST}.run.converge import assess\nfrom {HOST}.spec.host import check_spec\n"
        f"from {HOST}.recording.recorded import RecordedHost\nfrom {HOST}.run.result import Run\n"
        f"host = RecordedHost(json.load(open({str(folder / 'host.json')!r})))\n"
        "run = Run(check=True, diff=True, mode='apply', recorded=True)\n"
        f"assess(host, check_spec({wish!r}), run, None)\n"
    )


def test_a_run_reads_the_code_of_what_the_host_is_asked_for_alone(collection: Path, tmp_path: Path) -> None:
    """This one is asked for nothing, and has NICs and GPUs."""
    body = assessed("dgx-h100-01", {}, tmp_path)
    body += f"found = sorted(name[{len(HOST) + 1}:] for name in sys.modules if name.startswith({HOST + '.'!r}))"
    read = set(run(collection, body)["found"])
    assert {name.split(".")[1] for name in read if name.startswith("concerns.")} == {"pcie"}
    assert not {name for name in read if name.startswith("facts.driver.")}
    parts = ("driver", "firmware", "functions", "interfaces", "memory", "qos", "sysctls", "vf_settings")
    assert read & {f"spec.{part}" for part in parts} == set()
    readers = ("requested_functions", "target_ports", "competing_rules", "memory", "next_boot", "users")
    assert read & {f"facts.{reader}" for reader in readers} == set()


def test_a_run_that_changes_nothing_reads_no_code_of_changes(collection: Path, tmp_path: Path) -> None:
    """A host is read and planned, and the boot unit's program is named.

    The program has code of the boot unit itself that is needed to name it.
    """
    wish = {"interfaces": [{"pci": "0000:d8:00.0", "vfs": 2, "mtu": 9000}]}
    body = (
        assessed("egx-01", wish, tmp_path)
        + f"from {HOST}.machine.program import program_path\nfrom {HOST}.run.registry import handler_of\n"
        + "program_path()\n"
        "read = lambda: sorted(n for n in sys.modules if n.endswith('apply') and not n.endswith('boot.apply'))\n"
        "found = [read(), handler_of('vfs') is not None, read()]"
    )
    idle, known, read = run(collection, body)["found"]
    assert (idle, known, read) == ([], True, [f"{HOST}.concerns.functions.vfs_apply"])


@pytest.mark.parametrize(
    ("module", "error"),
    [
        (f"{HOST}.missing", "ModuleNotFoundError"),
        (f"{HOST}.part.missing", "ModuleNotFoundError"),
        (f"{HOST}.wrong", "SyntaxError"),
        ("ansible_collections.other", "ModuleNotFoundError"),
    ],
)
def test_what_can_not_be_imported_ends_as_ever(archive: Path, module: str, error: str) -> None:
    body = f"try:\n    import {module}\nexcept Exception as problem:\n    found = type(problem).__name__"
    assert run(archive, body)["found"] == run(archive, body, call="")["found"] == error


def test_a_traceback_shows_the_line(archive: Path) -> None:
    body = f"import traceback\ntry:\n    import {HOST}.broken\nexcept ValueError:\n    found = traceback.format_exc()"
    found = run(archive, body)["found"]
    assert '_host/broken.py", line 2' in found and "raise ValueError('first line')" in found


def test_being_asked_twice_changes_nothing(archive: Path) -> None:
    once, twice = (
        run(archive, "found = 0", call=call)["finders"] for call in ("compile_once()", "compile_once()\n" * 2)
    )
    assert once == twice


def test_outside_of_a_zip_file_nothing_happens() -> None:
    before = list(sys.meta_path)
    importing.compile_once()
    assert sys.meta_path == before
