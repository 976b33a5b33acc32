# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release from end to end, of a copy of this checkout and with a throw-away key, and what its users verify."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import artifact
from tools.checkout import CHECKOUT, PROGRAMS, own_environment

NEXT = "0.1.1"
NOTE = "verify - the next release says so."
SIGNER = "release@example.com"


def run(*argv: str, folder: Path, expected: int = 0, **variables: str) -> str:
    """Run a command and return what it says; it has to end as expected."""
    environment = {**own_environment(folder / "collections"), **variables}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the home of a gpg that has one key."""
    home = tmp_path_factory.mktemp("gpg")  # short enough for the socket of its agent
    home.chmod(0o700)
    run(
        "gpg",
        "--batch",
        "--passphrase",
        "",
        "--quick-generate-key",
        SIGNER,
        "ed25519",
        folder=home,
        GNUPGHOME=str(home),
    )
    yield str(home)
    run("gpgconf", "--kill", "all", folder=home, GNUPGHOME=str(home))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of this checkout whose next version was prepared, committed and tagged."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=CHECKOUT)
    for name in filter(lambda name: name and not name.startswith("tests/"), listed.split("\0")):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, folder / name)
    fragments = folder / "changelogs" / "fragments"
    fragments.mkdir(exist_ok=True)
    (fragments / "next.yml").write_text(f"bugfixes:\n  - {NOTE}\n", encoding="utf-8")
    commit = [
        "git",
        "-c",
        "user.name=Release",
        "-c",
        f"user.email={SIGNER}",
        "commit",
        "--quiet",
        "--message",
        "Change",
    ]
    run("git", "init", "--quiet", folder=folder)
    run("git", "add", ".", folder=folder)
    run(sys.executable, "-m", "tools.release", NEXT, folder=folder, HOME=str(folder / "build"))
    run("git", "add", ".", folder=folder)
    run(*commit, folder=folder)
    run("git", "tag", NEXT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def released(copy: Path, keys: str) -> Path:
    """Return the folder of a release that was made beside work that goes on."""
    (copy / "docs" / "draft.md").write_text("Not of this release.\n", encoding="utf-8")
    run(sys.executable, "-m", "tools.release", folder=copy, GNUPGHOME=keys)
    return copy / "build" / "release"


def test_the_next_version_stands_everywhere_with_its_fragments_in_the_changelog(copy: Path) -> None:
    assert yaml.safe_load((copy / "galaxy.yml").read_text(encoding="utf-8"))["version"] == NEXT
    assert f'VERSION = "{NEXT}"' in (copy / "plugins/module_utils/_version.py").read_text(encoding="utf-8")
    changes = yaml.safe_load((copy / "changelogs/changelog.yaml").read_text(encoding="utf-8"))["releases"]
    assert changes[NEXT]["changes"] == {"bugfixes": [NOTE]}
    assert all(change["release_date"] for change in changes.values())
    assert not list((copy / "changelogs/fragments").iterdir())
    ours, theirs = ((folder / "CHANGELOG.md").read_text(encoding="utf-8") for folder in (CHECKOUT, copy))
    assert theirs.endswith(ours.partition("\n\n")[2].strip() + "\n"), "CHANGELOG.md: run antsibull-changelog generate"
    pages = "".join(path.read_text(encoding="utf-8") for path in [*copy.glob("*.md"), *copy.glob("docs/*.md")])
    assert set(re.findall(r"rdma-fabric[-:](\d+\.\d+\.\d+)", pages)) == {NEXT}


def test_a_release_is_of_its_tag_alone_and_can_be_made_again(copy: Path, released: Path, tmp_path: Path) -> None:
    name = f"rdma-fabric-{NEXT}"
    files = {f"{name}.tar.gz", f"{name}.asc", f"{name}.cdx.json", "SHA256SUMS", "SHA256SUMS.asc"}
    assert {path.name for path in released.iterdir()} == files
    with tarfile.open(released / f"{name}.tar.gz") as archive:
        assert "docs/draft.md" not in archive.getnames()
    run("git", "clone", "--quiet", str(copy), "again", folder=tmp_path)
    moment = run("git", "log", "-1", "--format=%ct", folder=copy).strip()
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOURCE_DATE_EPOCH", moment)
            again = artifact.build_artifact(tmp_path / "again", tmp_path)
    finally:
        os.umask(before)
    assert again.read_bytes() == (released / again.name).read_bytes()


def test_an_artifact_has_the_same_bytes_whatever_order_and_time_its_files_had(tmp_path: Path) -> None:
    packed = []
    for number, names in enumerate((("a.md", "b.md"), ("b.md", "a.md"))):
        path = tmp_path / f"{number}.tar.gz"
        files = [{"name": name, "ftype": "file"} for name in names]
        held = {"MANIFEST.json": {"file_manifest_file": {}}, "FILES.json": {"files": files}, **dict.fromkeys(names, "")}
        with tarfile.open(path, "w:gz") as archive:
            for name, content in held.items():
                member = tarfile.TarInfo(name)
                member.mtime, member.size = number + 0.5, len(text := json.dumps(content).encode())
                archive.addfile(member, io.BytesIO(text))
        artifact.pack_again(path)
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]


def test_sums_and_their_signature_are_right(released: Path, keys: str) -> None:
    said = run("gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS", folder=released, GNUPGHOME=keys)
    assert SIGNER in said
    lines = [line.split() for line in (released / "SHA256SUMS").read_text(encoding="utf-8").splitlines()]
    none_of(name for total, name in lines if total != sha256(released / name))
    assert {name for _total, name in lines} == {path.name for path in released.iterdir() if "SUMS" not in path.name}


def test_the_bill_of_materials_lists_every_locked_package(released: Path) -> None:
    bill = json.loads((released / f"rdma-fabric-{NEXT}.cdx.json").read_bytes())
    lock = (CHECKOUT / "requirements" / "run.txt").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    assert {(each["name"], each["version"]) for each in bill["components"]} == locked
    assert all(each["externalReferences"][0]["hashes"] for each in bill["components"])
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == ("rdma.fabric", NEXT)
    assert bill["metadata"]["timestamp"]


def test_ansible_galaxy_verifies_what_was_signed_and_refuses_what_was_changed(
    released: Path, keys: str, tmp_path: Path
) -> None:
    galaxy = [str(PROGRAMS / "ansible-galaxy"), "collection"]
    path = ["--collections-path", str(tmp_path / "collections")]
    run(*galaxy, "install", f"{released}/rdma-fabric-{NEXT}.tar.gz", *path, "--no-deps", "--offline", folder=tmp_path)
    signed = ["--keyring", f"{keys}/pubring.kbx", "--signature", f"file://{released}/rdma-fabric-{NEXT}.asc"]
    verify = [*galaxy, "verify", f"rdma.fabric:{NEXT}", *path, "--offline", *signed]
    run(*verify, folder=tmp_path)
    installed = tmp_path / "collections" / "ansible_collections" / "rdma" / "fabric"
    replaced(installed / "README.md", "ansible-galaxy", "another-galaxy")
    assert "    README.md\n" in run(*verify, folder=tmp_path, expected=1)
    # Whoever changes a file can change the sums that the collection has of its own files.
    (entry,) = [
        each for each in json.loads((installed / "FILES.json").read_bytes())["files"] if each["name"] == "README.md"
    ]
    old = sha256(installed / "FILES.json")
    replaced(installed / "FILES.json", entry["chksum_sha256"], sha256(installed / "README.md"))
    replaced(installed / "MANIFEST.json", old, sha256(installed / "FILES.json"))
    assert "Signature verification failed for 'rdma.fabric'" in run(*verify, folder=tmp_path, expected=1)


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
