# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page about large fleets: what it calls computed follows from what it calls measured, and AWX takes its data."""

from __future__ import annotations

import math
import re

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.rdma.fabric.tests.unit.test_awx_guide import DATA, specification
from tools.checkout import CHECKOUT

TEXT = (CHECKOUT / "docs" / "guide-scale.md").read_text(encoding="utf-8")
ROWS = {cells[1].strip(): cells[2:-1] for line in TEXT.splitlines() if len(cells := line.split("|")) > 3}
UNITS_OF_A_NODE = (16 * 1024 - 2048) // 100


def number(text: str) -> float:
    """Return the first number of a text."""
    (found, *_rest) = re.findall(r"[\d.]+", text.replace(",", ""))
    return float(found)


def row(start: str) -> list[float]:
    """Return the numbers of the row that begins so."""
    (cells,) = [cells for name, cells in ROWS.items() if name.startswith(start)]
    return [number(cell) for cell in cells]


def test_what_is_computed_follows_from_what_was_measured() -> None:
    (fixed,), (per_host,) = row("CPU of the controller, fixed"), row("CPU of the controller, per host")
    memory = number(ROWS["memory of the main process"][0].partition("MiB with 100 hosts,")[2])
    (of_a_node,) = row("requests of an upgrade, per node")
    limits, hours = row("`rdma_fabric_max_unavailable`"), row("time of an upgrade")
    for column, hosts in enumerate((1000, 10_000)):
        slices, forks = int(row("`job_slice_count`")[column]), int(row("`forks`")[column])
        own = hosts / slices
        assert row("CPU of a slice")[column] == round(fixed + own * per_host)
        assert row("time of a slice")[column] == round(fixed + own * max(per_host, 4 / forks))
        assert row("memory of a slice")[column] == round((forks + 1) * memory / 1024, 1)
        units = row("AWX capacity")[column]
        assert units == slices * (forks + 1)
        # A job is on one node.
        assert row("execution nodes")[column] == math.ceil(slices / (UNITS_OF_A_NODE // (forks + 1)))
        assert hours[column] == round(hosts / limits[column] * 20 / 60, 1)
        assert slices * forks >= limits[column]
        assert row("requests of an upgrade, per second")[column] == round(
            hosts * of_a_node / (hosts / limits[column] * 1200), 2
        )


def test_awx_takes_the_group_and_runs_the_image_of_the_other_page() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (group,) = yaml.safe_load(block)["controller_instance_groups"]
    assert ArgumentSpecValidator(specification("instance_group")).validate(group).error_messages == []
    (container,) = yaml.safe_load(group["pod_spec_override"])["spec"]["containers"]
    assert container["image"] in {each["image"] for each in DATA["controller_execution_environments"]}
    assert group["max_forks"] == row("AWX capacity")[1]
    assert number(container["resources"]["requests"]["memory"]) >= row("memory of a slice")[1]
