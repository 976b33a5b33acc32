# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver import driver, peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.place import Found, Place

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n-----END PGP PUBLIC KEY BLOCK-----\n"
URL = "https://mirror.example/doca/3.1.0/ubuntu24.04/x86_64/"


def read(value: Any) -> tuple[Any, list[str]]:
    found = Found()
    result = driver(Place(found, "host gpu01: rdma_fabric_driver"), value)
    return result, [f"{violation.path}: {violation.problem}" for violation in found.violations]


def test_nothing_said_is_nothing_wanted() -> None:
    assert read(None) == (None, [])


def test_defaults_are_the_careful_ones() -> None:
    settings, problems = read({"flavour": "doca-ofed", "version": "24.10-1.1.4.0"})
    assert problems == []
    assert settings["with_firmware_update"] is False
    assert (settings["reload"], settings["storage_modules"], settings["build"]) == ("if_idle", "stage", "dkms")
    assert (settings["state"], settings["source"]) == ("present", "distribution")


@pytest.mark.parametrize(
    "value",
    [
        {"source": "repository", "repository": {"url": URL, "gpg_key": KEY}},
        {"source": "repository", "repository": {"url": "/srv/doca", "gpg_key": "/srv/doca/KEY"}},
        {"source": "repository", "repository": {"url": "file:///srv/doca", "gpg_check": False}},
        {"source": "archive", "flavour": "mlnx-ofed", "archive": "/srv/MLNX_OFED_LINUX-24.10-1.1.4.0.tgz"},
        {"source": "archive", "flavour": "doca-ofed", "archive": "/srv/doca-host_3.1.0_amd64.deb"},
        {"source": "container"},
        {"state": "absent"},
        {"state": "absent", "flavour": "inbox"},
        {"flavour": "inbox"},
        {"flavour": "doca-ofed", "build": "precompiled", "version": "25.07-0.9.7.0"},
    ],
)
def test_accepted(value: dict[str, Any]) -> None:
    assert read(value)[1] == []


@pytest.mark.parametrize(
    ("repository", "noticed"),
    [
        ({"url": "http://mirror.example/doca", "gpg_check": False}, ["repository.gpg_check"]),
        ({"url": "http://mirror.example/doca", "gpg_key": KEY}, []),
        ({"url": URL, "gpg_check": False}, []),
        ({"url": "/srv/doca", "gpg_check": False}, []),
    ],
)
def test_packages_that_anybody_on_the_way_can_replace_are_noticed(
    repository: dict[str, Any], noticed: list[str]
) -> None:
    found = Found()
    driver(Place(found, "host gpu01: rdma_fabric_driver"), {"source": "repository", "repository": repository})
    assert [notice.path for notice in found.notices] == noticed


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("doca-ofed", ""),
        ({"flavor": "doca-ofed"}, "flavor"),
        ({"flavour": "ofed"}, "flavour"),
        ({"flavour": True}, "flavour"),
        ({"version": "latest"}, "version"),
        ({"version": 24.1}, "version"),
        ({"version": "24.10-1.1.4\nrefused"}, "version"),
        ({"source": "repository"}, "repository"),
        ({"source": "archive"}, "archive"),
        ({"repository": {"url": URL, "gpg_key": KEY}}, "repository"),
        ({"source": "repository", "repository": {"url": URL}}, "repository.gpg_key"),
        ({"source": "repository", "repository": {"gpg_key": KEY}}, "repository.url"),
        ({"source": "repository", "repository": {"url": "ftp://mirror/", "gpg_key": KEY}}, "repository.url"),
        ({"source": "repository", "repository": {"url": f"{URL}\n[other]", "gpg_key": KEY}}, "repository.url"),
        ({"source": "repository", "repository": {"url": "https://me:secret@m/", "gpg_key": KEY}}, "repository.url"),
        ({"source": "repository", "repository": {"url": URL, "gpg_key": "KEY"}}, "repository.gpg_key"),
        ({"source": "archive", "archive": "driver.tgz"}, "archive"),
        ({"source": "archive", "archive": "/srv/driver.zip"}, "archive"),
        ({"source": "archive", "flavour": "doca-ofed", "archive": "/srv/driver.tgz"}, "archive"),
        ({"with_firmware_update": "yes"}, "with_firmware_update"),
        ({"reload": "always"}, "reload"),
        ({"storage_modules": "kill"}, "storage_modules"),
        ({"signing_key": "mok.der"}, "signing_key"),
        ({"flavour": "inbox", "version": "24.10-1.1.4.0"}, "version"),
        ({"state": "absent", "flavour": "doca-ofed"}, "flavour"),
        ({"flavour": "mlnx-ofed", "version": "25.07-0.9.7.0"}, "version"),
        ({"flavour": "doca-ofed", "build": "precompiled", "version": "26.01-1.0.0.0"}, "build"),
    ],
)
def test_refused_with_its_place(value: Any, path: str) -> None:
    problems = read(value)[1]
    assert [problem.split(":", 1)[0] for problem in problems] == [path]


def test_a_word_that_is_almost_a_choice_is_told_that_one() -> None:
    found = Found()
    driver(Place(found, "host gpu01: rdma_fabric_driver"), {"reload": "if-idle"})
    assert [violation.hint for violation in found.violations] == ["did you mean if_idle?"]


def test_all_problems_at_once() -> None:
    assert len(read({"flavour": "ofed", "version": "x", "reload": "now", "colour": 1})[1]) == 4


def test_a_secret_in_a_url_is_not_repeated() -> None:
    (problem,) = read({"source": "repository", "repository": {"url": "https://me:secret@m/", "gpg_key": KEY}})[1]
    assert "secret" not in problem


def read_peer(value: Any) -> tuple[Any, list[str]]:
    found = Found()
    return peer_memory(Place(found, "host gpu01: rdma_fabric_peer_memory"), value), [v.path for v in found.violations]


def test_peer_memory_is_chosen_by_default() -> None:
    assert read_peer({}) == ({"state": "present", "mechanism": "auto"}, [])
    assert read_peer(None) == (None, [])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([], ""),
        ({"mechanism": "peermem"}, "mechanism"),
        ({"state": "loaded"}, "state"),
        ({"state": "absent", "mechanism": "dma-buf"}, "mechanism"),
        ({"module": "nvidia-peermem"}, "module"),
    ],
)
def test_refused_peer_memory(value: Any, path: str) -> None:
    assert read_peer(value)[1] == [path]
