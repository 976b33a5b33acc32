# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache of built programs: its key, its environment, and that nothing unfinished is ever used."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab import gobuild
from ansible_collections.rdma.fabric.tests.lab.gobuild import ModuleFile, ProgramsUnavailable, Recipe

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text("module example.com/lab\n\ngo 1.25.0\n")
    (module / "go.sum").write_text("example.com/x v1.0.0 h1:abc=\n")
    return Recipe("example", module, {"one": "example.com/one"}, "-s -w")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Kubernetes v1.35.4", (1, 35, 4)),
        ("Client Version: v1.36.0-rc.1\nKustomize Version: v5.7.1", (1, 36, 0)),
        ("etcd Version: 3.6.5\nGit SHA: 0d2a8e1", (3, 6, 5)),
        ("kwok version v0.7.0 go1.26.8 (linux/amd64)", (0, 7, 0)),
        ("go1.26", (1, 26)),
        ("go1.25.11 X:nocoverageredesign", (1, 25, 11)),
        ("devel +abc", None),
        ("", None),
    ],
)
def test_version_is_read_from_what_programs_say(text: str, version: tuple[int, ...] | None) -> None:
    assert gobuild.parse_version(text) == version


def test_cache_follows_the_base_directory_specification(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert gobuild.cache_root({}) == tmp_path / ".cache" / "rdma-fabric"
    assert gobuild.cache_root({"XDG_CACHE_HOME": "/var/cache/me"}) == Path("/var/cache/me/rdma-fabric")
    assert gobuild.cache_root({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "rdma-fabric"


def test_key_changes_with_every_input_and_with_nothing_else(recipe: Recipe, tmp_path: Path) -> None:
    key = gobuild.build_key(recipe, "x86_64")
    elsewhere = recipe._replace(module_dir=Path(shutil.copytree(recipe.module_dir, tmp_path / "other checkout")))
    assert gobuild.build_key(elsewhere, "x86_64") == key
    (elsewhere.module_dir / "go.sum").write_text("example.com/x v1.0.0 h1:abd=\n")
    others = {
        gobuild.build_key(elsewhere, "x86_64"),
        gobuild.build_key(recipe, "aarch64"),
        gobuild.build_key(recipe._replace(ldflags="-s"), "x86_64"),
        gobuild.build_key(recipe._replace(packages={"one": "example.com/two"}), "x86_64"),
    }
    (recipe.module_dir / "go.mod").write_text("module example.com/lab\n\ngo 1.26.0\n")
    others.add(gobuild.build_key(recipe, "x86_64"))
    (elsewhere.module_dir / "go.sum").write_text("example.com/x v1.0.0 h1:abc=\n")
    others.add(gobuild.build_key(elsewhere._replace(files=(ModuleFile("example.com/x", "run.sh"),)), "x86_64"))
    for source in ("package main\n", "package main // changed\n"):
        (elsewhere.module_dir / "main.go").write_text(source)
        others.add(gobuild.build_key(elsewhere, "x86_64"))
    assert len(others | {key}) == 9
    assert all(other.startswith("example-") for other in others)


def test_environment_keeps_proxies_and_drops_what_would_change_the_result() -> None:
    user = {
        "GOFLAGS": "-mod=vendor -tags=x",
        "GOOS": "windows",
        "GOARCH": "wasm",
        "GOWORK": "/home/me/go.work",
        "GOEXPERIMENT": "x",
        "GOROOT": "/nowhere",
        "CGO_ENABLED": "1",
        "GOPROXY": "https://proxy.example",
        "GOCACHE": "/cache",
        "HTTPS_PROXY": "http://proxy.example:3128",
    }
    env = gobuild.build_environment(user, "x86_64")
    assert env["GOFLAGS"] == "-mod=readonly"
    assert (env["GOOS"], env["GOARCH"], env["CGO_ENABLED"], env["GOWORK"]) == ("linux", "amd64", "0", "off")
    assert not {"GOEXPERIMENT", "GOROOT"} & set(env)
    assert {name: env[name] for name in ("GOPROXY", "GOCACHE", "HTTPS_PROXY")} == {
        "GOPROXY": "https://proxy.example",
        "GOCACHE": "/cache",
        "HTTPS_PROXY": "http://proxy.example:3128",
    }


def fake_go(directory: Path, says: str, status: int = 0) -> None:
    directory.mkdir(exist_ok=True)
    go = directory / "go"
    go.write_text(f"#!/bin/sh\n[ \"$GOTOOLCHAIN\" = local ] || exit 9\necho '{says}'\nexit {status}\n")
    go.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "status", "usable"),
    [("go1.25.0", 0, True), ("go1.26.8", 0, True), ("go1.24.9", 0, False), ("go1.26.8", 1, False), ("", 0, False)],
)
def test_installed_go_has_to_be_new_enough(tmp_path: Path, says: str, status: int, usable: bool) -> None:
    fake_go(tmp_path / "bin", says, status)
    found = gobuild.installed_go((1, 25, 0), {"PATH": str(tmp_path / "bin")})
    assert found == (str(tmp_path / "bin" / "go") if usable else None)


def test_build_runs_once_and_a_failed_one_leaves_nothing_to_use(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    calls = tmp_path / "calls"
    go.write_text(
        "#!/bin/sh\n"
        '[ "$1" = env ] && echo go1.26.0 && exit 0\n'
        f'echo "$PWD $GOFLAGS $*" >> {calls}\n'
        f"[ -e {tmp_path}/fail ] && echo 'network is unreachable' && exit 1\n"
        'while [ "$1" != -o ]; do shift; done; echo program > "$2"\n'
    )
    go.chmod(0o755)
    env = {"PATH": f"{go.parent}:/usr/bin:/bin", "GOFLAGS": "-mod=mod"}
    cache = tmp_path / "cache"
    lines: list[str] = []
    (tmp_path / "fail").touch()
    with pytest.raises(ProgramsUnavailable) as failure:
        gobuild.build(recipe, cache, env, lines.append)
    assert "network is unreachable" in str(failure.value)
    assert str(cache / "log") in str(failure.value)
    (tmp_path / "fail").unlink()
    directory = gobuild.build(recipe, cache, env, lines.append)
    assert (directory / "one").read_text() == "program\n"
    assert gobuild.build(recipe, cache, env, lines.append) == directory
    made = calls.read_text().splitlines()
    assert len(made) == 2
    assert made[1].startswith(f"{recipe.module_dir} -mod=readonly build -v -trimpath -mod=readonly -buildvcs=false")
    assert "building one (1 of 1 of example)" in lines


def interrupted_build(directory: Path) -> None:
    def make(target: Path) -> None:
        (target / "half").write_text("half")
        signal.raise_signal(signal.SIGKILL)

    gobuild.make_once(directory, "x", make, lambda line: None)


def test_a_killed_build_is_never_used(tmp_path: Path) -> None:
    directory = tmp_path / "result"
    builder = multiprocessing.get_context("fork").Process(target=interrupted_build, args=(directory,))
    builder.start()
    builder.join()
    assert builder.exitcode == -signal.SIGKILL
    assert not directory.exists()
    made = gobuild.make_once(directory, "x", lambda target: (target / "whole").touch(), lambda line: None)
    assert [path.name for path in made.iterdir()] == ["whole"]


SECOND_BUILDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.lab import gobuild
gobuild.PROGRESS_SECONDS = 0.1
def make(target):
    (target / "made").write_text(sys.argv[3])
    print("making", flush=True)
    sys.stdin.readline()
directory = gobuild.make_once(Path(sys.argv[2]), "x", make, lambda line: print(line, flush=True))
print((directory / "made").read_text())
"""


def test_two_checkouts_build_once(tmp_path: Path) -> None:
    def start(name: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", SECOND_BUILDER, str(CHECKOUT), str(tmp_path / "result"), name]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    first = start("first")
    assert first.stdout is not None
    assert first.stdout.readline() == "making\n"
    second = start("second")
    assert second.stdout is not None
    assert second.stdout.readline().startswith("waiting for another process that makes x")
    assert first.communicate("\n", timeout=30)[0] == "first\n"
    assert second.communicate("\n", timeout=30)[0].splitlines()[-1] == "first"


def test_a_build_in_progress_ends_when_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gobuild, "PROGRESS_SECONDS", 0.05)
    beat = tmp_path / "beat"

    def interrupt(_line: str) -> None:
        if beat.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gobuild.run_logged(
            ["sh", "-c", f"while :; do date +%N > {beat}; sleep 0.01; done"], tmp_path / "log", "x", interrupt
        )

    def beating() -> bool:
        last = beat.read_bytes()
        time.sleep(0.2)
        return beat.read_bytes() != last

    assert not beating() or not beating(), "a last beat may still be on its way, a second one is alive"
