# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make matrix``: supported releases and the Pythons found here, with the result in docs/support.yml and its page.

``python -m tools.matrix [NAME...]`` runs the rows of that name, all by default: a release (``oldest``), a release with
a Python (``oldest-3.11``), ``hosts`` or ``hosts-3.8``. Other rows stay as they were. ``--page`` only writes the page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import yaml

from tools import releases, targets
from tools.checkout import BUILD, CHECKOUT
from tools.ending import to_its_end
from tools.gate import read_junit, sentence
from tools.pythons import Version, pythons, text_of
from tools.releases import IN_TURN, ON_ANSIBLE, ON_PYTHON, RELEASES, Release
from tools.sanity import sanity_of

RESULTS = CHECKOUT / "docs" / "support.yml"
PAGE = CHECKOUT / "docs" / "support.md"
FOLDER = BUILD / "matrix"
BEGIN = "<!-- Written by `make matrix` from support.yml. -->\n"
END = "<!-- Until here. -->\n"
TESTS = (*ON_ANSIBLE, *IN_TURN, *ON_PYTHON)
PASSED = "passed"

Row = dict[str, Any]
Results = dict[str, list[Row]]


class _Indented(yaml.SafeDumper):
    """Lists stand behind their key, as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


@dataclass(frozen=True)
class Cell:
    """One row to run: the list that it belongs to, what tells it there, and how it is run."""

    name: str
    place: str
    identity: Mapping[str, str]
    run: Callable[[], Row]


def cells() -> Iterator[Cell]:
    """Yield every row that this machine has the Python for."""
    for release in RELEASES:
        for python in release.pythons:
            if python in pythons():
                identity = {"release": release.name, "python": text_of(python)}
                name = f"{release.name}-{text_of(python)}"
                yield Cell(name, "controllers", identity, partial(run_controller, release, python))
    for python in targets.host_versions():
        identity = {"python": text_of(python)}
        yield Cell(f"hosts-{text_of(python)}", "hosts", identity, partial(run_host, python))


def run_controller(release: Release, python: Version) -> Row:
    """Run preview and tests with a release and a Python, and its sanity tests with the Python of its gate."""
    junit = junit_of(f"{release.name}-{text_of(python)}")
    preview = verdict(releases.preview(release, python))
    status = releases.test(release, python, TESTS, [str(junit)])
    row = {"ansible_core": release.ansible_core, "kubernetes_core": release.kubernetes_core}
    row.update(preview=preview, tests=counted(junit, status))
    if python == releases.python_for_gate(release):
        row["sanity"] = verdict(sanity_of(release, "--venv"))
    return row


def run_host(python: Version) -> Row:
    """Run the tests of the host core with a Python of hosts, and name the releases that change such a host."""
    junit = junit_of(f"hosts-{text_of(python)}")
    status = targets.test(python, [str(junit)])
    taken = [release.ansible_core for release in RELEASES if changes(release, python)]
    return {"tests": counted(junit, status), "ansible_core": taken}


def changes(release: Release, python: Version) -> bool:
    """Tell whether the ansible-core of a release takes a Python on hosts."""
    code = "from ansible import constants; print(*constants.config.get_config_value('INTERPRETER_PYTHON_FALLBACK'))"
    own = releases.programs_of(release, releases.python_for_gate(release) or release.pythons[0]) / "python"
    done = subprocess.run([str(own), "-c", code], capture_output=True, text=True, check=True)
    return python in targets.host_versions(done.stdout.split())


def junit_of(name: str) -> Path:
    """Return where the tests of a row leave their results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.xml"
    path.unlink(missing_ok=True)
    return path


def verdict(status: int) -> str:
    """Return what an exit status means."""
    return "failed" if status else PASSED


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
    head = "".join(line for line in RESULTS.read_text(encoding="utf-8").splitlines(keepends=True) if line[0] in "#\n")
    text = yaml.dump(results, Dumper=_Indented, sort_keys=False, explicit_start=True)
    RESULTS.write_text(head + text, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def placed(results: Results, cell: Cell, row: Row) -> Results:
    """Return the results with a new row in the place of the one that has its identity, or behind all."""
    rows, new = results[cell.place], {**cell.identity, **row}
    same = [all(each[key] == value for key, value in cell.identity.items()) for each in rows]
    kept = [new if is_same else each for each, is_same in zip(rows, same)]
    return {**results, cell.place: kept if any(same) else [*rows, new]}


def page(text: str, results: Results) -> str:
    """Return the text of the page with the table of ``results`` between its marks."""
    before, _begin, rest = text.partition(BEGIN)
    _table, _end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"


def table(results: Results) -> str:
    """Return the results as two tables."""
    lines = [
        "| ansible-core | kubernetes.core | Python of the controller | Preview | Tests | ansible-test sanity |",
        "|---|---|---|---|---|---|",
    ]
    for row in results["controllers"]:
        cells = [row[key] for key in ("ansible_core", "kubernetes_core", "python", "preview", "tests")]
        lines.append(f"| {' | '.join([*cells, row.get('sanity', 'not with this Python')])} |")
    lines += ["", "| Python of hosts | Tests of the host core | Read and changed by ansible-core |", "|---|---|---|"]
    for row in results["hosts"]:
        lines.append(f"| {row['python']} | {row['tests']} | {', '.join(row['ansible_core'])} |")
    return "\n".join(lines) + "\n"


def failed(results: Results) -> list[str]:
    """Return the rows in which something did not pass."""
    rows = [row for rows in results.values() for row in rows]
    return [str(row) for row in rows if any(word in str(row) for word in ("failed", "skipped"))]


def main(arguments: Sequence[str]) -> int:
    """Run the rows that the command line names; return 1 where one of them did not pass."""
    parser = argparse.ArgumentParser(prog="tools.matrix", description="Run supported releases and Pythons.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--page", action="store_true", help="only write the page from docs/support.yml")
    options = parser.parse_args(arguments)
    results, names, chosen = load(), {*options.names}, []
    if not options.page:
        known = list(cells())
        chosen = [cell for cell in known if not names or names & {cell.name, cell.name.partition("-")[0]}]
        if not chosen:
            parser.error(f"no such row; there are {', '.join(cell.name for cell in known)}")
    for cell in chosen:
        print(f"== {cell.name}", flush=True)
        results = placed(results, cell, cell.run())
        store(results)
    store(results)
    print(table(results))
    return int(bool(failed(results)))


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
