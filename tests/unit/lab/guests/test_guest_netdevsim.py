# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated network devices are built for the kernel of the guests."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.guests.netdevsim import Kernel, kernel_in, module_key

PACKAGES = """kmod\t34.2-2
linux-image-7.3.4+deb13-amd64\t7.3.4-1~bpo13+1
linux-image-amd64\t7.3.4-1~bpo13+1
"""


def test_the_image_tells_its_kernel() -> None:
    assert kernel_in(PACKAGES) == Kernel("7.3.4+deb13-amd64", "7.3", "7.3.4-1~bpo13+1")
    with pytest.raises(ProgramsUnavailable, match="lists no kernel"):
        kernel_in("kmod\t34.2-2\n")


def test_another_kernel_or_version_of_it_gets_a_module_of_its_own() -> None:
    kernel = kernel_in(PACKAGES)
    others = [kernel._replace(release="7.3.5+deb13-amd64"), kernel._replace(version="7.3.4-2~bpo13+1")]
    assert module_key(kernel) not in map(module_key, others)
