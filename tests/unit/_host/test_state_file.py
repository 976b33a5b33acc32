# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run leaves for the next is read whole, or told by its name with the next step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import OUTPUT_LIMIT, READ_LIMIT
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BrokenState,
    StateFile,
    check,
    checksummed_again,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import STATE_FILES, apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

FILE = StateFile("/var/lib/rdma-fabric/x.json", "what it should", "remove it")
CONTENT: dict[str, Any] = {"steps": {"b": [1, 2.5, None], "a": "\u20ac"}}
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)


def with_text(text: str) -> Kernel:
    return Kernel({"files": {FILE.path: text}})


@pytest.mark.parametrize("content", [{}, CONTENT, {"by number": {10: "x", 9: "y"}}])
def test_what_was_written_is_read(content: dict[str, Any]) -> None:
    assert FILE.read(with_text(FILE.text(content))) == json.loads(json.dumps(content))


@pytest.mark.parametrize("size", [size + side for size in (4096, READ_LIMIT, 1024 * 1024) for side in (-1, 0, 1)])
def test_it_may_have_any_size(size: int) -> None:
    content = {"long": "x" * (size - len(FILE.text({"long": ""})))}
    assert len(FILE.text(content)) == size
    assert FILE.read(with_text(FILE.text(content))) == content


def test_a_file_that_is_not_there_holds_nothing() -> None:
    assert FILE.read(Kernel({})) is None


def test_a_file_cut_off_anywhere_is_told() -> None:
    text = FILE.text(CONTENT)
    for length in range(len(text) - 1):
        with pytest.raises(BrokenState, match=r"x\.json does not hold what it should \(.*\); .*; next: remove it"):
            FILE.read(with_text(text[:length]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FILE.text(CONTENT).replace("2.5", "2.6"), "its checksum does not match"),
        (FILE.text(CONTENT).replace('"sha256"', '"sha1"'), "its checksum does not match"),
        ('{"format": 3}', "its format is 3, this release reads 2"),
        ("[]", "it is not a mapping"),
        ("x" * (OUTPUT_LIMIT + 1), "it is longer than any file of ours"),
    ],
)
def test_a_broken_file_says_why(text: str, why: str) -> None:
    for read in (FILE.read, lambda kernel: check(kernel, [FILE])):
        with pytest.raises(BrokenState, match=why):
            read(with_text(text))


def test_files_of_the_first_release_are_read() -> None:
    assert FILE.parse('{"format": 1, "note": "x", "steps": {}}') == {"steps": {}}


def test_a_text_with_other_names_gets_their_checksum() -> None:
    text = FILE.text({"name": "old"}).replace("old", "new")
    assert FILE.parse(checksummed_again(text)) == {"name": "new"}
    assert [checksummed_again(other) for other in ("", "[]", '{"format": 1}')] == ["", "[]", '{"format": 1}']


def test_a_run_names_every_broken_file_before_anything_is_changed() -> None:
    document = FLEET["cpu-01"]().document()
    document["files"].update({file.path: '{"format": 2}' for file in STATE_FILES})
    kernel = Kernel(document)
    with pytest.raises(BrokenState) as caught:
        apply(kernel, check_spec({"kernel_modules": ["ib_umad"]}), APPLY, None, kernel)
    lines = str(caught.value).splitlines()
    assert [line.split(" ")[0] for line in lines] == [file.path for file in STATE_FILES]
    assert all("; next: " in line for line in lines)
    assert kernel.mutations == []
