# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages for guests that are up."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.tests.lab.guests.packages import apt_words, packages_key
from ansible_collections.rdma.fabric.tests.lab.guests.recipe import KERNEL_SUITE


def test_packages_are_fetched_anew_for_another_image_or_other_packages() -> None:
    known = packages_key("image-1", ["ifupdown"])
    assert known == packages_key("image-1", ["ifupdown"])
    assert known not in {packages_key("image-2", ["ifupdown"]), packages_key("image-1", ["ifupdown", "ifenslave"])}


def test_apt_knows_nothing_of_this_machines_archives_keys_and_packages() -> None:
    options = dict(word.split("=", 1) for word in apt_words(Path("/root-of-guest"), Path("/scratch")) if "=" in word)
    places = [value for key, value in options.items() if key.startswith("Dir::")]
    assert all(place.startswith(("/root-of-guest/", "/scratch/", "/dev/null")) for place in places)
    assert {"Dir::State::status", "Dir::Etc::sourcelist", "Dir::Etc::sourceparts", "Dir::Etc::trustedparts"} <= {
        *options
    }


def test_another_suite_is_looked_for_where_the_image_knows_it_and_its_packages_are_kept_apart() -> None:
    assert packages_key("image-1", ["linux"], KERNEL_SUITE) != packages_key("image-1", ["linux"])
    words = apt_words(Path("/root-of-guest"), Path("/scratch"), KERNEL_SUITE)
    assert "Dir::Etc::sourceparts=/root-of-guest/etc/apt/sources.list.d" in words
