# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the user's that ansible-vault has encrypted are read as if it had not, and refused without their secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import MAX_BYTES
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import action_of, run_action

ACCESS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "ufm", "namespace": "nvidia-network-operator"},
    "stringData": {"UFM_PASSWORD": "hush"},
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ansible puts its temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("ansible.constants.DEFAULT_LOCAL_TMP", str(folder))
    return folder


def loader_with(*passwords: str) -> DataLoader:
    loader = DataLoader()
    loader.set_vault_secrets([("default", VaultSecret(each.encode())) for each in passwords])
    return loader


def encrypted(path: Path, text: str) -> str:
    vault = VaultLib([("default", VaultSecret(b"right"))])
    path.write_bytes(vault.encrypt(text.encode()))
    return str(path)


def test_an_encrypted_file_is_read_and_its_text_does_not_stay_on_disk(tmp_path: Path, scratch: Path) -> None:
    secret = encrypted(tmp_path / "secret.yml", yaml.safe_dump(ACCESS))
    values = encrypted(tmp_path / "values.yml", "nfd: {enabled: false}\n")
    arguments = {"manifests": [secret], "helm_values_files": [values]}
    spec = run_action("fabric_input", arguments, loader=loader_with("wrong", "right"))["spec"]
    assert [each["stringData"] for each in spec["objects"]] == [ACCESS["stringData"]]
    assert spec["settings"]["nfd"] is False
    # Which options the documentation has may be kept there, for the other processes of a run.
    assert {each.name for each in scratch.iterdir()} <= {"rdma_fabric_arguments"}


def test_a_relative_name_is_read_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted(tmp_path / "secret.yml", yaml.safe_dump(ACCESS))
    monkeypatch.chdir(tmp_path)
    loader = loader_with("right")
    loader.set_basedir("/nowhere")
    spec = run_action("fabric_input", {"manifests": ["secret.yml"]}, loader=loader)["spec"]
    assert spec["objects"][0]["metadata"]["name"] == "ufm"


@pytest.mark.parametrize("passwords", [(), ("wrong",)])
def test_without_its_secret_it_is_refused_with_the_rest_of_the_input(tmp_path: Path, passwords: tuple[str]) -> None:
    secret = encrypted(tmp_path / "secret.yml", yaml.safe_dump(ACCESS))
    arguments = {"manifests": [secret, str(tmp_path / "absent.yml")]}
    found = run_action("fabric_input", arguments, loader=loader_with(*passwords))["violations"]
    refused = {each["source"]: each for each in found}
    assert set(refused) == {secret, str(tmp_path / "absent.yml")}
    assert refused[secret]["problem"].startswith("is encrypted and cannot be decrypted: ")
    assert "--vault-password-file" in refused[secret]["hint"]


def test_a_flaw_has_its_line_in_the_text(tmp_path: Path) -> None:
    secret = encrypted(tmp_path / "secret.yml", "kind: Secret\napiVersion: v1\nkind: Secret\n")
    (violation,) = run_action("fabric_input", {"manifests": [secret]}, loader=loader_with("right"))["violations"]
    assert (violation["source"], violation["line"]) == (secret, 3)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.yml"
    encrypted(path, yaml.safe_dump(ACCESS))
    path.write_bytes(path.read_bytes()[:-80])
    (violation,) = run_action("fabric_input", {"manifests": [str(path)]}, loader=loader_with("right"))["violations"]
    assert violation["problem"].startswith("is encrypted and cannot be decrypted: ")


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_limit_counts_the_text(tmp_path: Path, beyond: int) -> None:
    text = json.dumps(ACCESS)
    secret = encrypted(tmp_path / "secret.yml", text.ljust(MAX_BYTES + beyond))
    assert Path(secret).stat().st_size > 2 * MAX_BYTES
    result = run_action("fabric_input", {"manifests": [secret]}, loader=loader_with("right"))
    assert [each["problem"] for each in result.get("violations", [])] == (
        [f"is {MAX_BYTES + 1} bytes long, at most {MAX_BYTES} are read"] if beyond else []
    )


def test_one_encrypted_value_in_a_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "secret.yml"
    path.write_text("stringData:\n  password: !vault |\n    $ANSIBLE_VAULT;1.1;AES256\n    3330\n")
    (violation,) = run_action("fabric_input", {"manifests": [str(path)]})["violations"]
    assert "encrypt the file as a whole" in violation["hint"]


def test_an_encrypted_kubeconfig_is_read_as_by_the_modules_of_kubernetes_core(tmp_path: Path, scratch: Path) -> None:
    cluster = {"name": "k", "cluster": {"server": "https://192.0.2.1:6443"}}
    context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [context],
        "clusters": [cluster],
    }
    path = encrypted(tmp_path / "kubeconfig", yaml.safe_dump({**access, "users": [{"name": "u", "user": {}}]}))
    action: Any = action_of("node_slot_info", {"unknown": 1}, loader=loader_with("right"))
    action._loader.set_basedir(str(tmp_path))
    for given in (path, "kubeconfig"):
        assert action.client({"kubeconfig": given}).server == "https://192.0.2.1:6443", "the latter beside the playbook"
    action.run(task_vars={})
    assert {each.name for each in scratch.iterdir()} <= {"rdma_fabric_arguments"}
    refused: Any = action_of("node_slot_info", {}, loader=loader_with("wrong"))
    with pytest.raises(ApiFault, match=r"is encrypted and cannot be decrypted: .*--vault-password-file"):
        refused.client({"kubeconfig": path})
