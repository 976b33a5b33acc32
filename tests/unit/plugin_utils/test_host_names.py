# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of a fleet in few words, from which Ansible reads the same hosts."""

from __future__ import annotations

import pytest
from ansible.plugins.inventory import detect_range, expand_hostname_range

from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold, fold_names, host_list


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu-01"], "gpu-01"),
        (["gpu-02", "gpu-01"], "gpu-01,gpu-02"),
        ([f"gpu-{number:02}" for number in range(32, 0, -1)], "gpu-[01:32]"),
        (["n1", "n2", "n3", "n5", "n9", "n10", "n11"], "n[1:3],n5,n9,n10,n11"),
        (["n9", "n10", "n11", "n12"], "n9,n[10:12]"),
        (["n07", "n8", "n9"], "n07,n8,n9"),
        (["login", "admin"], "admin,login"),
        (["rack1-1", "rack1-2", "rack1-3", "rack2-1"], "rack1-[1:3],rack2-1"),
        (["1", "2", "3"], "[1:3]"),
        ([f"gpu-{number:02}.dc1.example.org" for number in range(1, 33)], "gpu-[01:32].dc1.example.org"),
        (["r1-n1", "r2-n1", "r2-n2", "r2-n3", "r3-n3"], "r1-n1,r2-n[1:3],r3-n3"),
        (["r1-n1", "r1-n2", "r1-n3", "r2-n3", "r3-n3"], "r1-n[1:3],r2-n3,r3-n3"),
        (["n1-a", "n2-b", "n3-a"], "n1-a,n2-b,n3-a"),
        ([], ""),
    ],
)
def test_names_fold_to_what_an_inventory_reads(names: list[str], folded: str) -> None:
    assert fold_names(names) == folded


@pytest.mark.parametrize("count", [2, 3, 99, 1000])
def test_ansible_reads_the_same_hosts_from_folded_names(count: int) -> None:
    names = [f"gpu-{number}.example.org" for number in range(3)] + [f"node{number}" for number in range(1, count + 1)]
    written = fold_names(names).split(",")
    assert len(written) <= 1 + len(str(count)) + 2
    read = [name for each in written for name in (expand_hostname_range(each) if detect_range(each) else [each])]
    assert read == names


def test_a_line_holds_24_ranges_and_counts_the_hosts_of_the_others() -> None:
    odd = [f"gpu-{number:03}" for number in range(1, 49, 2)]
    assert fold_names(odd) == ",".join(odd)
    assert fold_names([*odd, "gpu-049", "gpu-050", "gpu-051"]) == f"{','.join(odd[:-1])},gpu-047 and 3 more"


def test_a_sentence_names_the_first_and_counts_hosts_not_ranges() -> None:
    assert host_list(fold(f"gpu-{number}" for number in range(4))) == "gpu-[0:3]"
    assert host_list(fold("abcdefg")) == "a, b, c, d, e, f, g"
    assert host_list(fold(["a", "b", "c", "d", "e", "f", "g", "h1", "h2", "h3"])) == "a, b, c, d, e, f and 4 more"
