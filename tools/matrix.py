# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make matrix``: supported releases and the Pythons found here, with the result in docs/support.yml and its page.

``python -m tools.matrix [NAME...]`` runs the rows of that name, all by default: a release (``oldest``), a release with
a Python (``oldest-3.11``), ``hosts`` or ``hosts-3.8``. Other rows stay as they were.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import yaml

from tools import releases
from tools.checkout import BUILD, CHECKOUT
from tools.ending import to_its_end
from tools.environment import Version, pythons, text_of
from tools.gate import FAILED, PASSED, read_junit, sentence
from tools.generated import below, table, yaml_text
from tools.releases import ON_OLDEST, ON_PYTHON, RELEASES, Release
from tools.sanity import sanity_of

RESULTS = CHECKOUT / "docs" / "support.yml"
PAGE = CHECKOUT / "docs" / "support.md"
FOLDER = BUILD / "matrix"
BEGIN = "<!-- Written by `make matrix` from support.yml. -->\n"
END = "<!-- Until here. -->\n"
TESTS = (*ON_OLDEST, *ON_PYTHON)

Row = dict[str, Any]
Results = dict[str, list[Row]]


class Cell(NamedTuple):
    """One row to run: the list that it belongs to, what tells it there, and how it is run."""

    name: str
    place: str
    identity: Mapping[str, str]
    run: Callable[[], Row]


def cells() -> Iterator[Cell]:
    """Yield every row that this machine has the Python for."""
    for release in RELEASES:
        for python in filter(pythons().__contains__, release.pythons):
            identity = {"release": release.name, "python": text_of(python)}
            yield Cell("-".join(identity.values()), "controllers", identity, partial(run_controller, release, python))
    for python in releases.host_versions():
        yield Cell(f"hosts-{text_of(python)}", "hosts", {"python": text_of(python)}, partial(run_host, python))


def run_controller(release: Release, python: Version) -> Row:
    """Run preview and tests with a release and a Python, and its sanity tests with the Python of its gate."""
    row = {"ansible_core": release.ansible_core, "kubernetes_core": release.kubernetes_core}
    row["preview"] = verdict(releases.preview(release, python))
    row["tests"] = tested(f"{release.name}-{text_of(python)}", partial(releases.test, release, python, TESTS))
    if python == releases.python_for_gate(release):
        row["sanity"] = verdict(sanity_of(release, "--venv"))
    return row


def run_host(python: Version) -> Row:
    """Run the tests of the host core with a Python of hosts, and name the releases that change such a host."""
    taken = [each.ansible_core for each in RELEASES if each.hosts[0] <= python <= each.hosts[1]]
    tests = tested(f"hosts-{text_of(python)}", partial(releases.test_host_core, python))
    return {"tests": tests, "ansible_core": taken}


def verdict(status: int) -> str:
    """Return what an exit status means."""
    return FAILED if status else PASSED


def tested(name: str, run: Callable[[list[str]], int]) -> str:
    """Run tests with options for pytest, and return their counts."""
    junit = FOLDER / f"{name}.xml"
    FOLDER.mkdir(parents=True, exist_ok=True)
    junit.unlink(missing_ok=True)
    return counted(junit, run([f"--junit-xml={junit}"]))


def counted(junit: Path, status: int) -> str:
    """Return the counts of a JUnit file; without one, that its tests failed."""
    passed, failed, skipped, _failures = read_junit(junit) or (0, 0, 0, [])
    if not passed or (status and not failed):
        return verdict(1)
    return sentence(passed, failed, skipped) if failed else f"{passed:,} {PASSED}"


def load() -> Results:
    """Return the results of earlier runs."""
    found: Results = yaml.safe_load(RESULTS.read_text(encoding="utf-8"))
    return found


def store(results: Results) -> None:
    """Write the results, and the page from them."""
    RESULTS.write_text(below(RESULTS, "---", f"---\n{yaml_text(results)}"), encoding="utf-8")
    PAGE.write_text(files()[PAGE], encoding="utf-8")


def placed(results: Results, cell: Cell, row: Row) -> Results:
    """Return the results with a new row in the place of the one that has its identity, or behind all."""
    rows = {tuple(each[key] for key in cell.identity): each for each in results[cell.place]}
    rows[tuple(cell.identity.values())] = {**cell.identity, **row}
    return {**results, cell.place: [*rows.values()]}


def files() -> dict[Path, str]:
    """Return the page with the table of all results between its marks."""
    before, _begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _table, _end, after = rest.partition(END)
    return {PAGE: f"{before}{BEGIN}\n{tables(load())}\n{END}{after}"}


def tables(results: Results) -> str:
    """Return the results as two tables."""
    keys = ("ansible_core", "kubernetes_core", "python", "preview", "tests")
    runs = [[*(row[key] for key in keys), row.get("sanity", "not with this Python")] for row in results["controllers"]]
    hosts = [[row["python"], row["tests"], ", ".join(row["ansible_core"])] for row in results["hosts"]]
    head = "ansible-core | kubernetes.core | Python of the controller | Preview | Tests | ansible-test sanity"
    head_of_hosts = "Python of hosts | Tests of the host core | Read and changed by ansible-core"
    return f"{table(head, runs)}\n{table(head_of_hosts, hosts)}"


def failed(results: Results) -> list[str]:
    """Return the rows in which something did not pass."""
    rows = [row for rows in results.values() for row in rows]
    return [str(row) for row in rows if any(word in str(row) for word in ("failed", "skipped"))]


def main(names: Sequence[str]) -> int:
    """Run the rows that the command line names; return 1 where one of them did not pass."""
    results, known = load(), list(cells())
    chosen = [cell for cell in known if not names or {cell.name, cell.name.partition("-")[0]} & {*names}]
    if not chosen:
        raise SystemExit(f"no such row; there are {', '.join(cell.name for cell in known)}")
    for cell in chosen:
        print(f"== {cell.name}", flush=True)
        results = placed(results, cell, cell.run())
        store(results)
    print(tables(results))
    return int(bool(failed(results)))


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
