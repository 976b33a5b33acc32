# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent of a module: the same code in fewer bytes, made once in a run."""

from __future__ import annotations

import ast
import base64
import io
import lzma
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.host import compact

OURS = "ansible_collections/rdma/fabric/plugins/modules/rdma_host.py"
SOURCES = {
    "ansible/module_utils/basic.py": '"""Not ours."""\n# stays\nVALUE = 1\n',
    OURS: '#\n"""Ours."""\n\nDOCUMENTATION = r"""\n---\nmodule: rdma_host\n"""\n# why\nVALUE = "# no comment"  # why\n',
    "ansible_collections/rdma/fabric/plugins/__init__.py": "",
}


def archive_of(sources: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sources.items():
            archive.writestr(name, text)
    return made.getvalue()


# How ansible-core writes the archive into its program: 2.16 to 2.18, and since 2.19.
FORMS = ("def main():\n    ZIPDATA = %r\n    return ZIPDATA\n", "def main(zip_data=%r,):\n    return zip_data\n")


def program_of(form: str, sources: dict[str, str]) -> bytes:
    return (form % base64.b64encode(archive_of(sources)).decode()).encode()


def sources_in(program: bytes) -> dict[str, str]:
    """Return the sources that a program finds in its archive when it runs."""
    names: dict[str, object] = {}
    exec(compile(program, "program", "exec"), names)  # noqa: S102 - it is made above
    text = names["main"]()  # type: ignore[operator]
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(text))) as archive:
        return {member: archive.read(member).decode() for member in archive.namelist()}


@pytest.mark.parametrize("form", FORMS)
def test_a_program_finds_its_sources_without_what_ours_have_for_readers(form: str, tmp_path: Path) -> None:
    found = sources_in(compact(program_of(form, SOURCES), tmp_path))
    assert list(found) == sorted(SOURCES)
    bare = '\n""\n\nDOCUMENTATION = ""\n\n\n\n\nVALUE = "# no comment"\n'
    assert found == {**SOURCES, OURS: bare}
    assert bare.count("\n") == SOURCES[OURS].count("\n")


def test_it_is_smaller_the_more_the_sources_have_in_common(tmp_path: Path) -> None:
    line = "from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.part_{0} import value_{0}\n"
    text = "".join(map(line.format, range(100)))
    program = program_of(FORMS[1], {f"ansible/module_utils/part_{number}.py": text for number in range(50)})
    assert len(compact(program, tmp_path)) * 5 < len(program)


@pytest.mark.parametrize("program", [b"#!/bin/sh\n", b"zip_data='UEsDB'\n", b"zip_data='UEsDB ...'\n"])
def test_a_program_that_holds_no_archive_stays(program: bytes, tmp_path: Path) -> None:
    assert compact(program, tmp_path) == program
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_holds_two_archives_stays(tmp_path: Path) -> None:
    program = program_of(FORMS[0], SOURCES) * 2
    assert compact(program, tmp_path) == program


def test_many_processes_of_a_run_make_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = []

    def compress(data: bytes, **options: Any) -> bytes:
        packed.append(data)
        return real(data, **options)

    real = lzma.compress
    monkeypatch.setattr(lzma, "compress", compress)
    program = program_of(FORMS[1], SOURCES)
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(lambda _number: compact(program, tmp_path / "cache"), range(32)))
    assert (len(made), len(packed)) == (1, 1)
    ast.parse(made.pop())


def test_another_module_gets_another_one(tmp_path: Path) -> None:
    compact(program_of(FORMS[1], SOURCES), tmp_path)
    other = {**SOURCES, OURS: "VALUE = 2\n"}
    assert sources_in(compact(program_of(FORMS[1], other), tmp_path))[OURS] == "VALUE = 2\n"
