# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fixture of hardware and of vendors' tools says where it comes from, in an entry that its schema takes.

A fixture is a file below ``tests/fixtures``, a recorded host of the example inventory, or a test that holds lines of
such a tool.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ansible_collections.rdma.fabric.tests.unit.captures import captures
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

FIXTURES = CHECKOUT / "tests" / "fixtures"
TABLE: list[dict[str, Any]] = yaml.safe_load((FIXTURES / "provenance.yml").read_text(encoding="utf-8"))
CHECKER = Draft202012Validator(json.loads((FIXTURES / "provenance.schema.json").read_text(encoding="utf-8")))
NOT_FIXTURES = re.compile(
    r"/(README\.md|__init__\.py|provenance\.(yml|schema\.json)|test_provenance\.py|__pycache__/.*)$"
)
# Lines that only these programs and files of hosts have; a test that holds one holds a fixture.
MARKS = {
    "mstconfig": r"Configurations:\s+Default",
    "mstprivhost": r"Host configurations",
    "devlink": r"inline-mode",
    "dcb": r"prio_pfc\W+\[",
    "ethtool": r"\b(?:Ring|Channel|Pause) parameters for|Features for |Pre-set maximums:",
    "ip": r"vfinfo_list\W+\[",
    "the vendor's buffer_size": r"Port buffer size",
    "modinfo": r"filename: ",
    "/proc/driver/nvidia/version": r"NVRM version:",
    "the rate of a port": r"\d Gb/sec \(",
    "perftest": r"#bytes +#(?:iterations|sl)",
    "NCCL tests": r"Out of bounds values",
    "ofed_info": r"(?:OFED-internal|MLNX_OFED_LINUX)-[\d.-]+:",
    "/proc/modules": r" Live 0x",
}
ANY_MARK = re.compile("|".join(MARKS.values()))
READ_CAPTURES = (
    "_host/test_captures.py",
    "_host/test_captures_of_ports.py",
    "_host/test_gpus_next_boot.py",
    "_host/test_port_counters.py",
    "_host/firmware/test_spectrum_x.py",
    "_proof/test_proof_captures.py",
)
GOOD: dict[str, Any] = {"kind": "recorded", "source": "package perftest of Debian 13", "files": ["a.txt"]}


def fixtures() -> set[str]:
    """Return every fixture of the checkout by its path."""
    files = [path for path in FIXTURES.rglob("*") if path.is_file()]
    files += (CHECKOUT / "inventories" / "recorded" / "recordings").iterdir()
    files += (path for path in (CHECKOUT / "tests" / "unit").rglob("*.py") if holds_output(path.read_text("utf-8")))
    names = {path.relative_to(CHECKOUT).as_posix() for path in files}
    return {name for name in names if not NOT_FIXTURES.search(name)}


def holds_output(text: str) -> bool:
    return ANY_MARK.search(text) is not None


def listed() -> list[str]:
    return [str(Path(entry.get("under", ""), name)) for entry in TABLE for name in entry["files"]]


def test_every_entry_says_of_what_kind_its_files_are_and_where_they_come_from() -> None:
    none_of(f"{error.json_path}: {error.message}" for error in CHECKER.iter_errors(TABLE))


def test_every_fixture_is_in_one_entry_and_what_it_was_made_from_in_another() -> None:
    counted, there = Counter(listed()), fixtures()
    none_of(f"{name}: no entry says where it comes from" for name in there - set(counted))
    none_of(f"{name}: is not there" for name in set(counted) - there)
    none_of(f"{name}: listed {count} times" for name, count in counted.items() if count > 1)
    sources = {name for entry in TABLE for name in entry.get("made_from", ())}
    unknown = [name for name in sources if not any(file.startswith(name) for file in counted)]
    none_of(f"made from {name}, which is in no entry" for name in unknown)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "seen"},
        {"source": ""},
        {"files": []},
        {"file": "b.txt"},
        {"kind": "published", "source": "a friend's host"},
        {"kind": "derived"},
        {"made_from": ["tests/fixtures/b.txt"]},
    ],
)
def test_an_entry_that_lacks_something_is_refused(wrong: dict[str, Any]) -> None:
    assert CHECKER.is_valid([GOOD])
    assert not CHECKER.is_valid([{**GOOD, **wrong}])


def test_every_capture_has_the_address_of_its_thread() -> None:
    none_of(
        f"{program} {name}: {facts.get('source')!r} is not an address of a thread or document"
        for program, entries in captures().items()
        for name, facts in entries.items()
        if not re.fullmatch(r"https://\S+", str(facts.get("source")))
    )


def test_a_reader_reads_the_captures_of_every_program() -> None:
    read = "".join((CHECKOUT / "tests" / "unit" / name).read_text(encoding="utf-8") for name in READ_CAPTURES)
    table = dict(captures())
    forms = table.pop("forms")
    none_of(f"{program}: no test reads it" for program in table if f'_of("{program}"' not in read)
    none_of(f"{name}: no test has this form" for name in forms if f"``{name}``" not in read)


@pytest.mark.parametrize(
    "line",
    ["NVRM version: NVIDIA UNIX", "MLNX_OFED_LINUX-24.10-0.7.0.0:", "100 Gb/sec (4X EDR)", "filename: /lib/modules"],
)
def test_lines_that_only_hardware_and_its_tools_print_are_known(line: str) -> None:
    assert holds_output(line)
    assert not holds_output(line[: len(line) // 3])
