# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came from a vault is in no message: values that are encrypted, files that are, and what templates made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecret, b_HEADER

from ansible_collections.rdma.fabric.plugins.module_utils._violations import shown
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.said import hidden
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.vaulted import HIDDEN, texts_of
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

QUOTED = 'it\'s "quoted" text'


class Encrypted(str):
    """A value that is encrypted, as releases of ansible-core before 2.19 have it when its secret is there."""

    _ciphertext = "$ANSIBLE_VAULT;1.1;AES256"


class Placed(str):
    """A value that was read from a file, as those releases have it."""

    ansible_pos: tuple[str, int, int]


def placed(text: str, path: Path) -> Placed:
    value = Placed(text)
    value.ansible_pos = (str(path), 1, 1)
    return value


def test_encrypted_values_are_found_wherever_they_lie() -> None:
    variables = {
        "a": Encrypted("hunter2"),
        "b": ["clear", {"c": Encrypted("deep secret")}],
        "hostvars": {"other": Encrypted("not walked")},
    }
    assert texts_of([variables]) == {"hunter2", "deep secret"}


def test_all_values_of_an_encrypted_file_are_found_and_none_of_another(tmp_path: Path) -> None:
    vault, clear = tmp_path / "vault.yml", tmp_path / "clear.yml"
    vault.write_bytes(b_HEADER + b";1.1;AES256\n")
    clear.write_text("a: b\n", encoding="utf-8")
    assert texts_of([{"a": placed("hunter2", vault), "b": placed("told", clear), "c": "told"}]) == {"hunter2"}


@pytest.mark.parametrize("text", ["a: hunter2\nb: [third4]", "a=hunter2 b=third4", "hunter2, third4"])
def test_what_is_read_out_of_a_text_is_hidden_as_well(text: str) -> None:
    assert {"hunter2", "third4"} <= texts_of([{"a": Encrypted(text)}])


@pytest.mark.parametrize(
    ("secret", "said", "left"),
    [
        ("hunter2hunter2", "is text ('hunter2hunter2')", f"is text ('{HIDDEN}')"),
        ("hunter2hunter2", "prefix-hunter2hunter2-tail", f"prefix-{HIDDEN}-tail"),
        ("tiny", "is 'tiny', not tinyx", f"is '{HIDDEN}', not tinyx"),
        (
            QUOTED,
            f"is {shown(QUOTED)}",
            f'is "{HIDDEN}"',
        ),
        ("hunter2hunter2", "hunter2 hunter2h is another", "hunter2 hunter2h is another"),
    ],
)
def test_a_text_is_hidden_however_it_is_written(secret: str, said: str, left: str) -> None:
    assert hidden(said, {secret}, HIDDEN) == left


def test_a_long_one_that_is_cut_off_is_hidden() -> None:
    secret = "-----BEGIN KEY-----" + "c2VjcmV0" * 100
    said = hidden(f"is the text {shown(secret)}", {secret}, HIDDEN)
    assert said == f'is the text "{HIDDEN}...'


@pytest.fixture
def opened() -> DataLoader:
    """A loader that was given the secret of a vault."""
    loader = DataLoader()
    loader.set_vault_secrets([("default", VaultSecret(b"secret"))])
    return loader


class Unread(dict[str, Any]):
    """Variables of all hosts, whose values nobody may go through."""

    def values(self) -> Any:
        raise AssertionError("went through the variables of all hosts")


def test_neither_lists_of_hosts_nor_results_are_gone_through() -> None:
    names = ("groups", "ansible_play_hosts_all", "rdma_fabric_preflight_result")
    assert texts_of([dict.fromkeys(names, Unread(a=1))], ["rdma_fabric_preflight_result"]) == set()


def test_of_the_host_that_a_task_is_delegated_to_variables_are_gone_through_and_not_all_hosts() -> None:
    delegate = {"a": Encrypted("hunter2"), "hostvars": Unread(a=1)}
    assert texts_of([{"ansible_delegated_vars": {"localhost": delegate}}]) == {"hunter2"}


def test_without_a_secret_of_a_vault_no_variable_is_gone_through(opened: DataLoader) -> None:
    given: dict[str, Any] = {"task_vars": {"some": Unread(a=1)}}
    assert run_action("node_drain", {"node": "n", "timeout": "soon"}, **given)["failed"] is True
    with pytest.raises(AssertionError, match="went through"):
        run_action("node_drain", {"node": "n", "timeout": "soon"}, loader=opened, **given)


def test_messages_violations_and_notices_of_an_action_have_none_of_it(opened: DataLoader) -> None:
    variables: dict[str, Any] = {"rdma_fabric_wait_timeout": Encrypted("hunter2hunter2")}
    result = run_action("fabric_input", {}, task_vars=variables, loader=opened)
    assert result["failed"] is True
    assert "hunter2" not in str(result)
    assert f'is the text "{HIDDEN}", not a whole number of seconds from 0 on' in result["msg"]
    hosts = {"a": {"rdma_fabric_reboot_timeout": Encrypted("abcsecretabc"), "rdma_fabric_sysctls": "x-abcsecretabc"}}
    of_hosts = run_action("fabric_input", {"hosts": ["a"]}, task_vars={"hostvars": hosts}, loader=opened)
    assert of_hosts["failed"] is True
    assert "abcsecret" not in str(of_hosts)
    assert str(of_hosts).count(HIDDEN) >= 2
    argument = run_action("node_drain", {"node": "n", "timeout": Encrypted("hunter2hunter2")}, loader=opened)
    assert (argument["failed"], "hunter2" in str(argument)) == (True, False)
