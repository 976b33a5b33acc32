# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.modules import LOAD_FILE, load_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_version import parse_driver_version
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    desired,
    module,
    two_ports,
)


class TestModules:
    def test_a_missing_module_is_loaded_now_and_at_boot(self) -> None:
        (step,) = make_plan(desired(kernel_modules=["rdma_ucm"]), two_ports())["steps"]
        assert (step["id"], step["from"], step["to"]) == ("modules:rdma_ucm", "not loaded", "loaded")
        assert (step["when"], step["status"]) == ("now+boot", "planned")

    @pytest.mark.parametrize("present", [module(), module(loaded=False, builtin=True)])
    def test_a_loaded_or_built_in_module_needs_no_step(self, present: Any) -> None:
        state = two_ports(modules={"rdma_ucm": present}, boot={"files": {LOAD_FILE: load_file(["rdma_ucm"])}})
        if present["builtin"]:
            state["boot"]["files"] = {}
        assert make_plan(desired(kernel_modules=["rdma_ucm"]), state)["steps"] == []

    def test_dash_and_underscore_are_one_module(self) -> None:
        state = two_ports(
            modules={"nvidia_peermem": module()}, boot={"files": {LOAD_FILE: load_file(["nvidia_peermem"])}}
        )
        assert make_plan(desired(kernel_modules=["nvidia-peermem"]), state)["steps"] == []

    def test_a_module_that_nothing_of_ours_loads_at_boot_gets_a_step_for_it(self) -> None:
        (step,) = make_plan(desired(kernel_modules=["mlx5_core"]), two_ports())["steps"]
        assert (step["from"], step["to"], step["when"]) == ("loaded", "loaded", "boot")


class TestDriverVersion:
    @pytest.mark.parametrize(
        ("text", "fields", "release", "doca"),
        [
            ("24.07-0.6.1.0-0", (24, 7, 0, 6, 1), "24.07-0.6.1.0", None),
            ("5.0-2.1.8.0", (5, 0, 2, 1, 8), "5.0-2.1.8.0", None),
            ("24.10-1.1.4", (24, 10, 1, 1, 4), "24.10-1.1.4", None),
            ("doca3.1.0-25.07-0.9.7.0-0", (25, 7, 0, 9, 7), "25.07-0.9.7.0", "3.1.0"),
            ("doca3.2-25.10-1.2.8.0-2-ubuntu24.04-amd64", (25, 10, 1, 2, 8), "25.10-1.2.8.0", "3.2"),
            ("23.04-0.5.3.3.1", (23, 4, 0, 5, 3), "23.04-0.5.3.3.1", None),
            ("24.10-1", (24, 10, 1, 0, 0), "24.10-1", None),
        ],
    )
    def test_releases_are_read(self, text: str, fields: tuple[int, ...], release: str, doca: str | None) -> None:
        version = parse_driver_version(text)
        assert version is not None
        assert (version.fields, version.release, version.doca) == (fields, release, doca)

    @pytest.mark.parametrize("text", ["", "latest", "24.07", "v24.07-0.6.1.0", "sha256:" + "a" * 64, "9" * 9000])
    def test_other_texts_name_no_release(self, text: str) -> None:
        assert parse_driver_version(text) is None
