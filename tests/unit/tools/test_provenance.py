# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fixture of hardware and of vendors' tools says where it comes from, and the check finds each way not to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.unit.captures import captures
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT
from tools.provenance import (
    KINDS,
    TABLE,
    Entry,
    counts,
    entries_of,
    fixtures,
    holds_output,
    table,
    violations,
    without_address,
)

# Apart from what follows it: this test holds no output.
NVRM = "NVRM"
READ_CAPTURES = (
    "_host/test_captures.py",
    "_host/test_captures_of_ports.py",
    "_host/test_gpus_next_boot.py",
    "_host/test_port_counters.py",
    "_host/firmware/test_spectrum_x.py",
    "_proof/test_proof_captures.py",
)
GOOD = Entry("recorded", "package perftest 25.01.0 of Debian 13", ("tests/fixtures/a.txt",), ())


def test_every_fixture_says_where_it_comes_from() -> None:
    none_of(violations(table(), fixtures(CHECKOUT)))


def test_every_kind_is_counted() -> None:
    counted = counts(table())
    assert list(counted) == list(KINDS)
    assert sum(counted.values()) == len(fixtures(CHECKOUT))


def test_every_capture_has_the_address_of_its_thread() -> None:
    none_of(without_address(captures()))
    assert without_address({"ethtool": {"rings": {"source": "a friend's host"}}, "pci": {"ids": {}}}) == [
        'ethtool rings: "a friend\'s host" is not an address of a thread or document',
        "pci ids: 'None' is not an address of a thread or document",
    ]


def test_a_reader_reads_the_captures_of_every_program() -> None:
    read = "".join((CHECKOUT / "tests" / "unit" / name).read_text(encoding="utf-8") for name in READ_CAPTURES)
    table = captures()
    forms = table.pop("forms")
    none_of(f"{program}: no test reads it" for program in table if f'_of("{program}"' not in read)
    none_of(f"{name}: no test has this form" for name in forms if f"``{name}``" not in read)


def test_all_violations_are_listed_at_once() -> None:
    entries = [
        GOOD,
        Entry("seen", "", ("tests/fixtures/gone.txt", "tests/fixtures/a.txt"), ()),
        Entry("published", "a friend's host", (), ()),
        Entry("derived", "cut", ("tests/fixtures/b.txt",), ("tests/fixtures/nowhere",)),
        Entry("written", "no capture", ("tests/fixtures/c.txt",), ("tests/fixtures/a.txt",)),
    ]
    there = {f"tests/fixtures/{name}.txt" for name in ("a", "b", "c", "new")}
    found = "\n".join(violations(entries, there))
    for expected in (
        f"new.txt: no entry in {TABLE}",
        "gone.txt: the table lists it, and it is not there",
        "a.txt: listed 2 times",
        "gone.txt: unknown kind 'seen'",
        "gone.txt: no source",
        "an entry without files",
        "names no address, and no repository, path and commit",
        "made from tests/fixtures/nowhere, which is in no entry",
        "c.txt: made_from names",
    ):
        assert expected in found
    assert violations([GOOD], {"tests/fixtures/a.txt"}) == []


def test_a_new_file_and_a_new_test_with_output_are_fixtures(tmp_path: Path) -> None:
    for folder in ("tests/fixtures/firmware", "tests/unit", "inventories/recorded/recordings"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/fixtures/firmware/mstconfig.txt").write_text("x", encoding="utf-8")
    (tmp_path / "tests/fixtures/firmware/README.md").write_text("x", encoding="utf-8")
    (tmp_path / "tests/unit/test_new.py").write_text(f"T = '{NVRM} version: NVIDIA UNIX'", encoding="utf-8")
    (tmp_path / "tests/unit/test_other.py").write_text("T = 1", encoding="utf-8")
    assert fixtures(tmp_path) == {"tests/fixtures/firmware/mstconfig.txt", "tests/unit/test_new.py"}


@pytest.mark.parametrize(
    ("start", "rest"),
    [
        (NVRM, " version: NVIDIA UNIX"),
        ("MLNX_OFED_LINUX", "-24.10-0.7.0.0:"),
        ("100 Gb/sec", " (4X EDR)"),
        ("filename:", " /lib/modules"),
    ],
)
def test_lines_that_only_hardware_and_its_tools_print_are_known(start: str, rest: str) -> None:
    assert holds_output(start + rest)
    assert not holds_output(start)


def test_an_unknown_key_is_told() -> None:
    (entry,) = entries_of("[{kind: written, source: x, file: y, files: [a]}]")
    assert "unknown keys: file" in entry.kind
