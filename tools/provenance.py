# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds fixtures of hardware and vendors' tools to tests/fixtures/provenance.yml: each says where it comes from.

``python -m tools.provenance`` counts them by kind; a unit test lists what is wrong. A fixture is a file below
``tests/fixtures``, a recorded host of the example inventory, or a test that holds lines of such a tool.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import yaml

from tools.checkout import CHECKOUT

TABLE = "tests/fixtures/provenance.yml"
KINDS = {
    "facts": "values that programs reported on real hosts, as their owners published them; tests lay them out",
    "recorded": "printed by the program itself when this project ran it",
    "published": "as a document, an article or a release has it",
    "composed": "published values and chosen ones, laid out as the program or the kernel does",
    "derived": "made from other fixtures: cut, changed, mixed, or written by a program of ours",
    "written": "written by the author after the source or the manual of the program, no capture",
}
_PLACE = re.compile(r"https://\S+|\b[\w.-]+/[\w.-]+\b.*\b[0-9a-f]{7,40}\b|(?:[Aa]rticle|[Ss]lides) on ")
_ADDRESS = re.compile(r"https://\S+$")
_KEYS = frozenset(("kind", "source", "under", "files", "made_from"))
_NOT_FIXTURES = re.compile(r"/(README\.md|__init__\.py|__pycache__/.*)$")
# Lines that only these programs and files of hosts have; a test that holds one holds a fixture.
MARKS: Mapping[str, str] = {
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
_ANY_MARK = re.compile("|".join(MARKS.values()))


class Entry(NamedTuple):
    """Fixtures of one origin: paths below the checkout, and the fixtures that they were made from."""

    kind: str
    source: str
    files: tuple[str, ...]
    made_from: tuple[str, ...]


def entries_of(text: str) -> list[Entry]:
    """Return the table; what an entry lacks is empty, a key that is not known becomes a kind that is not known."""
    found = []
    for raw in yaml.safe_load(text):
        unknown = sorted(set(raw) - _KEYS)
        kind = f"{raw.get('kind', '')}, unknown keys: {', '.join(unknown)}" if unknown else str(raw.get("kind", ""))
        under = f"{raw['under']}/" if raw.get("under") else ""
        files = tuple(f"{under}{name}" for name in raw.get("files") or ())
        found.append(
            Entry(kind, " ".join(str(raw.get("source") or "").split()), files, tuple(raw.get("made_from") or ()))
        )
    return found


def fixtures(root: Path) -> set[str]:
    """Return every fixture of the checkout by its path."""
    files = [path for path in (root / "tests" / "fixtures").rglob("*") if path.is_file()]
    files += (root / "inventories" / "recorded" / "recordings").iterdir()
    files += (path for path in (root / "tests" / "unit").rglob("*.py") if holds_output(path.read_text("utf-8")))
    names = {path.relative_to(root).as_posix() for path in files}
    return {name for name in names if name != TABLE and not _NOT_FIXTURES.search(f"/{name}")}


def holds_output(text: str) -> bool:
    """Say whether a source holds a line that only hardware or a vendor's tool prints."""
    return _ANY_MARK.search(text) is not None


def violations(entries: Sequence[Entry], present: Iterable[str]) -> list[str]:
    """Return what is wrong with the table, ``file: what``. Pure."""
    there = set(present)
    listed = Counter(name for entry in entries for name in entry.files)
    found = [f"{name}: no entry in {TABLE} says where it comes from" for name in sorted(there - set(listed))]
    found += [f"{name}: the table lists it, and it is not there" for name in sorted(set(listed) - there)]
    found += [f"{name}: listed {count} times" for name, count in sorted(listed.items()) if count > 1]
    for entry in entries:
        found += [f"{entry.files[0] if entry.files else TABLE}: {fault}" for fault in faults(entry, set(listed))]
    return found


def faults(entry: Entry, listed: set[str]) -> list[str]:
    """Return what is wrong with one entry."""
    found = [] if entry.files else ["an entry without files"]
    if entry.kind not in KINDS:
        found.append(f"unknown kind {entry.kind!r}, known are {', '.join(KINDS)}")
    if not entry.source:
        found.append("no source; where none is known, say so")
    elif entry.kind == "published" and not _PLACE.search(entry.source):
        found.append("the source of what is published names no address, and no repository, path and commit")
    if (entry.kind == "derived") != bool(entry.made_from):
        found.append("made_from names the fixtures that something derived was made from, and nothing else has it")
    unknown = [name for name in entry.made_from if not any(file.startswith(name) for file in listed)]
    return [*found, *(f"made from {name}, which is in no entry" for name in unknown)]


def without_address(captures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the captures whose facts name no thread or document that anybody can read, ``program name: what``."""
    found = []
    for program, entries in captures.items():
        sources = {name: str(facts.get("source")) for name, facts in entries.items()}
        wrong = {name: source for name, source in sources.items() if not _ADDRESS.match(source)}
        found += [
            f"{program} {name}: {source!r} is not an address of a thread or document" for name, source in wrong.items()
        ]
    return found


def table() -> list[Entry]:
    """Return the table of this checkout."""
    return entries_of((CHECKOUT / TABLE).read_text(encoding="utf-8"))


def counts(entries: Iterable[Entry]) -> dict[str, int]:
    """Return how many fixtures are of each kind, in the order of the kinds."""
    counted: dict[str, Any] = Counter()
    for entry in entries:
        counted[entry.kind] += len(entry.files)
    return {kind: counted[kind] for kind in KINDS}


def main() -> None:
    """Count."""
    for kind, count in counts(table()).items():
        print(f"{count:5} {kind}: {KINDS[kind]}")


if __name__ == "__main__":
    main()
