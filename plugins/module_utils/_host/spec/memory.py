# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the limits and huge pages in a host's spec."""

from __future__ import annotations

import re
from typing import Mapping, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import described, mismatch, shown

from .place import Place, mapping_of, near_name, record_of, whole_number, within

UNLIMITED = "unlimited"
# From include/linux/hugetlb.h and the page tables of x86-64, arm64 (4, 16 and 64 KiB granules) and ppc64.
PAGE_SIZES = {
    "64Ki": 64,
    "2Mi": 2048,
    "16Mi": 16384,
    "32Mi": 32768,
    "512Mi": 524288,
    "1Gi": 1048576,
    "16Gi": 16777216,
}
"""Huge page sizes by name, in KiB as in the names of sysfs directories."""
LIMIT_KEYS = ("memlock", "nofile")
_ENOUGH_MEMLOCK = 65536
# Programs and PAM fail with more open files than fs.nr_open; this is its default.
_MOST_FILES = 1048576
_FEWEST_FILES = 1024
_MOST_PAGES = 2**31 - 1
_LONGEST_MEMLOCK = 2**53
_TOO_MUCH = "is more than any machine has"
_MEMLOCK = within(64, _LONGEST_MEMLOCK, "is below 64 KiB, which even programs without RDMA use", _TOO_MUCH)
_FILES = within(
    _FEWEST_FILES,
    _MOST_FILES,
    f"is below {_FEWEST_FILES}, the kernel's own default",
    f"is above {_MOST_FILES}, the default of fs.nr_open: PAM would refuse every login",
)
_PAGES = within(0, _MOST_PAGES, "is negative; 0 frees the pages", _TOO_MUCH)


class Limits(TypedDict):
    """Limits of processes: ``memlock`` in KiB or ``unlimited``, ``nofile`` in files; None means not set."""

    memlock: int | str | None
    nofile: int | None


def limits(place: Place, value: object) -> Limits:
    """Return the limits."""
    readers = {"memlock": _memlock, "nofile": _nofile}
    return cast(Limits, record_of(place, value, "limits: memlock, nofile", readers))


def _memlock(place: Place, value: object) -> int | str | None:
    if value is None:
        return None
    if value == UNLIMITED:
        return UNLIMITED
    if isinstance(value, str):
        near = re.fullmatch(r"(?i)infinity|infinite|-1|none|unlimited", value.strip())
        hint = f"write {UNLIMITED}" if near else "write KiB as a number without a unit"
        place.violation(mismatch(value, f"{UNLIMITED} or a number of KiB"), hint)
        return None
    number = whole_number(place, value, _MEMLOCK)
    if number is not None and number < _ENOUGH_MEMLOCK:
        place.notice(
            f"{number} KiB is less than {_ENOUGH_MEMLOCK}, so programs may fail to register memory for RDMA",
            f"write {UNLIMITED}",
        )
    return number


def _nofile(place: Place, value: object) -> int | None:
    if value is None:
        return None
    if value == UNLIMITED:
        place.violation(f"can't be {UNLIMITED}: PAM would refuse every login", f"write at most {_MOST_FILES}")
        return None
    return whole_number(place, value, _FILES)


def hugepages(place: Place, value: object) -> dict[str, int | dict[str, int]]:
    """Return the pages by size, each a number or a mapping of NUMA node (as text) to a number."""
    wanted: dict[str, int | dict[str, int]] = {}
    for size, item in mapping_of(place, value, "page sizes to numbers of pages").items():
        here = place.at(size)
        if size not in PAGE_SIZES:
            here.violation("is not a huge page size", near_name(size, PAGE_SIZES))
        elif isinstance(item, Mapping):
            wanted[size] = _per_node(here, item)
        else:
            number = whole_number(here, item, _PAGES)
            if number is not None:
                wanted[size] = number
    return wanted


def _per_node(place: Place, value: Mapping[object, object]) -> dict[str, int]:
    nodes: dict[str, int] = {}
    if not value:
        place.violation("names no NUMA node", "give a number of pages, or pages per node such as {0: 4, 1: 4}")
    for key, item in value.items():
        # JSON has no numbers as keys, YAML has.
        node = str(key)
        if isinstance(key, bool) or not isinstance(key, (int, str)) or not re.fullmatch(r"0|[1-9][0-9]{0,3}", node):
            place.violation(f"has the key {shown(key)}, which is {described(key)} and no number of a NUMA node")
            continue
        number = whole_number(place.at(node), item, _PAGES)
        if number is None:
            continue
        if node in nodes:
            place.at(node).violation("is given twice, as a number and as text")
        nodes[node] = number
    return dict(sorted(nodes.items(), key=lambda entry: int(entry[0])))
