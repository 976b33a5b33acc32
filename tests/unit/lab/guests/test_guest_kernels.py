# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules for guests are built for one kernel, of sources that are told apart."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.guests.kernel_modules import Kernel, kernel_in, module_key
from ansible_collections.rdma.fabric.tests.lab.guests.netdevsim import NETDEVSIM
from ansible_collections.rdma.fabric.tests.lab.guests.next_kernel import IGB

PACKAGES = """kmod\t34.2-2
linux-image-7.3.4+deb13-amd64\t7.3.4-1~bpo13+1
linux-image-amd64\t7.3.4-1~bpo13+1
"""


def test_the_image_tells_its_kernel() -> None:
    assert kernel_in(PACKAGES) == Kernel("7.3.4+deb13-amd64", "7.3", "7.3.4-1~bpo13+1")
    with pytest.raises(ProgramsUnavailable, match="list no kernel"):
        kernel_in("kmod\t34.2-2\n")


def test_another_kernel_or_version_of_it_gets_a_module_of_its_own() -> None:
    kernel = kernel_in(PACKAGES)
    others = [kernel._replace(release="7.3.5+deb13-amd64"), kernel._replace(version="7.3.4-2~bpo13+1")]
    assert module_key(NETDEVSIM, kernel) not in [module_key(NETDEVSIM, other) for other in others]


def test_a_module_whose_sources_are_changed_is_built_again() -> None:
    kernel = kernel_in(PACKAGES)
    assert IGB.added
    assert module_key(IGB, kernel) != module_key(IGB._replace(added=()), kernel)
