# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an error means is found whatever language the user speaks."""

from __future__ import annotations

import locale
import os
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.failures import errno_in, explain
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import CommandFailed
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError


@pytest.fixture(autouse=True)
def german(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process whose user speaks German, as AnsibleModule leaves it; glibc answers in English in the locale C only."""
    former, in_english = locale.setlocale(locale.LC_MESSAGES), os.strerror

    def in_german(number: int) -> str:
        is_english = locale.setlocale(locale.LC_MESSAGES) == "C"
        return in_english(number) if is_english else f"Fehler {number}"

    locale.setlocale(locale.LC_MESSAGES, "C.UTF-8")
    monkeypatch.setattr(os, "strerror", in_german)
    yield
    assert os.strerror(16) == "Fehler 16", "the language of the process stays"
    locale.setlocale(locale.LC_MESSAGES, former)


def test_the_words_of_a_program_are_understood() -> None:
    assert errno_in("RTNETLINK answers: Device or resource busy") == "EBUSY"
    failed = CommandFailed(("ip", "link"), 2, "RTNETLINK answers: Device or resource busy\n", "")
    assert "it is in use; next: find out who uses it" in explain(failed, None, {})


def test_an_error_of_the_kernel_is_told_in_english() -> None:
    assert explain(HostError("ENOSPC", "/etc/x"), None, {}).startswith("/etc/x: No space left on device (ENOSPC); ")
