# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflows of a public forge: they run the layers by the commands of the Makefile, with actions that stay."""

from __future__ import annotations

import re
from typing import Any, Iterator

import yaml

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in (CHECKOUT / ".github" / "workflows").glob("*.yml")}
WORKFLOWS: dict[str, Any] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
MAKEFILE = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
# What the forge alone does of a release.
OF_THE_FORGE = ("printenv SIGNING_KEY | gpg ", "gh release create ")
AS_ROOT = 'sudo env "PATH=$PATH" CI=true '


def jobs(workflow: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each job with the commands that it runs."""
    for name, job in WORKFLOWS[workflow]["jobs"].items():
        yield name, [step["run"].removeprefix(AS_ROOT) for step in job["steps"] if "run" in step]


def test_actions_are_pinned_by_digest_with_their_release() -> None:
    uses = [line.strip() for text in TEXTS.values() for line in text.splitlines() if re.match(r"\s*(- )?uses:", line)]
    none_of(line for line in uses if not re.fullmatch(r"(- )?uses: actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line))
    assert uses


def test_jobs_run_the_layers_by_the_commands_of_the_makefile() -> None:
    assert dict(jobs("test")) == {"test": ["make test"], "rest": ["make rest"]}
    assert dict(jobs("nightly")) == {"nightly": ["make ${{ matrix.gate }}"]}
    (gates,) = re.findall(r"^NIGHTLY := (.*)$", MAKEFILE, re.MULTILINE)
    assert WORKFLOWS["nightly"]["jobs"]["nightly"]["strategy"]["matrix"]["gate"] == gates.split()
    ((_name, commands),) = jobs("release")
    assert [command for command in commands if not command.startswith(OF_THE_FORGE)] == ["make release"]
    assert {
        target for target in ("test", "rest", "release") if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    } == set()
