# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every gate of the project, in the order in which they are started.

The booted hosts come first, beside what leaves them time: kubelets that get none lose their nodes. The tests that have
control planes on every core come after them.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Sequence

from tests.lab.guests.requirements import look, missing
from tools import releases, targets
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS, LINK, PROGRAMS, own_environment
from tools.gates.model import Gate, Step
from tools.gates.sanity import sanity_steps
from tools.pythons import text_of
from tools.releases import NEWEST, OLDEST, Release, programs_of, python_for_gate

JUNIT = BUILD / "gates"
UNITS = "ansible_collections.rdma.fabric.tests.integration.workers"  # tells what is run together
ARTIFACTS = BUILD / "artifact"


def command(program: str, *arguments: str, **environment: str) -> tuple[Step, ...]:
    """Return one command of the environment, run in the checkout."""
    return (Step((str(PROGRAMS / program), *arguments), environment),)


def module(name: str, *arguments: str, **environment: str) -> tuple[Step, ...]:
    """Return one Python module run as a program, with the checkout importable as the collection."""
    return (Step((sys.executable, "-m", name, *arguments), environment),)


# Their hosts have files and locks of their own, so that they run beside each other; most of the time each waits for
# playbooks.
IN_TURN = (
    "test_drift.py",
    "test_failure_domains.py",
    "test_hooks.py",
    "test_join.py",
    "test_killed_anywhere.py",
    "test_readme_path.py",
    "test_rollback.py",
    "test_sealed_upgrade.py",
    "test_teardown.py",
    "test_upgrade.py",
    "test_upgrade_bad_days.py",
    "test_upgrade_killed.py",
    "test_upgrade_policies.py",
    "test_upgrade_report.py",
    "test_upgrade_wire.py",
)


def pytest(folder: str, *options: str, name: str = "", only: Sequence[str] = ()) -> tuple[Step, ...]:
    """Return the test run of one folder, or of some of its files; its counts go to a JUnit file of that ``name``."""
    cache = f"cache_dir={BUILD / 'pytest-cache' / (name or folder)}"
    files = [f"tests/{folder}/{file}" for file in only] or [f"tests/{folder}"]
    return module("pytest", *files, "-o", cache, f"--junit-xml={JUNIT / (name or folder)}.xml", *options)


def parallel() -> tuple[str, ...]:
    """Have tests run on every core that this process may use; one core needs no workers.

    ``worksteal`` gives each worker a stretch of the tests as they are collected, and what one has left goes to those
    that are done: neighbours mostly share the fixtures of their module.
    """
    cores = len(os.sched_getaffinity(0))
    return ("--numprocesses", str(cores), "--dist", "worksteal") if cores > 1 else ()


def parallel_in_units() -> tuple[str, ...]:
    """Have tests run on every core by files, those that share this machine in one worker."""
    return ("-p", UNITS, *parallel()) if parallel() else ()


def mypy_steps() -> tuple[Step, ...]:
    """Check plugins and tests under the name they are imported by, the tools under theirs."""
    arguments = ("--cache-dir", str(BUILD / "mypy-cache"), str(LINK / "plugins"), str(LINK / "tests"), "tools")
    return command("mypy", *arguments, MYPYPATH=str(COLLECTIONS))


def importer_steps() -> tuple[Step, ...]:
    """Let Galaxy's importer judge the artifact that was built before."""
    folder = BUILD / "importer"
    folder.mkdir(exist_ok=True)
    settings = folder / "galaxy-importer.cfg"
    settings.write_text("[galaxy-importer]\nrun_ansible_test = False\n", encoding="utf-8")
    (artifact,) = ARTIFACTS.glob("rdma-fabric-*.tar.gz")
    argv = (sys.executable, "-m", "galaxy_importer.main", str(artifact))
    return (Step(argv, {"GALAXY_IMPORTER_CONFIG": str(settings)}, folder),)


def programs_missing() -> str | None:
    """Say why the control plane's programs can be neither found nor built here."""
    if os.environ.get("KUBEBUILDER_ASSETS") or shutil.which("go") or shutil.which("kube-apiserver"):
        return None
    return "no Go to build the control plane with, no kube-apiserver on PATH and no KUBEBUILDER_ASSETS"


def lab_missing() -> str | None:
    """Say why hosts can't be booted here."""
    return programs_missing() or "\n".join(missing(look())) or None


def release_gate(release: Release) -> Gate:
    """Return the gate of a release of ansible-core and kubernetes.core."""
    junit = JUNIT / f"{release.name}.xml"
    return Gate(
        release.name,
        f"the preview, and the tests of what stands on ansible-core, with its {release.name} supported release",
        lambda: module("tools.releases", release.name, str(junit)),
        after=("preview", "programs"),
        missing=lambda: programs_missing() or releases.missing(release),
        junit=junit,
        limit_s=1800,
    )


def release_sanity(release: Release, without: Sequence[str] = ()) -> tuple[Step, ...]:
    """Return the sanity tests of a release with the Python of its gate, which ``missing`` has found."""
    python = python_for_gate(release) or release.pythons[0]
    return sanity_steps(programs_of(release, python), BUILD / f"sanity-{release.name}", python, without)


def environment() -> dict[str, str]:
    """Return what every gate finds in its environment.

    Git must not take what lies below ``.venv`` and ``build`` for (ignored) parts of the checkout: checkers that copy a
    collection from there would copy nothing.
    """
    return {
        **own_environment(COLLECTIONS),
        "PYTHONPATH": str(COLLECTIONS),
        "GIT_CEILING_DIRECTORIES": str(CHECKOUT),
    }


GATES: tuple[Gate, ...] = (
    Gate("artifact", "the artifact builds and installs", lambda: module("tools.artifact")),
    Gate(
        "programs",
        "the control plane's programs are found, or built once",
        lambda: module("tests.lab", "programs"),
        missing=programs_missing,
        limit_s=2700,
    ),
    Gate(
        "guests",
        "the other tests on booted hosts and the cluster that they form",
        lambda: pytest("guests"),
        after=("programs", "artifact"),
        missing=lab_missing,
        junit=JUNIT / "guests.xml",
        limit_s=5400,
        on_request=True,  # half an hour of emulated hosts
    ),
    Gate(
        "roce-shared",
        "the molecule scenario on two booted hosts: RDMA between their pods",
        lambda: module("tools.scenario", "roce-shared"),
        after=("programs", "artifact"),
        missing=lab_missing,
        limit_s=5400,  # the first time, it builds the hosts' image and their programs
    ),
    Gate(
        "sanity",
        "ansible-test sanity, nothing ignored",
        sanity_steps,
        forbidden=("All targets skipped", "Skipping sanity test"),
        limit_s=1800,
    ),
    Gate("format", "ruff format", lambda: command("ruff", "format", "--check", ".")),
    Gate("ruff", "ruff check", lambda: command("ruff", "check", ".")),
    Gate("types", "mypy --strict over plugins, tests and tools", mypy_steps),
    Gate("rooms", "the directions of imports", lambda: command("lint-imports", "--no-cache")),
    Gate("yaml", "yamllint", lambda: command("yamllint", "--strict", ".")),
    Gate(
        "ansible-lint",
        "ansible-lint, profile production; the one rule that is skipped has its reason in .ansible-lint",
        lambda: command("ansible-lint", "--profile", "production", "--strict", "--offline", "--nocolor"),
    ),
    Gate(
        "docs",
        "documentation of plugins, roles and the docsite",
        lambda: module("tools.gates.collection_docs", HOME=str(BUILD)),  # where antsibull-docs leaves its log
    ),
    Gate("changelog", "changelog fragments", lambda: command("antsibull-changelog", "lint", HOME=str(BUILD))),
    Gate(
        "importer",
        "Galaxy's importer accepts the artifact without a warning",
        importer_steps,
        after=("artifact",),
        forbidden=("WARNING:", "ERROR:"),
    ),
    Gate("preview", "make preview", lambda: module("tools.preview"), after=("artifact",)),
    Gate("unit", "unit tests", lambda: pytest("unit", *parallel()), junit=JUNIT / "unit.xml", limit_s=1800),
    *(release_gate(release) for release in (OLDEST, NEWEST)),
    Gate(
        "sanity-oldest",
        "ansible-test sanity of the oldest release, nothing ignored; its pylint in `make matrix`",
        lambda: release_sanity(OLDEST, without=("pylint",)),
        after=("oldest",),  # which makes its environment
        missing=lambda: releases.missing(OLDEST),
        forbidden=("All targets skipped", "Skipping sanity test"),
        limit_s=3600,
    ),
    Gate(
        "targets",
        "the host core with the oldest Python that a host may have",
        lambda: module("tools.targets", text_of(targets.OLDEST), str(JUNIT / "targets.xml")),
        missing=targets.missing,
        junit=JUNIT / "targets.xml",
        limit_s=1800,
    ),
    Gate(
        "demo",
        "make demo on recorded hosts: the whole job, twice",
        lambda: module("tools.demo", "--no-lab"),
        after=("programs", "artifact"),
        missing=programs_missing,
    ),
    Gate(
        "molecule",
        "the molecule scenario against a real API server",
        lambda: module("tools.scenario"),
        after=("programs", "artifact"),
        missing=programs_missing,
    ),
    Gate(
        "quick-starts",
        "the molecule scenarios of the quick starts against a real API server",
        lambda: module("tools.scenario", "quick-starts"),
        after=("programs", "artifact"),
        missing=programs_missing,
        on_request=True,  # the gate `integration` has their inventories, each with a pod
    ),
    Gate(
        "turns",
        "tests of the playbooks that take the nodes of a real API server in turn, of drift, and the README's path",
        lambda: pytest("integration", *parallel(), name="turns", only=IN_TURN),
        after=("programs", "artifact"),
        missing=programs_missing,
        junit=JUNIT / "turns.xml",
        limit_s=3600,
    ),
    Gate(
        "integration",
        "the other tests against a real API server",
        lambda: pytest(
            "integration", *parallel_in_units(), *(f"--ignore=tests/integration/{file}" for file in IN_TURN)
        ),
        after=("programs", "artifact"),
        missing=programs_missing,
        junit=JUNIT / "integration.xml",
        limit_s=5400,
    ),
    Gate(
        "bench",
        "bounds of what a host and a fleet cost: bytes, commands, memory, CPU beside that of others",
        lambda: module("tests.bench", "--largest", "1000", "host", "ssh", "scale"),
        after=("artifact",),
        alone=True,  # beside tests on every core a host takes up to 0.99 times the CPU of setup, else 0.96
        limit_s=1800,
    ),
    Gate(
        "bench-apply",
        "bounds of what a batch apply costs: requests, and time beside that of kubernetes.core's module",
        lambda: module("tests.bench", "apply"),
        after=("programs", "artifact"),
        missing=programs_missing,
        alone=True,  # by the clock an apply takes 0.115 of the module's time beside tests on every core, else 0.076
    ),
    Gate(
        "bench-kubectl",
        "the CPU of a batch apply is at most half more than kubectl's",
        lambda: module("tests.bench", "kubectl"),
        after=("programs", "artifact"),
        missing=programs_missing,
        alone=True,  # kubectl's threads spin while cores are idle, and not on a busy machine: 0.7 s there, 0.55 s here
    ),
    Gate(
        "licences",
        "REUSE: every file has a licence",
        lambda: command("reuse", "lint"),
        alone=True,  # it asks git once what is ignored: bytecode that a gate beside it writes would be files of ours
    ),
)
